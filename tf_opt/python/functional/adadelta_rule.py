"""Adadelta, on pure tensors."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tf_opt.python.functional import rule_spec
from tf_opt.python.functional.arithmetic import Scalar, TensorLike
from tf_opt.python.functional.coasting import MissedStep
from tf_opt.python.functional.pure_step import pure_step
from tf_opt.python.functional.update import Formula


class AdadeltaResult(NamedTuple):
    """Result of `adadelta`: the new variable and moving averages of squares."""

    variable: tf.Tensor
    accumulated_grad: tf.Tensor
    accumulated_delta_var: tf.Tensor


def adadelta(
    variable: TensorLike,
    gradient: TensorLike,
    accumulated_grad: TensorLike,
    accumulated_delta_var: TensorLike,
    *,
    learning_rate: Scalar = 1e-3,
    rho: Scalar = 0.95,
    epsilon: Scalar = 1e-7,
    weight_decay: Scalar = 0.0,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
) -> AdadeltaResult:
    r"""Computes one step of Adadelta on one tensor.

    Args:
        accumulated_grad: Moving average $a$ of the squared gradients.
        accumulated_delta_var: Moving average $d$ of the squared changes.

    Example:

    >>> from tf_opt import functional as f
    >>> new = f.adadelta(1.0, 0.5, 0.0, 0.05, rho=0.8, learning_rate=0.5)
    >>> print(new.variable.numpy().round(4))
    0.75
    """
    return AdadeltaResult(**pure_step(SPEC, locals()))


def adadelta_update(*, rho, **_) -> Formula:
    """Binds a step's numbers; the slots are the averages of the squares."""

    def formula(s, p, g, accumulated_grad, accumulated_delta_var):
        a = s.rho * accumulated_grad + s.one_minus_rho * (g * g)
        d = accumulated_delta_var
        change = s.sqrt((d + s.epsilon) / (a + s.epsilon)) * g
        d = s.rho * d + s.one_minus_rho * (change * change)
        return p - s.learning_rate * change, a, d

    return Formula(formula, missed=lambda _: MissedStep([rho, rho]))


SPEC = rule_spec.RuleSpec(
    function=adadelta,
    class_name="Adadelta",
    update=adadelta_update,
    coasts=True,
    slots=[
        rule_spec.Slot("accumulated_grad", keras_list="_accumulated_grads"),
        rule_spec.Slot(
            "accumulated_delta_var", keras_list="_accumulated_delta_vars"
        ),
    ],
    numbers=[rule_spec.LEARNING_RATE, rule_spec.RHO, rule_spec.EPSILON],
)
