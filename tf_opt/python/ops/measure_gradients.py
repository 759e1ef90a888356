"""The op TfOpt>MeasureGradients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tf_opt.python import docstrings
from tf_opt.python.functional import scalars
from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.functional.measure import GradientMeasures
from tf_opt.python.functional.tensors import TensorLike
from tf_opt.python.ops import library
from tf_opt.python.ops.inputs import VariableLike
from tf_opt.python.ops.inputs import are_slices
from tf_opt.python.ops.inputs import slices_as_inputs
from tf_opt.python.ops.inputs import to_handles
from tf_opt.python.ops.inputs import to_list
from tf_opt.python.ops.inputs import to_tensors

OP_NAME = "TfOpt>MeasureGradients"
SPARSE_OP_NAME = "TfOpt>MeasureSparseGradients"


@docstrings.with_parts(**docstrings.OP_PARTS)
def measure_gradients(
    gradients: Sequence[TensorLike | tf.IndexedSlices],
    accumulators: Sequence[VariableLike] = (),
    *,
    gradient_scale: Scalar = 1.0,
    enabled: bool | tf.Tensor = True,
    rows: Sequence[int] = (),
    lazy_mode: bool = False,
    accumulated_rows: Sequence[TensorLike] = (),
    tables: Sequence[str] = (),
) -> GradientMeasures:
    r"""Measures many gradients in one launch that reads each gradient once.

    {{measures}}

    $x$ is computed in float32 (float64 for float64 gradients); its squares and
    their sum in float64. The order of the sum depends only on the number of
    elements, so the bits are the same on any number of threads. The op writes
    nothing and reads nothing back from a device.

    Args:
        gradients: Dense tensors of one type (float16, bfloat16, float32 or
            float64) and of any shapes. Lists of numbers and NumPy arrays are
            converted to the first gradient's type. Or `tf.IndexedSlices` only,
            on a CPU: the op measures the corresponding dense gradients without
            creating them.
        accumulators: Variables to add, one for each gradient and of its shape:
            float32, or float64 for float64 gradients. Or empty.
        gradient_scale: Factor of the gradients: a Python or NumPy number, a
            tensor or a variable. It is float64 until it is rounded to the type
            of $x$.
        enabled: Whether to measure, a bool or a scalar bool tensor. If false,
            nothing is read, all sums are 0, and all gradients count as finite.
        rows: For `tf.IndexedSlices`, the number of rows of each variable.
        lazy_mode: For `tf.IndexedSlices` with accumulators, whether to read
            only the accumulators' rows that occur.
        accumulated_rows: For each of the `tf.IndexedSlices` a vector of indices
            of more rows that count as occurring, with a gradient of zero. Or
            empty.
        tables: For `tf.IndexedSlices`, the variables' names in errors.

    Returns:
        The `tf_opt.functional.GradientMeasures`: `sums_of_squares`, a vector in
        float64, and `finite`, a vector of bools, both in the gradients' order.
        A sum may be infinite even if all elements are finite.

    Raises:
        RuntimeError: If the library of custom ops isn't loaded.
        TypeError: If an argument isn't a list, or `accumulators` contains
            anything but variables.
        ValueError: If `gradients` is empty, a list has the wrong length, the
            gradients' types differ or have no kernels, or the scale isn't a
            number. In a graph, also if a shape or an accumulator's type is
            wrong.
        tf.errors.InvalidArgumentError: If a shape or an accumulator's type is
            wrong, or a variable occurs twice.
        tf.errors.FailedPreconditionError: If an accumulator isn't initialized.

    Example:

    >>> import tensorflow as tf, tf_opt
    >>> accumulator = tf.Variable([1.0, 0.0])
    >>> measures = tf_opt.ops.measure_gradients(
    ...     [tf.constant([1.0, 2.0])], [accumulator], gradient_scale=2.0)
    >>> measures.sums_of_squares.numpy().tolist()
    [25.0]
    >>> measures.finite.numpy().tolist()
    [True]
    """
    ops = library.loaded_ops()
    gradients = to_list(gradients, "gradients", "tensors")
    sparse = are_slices(gradients)
    accumulators = to_list(accumulators, "accumulators", "variables")
    handles = to_handles(
        "accumulators", accumulators, len(gradients), may_be_empty=True
    )
    if sparse:
        op = ops.tf_opt_measure_sparse_gradients
        inputs = {
            **slices_as_inputs(
                gradients, accumulated_rows, None, whose="gradients"
            ),
            # TensorFlow converts a list more slowly.
            "rows": np.array(
                [_check_rows(i, x) for i, x in enumerate(rows)], np.int64
            ),
            "lazy": scalars.mode("lazy_mode", lazy_mode),
            "tables": list(tables),
        }
    else:
        op = ops.tf_opt_measure_gradients
        inputs = {"gradients": to_tensors(gradients, None, whose="gradients")}
    results = library.run_op(
        op,
        **inputs,
        accumulators=handles,
        gradient_scale=scalars.real("gradient_scale", gradient_scale),
        enabled=scalars.flag("enabled", enabled),
    )
    return GradientMeasures(*results)


def _check_rows(i: int, rows: int) -> int:
    """Checks a variable's number of rows."""
    number = scalars.fixed_integer(f"rows[{i}]", rows)
    if number < 0:
        raise ValueError(f"`rows[{i}]` must be >= 0. Received: {rows}")
    return number
