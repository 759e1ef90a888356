"""The programs of tests/gpu, with the engine for GPUs emulated.

That the engine itself is right, Bazel's tests check in the same way.
"""

from __future__ import annotations

import importlib.util
import pathlib
import subprocess

import pytest
from tf_opt.python.functional.rules import RULES

ROOT = pathlib.Path(__file__).parents[1]
BUILT = ROOT / "bazel-bin/tests/gpu"


@pytest.mark.skipif(
    not (BUILT / "speed").exists(),
    reason="`bazel build //tests/gpu:all` makes what this is about",
)
def test_speed_prints_what_the_table_is_made_of(monkeypatch):
    path = ROOT / "tests/gpu/measure.py"
    spec = importlib.util.spec_from_file_location("measure", path)
    measure = importlib.util.module_from_spec(spec)
    monkeypatch.syspath_prepend(path.parent)
    spec.loader.exec_module(measure)
    workloads = f"few\t10 7\nmany\t{'256 ' * 1000}\n"
    speed = measure.rows(
        subprocess.check_output(
            [BUILT / "speed", "1"], input=workloads, text=True
        )
    )
    # Each rule; those with optional slots also with them, and one in 16 bits.
    optional = [any(x.needed_by for x in spec.slots) for spec in RULES]
    cases = len(RULES) + sum(optional) + 1
    assert len(measure.table(speed, {}).splitlines()) == 2 + 2 * cases
    # How many launches there are doesn't depend on the machine.
    launches = {
        int(columns[0])
        for (workload, _), columns in speed.items()
        if workload == "many"
    }
    assert max(launches) <= 4
