"""Calls of ops that XLA's auto-clustering must leave alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def run_op(op: Callable[..., Any], **arguments: Any) -> Any:
    """Calls an op's generated wrapper, outside of XLA's auto-clustering.

    Args:
        op: The wrapper.
        **arguments: The wrapper's arguments.

    Returns:
        The wrapper's result.
    """
    if tf.executing_eagerly():
        return op(**arguments)
    # XLA would compile a cluster again for every new shape. This has no effect
    # inside `jit_compile=True`.
    with tf.xla.experimental.jit_scope(compile_ops=False):
        return op(**arguments)
