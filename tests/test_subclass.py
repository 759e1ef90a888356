"""What a subclass or an instance overrides is used, as in Keras, or refused."""

import contextlib
import inspect
from collections.abc import Iterable
from types import FunctionType
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt
from tf_opt.python.keras_internals import STEP_HOOKS

from counterparts import COUNTERPARTS
from registry import ALL
from small_model import assert_close
from trajectory import RUNS

# An older Keras' Muon is another one.
MUON = [name for name in COUNTERPARTS if name == "Muon"]


def slower_bias(cls: type) -> type:
    def update_step(self, gradient, variable, learning_rate):
        if len(variable.shape) == 1:
            learning_rate = learning_rate * 0.5
        cls.update_step(self, gradient, variable, learning_rate)

    return type("SlowerBias", (cls,), {"update_step": update_step})


def plain_descent(cls: type) -> type:
    def update_step(self, gradient, variable, learning_rate):
        rate = tf.cast(learning_rate, variable.dtype)
        self.assign_sub(variable, rate * gradient)

    return type("PlainDescent", (cls,), {"update_step": update_step})


def summed_gradients(cls: type) -> type:
    """A subclass that adds variables before it builds the others."""

    class Summed(cls):
        def build(self, variables):
            if not self.built:
                self.sums = [
                    self.add_variable_from_reference(v, "sum")
                    for v in variables
                ]
            super().build(variables)

        def update_step(self, gradient, variable, learning_rate):
            own = self.sums[self._get_variable_index(variable)]
            self.assign_add(own, gradient)
            super().update_step(tf.identity(own), variable, learning_rate)

    return Summed


def train(optimizer, how: str) -> list[np.ndarray]:
    variables = [
        keras.Variable([[1.0, 2.0], [3.0, 4.0]]),
        keras.Variable([1.0, -1.0]),
    ]
    optimizer.build(variables)
    step = RUNS[how](
        lambda: optimizer.apply([v * 0.5 + 1.0 for v in variables], variables)
    )
    for _ in range(3):
        step()
    assert int(optimizer._iterations.numpy()) == 3
    return [variable.numpy() for variable in variables]


@pytest.mark.core
@pytest.mark.parametrize("name", ["AdamW", "NAdam"])
@pytest.mark.parametrize(
    "override", [slower_bias, plain_descent, summed_gradients]
)
def test_an_overridden_update_step_is_used(name, override, how):
    pair = COUNTERPARTS[name]
    ours, theirs = pair.ours(), pair.keras()
    results = []
    for optimizer in (ours, theirs):
        cls = override(type(optimizer))
        results.append(train(cls.from_config(optimizer.get_config()), how))
    assert_close(*results, rtol=2e-6)
    # It does make a difference.
    assert (results[0][1] != train(pair.ours(), how)[1]).all()


def same(cls: type) -> type:
    """A subclass that leaves the rule to ours."""

    def update_step(self, *arguments):
        cls.update_step(self, *arguments)

    return type("Same", (cls,), {"update_step": update_step})


@pytest.mark.parametrize("name", ALL)
def test_the_rule_alone_is_a_whole_step(name, how):
    cls = getattr(tf_opt, name)
    arguments = {"learning_rate": 0.1, "weight_decay": 0.0}
    if name == "Muon":
        arguments |= {"adam_lr_ratio": 0.5, "adam_weight_decay": None}
    if name == "ASGD":
        arguments["batch_num"] = 2
    optimizers = [x(**arguments) for x in (same(cls), cls)]
    results = [train(optimizer, how) for optimizer in optimizers]
    assert_close(*results, rtol=1e-6)
    alone, whole = ([x.numpy() for x in o.variables] for o in optimizers)
    assert_close(alone, whole, rtol=1e-6)
    in_use = [optimizer.implementation_in_use for optimizer in optimizers]
    assert in_use[0] == in_use[1]


# Everything that Keras' step does.
EVERYTHING = {
    "weight_decay": 0.1,
    "clipnorm": 0.25,
    "use_ema": True,
    "ema_overwrite_frequency": 2,
    "gradient_accumulation_steps": 2,
    "loss_scale_factor": 2.0,
}
# What both steps call.
SHARED = {
    "_check_variables_are_known",
    "_get_current_learning_rate",
    "_get_variable_index",
    "_var_key",
    "learning_rate",
}


def recording(cls: type, called: set[str], names: Iterable[str]) -> type:
    """A subclass that overrides all of `names` and records their calls."""

    def override(name: str) -> Any:
        own = inspect.getattr_static(cls, name)

        def call(self, *arguments, **named):
            called.add(name)
            get = own.fget if isinstance(own, property) else own
            return get(self, *arguments, **named)

        return property(call) if isinstance(own, property) else call

    return type("Mine", (cls,), {name: override(name) for name in names})


@pytest.mark.core
def test_what_either_step_calls_is_known():
    methods = {
        name
        for cls in keras.optimizers.Adam.__mro__
        if cls.__module__.startswith("keras.src")
        and "optimizer" in cls.__module__
        for name, x in vars(cls).items()
        if isinstance(x, (property, FunctionType)) and name[:2] != "__"
    }
    called = set()
    for options in (
        EVERYTHING,
        {**EVERYTHING, "clipnorm": None, "global_clipnorm": 1.0},
    ):
        theirs = recording(keras.optimizers.Adam, called, methods)
        train(theirs(0.1, **options), "tf.function")
    outside = {"apply", "build", "add_variable", "variables"}
    outside |= {"add_variable_from_reference", "add_optimizer_variables"}
    outside |= {"_check_super_called", "_track_variable"}
    known = {*STEP_HOOKS, *SHARED}
    assert called - outside <= known
    # `clipnorm` alone uses the first; Keras' Adam doesn't use the others.
    assert known - called <= {"assign", "_overwrite_variable_with_gradient"}

    called.clear()
    ours = recording(tf_opt.Adam, called, SHARED)(0.1, **EVERYTHING)
    assert not ours._overridden()
    train(ours, "tf.function")
    assert called == SHARED


def halved(cls: type) -> type:
    class Halved(cls):
        def _clip_gradients(self, grads):
            return [x / 2 for x in super()._clip_gradients(grads)]

    return Halved


def counts_updates(cls: type) -> type:
    """The published recipe that accumulates gradients by itself."""

    class Accumulates(cls):
        @property
        def iterations(self):
            return tf.math.floordiv(self._iterations, 3)

        def _backend_update_step(self, grads, variables, learning_rate):
            rate = learning_rate / tf.cast(self.iterations + 2, tf.float32)
            super()._backend_update_step(grads, variables, rate)

    return Accumulates


def averages_from_zero(cls: type) -> type:
    class FromZero(cls):
        def _update_model_variables_moving_average(self, variables):
            averages = self._model_variables_moving_average
            for variable, average in zip(variables, averages, strict=True):
                average.assign(0.5 * average + 0.5 * variable)

    return FromZero


def decays_matrices(cls: type) -> type:
    class Matrices(cls):
        def _use_weight_decay(self, variable):
            return len(variable.shape) == 2

    return Matrices


@pytest.mark.core
@pytest.mark.parametrize("options", [{}, EVERYTHING], ids=["", "everything"])
@pytest.mark.parametrize(
    ("name", "override"),
    [
        ("Adam", halved),
        ("NAdam", counts_updates),
        ("RMSprop", averages_from_zero),
        ("AdamW", decays_matrices),
        ("Lamb", same),
        *((x, slower_bias) for x in MUON),
    ],
)
def test_what_is_overridden_is_used_as_in_keras(name, override, options, how):
    results = []
    for make in COUNTERPARTS[name]:
        made = make(weight_decay=0.1)
        config = made.get_config() | options
        optimizer = override(type(made)).from_config(config)
        results.append(train(optimizer, how))
    assert_close(*results, rtol=1e-5, atol=1e-6)


def test_a_method_put_in_an_instance_is_used():
    results = []
    for make in COUNTERPARTS["SGD"]:
        optimizer = make(clipnorm=1.0)
        optimizer._clip_gradients = lambda grads: [2 * x for x in grads]
        results.append(train(optimizer, "eager"))
    assert_close(*results, rtol=1e-6)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("learning_rate_multipliers", {".": 2.0}),
        ("weight_decay_multipliers", {".": 2.0}),
        ("skip_nonfinite", True),
        ("track_gradient_norm", True),
        ("master_weights", True),
        ("stochastic_rounding", True),
        ("state_dtype", "bfloat16"),
        ("state_device", "CPU:0"),
        ("shard_state", True),
        ("decoupled_weight_decay", False),
        ("decay_in_direction", True),
        ("lazy_mode", {".": "catch_up"}),
    ],
)
def test_what_keras_lacks_is_refused_by_name(option, value, strategy):
    scope = contextlib.nullcontext()
    if option == "shard_state":
        scope = strategy.scope()
    with scope:
        check_is_refused(option, value)


def check_is_refused(option: str, value: Any) -> None:
    cls = tf_opt.Lamb if option == "decay_in_direction" else tf_opt.Adam
    variable = keras.Variable([[1.0, 2.0]])
    arguments = {option: value}
    if "deca" in option:
        arguments["weight_decay"] = 0.1
    refusal = pytest.raises(ValueError, match=f"`{option}` must be .*Received")
    for override in plain_descent, halved:
        optimizer = override(cls)(0.1, **arguments)
        optimizer.build([variable])
        with refusal:
            optimizer.apply([tf.ones((1, 2))], [variable])
    optimizer = cls(0.1, **arguments)
    optimizer.build([variable])
    with refusal:
        optimizer.update_step(tf.ones((1, 2)), variable, 0.1)
    assert variable.numpy().tolist() == [[1.0, 2.0]]


def test_the_rule_refuses_an_own_way_to_write():
    class Mine(tf_opt.Adam):
        def assign_sub(self, variable, value):
            super().assign_sub(variable, 2 * value)

    variable = keras.Variable([1.0])
    with pytest.raises(TypeError, match="`Mine.assign_sub` would never be"):
        Mine(0.1).apply([tf.ones(1)], [variable])
    assert variable.numpy() == [1.0]
    plain_descent(Mine)(0.1).apply([tf.ones(1)], [variable])
    np.testing.assert_allclose(variable, [0.8])


def step_in_replicas(strategy, optimizer) -> None:
    gradients = [tf.constant([[0.5, -0.5], [2.0, 1.0]]), tf.ones(2)]
    step = tf.function(strategy.run)
    for _ in range(2):
        step(lambda: optimizer.apply(gradients))


@pytest.mark.core
@pytest.mark.parametrize("name", ["AdamW", "NAdam", *MUON])
def test_a_subclass_trains_in_replicas(name, strategy):
    results = []
    for make in COUNTERPARTS[name]:
        with strategy.scope():
            variables = [
                keras.Variable(x)
                for x in ([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0])
            ]
            made = make(weight_decay=0.1)
            cls = slower_bias(type(made))
            optimizer = cls.from_config(made.get_config())
            optimizer.build(variables)
        step_in_replicas(strategy, optimizer)
        copies = [
            strategy.experimental_local_results(x.value) for x in variables
        ]
        results.append([copy.numpy() for both in copies for copy in both])
    assert_close(*results, rtol=1e-5, atol=1e-6)


def test_wide_sums_of_16_bit_gradients():
    variable = keras.Variable([1.0, 2.0], dtype="bfloat16")
    optimizer = same(tf_opt.SGD)(1.0, gradient_accumulation_steps=2)
    for _ in range(2):
        optimizer.apply([tf.constant([0.5, 1.0], tf.bfloat16)], [variable])
    assert variable.numpy().tolist() == [0.5, 1.0]


def test_narrow_variables_take_their_wide_averages():
    options = {"use_ema": True, "ema_overwrite_frequency": 2}
    results = []
    for cls in tf_opt.SGD, same(tf_opt.SGD):
        variable = keras.Variable([1.0, 2.0], dtype="bfloat16")
        optimizer = cls(0.25, ema_momentum=0.5, **options)
        for _ in range(3):
            optimizer.apply([tf.ones(2, tf.bfloat16)], [variable])
        results.append(variable.numpy().tolist())
    assert results[0] == results[1]


def test_what_overwrites_with_averages_is_used_at_the_end_of_fit():
    results = []
    for make in COUNTERPARTS["SGD"]:
        optimizer = make(use_ema=True)
        optimizer._overwrite_model_variables_with_average_value = (
            lambda variables: [x.assign(2 * x) for x in variables]
        )
        variable = keras.Variable([1.0, 2.0])
        optimizer.apply([tf.ones(2)], [variable])
        optimizer.finalize_variable_values([variable])
        results.append(variable.numpy())
    assert_close(*results, rtol=1e-6)


@pytest.mark.parametrize("name", ["Adam", "Adagrad", "RMSprop", "Ftrl"])
def test_what_creates_slots_is_used(name):
    def override(cls: type) -> type:
        def add(self, variable, name=None, initializer="zeros"):
            return cls.add_variable_from_reference(self, variable, name, "ones")

        return type("Ones", (cls,), {"add_variable_from_reference": add})

    results = []
    for make in COUNTERPARTS[name]:
        made = make()
        cls = override(type(made))
        results.append(train(cls.from_config(made.get_config()), "eager"))
    assert_close(*results, rtol=1e-5)


def test_a_function_put_in_its_place_is_used():
    variable, seen = keras.Variable([1.0]), []
    optimizer = tf_opt.Adam(0.1)
    optimizer.update_step = lambda *arguments: seen.append(arguments)
    optimizer.apply([tf.ones(1)], [variable])
    assert len(seen) == 1
    assert variable.numpy() == [1.0]


def test_an_overridden_apply_is_used_inside_of_a_loss_scale():
    class Halved(tf_opt.SGD):
        def apply(self, grads, trainable_variables=None):
            super().apply([x / 2 for x in grads], trainable_variables)

    variable = keras.Variable([1.0])
    optimizer = tf_opt.LossScaleOptimizer(Halved(1.0), initial_scale=4.0)
    optimizer.apply([tf.constant([4.0])], [variable])
    assert variable.numpy() == [0.5]


@pytest.mark.core
@pytest.mark.parametrize(
    "jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)]
)
def test_an_overridden_update_step_accumulates_rows_of_two_tables(jit_compile):
    def train(cls: type) -> list[np.ndarray]:
        tables = [keras.Variable(np.ones((4, 2), "float32")) for _ in range(2)]
        optimizer = cls(0.1, lazy_mode=True, gradient_accumulation_steps=2)
        optimizer.build(tables)

        @tf.function(jit_compile=jit_compile)
        def step(values: tf.Tensor) -> None:
            rows = [0, 2], [1, 1]
            slices = [
                tf.IndexedSlices(values, tf.constant(x), (4, 2)) for x in rows
            ]
            optimizer.apply(slices, tables)

        for i in range(4):
            step(tf.fill([2, 2], i + 1.0))
        return [table.numpy() for table in tables]

    ours = train(slower_bias(tf_opt.Adam))
    assert_close(ours, train(tf_opt.Adam), rtol=1e-6)
    np.testing.assert_array_equal(ours[1][[0, 2, 3]], 1)
