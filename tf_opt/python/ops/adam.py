"""The op TfOpt>ResourceApplyAdamAmsgrad."""

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
    name="TfOpt>ResourceApplyAdamAmsgrad",
    wrapper="tf_opt_resource_apply_adam_amsgrad",
)


@with_common_arguments
def resource_apply_adam_amsgrad(
    variables: Sequence[VariableLike],
    m: Sequence[VariableLike],
    v: Sequence[VariableLike],
    gradients: Sequence[TensorLike | tf.IndexedSlices],
    v_max: Sequence[VariableLike] = (),
    *,
    step: Scalar,
    learning_rate: Scalar = 1e-3,
    beta_1: Scalar = 0.9,
    beta_2: Scalar = 0.999,
    epsilon: Scalar = 1e-8,
    weight_decay: Scalar | Sequence[Scalar] = 0.0,
    frame: StepFrame = BARE,
    lazy_mode: bool = False,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
    epsilon_hat: bool = False,
) -> None:
    """Updates many variables in place by Adam or AdamW, in one launch.

    `tf_opt.functional.adam` describes the formula and the arguments, which are
    lists here.

    {{use}}

    Args:
        {{variables}}
        {{moments}}
        {{gradients}}
        v_max: Running maxima of `v`, for AMSGrad; same types as `v`. Or empty.
        {{step}}
        learning_rate: Step size.
        {{decay_rates}}
        {{direction}}
        epsilon_hat: Whether to add epsilon before the bias correction.

    Raises:
        {{raises}}

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
        OP,
        {"variables": variables, "m": m, "v": v, "v_max": v_max},
        gradients,
        numbers={
            "learning_rate": learning_rate,
            "beta_1": beta_1,
            "beta_2": beta_2,
            "epsilon": epsilon,
            "step": step,
        },
        weight_decay=weight_decay,
        frame=frame,
        lazy_mode=lazy_mode,
        decoupled_weight_decay=decoupled_weight_decay,
        maximize=maximize,
        epsilon_hat=epsilon_hat,
    )
