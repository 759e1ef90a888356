"""Lion on pure tensors."""

from __future__ import annotations

import tensorflow as tf

from tf_opt.python.functional import rule_spec
from tf_opt.python.functional.coasting import MissedStep
from tf_opt.python.functional.update import Update


def lion_update(
    *,
    learning_rate: tf.Tensor,
    beta_1: tf.Tensor,
    beta_2: tf.Tensor,
    **decay: bool,
) -> Update:
    """Binds a step's numbers; the only slot is m."""

    def formula(s, p, g, m):
        direction = tf.sign(s.beta_1 * m + s.one_minus_beta_1 * g)
        p = p - s.learning_rate * direction
        return p, s.beta_2 * m + s.one_minus_beta_2 * g

    def missed(slots: int) -> MissedStep:
        # Without a gradient beta_1 decides only whether there is a direction.
        size = tf.where(beta_1 == 0, 0 * learning_rate, learning_rate)
        return MissedStep(size, [beta_2], lambda epsilon, m: tf.sign(m))

    return Update(
        formula,
        {
            "learning_rate": learning_rate,
            "beta_1": beta_1,
            "one_minus_beta_1": 1 - beta_1,
            "beta_2": beta_2,
            "one_minus_beta_2": 1 - beta_2,
        },
        learning_rate=learning_rate,
        missed=missed,
        **decay,
    )


SPEC = rule_spec.RuleSpec(
    name="lion",
    class_name="Lion",
    update=lion_update,
    coasts=True,
    formula=r"""
        p &\leftarrow p - \eta \operatorname{sign}(\beta_1 m + (1 - \beta_1) g)
        \\
        m &\leftarrow \beta_2 m + (1 - \beta_2) g
    """,
    slots=[rule_spec.FIRST_MOMENT],
    numbers=[
        rule_spec.learning_rate(1e-3),
        rule_spec.Number(
            "beta_1",
            0.9,
            rule_spec.FRACTION,
            "The moment's part of the direction, in [0, 1].",
        ),
        rule_spec.Number(
            "beta_2",
            0.99,
            rule_spec.FRACTION,
            "Decay of the first moment, in [0, 1].",
        ),
    ],
    example=["learning_rate=0.25"],
    example_result="[0.75, 2.25]",
    references="- [Chen et al., 2023](https://arxiv.org/abs/2302.06675)",
)
