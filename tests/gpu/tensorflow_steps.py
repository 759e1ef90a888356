"""Times steps in TensorFlow, Keras' and tf_opt's, in turns.

    python tensorflow_steps.py [--tiny] [--seconds SECONDS] [WORKLOAD...]

On the GPU if there is one, without the forward and backward pass: Adam's step
for workloads of `make bench`; for `tables` steps of embedding tables, beside
what each is to reach, the most important first, and whole `fit`s.
"""

import argparse
import collections
import functools
import gc
import itertools
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf
import tf_opt

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "benchmarks"))
import shapes
from gradients import draw_ids

_ROUNDS = 5
# A round of a contender takes about so long.
_SECONDS = 0.2


def _seconds(step: Callable[[], None], repetitions: int) -> float:
    begin = time.perf_counter()
    for _ in range(repetitions):
        step()
    tf.test.experimental.sync_devices()
    return (time.perf_counter() - begin) / repetitions


def _in_turns(steps: Mapping[str, Callable[[], None]]) -> dict[str, float]:
    """Returns the milliseconds of each step, a median."""
    repetitions = {}
    for key, step in steps.items():
        _seconds(step, 2)  # Traces, compiles and makes the state.
        repetitions[key] = 1 + int(_SECONDS / _seconds(step, 1))
    times = {key: [] for key in steps}
    for _ in range(_ROUNDS):
        for key, step in steps.items():
            times[key].append(_seconds(step, repetitions[key]))
    return {key: 1e3 * statistics.median(x) for key, x in times.items()}


def measure(workload: shapes.Workload) -> None:
    """Prints a line for each contender."""
    gradients = [tf.random.normal(x, stddev=1e-3) for x in workload.shapes]
    steps = {}
    for how in ("eager", "tf.function", "XLA"):
        for module in (keras.optimizers, tf_opt):
            variables = [
                keras.Variable(tf.random.normal(x, stddev=0.02))
                for x in workload.shapes
            ]
            optimizer = module.Adam()
            optimizer.build(variables)
            step = functools.partial(optimizer.apply, gradients, variables)
            if how != "eager":
                step = tf.function(step, jit_compile=how == "XLA")
            steps[f"{module.__name__.split('.')[0]} | {how}"] = step
    print("| workload | Adam of | step | ms |\n| :-- | :-- | :-- | --: |")
    for name, milliseconds in _in_turns(steps).items():
        print(f"| {workload.title} | {name} | {milliseconds:.3g} |")


# ---- Tables. ----

_WIDTH = 64
_MAKE = {
    "lazy Adam": lambda: tf_opt.Adam(lazy_mode=True),
    "Adagrad": tf_opt.Adagrad,
    "row-wise Adagrad": lambda: tf_opt.Adagrad(row_wise=["embeddings"]),
    "catch_up Adam": lambda: tf_opt.Adam(lazy_mode={"embeddings": "catch_up"}),
    "exact Adam": tf_opt.Adam,
    "Keras' Adam": keras.optimizers.Adam,
    "Keras' Adagrad": keras.optimizers.Adagrad,
}
_OURS = list(_MAKE)[:5]
_VERDICTS = "missed", "reached"


def _of_keras(factor: float, names: Sequence[str]) -> list:
    return [(x, factor, f"Keras' {x.split()[-1]}") for x in names]


# Of tables with millions of rows, ids of a batch, their distribution, and how a
# step runs: what is to reach which part of another's time.
_PARTS = (
    (1, 4096, "Zipf", "tf.function", [
        *((x, 1.2, "TensorFlow's op") for x in _OURS[:3]),
        ("catch_up Adam", 2, "lazy Adam"),
        *_of_keras(1 / 4, _OURS[:4]),
    ]),
    (10, 65536, "Zipf", "tf.function", _LARGE := [
        ("lazy Adam", 1.5, "gather + scatter"),
        ("exact Adam", 1.1, "copy"),
        *_of_keras(1 / 30, ["lazy Adam"]),
    ]),
    (1, 4096, "Zipf", "eager", _of_keras(1, _OURS)),
    (1, 4096, "Zipf", "fit", _of_keras(0.6, ["lazy Adam", "Adagrad"])),
    (10, 65536, "uniform", "tf.function", _LARGE),
)  # fmt: skip


def _table_steps(
    rows: int, drawn: np.ndarray, how: str
) -> dict[str, Callable[[], None]]:
    """Returns steps of one table by contender, each with its own state."""
    table = keras.Variable(tf.random.normal((rows, _WIDTH)), name="embeddings")
    arrays = [table.value, *(tf.Variable(tf.zeros_like(table)) for _ in "mv")]
    shape = tf.constant(table.shape)
    batches = itertools.cycle(
        [
            (tf.constant(x, tf.int64), tf.random.normal((x.size, _WIDTH)))
            for x in drawn
        ]
    )

    def timed(step: Callable) -> Callable[[], None]:
        step = tf.function(step) if how == "tf.function" else step
        return lambda: step(*next(batches))

    def contender(optimizer: keras.optimizers.Optimizer) -> Callable[[], None]:
        optimizer.build([table])

        def step(ids: tf.Tensor, values: tf.Tensor) -> None:
            if getattr(optimizer, "lazy_mode", False):
                optimizer.catch_up(table, ids)
            slices = tf.IndexedSlices(values, ids, shape)
            optimizer.apply([slices], [table])

        return timed(step)

    def run_op(ids: tf.Tensor, values: tf.Tensor) -> None:
        var, accum, _ = (x.handle for x in arrays)
        numbers = {"lr": 1e-3, "epsilon": 1e-7}
        tf.raw_ops.ResourceSparseApplyAdagradV2(
            var=var, accum=accum, grad=values, indices=ids, **numbers
        )

    def move(ids: tf.Tensor, values: tf.Tensor) -> None:
        for x in arrays:
            x.scatter_update(tf.IndexedSlices(tf.gather(x, ids), ids))

    def copy(ids: tf.Tensor, values: tf.Tensor) -> None:
        for x in arrays:
            x.assign(-x)

    return {
        **{name: contender(make()) for name, make in _MAKE.items()},
        "TensorFlow's op": timed(run_op),
        "gather + scatter": timed(move),
        "copy": timed(copy),
    }


def _peak(step: Callable[[], None]) -> int:
    """Returns the most bytes that a step has beside what was there before."""
    memory = tf.config.experimental
    before = memory.get_memory_info("GPU:0")["current"]
    memory.reset_memory_stats("GPU:0")
    _seconds(step, 1)
    return memory.get_memory_info("GPU:0")["peak"] - before


def _fit(
    optimizer: keras.optimizers.Optimizer, rows: int, drawn: np.ndarray
) -> float:
    """Returns the milliseconds of a step of two towers in `fit`, a median."""
    ids = [keras.Input((), dtype="int32") for _ in range(2)]
    embedded = [keras.layers.Embedding(rows, _WIDTH)(x) for x in ids]
    towers = [keras.layers.Dense(_WIDTH)(x) for x in embedded]
    model = keras.Model(ids, keras.layers.Dot(1)(towers))
    model.compile(optimizer, "mse", jit_compile=False)
    data = ((drawn, drawn[::-1]), np.ones(drawn.shape, "float32"))
    batches = tf.data.Dataset.from_tensor_slices(data).repeat()
    ends: list[float] = []
    note = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda *_: ends.append(time.perf_counter())
    )
    how = {"epochs": 6, "steps_per_epoch": 50, "verbose": 0}
    model.fit(batches, callbacks=[tf_opt.callbacks.CatchUp(), note], **how)
    return float(np.median(np.diff(ends))) / 50 * 1e3


def measure_tables(*, tiny: bool, seconds: float) -> None:
    """Prints a line for each contender; begins nothing after some seconds."""
    end = time.monotonic() + seconds
    print(
        "| table, step | contender | ms | to reach |\n| :-- | :-- | --: | :-- |"
    )
    for millions, count, distribution, how, targets in _PARTS:
        if time.monotonic() > end:
            print("The time is over.")
            return
        rows = millions * (1000 if tiny else 1_000_000)
        count = count // 64 if tiny else count
        title = f"{rows:,} x {_WIDTH}, {count:,} {distribution} ids, {how}"
        workload = shapes.Workload("", [], count, distribution == "Zipf")
        ids = draw_ids(rows, workload, np.random.default_rng(0))
        drawn = np.stack(list(itertools.islice(ids, 8)))
        reached = collections.defaultdict(list)
        if how == "fit":
            times = {x: _fit(make(), rows, drawn) for x, make in _MAKE.items()}
        else:
            steps = _table_steps(rows, drawn, how)
            times = _in_turns(steps)
            if tf.config.list_logical_devices("GPU"):
                peak = _peak(steps["exact Adam"]) / (4 * rows * _WIDTH)
                text = f"{_VERDICTS[peak < 1]}: {peak:.3g} < 1 x a table more"
                reached["exact Adam"].append(text)
            del steps  # Before there are others as large.
            gc.collect()
        for name, factor, other in targets:
            verdict = _VERDICTS[times[name] <= factor * times[other]]
            reached[name].append(f"{verdict}: <= {factor:.3g} x {other}")
        for name, ms in times.items():
            text = "; ".join(reached[name])
            print(f"| {title} | {name} | {ms:.3g} | {text} |", flush=True)


def main() -> None:
    """Measures the workloads that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "workloads",
        nargs="*",
        default=["tables", "mlp", "resnet-50", "bert-base"],
    )
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--seconds", type=float, default=300)
    arguments = parser.parse_args()
    devices = tf.config.list_logical_devices("GPU") or ["CPU"]
    print(f"On {devices[0]}: {tf_opt.build_info()['gpus']}")
    for name in arguments.workloads:
        if name == "tables":
            measure_tables(tiny=arguments.tiny, seconds=arguments.seconds)
        else:
            measure(shapes.WORKLOADS[name])


if __name__ == "__main__":
    main()
