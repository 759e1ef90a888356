"""Training that goes on from its last checkpoint."""

import pathlib

import keras
import numpy as np
import tensorflow as tf
import tf_opt

STEPS = 1000
STEPS_BETWEEN_CHECKPOINTS = 3
BATCHES = 5


def work(folder: pathlib.Path, saves: bool) -> None:
    """Trains to the end, each optimizer a variable; may save meanwhile.

    Adds a line to starts.txt, how many steps had been done; in the end it
    writes all variables into final.npz.
    """
    decay = keras.optimizers.schedules.CosineDecay(0.01, STEPS)
    optimizers = {
        "asgd": tf_opt.ASGD(0.01, batch_num=BATCHES, global_clipnorm=0.5),
        "nadam": tf_opt.NAdam(decay, use_ema=True),
        "averaged": tf_opt.AveragedSGD(0.01, t0=100),
    }
    variables = {x: keras.Variable(np.ones(7), name=x) for x in optimizers}
    for name, optimizer in optimizers.items():
        optimizer.build([variables[name]])
    asgd = optimizers["asgd"]
    checkpoint = tf.train.Checkpoint(**optimizers, variables=variables)
    manager = tf.train.CheckpointManager(
        checkpoint, folder / "checkpoints", max_to_keep=2
    )
    if manager.latest_checkpoint:
        checkpoint.restore(manager.latest_checkpoint).assert_consumed()

    @tf.function
    def step(target: tf.Tensor) -> None:
        for name, optimizer in optimizers.items():
            variable = variables[name]
            optimizer.apply([variable - target], [variable])

    done = int(asgd.iterations.numpy())
    with (folder / "starts.txt").open("a") as starts:
        starts.write(f"{done}\n")
    for number in range(done, STEPS):
        random = np.random.default_rng(number)
        if number % BATCHES == 0:
            asgd.batch_order = random.permutation(BATCHES)
        step(tf.constant(random.normal(size=7), tf.float32))
        if saves and (number + 1) % STEPS_BETWEEN_CHECKPOINTS == 0:
            manager.save()
    values = [*variables.values()]
    for optimizer in optimizers.values():
        values += optimizer.variables
    np.savez(folder / "final.npz", *[x.numpy() for x in values])
