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
    """One step of the stochastic average gradient, in place, in one launch.

    The formula, and what the arguments mean, is in `tf_opt.functional.asgd`;
    here they are lists, and `y` holds all batches: only the row `batch_index`
    is read and written.

    {{use}}

    Args:
        {{variables}}
        d: The sums of the last gradients of all batches, one for each variable
            and of its shape: float32, or float64 for float64 variables.
        y: The last gradient of each batch, likewise but of shape `[number of
            batches] + the variable's`. May be shorter: bfloat16, or float32 of
            float64 variables; what becomes part of d is rounded to it first.
        {{gradients}}
        batch_index: Which batch they are of, an integer in [0, number of
            batches).
        seen_batches: How many different batches there have been, this one
            included; >= 1.
        learning_rate: The step size.
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
