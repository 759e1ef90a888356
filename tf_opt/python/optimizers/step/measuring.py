"""Measures a step's gradients: their norms, and whether they are finite."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tf_opt.python import ops
from tf_opt.python.functional import slices
from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.functional.measure import GradientMeasures
from tf_opt.python.functional.measure import measure_gradients
from tf_opt.python.optimizers.state.optimizer_state import OptimizerState
from tf_opt.python.optimizers.step.plan import Bucket
from tf_opt.python.optimizers.step.plan import Plan
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
    settings: Settings,
    state: OptimizerState,
    plan: Plan,
    grads: Sequence[Gradient],
    *,
    accumulates: bool,
    rows: Sequence[Sequence[tf.Tensor]],
    gradient_scale: Scalar,
    enabled: Flag,
) -> Measures:
    """Measures gradients.

    Args:
        settings: The step's options.
        state: The optimizer's state.
        plan: The step's plan.
        grads: The gradients of all the plan's variables.
        accumulates: Whether accumulators are added.
        rows: For each bucket, the rows of its accumulators that aren't zero.
        gradient_scale: The factor of the gradients.
        enabled: Whether to measure; if not, norms are 0.
    """
    norms, squares, finite = [], [], []
    for bucket, more_rows in zip(plan.buckets, rows, strict=True):
        own = [grads[i] for i in bucket.positions]
        if bucket.is_measured_by_op:
            of_slices: dict[str, Any] = {}
            if bucket.sparse:
                of_slices = {
                    "rows": [x.shape[0] for x in bucket.variables],
                    "lazy_mode": settings.lazy_mode,
                    "accumulated_rows": more_rows,
                    "tables": bucket.names,
                }
            measured = ops.measure_gradients(
                own,
                bucket.lists["accumulators"] if accumulates else (),
                gradient_scale=gradient_scale,
                enabled=enabled,
                **of_slices,
            )
        else:
            measured = _measure_composed(
                state,
                bucket,
                own,
                accumulates=accumulates,
                gradient_scale=gradient_scale,
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


def _measure_composed(
    state: OptimizerState,
    bucket: Bucket,
    grads: Sequence[Gradient],
    *,
    accumulates: bool,
    gradient_scale: Scalar,
    enabled: Flag,
) -> GradientMeasures:
    """Measures a bucket's gradients without the custom op."""
    accumulators = []
    if accumulates:
        grads = list(map(gradients.to_dense, grads, bucket.variables))
        accumulators = [
            tf.convert_to_tensor(state.accumulators[i]) for i in bucket.indices
        ]
    elif bucket.sparse:
        grads = [slices.merge(x.values, x.indices).once() for x in grads]
    return measure_gradients(
        grads, accumulators, gradient_scale=gradient_scale, enabled=enabled
    )


def _functions_of(x: Any) -> tuple[Callable, Callable, Callable]:
    """Returns square root, sum and logical and, TensorFlow's or NumPy's."""
    if tf.is_tensor(x):
        return tf.sqrt, tf.reduce_sum, tf.reduce_all
    return np.sqrt, np.sum, lambda flags: bool(np.all(flags))
