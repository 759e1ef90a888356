"""The op TfOpt>ResourceApplyAdamAmsgrad."""

from __future__ import annotations

from collections.abc import Sequence

from tf_opt.python.functional.scalars import Scalar
from tf_opt.python.ops.gradients import GradientLike
from tf_opt.python.ops.handles import VariableLike
from tf_opt.python.ops.resource_apply import resource_apply

OP_NAME = "TfOpt>ResourceApplyAdamAmsgrad"


def resource_apply_adam_amsgrad(
    variables: Sequence[VariableLike],
    m: Sequence[VariableLike],
    v: Sequence[VariableLike],
    gradients: Sequence[GradientLike],
    v_max: Sequence[VariableLike] = (),
    *,
    step: Scalar,
    learning_rate: Scalar = 1e-3,
    beta_1: Scalar = 0.9,
    beta_2: Scalar = 0.999,
    epsilon: Scalar = 1e-8,
    weight_decay: Scalar | Sequence[Scalar] = 0.0,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
    epsilon_hat: bool = False,
) -> None:
    """One step of Adam or AdamW over many variables, in place, in one launch.

    The formula, and what the arguments mean, is in `tf_opt.functional.adam`;
    here they are lists. If an argument is wrong nothing is written.

    Args:
        variables: Variables of one type: float16, bfloat16, float32 or
            float64, of any shapes. Each may occur once.
        m: First moments, one for each variable and of its shape: float32, or
            float64 for float64 variables.
        v: Second moments, likewise.
        gradients: Dense tensors, one for each variable, of its shape and type.
        v_max: Running maxima of `v`, likewise, for AMSGrad; or empty.
        step: Which step this is, an integer counted from 1.
        learning_rate: The step size. All scalars may be tensors.
        beta_1: Decay of the first moment, in [0, 1).
        beta_2: Decay of the second moment, in [0, 1).
        epsilon: Added to the denominator, >= 0.
        weight_decay: One number for all variables, or one for each.
        decoupled_weight_decay: Whether the decay shrinks the variable (AdamW)
            or adds to the gradient (L2).
        maximize: Whether to ascend instead of descend.
        epsilon_hat: Whether epsilon is added before the bias correction.

    Raises:
        RuntimeError: If the library of custom ops isn't loaded.
        TypeError: If a list holds something else than variables.
        ValueError: If a list is empty or of another length (in a graph, also
            if a shape doesn't fit).
        tf.errors.InvalidArgumentError: If a shape, type or number is wrong.
            (On a GPU a wrong number is printed, and nothing is written.)
        tf.errors.FailedPreconditionError: If a variable isn't initialized.

    Example:

    >>> import tensorflow as tf, tf_opt
    >>> p = tf.Variable([1.0, 2.0])
    >>> m, v = tf.Variable([0.0, 0.0]), tf.Variable([0.0, 0.0])
    >>> tf_opt.ops.resource_apply_adam_amsgrad(
    ...     [p], [m], [v], [tf.constant([0.5, -0.5])], step=1,
    ...     learning_rate=0.1)
    >>> p.numpy().round(4).tolist()
    [0.8999999761581421, 2.0999999046325684]
    """
    resource_apply(
        "tf_opt_resource_apply_adam_amsgrad",
        {"variables": variables, "m": m, "v": v, "v_max": v_max},
        gradients,
        scalars={
            "learning_rate": learning_rate,
            "beta_1": beta_1,
            "beta_2": beta_2,
            "epsilon": epsilon,
        },
        integers={"step": step},
        weight_decay=weight_decay,
        optional=["v_max"],
        decoupled_weight_decay=decoupled_weight_decay,
        maximize=maximize,
        epsilon_hat=epsilon_hat,
    )
