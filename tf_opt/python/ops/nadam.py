"""The op TfOpt>ResourceApplyNAdam."""

from __future__ import annotations

from collections.abc import Sequence

from tf_opt.python.functional.scalars import Scalar
from tf_opt.python.ops.gradients import GradientLike
from tf_opt.python.ops.handles import VariableLike
from tf_opt.python.ops.resource_apply import resource_apply

OP_NAME = "TfOpt>ResourceApplyNAdam"


def resource_apply_nadam(
    variables: Sequence[VariableLike],
    m: Sequence[VariableLike],
    v: Sequence[VariableLike],
    gradients: Sequence[GradientLike],
    *,
    step: Scalar,
    momentum_product: Scalar,
    learning_rate: Scalar = 2e-3,
    beta_1: Scalar = 0.9,
    beta_2: Scalar = 0.999,
    epsilon: Scalar = 1e-8,
    momentum_decay: Scalar = 4e-3,
    weight_decay: Scalar | Sequence[Scalar] = 0.0,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
) -> None:
    """One step of NAdam over many variables, in place, in one launch.

    The formula, and what the arguments mean, is in `tf_opt.functional.nadam`;
    here they are lists. If an argument is wrong nothing is written.

    Args:
        variables: Variables of one type: float16, bfloat16, float32 or
            float64, of any shapes. Each may occur once.
        m: First moments, one for each variable and of its shape: float32, or
            float64 for float64 variables.
        v: Second moments, likewise.
        gradients: Dense tensors, one for each variable, of its shape and type.
        step: Which step this is, an integer counted from 1.
        momentum_product: The product of the momenta of the steps before; 1 in
            the first. The caller keeps it: it is the same for every launch of
            a step.
        learning_rate: The step size. All scalars may be tensors.
        beta_1: Decay of the first moment, in [0, 1).
        beta_2: Decay of the second moment, in [0, 1).
        epsilon: Added to the denominator, >= 0.
        momentum_decay: How fast the momentum grows, >= 0.
        weight_decay: One number for all variables, or one for each.
        decoupled_weight_decay: Whether the decay shrinks the variable or adds
            to the gradient (L2).
        maximize: Whether to ascend instead of descend.

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
    >>> tf_opt.ops.resource_apply_nadam(
    ...     [p], [m], [v], [tf.constant([0.5, -0.5])], step=1,
    ...     momentum_product=1.0, learning_rate=0.1)
    >>> p.numpy().round(4).tolist()
    [0.8944000005722046, 2.105600118637085]
    """
    resource_apply(
        "tf_opt_resource_apply_n_adam",
        {"variables": variables, "m": m, "v": v},
        gradients,
        scalars={
            "learning_rate": learning_rate,
            "momentum_product": momentum_product,
            "beta_1": beta_1,
            "beta_2": beta_2,
            "epsilon": epsilon,
            "momentum_decay": momentum_decay,
        },
        integers={"step": step},
        weight_decay=weight_decay,
        decoupled_weight_decay=decoupled_weight_decay,
        maximize=maximize,
    )
