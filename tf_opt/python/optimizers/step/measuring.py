"""Measures a step's gradients: their norms, and whether they are finite."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tf_opt.python.functional import measure as composed
from tf_opt.python.functional import slices
from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.ops import measure_gradients as custom_op
from tf_opt.python.optimizers.state.optimizer_state import OptimizerState
from tf_opt.python.optimizers.step.frame import StepContext
from tf_opt.python.optimizers.step.plan import Bucket
from tf_opt.python.optimizers.step.settings import Settings
from tf_opt.python.optimizers.values import gradients
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.optimizers.values.flags import Flag
from tf_opt.python.optimizers.values.gradients import Gradient


class Measures(NamedTuple):
    """The measures of a step's gradients, before clipping.

    Attributes:
        norms: For each bucket, the norms of its gradients.
        global_norm: The norm of all of them.
        finite: Whether all are finite.
    """

    norms: tuple[tf.Tensor | np.ndarray, ...]
    global_norm: tf.Tensor | np.ndarray
    finite: Flag


def measure(
    context: StepContext,
    grads: Sequence[Gradient],
    rows: Sequence[Sequence[tf.Tensor]],
    *,
    accumulates: bool,
    enabled: Flag,
) -> Measures:
    """Measures the gradients of all the plan's variables.

    Args:
        context: The step's context.
        grads: The gradients.
        rows: The result of `tables.accumulated_rows`.
        accumulates: Whether accumulators are added.
        enabled: Whether to measure; if not, norms are 0.
    """
    settings = context.settings
    scale = settings.gradient_scale
    norms, squares, finite = [], [], []
    for bucket, more_rows in zip(context.plan.buckets, rows, strict=True):
        own = [grads[i] for i in bucket.positions]
        if bucket.is_measured_by_op:
            of_slices: dict[str, Any] = {}
            if bucket.sparse:
                of_slices = {
                    "rows": [x.shape[0] for x in bucket.variables],
                    "lazy": bucket.lazy,
                    "accumulated_rows": more_rows,
                    "tables": bucket.names,
                }
            measured = custom_op.measure_gradients(
                own,
                bucket.lists["accumulators"] if accumulates else (),
                gradient_scale=scale,
                enabled=enabled,
                **of_slices,
            )
        else:
            with bucket.on_device(context.state):
                measured = composed.measure_gradients(
                    *_operands(context.state, bucket, own, accumulates),
                    gradient_scale=scale,
                    enabled=enabled,
                )
        sums = access.on_host(measured.sums_of_squares)
        root, total, all_ = _functions_of(sums)
        norms.append(root(sums) / settings.micro_steps)
        squares.append(total(sums))
        finite.append(all_(access.on_host(measured.finite)))
    root, total, all_ = _functions_of(squares[0])
    return Measures(
        norms=tuple(norms),
        global_norm=root(total(squares)) / settings.micro_steps,
        finite=all_(finite),
    )


def _operands(
    state: OptimizerState,
    bucket: Bucket,
    grads: Sequence[Gradient],
    accumulates: bool,
) -> tuple[Sequence[tf.Tensor], Sequence[tf.Tensor]]:
    """Returns a bucket's gradients and accumulators as dense tensors."""
    if accumulates:
        return list(map(gradients.to_dense, grads, bucket.variables)), [
            tf.convert_to_tensor(state.accumulators[i]) for i in bucket.indices
        ]
    if bucket.sparse:
        grads = [slices.merge(x.values, x.indices).once() for x in grads]
    return grads, ()


# An infinite norm makes a factor that is NaN.
@np.errstate(invalid="ignore")
def gradient_factors(
    settings: Settings, k: int, measures: Measures | None
) -> Scalar:
    """Returns the factor of the k-th bucket's gradients.

    It forms the mean over micro-steps and clips by norms.
    """
    factor = 1.0 / settings.micro_steps
    if settings.clipnorm is not None:
        return factor * _shrinking(measures.norms[k], settings.clipnorm)
    if settings.global_clipnorm is not None:
        norm = measures.global_norm
        shrinking = _shrinking(norm, settings.global_clipnorm)
        # If the norm is NaN or infinite, all gradients become NaN, as in Keras.
        return factor * (shrinking + (norm - norm))
    return factor


def _shrinking(norm: Any, bound: Scalar) -> Any:
    """Returns the factor that makes a norm at most `bound`; NaNs stay NaNs."""
    factor = bound / _maximum(norm, bound)
    if tf.is_tensor(bound):
        factor = tf.where(tf.math.is_inf(bound), tf.ones_like(factor), factor)
    return factor


def _maximum(x: Any, bound: Scalar) -> Any:
    """Returns the larger one of each element and `bound`; NaNs stay NaNs."""
    return (tf.maximum if tf.is_tensor(x) else np.maximum)(x, bound)


def _functions_of(x: Any) -> tuple[Callable, Callable, Callable]:
    """Returns square root, sum and logical and, TensorFlow's or NumPy's."""
    if tf.is_tensor(x):
        return tf.sqrt, tf.reduce_sum, tf.reduce_all
    return np.sqrt, np.sum, lambda flags: bool(np.all(flags))
