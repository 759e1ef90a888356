"""What a subclass or an instance overrides is used, as in Keras, or refused."""

import contextlib
import inspect
import itertools
from collections.abc import Iterable
from types import FunctionType
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt
from allpairspy import AllPairs
from tf_opt.python.keras_internals import STEP_HOOKS

from counterparts import COUNTERPARTS
from registry import ALL, quick_first, slow
from small_model import assert_close
from trajectory import RUNS


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


def train(optimizer, how: str, scope: Any = None) -> list[np.ndarray]:
    """Returns all copies after some steps, and at the end of a `fit`."""
    scope = scope or tf.distribute.get_strategy()
    variables = [
        keras.Variable([[1.0, 2.0], [3.0, 4.0]]),
        keras.Variable([1.0, -1.0]),
    ]
    optimizer.build(variables)

    def values() -> list[np.ndarray]:
        copies = (scope.experimental_local_results(v.value) for v in variables)
        return [copy.numpy() for each in copies for copy in each]

    def step() -> None:
        optimizer.apply([v * 0.5 + 1.0 for v in variables], variables)

    run = RUNS.get(how, lambda step: tf.function(lambda: scope.run(step)))(step)
    for _ in range(3):
        run()
    assert int(optimizer._iterations.numpy()) == 3
    found = values()
    optimizer.finalize_variable_values(variables)
    return [*found, *values()]


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
    outside |= {"finalize_variable_values"}
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


def creates_ones(cls: type) -> type:
    def add(self, variable, name=None, initializer="zeros"):
        return cls.add_variable_from_reference(self, variable, name, "ones")

    return type("Ones", (cls,), {"add_variable_from_reference": add})


RULES = slower_bias, plain_descent, summed_gradients
OVERRIDES = [
    *itertools.product(("AdamW", "NAdam"), RULES),
    # An older Keras' Muon is another one.
    *(("Muon", slower_bias) for _ in {"Muon"} & COUNTERPARTS.keys()),
    ("Adam", halved),
    ("NAdam", counts_updates),
    ("RMSprop", averages_from_zero),
    ("AdamW", decays_matrices),
    ("Lamb", same),
    *((x, creates_ones) for x in ("Adam", "Adagrad", "RMSprop", "Ftrl")),
]


@pytest.mark.core
@pytest.mark.parametrize(
    ("overridden", "options", "how"),
    quick_first(
        AllPairs(
            [
                OVERRIDES,
                ["nothing", "everything"],
                ["eager", "tf.function", "replicas"],
            ],
            # Keras clips and averages in replicas by itself.
            filter_func=lambda x: (
                x[2:] != ["replicas"]
                or (x[0][1] is slower_bias and x[1] == "nothing")
            ),
        )
    ),
    ids=lambda x: x if isinstance(x, str) else f"{x[0]}-{x[1].__name__}",
)
def test_what_is_overridden_is_used_as_in_keras(
    overridden, options, how, strategy
):
    name, override = overridden
    scope = strategy if how == "replicas" else tf.distribute.get_strategy()
    results = []
    for make in COUNTERPARTS[name]:
        with scope.scope():
            made = make(weight_decay=0.1)
            config = made.get_config()
            if options == "everything":
                config |= EVERYTHING
            optimizer = override(type(made)).from_config(config)
            results.append(train(optimizer, how, scope))
    if override in RULES and options == "nothing" and how != "replicas":
        assert_close(*results, rtol=2e-6)
        # It does make a difference.
        assert (results[0][1] != train(make(weight_decay=0.1), how)[1]).all()
    assert_close(*results, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("_clip_gradients", lambda grads: [2 * x for x in grads]),
        ("update_step", lambda grad, x, rate: x.assign(x - grad)),
        (
            "_overwrite_model_variables_with_average_value",
            lambda variables: [x.assign(2 * x) for x in variables],
        ),
    ],
)
def test_a_method_put_in_an_instance_is_used(name, function):
    results = []
    for make in COUNTERPARTS["SGD"]:
        optimizer = make(clipnorm=1.0, use_ema=True)
        setattr(optimizer, name, function)
        results.append(train(optimizer, "eager"))
    assert_close(*results, rtol=1e-6)
    plain = train(make(clipnorm=1.0, use_ema=True), "eager")
    assert (results[0][-1] != plain[-1]).all()


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
    cls = tf_opt.Lamb if option == "decay_in_direction" else tf_opt.Adam
    arguments = {option: value}
    if "deca" in option:
        arguments["weight_decay"] = 0.1
    is_shared = option == "shard_state"
    scope = strategy.scope if is_shared else contextlib.nullcontext
    refusal = pytest.raises(ValueError, match=f"`{option}` must be .*Received")
    with scope():
        variable = keras.Variable([[1.0, 2.0]])
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


@pytest.mark.parametrize(
    "options",
    [
        {"gradient_accumulation_steps": 2},
        {"use_ema": True, "ema_momentum": 0.5, "ema_overwrite_frequency": 2},
    ],
    ids=str,
)
def test_narrow_variables_have_wide_sums_and_averages(options):
    results = []
    for cls in tf_opt.SGD, same(tf_opt.SGD):
        variable = keras.Variable([1.0, 2.0], dtype="bfloat16")
        optimizer = cls(0.25, **options)
        for _ in range(4):
            optimizer.apply([tf.constant([0.5, 1.0], tf.bfloat16)], [variable])
        results.append(variable.numpy().tolist())
    assert results[0] == results[1] != [1.0, 2.0]


def test_an_overridden_apply_is_used_inside_of_a_loss_scale():
    class Halved(tf_opt.SGD):
        def apply(self, grads, trainable_variables=None):
            super().apply([x / 2 for x in grads], trainable_variables)

    variable = keras.Variable([1.0])
    optimizer = tf_opt.LossScaleOptimizer(Halved(1.0), initial_scale=4.0)
    optimizer.apply([tf.constant([4.0])], [variable])
    assert variable.numpy() == [0.5]


@pytest.mark.core
@pytest.mark.parametrize("jit_compile", [False, slow(True)])
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
