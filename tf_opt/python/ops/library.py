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
        cpu_target: The instruction set that its CPU kernels run with in this
            process; None if it isn't loaded.
    """

    ops: types.ModuleType | None
    problem: str | None
    built_against: str | None
    cpu_target: str | None


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _built_against() -> str | None:
    if not _BUILT_AGAINST.exists():
        return None
    return json.loads(_BUILT_AGAINST.read_text())["tensorflow"]


@functools.lru_cache(maxsize=1)
def library() -> Library:
    """Loads the library, once. Never raises."""
    built_against = _built_against()

    def unavailable(problem: str) -> Library:
        return Library(None, problem, built_against, None)

    if os.environ.get(DISABLE_VARIABLE, "0") not in ("", "0"):
        return unavailable(f"{DISABLE_VARIABLE} is set")
    if built_against is None or not _LIBRARY.exists():
        return unavailable("this installation has no compiled library")
    # TensorFlow's C++ interface changes with every minor version: a library
    # built for another one may load and then crash, so it isn't tried.
    if _minor(built_against) != _minor(tf.__version__):
        return unavailable("it was built for another TensorFlow")
    try:
        ops = tf.load_op_library(str(_LIBRARY))
        handle = ctypes.CDLL(str(_LIBRARY))
    except (tf.errors.OpError, OSError) as error:
        return unavailable(f"it could not be loaded: {error}")
    handle.TfOptCpuTarget.restype = ctypes.c_char_p
    return Library(ops, None, built_against, handle.TfOptCpuTarget().decode())


def explain_problem() -> str:
    """One sentence: why the custom ops can't run, and what to do."""
    loaded = library()
    return (
        f"tf_opt's custom ops are not available: {loaded.problem} "
        f"(built against TensorFlow {loaded.built_against or 'none'}, found "
        f"{tf.__version__}). Install the tf_opt wheel for TensorFlow "
        f"{_minor(tf.__version__)}; `python -m tf_opt` shows the details."
    )
