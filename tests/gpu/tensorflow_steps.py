"""Times Adam's step in TensorFlow, Keras' and tf_opt's, in turns.

    python tensorflow_steps.py [WORKLOAD...]

On the GPU if there is one, without the forward and backward pass. The workloads
are those of `make bench`.
"""

import argparse
import pathlib
import statistics
import sys
import time
from collections.abc import Callable

import keras
import tensorflow as tf
import tf_opt

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "benchmarks"))
import shapes

_ROUNDS = 5
# A round of a contender takes about so long.
_SECONDS = 0.2


def _contender(
    optimizer: keras.optimizers.Optimizer,
    how: str,
    gradients: list[tf.Tensor],
) -> Callable[[], None]:
    variables = [
        keras.Variable(tf.random.normal(x.shape, stddev=0.02))
        for x in gradients
    ]
    optimizer.build(variables)

    def step() -> None:
        optimizer.apply(gradients, variables)

    if how == "eager":
        return step
    return tf.function(step, jit_compile=how == "XLA")


def _seconds(step: Callable[[], None], repetitions: int) -> float:
    begin = time.perf_counter()
    for _ in range(repetitions):
        step()
    tf.test.experimental.sync_devices()
    return (time.perf_counter() - begin) / repetitions


def measure(workload: shapes.Workload) -> None:
    """Prints a line for each contender."""
    gradients = [tf.random.normal(x, stddev=1e-3) for x in workload.shapes]
    steps = {
        (cls.__module__.split(".")[0], how): _contender(cls(), how, gradients)
        for how in ("eager", "tf.function", "XLA")
        for cls in (keras.optimizers.Adam, tf_opt.Adam)
    }
    repetitions = {}
    for key, step in steps.items():
        _seconds(step, 2)  # Traces, compiles and makes the state.
        repetitions[key] = 1 + int(_SECONDS / _seconds(step, 1))
    times = {key: [] for key in steps}
    for _ in range(_ROUNDS):
        for key, step in steps.items():
            times[key].append(_seconds(step, repetitions[key]))
    for (package, how), seconds in times.items():
        milliseconds = 1e3 * statistics.median(seconds)
        print(f"| {workload.title} | {package} | {how} | {milliseconds:.3g} |")


def main() -> None:
    """Measures the workloads that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "workloads", nargs="*", default=["mlp", "resnet-50", "bert-base"]
    )
    devices = tf.config.list_logical_devices("GPU") or ["CPU"]
    print(f"On {devices[0]}: {tf_opt.build_info()['gpus']}")
    print("| workload | Adam of | step | ms |")
    print("| :-- | :-- | :-- | --: |")
    for name in parser.parse_args().workloads:
        measure(shapes.WORKLOADS[name])


if __name__ == "__main__":
    main()
