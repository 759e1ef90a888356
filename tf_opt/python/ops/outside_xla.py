"""Runs an op that XLA can't compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def run_op(op: Callable[..., Any], **arguments: Any) -> Any:
    """Calls an op's generated wrapper.

    Args:
        op: The wrapper.
        **arguments: Its arguments.

    Returns:
        What it returns.
    """
    if tf.executing_eagerly():
        return op(**arguments)
    # Auto-clustering would take it for an op that XLA compiles.
    with tf.xla.experimental.jit_scope(compile_ops=False):
        return op(**arguments)
