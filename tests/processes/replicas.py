"""Three replicas on three logical CPUs: state beside them, on one, in shards.

A process of its own, since a process can't have strategies of two sizes.
"""

from __future__ import annotations

import pathlib

import keras
import numpy as np
import tensorflow as tf
import tf_opt

PLACEMENTS = {
    "beside": {},
    "host": {"state_device": "CPU:0"},
    "shards": {"shard_state": True},
}
SHAPES = ((30, 4), (8, 5), (20,), (), (3, 2))


def work(folder: pathlib.Path) -> None:
    """Saves what each placement trained, as <name>.npz."""
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * 3,
    )
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1", "CPU:2"])
    for name, placement in PLACEMENTS.items():
        variables, optimizer = _train(strategy, placement)
        values = [
            copy.numpy()
            for variable in (*variables, *optimizer.variables)
            for copy in strategy.experimental_local_results(variable.value)[:1]
        ]
        for variable in variables:
            first, *others = strategy.experimental_local_results(variable.value)
            for other in others:
                np.testing.assert_array_equal(first, other)
        slots = {v.value.device for v in optimizer.variables[2:]}
        np.savez(folder / f"{name}.npz", *values, devices=len(slots))


def _train(
    strategy: tf.distribute.Strategy, placement: dict
) -> tuple[list[keras.Variable], keras.optimizers.Optimizer]:
    random = np.random.default_rng(4)
    with strategy.scope():
        variables = [
            keras.Variable(random.normal(size=shape), dtype="bfloat16")
            for shape in SHAPES
        ]
        optimizer = tf_opt.AdamW(
            0.05,
            master_weights=True,
            use_ema=True,
            global_clipnorm=1.0,
            skip_nonfinite=True,
            **placement,
        )
        optimizer.build(variables)

    @tf.function
    def step(seed: tf.Tensor) -> None:
        def on_replica() -> None:
            context = tf.distribute.get_replica_context()
            own = tf.stack([seed, context.replica_id_in_sync_group])
            optimizer.apply(
                [
                    tf.cast(tf.random.stateless_normal(x.shape, own), x.dtype)
                    for x in variables
                ],
                variables,
            )

        strategy.run(on_replica)

    for number in range(4):
        step(tf.constant(number))
    return variables, optimizer
