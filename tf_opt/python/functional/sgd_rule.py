"""SGD, with and without momentum, on pure tensors."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tf_opt.python.functional import arithmetic, rule_spec
from tf_opt.python.functional.arithmetic import Scalar, TensorLike
from tf_opt.python.functional.coasting import MissedStep
from tf_opt.python.functional.pure_step import pure_step
from tf_opt.python.functional.update import Formula


class SGDResult(NamedTuple):
    """Result of `sgd`: the new variable and, with momentum, velocity."""

    variable: tf.Tensor
    velocity: tf.Tensor | None = None


def sgd(
    variable: TensorLike,
    gradient: TensorLike,
    velocity: TensorLike | None = None,
    *,
    step: Scalar,
    learning_rate: Scalar = 1e-2,
    momentum: Scalar = 0.0,
    dampening: Scalar = 0.0,
    weight_decay: Scalar = 0.0,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
    nesterov: bool = False,
    torch_momentum: bool = False,
) -> SGDResult:
    r"""Computes one step of SGD on one tensor.

    Args:
        velocity: Velocity $b$; None: without momentum.

    Example:

    >>> from tf_opt import functional as f
    >>> new = f.sgd([1.0, 2.0], [0.5, -0.5], step=1, learning_rate=0.5)
    >>> print(new.variable.numpy())
    [0.75 2.25]
    """
    return SGDResult(**pure_step(SPEC, locals()))


def sgd_update(
    *, step, learning_rate, momentum, dampening, nesterov, torch_momentum
) -> Formula:
    """Binds a step's numbers; the slot, with momentum, is the velocity."""
    one = arithmetic.float64(1.0)
    if torch_momentum:
        # PyTorch's first step has no dampening.
        inflow = tf.where(step > 1, 1 - dampening, one)
        ahead, step_size = one, -learning_rate
    else:
        inflow, ahead, step_size = -learning_rate, -learning_rate, one

    def formula(s, p, g, velocity=None):
        if velocity is None:
            return (p - s.learning_rate * g,)
        velocity = s.momentum * velocity + s.inflow * g
        change = velocity
        if nesterov:
            change = s.momentum * velocity + s.ahead * g
        return p + s.step_size * change, velocity

    def missed(_) -> MissedStep:
        size = -step_size
        return MissedStep(
            [momentum],
            size * momentum if nesterov else size,
            lambda epsilon, velocity=0.0: velocity,
            ratio=momentum,
        )

    scalars = {"inflow": inflow, "ahead": ahead, "step_size": step_size}
    return Formula(formula, scalars, missed=missed)


SPEC = rule_spec.RuleSpec(
    function=sgd,
    class_name="SGD",
    update=sgd_update,
    coasts=True,
    slots=[
        rule_spec.Slot(
            "velocity",
            "momentum",
            "momentums",
            needed_by="momentum",
            moves=True,
        )
    ],
    numbers=[
        rule_spec.STEP,
        rule_spec.LEARNING_RATE,
        rule_spec.Number("momentum", rule_spec.FRACTION),
        rule_spec.Number("dampening"),
    ],
    modes=["nesterov", "torch_momentum"],
)
