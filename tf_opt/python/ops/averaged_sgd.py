"""The op TfOpt>ResourceApplyAveragedSGD."""

from __future__ import annotations

from collections.abc import Sequence

from tf_opt.python.functional.scalars import Scalar
from tf_opt.python.ops.gradients import GradientLike
from tf_opt.python.ops.handles import VariableLike
from tf_opt.python.ops.resource_apply import resource_apply

OP_NAME = "TfOpt>ResourceApplyAveragedSGD"


def resource_apply_averaged_sgd(
    variables: Sequence[VariableLike],
    ax: Sequence[VariableLike],
    gradients: Sequence[GradientLike],
    *,
    step: Scalar,
    eta: Scalar,
    learning_rate: Scalar = 1e-2,
    lambd: Scalar = 1e-4,
    t0: Scalar = 1e6,
    weight_decay: Scalar | Sequence[Scalar] = 0.0,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
) -> None:
    """One step of averaged SGD over many variables, in place, in one launch.

    The formula, and what the arguments mean, is in
    `tf_opt.functional.averaged_sgd`; here they are lists. If an argument is
    wrong nothing is written.

    Args:
        variables: Variables of one type: float16, bfloat16, float32 or
            float64, of any shapes. Each may occur once.
        ax: Their averages, one for each variable and of its shape: float32, or
            float64 for float64 variables.
        gradients: Dense tensors, one for each variable, of its shape and type.
        step: Which step this is, an integer counted from 1.
        eta: The step size. All scalars may be tensors.
        learning_rate: What a decoupled weight decay is multiplied by.
        lambd: How strongly the variable decays, >= 0.
        t0: After how many steps averaging begins, >= 0.
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
    >>> p, ax = tf.Variable([1.0, 2.0]), tf.Variable([0.0, 0.0])
    >>> tf_opt.ops.resource_apply_averaged_sgd(
    ...     [p], [ax], [tf.constant([0.5, -0.5])], step=1, eta=0.5, lambd=0.0)
    >>> p.numpy().tolist(), ax.numpy().tolist()
    ([0.75, 2.25], [0.75, 2.25])
    """
    resource_apply(
        "tf_opt_resource_apply_averaged_sgd",
        {"variables": variables, "ax": ax},
        gradients,
        scalars={
            "learning_rate": learning_rate,
            "eta": eta,
            "lambd": lambd,
            "t0": t0,
        },
        integers={"step": step},
        weight_decay=weight_decay,
        decoupled_weight_decay=decoupled_weight_decay,
        maximize=maximize,
    )
