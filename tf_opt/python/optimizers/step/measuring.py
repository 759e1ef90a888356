"""Measures a step's gradients: their norms, and whether they are finite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tf_opt.python.functional import measure as composed
from tf_opt.python.functional import slices, step_frame
from tf_opt.python.functional.arithmetic import Flag, Scalar, cond, of_rows
from tf_opt.python.functional.measure import GradientMeasures
from tf_opt.python.keras_internals import Variable
from tf_opt.python.ops import calls
from tf_opt.python.optimizers.step.context import StepContext
from tf_opt.python.optimizers.step.plan import Bucket
from tf_opt.python.optimizers.values import gradients
from tf_opt.python.optimizers.values import variables as access
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

    Without accumulators, gradients are merged by `Bucket.merged`. `rows` is the
    result of `launch.accumulated_rows`. Norms are 0 unless `enabled`.
    """
    norms, squares, finite = [], [], []
    for bucket, more_rows in zip(context.plan.buckets, rows, strict=True):
        own = [grads[i] for i in bucket.positions]
        with context.state.on_device(bucket.indices[0]):
            if not bucket.op:
                measured = _composed(context, bucket, own, accumulates, enabled)
            elif bucket.sparse and accumulates:
                measured = _rows_with_accumulators(
                    context, bucket, own, more_rows, enabled
                )
            else:
                measured = calls.measure_gradients(
                    [x.values for x in own] if bucket.sparse else own,
                    bucket.lists["accumulators"] if accumulates else (),
                    gradient_scale=context.gradient_scale,
                    enabled=enabled,
                )
        sums = access.on_host(measured.sums_of_squares)
        root, total, all_ = _functions_of(sums)
        norms.append(root(sums) / context.micro_steps)
        squares.append(total(sums))
        finite.append(all_(access.on_host(measured.finite)))
    root, total, all_ = _functions_of(squares[0])
    return Measures(
        norms=tuple(norms),
        global_norm=root(total(squares)) / context.micro_steps,
        finite=all_(finite),
    )


def _rows_with_accumulators(
    context: StepContext,
    bucket: Bucket,
    grads: Sequence[tf.IndexedSlices],
    more_rows: Sequence[tf.Tensor],
    enabled: Flag,
) -> GradientMeasures:
    """Measures sparse gradients and accumulators by the custom op."""
    state = context.state

    def measured() -> GradientMeasures:
        merged = bucket.merged(grads, more_rows)
        if not bucket.rows_only:
            return calls.measure_gradients(
                [x.values for x in merged],
                bucket.lists["accumulators"],
                rows=[x.indices for x in merged],
                gradient_scale=context.gradient_scale,
            )
        # No other row has a gradient, now or accumulated.
        sums = [
            _sums_of_rows(
                state.accumulators[index], gradient, context.gradient_scale
            )
            for index, gradient in zip(bucket.indices, merged, strict=True)
        ]
        return calls.measure_gradients(sums)

    def nothing() -> GradientMeasures:
        count = len(grads)
        return GradientMeasures(
            tf.zeros([count], tf.float64), tf.ones([count], tf.bool)
        )

    # Most micro-steps aren't measured, and rows aren't merged in vain.
    return cond(enabled, measured, nothing)


def _sums_of_rows(
    accumulator: Variable, merged: tf.IndexedSlices, scale: Scalar
) -> tf.Tensor:
    """Returns the rows of a merged gradient, accumulated."""
    # On a GPU there are rows that the table doesn't have; and the host, for
    # which the device would wait, compares int32 numbers there.
    rows = tf.cast(merged.indices, tf.int64)
    has = (rows >= 0) & (rows < accumulator.shape[0])
    rows = tf.where(has, rows, tf.zeros_like(rows))
    sums = step_frame.accumulate(
        access.read_rows(accumulator, rows), merged.values, scale
    )
    return tf.where(of_rows(has, sums), sums, tf.zeros_like(sums))


def _composed(
    context: StepContext,
    bucket: Bucket,
    grads: Sequence[Gradient],
    accumulates: bool,
    enabled: Flag,
) -> GradientMeasures:
    """Measures a bucket's gradients by TensorFlow's ops."""
    accumulators: list[Variable] = []
    if accumulates:
        grads = list(map(gradients.to_dense, grads, bucket.variables))
        accumulators = [context.state.accumulators[i] for i in bucket.indices]
    elif bucket.sparse:
        grads = [slices.merge(x.values, x.indices).once() for x in grads]
    return composed.measure_gradients(
        grads,
        accumulators,
        gradient_scale=context.gradient_scale,
        enabled=enabled,
    )


# An infinite norm makes a factor that is NaN.
@np.errstate(invalid="ignore")
def clipping(context: StepContext, k: int, measures: Measures) -> Any:
    """Returns the factors that clip the k-th bucket's gradients by norms."""
    if context.clipnorm is not None:
        return _shrinking(measures.norms[k], context.clipnorm)
    if context.global_clipnorm is not None:
        norm = measures.global_norm
        shrinking = _shrinking(norm, context.global_clipnorm)
        # If the norm is NaN or infinite, all gradients become NaN, as in Keras.
        return shrinking + (norm - norm)
    return 1.0


def _shrinking(norm: Any, bound: Scalar) -> Any:
    """Returns the factor that makes a norm at most `bound`; NaNs stay NaNs."""
    maximum = tf.maximum if isinstance(norm, tf.Tensor) else np.maximum
    factor = bound / maximum(norm, bound)
    if isinstance(bound, tf.Tensor):
        factor = tf.where(tf.math.is_inf(bound), tf.ones_like(factor), factor)
    return factor


def _functions_of(x: Any) -> tuple[Callable, Callable, Callable]:
    """Returns square root, sum and logical and, TensorFlow's or NumPy's."""
    if isinstance(x, tf.Tensor):
        return tf.sqrt, tf.reduce_sum, tf.reduce_all
    return np.sqrt, np.sum, lambda flags: bool(np.all(flags))
