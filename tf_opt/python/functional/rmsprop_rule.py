"""RMSprop, with and without momentum, on pure tensors."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tf_opt.python.functional import arithmetic, rule_spec
from tf_opt.python.functional.arithmetic import Scalar, TensorLike
from tf_opt.python.functional.coasting import MissedStep
from tf_opt.python.functional.pure_step import pure_step
from tf_opt.python.functional.update import Formula


class RMSpropResult(NamedTuple):
    """Result of `rmsprop`: the new variable, averages and momentum."""

    variable: tf.Tensor
    velocity: tf.Tensor
    momentum_buffer: tf.Tensor | None = None
    average_gradient: tf.Tensor | None = None


def rmsprop(
    variable: TensorLike,
    gradient: TensorLike,
    velocity: TensorLike,
    momentum_buffer: TensorLike | None = None,
    average_gradient: TensorLike | None = None,
    *,
    learning_rate: Scalar = 1e-3,
    rho: Scalar = 0.9,
    momentum: Scalar = 0.0,
    epsilon: Scalar = 1e-7,
    weight_decay: Scalar = 0.0,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
    torch_epsilon: bool = False,
    torch_momentum: bool = False,
) -> RMSpropResult:
    r"""Computes one step of RMSprop on one tensor.

    Args:
        velocity: Moving average $v$ of the squared gradients.
        momentum_buffer: Momentum $b$; None: without momentum.
        average_gradient: Moving average $a$ of the gradients; None: the average
            of the squares isn't centered.

    Example:

    >>> from tf_opt import functional as f
    >>> new = f.rmsprop(1.0, 0.5, velocity=0.0, learning_rate=0.1, rho=0.75)
    >>> print(new.variable.numpy().round(4))
    0.8
    """
    return RMSpropResult(**pure_step(SPEC, locals()))


def rmsprop_update(
    *, learning_rate, rho, momentum, epsilon, torch_epsilon, torch_momentum
) -> Formula:
    """Binds a step's numbers; the form follows from the slots."""
    zero, one = arithmetic.float64(0.0), arithmetic.float64(1.0)
    inflow, step_size = learning_rate, one
    if torch_momentum:
        inflow, step_size = step_size, inflow

    def formula(s, p, g, velocity, momentum_buffer=None, average_gradient=None):
        velocity = s.rho * velocity + s.one_minus_rho * (g * g)
        variance, state = velocity, [velocity]
        if average_gradient is not None:
            average = s.rho * average_gradient + s.one_minus_rho * g
            # Rounding may make the difference negative.
            variance = velocity - average * average
            variance = tf.where(variance < 0, tf.zeros_like(g), variance)
        # In a graph, TensorFlow makes `x / sqrt(y)` a product with another
        # function, whose results are rounded otherwise: it needs the sum.
        root = s.sqrt(variance + s.epsilon_inside) + s.epsilon_outside
        direction = s.inflow * g / root
        if momentum_buffer is not None:
            direction = s.momentum * momentum_buffer + direction
            state.append(direction)
        if average_gradient is not None:
            state.append(average)
        return p - s.step_size * direction, *state

    def missed(slots) -> MissedStep:
        if "momentum_buffer" not in slots:
            return MissedStep([rho] * len(slots))
        return MissedStep(
            [rho, momentum, rho][: len(slots)],
            step_size,
            lambda epsilon, velocity, buffer, *_: buffer,
            ratio=momentum,
            moving_slot=1,
        )

    return Formula(
        formula,
        {
            "inflow": inflow,
            "step_size": step_size,
            "epsilon_inside": zero if torch_epsilon else epsilon,
            "epsilon_outside": epsilon if torch_epsilon else zero,
        },
        missed=missed,
    )


SPEC = rule_spec.RuleSpec(
    function=rmsprop,
    class_name="RMSprop",
    update=rmsprop_update,
    coasts=True,
    slots=[
        rule_spec.Slot("velocity", keras_list="_velocities"),
        rule_spec.Slot(
            "momentum_buffer",
            "momentum",
            "_momentums",
            needed_by="momentum",
            moves=True,
        ),
        rule_spec.Slot(
            "average_gradient",
            keras_list="_average_gradients",
            needed_by="centered",
        ),
    ],
    numbers=[
        rule_spec.LEARNING_RATE,
        rule_spec.RHO,
        rule_spec.Number("momentum", rule_spec.FRACTION),
        rule_spec.EPSILON,
    ],
    modes=["torch_epsilon", "torch_momentum"],
)
