"""ASGD, the stochastic average gradient, on pure tensors."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tf_opt.python import docstrings
from tf_opt.python.functional import arithmetic
from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.functional.tensors import TensorLike
from tf_opt.python.functional.update import Update
from tf_opt.python.functional.update import pure_step


class ASGDResult(NamedTuple):
    """Result of a step: the new variable and its new state.

    Attributes:
        variable: The updated variable.
        d: Sum of the last gradients of all batches.
        y: Last gradient of this batch, which is this step's gradient.
    """

    variable: tf.Tensor
    d: tf.Tensor
    y: tf.Tensor


def asgd_update(
    *,
    seen_batches: Scalar,
    learning_rate: Scalar,
    decoupled_weight_decay: bool,
    maximize: bool,
) -> Update:
    """Binds a step's scalars; the slots are d and this batch's row of y.

    The arguments are those of `asgd`.
    """
    learning_rate = arithmetic.float64(learning_rate)

    def formula(s, p, g, d, y):
        d = _replace_term(d, y, g)
        return p - s.step_size * d, d, g

    return Update(
        formula,
        {
            "step_size": learning_rate / arithmetic.float64(seen_batches),
        },
        learning_rate=learning_rate,
        decoupled_weight_decay=decoupled_weight_decay,
        maximize=maximize,
        # So d stays the sum of the stored y.
        rounds_gradient_like_slot=1,
    )


def _replace_term(
    total: tf.Tensor, old_term: tf.Tensor, new_term: tf.Tensor
) -> tf.Tensor:
    """Computes `total - old_term + new_term`, rounded once.

    Each sum comes with its exact error (Knuth); tf_opt/cc/rules/asgd.h says
    why.
    """
    change = new_term - old_term
    new_part = change + old_term
    change_error = (new_term - new_part) - (old_term - (new_part - change))
    result = total + change
    change_part = result - total
    result_error = (total - (result - change_part)) + (change - change_part)
    return result + (change_error + result_error)


@docstrings.for_rule
def asgd(
    variable: TensorLike,
    gradient: TensorLike,
    d: TensorLike,
    y: TensorLike,
    *,
    seen_batches: Scalar,
    learning_rate: Scalar = 1e-3,
    weight_decay: Scalar = 0.0,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
) -> ASGDResult:
    r"""Computes one step of the stochastic average gradient on one tensor.

    On batch $i$, with $n$ = `seen_batches`:

    $$
    \begin{aligned}
    g &\leftarrow -g && \text{if maximize} \\
    p &\leftarrow p - \eta \lambda p && \text{decoupled decay, or} \\
    g &\leftarrow g + \lambda p && \text{L2 decay} \\
    d &\leftarrow d - y_i + g \\
    y_i &\leftarrow g \\
    p &\leftarrow p - \frac{\eta}{n} d
    \end{aligned}
    $$

    {{use}}

    Args:
        {{variable}}
        gradient: The gradient on this batch, of the same shape and type.
        d: Sum of the last gradients of all batches, of the same shape: float32
            for a float16, bfloat16 or float32 variable, the variable's type for
            others. Zeros at first.
        y: Last gradient of this batch, of the shape and type of `d`; zeros at
            first. It may have a narrower type: the gradient is then rounded to
            it first, so that `d` stays the sum of all stored `y`.
        seen_batches: The number of different batches seen, including this one.
            If batches come in order: `min(step, number of batches)`.
        learning_rate: Step size, a scalar.
        {{direction}}

    Returns:
        An `ASGDResult`: the new `variable`, `d` and `y`.

    Raises:
        {{raises}}

    Example:

    >>> import tensorflow as tf, tf_opt
    >>> p, d, y = tf.constant(2.0), tf.constant(0.0), [tf.constant(0.0)] * 3
    >>> for step in range(6):
    ...     i = step % 3
    ...     p, d, y[i] = tf_opt.functional.asgd(
    ...         p, p - i, d, y[i], seen_batches=min(step + 1, 3),
    ...         learning_rate=0.5)
    >>> round(float(p), 4)  # On its way to 1, the mean of 0, 1 and 2.
    1.0351

    References:
        - [Schmidt, Le Roux and Bach, 2017](https://arxiv.org/abs/1309.2388);
          weight decay enters where Paddle adds it.
    """
    step = pure_step(asgd_update, locals(), ["d", "y"], exact={"d"})
    return ASGDResult(*step)
