"""The one place that decides which implementation of a step runs."""

from __future__ import annotations

import functools
import warnings

import tensorflow as tf

from tf_opt.python import tensorflow_internals
from tf_opt.python.ops import library

AUTO = "auto"
CUSTOM_OP = "custom_op"
COMPOSED = "composed"
IMPLEMENTATIONS = (AUTO, CUSTOM_OP, COMPOSED)


@functools.cache
def _warn_once(message: str) -> None:
    warnings.warn(
        message + " Until then the slower composed implementation runs.",
        RuntimeWarning,
        stacklevel=2,
    )


def _obstacle(op_name: str, variable: tf.Variable) -> str | None:
    """Why the custom op can't update `variable` here; None if it can."""
    if tensorflow_internals.inside_xla():
        return (
            "it has no XLA kernel and this is inside a function compiled by "
            "XLA (jit_compile=True)"
        )
    dtype = tf.dtypes.as_dtype(variable.dtype)
    device = tf.DeviceSpec.from_string(variable.device or "").device_type
    available = tensorflow_internals.registered_kernels(op_name)
    if (device or "CPU", dtype) not in available:
        return (
            f"it has no {device or 'CPU'} kernel for {dtype.name} "
            f"({variable.name})"
        )
    return None


def runs_custom_op(
    implementation: str, op_name: str, variable: tf.Variable
) -> bool:
    """Decides, while a step is traced, how one variable is updated.

    Args:
        implementation: The user's choice: `"auto"`, `"custom_op"` or
            `"composed"`.
        op_name: The registered name of the custom op.
        variable: The variable to update.

    Returns:
        True for the custom op, False for the composed implementation.

    Raises:
        RuntimeError: If `implementation` is `"custom_op"` and the op can't
            run here.
    """
    if implementation == COMPOSED:
        return False
    if library.library().ops is None:
        obstacle = library.explain_problem()
        if implementation == AUTO:
            _warn_once(obstacle)
    else:
        obstacle = _obstacle(op_name, variable)
    if obstacle is not None and implementation == CUSTOM_OP:
        raise RuntimeError(
            f'implementation="custom_op" can\'t run {op_name}: {obstacle}. '
            'Use implementation="auto" or "composed".'
        )
    return obstacle is None
