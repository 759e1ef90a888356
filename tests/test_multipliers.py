"""Learning rates and weight decay of single variables."""

import copy
import json
import pickle
import re
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from counterparts import COUNTERPARTS

pytestmark = pytest.mark.core


def decayed(optimizer, variables) -> list[bool]:
    """Which of the variables a step without gradients shrinks."""
    before = [float(tf.reduce_sum(v)) for v in variables]
    optimizer.apply([tf.zeros(v.shape) for v in variables], variables)
    after = [float(tf.reduce_sum(v)) for v in variables]
    return [a != b for a, b in zip(before, after, strict=True)]


def test_a_name_alone_is_no_list_of_names():
    for optimizer in (tf_opt.AdamW(), tf_opt.LossScaleOptimizer(tf_opt.Adam())):
        with pytest.raises(ValueError, match=r"write var_names=\['bias'\]"):
            optimizer.exclude_from_weight_decay(var_names="bias")
        optimizer.exclude_from_weight_decay(var_names={"bias"})


def test_variables_without_a_name_are_excluded_one_by_one():
    variables = [tf.Variable([1.0]) for _ in range(3)]
    optimizer = tf_opt.AdamW(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_list=[variables[1]])
    assert decayed(optimizer, variables) == [True, False, True]
    loaded = tf_opt.AdamW.from_config(optimizer.get_config())
    assert decayed(loaded, variables) == [True, False, True]
    again = tf_opt.AdamW.from_config(loaded.get_config())
    assert again.get_config() == optimizer.get_config()


def test_a_listed_variable_may_be_frozen_for_a_while():
    variables = [keras.Variable([1.0], name=name) for name in "ab"]
    optimizer = tf_opt.AdamW(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_list=variables)
    assert decayed(optimizer, variables[:1]) == [False]
    loaded = tf_opt.AdamW(**optimizer.get_config())
    assert decayed(loaded, variables) == [False, False]


@pytest.mark.parametrize("how", ["var_names", "var_list"])
def test_what_is_excluded_after_a_step_is_so_in_the_next(how):
    bias = keras.Variable([1.0], name="bias")
    optimizer = tf_opt.AdamW(0.1)
    assert decayed(optimizer, [bias]) == [True]
    # Keras refuses it after a step, since 3.16.
    excluded = "bias" if how == "var_names" else bias
    optimizer.exclude_from_weight_decay(**{how: [excluded]})
    assert decayed(optimizer, [bias]) == [False]


@pytest.mark.parametrize("name", ["^whole/first", "bias", "^bias", "kernel$"])
def test_names_are_found_where_keras_finds_them(name):
    found = []
    for make in (COUNTERPARTS["AdamW"].keras, COUNTERPARTS["AdamW"].ours):
        layers = [
            keras.layers.Dense(1, bias_initializer="ones", name=layer)
            for layer in ("first", "last")
        ]
        model = keras.Sequential([keras.Input((2,)), *layers], name="whole")
        optimizer = make()
        optimizer.exclude_from_weight_decay(var_names=[name])
        with warnings.catch_warnings(record=True) as warned:
            found.append(decayed(optimizer, model.trainable_variables))
    assert found[0] == found[1]
    assert [name in str(warning.message) for warning in warned] == (
        [True] if all(found[0]) else []
    )


@pytest.mark.filterwarnings("error")
def test_names_that_are_all_found_nowhere_warn_once_unless_loaded():
    bias = keras.Variable([1.0], name="bias")
    # A model may have only one of these.
    optimizer, names = tf_opt.AdamW(), ["bias", "gamma", "beta"]
    optimizer.exclude_from_weight_decay(var_names=names)
    optimizer.build([bias])
    optimizer.exclude_from_weight_decay(var_names=names)
    optimizer = tf_opt.Adam()
    optimizer.exclude_from_weight_decay(var_names=["gama", "bais"])
    with pytest.warns(UserWarning) as warned:
        optimizer.build([bias])
    (found,) = [str(warning.message) for warning in warned]
    expected = "'bais', 'gama'.*none of which is found.*'bias(:0)?'"
    assert re.search(expected, found)
    with pytest.warns(UserWarning, match="'gama'"):
        optimizer.exclude_from_weight_decay(var_names=["gama"])
    loaded = tf_opt.Adam.from_config(optimizer.get_config())
    loaded.build([keras.Variable([1.0, 2.0], name="kernel"), bias])


@pytest.mark.parametrize(
    "value",
    [
        *({"x": x} for x in (-1.0, "1", tf.Variable(1.0))),
        *({"(": 1.0}, {1: 1.0}, ["x"], 2.0),
    ],
)
def test_wrong_multipliers(value):
    for name in ("learning_rate_multipliers", "weight_decay_multipliers"):
        with pytest.raises(ValueError, match=f"`{name}"):
            tf_opt.Adam(**{name: value})


CHANGES = {
    dict: [
        ("update", {"kernel": 0.0}),
        ("setdefault", "bias", 0.0),
        ("pop", "kernel"),
        ("__setitem__", "kernel", 0.0),
        ("__delitem__", "kernel"),
    ],
    list: [("append", "bias"), ("remove", "kernel"), ("__setitem__", 0, "b")],
}


@pytest.mark.parametrize(
    ("cls", "option", "chosen"),
    [
        (tf_opt.Adam, "learning_rate_multipliers", {"kernel": 0.5}),
        (tf_opt.Adam, "weight_decay_multipliers", {"kernel": 0.5}),
        (tf_opt.Adam, "lazy_mode", ["kernel"]),
        (tf_opt.Adam, "lazy_mode", {"kernel": True}),
        (tf_opt.Adagrad, "row_wise", ["kernel"]),
        (tf_opt.Muon, "exclude_layers", ["kernel"]),
        (tf_opt.Muon, "matrix_axes", {"kernel": 1}),
    ],
)
def test_only_a_whole_choice_changes(cls, option, chosen, tmp_path):
    given = chosen.copy()
    optimizer = cls(**{option: given})
    given.clear()
    # TensorFlow refuses to save a dictionary or a list that changed.
    tf.train.Checkpoint(optimizer).write(str(tmp_path / "checkpoint"))
    read = getattr(optimizer, option)
    for method, *arguments in CHANGES[type(chosen)]:
        with pytest.raises(TypeError, match="Assign a whole dictionary or li"):
            getattr(read, method)(*arguments)
    assert getattr(optimizer, option) == read == chosen
    # Copies and configurations are anybody's.
    for plain in (
        *(pickle.loads(pickle.dumps(read)), copy.deepcopy(read)),
        optimizer.get_config()[option],
    ):
        assert type(plain) is type(chosen)
        assert plain == chosen
        plain.clear()
    assert json.dumps(getattr(optimizer, option)) == json.dumps(chosen)
    setattr(optimizer, option, read)
    if isinstance(read, list):
        read += ["bias"]
    else:
        read |= {"bias": read["kernel"]}
    setattr(optimizer, option, read)
    assert list(getattr(optimizer, option)) == ["kernel", "bias"]


def test_layerwise_multipliers_fall_from_the_last_layer_to_the_first():
    inner = keras.Sequential([keras.layers.Dense(3, name=x) for x in "ab"])
    last = keras.layers.Dense(2, name="c")
    model = keras.Sequential(
        [keras.Input((3,)), inner, keras.layers.ReLU(), last]
    )
    inner.layers[0].bias.trainable = False
    factors = tf_opt.layerwise_multipliers(model, 0.5)
    assert list(factors.values()) == [0.25, 0.5, 0.5, 1.0, 1.0]

    def built(multipliers):
        optimizer = tf_opt.Adam(learning_rate_multipliers=multipliers)
        model.compile(optimizer, "mse", run_eagerly=True)
        model.fit(np.ones((4, 3)), np.ones((4, 2)), verbose=0)
        return [*optimizer._unsaved.learning_rate_multipliers.factors.numpy()]

    assert built(factors) == [0.25, 0.5, 0.5, 1.0, 1.0]
    # Layers may be frozen afterwards.
    inner.trainable = False
    assert built(factors) == [1, 1]
    with pytest.raises(ValueError, match="Leave it out while .* are frozen"):
        built({"a/": 0.5})
    for decay in (0, 1.5, -1, "1"):
        with pytest.raises(ValueError, match="`decay` must be"):
            tf_opt.layerwise_multipliers(model, decay)


def test_normalization_is_on_the_level_of_the_layer_before_it():
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((6, 4)),
            layers.LayerNormalization(name="first"),
            layers.Dense(4, name="a"),
            layers.BatchNormalization(name="a_bn"),
            layers.ReLU(),
            layers.GroupNormalization(2, name="a_gn"),
            # A wrapper around the layer with the weights.
            layers.SpectralNormalization(layers.Dense(4, name="b")),
            layers.RMSNormalization(name="b_rms"),
            layers.Dense(1, name="c"),
        ]
    )
    factors = tf_opt.layerwise_multipliers(model, 0.5)
    # first, a and its two normalizations, b and its, c.
    expected = [0.125] * 2 + [0.25] * 6 + [0.5] * 3 + [1.0] * 2
    assert list(factors.values()) == expected
    # By blocks, of which a level may have several layers.
    factors = tf_opt.layerwise_multipliers(model, 0.5, blocks=["/first", "/a"])
    assert list(factors.values()) == [0.25] * 2 + [0.5] * 6 + [1.0] * 5


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ("first", "must be a list of regular expressions"),
        ([], "must be a list of regular expressions"),
        (2, "must be a list of regular expressions"),
        (["(", "first"], "must have regular expressions as elements"),
        (["first", "nowhere"], "'nowhere', which is found in no"),
        (["first", "^nowhere$"], "'^nowhere$' is found in no"),
        (["first1", "first10", "last"], "'first10' is found in no"),
    ],
    ids=str,
)
def test_wrong_blocks(blocks, message):
    names = ["first1", "first10", "last"]
    layers = [keras.layers.Dense(3, name=name) for name in names]
    model = keras.Sequential([keras.Input((3,)), *layers])
    with pytest.raises(ValueError, match=f"`blocks` .*{re.escape(message)}"):
        tf_opt.layerwise_multipliers(model, 0.5, blocks=blocks)


@pytest.mark.parametrize(
    ("name", "implementation"),
    [
        ("learning_rate_multipliers", "auto"),
        ("weight_decay_multipliers", "composed"),
    ],
)
def test_multipliers_that_come_between_two_fits(name, implementation):
    first = keras.layers.Dense(2, bias_initializer="ones", name="first")
    last = keras.layers.Dense(1, kernel_initializer="zeros", name="last")
    model = keras.Sequential([keras.Input((2,)), first, last])
    optimizer = tf_opt.SGD(
        0.25, weight_decay=0.5, implementation=implementation
    )
    model.compile(optimizer, "mse", jit_compile=False)

    def moves() -> bool:
        before = first.bias.numpy()
        # Without gradients, weights only decay.
        model.fit(np.zeros((8, 2)), np.zeros((8, 1)), verbose=0)
        return bool((first.bias.numpy() != before).any())

    assert moves()
    with pytest.raises(ValueError, match=f"`{name}` must be set before"):
        setattr(optimizer, name, {"first": 0.0})
    assert getattr(optimizer, name) is None
    model.compile(optimizer, "mse", jit_compile=False)
    setattr(optimizer, name, {"first": 0.0})
    assert not moves()
    setattr(optimizer, name, None)
    assert moves()
    setattr(optimizer, name, {"first": 0.0})
    assert not moves()
