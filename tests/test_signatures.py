"""Constructors: Keras' arguments in Keras' order, all of them to be seen.

And `repr(optimizer)`, which shows those that aren't defaults.
"""

import importlib
import inspect
import pathlib
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt
from tf_opt.python.optimizers.base import arguments

from counterparts import KERAS
from registry import ALL

pytestmark = pytest.mark.core

# What PyTorch and Paddle decide, not Keras.
OTHER_DEFAULTS = {"learning_rate", "epsilon", "weight_decay"}
KEYWORD = inspect.Parameter.KEYWORD_ONLY


def parameters(cls: type) -> dict[str, inspect.Parameter]:
    found = dict(inspect.signature(cls).parameters)
    # Keras' own hides nothing there but an error.
    found.pop("kwargs", None)
    return found


@pytest.mark.parametrize("name", KERAS)
def test_positional_arguments_are_those_of_keras(name):
    ours = parameters(ALL[name].make)
    own = {k: p for k, p in ours.items() if p.kind != KEYWORD}
    keras_own = parameters(KERAS[name])
    assert list(own) == list(keras_own)
    for name, parameter in own.items():
        # Some versions of Keras give a class's name as the default.
        if name not in {*OTHER_DEFAULTS, "name"}:
            assert parameter.default == keras_own[name].default, name


@pytest.mark.parametrize("name", ALL)
def test_every_argument_is_seen_and_saved(name):
    make = ALL[name].make
    found = parameters(make)
    assert set(make().get_config()) == set(found)
    # The name that Keras gives it.
    make().build(var_list=[keras.Variable([1.0])])
    kinds = {parameter.kind for parameter in found.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds
    # The shared arguments must not drift apart between the classes.
    common = arguments.parameters()
    assert set(common) <= set(found)
    for argument, parameter in common.items():
        if argument != "weight_decay":
            assert found[argument].default == parameter.default, argument


def test_names_that_only_keras_has_are_explained():
    with pytest.raises(AttributeError, match="`tf_opt.NAdam`") as error:
        tf_opt.Nadam  # noqa: B018
    (advice,) = re.findall(r"`(tf_opt\.NAdam\(.*?)`", str(error.value))
    ours = eval(advice, {"tf_opt": tf_opt}).get_config()
    theirs = tf_opt.from_keras(keras.optimizers.Nadam()).get_config()
    different = {name for name in ours if ours[name] != theirs[name]}
    assert different <= {"name"}
    for name in ("Optimizer", "schedules", "get"):
        with pytest.raises(AttributeError, match=f"{name}`.* AdamW,"):
            getattr(tf_opt, name)
    for name in ("Foo", "__all_", "__doc"):
        with pytest.raises(AttributeError, match=f"no attribute '{name}'$"):
            getattr(tf_opt, name)


def test_names_are_those_of_keras():
    for name, theirs in KERAS.items():
        ours = ALL[name].make
        keras.utils.clear_session(free_memory=False)
        expected = theirs().name
        # An older Keras has names of its own for some classes.
        if inspect.signature(theirs).parameters["name"].default is not None:
            expected = keras.src.utils.naming.to_snake_case(theirs.__name__)
        keras.utils.clear_session(free_memory=False)
        optimizers = [ours() for _ in range(2)]
        assert optimizers[0].name == expected
        assert optimizers[0].iterations.path == f"{expected}/iteration"
        assert optimizers[0].name != optimizers[1].name
    assert type("Mine", (tf_opt.NAdam,), {})().name == "mine"


@pytest.mark.parametrize("name", ["callbacks", "functional", "ops"])
def test_modules_show_public_names_only(name):
    for module in (tf_opt, importlib.import_module(f"tf_opt.{name}")):
        assert sorted(module.__all__) == dir(module)


def test_the_types_of_all_public_names_are_checked():
    checked = pathlib.Path(__file__).parent / "typing/public_names.py"
    text = checked.read_text()
    for module in (tf_opt, tf_opt.callbacks, tf_opt.functional):
        for name in {*module.__all__} - {"__version__"}:
            full_name = f"{module.__name__}.{name}"
            assert re.search(rf"\b{full_name}\b", text), full_name


DECAY = keras.optimizers.schedules.CosineDecay
CASES = [
    (lambda: tf_opt.AdamW(), "AdamW()"),
    (lambda: tf_opt.NAdam(2e-3, name="mine"), "NAdam(name='mine')"),
    (
        lambda: tf_opt.Adam(maximize=True, amsgrad=True, learning_rate=0.1),
        "Adam(learning_rate=0.1, amsgrad=True, maximize=True)",
    ),
    (
        lambda: tf_opt.SGD(DECAY(0.1, 100), np.float32(0.9)),
        "SGD(learning_rate=CosineDecay(initial_learning_rate=0.1, "
        "decay_steps=100), momentum=0.9)",
    ),
    (
        lambda: tf_opt.Lion(weight_decay=tf.Variable(0.25), lazy_mode=["a"]),
        "Lion(weight_decay=0.25, lazy_mode=['a'])",
    ),
    (
        lambda: tf_opt.LossScaleOptimizer(tf_opt.Adam(clipnorm=1.0), 4.0),
        "LossScaleOptimizer(inner_optimizer=Adam(clipnorm=1.0), "
        "initial_scale=4.0)",
    ),
]


@pytest.mark.parametrize(("make", "expected"), CASES)
def test_it_is_the_call_in_the_order_of_the_signature(make, expected):
    optimizer = make()
    assert repr(optimizer) == str(optimizer) == expected


def test_it_shows_what_was_assigned_also_where_a_step_is_traced():
    optimizer = tf_opt.Adam()
    optimizer.build([tf.Variable([1.0])])
    optimizer.learning_rate = 0.25
    shown = tf.function(lambda: repr(optimizer))()
    assert shown.numpy() == b"Adam(learning_rate=0.25)"


def test_it_never_fails():
    class Schedule(keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step):
            return 0.1

    class Mine(tf_opt.Adam):
        def __init__(self, own):
            assert repr(self) == "Mine()"
            super().__init__(Schedule(), epsilon=own)

    assert repr(Mine(0.5)) == "Mine(learning_rate=<Schedule>, epsilon=0.5)"
    for cls in (tf_opt.Adam, tf_opt.LossScaleOptimizer):
        assert repr(cls.__new__(cls)) == f"{cls.__name__}()"
    with tf.Graph().as_default():
        # A variable that only a session can read.
        assert repr(tf_opt.SGD(0.1)) == "SGD(learning_rate=<Variable>)"
