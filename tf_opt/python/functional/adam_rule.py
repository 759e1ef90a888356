"""Adam and AdamW, with and without AMSGrad, on pure tensors."""

from __future__ import annotations

import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional import coasting
from tf_opt.python.functional import rule_spec
from tf_opt.python.functional.coasting import MissedStep
from tf_opt.python.functional.update import Update


def adam_update(
    *,
    step: tf.Tensor,
    learning_rate: tf.Tensor,
    beta_1: tf.Tensor,
    beta_2: tf.Tensor,
    epsilon: tf.Tensor,
    epsilon_hat: bool,
    **decay: bool,
) -> Update:
    """Binds a step's numbers; the slots are m, v and, for AMSGrad, v_max."""
    step_size = learning_rate / (1 - tf.pow(beta_1, step))
    root_correction = tf.sqrt(1 - tf.pow(beta_2, step))
    if epsilon_hat:
        step_size = step_size * root_correction
        root_scale = arithmetic.float64(1.0)
    else:
        root_scale = 1 / root_correction

    def formula(s, p, g, m, v, v_max=None):
        m = s.beta_1 * m + s.one_minus_beta_1 * g
        v = s.beta_2 * v + s.one_minus_beta_2 * (g * g)
        second_moment = v
        if v_max is not None:
            # The maximum is over the uncorrected moments, as in PyTorch and
            # Keras. tf.maximum would lose a NaN in v under XLA.
            second_moment = tf.where(v_max > v, v_max, v)
        root = s.sqrt(second_moment) * s.root_scale
        p = p - s.step_size * (m / (root + s.epsilon))
        return (p, m, v) if v_max is None else (p, m, v, second_moment)

    def missed(slots: int) -> MissedStep:
        return coasting.along_first_moment(
            learning_rate * root_correction / (1 - tf.pow(beta_1, step)),
            epsilon if epsilon_hat else epsilon * root_correction,
            beta_1,
            beta_2,
            slots=slots,
        )

    return Update(
        formula,
        {
            "beta_1": beta_1,
            "one_minus_beta_1": 1 - beta_1,
            "beta_2": beta_2,
            "one_minus_beta_2": 1 - beta_2,
            "step_size": step_size,
            "root_scale": root_scale,
            "epsilon": epsilon,
        },
        learning_rate=learning_rate,
        missed=missed,
        **decay,
    )


SPEC = rule_spec.RuleSpec(
    name="adam",
    class_name="Adam",
    title="Adam or AdamW",
    op="AdamAmsgrad",
    update=adam_update,
    coasts=True,
    coasts_if_less=("beta_1", "beta_2"),
    where="With $t$ = `step`:",
    formula=r"""
        m &\leftarrow \beta_1 m + (1 - \beta_1) g \\
        v &\leftarrow \beta_2 v + (1 - \beta_2) g^2 \\
        v_{max} &\leftarrow \max(v_{max}, v)
            && \text{AMSGrad; takes the place of } v \text{ below} \\
        p &\leftarrow p - \frac{\eta}{1 - \beta_1^t} \cdot
            \frac{m}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}
    """,
    slots=[
        rule_spec.FIRST_MOMENT,
        rule_spec.SECOND_MOMENT,
        rule_spec.Slot(
            "v_max",
            "Running maximum of `v`",
            "velocity_hat",
            needed_by="amsgrad",
            # Random rounding would make the maximum grow too much.
            rounded_to_nearest=True,
        ),
    ],
    numbers=[
        rule_spec.STEP,
        rule_spec.learning_rate(1e-3),
        rule_spec.BETA_1,
        rule_spec.BETA_2,
        rule_spec.EPSILON,
    ],
    modes=[
        rule_spec.Mode(
            "epsilon_hat",
            False,
            "Whether to add epsilon before the bias correction, as Keras and "
            r"TensorFlow do. The step is then $\eta \sqrt{1 - \beta_2^t} / "
            r"(1 - \beta_1^t) \cdot m / (\sqrt{v} + \epsilon)$.",
        )
    ],
    example=["step=1, learning_rate=0.1"],
    example_result="[0.8999999761581421, 2.0999999046325684]",
    references="""\
- [Kingma and Ba, 2015](https://arxiv.org/abs/1412.6980)
- [Loshchilov and Hutter, 2019](https://arxiv.org/abs/1711.05101)
- [Reddi et al., 2018](https://arxiv.org/abs/1904.09237)""",
)
