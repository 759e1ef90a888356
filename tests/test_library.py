"""The library of custom ops: which is loaded, and what is said without one.

And what the installed ones show to their process.
"""

import importlib.metadata
import json
import pathlib
import platform
import re
import shutil

import pytest
import tensorflow as tf
import tf_opt
from elftools.elf.elffile import ELFFile

from processes import python

PACKAGE = pathlib.Path(tf_opt.__file__).parent
MINOR = ".".join(tf.__version__.split(".")[:2])
LIBRARIES = sorted(PACKAGE.glob("python/ops/libraries/*/_tf_opt_ops.so"))

TRAIN = """
import json
import warnings
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
    info = tf_opt.build_info()
found = {"value": variable.numpy().tolist(), "ops": info["custom_ops"]}
found["warnings"] = [
    f"{x.category.__name__} {x.message}"
    for x in caught
    if "tf_opt" in str(x.message)
]
try:
    tf_opt.Adam(0.1, implementation="custom_op").apply(
        [tf.constant([0.5, -0.5])], [keras.Variable([1.0, 2.0])])
except RuntimeError as error:
    found["forced"] = str(error)
try:
    tf_opt.ops.resource_apply_adam_amsgrad
except AttributeError as error:
    found["attribute"] = str(error)
print(json.dumps(found))
"""


def copy_package(tmp_path: pathlib.Path) -> pathlib.Path:
    target = tmp_path / "site" / "tf_opt"
    shutil.copytree(PACKAGE, target)
    return target


def library_folder(package: pathlib.Path) -> pathlib.Path:
    """Where the library for this TensorFlow lies."""
    return package / "python/ops/libraries" / MINOR


def pretend_built_against(folder: pathlib.Path, version: str) -> None:
    path = folder / "built_against.json"
    built = json.loads(path.read_text())
    path.write_text(json.dumps({**built, "tensorflow": version}))


def pretend_source_tree(folder: pathlib.Path) -> None:
    shutil.rmtree(folder.parent)
    (folder.parents[4] / "WORKSPACE").touch()


def break_library(folder: pathlib.Path) -> None:
    (folder / "_tf_opt_ops.so").write_text("not a library")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (None, "TF_OPT_DISABLE_CUSTOM_OPS is set"),
        (pretend_source_tree, "run Python from another folder"),
        (
            lambda folder: pretend_built_against(folder, "2.99.1"),
            f"no library for TensorFlow {MINOR} (libraries",
        ),
        (break_library, "could not be loaded"),
    ],
)
def test_without_the_library_one_warning_and_the_same_numbers(
    spoil, reason, tmp_path
):
    if spoil:
        package = copy_package(tmp_path)
        spoil(library_folder(package))
        output = python.run(TRAIN, package)
    else:
        output = python.run(TRAIN, TF_OPT_DISABLE_CUSTOM_OPS="1")
    found = json.loads(output)
    # Twice: less 0.1 %, the decay, and less or plus 0.1, the step.
    assert found["value"] == pytest.approx([0.798101, 2.195902], abs=1e-6)
    (warning,) = found["warnings"]
    assert warning.startswith("RuntimeWarning")
    assert f"found {tf.__version__}" in warning
    for said in (warning, found["forced"], found["attribute"]):
        assert reason in said
    assert found["ops"] != "loaded"


ON_A_MAC = """
import builtins, logging, os, runpy, sys
import keras, tensorflow

read = builtins.open
def open_none_of_linux(path, *args, **kwargs):
    if str(path).startswith("/proc"):
        raise FileNotFoundError(path)
    return read(path, *args, **kwargs)

logging.basicConfig(stream=sys.stdout, level=logging.INFO)
builtins.open, sys.platform = open_none_of_linux, "darwin"
del os.sched_getaffinity
sys.argv = ["tf_opt", "--report"]
runpy.run_module("tf_opt", run_name="__main__")
"""


def test_the_pure_wheel_trains_on_a_mac_and_says_so_in_one_line(tmp_path):
    package = copy_package(tmp_path)
    shutil.rmtree(library_folder(package).parent)
    output = python.run(ON_A_MAC + TRAIN, package)
    (line,) = re.findall("INFO:tf_opt:.*", output)
    assert "pure wheel" in line
    assert re.search("wheel +pure", output)
    assert re.search(r"processor .* \d+ cores", output)
    found = json.loads(output.splitlines()[-1])
    assert found["value"][0] == pytest.approx(0.798, abs=1e-3)
    assert found["warnings"] == []
    assert "no compiled library" in found["forced"]


def test_with_the_library_no_warning():
    assert LIBRARIES
    found = json.loads(python.run(TRAIN))
    assert found.keys() == {"value", "ops", "warnings"}
    assert found["ops"] == "loaded"
    assert found["warnings"] == []


def test_the_library_for_the_tensorflow_found_is_loaded(tmp_path):
    package = copy_package(tmp_path)
    own = library_folder(package)
    # This TensorFlow calls itself 2.98, and others' libraries don't load here.
    for minor in ("2.9", "2.98", "2.100"):
        shutil.copytree(own, own.with_name(minor), dirs_exist_ok=True)
        pretend_built_against(own.with_name(minor), f"{minor}.0")
        if minor != "2.98":
            break_library(own.with_name(minor))
    break_library(own)
    output = python.run(
        """
        import tensorflow as tf
        tf.__version__ = "2.98.7"
        import tf_opt
        info = tf_opt.build_info()
        print(info["custom_ops"], info["built_against"], info["libraries"])
        """,
        package,
    )
    loaded, against, libraries = output.strip().split(maxsplit=2)
    assert (loaded, against) == ("loaded", "2.98.0")
    # Sorted as numbers.
    assert libraries.startswith("for TensorFlow 2.9, ")
    assert libraries.endswith(", 2.98, 2.100")


def test_another_keras_backend_is_a_clear_import_error():
    result = python.run_alone("-c", "import tf_opt", KERAS_BACKEND="numpy")
    assert result.returncode != 0
    assert "ImportError: tf_opt needs Keras" in result.stderr
    assert "TensorFlow backend" in result.stderr
    assert 'KERAS_BACKEND="tensorflow"' in result.stderr


@pytest.mark.slow
def test_it_can_be_imported_again(tmp_path):
    """As extensions of notebooks and Streamlit do after a change of a file."""
    output = python.run(
        f"""
        import sys, warnings
        import keras
        import numpy as np
        import tensorflow as tf
        from tensorflow.python.autograph.core import config

        x, classes = np.ones((4, 3), "float32"), []
        warnings.filterwarnings("error", message=".*tf_opt")
        for again in range(3):
            import tf_opt
            rules = len(config.CONVERSION_RULES)
            optimizer = tf_opt.Adam(implementation="custom_op", clipnorm=1.0)
            model = keras.Sequential([keras.layers.Dense(1)])
            model.compile(optimizer, "mse")
            model.fit(x, x[:, :1], verbose=0)
            model.save({str(tmp_path / "model.keras")!r})
            loaded = keras.models.load_model({str(tmp_path / "model.keras")!r})
            assert type(loaded.optimizer) is tf_opt.Adam
            loaded.fit(x, x[:, :1], verbose=0)
            with tf.GradientTape():
                loaded.optimizer.apply([tf.zeros((3, 1)), tf.zeros(1)])
            print(loaded.optimizer.iterations.numpy(), rules)
            classes.append(tf_opt.Adam)
            for name in list(sys.modules):
                if name.split(".")[0] == "tf_opt":
                    del sys.modules[name]
        assert len(set(classes)) == 3
        """
    )
    first, *others = output.splitlines()
    assert first.startswith("3 ")
    assert others == [first, first]


def python_m_tf_opt(*arguments: str, **environment: str) -> str:
    return python.run(
        f"""
        import runpy, sys, warnings
        warnings.filterwarnings("error", ".*TF_OPT")
        sys.argv[1:] = {arguments}
        runpy.run_module("tf_opt", run_name="__main__", alter_sys=True)
        """,
        **environment,
    )


def test_a_report_has_what_changes_what_runs_and_no_secrets():
    info = tf_opt.build_info()
    assert info["custom_ops"] == "loaded"
    assert info["cpu_kernels"] in ("baseline", "avx2", "avx512", "neon")
    assert info["tensorflow"] == tf.__version__
    assert info["built_against"].split(".")[:2] == tf.__version__.split(".")[:2]
    found = tf.config.get_visible_devices("GPU")
    assert (info["gpus"] == "none found") == (not found)
    printed = python_m_tf_opt()
    assert dict(x.split(maxsplit=1) for x in printed.splitlines()) == info
    printed = python_m_tf_opt(
        "--report", TF_OPT_CPU_TARGET="baseline", TF_TOKEN_host="secret"
    )
    found = dict(x.split(maxsplit=1) for x in printed.splitlines())
    assert info.keys() < found.keys()
    assert found["cpu_kernels"] == "baseline"
    assert found["python"] == platform.python_version()
    assert "cores" in found["processor"]
    assert "TF_OPT_CPU_TARGET=baseline" in found["environment"]
    assert "secret" not in printed


def test_build_info_tells_the_wheels_apart(tmp_path):
    package = copy_package(tmp_path)
    built_against = library_folder(package) / "built_against.json"
    built = json.loads(built_against.read_text())
    commit = package / "commit.txt"
    code = "import tf_opt; i = tf_opt.build_info(); print(i['wheel']);"
    code += "print(i['cuda_kernels']); print(i['commit'])"
    commit.write_text("0123abc+changes")
    for cuda, wheel, kernels in [
        ("", "CPU", "unused: this is the wheel without kernels for GPUs"),
        ("12.5", "GPU and CPU (CUDA 12.5", "unused: "),
    ]:
        built_against.write_text(
            json.dumps({**built, "cuda": cuda, "minimum_driver": "530"})
        )
        found = python.run(code, package, CUDA_VISIBLE_DEVICES="-1")
        lines = found.splitlines()
        assert lines[0].startswith(wheel)
        assert ("driver 530 or later" in lines[0]) == bool(cuda)
        assert lines[1].startswith(kernels)
        assert lines[2] == ("unknown" if cuda else "0123abc+changes")
        commit.unlink(missing_ok=True)


def test_an_instruction_set_that_there_is_not_is_said():
    output = python.run(
        """
        import warnings
        with warnings.catch_warnings(record=True) as caught:
            import tf_opt
        print(tf_opt.build_info()["cpu_kernels"])
        print(*(w.message for w in caught if "TF_OPT" in str(w.message)))
        """,
        TF_OPT_CPU_TARGET="avx1024",
    )
    runs, said = output.splitlines()
    assert f"Received: 'avx1024'. What runs is {runs}" in said


# ---- What the libraries show. ----

# What Python calls by name.
MAY_BE_EXPORTED = {"TfOptCpuTarget", "TfOptGpuProblem"}


@pytest.fixture(params=LIBRARIES, ids=lambda path: path.parent.name)
def elf(request):
    with open(request.param, "rb") as stream:
        yield ELFFile(stream)


def test_only_what_python_calls_is_exported(elf):
    exported = {
        symbol.name
        for symbol in elf.get_section_by_name(".dynsym").iter_symbols()
        if symbol["st_shndx"] != "SHN_UNDEF"
    }
    assert "TfOptCpuTarget" in exported
    assert exported <= MAY_BE_EXPORTED


def test_it_needs_tensorflow_in_no_folder_of_the_build(elf):
    tags = list(elf.get_section_by_name(".dynamic").iter_tags())
    assert not {x.entry.d_tag for x in tags} & {"DT_RPATH", "DT_RUNPATH"}
    needed = [x.needed for x in tags if x.entry.d_tag == "DT_NEEDED"]
    # By the name under which the process has it, not auditwheel's copy.
    tensorflow = [name for name in needed if "tensorflow" in name]
    assert tensorflow == ["libtensorflow_framework.so.2"]


@pytest.mark.skipif(
    platform.libc_ver() > ("glibc", "2.36"),
    reason="newer compilers take more from newer systems: see ./pip_pkg.sh",
)
def test_the_wheel_is_for_the_systems_that_the_readme_names():
    wheel = importlib.metadata.distribution("tf_opt").read_text("WHEEL")
    (minor,) = re.findall(r"manylinux_2_(\d+)", wheel)
    assert int(minor) <= 28


def test_the_wheel_lists_what_is_compiled_in():
    wheel = importlib.metadata.distribution("tf_opt")
    lists = {
        path.name: path.read_text()
        for path in wheel.files
        if path.parent.name in ("licenses", "sboms")
    }
    contents = json.loads(lists["tf_opt.cdx.json"])
    assert contents["metadata"]["component"]["version"] == wheel.version
    found = {(x["name"], x["version"]) for x in contents["components"]}
    for path in LIBRARIES:
        built = path.with_name("built_against.json").read_text()
        assert ("TensorFlow", json.loads(built)["tensorflow"]) in found
    names = {name for name, _ in found}
    assert {"Abseil", "Protocol Buffers"} <= names
    notices = lists["THIRD_PARTY_NOTICES.md"]
    assert not [name for name in names if f"\n| {name} |" not in notices]
