"""Runs an op outside of what auto-clustering hands to XLA."""

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
    # A cluster is compiled again for each new shape in it; jit_compile=True,
    # where somebody asked for that, isn't kept from it by this.
    with tf.xla.experimental.jit_scope(compile_ops=False):
        return op(**arguments)
