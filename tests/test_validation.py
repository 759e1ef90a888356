"""Constructor arguments: what is taken, and errors that name what isn't."""

from __future__ import annotations

import math
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt
from tf_opt.python.optimizers.values import validation

NO_NUMBERS = ["0.9", None, True, [0.9], 0.9j, tf.constant(0.9), np.zeros(1)]


def refused(name: str, value) -> str:
    """What the error must say: which argument, and what it was."""
    return f"`{name}` must be .*{re.escape(f'{name}={value!r}')}"


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (tf_opt.Adam, "beta_1"),
        (tf_opt.AdamW, "beta_2"),
        (tf_opt.NAdam, "epsilon"),
        (tf_opt.NAdam, "momentum_decay"),
        (tf_opt.ASGD, "batch_num"),
        (tf_opt.AveragedSGD, "lambd"),
        (tf_opt.AveragedSGD, "alpha"),
        (tf_opt.AveragedSGD, "t0"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("value", [*NO_NUMBERS, math.nan, -0.5], ids=repr)
def test_a_constructor_names_what_is_no_number_or_out_of_range(
    make, name, value
):
    with pytest.raises(ValueError, match=refused(name, value)):
        make(**{name: value})


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (tf_opt.Adam, "amsgrad"),
        (tf_opt.AdamW, "epsilon_hat"),
        (tf_opt.NAdam, "maximize"),
        (tf_opt.ASGD, "decoupled_weight_decay"),
    ],
)
@pytest.mark.parametrize("value", ["no", None, 1, tf.constant(True)], ids=repr)
def test_a_constructor_names_what_is_no_boolean(make, name, value):
    with pytest.raises(ValueError, match=refused(name, value)):
        make(**{name: value})


@pytest.mark.parametrize("number", [0, 0.5, np.float32(0.5), np.int8(0)])
def test_numbers_of_every_kind_are_taken(number):
    optimizer = tf_opt.AveragedSGD(lambd=number, t0=number, alpha=number)
    optimizer.apply([tf.constant(1.0)], [keras.Variable(1.0)])
    tf_opt.Adam(beta_1=number, beta_2=number, epsilon=number)
    validation.check_weight_decay(number)


def test_only_t0_may_be_infinite():
    variable = keras.Variable(1.0)
    optimizer = tf_opt.AveragedSGD(0.5, t0=math.inf)  # Never averages.
    for _ in range(3):
        optimizer.apply([tf.constant(1.0)], [variable])
    assert optimizer.variables[2].numpy() == variable.numpy()
    for name in "lambd", "alpha":
        with pytest.raises(ValueError, match=refused(name, math.inf)):
            tf_opt.AveragedSGD(**{name: math.inf})


@pytest.mark.parametrize(
    "value",
    ["0.1", None, 1, True, -0.1, math.nan, math.inf, tf.constant(0.1)],
    ids=repr,
)
def test_a_learning_rate_that_keras_refuses_or_that_is_none(value):
    with pytest.raises(ValueError, match=refused("learning_rate", value)):
        validation.check_learning_rate(value)


@pytest.mark.parametrize(
    "value",
    [
        0.0,
        np.float64(0.1),
        lambda: 0.1,
        keras.optimizers.schedules.CosineDecay(0.1, 5),
    ],
    ids=["0", "NumPy", "callable", "schedule"],
)
def test_a_learning_rate_that_keras_takes(value):
    keras.optimizers.SGD(value)
    validation.check_learning_rate(value)


@pytest.mark.parametrize("make", [tf.Variable, keras.Variable])
def test_a_weight_decay_may_be_a_variable(make):
    validation.check_weight_decay(make(0.1))
    with pytest.raises(ValueError, match=r"`weight_decay` .* shape \(2,\)"):
        validation.check_weight_decay(make([0.1, 0.2]))


@pytest.mark.parametrize(
    "value", [v for v in NO_NUMBERS if v is not None] + [-0.1, math.inf]
)
def test_a_weight_decay_that_is_none(value):
    with pytest.raises(ValueError, match=refused("weight_decay", value)):
        validation.check_weight_decay(value)
