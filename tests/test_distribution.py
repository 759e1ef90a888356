"""MirroredStrategy on two logical CPUs: the numbers of one device."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

OP = "TfOpt>ResourceApplyAdamAmsgrad"
IMPLEMENTATIONS = ["custom_op", "composed"]


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


def test_the_only_replica_builds_the_optimizer():
    alone = tf.distribute.MirroredStrategy(["CPU:0"])
    with alone.scope():
        variable = keras.Variable([1.0])
        optimizer = tf_opt.SGD(0.1, skip_nonfinite=True)
    for gradient in ([1.0], [np.inf]):
        grads = [tf.constant(gradient)]
        alone.run(lambda grads: optimizer.apply(grads, [variable]), (grads,))
    assert variable.numpy() == pytest.approx(0.9)
    assert int(optimizer.skipped_steps) == 1


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


def test_the_average_swaps_in_on_all_replicas(strategy):
    with strategy.scope():
        variable = keras.Variable([0.0])
        optimizer = tf_opt.AveragedSGD(0.5, lambd=0.0, t0=0)
        optimizer.build([variable])

    @tf.function
    def step() -> None:
        strategy.run(lambda: optimizer.apply([-tf.ones(1)], [variable]))

    for _ in range(3):
        step()
    with optimizer.averaged_weights():
        for copy in strategy.experimental_local_results(variable.value):
            assert copy.numpy() == [2.5]  # Of 1 (twice weightless), 2 and 3.
    for copy in strategy.experimental_local_results(variable.value):
        assert copy.numpy() == [3.0]


@pytest.mark.filterwarnings("ignore:Gradients do not exist")
def test_replicas_drop_a_sum_without_a_gradient_in_the_update(
    strategy, implementation
):
    with strategy.scope():
        variables = [keras.Variable([0.0]) for _ in range(2)]
        optimizer = tf_opt.ASGD(
            1.0, gradient_accumulation_steps=2, implementation=implementation
        )
        optimizer.build(variables)

    @tf.function
    def step(*grads: tf.Tensor | None) -> None:
        strategy.run(lambda: optimizer.apply(grads, variables))

    for second in (100, None, 1, 1):
        step(
            tf.ones(1), None if second is None else tf.constant([float(second)])
        )
    # Two replicas' gradients of two micro-steps, halved: 2 an update.
    np.testing.assert_allclose([v.numpy()[0] for v in variables], [-4, -2])


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
