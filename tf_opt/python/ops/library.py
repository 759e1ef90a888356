"""Loading of the library of custom ops."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import pathlib
import types
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tf_opt.python.tensorflow_internals import CUSTOM_OPS, missing

DISABLE_VARIABLE = "TF_OPT_DISABLE_CUSTOM_OPS"
CPU_TARGET_VARIABLE = "TF_OPT_CPU_TARGET"

# One folder per TensorFlow minor version, with the library and a description of
# what it was built against, which is readable even if the library can't be
# loaded.
_LIBRARIES = pathlib.Path(__file__).parent / "libraries"
_LIBRARY = "_tf_opt_ops.so"
_SOURCE = pathlib.Path(__file__).resolve().parents[3]
# Why the pure wheel loads none; what it lacks is no fault of the installation.
PURE = "this is the pure wheel, which has no compiled library"
_BUILT_AGAINST = "built_against.json"


class Library(NamedTuple):
    """The library of custom ops.

    Attributes:
        minors: The TensorFlow minor versions that this installation has
            libraries for, oldest first.
        built_against: The TensorFlow version that the library was compiled
            against; None without a library for the installed TensorFlow.
        cuda: The CUDA version that this installation's GPU kernels were
            compiled with; None without such kernels.
        minimum_driver: The lowest version of the NVIDIA driver that GPU kernels
            need; None without such kernels.
        ops: The module of generated op wrappers; None if it isn't loaded.
        problem: The reason why it isn't loaded; None if it is.
        cpu_target: The instruction set that the CPU kernels use in this
            process; None if it isn't loaded.
        handle: The library's functions that aren't ops; None if it isn't
            loaded.
    """

    minors: tuple[str, ...]
    built_against: str | None
    cuda: str | None
    minimum_driver: str | None
    ops: types.ModuleType | None = None
    problem: str | None = None
    cpu_target: str | None = None
    handle: ctypes.CDLL | None = None


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _find() -> dict[str, tuple[pathlib.Path, dict[str, str]]]:
    """Returns each library and its description, by TensorFlow minor version."""
    found = {}
    for description in _LIBRARIES.glob(f"*/{_BUILT_AGAINST}"):
        path = description.with_name(_LIBRARY)
        if path.exists():
            built = json.loads(description.read_text())
            found[_minor(built["tensorflow"])] = path, built
    return dict(
        sorted(found.items(), key=lambda x: [int(n) for n in x[0].split(".")])
    )


@functools.lru_cache(maxsize=1)
def library() -> Library:
    """Loads the library for the installed TensorFlow, once. Never raises."""
    found = _find()
    # A wheel's libraries were all built with the same CUDA.
    cuda = next((built for _, built in found.values()), {})
    path, built = found.get(_minor(tf.__version__), (None, {}))
    unloaded = Library(
        minors=tuple(found),
        built_against=built.get("tensorflow"),
        cuda=cuda.get("cuda") or None,
        minimum_driver=cuda.get("minimum_driver") or None,
    )
    disabled = os.environ.get(DISABLE_VARIABLE, "0").lower()
    if disabled not in ("", "0", "false"):
        return unloaded._replace(
            problem=f"{DISABLE_VARIABLE} is set; unset it to use them"
        )
    if not found:
        problem = PURE
        if (_SOURCE / "WORKSPACE").exists():
            problem = (
                f"this is the source tree, {_SOURCE}, and not the installed "
                "wheel: run Python from another folder"
            )
        return unloaded._replace(problem=problem)
    # TensorFlow's C++ interface changes with every minor version. A library for
    # another version may load and then crash, so it isn't tried.
    if path is None:
        return unloaded._replace(
            problem="this installation has no library for TensorFlow "
            f"{_minor(tf.__version__)}"
        )
    if CUSTOM_OPS in missing:
        return unloaded._replace(problem=missing[CUSTOM_OPS])
    try:
        ops = tf.load_op_library(str(path))
        handle = ctypes.CDLL(str(path))
    except (tf.errors.OpError, OSError) as error:
        return unloaded._replace(problem=f"it could not be loaded: {error}")
    for wrapper in vars(ops):
        if wrapper.startswith("TfOpt_"):
            # A tape then treats results as constants; otherwise it would raise
            # a LookupError. An earlier import may have registered it.
            with contextlib.suppress(KeyError):
                tf.no_gradient(wrapper.replace("_", ">", 1))
    handle.TfOptCpuTarget.restype = ctypes.c_char_p
    cpu_target = handle.TfOptCpuTarget().decode()
    wanted = os.environ.get(CPU_TARGET_VARIABLE)
    if wanted and wanted != cpu_target:
        warnings.warn(
            f"{CPU_TARGET_VARIABLE} must be baseline, avx2 or avx512, and one "
            f"that this processor has. Received: {wanted!r}. What runs is "
            f"{cpu_target}.",
            RuntimeWarning,
            stacklevel=2,
        )
    return unloaded._replace(ops=ops, cpu_target=cpu_target, handle=handle)


def functions() -> dict[str, Callable[..., Any]]:
    """Returns the generated functions of all ops by name, without `tf_opt_`."""
    ops, prefix = library().ops, "tf_opt_"
    return {
        name.removeprefix(prefix): function
        for name, function in (vars(ops) if ops else {}).items()
        if name.startswith(prefix) and not name.endswith("_eager_fallback")
    }


def explain_problem() -> str:
    """Returns why the custom ops can't run, and what to do about it."""
    loaded = library()
    minors = ", ".join(loaded.minors) or "none"
    minor = _minor(tf.__version__)
    # If there is a library, the problem says what to do.
    advice = ""
    if minor not in loaded.minors:
        advice = (
            f"Install a tf_opt wheel with a library for TensorFlow {minor}; "
        )
    return (
        f"tf_opt's custom ops are not available: {loaded.problem} (libraries "
        f"for TensorFlow {minors}, found {tf.__version__}). {advice}"
        "`python -m tf_opt` shows the details."
    )
