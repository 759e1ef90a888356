"""16-bit variables and state with what Keras does around an optimizer."""

import contextlib

import keras
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from low_precision_cases import SETTINGS, masters_of, numbers
from registry import OPTIMIZERS
from small_model import assert_same, checkpoint_of, compiled, state, train

pytestmark = pytest.mark.core


def test_a_checkpoint_without_masters_is_loaded(tmp_path):
    without = compiled(tf_opt.Adam(0.01), "bfloat16")
    train(without)
    path = checkpoint_of(without).save(tmp_path / "x")
    model = compiled(tf_opt.Adam(0.01, master_weights=True), "bfloat16")
    train(model, 3)
    checkpoint_of(model).restore(path).expect_partial()
    masters = masters_of(model.optimizer)
    assert_same(state(model)[: -len(masters)], state(without))
    # Those that it has are out of date, and so don't count.
    gradients = [tf.zeros(v.shape, v.dtype) for v in model.trainable_variables]
    model.optimizer.learning_rate = 0.0
    model.optimizer.apply(gradients)
    owners = [v for v in model.trainable_variables if v.dtype == "bfloat16"]
    for master, owner in zip(masters, owners, strict=True):
        # Where they round to the variable all the same, they may stay.
        rounded = master.numpy().astype(ml_dtypes.bfloat16)
        np.testing.assert_array_equal(numbers(owner), rounded.astype(float))


@pytest.mark.parametrize(
    ("features", "has_masters"),
    [
        ({"use_ema": True}, True),
        ({"amsgrad": True}, False),
        ({"gradient_accumulation_steps": 2}, True),
    ],
    ids=str,
)
def test_what_belongs_to_another_optimizer_is_not_loaded(features, has_masters):
    # All variables have one shape.
    variables = [keras.Variable(np.ones((4, 4)), dtype="bfloat16")]
    source = tf_opt.Adam(0.01, **features)
    target = tf_opt.Adam(0.01, master_weights=has_masters)
    for optimizer in (source, target):
        optimizer.build(variables)
    store = {}
    source.save_own_variables(store)
    before = [x.numpy() for x in target.variables]
    with pytest.warns(UserWarning, match="Skipping variable loading"):
        target.load_own_variables(store)
    assert_same([x.numpy() for x in target.variables], before)


@pytest.mark.parametrize("source_has", [False, True])
@pytest.mark.parametrize("target_has", [False, True])
def test_a_loss_scale_optimizer_loads_with_and_without_masters(
    source_has, target_has
):
    variable = keras.Variable(np.linspace(1, 2, 9), dtype="bfloat16")
    source, target = (
        tf_opt.LossScaleOptimizer(tf_opt.Adam(0.01, master_weights=has_masters))
        for has_masters in (source_has, target_has)
    )
    source.apply([tf.ones(9, tf.bfloat16)], [variable])
    store = {}
    source.save_own_variables(store)
    target.build([variable])
    target.load_own_variables(store)
    shared = len(source.variables) - source_has
    assert_same(
        map(numbers, target.variables[:shared]),
        map(numbers, source.variables[:shared]),
    )
    if target_has:
        (master,) = masters_of(target.inner_optimizer)
        own = masters_of(source.inner_optimizer)
        # Zeros are out of date, as before the first step.
        expected = numbers(own[0]) if own else np.zeros(9)
        np.testing.assert_array_equal(numbers(master), expected)


def test_a_model_may_be_built_in_the_step_that_builds_its_optimizer():
    def fitted(*first: keras.KerasTensor) -> list[np.ndarray]:
        layer = keras.layers.Dense(
            1, kernel_initializer="ones", dtype="bfloat16"
        )
        model = keras.Sequential([*first, layer])
        optimizer = tf_opt.Adam(1e-4, **SETTINGS["masters, state"])
        model.compile(optimizer, "mse", jit_compile=False)
        x = np.linspace(0, 1, 40).reshape(20, 2)
        model.fit(x, x.sum(axis=1), batch_size=5, verbose=0)
        return [*map(numbers, [*model.variables, *optimizer.variables[2:]])]

    assert_same(fitted(), fitted(keras.Input((2,))))


def test_under_keras_loss_scale_a_step_is_the_same():
    def train(scale):
        variable = keras.Variable(np.linspace(1, 2, 70), dtype="bfloat16")
        optimizer = outer = tf_opt.NAdam(0.001, **SETTINGS["stochastic"])
        if scale is not None:
            outer = keras.optimizers.LossScaleOptimizer(optimizer, scale)
        outer.build([variable])

        @tf.function
        def step(factor):
            outer.apply([tf.cast(factor, tf.bfloat16) * variable], [variable])

        for i in range(4):
            step((scale or 1.0) * 2.0**-i)
        if scale is not None:
            # Nothing advances, what all variables share included.
            kept = [variable, *optimizer.variables]
            before = [numbers(v) for v in kept]
            step(np.inf)
            assert_same([numbers(v) for v in kept], before)
        step(scale / 2 if scale else 1.0)
        found = [variable, *optimizer.variables[2:]]
        return [numbers(v) for v in found]

    assert_same(train(None), train(1024.0))


@contextlib.contextmanager
def floatx(dtype: str):
    keras.config.set_floatx(dtype)
    keras.config.set_dtype_policy(dtype)
    try:
        yield
    finally:
        keras.config.set_floatx("float32")
        keras.config.set_dtype_policy("float32")


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_numbers_are_float32_whatever_floatx_is(name):
    with floatx("bfloat16"):
        optimizer = OPTIMIZERS[name].make(0.001, master_weights=True)
        model = compiled(optimizer, dtype=None)
        optimizer.build(model.trainable_variables)
        assert optimizer.learning_rate.dtype == "float32"
        assert optimizer.get_config()["learning_rate"] == np.float32(0.001)
        kept = [x for x in optimizer.variables if "float" in x.dtype]
        assert {x.dtype for x in kept} <= {"float32", "float64"}
        optimizer.learning_rate = 0.003
        assert numbers(optimizer.learning_rate) == np.float32(0.003)
        # Of a whole model: the kernels are of that type.
        assert len(masters_of(optimizer)) == 4


def test_a_schedule_counts_beyond_256_in_bfloat16():
    schedule = keras.optimizers.schedules.CosineDecay(0.001, 1000)
    rates = []
    for dtype in ("float32", "bfloat16"):
        with floatx(dtype):
            optimizer = tf_opt.Adam(schedule)
            optimizer._iterations.assign(301)
            rates.append(float(optimizer.learning_rate))
    assert rates[0] == rates[1]
