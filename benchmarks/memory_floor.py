"""The contender that only moves a step's bytes."""

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
    """The op that moves the bytes of one pass.

    Returns:
        The module that has it.

    Raises:
        FileNotFoundError: If it was not built.
    """
    if not _LIBRARY.exists():
        raise FileNotFoundError(
            f"Expected the memory floor's op in {_LIBRARY}, which is "
            "not there. Run `make bench`: it builds the op first."
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
