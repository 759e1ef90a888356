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
        (tf_opt.AveragedSGD, "use_ema"),
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


# ---- What Keras' base class keeps. ----

NO_SCALARS = ["1", [1.0], True, 1j, tf.constant([1.0]), tf.constant("1")]
NO_BOUNDS = [*NO_SCALARS, math.nan, keras.Variable(1.0), lambda: 1.0]
NO_COUNTS = [*NO_SCALARS, math.nan, -2, 2.5, 2**63, tf.constant(2)]
REFUSED = {
    "clipnorm": [*NO_BOUNDS, math.inf],
    "global_clipnorm": [*NO_BOUNDS, math.inf],
    "clipvalue": NO_BOUNDS,
    "ema_momentum": [*NO_SCALARS, None, math.nan, -0.1, 1.5, tf.constant(2.0)],
    "ema_overwrite_frequency": NO_COUNTS,
    "gradient_accumulation_steps": [*NO_COUNTS, 1],
    "loss_scale_factor": [
        *(*NO_SCALARS, 0, -1.0, math.nan, math.inf),
        *(tf.constant(0.0), tf.Variable([1.0])),
    ],
}


@pytest.mark.parametrize("assigned", [False, True], ids=["given", "assigned"])
@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in REFUSED.items() for value in values],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_a_value_of_which_keras_makes_nothing_defined(name, value, assigned):
    averages = {"use_ema": name.startswith("ema_")}
    optimizer = tf_opt.Adam(**averages)
    before = getattr(optimizer, name)
    with pytest.raises(ValueError, match=refused(name, value)):
        if assigned:
            setattr(optimizer, name, value)
        else:
            tf_opt.Adam(**averages, **{name: value})
    assert getattr(optimizer, name) is before


HALVES = [0.5, np.float32(0.5), np.array(0.5), tf.constant(0.5)]
BOUNDS = [*HALVES, 2, 0, -1.0, None, -math.inf, tf.Variable(0.5)]
TAKEN = {
    "clipnorm": BOUNDS,
    "global_clipnorm": BOUNDS,
    "clipvalue": [*BOUNDS, math.inf],
    "use_ema": [True, np.bool_(True), np.bool_(False)],
    "ema_momentum": [*HALVES, 0, 1, tf.Variable(0.5), keras.Variable(0.5)],
    "ema_overwrite_frequency": [None, 0, 1, 2],
    "gradient_accumulation_steps": [None, 0, 2, np.int64(2)],
    "loss_scale_factor": [*HALVES, 2, tf.Variable(0.5), keras.Variable(0.5)],
}


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in TAKEN.items() for value in values],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_a_value_that_keras_takes_means_the_same(name, value):
    arguments = {"use_ema": name.startswith("ema_")}
    if name == "ema_momentum":
        arguments["ema_overwrite_frequency"] = 2
    arguments[name] = value
    if name == "global_clipnorm" and isinstance(value, np.ndarray):
        # Keras mixes up its type with the gradients'.
        arguments[name] = value.astype("float32")
    results = []
    for make, others in (
        (keras.optimizers.Adam, {}),
        (tf_opt.Adam, {"epsilon": 1e-7, "epsilon_hat": True}),
    ):
        optimizer = make(0.5, **arguments, **others)
        variable = keras.Variable([1.0, -2.0])
        for step in range(1, 5):
            gradient = tf.constant([0.3, -4.0 * (-1) ** step]) * step
            optimizer.apply([gradient], [variable])
        optimizer.finalize_variable_values([variable])
        results.append(variable.numpy())
    # Keras computes in float32, and the first one comes near to zero.
    np.testing.assert_allclose(results[1], results[0], rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("name", ["ema_momentum", "ema_overwrite_frequency"])
def test_without_averages_their_arguments_do_not_count(name):
    # As in Keras.
    for make in keras.optimizers.Adam, tf_opt.Adam:
        optimizer = make(**{name: "a"})
        setattr(optimizer, name, "b")


@pytest.mark.parametrize(
    ("make", "name", "value"),
    [
        (tf_opt.Adam, "amsgrad", True),
        (tf_opt.AdamW, "master_weights", True),
        (tf_opt.NAdam, "state_dtype", "bfloat16"),
        (tf_opt.ASGD, "batch_num", 3),
    ],
)
def test_what_decides_about_the_state_stays_once_it_is_made(make, name, value):
    optimizer = make()
    setattr(optimizer, name, value)
    optimizer.build([keras.Variable(1.0, dtype="bfloat16")])
    with pytest.raises(
        ValueError,
        match=re.escape(
            f"built, as its state depends on it. Received: {name}=False"
        ),
    ):
        setattr(optimizer, name, False)
    assert getattr(optimizer, name) == value


@pytest.mark.parametrize("model", [None, "model", keras.layers.Dense(1)])
def test_layerwise_multipliers_are_of_a_model(model):
    with pytest.raises(ValueError, match=re.escape(f"model={model!r}")):
        tf_opt.layerwise_multipliers(model, 0.5)
