"""Steps of an optimizer on gradients that come in two parts.

All numbers have few digits, so that the parts have one sum, whoever adds them.
"""

import functools
import pathlib
from collections.abc import Callable, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from registry import RULES

IMPLEMENTATIONS = ("custom_op", "composed")
PARTS = (0, 1)
STEPS = 4
# Variables are given to two servers in turns: one gets two of one type, the
# other the embedding, which is the only one of its type there.
DENSE = [
    ("float32", (3, 5)),
    ("float16", (7,)),
    ("float32", (2,)),
    ("float64", ()),
    ("float64", (3, 1)),
]
EMBEDDING = (4, 2)
# How many of the embedding's rows each part of a step looks up.
ROWS = 3

# What `apply` does besides: of parts of one half each step is a whole one.
BOTH = {"clipvalue": 1.5, "skip_nonfinite": True, "track_gradient_norm": True}
ALL = {
    **BOTH,
    "gradient_accumulation_steps": 2,
    "use_ema": True,
    "ema_momentum": 0.5,
    "ema_overwrite_frequency": 2,
}
FEATURES = {
    "all": ALL,
    # In several replicas rows can't be accumulated.
    "lazy": {**BOTH, "lazy_mode": True},
    "host": {**ALL, "state_device": "CPU:0"},
}
FEATURED = [
    *((name, IMPLEMENTATIONS[i % 2], "all") for i, name in enumerate(RULES)),
    *zip(("Adam", "NAdam"), IMPLEMENTATIONS, ("lazy", "lazy"), strict=True),
]
ON_HOST = [("Adam", "custom_op", "host"), ("ASGD", "composed", "host")]

Case = tuple[str, str, str]


def _weights(
    step: int, parts: Sequence[int]
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Sums of the variables' factors; rows of the embedding, and theirs."""
    sums = [np.zeros(shape, dtype) for dtype, shape in DENSE]
    rows, of_rows = [], []
    for part in parts:
        random = np.random.default_rng([step, part])
        for each in sums:
            each += (random.integers(-8, 9, each.shape) / 4).astype(each.dtype)
        rows.extend(random.integers(0, EMBEDDING[0], ROWS))
        of_rows.append(random.integers(-8, 9, (ROWS, EMBEDDING[1])) / 4)
    return sums, np.array(rows), np.concatenate(of_rows).astype("float32")


def train(
    name: str,
    implementation: str,
    features: str,
    parts: Sequence[int],
    strategy: tf.distribute.Strategy,
    call: Callable[..., object] = lambda step, arguments: step(*arguments),
    wrap: Callable[[Callable], Callable] = tf.function,
) -> tuple[list[keras.Variable], keras.optimizers.Optimizer]:
    """Takes steps of a rule in its most thorough mode, with these `FEATURES`.

    Every replica of the strategy sees these `PARTS` of the gradients. `call`
    calls a step, which `wrap` has made of a function, with a tuple of
    arguments. Returns the variables, the last an embedding, and the optimizer.
    """
    random = np.random.default_rng(5)
    with strategy.scope():
        variables = [
            keras.Variable(random.integers(-8, 9, shape) / 4, dtype=dtype)
            for dtype, shape in [*DENSE, ("float32", EMBEDDING)]
        ]
        optimizer = RULES[name].make(
            0.125,
            implementation=implementation,
            **RULES[name].thorough,
            **FEATURES[features],
        )
        optimizer.build(variables)

    def on_replica(
        dense: list[tf.Tensor], rows: tf.Tensor, of_rows: tf.Tensor
    ) -> None:
        *others, embedding = (variable.value for variable in variables)
        with tf.GradientTape() as tape:
            losses = [
                tf.reduce_sum(variable * weight)
                for variable, weight in zip(others, dense, strict=True)
            ]
            losses.append(tf.reduce_sum(tf.gather(embedding, rows) * of_rows))
        optimizer.apply(tape.gradient(losses, [*others, embedding]), variables)

    @wrap
    def step(*weights: object) -> None:
        strategy.run(on_replica, args=weights)

    for number in range(STEPS):
        weights = _weights(number, parts)
        call(step, tf.nest.map_structure(tf.constant, weights))
    return variables, optimizer


def state(
    case: Case,
    variables: Sequence[keras.Variable],
    optimizer: keras.optimizers.Optimizer,
) -> dict[str, np.ndarray]:
    """All that the steps have changed, for np.savez."""
    return {
        "_".join([*case, str(i)]): variable.numpy()
        for i, variable in enumerate([*variables, *optimizer.variables])
    }


@functools.cache
def _one_process(case: Case) -> dict[str, np.ndarray]:
    strategy = tf.distribute.get_strategy()
    # The op's steps have the same bits eagerly, where nothing is traced.
    wrap = (lambda step: step) if "custom_op" in case else tf.function
    return state(case, *train(*case, PARTS, strategy, wrap=wrap))


def assert_equal_one_process(
    states: Mapping[str, np.ndarray], cases: Sequence[Case]
) -> None:
    for case in cases:
        for key, expected in _one_process(case).items():
            np.testing.assert_array_equal(states[key], expected, err_msg=key)


def work_as_worker(folder: pathlib.Path) -> None:
    """One of two: saves the states after the last step as <index>.npz."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    worker = strategy.cluster_resolver.task_id
    results = {}
    for case in (*FEATURED, *ON_HOST):
        results |= state(case, *train(*case, [worker], strategy))
    np.savez(folder / f"{worker}.npz", **results)
