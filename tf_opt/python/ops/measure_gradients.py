"""The op TfOpt>MeasureGradients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tf_opt.python.functional import scalars
from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.functional.measure import GradientMeasures
from tf_opt.python.ops import library
from tf_opt.python.ops.inputs import VariableLike
from tf_opt.python.ops.inputs import slices_as_inputs
from tf_opt.python.ops.inputs import to_handles

OP_NAME = "TfOpt>MeasureGradients"
SPARSE_OP_NAME = "TfOpt>MeasureSparseGradients"


def measure_gradients(
    gradients: Sequence[tf.Tensor] | Sequence[tf.IndexedSlices],
    accumulators: Sequence[VariableLike] = (),
    *,
    gradient_scale: Scalar = 1.0,
    enabled: bool | tf.Tensor = True,
    rows: Sequence[int] = (),
    lazy: bool = False,
    accumulated_rows: Sequence[tf.Tensor] = (),
    tables: Sequence[str] = (),
) -> GradientMeasures:
    """Does what `tf_opt.functional.measure_gradients` does, in one launch.

    The gradients have one type. Of `tf.IndexedSlices`, the op measures the
    corresponding dense gradients without creating them. A sum's order depends
    only on the number of elements, so its bits are the same on any number of
    threads. A sum may be infinite even if all elements are finite.

    Args:
        gradients: The gradients: all dense, or all `tf.IndexedSlices`.
        accumulators: Variables to add, one for each gradient. Or empty.
        gradient_scale: Factor of the gradients.
        enabled: Whether to measure. If false, nothing is read, all sums are 0,
            and all gradients count as finite.
        rows: Of slices, the number of rows of each variable.
        lazy: Of slices with accumulators, whether to read only the
            accumulators' rows that occur.
        accumulated_rows: Of slices, indices of more rows that count as
            occurring, with a gradient of zero. Or empty.
        tables: Of slices, the variables' names in errors.
    """
    name, inputs = OP_NAME, {"gradients": list(gradients)}
    if isinstance(gradients[0], tf.IndexedSlices):
        name, inputs = (
            SPARSE_OP_NAME,
            {
                **slices_as_inputs(gradients, accumulated_rows),
                # TensorFlow converts a list more slowly.
                "rows": np.array(rows, np.int64),
                "lazy": lazy,
                "tables": list(tables),
            },
        )
    return GradientMeasures(
        *library.run_op(
            library.wrapper_of(name),
            **inputs,
            accumulators=to_handles(accumulators),
            gradient_scale=scalars.real("gradient_scale", gradient_scale),
            enabled=scalars.flag("enabled", enabled),
        )
    )
