"""The op that only moves a step's bytes."""

import functools
import os
import pathlib
import types

import tensorflow as tf

_ROOT = pathlib.Path(__file__).parents[1]
_LIBRARY = _ROOT / "bazel-bin/benchmarks/_memory_floor.so"


@functools.cache
def load() -> types.ModuleType:
    """Loads the op."""
    if not _LIBRARY.exists():
        raise FileNotFoundError(
            f"Expected the memory floor's op in {_LIBRARY}, which is "
            "not there. Run `make bench`: it builds it first."
        )
    return tf.load_op_library(os.fspath(_LIBRARY))


def move(
    gradient: tf.Tensor, rows: tf.Tensor, arrays: list[tf.Variable]
) -> None:
    """Reads a gradient, and reads and writes some rows of arrays.

    Rows must be sorted and unique. None are all.
    """
    handles = [array.handle for array in arrays]
    load().tf_opt_memory_floor(gradient, rows, handles)
