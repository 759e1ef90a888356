"""The ops that update variables, one for each optimizer."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tf_opt.python import docstrings
from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.functional.tensors import TensorLike
from tf_opt.python.ops.inputs import VariableLike
from tf_opt.python.ops.resource_apply import ResourceApplyOp
from tf_opt.python.ops.resource_apply import resource_apply
from tf_opt.python.ops.step_frame import BARE
from tf_opt.python.ops.step_frame import StepFrame

ADAM = ResourceApplyOp(
    "TfOpt>ResourceApplyAdamAmsgrad", "tf_opt_resource_apply_adam_amsgrad"
)
NADAM = ResourceApplyOp(
    "TfOpt>ResourceApplyNAdam", "tf_opt_resource_apply_n_adam"
)
ASGD = ResourceApplyOp("TfOpt>ResourceApplyASGD", "tf_opt_resource_apply_asgd")
AVERAGED_SGD = ResourceApplyOp(
    "TfOpt>ResourceApplyAveragedSGD", "tf_opt_resource_apply_averaged_sgd"
)


@docstrings.for_op
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
    resource_apply(ADAM, **locals())


@docstrings.for_op
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
    resource_apply(NADAM, **locals())


@docstrings.for_op
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
    resource_apply(ASGD, **locals())


@docstrings.for_op
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
    resource_apply(AVERAGED_SGD, **locals())
