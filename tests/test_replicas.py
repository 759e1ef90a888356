"""Replicas on two logical CPUs; state that they share, or that the host has.

test_whole_step.py has every feature of a step; this is what surrounds it.
"""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

import small_model
from registry import slow

PLACEMENTS = {
    "shards": {"shard_state": True},
    "host": {"state_device": "CPU:0"},
}


@pytest.mark.parametrize(
    ("placement", "elements"),
    [({"shard_state": True}, [80, 80]), ({"state_device": "CPU:1"}, [0, 160])],
    ids=str,
)
def test_the_state_is_in_halves_or_on_the_host(strategy, placement, elements):
    with strategy.scope():
        variables = [
            keras.Variable(np.ones(n, "float32")) for n in (60, 50, 30, 20)
        ]
        optimizer = tf_opt.Adam(master_weights=True, **placement)
        optimizer.build(variables)
    memory = optimizer.memory()
    devices = [memory[name] for name in ("CPU:0", "CPU:1")]
    assert [x.get("slots", 0) for x in devices] == [8 * n for n in elements]
    assert [x["variables"] for x in devices] == [160 * 4] * 2


@pytest.mark.parametrize("placement", [*PLACEMENTS, "host, one device"])
def test_saved_state_loads_elsewhere(strategy, tmp_path, placement):
    alone = placement not in PLACEMENTS
    where = tf.device("CPU:1") if alone else strategy.scope()

    def make(**arguments: Any) -> keras.Model:
        optimizer = tf_opt.AdamW(0.05, use_ema=True, **arguments)
        model = small_model.compiled(optimizer)
        optimizer.build(model.trainable_variables)
        for i, variable in enumerate(optimizer.variables[2:]):
            random = np.random.default_rng(i)
            variable.assign(random.normal(size=variable.shape))
        return model

    usual = make()
    with where:
        moved = make(**PLACEMENTS[placement.split(",")[0]])
    for source, target in ((usual, moved), (moved, usual)):
        for kind in ("weights.h5", "checkpoint", *["keras"] * alone):
            for variable in target.optimizer.variables[2:]:
                variable.assign(tf.zeros_like(variable))
            found = small_model.loaded(source, target, kind, tmp_path)
            same = source if kind == "keras" else target
            device = same.optimizer.state_device
            assert found.optimizer.state_device == device
            small_model.assert_same(
                small_model.state(found), small_model.state(source)
            )


@pytest.mark.parametrize("placement", ["shards", slow("host")])
def test_rows_catch_up_in_replicas(strategy, placement):
    def train(**arguments: Any) -> np.ndarray:
        with strategy.scope():
            table = keras.Variable(np.ones((6, 2)), name="table")
            optimizer = tf_opt.Adam(
                0.1, lazy_mode={"table": "catch_up"}, **arguments
            )
            optimizer.build([table])

        def on_replica(number: tf.Tensor) -> None:
            context = tf.distribute.get_replica_context()
            own = 2 * number + context.replica_id_in_sync_group
            rows = tf.stack([0, own % 6])
            # Another one, which has missed a step.
            optimizer.catch_up(table, [(own + 2) % 6])
            values = tf.ones((2, 2), tf.float64)
            optimizer.apply([tf.IndexedSlices(values, rows)], [table])

        step = tf.function(lambda number: strategy.run(on_replica, (number,)))
        for number in range(3):
            step(tf.constant(number))
        for variable in (table, *optimizer.variables) if not arguments else ():
            copies = strategy.experimental_local_results(variable.value)
            np.testing.assert_array_equal(copies[0], copies[-1])
        optimizer.catch_up()
        return table.numpy()

    np.testing.assert_array_equal(train(**PLACEMENTS[placement]), train())


def test_shards_need_a_mirrored_strategy_outside_of_xla(strategy):
    optimizer = tf_opt.Adam(shard_state=True)
    with pytest.raises(ValueError, match="needs a `tf.distribute.Mirrored"):
        optimizer.build([keras.Variable(1.0)])
    variable = keras.Variable(1.0)
    with strategy.scope():
        optimizer = tf_opt.Adam(shard_state=True)
        with pytest.raises(ValueError, match="a copy in each replica"):
            optimizer.build([variable])
        with pytest.raises(ValueError, match="needs steps outside"):
            small_model.fit(tf_opt.Adam(shard_state=True), jit_compile=True)
    with pytest.raises(ValueError, match="Only one of `shard_state`"):
        tf_opt.Adam(shard_state=True, state_device="CPU:0")


# ---- Each replica with its own state. ----


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


@pytest.mark.parametrize("wrap", [lambda x: x, tf_opt.LossScaleOptimizer])
def test_an_optimizer_from_outside_of_the_scope_says_what_to_do(strategy, wrap):
    inner = tf_opt.Adam(0.1)
    optimizer = wrap(inner)
    with strategy.scope():
        variable = keras.Variable([1.0])
        with pytest.raises(ValueError, match=r"`with strategy\.scope\(\):`"):
            optimizer.build([variable])
    with pytest.raises(ValueError, match=r"Received: Adam\(learning_rate=0.1"):
        strategy.run(lambda: optimizer.apply([tf.ones(1)], [variable]))
    assert not inner.built
    # Keras' own would train the replicas apart.
    optimizer.build([variable])
    with pytest.raises(ValueError, match=r"`with strategy\.scope\(\):`"):
        strategy.run(lambda: optimizer.apply([tf.ones(1)], [variable]))


def test_replicas_that_share_one_copy_are_refused():
    central = tf.distribute.experimental.CentralStorageStrategy(
        ["CPU:0", "CPU:1"], "CPU:0"
    )
    with central.scope():
        shared, optimizer = tf.Variable([1.0]), tf_opt.Adam(0.1)
        optimizer.build([shared])
        with pytest.raises(ValueError, match="must be None under CentralStora"):
            tf_opt.Adam(state_device="CPU:0").build([shared])

    @tf.function
    def step() -> None:
        central.run(lambda: optimizer.apply([tf.constant([0.5])], [shared]))

    with pytest.raises(ValueError, match="must have a copy.*CentralStorage"):
        step()
    assert shared.numpy() == 1
