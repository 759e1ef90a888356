"""Weight decay that changes between steps, and what it leaves out."""

from __future__ import annotations

import pickle

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from counterparts import COUNTERPARTS

pytestmark = pytest.mark.core

IMPLEMENTATIONS = ["custom_op", "composed"]
implementations = pytest.mark.parametrize("implementation", IMPLEMENTATIONS)


@pytest.mark.parametrize("make", [tf.Variable, keras.Variable])
@implementations
def test_a_variable_takes_effect_in_the_next_traced_step(implementation, make):
    pair = COUNTERPARTS["AdamW"]

    def train(make_optimizer, **arguments) -> list[float]:
        decay = make(0.5)
        optimizer = make_optimizer(weight_decay=decay, **arguments)
        variable, bias = keras.Variable([1.0, 2.0]), keras.Variable([3.0])
        optimizer.exclude_from_weight_decay(var_list=[bias])
        optimizer.build([variable, bias])

        @tf.function
        def step() -> None:
            optimizer.apply([tf.ones(2), tf.ones(1)], [variable, bias])

        for value in (0.5, 0.25, 0.0, 2.0):
            decay.assign(value)
            step()
        return [*variable.numpy(), *bias.numpy()]

    np.testing.assert_allclose(
        train(pair.ours, implementation=implementation),
        train(pair.keras),
        rtol=1e-6,
    )


def test_a_number_takes_effect_in_the_next_eager_step():
    variable = keras.Variable([1.0])
    optimizer = tf_opt.Adam(0.5, weight_decay=0.5)
    for decay, expected in ((0.5, 0.75), (1.0, 0.375), (None, 0.375)):
        optimizer.weight_decay = decay
        optimizer.apply([tf.zeros(1)], [variable])
        assert variable.numpy() == [expected]


@pytest.mark.parametrize("make", [tf.Variable, keras.Variable])
def test_a_variable_is_saved_as_its_number(make):
    decay = make(0.5)
    optimizer = tf_opt.AdamW(0.1, weight_decay=decay)
    decay.assign(0.25)
    config = optimizer.get_config()
    assert config["weight_decay"] == 0.25
    assert tf_opt.AdamW.from_config(config).weight_decay == 0.25


def decayed(optimizer, variables) -> list[bool]:
    """Which of the variables a step without gradients shrinks."""
    before = [float(tf.reduce_sum(v)) for v in variables]
    optimizer.apply([tf.zeros(v.shape) for v in variables], variables)
    after = [float(tf.reduce_sum(v)) for v in variables]
    return [a != b for a, b in zip(before, after, strict=True)]


def test_variables_without_a_name_are_excluded_one_by_one():
    variables = [tf.Variable([1.0]) for _ in range(3)]
    optimizer = tf_opt.AdamW(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_list=[variables[1]])
    assert decayed(optimizer, variables) == [True, False, True]
    loaded = tf_opt.AdamW.from_config(optimizer.get_config())
    assert decayed(loaded, variables) == [True, False, True]
    again = tf_opt.AdamW.from_config(loaded.get_config())
    assert again.get_config() == optimizer.get_config()


def test_exclusions_are_found_again_by_path_and_by_name():
    variables = [
        # Of other shapes: the same ones would be found by their positions.
        keras.Variable([1.0] * (i + 1), name=name)
        for i, name in enumerate(("kernel", "bias", "gamma"))
    ]
    optimizer = tf_opt.AdamW(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(
        var_list=[variables[2]], var_names=["bias"]
    )
    # Before and after it is built.
    for _ in range(2):
        config = optimizer.get_config()
        assert pickle.loads(pickle.dumps(config)) == config
        loaded = tf_opt.AdamW.from_config(config)
        assert decayed(loaded, variables[::-1]) == [False, False, True]
        optimizer.build(variables)
    assert decayed(optimizer, variables) == [True, False, False]


@pytest.mark.parametrize("how", ["var_names", "var_list"])
def test_what_is_excluded_after_a_step_is_so_in_the_next(how):
    results = []
    for make in (COUNTERPARTS["AdamW"].ours, COUNTERPARTS["AdamW"].keras):
        bias = keras.Variable([1.0], name="bias")
        optimizer = make()
        optimizer.apply([tf.zeros(1)], [bias])
        excluded = "bias" if how == "var_names" else bias
        optimizer.exclude_from_weight_decay(**{how: [excluded]})
        optimizer.apply([tf.zeros(1)], [bias])
        results.append(bias.numpy())
    np.testing.assert_allclose(*results, rtol=1e-6)
