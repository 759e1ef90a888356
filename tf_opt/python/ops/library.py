"""Loads the library of custom ops, or says why it can't be."""

from __future__ import annotations

import ctypes
import functools
import json
import os
import pathlib
import types
from typing import NamedTuple

import tensorflow as tf

DISABLE_VARIABLE = "TF_OPT_DISABLE_CUSTOM_OPS"

_FOLDER = pathlib.Path(__file__).parent
_LIBRARY = _FOLDER / "_tf_opt_ops.so"
_BUILT_AGAINST = _FOLDER / "built_against.json"


class Library(NamedTuple):
    """The library of custom ops.

    Attributes:
        ops: The module of generated op wrappers; None if it isn't loaded.
        problem: Why it isn't loaded; None if it is.
        built_against: The TensorFlow version it was compiled against; None if
            there is no library.
        cuda: The version of CUDA that its GPU kernels were compiled with; None
            if it has none.
        minimum_driver: The first NVIDIA driver that these run with; None if it
            has none.
        cpu_target: The instruction set that its CPU kernels run with in this
            process; None if it isn't loaded.
        handle: For its functions that aren't ops; None if it isn't loaded.
    """

    ops: types.ModuleType | None
    problem: str | None
    built_against: str | None
    cuda: str | None
    minimum_driver: str | None
    cpu_target: str | None
    handle: ctypes.CDLL | None


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


@functools.lru_cache(maxsize=1)
def library() -> Library:
    """Loads the library, once. Never raises."""
    built: dict[str, str] = {}
    if _BUILT_AGAINST.exists():
        built = json.loads(_BUILT_AGAINST.read_text())
    unloaded = Library(
        ops=None,
        problem=None,
        built_against=built.get("tensorflow"),
        cuda=built.get("cuda") or None,
        minimum_driver=built.get("minimum_driver") or None,
        cpu_target=None,
        handle=None,
    )
    if os.environ.get(DISABLE_VARIABLE, "0") not in ("", "0"):
        return unloaded._replace(problem=f"{DISABLE_VARIABLE} is set")
    if not built or not _LIBRARY.exists():
        return unloaded._replace(
            problem="this installation has no compiled library"
        )
    # TensorFlow's C++ interface changes with every minor version: a library
    # built for another one may load and then crash, so it isn't tried.
    if _minor(built["tensorflow"]) != _minor(tf.__version__):
        return unloaded._replace(problem="it was built for another TensorFlow")
    try:
        ops = tf.load_op_library(str(_LIBRARY))
        handle = ctypes.CDLL(str(_LIBRARY))
    except (tf.errors.OpError, OSError) as error:
        return unloaded._replace(problem=f"it could not be loaded: {error}")
    handle.TfOptCpuTarget.restype = ctypes.c_char_p
    return unloaded._replace(
        ops=ops, cpu_target=handle.TfOptCpuTarget().decode(), handle=handle
    )


def explain_problem() -> str:
    """One sentence: why the custom ops can't run, and what to do."""
    loaded = library()
    return (
        f"tf_opt's custom ops are not available: {loaded.problem} "
        f"(built against TensorFlow {loaded.built_against or 'none'}, found "
        f"{tf.__version__}). Install the tf_opt wheel for TensorFlow "
        f"{_minor(tf.__version__)}; `python -m tf_opt` shows the details."
    )
