"""Choices by variable after saving, where variables' paths change."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from small_model import X
from small_model import Y
from small_model import assert_same


def sequential() -> keras.Model:
    return keras.Sequential(
        [
            keras.layers.Dense(3, name="first"),
            keras.layers.Dense(2, name="last"),
        ],
        name="whole",
    )


def nested() -> keras.Model:
    inner = keras.Sequential(
        [keras.layers.Dense(3, name="first")], name="inner"
    )
    return keras.Sequential(
        [inner, keras.layers.Dense(2, name="last")], name="whole"
    )


def layerwise(model: keras.Model) -> tf_opt.AdamW:
    factors = tf_opt.layerwise_multipliers(model, 0.25)
    return tf_opt.AdamW(0.05, learning_rate_multipliers=factors)


def by_the_models_name(model: keras.Model) -> tf_opt.AdamW:
    del model
    return tf_opt.AdamW(
        0.05,
        weight_decay=0.5,
        learning_rate_multipliers={"whole.*first": 0.0, "whole": 0.5},
        weight_decay_multipliers={"^whole/.*kernel": 2.0},
    )


def with_exclusions(model: keras.Model) -> tf_opt.AdamW:
    optimizer = tf_opt.AdamW(0.05, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(
        var_list=model.trainable_variables[:1],
        # The second is found in no path until the model is loaded, so it warns.
        var_names=["^whole/.*first/bias", "^last/kernel"],
    )
    return optimizer


def fit(model: keras.Model) -> None:
    """Some steps, in eager mode, where nothing is to be compiled."""
    for _ in range(2):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(X) - Y) ** 2)
        variables = model.trainable_variables
        model.optimizer.apply(tape.gradient(loss, variables), variables)


def trained(make: Callable[[], keras.Model], optimizer) -> keras.Model:
    keras.utils.set_random_seed(3)
    model = make()
    model(X)
    model.compile(optimizer(model), "mse")
    fit(model)
    return model


def assert_go_on(model: keras.Model, *others: keras.Model) -> None:
    """The same variables, now and after training on."""
    for _ in range(2):
        for other in others:
            assert_same(
                [*other.variables, *other.optimizer.variables],
                [*model.variables, *model.optimizer.variables],
            )
            fit(other)
        fit(model)


@pytest.mark.core
@pytest.mark.parametrize(
    ("make", "optimizer"),
    [
        (sequential, layerwise),
        (sequential, by_the_models_name),
        (sequential, with_exclusions),
        (nested, by_the_models_name),
        (nested, with_exclusions),
    ],
)
def test_a_loaded_model_trains_on_bit_for_bit(make, optimizer, tmp_path):
    model = trained(make, optimizer)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    if make is sequential:
        # Otherwise nothing of this is tested.
        assert model.variables[0].path == "whole/first/kernel"
        assert loaded.variables[0].path == "first/kernel"
    assert loaded.optimizer.get_config() == model.optimizer.get_config()
    # And from what was loaded, saved and loaded again.
    loaded.save(tmp_path / "again.keras")
    again = keras.models.load_model(tmp_path / "again.keras")
    assert again.optimizer.get_config() == model.optimizer.get_config()
    assert_go_on(model, again, pickle.loads(pickle.dumps(model)))


def test_in_another_structure_names_decide():
    model = trained(sequential, by_the_models_name)
    model.optimizer.exclude_from_weight_decay(var_names=["bias"])
    config = model.optimizer.get_config()
    other = tf_opt.AdamW.from_config(config)
    assert other.get_config() == config
    with pytest.raises(ValueError, match="'whole.*is found in no"):
        other.build([keras.Variable([1.0], name="kernel")])
    variables = [
        keras.Variable([1.0], name=name)
        for name in ("whole_first", "whole_bias", "bias")
    ]
    config["weight_decay_multipliers"] = None
    other = tf_opt.AdamW.from_config(config)
    other.build(variables)
    by_position = other.get_config()["by_position"]
    assert by_position == {
        "shapes": [[1]] * 3,
        "learning_rate_multipliers": [0.0, 0.5, 1.0],
        "excluded": [False, True, True],
    }


def test_what_is_set_after_loading_counts(tmp_path):
    model = trained(sequential, by_the_models_name)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    loaded.optimizer.learning_rate_multipliers = {"^last": 0.0}
    before = loaded.get_weights()
    fit(loaded)
    after = loaded.get_weights()
    assert [(a == b).all() for a, b in zip(after, before, strict=True)] == [
        False,
        False,
        True,
        True,
    ]
    config = loaded.optimizer.get_config()["by_position"]
    assert config["learning_rate_multipliers"] == [1.0, 1.0, 0.0, 0.0]
    assert config["weight_decay_multipliers"] == [2.0, 1.0, 2.0, 1.0]

    # Before it is built, too.
    optimizer = tf_opt.AdamW.from_config(model.optimizer.get_config())
    optimizer.learning_rate_multipliers = None
    optimizer.weight_decay_multipliers = {"^b": 3.0}
    optimizer.exclude_from_weight_decay(var_names=["a"])
    optimizer.build([tf.Variable([1.0], name="a"), tf.Variable(1.0, name="b")])
    assert optimizer.get_config()["by_position"] == {
        "shapes": [[1], []],
        "weight_decay_multipliers": [1.0, 3.0],
        "excluded": [True, False],
    }


def test_a_loaded_model_keeps_its_lazy_tables(tmp_path):
    embedding = keras.layers.Embedding(3, 2, name="user_table")
    model = keras.Sequential([embedding, keras.layers.Dense(1)], name="whole")
    model.compile(tf_opt.Adam(0.1, lazy_mode=["whole/user"]), "mse")
    model.fit(tf.constant([[1]]), tf.ones([1, 1, 1]), verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.variables[0].path == "user_table/embeddings"
    config = loaded.optimizer.get_config()
    assert config == model.optimizer.get_config()
    assert config["by_position"]["lazy_mode"] == [True, False, False]
    row = loaded.get_weights()[0][1]
    loaded.fit(tf.constant([[2]]), tf.ones([1, 1, 1]), verbose=0)
    np.testing.assert_array_equal(loaded.get_weights()[0][1], row)
    loaded.optimizer.lazy_mode = True
    assert "by_position" not in loaded.optimizer.get_config()
