"""The op TfOpt>ResourceApplyAveragedSGD."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.functional.tensors import TensorLike
from tf_opt.python.ops.docstrings import with_common_arguments
from tf_opt.python.ops.handles import VariableLike
from tf_opt.python.ops.resource_apply import ResourceApplyOp
from tf_opt.python.ops.resource_apply import resource_apply
from tf_opt.python.ops.step_frame import BARE
from tf_opt.python.ops.step_frame import StepFrame

OP = ResourceApplyOp(
    name="TfOpt>ResourceApplyAveragedSGD",
    wrapper="tf_opt_resource_apply_averaged_sgd",
)


@with_common_arguments
def resource_apply_averaged_sgd(
    variables: Sequence[VariableLike],
    ax: Sequence[VariableLike],
    gradients: Sequence[TensorLike | tf.IndexedSlices],
    *,
    step: Scalar,
    eta: Scalar,
    learning_rate: Scalar = 1e-2,
    lambd: Scalar = 1e-4,
    t0: Scalar = 1e6,
    weight_decay: Scalar | Sequence[Scalar] = 0.0,
    frame: StepFrame = BARE,
    lazy_mode: bool = False,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
) -> None:
    """Updates many variables in place by averaged SGD, in one launch.

    `tf_opt.functional.averaged_sgd` describes the formula and the arguments,
    which are lists here.

    {{use}}

    Args:
        {{variables}}
        ax: Averages, one for each variable and of its shape: float32, or
            float64 for float64 variables. They may be narrower: bfloat16,
            which is rounded at random, or float32 for float64 variables.
        {{gradients}}
        {{step}}
        eta: Step size, >= 0.
        learning_rate: Factor of a decoupled weight decay.
        lambd: Strength of the variables' decay, >= 0.
        t0: Number of steps before averaging begins, >= 0.
        {{direction}}

    Raises:
        {{raises}}

    Example:

    >>> import tensorflow as tf, tf_opt
    >>> p, ax = tf.Variable([1.0, 2.0]), tf.Variable([0.0, 0.0])
    >>> tf_opt.ops.resource_apply_averaged_sgd(
    ...     [p], [ax], [tf.constant([0.5, -0.5])], step=1, eta=0.5, lambd=0.0)
    >>> p.numpy().tolist(), ax.numpy().tolist()
    ([0.75, 2.25], [0.75, 2.25])
    """
    resource_apply(
        OP,
        {"variables": variables, "ax": ax},
        gradients,
        numbers={
            "learning_rate": learning_rate,
            "eta": eta,
            "lambd": lambd,
            "t0": t0,
            "step": step,
        },
        weight_decay=weight_decay,
        frame=frame,
        lazy_mode=lazy_mode,
        decoupled_weight_decay=decoupled_weight_decay,
        maximize=maximize,
    )
