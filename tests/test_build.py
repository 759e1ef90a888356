"""The first step and `build`: shapes, errors, replicas."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from trajectory import RUNS

pytestmark = pytest.mark.core


def _partial() -> tf.Variable:
    return tf.Variable(tf.ones((2, 2)), shape=tf.TensorShape([None, 2]))


def test_a_build_that_fails_leaves_nothing_behind(tmp_path):
    optimizer = tf_opt.Adam(0.5, use_ema=True, gradient_accumulation_steps=2)
    variable = keras.Variable([1.0, 2.0])
    before = [x.path for x in optimizer.variables]
    for _ in range(2):
        with pytest.raises(ValueError, match="fully defined shape.*None, 2"):
            optimizer.apply([None, tf.ones((2, 2))], [variable, _partial()])
        assert not optimizer.built
        assert [x.path for x in optimizer.variables] == before
    for _ in range(2):
        optimizer.apply([tf.ones(2)], [variable])
    np.testing.assert_allclose(variable.numpy(), [0.5, 1.5])
    assert len(optimizer.variables) == 6
    # TensorFlow doesn't save lists that became shorter, or that Keras tracks.
    other = tf_opt.Adam(0.5, use_ema=True, gradient_accumulation_steps=2)
    other.build([variable])
    saved, expected = (
        tf.train.list_variables(
            tf.train.Checkpoint(optimizer=x).write(str(tmp_path / name))
        )
        for name, x in (("saved", optimizer), ("expected", other))
    )
    assert saved == expected
    # The learning rate is still tracked, so that a schedule may replace it.
    optimizer.learning_rate = keras.optimizers.schedules.CosineDecay(0.5, 5)
    assert len(optimizer.variables) == 5


@pytest.mark.parametrize(
    ("name", "obstacle", "cure", "message"),
    [
        ("constraint", keras.constraints.NonNeg(), None, "has a constraint"),
        ("lazy_mode", ["nope"], "catch_up", "'nope'.*no train"),
        ("learning_rate_multipliers", {"nope": 2.0}, None, "'nope'.*no train"),
    ],
)
def test_a_build_works_once_its_obstacle_is_gone(name, obstacle, cure, message):
    table = keras.Variable(tf.ones((3, 2)), name="embeddings")
    inner = tf_opt.Adam(0.5, lazy_mode="catch_up")
    owner = table if name == "constraint" else inner
    setattr(owner, name, obstacle)
    optimizer = tf_opt.LossScaleOptimizer(inner, initial_scale=1.0)
    gradient = tf.IndexedSlices(tf.ones((1, 2)), tf.constant([1]))
    for _ in range(2):
        with pytest.raises(ValueError, match=message):
            optimizer.apply([gradient], [table])
    setattr(owner, name, cure)
    optimizer.apply([gradient], [table])
    np.testing.assert_allclose(table.numpy()[:, 0], [1.0, 0.5, 1.0])
    paths = [x.path for x in optimizer.variables]
    assert len(set(paths)) == len(paths)


@pytest.mark.parametrize("shape", [None, [None]], ids=str)
def test_sgd_needs_no_shape(shape, implementation, how):
    variable = tf.Variable([1.0, 2.0], shape=tf.TensorShape(shape))
    optimizer = tf_opt.SGD(0.5, implementation=implementation)
    optimizer.build([variable])
    step = RUNS[how](lambda gradient: optimizer.apply([gradient], [variable]))
    for _ in range(2):
        step(tf.constant([1.0, -1.0]))
    with pytest.raises(tf.errors.InvalidArgumentError):
        step(tf.constant([1.0, 2.0, 3.0]))
    assert variable.numpy().tolist() == [0.0, 3.0]
    again = tf_opt.SGD.from_config(optimizer.get_config())
    assert again.get_config() == optimizer.get_config()


@pytest.mark.parametrize("features", [{}, {"global_clipnorm": 1e3}], ids=str)
def test_sgd_updates_a_table_that_grows(features, implementation, how):
    table = _partial()
    optimizer = tf_opt.SGD(0.5, implementation=implementation, **features)
    optimizer.build([table])

    @RUNS[how]
    def step(rows: tf.Tensor) -> None:
        slices = tf.IndexedSlices(tf.ones((2, 2)), rows)
        optimizer.apply([slices], [table])

    step(tf.constant([1, 1]))
    table.assign(tf.ones((3, 2)))
    step(tf.constant([1, 2]))
    np.testing.assert_array_equal(table.numpy()[:, 0], [1.0, 0.5, 0.5])
    with pytest.raises(tf.errors.InvalidArgumentError):
        step(tf.constant([0, 3]))
    np.testing.assert_array_equal(table.numpy()[:, 0], [1.0, 0.5, 0.5])


@pytest.mark.parametrize(
    ("make", "traced"),
    [
        (tf_opt.Adam, "strategy"),
        (tf_opt.Adam, "step"),
        (tf_opt.AveragedSGD, "both"),
        (lambda rate: tf_opt.LossScaleOptimizer(tf_opt.Adam(rate)), "eager"),
    ],
)
def test_the_first_step_of_replicas_builds_the_optimizer(
    make, traced, strategy
):
    def train(*, built: bool) -> np.ndarray:
        with strategy.scope():
            variable = keras.Variable([1.0, 2.0])
            optimizer = make(0.5)
            if built:
                optimizer.build([variable])

        def step() -> None:
            replica = tf.distribute.get_replica_context()
            gradient = tf.cast(replica.replica_id_in_sync_group, tf.float32)
            optimizer.apply([gradient + tf.ones(2)], [variable])

        run = strategy.run
        if traced in ("step", "both"):
            step = tf.function(step)
        if traced in ("strategy", "both"):
            run = tf.function(run)
        for _ in range(2):
            run(step)
        copies = strategy.experimental_local_results(variable.value)
        np.testing.assert_array_equal(copies[0].numpy(), copies[1].numpy())
        return variable.numpy()

    np.testing.assert_array_equal(train(built=False), train(built=True))
