"""The op TfOpt>MeasureGradients."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tf_opt.python.functional import scalars
from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.functional.measure import GradientMeasures
from tf_opt.python.ops import library
from tf_opt.python.ops.inputs import VariableLike
from tf_opt.python.ops.inputs import to_handles


def measure_gradients(
    gradients: Sequence[tf.Tensor],
    accumulators: Sequence[VariableLike] = (),
    *,
    rows: Sequence[tf.Tensor] = (),
    gradient_scale: Scalar = 1.0,
    enabled: bool | tf.Tensor = True,
) -> GradientMeasures:
    """Does what `tf_opt.functional.measure_gradients` does, in one launch.

    The gradients have one type. A sum's order depends only on the number of
    elements, so its bits are the same on any number of threads. A sum may be
    infinite even if all elements are finite.

    Args:
        gradients: The gradients.
        accumulators: Variables to add, one for each gradient. Or empty.
        rows: For each gradient the rows that it has of its accumulator, sorted,
            each once; in the other rows it is zero. Or empty: all rows.
        gradient_scale: Factor of the gradients.
        enabled: Whether to measure. If false, nothing is read, all sums are 0,
            and all gradients count as finite.
    """
    return GradientMeasures(
        *library.run_op(
            "TfOpt>MeasureGradients",
            gradients=list(gradients),
            rows=[tf.cast(x, tf.int64) for x in rows],
            accumulators=to_handles(accumulators),
            gradient_scale=scalars.real("gradient_scale", gradient_scale),
            enabled=scalars.flag("enabled", enabled),
        )
    )
