"""Decision between the custom op and the composed implementation."""

from __future__ import annotations

import functools
import logging
import warnings
from typing import Literal, get_args

import tensorflow as tf

from tf_opt.python import tensorflow_internals
from tf_opt.python.ops import gpu, library

AUTO = "auto"
CUSTOM_OP = "custom_op"
COMPOSED = "composed"
Implementation = Literal["auto", "custom_op", "composed"]
IMPLEMENTATIONS = get_args(Implementation)

_LOGGER = logging.getLogger("tf_opt")


@functools.cache
def _warn_once(message: str) -> None:
    warnings.warn(
        message + " Until then the slower composed implementation runs.",
        RuntimeWarning,
        stacklevel=2,
    )


@functools.cache
def _say_once() -> None:
    _LOGGER.info("tf_opt: %s. The composed implementation runs.", library.PURE)


def obstacle_to(
    op_name: str | None, dtype: tf.DType, device: str
) -> str | None:
    """Returns the reason why the custom op can't run, or None."""
    if op_name is None:
        return "the rule has no custom op"
    if library.library().ops is None:
        return library.explain_problem()
    if tensorflow_internals.inside_xla():
        return (
            "this is inside a function compiled by XLA (jit_compile=True), "
            "where the composed implementation runs. Compile with "
            "jit_compile=False for the custom op"
        )
    device_type = tf.DeviceSpec.from_string(device).device_type or "CPU"
    available = tensorflow_internals.registered_kernels(op_name)
    if (device_type, dtype) not in available:
        return f"it has no {device_type} kernel for {dtype.name}"
    if device_type == "GPU" and gpu.problem() is not None:
        obstacle = f"its GPU kernels can't run here: {gpu.problem()}"
        _warn_once(f"tf_opt: {obstacle}.")
        return obstacle
    return None


def runs_custom_op(
    implementation: str, op_name: str | None, dtype: tf.DType, device: str
) -> bool:
    """Decides whether the custom op updates variables of a type on a device.

    Otherwise the composed implementation does. Raises a RuntimeError if
    `implementation`, "auto" or "custom_op", is the latter and the op can't run
    here.
    """
    obstacle = obstacle_to(op_name, dtype, device)
    if (
        implementation == AUTO
        and op_name is not None
        and library.library().ops is None
    ):
        if library.library().problem == library.PURE:
            _say_once()
        else:
            _warn_once(obstacle)
    if obstacle is not None and implementation == CUSTOM_OP:
        raise RuntimeError(
            f'implementation="custom_op" can\'t run {op_name or "it"}: '
            f'{obstacle.rstrip(".")}. Use implementation="auto" or "composed".'
        )
    return obstacle is None
