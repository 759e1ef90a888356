"""Ops that only move a step's bytes."""

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
    """Loads the ops."""
    if not _LIBRARY.exists():
        raise FileNotFoundError(
            f"Expected the memory floor's ops in {_LIBRARY}, which is "
            "not there. Run `make bench`: it builds them first."
        )
    return tf.load_op_library(os.fspath(_LIBRARY))


def move(
    gradient: tf.Tensor, arrays: list[tf.Variable], passes: tuple[int, ...]
) -> None:
    """Moves the bytes of a step."""
    for updated in passes:
        load().tf_opt_memory_floor(
            gradient, [array.handle for array in arrays[:updated]]
        )


def move_rows(
    gradient: tf.Tensor, rows: tf.Tensor, arrays: list[tf.Variable]
) -> None:
    """Moves the bytes of a step that updates some rows."""
    load().tf_opt_row_floor(gradient, rows, [array.handle for array in arrays])
