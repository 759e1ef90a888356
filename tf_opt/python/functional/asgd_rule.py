"""ASGD, the stochastic average gradient, on pure tensors."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tf_opt.python.functional import rule_spec
from tf_opt.python.functional.arithmetic import Scalar, TensorLike
from tf_opt.python.functional.pure_step import pure_step
from tf_opt.python.functional.update import Formula


class ASGDResult(NamedTuple):
    """Result of `asgd`: the new variable, sum of gradients, and gradient."""

    variable: tf.Tensor
    d: tf.Tensor
    y: tf.Tensor


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

    Args:
        d: Sum of the last gradients of all batches, only in the first of these
            types.
        y: Last gradient $y_i$ of this batch, to whose type the gradient is
            rounded first.
        seen_batches: The number $n$ of different batches seen, including this
            one, an integer >= 1. If batches come in order: `min(step, number of
            batches)`.

    Example:

    >>> from tf_opt import functional as f
    >>> new = f.asgd(1.0, 0.5, d=0.0, y=0.0, seen_batches=1, learning_rate=0.5)
    >>> print(new.variable.numpy())
    0.75
    """
    return ASGDResult(**pure_step(SPEC, locals()))


def asgd_update(*, seen_batches, learning_rate) -> Formula:
    """Binds a step's numbers; the slots are d and this batch's row of y."""

    def formula(s, p, g, d, y):
        d = _replace_term(d, y, g)
        return p - s.step_size * d, d, g

    return Formula(
        formula,
        {"step_size": learning_rate / seen_batches},
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


SPEC = rule_spec.RuleSpec(
    function=asgd,
    class_name="ASGD",
    update=asgd_update,
    slots=[
        # A rounding error would never leave the sum.
        rule_spec.Slot("d", "gradient_sum", exact=True),
        rule_spec.Slot(
            "y",
            "gradients",
            # A new gradient replaces the old one, so small steps can't get
            # lost.
            rounded_to_nearest=True,
            layers="batch_num",
            layer_input="batch_index",
        ),
    ],
    numbers=[
        rule_spec.Number("seen_batches", rule_spec.POSITIVE, is_count=True),
        rule_spec.Number("batch_index", is_count=True, in_rule=False),
        rule_spec.LEARNING_RATE,
    ],
)
