"""What pytest needs; TensorFlow and fixtures are in shared_fixtures.py."""

import gc
import importlib.util
import os
import pathlib

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def pytest_configure(config: pytest.Config) -> None:
    """Registers the markers and checks what is under test."""
    for marker in (
        "core: what meets Keras; it also runs on older Kerases",
        "needs_library: of the core, but the pure wheel can't pass it",
        "kernels: it also runs on other builds and other TensorFlows",
        "slow: left out of `make test`, as quicker tests meet the same code",
    ):
        config.addinivalue_line("markers", marker)
    source = pathlib.Path(__file__).parents[1] / "tf_opt"
    imported = pathlib.Path(importlib.util.find_spec("tf_opt").origin).parent
    if imported.resolve() == source.resolve():
        raise pytest.UsageError(
            "The tests are for the installed wheel, but `import tf_opt` found "
            f"the source tree, {source}, which has no compiled ops. Run "
            "`make test`, or run `pytest` (not `python -m pytest`) where the "
            "wheel is installed."
        )
    # A process that only starts others runs no test. It needs no TensorFlow,
    # whose import takes seconds for which they would wait.
    starts_others = (
        config.getoption("dist", "no") != "no"
        and not config.option.collectonly
        and not hasattr(config, "workerinput")
    )
    if not starts_others:
        config.pluginmanager.import_plugin("shared_fixtures")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins with slow tests, so that no process waits for one at the end."""
    items.sort(key=lambda item: "slow" not in item.keywords)


def pytest_collection_finish() -> None:
    """Leaves modules and tests out of what Python searches for garbage."""
    gc.collect()
    gc.freeze()
