"""The op TfOpt>ResourceApplyNAdam."""

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
    name="TfOpt>ResourceApplyNAdam",
    wrapper="tf_opt_resource_apply_n_adam",
)


@with_common_arguments
def resource_apply_nadam(
    variables: Sequence[VariableLike],
    m: Sequence[VariableLike],
    v: Sequence[VariableLike],
    gradients: Sequence[TensorLike | tf.IndexedSlices],
    *,
    step: Scalar,
    momentum_product: Scalar,
    learning_rate: Scalar = 2e-3,
    beta_1: Scalar = 0.9,
    beta_2: Scalar = 0.999,
    epsilon: Scalar = 1e-8,
    momentum_decay: Scalar = 4e-3,
    weight_decay: Scalar | Sequence[Scalar] = 0.0,
    frame: StepFrame = BARE,
    lazy_mode: bool = False,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
) -> None:
    """Updates many variables in place by NAdam, in one launch.

    `tf_opt.functional.nadam` describes the formula and the arguments, which are
    lists here.

    {{use}}

    Args:
        {{variables}}
        {{moments}}
        {{gradients}}
        {{step}}
        momentum_product: Product of the momenta of all previous steps; 1 in the
            first step. The caller stores it, because all launches of a step
            share it.
        learning_rate: Step size.
        {{decay_rates}}
        momentum_decay: Rate at which the momentum grows, >= 0.
        {{direction}}

    Raises:
        {{raises}}

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
        OP,
        {"variables": variables, "m": m, "v": v},
        gradients,
        numbers={
            "learning_rate": learning_rate,
            "momentum_product": momentum_product,
            "beta_1": beta_1,
            "beta_2": beta_2,
            "epsilon": epsilon,
            "momentum_decay": momentum_decay,
            "step": step,
        },
        weight_decay=weight_decay,
        frame=frame,
        lazy_mode=lazy_mode,
        decoupled_weight_decay=decoupled_weight_decay,
        maximize=maximize,
    )
