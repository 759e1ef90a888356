"""The contenders that only move a step's bytes."""

from __future__ import annotations

import functools
import os
import pathlib
import types

import tensorflow as tf

_LIBRARY = (
    pathlib.Path(__file__).parents[1]
    / "bazel-bin"
    / "benchmarks"
    / "_memory_floor.so"
)


@functools.cache
def load() -> types.ModuleType:
    """The ops that move bytes.

    Returns:
        The module that has them.

    Raises:
        FileNotFoundError: If it was not built.
    """
    if not _LIBRARY.exists():
        raise FileNotFoundError(
            f"Expected the memory floor's ops in {_LIBRARY}, which is "
            "not there. Run `make bench`: it builds them first."
        )
    return tf.load_op_library(os.fspath(_LIBRARY))


def move(
    gradient: tf.Tensor, arrays: list[tf.Variable], passes: tuple[int, ...]
) -> None:
    """Moves the bytes of a step.

    Args:
        gradient: What each pass reads.
        arrays: What they read and write, each of the gradient's size.
        passes: How many of the first arrays each pass takes.
    """
    for updated in passes:
        load().tf_opt_memory_floor(
            gradient, [array.handle for array in arrays[:updated]]
        )


def move_rows(
    gradient: tf.Tensor, rows: tf.Tensor, arrays: list[tf.Variable]
) -> None:
    """Moves the bytes of a step that updates some rows.

    Args:
        gradient: What is read, a row for each id.
        rows: The rows to update, as int32, sorted and without repeats.
        arrays: What they are rows of.
    """
    load().tf_opt_row_floor(gradient, rows, [array.handle for array in arrays])
