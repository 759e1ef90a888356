"""The op TfOpt>ResourceApplyASGD."""

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
    name="TfOpt>ResourceApplyASGD",
    wrapper="tf_opt_resource_apply_asgd",
)


@with_common_arguments
def resource_apply_asgd(
    variables: Sequence[VariableLike],
    d: Sequence[VariableLike],
    y: Sequence[VariableLike],
    gradients: Sequence[TensorLike | tf.IndexedSlices],
    *,
    batch_index: Scalar,
    seen_batches: Scalar,
    learning_rate: Scalar = 1e-3,
    weight_decay: Scalar | Sequence[Scalar] = 0.0,
    frame: StepFrame = BARE,
    lazy_mode: bool = False,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
) -> None:
    """Updates many variables in place by ASGD, in one launch.

    `tf_opt.functional.asgd` describes the formula and the arguments, which are
    lists here. `y` contains the gradients of all batches; the op only reads and
    writes the row `batch_index`.

    {{use}}

    Args:
        {{variables}}
        d: Sums of the last gradients of all batches, one for each variable and
            of its shape: float32, or float64 for float64 variables.
        y: Last gradients of the batches, one tensor for each variable, of shape
            `[number of batches] + the variable's` and of the types of `d`. They
            may be narrower: bfloat16, or float32 for float64 variables. Then
            gradients are rounded to this type before they are added to `d`.
        {{gradients}}
        batch_index: Number of the gradients' batch, an integer in [0, number of
            batches).
        seen_batches: The number of different batches seen, including this one;
            >= 1.
        learning_rate: Step size.
        {{direction}}

    Raises:
        {{raises}}

    Example:

    >>> import tensorflow as tf, tf_opt
    >>> p, d = tf.Variable([1.0, 2.0]), tf.Variable([0.0, 0.0])
    >>> y = tf.Variable(tf.zeros((3, 2)))
    >>> tf_opt.ops.resource_apply_asgd(
    ...     [p], [d], [y], [tf.constant([0.5, -0.5])], batch_index=1,
    ...     seen_batches=1, learning_rate=0.5)
    >>> p.numpy().tolist(), y.numpy().tolist()
    ([0.75, 2.25], [[0.0, 0.0], [0.5, -0.5], [0.0, 0.0]])
    """
    resource_apply(
        OP,
        {"variables": variables, "d": d, "y": y},
        gradients,
        numbers={
            "learning_rate": learning_rate,
            "batch_index": batch_index,
            "seen_batches": seen_batches,
        },
        weight_decay=weight_decay,
        frame=frame,
        lazy_mode=lazy_mode,
        decoupled_weight_decay=decoupled_weight_decay,
        maximize=maximize,
    )
