"""Wrappers of the registered custom ops."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.functional.tensors import TensorLike
from tf_opt.python.ops.inputs import VariableLike
from tf_opt.python.ops.measure_gradients import (
    measure_gradients as measure_gradients,
)
from tf_opt.python.ops.step_frame import StepFrame as StepFrame

def resource_apply_adam_amsgrad(
    variables: Sequence[VariableLike],
    m: Sequence[VariableLike],
    v: Sequence[VariableLike],
    gradients: Sequence[TensorLike | tf.IndexedSlices],
    v_max: Sequence[VariableLike] = (),
    *,
    step: Scalar,
    learning_rate: Scalar = 0.001,
    beta_1: Scalar = 0.9,
    beta_2: Scalar = 0.999,
    epsilon: Scalar = 1e-08,
    weight_decay: Scalar | Sequence[Scalar] = 0.0,
    frame: StepFrame = StepFrame(),
    lazy_mode: bool = False,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
    epsilon_hat: bool = False,
) -> None:
    """Updates many variables in place by Adam or AdamW, in one launch."""

def resource_apply_asgd(
    variables: Sequence[VariableLike],
    d: Sequence[VariableLike],
    y: Sequence[VariableLike],
    gradients: Sequence[TensorLike | tf.IndexedSlices],
    *,
    seen_batches: Scalar,
    batch_index: Scalar,
    learning_rate: Scalar = 0.001,
    weight_decay: Scalar | Sequence[Scalar] = 0.0,
    frame: StepFrame = StepFrame(),
    lazy_mode: bool = False,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
) -> None:
    """Updates many variables in place by the stochastic average gradient, in one launch."""

def resource_apply_averaged_sgd(
    variables: Sequence[VariableLike],
    ax: Sequence[VariableLike],
    gradients: Sequence[TensorLike | tf.IndexedSlices],
    *,
    step: Scalar,
    eta: Scalar,
    learning_rate: Scalar = 0.01,
    lambd: Scalar = 0.0001,
    t0: Scalar = 1000000.0,
    weight_decay: Scalar | Sequence[Scalar] = 0.0,
    frame: StepFrame = StepFrame(),
    lazy_mode: bool = False,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
) -> None:
    """Updates many variables in place by AveragedSGD, in one launch."""

def resource_apply_lion(
    variables: Sequence[VariableLike],
    m: Sequence[VariableLike],
    gradients: Sequence[TensorLike | tf.IndexedSlices],
    *,
    learning_rate: Scalar = 0.001,
    beta_1: Scalar = 0.9,
    beta_2: Scalar = 0.99,
    weight_decay: Scalar | Sequence[Scalar] = 0.0,
    frame: StepFrame = StepFrame(),
    lazy_mode: bool = False,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
) -> None:
    """Updates many variables in place by Lion, in one launch."""

def resource_apply_nadam(
    variables: Sequence[VariableLike],
    m: Sequence[VariableLike],
    v: Sequence[VariableLike],
    gradients: Sequence[TensorLike | tf.IndexedSlices],
    *,
    step: Scalar,
    momentum_product: Scalar,
    learning_rate: Scalar = 0.002,
    beta_1: Scalar = 0.9,
    beta_2: Scalar = 0.999,
    epsilon: Scalar = 1e-08,
    momentum_decay: Scalar = 0.004,
    weight_decay: Scalar | Sequence[Scalar] = 0.0,
    frame: StepFrame = StepFrame(),
    lazy_mode: bool = False,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
) -> None:
    """Updates many variables in place by NAdam, in one launch."""

def resource_apply_sgd(
    variables: Sequence[VariableLike],
    gradients: Sequence[TensorLike | tf.IndexedSlices],
    velocity: Sequence[VariableLike] = (),
    *,
    step: Scalar,
    learning_rate: Scalar = 0.01,
    momentum: Scalar = 0.0,
    dampening: Scalar = 0.0,
    weight_decay: Scalar | Sequence[Scalar] = 0.0,
    frame: StepFrame = StepFrame(),
    lazy_mode: bool = False,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
    nesterov: bool = False,
    torch_momentum: bool = False,
) -> None:
    """Updates many variables in place by SGD, in one launch."""
