"""ASGD, the stochastic average gradient, on pure tensors."""

from __future__ import annotations

import tensorflow as tf

from tf_opt.python.functional import rule_spec
from tf_opt.python.functional.update import Update


def asgd_update(
    *, seen_batches: tf.Tensor, learning_rate: tf.Tensor, **decay: bool
) -> Update:
    """Binds a step's numbers; the slots are d and this batch's row of y."""

    def formula(s, p, g, d, y):
        d = _replace_term(d, y, g)
        return p - s.step_size * d, d, g

    return Update(
        formula,
        {"step_size": learning_rate / seen_batches},
        learning_rate=learning_rate,
        # So d stays the sum of the stored y.
        rounds_gradient_like_slot=1,
        **decay,
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
    name="asgd",
    class_name="ASGD",
    title="the stochastic average gradient",
    update=asgd_update,
    where="On batch $i$, with $n$ = `seen_batches`:",
    formula=r"""
        d &\leftarrow d - y_i + g \\
        y_i &\leftarrow g \\
        p &\leftarrow p - \frac{\eta}{n} d
    """,
    slots=[
        rule_spec.Slot(
            "d",
            "Sum of the last gradients of all batches",
            "gradient_sum",
            # A rounding error would never leave the sum.
            exact=True,
        ),
        rule_spec.Slot(
            "y",
            "Last gradient of this batch",
            "gradients",
            # A new gradient replaces the old one, so small steps can't get
            # lost.
            rounded_to_nearest=True,
            row_input="batch_index",
            table_doc="Last gradients of the batches",
        ),
    ],
    numbers=[
        rule_spec.Number(
            "seen_batches",
            None,
            rule_spec.POSITIVE,
            "The number of different batches seen, including this one; >= 1. "
            "If batches come in order: `min(step, number of batches)`.",
            in_unroll=lambda iteration: 1,
        ),
        rule_spec.Number(
            "batch_index",
            None,
            rule_spec.ANY,
            "Number of the gradients' batch, an integer in [0, number of "
            "batches).",
            in_rule=False,
        ),
        rule_spec.learning_rate(1e-3),
    ],
    example=[
        "seen_batches=1, learning_rate=0.5",
        "batch_index=1, seen_batches=1, learning_rate=0.5",
    ],
    example_result="[0.75, 2.25]",
    references="""\
- [Schmidt, Le Roux and Bach, 2017](https://arxiv.org/abs/1309.2388);
  weight decay enters where Paddle adds it.""",
)
