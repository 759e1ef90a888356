"""SGD, with and without momentum, on pure tensors."""

from __future__ import annotations

import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional import rule_spec
from tf_opt.python.functional.coasting import MissedStep
from tf_opt.python.functional.update import Update


def sgd_update(
    *,
    step: tf.Tensor,
    learning_rate: tf.Tensor,
    momentum: tf.Tensor,
    dampening: tf.Tensor,
    nesterov: bool,
    torch_momentum: bool,
    **decay: bool,
) -> Update:
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

    def missed(slots: int) -> MissedStep:
        size = -step_size
        return MissedStep(
            size * momentum if nesterov else size,
            [momentum],
            lambda epsilon, velocity=0.0: velocity,
            ratio=momentum,
        )

    return Update(
        formula,
        {
            "learning_rate": learning_rate,
            "momentum": momentum,
            "inflow": inflow,
            "ahead": ahead,
            "step_size": step_size,
        },
        learning_rate=learning_rate,
        missed=missed,
        **decay,
    )


SPEC = rule_spec.RuleSpec(
    name="sgd",
    class_name="SGD",
    update=sgd_update,
    coasts=True,
    where=r"With momentum $\mu$ and velocity $b$:",
    formula=r"""
        b &\leftarrow \mu b - \eta g && \text{Keras' momentum} \\
        p &\leftarrow p + b && \text{or, with nesterov, } p + \mu b - \eta g \\
        b &\leftarrow \mu b + (1 - \tau) g
            && \text{PyTorch's; the first step has no dampening } \tau \\
        p &\leftarrow p - \eta b
            && \text{or, with nesterov, } p - \eta (g + \mu b) \\
        p &\leftarrow p - \eta g && \text{without momentum}
    """,
    slots=[
        rule_spec.Slot("velocity", "Velocity", "momentum", needed_by="momentum")
    ],
    numbers=[
        rule_spec.STEP,
        rule_spec.learning_rate(1e-2),
        rule_spec.Number(
            "momentum",
            0.0,
            rule_spec.FRACTION,
            r"$\mu$, the part of the velocity that remains, in [0, 1]; 0 is no "
            "momentum.",
        ),
        rule_spec.Number(
            "dampening",
            0.0,
            rule_spec.ANY,
            r"$\tau$, the part of a gradient that PyTorch's momentum leaves "
            "out, except in the first step (in PyTorch, in each parameter's "
            "first step). Without `torch_momentum` it has no effect.",
        ),
    ],
    modes=[
        rule_spec.Mode(
            "nesterov", False, "Whether to apply Nesterov's momentum."
        ),
        rule_spec.Mode(
            "torch_momentum",
            False,
            "Whether momentum has PyTorch's form, whose velocity is a sum of "
            "gradients without the learning rate, and not Keras'.",
        ),
    ],
    example=["step=1, learning_rate=0.5"],
    example_result="[0.75, 2.25]",
    references="""\
- Polyak, 1964, "Some methods of speeding up the convergence of iteration
  methods"
- [Sutskever et al., 2013](https://proceedings.mlr.press/v28/sutskever13.html)
  for Nesterov's form.""",
)
