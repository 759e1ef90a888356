"""Measures of gradients, on pure tensors."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from tf_opt.python.functional import arithmetic, checks
from tf_opt.python.functional.arithmetic import Scalar, TensorLike


class GradientMeasures(NamedTuple):
    """Measures of a list of gradients.

    Attributes:
        sums_of_squares: A vector in float64 with one element per gradient.
        finite: A vector of bools with one element per gradient: whether it
            contains no infinity and no NaN.
    """

    sums_of_squares: tf.Tensor
    finite: tf.Tensor


def measure_gradients(
    gradients: Sequence[TensorLike],
    accumulators: Sequence[TensorLike] = (),
    *,
    gradient_scale: Scalar = 1.0,
    enabled: bool | tf.Tensor = True,
) -> GradientMeasures:
    r"""Measures gradients: their sums of squares, and whether they are finite.

    For each gradient $g$, with $a$ = its accumulator or 0 and $s$ =
    `gradient_scale`:

    $$
    \begin{aligned}
    x &= s g + a \\
    \text{sum of squares} &= \sum_i x_i^2 \\
    \text{finite} &= \text{no } x_i \text{ is infinite or a NaN}
    \end{aligned}
    $$

    $x$ is computed in the gradient's arithmetic type, which is float32 for
    16-bit gradients; its squares and their sum are float64.

    Args:
        gradients: Floating point or complex tensors of any shapes and types, at
            least one.
        accumulators: Tensors to add, one for each gradient, of its shape and
            arithmetic type. Or empty.
        gradient_scale: Factor of the gradients, a scalar.
        enabled: Whether to measure, a bool or a scalar bool tensor. If false,
            all sums are 0 and all gradients count as finite.

    Returns:
        The `GradientMeasures`, in the gradients' order.

    Raises:
        ValueError: If `gradients` is empty, `accumulators` has another
            length, or a tensor or number can't be used. The error names the
            argument.

    Example:

    >>> import tensorflow as tf, tf_opt
    >>> measures = tf_opt.functional.measure_gradients(
    ...     [tf.constant([3.0, 4.0]), tf.constant([1.0, float("inf")])],
    ...     gradient_scale=2.0)
    >>> measures.sums_of_squares.numpy().tolist()
    [100.0, inf]
    >>> measures.finite.numpy().tolist()
    [True, False]
    """
    count = len(gradients)
    if count == 0:
        raise ValueError("`gradients` must not be empty")
    if len(accumulators) not in (0, count):
        raise ValueError(
            "`accumulators` must be empty or have one tensor for each of the "
            f"{count} `gradients`. Received: {len(accumulators)}"
        )
    scale = arithmetic.float64(checks.real("gradient_scale", gradient_scale))
    enabled = checks.flag("enabled", enabled)
    sums, finite = [], []
    for i, (gradient, accumulator) in enumerate(
        itertools.zip_longest(gradients, accumulators)
    ):
        name = f"gradients[{i}]"
        gradient = checks.floating(name, gradient)
        slot_dtype = arithmetic.slot_dtype(gradient.dtype)
        dtype = slot_dtype.real_dtype
        x = tf.cast(scale, dtype) * arithmetic.as_real(gradient, dtype)
        if accumulator is not None:
            accumulator = checks.like(
                f"accumulators[{i}]", accumulator, name, gradient, [slot_dtype]
            )
            x += arithmetic.as_real(accumulator, dtype)
        sums.append(tf.reduce_sum(tf.square(tf.cast(x, tf.float64))))
        finite.append(tf.reduce_all(tf.math.is_finite(x)))
    return GradientMeasures(
        sums_of_squares=tf.where(
            enabled, tf.stack(sums), tf.zeros((), tf.float64)
        ),
        finite=tf.stack(finite) | ~tf.convert_to_tensor(enabled),
    )
