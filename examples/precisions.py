"""What is kept in 16 bits while a model trains: the contenders."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import keras
import tf_opt

# With epsilon where it stands in Keras.
EPSILON = 1e-7
_ADAM = functools.partial(tf_opt.Adam, epsilon=EPSILON, epsilon_hat=True)
_16_BIT_STATE = functools.partial(_ADAM, state_dtype="bfloat16")


class Precision(NamedTuple):
    """A way to train.

    Attributes:
        policy: The model's dtype policy.
        make_optimizer: Makes the optimizer of a learning rate, or of a schedule
            of it.
        needs_seed: Whether it rounds at random.
    """

    policy: str
    make_optimizer: Callable[..., keras.optimizers.Optimizer]
    needs_seed: bool = False


FLOAT32 = "float32"
KERAS = "bfloat16, Keras' Adam"

PRECISIONS = {
    FLOAT32: Precision("float32", _ADAM),
    "float32, bfloat16 state": Precision(
        "float32", _16_BIT_STATE, needs_seed=True
    ),
    # Float32 variables, bfloat16 arithmetic: what the model itself loses.
    "mixed_bfloat16": Precision("mixed_bfloat16", _ADAM),
    "bfloat16, master weights": Precision(
        "bfloat16", functools.partial(_ADAM, master_weights=True)
    ),
    "bfloat16, master weights, bfloat16 state": Precision(
        "bfloat16",
        functools.partial(_16_BIT_STATE, master_weights=True),
        needs_seed=True,
    ),
    "bfloat16, stochastic rounding": Precision(
        "bfloat16",
        functools.partial(_ADAM, stochastic_rounding=True),
        needs_seed=True,
    ),
    "bfloat16, stochastic rounding, bfloat16 state": Precision(
        "bfloat16",
        functools.partial(_16_BIT_STATE, stochastic_rounding=True),
        needs_seed=True,
    ),
    "bfloat16, plain": Precision("bfloat16", _ADAM),
    KERAS: Precision(
        "bfloat16", functools.partial(keras.optimizers.Adam, epsilon=EPSILON)
    ),
}


def make_optimizer(
    name: str,
    learning_rate: float | keras.optimizers.schedules.LearningRateSchedule,
    seed: int,
) -> keras.optimizers.Optimizer:
    """The optimizer of a contender.

    Args:
        name: The contender's, in PRECISIONS.
        learning_rate: A number or a schedule.
        seed: Of what is rounded at random, if anything is.
    """
    precision = PRECISIONS[name]
    arguments = {"seed": seed} if precision.needs_seed else {}
    return precision.make_optimizer(learning_rate, **arguments)


def make_model(
    name: str, make: Callable[[int], keras.Model], seed: int
) -> keras.Model:
    """A contender's model, with the rounded weights of the float32 one.

    Args:
        name: The contender's, in PRECISIONS.
        make: Makes the model in the global dtype policy, of a seed.
        seed: Of the weights.
    """
    weights = make(seed).get_weights()
    usual = keras.config.dtype_policy()
    keras.config.set_dtype_policy(PRECISIONS[name].policy)
    try:
        model = make(seed)
    finally:
        keras.config.set_dtype_policy(usual)
    # In 16 bits the initializers draw other numbers.
    model.set_weights(weights)
    return model


def bytes_per_parameter(model: keras.Model) -> float:
    """What the trained variables and the optimizer's state take.

    Args:
        model: It has been compiled and trained.
    """
    trained = model.trainable_variables
    kept = [*trained, *model.optimizer.variables]
    # Counters and the learning rate are scalars.
    size = sum(each.numpy().nbytes for each in kept if len(each.shape))
    return size / sum(each.numpy().size for each in trained)
