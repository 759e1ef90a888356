"""Update rules as pure functions, which return new tensors."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.functional.measure import (
    GradientMeasures as GradientMeasures,
)
from tf_opt.python.functional.measure import (
    measure_gradients as measure_gradients,
)
from tf_opt.python.functional.tensors import TensorLike
from tf_opt.python.functional.unrolling import UnrollResult as UnrollResult
from tf_opt.python.functional.unrolling import unroll as unroll

def adam(
    variable: TensorLike,
    gradient: TensorLike,
    m: TensorLike,
    v: TensorLike,
    v_max: TensorLike | None = None,
    *,
    step: Scalar,
    learning_rate: Scalar = 0.001,
    beta_1: Scalar = 0.9,
    beta_2: Scalar = 0.999,
    epsilon: Scalar = 1e-08,
    weight_decay: Scalar = 0.0,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
    epsilon_hat: bool = False,
) -> AdamResult:
    """Computes one step of Adam or AdamW on one tensor."""

class AdamResult(NamedTuple):
    """Result of a step: the new variable and its new state."""

    variable: tf.Tensor
    m: tf.Tensor
    v: tf.Tensor
    v_max: tf.Tensor | None = None

def asgd(
    variable: TensorLike,
    gradient: TensorLike,
    d: TensorLike,
    y: TensorLike,
    *,
    seen_batches: Scalar,
    learning_rate: Scalar = 0.001,
    weight_decay: Scalar = 0.0,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
) -> ASGDResult:
    """Computes one step of the stochastic average gradient on one tensor."""

class ASGDResult(NamedTuple):
    """Result of a step: the new variable and its new state."""

    variable: tf.Tensor
    d: tf.Tensor
    y: tf.Tensor

def averaged_sgd(
    variable: TensorLike,
    gradient: TensorLike,
    ax: TensorLike,
    eta: Scalar | None = None,
    *,
    step: Scalar,
    learning_rate: Scalar = 0.01,
    lambd: Scalar = 0.0001,
    alpha: Scalar = 0.75,
    t0: Scalar = 1000000.0,
    weight_decay: Scalar = 0.0,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
) -> AveragedSGDResult:
    """Computes one step of AveragedSGD on one tensor."""

class AveragedSGDResult(NamedTuple):
    """Result of a step: the new variable and its new state."""

    variable: tf.Tensor
    ax: tf.Tensor
    eta: tf.Tensor

def lion(
    variable: TensorLike,
    gradient: TensorLike,
    m: TensorLike,
    *,
    learning_rate: Scalar = 0.001,
    beta_1: Scalar = 0.9,
    beta_2: Scalar = 0.99,
    weight_decay: Scalar = 0.0,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
) -> LionResult:
    """Computes one step of Lion on one tensor."""

class LionResult(NamedTuple):
    """Result of a step: the new variable and its new state."""

    variable: tf.Tensor
    m: tf.Tensor

def nadam(
    variable: TensorLike,
    gradient: TensorLike,
    m: TensorLike,
    v: TensorLike,
    momentum_product: Scalar = 1.0,
    *,
    step: Scalar,
    learning_rate: Scalar = 0.002,
    beta_1: Scalar = 0.9,
    beta_2: Scalar = 0.999,
    epsilon: Scalar = 1e-08,
    momentum_decay: Scalar = 0.004,
    weight_decay: Scalar = 0.0,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
) -> NAdamResult:
    """Computes one step of NAdam on one tensor."""

class NAdamResult(NamedTuple):
    """Result of a step: the new variable and its new state."""

    variable: tf.Tensor
    m: tf.Tensor
    v: tf.Tensor
    momentum_product: tf.Tensor

def sgd(
    variable: TensorLike,
    gradient: TensorLike,
    velocity: TensorLike | None = None,
    *,
    step: Scalar,
    learning_rate: Scalar = 0.01,
    momentum: Scalar = 0.0,
    dampening: Scalar = 0.0,
    weight_decay: Scalar = 0.0,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
    nesterov: bool = False,
    torch_momentum: bool = False,
) -> SGDResult:
    """Computes one step of SGD on one tensor."""

class SGDResult(NamedTuple):
    """Result of a step: the new variable and its new state."""

    variable: tf.Tensor
    velocity: tf.Tensor | None = None
