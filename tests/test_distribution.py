"""MirroredStrategy on two logical CPUs: the numbers of one device."""

from __future__ import annotations

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

import small_model

OP = "TfOpt>ResourceApplyAdamAmsgrad"
MODES = {
    "plain": (tf_opt.Adam, {}),
    "all": (
        tf_opt.Adam,
        {"amsgrad": True, "beta_2": 0.6, "weight_decay": 0.1},
    ),
    "composed": (tf_opt.Adam, {"implementation": "composed"}),
    "ema": (tf_opt.Adam, {"use_ema": True, "ema_momentum": 0.5}),
    **{
        f"{cls.__name__}_{implementation}": (
            cls,
            {**arguments, "implementation": implementation},
        )
        for cls, arguments in [
            (tf_opt.NAdam, {"momentum_decay": 1.0}),
            (tf_opt.ASGD, {"batch_num": 3}),
            (tf_opt.AveragedSGD, {"t0": 2}),
        ]
        for implementation in ["custom_op", "composed"]
    },
}


def fit(mode: tuple[type, dict]) -> tuple[list[np.ndarray], keras.Model]:
    make, arguments = mode
    model = small_model.fit(make(0.02, **arguments), jit_compile=False)
    variables = [*model.variables, *model.optimizer.variables]
    return [v.numpy() for v in variables], model


@pytest.mark.core
@pytest.mark.parametrize("mode", ["all", "ASGD_custom_op", "NAdam_composed"])
def test_fit_equals_one_device(strategy, mode):
    expected, _ = fit(MODES[mode])
    with strategy.scope():
        ours, model = fit(MODES[mode])
    for a, b in zip(ours, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=2e-6)
    for variable in (*model.variables, *model.optimizer.variables):
        copies = strategy.experimental_local_results(variable.value)
        assert len(copies) == 2
        np.testing.assert_array_equal(copies[0].numpy(), copies[1].numpy())


def test_one_launch_for_each_replica(strategy):
    with strategy.scope():
        variables = [keras.Variable([1.0]) for _ in range(10)]
        optimizer = tf_opt.Adam(0.1)
        optimizer.build(variables)

    @tf.function
    def step() -> None:
        strategy.run(lambda: optimizer.apply([tf.ones(1)] * 10, variables))

    graph = step.get_concrete_function().graph
    launches = [op for op in graph.get_operations() if op.type == OP]
    assert [op.get_attr("N") for op in launches] == [10, 10]
    step()
    assert variables[0].numpy() == pytest.approx(0.9)


def test_a_batch_index_said_on_each_replica(strategy):
    with strategy.scope():
        variable = keras.Variable([1.0])
        optimizer = tf_opt.ASGD(1.0, batch_num=3)
        optimizer.build([variable])

    @tf.function
    def step(index: tf.Tensor) -> None:
        def on_replica() -> None:
            optimizer.batch_index = index
            optimizer.apply([tf.ones(1)], [variable])

        strategy.run(on_replica)

    for index in [2, 0, 2]:
        step(tf.constant(index))
    table = optimizer.variables[3]
    for copy in strategy.experimental_local_results(table.value):
        np.testing.assert_array_equal(copy.numpy(), [[2.0], [0.0], [2.0]])


def test_replicas_that_share_one_copy_are_refused():
    central = tf.distribute.experimental.CentralStorageStrategy(
        ["CPU:0", "CPU:1"], "CPU:0"
    )
    with central.scope():
        shared, optimizer = tf.Variable([1.0]), tf_opt.Adam(0.1)
        optimizer.build([shared])

    @tf.function
    def step() -> None:
        central.run(lambda: optimizer.apply([tf.constant([0.5])], [shared]))

    with pytest.raises(ValueError, match="must have a copy.*CentralStorage"):
        step()
    assert shared.numpy() == 1


@pytest.mark.parametrize("in_graph", [False, True])
def test_gradients_are_accumulated_outside_of_replicas_too(strategy, in_graph):
    with strategy.scope():
        variable = tf.Variable([1.0])
        optimizer = tf_opt.Adam(
            0.1, gradient_accumulation_steps=2, skip_nonfinite=True
        )
        optimizer.build([variable])

    def step(gradient: tf.Tensor) -> None:
        with strategy.scope():
            optimizer.apply([gradient], [variable])

    if in_graph:
        step = tf.function(step)
    alone, expected = tf.Variable([1.0]), tf_opt.Adam(0.1)
    for mean in (1.0, -4.0):
        for gradient in (mean - 1, np.inf, mean + 1):
            step(tf.constant([gradient]))
        expected.apply([tf.constant([mean])], [alone])
        for copy in strategy.experimental_local_results(variable):
            np.testing.assert_array_equal(copy.numpy(), alone.numpy())


OUTSIDE = {
    **MODES,
    "lazy": (tf_opt.Adam, {"lazy_mode": True, "use_ema": True}),
    "accumulates": (
        tf_opt.Adam,
        {"gradient_accumulation_steps": 2, "global_clipnorm": 1.0},
    ),
    "skips": (tf_opt.NAdam, {"skip_nonfinite": True}),
    "masters": (tf_opt.AdamW, {"master_weights": True}),
}


@pytest.mark.parametrize("mode", OUTSIDE.values(), ids=OUTSIDE.keys())
@pytest.mark.parametrize("in_graph", [False, True])
def test_a_step_outside_of_the_strategy_is_one_of_all_copies(
    strategy, mode, in_graph
):
    make, arguments = mode
    dtype = "bfloat16" if "master_weights" in arguments else "float32"

    def train(scope, run) -> list:
        with scope:
            variables = [
                keras.Variable([[1.0, 2.0], [3.0, 4.0]], dtype=dtype),
                keras.Variable([1.0, 2.0], dtype=dtype),
            ]
            optimizer = make(0.125, **arguments)
            optimizer.build(variables)

        def step(gradient: float) -> None:
            values = tf.fill((1, 2), tf.cast(gradient, dtype))
            rows = tf.IndexedSlices(values, tf.constant([1]))
            optimizer.apply([rows, values[0]], variables)

        outside = tf.function(step) if in_graph else step
        for _ in range(2):
            outside(1.0)
        for _ in range(2):
            run(step)
        return [*variables, *optimizer.variables]

    def replicas(step) -> None:
        # Whose gradients are summed: half of each.
        strategy.run(step, (0.5,))

    alone = train(contextlib.nullcontext(), lambda step: step(1.0))
    found = train(strategy.scope(), replicas)
    for variable, expected in zip(found, alone, strict=True):
        copies = strategy.experimental_local_results(variable.value)
        assert len(copies) == 2
        for copy in copies:
            np.testing.assert_allclose(
                copy.numpy().astype("float64"),
                expected.numpy().astype("float64"),
                rtol=1e-6,
            )
