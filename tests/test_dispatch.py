"""Which implementation runs, and what is said where the custom op can't."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap
import types
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt
from tf_opt.python import dispatch
from tf_opt.python import tensorflow_internals
from tf_opt.python.ops import gpu
from tf_opt.python.ops import library

from xla_kernels import needs_xla_kernels

PACKAGE = pathlib.Path(tf_opt.__file__).parent
MINOR = ".".join(tf.__version__.split(".")[:2])

TRAIN = """
import warnings
import numpy as np
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import tensorflow as tf, keras, tf_opt
    # Fails once TensorFlow is initialized, which no import may do.
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * 2,
    )
    for optimizer in (tf_opt.Adam(0.1), tf_opt.Adam(0.1), tf_opt.AdamW(0.1)):
        variable = keras.Variable([1.0, 2.0])
        optimizer.apply([tf.constant([0.5, -0.5])], [variable])
        optimizer.apply([tf.constant([0.5, -0.5])], [variable])
    print("VALUE", variable.numpy().tolist())
    print("OPS", tf_opt.build_info()["custom_ops"])
for warning in caught:
    if "tf_opt" in str(warning.message):
        print("WARNING", warning.category.__name__, warning.message)
try:
    tf_opt.Adam(0.1, implementation="custom_op").apply(
        [tf.constant([0.5, -0.5])], [keras.Variable([1.0, 2.0])])
except RuntimeError as error:
    print("FORCED", error)
"""


def run_python(code: str, package: pathlib.Path | None = None, **environment):
    """Runs code in a process of its own, perhaps with another tf_opt."""
    environment = {**os.environ, **environment}
    if package is not None:
        environment["PYTHONPATH"] = str(package.parent)
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env=environment,
        # Not the source tree, whose package `python -c` would import.
        cwd="/",
    )


def copy_package(tmp_path: pathlib.Path) -> pathlib.Path:
    target = tmp_path / "site" / "tf_opt"
    shutil.copytree(PACKAGE, target)
    return target


def disabled(tmp_path):
    return {"TF_OPT_DISABLE_CUSTOM_OPS": "1"}, None


def library_folder(package: pathlib.Path) -> pathlib.Path:
    """Where the library for this TensorFlow lies."""
    return package / "python/ops/libraries" / MINOR


def library_missing(tmp_path):
    package = copy_package(tmp_path)
    shutil.rmtree(library_folder(package).parent)
    return {}, package


def pretend_built_against(folder: pathlib.Path, version: str) -> None:
    path = folder / "built_against.json"
    built = json.loads(path.read_text())
    path.write_text(json.dumps({**built, "tensorflow": version}))


def another_tensorflow(tmp_path):
    package = copy_package(tmp_path)
    pretend_built_against(library_folder(package), "2.99.1")
    return {}, package


def not_a_library(tmp_path):
    package = copy_package(tmp_path)
    (library_folder(package) / "_tf_opt_ops.so").write_text("not a library")
    return {}, package


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (disabled, "TF_OPT_DISABLE_CUSTOM_OPS is set"),
        (library_missing, "no compiled library"),
        (another_tensorflow, f"no library for TensorFlow {MINOR} (libraries"),
        (not_a_library, "could not be loaded"),
    ],
)
def test_without_the_library_one_warning_and_the_same_numbers(
    broken, reason, tmp_path
):
    environment, package = broken(tmp_path)
    result = run_python(TRAIN, package, **environment)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    (value,) = [line for line in lines if line.startswith("VALUE")]
    np.testing.assert_allclose(
        json.loads(value.removeprefix("VALUE ")),
        # Twice: less 0.1 %, the decay, and less or plus 0.1, the step.
        [0.798101, 2.195902],
        atol=1e-6,
    )
    warnings = [line for line in lines if line.startswith("WARNING")]
    assert len(warnings) == 1, result.stdout
    assert warnings[0].startswith("WARNING RuntimeWarning")
    assert reason in warnings[0]
    assert f"found {tf.__version__}" in warnings[0]
    (forced,) = [line for line in lines if line.startswith("FORCED")]
    assert reason in forced
    assert "OPS loaded" not in lines


def test_with_the_library_no_warning():
    result = run_python(TRAIN)
    assert result.returncode == 0, result.stderr
    assert "OPS loaded" in result.stdout
    assert "WARNING" not in result.stdout
    assert "FORCED" not in result.stdout


def test_the_library_for_the_tensorflow_found_is_loaded(tmp_path):
    package = copy_package(tmp_path)
    own = library_folder(package)
    # This TensorFlow calls itself 2.98, and others' libraries don't load here.
    shutil.copytree(own, own.with_name("2.98"))
    pretend_built_against(own.with_name("2.98"), "2.98.0")
    for minor in ("2.9", "2.100"):
        shutil.copytree(own, own.with_name(minor), dirs_exist_ok=True)
        pretend_built_against(own.with_name(minor), f"{minor}.0")
    for path in own.parent.glob("*/_tf_opt_ops.so"):
        if path.parent.name != "2.98":
            path.write_text("not a library")
    result = run_python(
        """
        import tensorflow as tf
        tf.__version__ = "2.98.7"
        import tf_opt
        info = tf_opt.build_info()
        print(info["custom_ops"], info["built_against"], info["libraries"])
        """,
        package,
    )
    assert result.returncode == 0, result.stderr
    loaded, against, libraries = result.stdout.strip().split(maxsplit=2)
    assert (loaded, against) == ("loaded", "2.98.0")
    # Sorted as numbers.
    assert libraries.startswith("for TensorFlow 2.9, ")
    assert libraries.endswith(", 2.98, 2.100")


def test_where_no_library_fits_the_message_names_those_there_are(
    monkeypatch, tmp_path
):
    for minor in ("2.98", "2.99"):
        (tmp_path / minor).mkdir()
        (tmp_path / minor / "_tf_opt_ops.so").touch()
        (tmp_path / minor / "built_against.json").write_text(
            json.dumps({"tensorflow": f"{minor}.1"})
        )
    monkeypatch.setattr(library, "_LIBRARIES", tmp_path)
    monkeypatch.setattr(library, "library", library.library.__wrapped__)
    message = library.explain_problem()
    assert f"no library for TensorFlow {MINOR}" in message
    assert "(libraries for TensorFlow 2.98, 2.99, found" in message
    assert tf_opt.build_info()["libraries"] == "for TensorFlow 2.98, 2.99"


# Keras may or may not be able to import them here: clear either way.
@pytest.mark.parametrize("backend", ["torch", "numpy"])
def test_another_keras_backend_is_a_clear_import_error(backend):
    result = run_python("import tf_opt", KERAS_BACKEND=backend)
    assert result.returncode != 0
    assert "ImportError: tf_opt needs Keras" in result.stderr
    assert "TensorFlow backend" in result.stderr
    assert 'KERAS_BACKEND="tensorflow"' in result.stderr


def test_python_m_tf_opt_prints_build_info():
    result = subprocess.run(
        [sys.executable, "-m", "tf_opt"],
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert result.returncode == 0, result.stderr
    for key, value in tf_opt.build_info().items():
        (line,) = [x for x in result.stdout.splitlines() if x.split()[0] == key]
        assert value in line


def test_build_info_names_what_runs():
    info = tf_opt.build_info()
    assert info["custom_ops"] == "loaded"
    assert info["cpu_kernels"] in ("baseline", "avx2", "avx512")
    assert info["tensorflow"] == tf.__version__
    assert info["built_against"].split(".")[:2] == tf.__version__.split(".")[:2]
    found = tf.config.list_physical_devices("GPU")
    assert (info["gpus"] == "none found") == (not found)


def test_build_info_tells_the_wheels_apart(tmp_path):
    package = copy_package(tmp_path)
    built_against = library_folder(package) / "built_against.json"
    built = json.loads(built_against.read_text())
    code = "import tf_opt; i = tf_opt.build_info(); print(i['wheel']);"
    code += "print(i['cuda_kernels'])"
    for cuda, wheel, kernels in [
        ("", "CPU", "unused: this is the wheel without kernels for GPUs"),
        ("12.5", "GPU and CPU (CUDA 12.5", "unused: "),
    ]:
        built_against.write_text(
            json.dumps({**built, "cuda": cuda, "minimum_driver": "530"})
        )
        result = run_python(code, package, CUDA_VISIBLE_DEVICES="-1")
        assert result.returncode == 0, result.stderr
        lines = result.stdout.splitlines()
        assert lines[0].startswith(wheel)
        assert ("driver 530 or later" in lines[0]) == bool(cuda)
        assert lines[1].startswith(kernels)


@pytest.fixture
def pretend_gpu(monkeypatch):
    """Has TensorFlow find a GPU, for a wheel that has kernels for it."""

    def pretend(
        capability: tuple[int, int], driver_problem: bytes | None
    ) -> None:
        device = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")
        handle = types.SimpleNamespace(
            TfOptCudaDriverProblem=mock.Mock(return_value=driver_problem)
        )
        loaded = library.library()._replace(
            cuda="13.0", minimum_driver="580", handle=handle
        )
        monkeypatch.setattr(library, "library", lambda: loaded)
        monkeypatch.setattr(
            tf.config, "list_physical_devices", lambda kind: [device]
        )
        monkeypatch.setattr(
            tf.config.experimental,
            "get_device_details",
            lambda _: {"device_name": "X", "compute_capability": capability},
        )
        monkeypatch.setattr(tf.test, "is_built_with_cuda", lambda: True)
        monkeypatch.setattr(
            tensorflow_internals,
            "registered_kernels",
            lambda _: {("GPU", tf.float32)},
        )
        monkeypatch.setattr(gpu, "problem", gpu.problem.__wrapped__)

    return pretend


@pytest.mark.parametrize(
    ("capability", "driver_problem", "message"),
    [
        ((8, 0), None, None),
        ((12, 1), None, None),
        ((7, 5), None, "compute capability 7.5, but the kernels are for 8.0"),
        ((9, 0), b"it is old", r"it is old \(needed: driver 580 or later\)"),
    ],
)
def test_a_gpu_that_the_kernels_are_not_for_runs_the_composed_implementation(
    pretend_gpu, capability, driver_problem, message
):
    pretend_gpu(capability, driver_problem)

    def runs(implementation: str) -> bool:
        return dispatch.runs_custom_op(implementation, OP, tf.float32, "GPU:0")

    info = tf_opt.build_info()
    assert info["gpus"] == "X"
    if message is None:
        assert runs("auto")
        assert runs("custom_op")
        assert info["cuda_kernels"] == "loaded"
        return
    with pytest.warns(RuntimeWarning, match=message):
        assert not runs("auto")
    with pytest.raises(RuntimeError, match=message):
        runs("custom_op")
    assert re.search(message, info["cuda_kernels"])


def ops_of(optimizer, variable, **function_arguments) -> set[str]:
    optimizer.build([variable])

    @tf.function(**function_arguments)
    def step() -> None:
        optimizer.apply([tf.ones_like(variable.value)], [variable])

    graph = step.get_concrete_function().graph
    return {op.type for op in graph.get_operations()}


OP = "TfOpt>ResourceApplyAdamAmsgrad"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_auto_chooses_the_custom_op(dtype):
    variable = keras.Variable([1.0], dtype=dtype)
    assert OP in ops_of(tf_opt.Adam(), variable)


def test_composed_is_composed():
    variable = keras.Variable([1.0])
    assert OP not in ops_of(tf_opt.Adam(implementation="composed"), variable)


@needs_xla_kernels
@pytest.mark.parametrize("traced_before", [False, True])
def test_xla_compiles_the_op_also_in_nested_functions(traced_before):
    variable = keras.Variable([1.0])
    assert OP in ops_of(tf_opt.Adam(), variable, jit_compile=True)
    optimizer = tf_opt.Adam(0.1)
    optimizer.build([variable])

    @tf.function
    def inner() -> None:
        optimizer.apply([tf.constant([2.0])], [variable])

    @tf.function(jit_compile=True)
    def outer() -> None:
        inner()

    if traced_before:
        inner()
    outer()
    assert optimizer.implementation_in_use == "custom_op"
    assert variable.numpy() == pytest.approx(0.8 if traced_before else 0.9)


def test_without_an_xla_kernel_auto_composes_and_custom_op_says_why(
    monkeypatch,
):
    kernels = tensorflow_internals.registered_kernels(OP)
    monkeypatch.setattr(
        tensorflow_internals,
        "registered_kernels",
        lambda op: {pair for pair in kernels if "XLA" not in pair[0]},
    )
    variable = keras.Variable([1.0])
    assert OP not in ops_of(tf_opt.Adam(), variable, jit_compile=True)
    with pytest.raises(
        RuntimeError,
        match=r'implementation="custom_op" can\'t run .* no XLA kernel .*'
        r"jit_compile=True.*implementation=\"auto\"",
    ):
        ops_of(
            tf_opt.Adam(implementation="custom_op"), variable, jit_compile=True
        )


def test_auto_clustering_leaves_the_op_alone():
    code = """
        import keras, tensorflow as tf, tf_opt
        variable = keras.Variable([1.0] * 64)
        optimizer = tf_opt.Adam(0.1)
        optimizer.build([variable])

        @tf.function
        def step():
            gradient = tf.exp(variable.value * 0.0) * 2.0 + 1.0
            optimizer.apply([gradient * gradient], [variable])

        step(), step()
        print(optimizer.implementation_in_use, variable.numpy()[0].round(3))
        """
    flags = "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit"
    result = run_python(code, TF_XLA_FLAGS=flags, TF_CPP_MIN_LOG_LEVEL="0")
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["custom_op", "0.8"]
    # That XLA compiled something at all, but nothing of ours.
    assert "Compiled cluster using XLA" in result.stderr
    assert "TfOpt>" not in result.stderr


def test_auto_composes_where_there_is_no_kernel():
    variable = keras.Variable(np.array([1 + 2j], "complex64"))
    assert OP not in ops_of(tf_opt.Adam(), variable)
    with pytest.raises(RuntimeError, match="no CPU kernel for complex64"):
        tf_opt.Adam(implementation="custom_op").apply(
            [tf.constant([1 + 1j])], [variable]
        )


def test_complex_variables_are_updated_as_two_reals():
    variable = keras.Variable(np.array([1 + 2j], "complex64"))
    optimizer = tf_opt.Adam(0.1)
    optimizer.apply([tf.constant([3 - 4j], tf.complex64)], [variable])
    np.testing.assert_allclose(variable.numpy(), [0.9 + 2.1j], atol=1e-6)
    assert optimizer.variables[2].dtype == "complex64"


@pytest.mark.parametrize(
    ("target", "warns"), [("avx1024", True), ("baseline", False)]
)
def test_an_instruction_set_that_there_is_not_is_said(target, warns):
    code = """
        import warnings
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            import tf_opt
        print(tf_opt.build_info()["cpu_kernels"])
        print(*(w.message for w in caught if "TF_OPT" in str(w.message)))
        """
    result = run_python(code, TF_OPT_CPU_TARGET=target)
    assert result.returncode == 0, result.stderr
    runs, said = result.stdout.splitlines()
    assert (f"Received: {target!r}. What runs is {runs}" in said) == warns


def test_in_the_source_tree_the_message_says_so(tmp_path):
    package = copy_package(tmp_path)
    shutil.rmtree(package / "python/ops/libraries")
    (package.parent / "WORKSPACE").touch()
    result = run_python(
        'import tf_opt; print(tf_opt.build_info()["custom_ops"])', package
    )
    assert "this is the source tree" in result.stdout, result.stderr
    assert "run Python from another folder" in result.stdout
