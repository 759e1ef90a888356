"""Tasks and precisions of examples/low_precision.py.

One task is to recognize scikit-learn's handwritten digits. The other one is to
predict the next character of Python's standard library. Both data sets come
with installed packages.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import digits
import keras
import numpy as np
import standard_library
import tensorflow as tf
import tf_opt

# Keras' value of epsilon; `epsilon_hat` adds it as Keras does.
EPSILON = 1e-7
_ADAM = functools.partial(tf_opt.Adam, epsilon=EPSILON, epsilon_hat=True)
_16_BIT_STATE = functools.partial(_ADAM, state_dtype="bfloat16")
# Characters are ASCII.
VOCABULARY = 128
# The number of characters in an excerpt.
LENGTH = 64
WIDTH = 64
HEADS = 4
BLOCKS = 2
_TEST_SHARE = 0.1


class Precision(NamedTuple):
    """Types of variables and state in a training.

    Attributes:
        policy: The model's dtype policy.
        make_optimizer: Makes the optimizer from a learning rate or a schedule.
        needs_seed: Whether the optimizer rounds at random.
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
    # float32 variables, bfloat16 arithmetic in the model.
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
    """Makes the optimizer of a precision.

    Args:
        name: The name in PRECISIONS.
        learning_rate: A number or a schedule.
        seed: The seed of random rounding, if there is any.
    """
    precision = PRECISIONS[name]
    arguments = {"seed": seed} if precision.needs_seed else {}
    return precision.make_optimizer(learning_rate, **arguments)


def make_model(
    name: str, make: Callable[[int], keras.Model], seed: int
) -> keras.Model:
    """Makes the model of a precision, with the rounded float32 weights.

    Args:
        name: The name in PRECISIONS.
        make: Makes the model in the global dtype policy from a seed.
        seed: The seed of the weights.
    """
    weights = make(seed).get_weights()
    usual = keras.config.dtype_policy()
    keras.config.set_dtype_policy(PRECISIONS[name].policy)
    try:
        model = make(seed)
    finally:
        keras.config.set_dtype_policy(usual)
    # Initializers draw different numbers in 16 bits.
    model.set_weights(weights)
    return model


def bytes_per_parameter(model: keras.Model) -> float:
    """Measures the memory of the trained variables and the optimizer's state.

    Args:
        model: A model that has been compiled and trained.
    """
    trained = model.trainable_variables
    kept = [*trained, *model.optimizer.variables]
    # This leaves out scalars, such as counters and the learning rate.
    size = sum(each.numpy().nbytes for each in kept if len(each.shape))
    return size / sum(each.numpy().size for each in trained)


class Task(NamedTuple):
    """Training task.

    Attributes:
        title: The title of the task.
        make_model: Makes the model from a seed.
        make_data: Makes the batches, from a number of steps and a seed, and the
            test data.
        steps: The number of steps in an epoch.
        learning_rate: The first learning rate of a cosine schedule down to 0,
            chosen for float32.
    """

    title: str
    make_model: Callable[[int], keras.Model]
    make_data: Callable[
        [int, int], tuple[tf.data.Dataset, tuple[np.ndarray, ...]]
    ]
    steps: int
    learning_rate: float


class _Positions(keras.layers.Layer):
    """Layer that adds a trained vector to each position."""

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Creates the vectors."""
        self.vectors = self.add_weight(
            shape=input_shape[1:], initializer="uniform"
        )

    def call(self, inputs: keras.KerasTensor) -> keras.KerasTensor:
        """Adds the vectors."""
        return inputs + self.vectors


def _block(inputs: keras.KerasTensor) -> keras.KerasTensor:
    """Applies causal attention, then a dense network to each position."""
    normal = keras.layers.LayerNormalization()(inputs)
    attention = keras.layers.MultiHeadAttention(HEADS, WIDTH // HEADS)
    hidden = inputs + attention(normal, normal, use_causal_mask=True)
    normal = keras.layers.LayerNormalization()(hidden)
    wide = keras.layers.Dense(4 * WIDTH, activation="gelu")(normal)
    return hidden + keras.layers.Dense(WIDTH)(wide)


def _transformer(seed: int) -> keras.Model:
    """Makes a transformer that predicts the next character, from a seed."""
    keras.utils.set_random_seed(seed)
    characters = keras.Input((LENGTH,), dtype="int32")
    hidden = keras.layers.Embedding(VOCABULARY, WIDTH)(characters)
    hidden = _Positions()(hidden)
    for _ in range(BLOCKS):
        hidden = _block(hidden)
    hidden = keras.layers.LayerNormalization()(hidden)
    last = keras.layers.Dense(VOCABULARY, name="last")
    return keras.Model(characters, last(hidden))


@functools.cache
def _texts() -> tuple[np.ndarray, np.ndarray]:
    """Returns the characters of the modules for training and for testing."""
    modules = list(standard_library.load_modules().values())
    # All trainings have the same test modules.
    np.random.default_rng(0).shuffle(modules)
    tested = int(_TEST_SHARE * len(modules))
    test, train = (
        np.frombuffer(b"".join(part), np.uint8)
        for part in (modules[:tested], modules[tested:])
    )
    return train[train < VOCABULARY], test[test < VOCABULARY]


def _windows(
    text: np.ndarray, count: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns random excerpts of a text, and the characters to predict."""
    starts = np.random.default_rng(seed).integers(
        len(text) - LENGTH, size=count
    )
    windows = text[starts[:, np.newaxis] + np.arange(LENGTH + 1)]
    windows = windows.astype(np.int32)
    return windows[:, :-1], windows[:, 1:]


def _digits(
    steps: int, seed: int
) -> tuple[tf.data.Dataset, tuple[np.ndarray, ...]]:
    """Returns batches of digits, shuffled in every epoch, and test data."""
    train_data, test_data = digits.load_data()
    batches = (
        tf.data.Dataset.from_tensor_slices(train_data)
        .shuffle(len(train_data[0]), seed=seed)
        .batch(digits.BATCH_SIZE)
    )
    return batches.repeat().take(steps), test_data


def _characters(
    steps: int, seed: int
) -> tuple[tf.data.Dataset, tuple[np.ndarray, ...]]:
    """Returns random excerpts of the library, and fixed ones for testing."""
    batch_size = 8
    windows = _windows(_texts()[0], steps * batch_size, seed)
    batches = tf.data.Dataset.from_tensor_slices(windows).batch(batch_size)
    return batches, _windows(_texts()[1], 128, seed=0)


def _small_model(seed: int) -> keras.Model:
    """Makes a dense network for digits with weights from a seed."""
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


# 23 batches contain all digits once.
TASKS = {
    "digits": Task(
        title="Handwritten digits, convolutional network",
        make_model=digits.make_model,
        make_data=_digits,
        steps=23,
        learning_rate=1e-3,
    ),
    "characters": Task(
        title="Python's standard library, small transformer",
        make_model=_transformer,
        make_data=_characters,
        steps=50,
        learning_rate=4e-3,
    ),
}
QUICK_TASKS = {
    "digits, dense": Task(
        title="Handwritten digits, dense network",
        make_model=_small_model,
        make_data=_digits,
        steps=23,
        learning_rate=1e-2,
    )
}
