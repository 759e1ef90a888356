"""`lazy_mode="catch_up"`: the numbers of exact training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from low_precision_cases import SETTINGS
from registry import OPTIMIZERS, THOROUGH_MODES, pairwise, slow
from small_model import assert_close

pytestmark = pytest.mark.kernels

ROWS, WIDTH = 40, 3
MODES = [
    (name, mode)
    for name, optimizer in OPTIMIZERS.items()
    if optimizer.spec.coasts
    for mode, arguments in optimizer.modes.items()
    if "row_wise" not in arguments
    if arguments.get("decoupled_weight_decay", True)
    or not arguments.get("weight_decay")
]


def schedule() -> keras.optimizers.schedules.LearningRateSchedule:
    """A learning rate that rises, falls and jumps."""
    return keras.optimizers.schedules.PiecewiseConstantDecay(
        [5, 30, 75], [0.002, 0.02, 0.01, 0.03]
    )


def traced(step: Callable) -> Callable:
    """One graph for any number of rows; its steps take less time."""
    signature = [
        tf.TensorSpec([None], tf.int32),
        tf.TensorSpec([None, WIDTH], tf.float64),
    ]
    return tf.function(step, input_signature=signature)


class Run:
    """A table that is trained with random rows and gradients."""

    def __init__(
        self,
        name: str,
        lazy_mode: Any,
        *,
        implementation: str = "auto",
        dtype: str = "float64",
        learning_rate: Any = None,
        **arguments: Any,
    ) -> None:
        value = np.random.default_rng(1).normal(size=(ROWS, WIDTH))
        self.table = keras.Variable(value, dtype=dtype, name="embeddings")
        self.optimizer = OPTIMIZERS[name].make(
            learning_rate or schedule(),
            lazy_mode=lazy_mode,
            implementation=implementation,
            **arguments,
        )
        self.optimizer.build([self.table])
        # How far each element has gone.
        self.path = np.zeros((ROWS, WIDTH))

    def apply(self, rows: Any, values: Any) -> None:
        self.optimizer.apply([tf.IndexedSlices(values, rows)], [self.table])

    def train(
        self,
        steps: int,
        *,
        reads: bool = True,
        count_rows: Callable = lambda random: random.integers(1, 6),
        wrap: Callable = lambda step: step,
    ) -> Run:
        """Applies gradients that depend on rows, which may catch up first."""

        def step(rows: tf.Tensor, noise: tf.Tensor) -> None:
            if reads:
                self.optimizer.catch_up(self.table, rows)
            x = tf.gather(tf.convert_to_tensor(self.table), rows)
            values = tf.sin(3 * x) + tf.cast(noise, x.dtype)
            self.apply(rows, values)

        step = wrap(step)
        random = np.random.default_rng(2)
        before = self.table.numpy()
        for _ in range(steps):
            count = count_rows(random)
            rows = np.minimum(random.pareto(1, count) * 3, ROWS - 1)
            noise = random.normal(size=(count, WIDTH))
            step(tf.constant(rows, tf.int32), tf.constant(noise))
            after = self.table.numpy()
            self.path += np.abs(after.astype("float64") - before)
            before = after
        self.optimizer.catch_up()
        return self

    def distance(self, other: Run) -> float:
        """The largest distance of two tables relative to the other's path."""
        difference = np.abs(
            self.table.numpy().astype("float64") - other.table.numpy()
        )
        return float(np.max(difference / other.path.clip(1e-12)))


@pytest.mark.parametrize(
    ("name", "mode"),
    # Quickly in the last mode of each, which has the most.
    [
        pair if dict(MODES)[pair[0]] == pair[1] else slow(*pair)
        for pair in MODES
    ],
)
def test_equals_exact_training_if_rows_catch_up_before_reads(name, mode):
    arguments = dict(OPTIMIZERS[name].modes[mode])
    if "epsilon" in arguments:
        # The next test is about larger ones.
        arguments["epsilon"] = 1e-8

    def train(mode: Any, **how: Any) -> Run:
        return Run(name, mode, **arguments, **how).train(100, wrap=traced)

    exact = train(False)
    found = train("catch_up", implementation="custom_op")
    assert found.distance(exact) < 1e-6
    rests = exact.optimizer._state.spec.rests
    if rests and "weight_decay" not in arguments:
        # Rows have nothing to catch up with.
        return
    assert train(True).distance(exact) > 0.1


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Adagrad", {}),
        ("Adagrad", {"row_wise": True}),
        ("Adadelta", {}),
        ("RMSprop", {}),
    ],
    ids=str,
)
def test_rows_catch_up_with_decay_that_has_ended(
    name, arguments, implementation
):
    tables = []
    for lazy_mode in (False, "catch_up"):
        run = Run(
            name,
            lazy_mode,
            implementation=implementation,
            weight_decay=0.3,
            **arguments,
        ).train(12)
        run.optimizer.weight_decay = None
        run.train(8)
        run.optimizer.catch_up(run.table, tf.range(ROWS))
        tables.append(run.table.numpy())
    np.testing.assert_allclose(*tables, rtol=1e-12)


def test_momentum_goes_on_without_an_average(implementation, request):
    # What compares tensors by `==` compares nothing then.
    tf.compat.v1.disable_tensor_equality()
    request.addfinalizer(tf.compat.v1.enable_tensor_equality)
    # A velocity of zero doesn't end the momentum.
    arguments = {"momentum": 0.9, "rho": 0.0, "implementation": implementation}
    exact, found = (
        Run("RMSprop", mode, **arguments).train(50, wrap=traced)
        for mode in (False, "catch_up")
    )
    assert found.distance(exact) < 1e-6


@pytest.mark.parametrize(
    "arguments", [{"epsilon": 1e-7, "epsilon_hat": True}, {"epsilon": 1e-5}]
)
def test_epsilon_is_a_mean_over_the_missed_steps(arguments):
    # Gradients of this size, as from a mean over a large batch, have second
    # moments whose roots aren't much larger.
    def train(mode: Any) -> Run:
        run = Run("Adam", mode, **arguments)
        for k in range(0, 300, 3):
            gradient = np.full((1, WIDTH), 1e-5 * (1 + k % 7))
            run.apply(tf.constant([k % 4]), tf.constant(gradient))
            if mode is False:
                run.path += 1e-3
        run.optimizer.catch_up()
        return run

    assert train("catch_up").distance(train(False)) < 1e-3


@pytest.mark.parametrize("name", ["Adam", *map(slow, ("NAdam", "SGD", "Lion"))])
def test_a_row_may_wait_for_ten_thousand_steps(name):
    steps = 10_001

    def train(mode: Any) -> Run:
        arguments = {"momentum": 0.9} if name == "SGD" else {}
        rates = np.geomspace(1e-2, 1e-3, 7).tolist()
        run = Run(
            name,
            mode,
            learning_rate=keras.optimizers.schedules.PiecewiseConstantDecay(
                [50, 1020, 1030, 3000, 8000, 9990], rates
            ),
            weight_decay=0.01,
            **arguments,
        )

        @tf.function
        def loop(begin: tf.Tensor, end: tf.Tensor) -> None:
            for k in tf.range(begin, end):
                # Row 0 occurs at first and at last, others now and then.
                rows = tf.where(
                    k % (steps - 1) == 0, [0, 1], [2 + k % 7, 20 + k % 11]
                )
                x = tf.reshape(tf.cast(rows, tf.float64), [2, 1])
                values = tf.sin(x + tf.cast(k, x.dtype) + 1.0)
                run.apply(rows, tf.repeat(values, WIDTH, axis=1))

        loop(0, steps)
        run.optimizer.catch_up()
        return run

    exact, found = train(False), train("catch_up")
    start = np.random.default_rng(1).normal(size=(ROWS, WIDTH))
    exact.path += np.abs(exact.table.numpy() - start)
    assert found.distance(exact) < 1e-6


FEATURES = {
    "nothing": {},
    "measured": {
        "global_clipnorm": 0.5,
        "skip_nonfinite": True,
        "loss_scale_factor": 4.0,
    },
    "accumulated": {"gradient_accumulation_steps": 3},
    "multiplied": {
        "learning_rate_multipliers": {"emb": 2.0},
        "weight_decay": 0.1,
    },
    "host": {"state_device": "CPU:1"},
}
STORAGE = {
    "float32": {},
    "float64 in float32": {"dtype": "float64", "state_dtype": "float32"},
    "state": SETTINGS["state"],
    "masters": {"dtype": "float16", **SETTINGS["masters"]},
    "stochastic": {"dtype": "bfloat16", **SETTINGS["stochastic, state"]},
}


@pytest.mark.parametrize(
    ("name", "mode", "features", "storage"),
    pairwise(
        [pair for pair in THOROUGH_MODES if pair in MODES]
        + [("Adam", "plain"), ("Adamax", "plain"), ("RMSprop", "momentum")],
        FEATURES,
        STORAGE,
    ),
)
def test_both_implementations_give_the_same_bits(name, mode, features, storage):
    arguments = {
        "dtype": "float32",
        **OPTIMIZERS[name].modes[mode],
        **FEATURES[features],
        **STORAGE[storage],
    }
    one, other = (
        Run(name, "catch_up", implementation=x, **arguments).train(12)
        for x in ("custom_op", "composed")
    )
    if features == "accumulated":
        # The composed implementation lets all rows catch up in each update.
        np.testing.assert_allclose(
            *(np.float64(run.table.numpy()) for run in (one, other)),
            rtol=0.02 if "16" in arguments["dtype"] else 1e-4,
            atol=1e-2 if "bfloat16" in str(STORAGE[storage]) else 1e-5,
        )
        return
    ends = (
        [np.float64(x.numpy()) for x in (run.table, *run.optimizer.variables)]
        for run in (one, other)
    )
    # In float64, powers and norms may differ in the last bit.
    assert_close(*ends, rtol=1e-14 if arguments["dtype"] == "float64" else 0)


@pytest.mark.parametrize("features", [x for x in FEATURES if x != "nothing"])
def test_features_equal_exact_training(features, monkeypatch):
    if features == "host":
        # Now and then all rows catch up.
        monkeypatch.setattr(
            "tf_opt.python.optimizers.state.table_modes.MOST_MISSED_STEPS", 8
        )
    arguments = FEATURES[features]
    exact, found = (
        Run("Adam", mode, **arguments).train(120, wrap=traced)
        for mode in (False, "catch_up")
    )
    assert found.distance(exact) < 1e-6


# Of some steps, in the place of slices.
GRADIENTS = {
    "skipped": lambda k, x: (
        tf.IndexedSlices(x.values * np.nan, x.indices) if k in (3, 7) else x
    ),
    "dense": lambda k, x: (
        tf.ones((ROWS, WIDTH), "float64") if k % 6 == 5 else x
    ),
    "absent": lambda k, x: None if k % 3 else x,
}


@pytest.mark.parametrize("kind", GRADIENTS)
def test_steps_of_other_kinds_are_not_missed(kind, implementation):
    def train(mode: Any) -> Run:
        run = Run(
            "Adam", mode, skip_nonfinite=True, implementation=implementation
        )
        other = keras.Variable([1.0])
        run.optimizer = run.optimizer.from_config(run.optimizer.get_config())
        run.optimizer.build([run.table, other])
        for k in range(20):
            slices = tf.IndexedSlices(
                tf.ones([1, WIDTH], tf.float64), tf.constant([k % 5])
            )
            run.optimizer.apply(
                [GRADIENTS[kind](k, slices), tf.ones([1])], [run.table, other]
            )
        run.optimizer.catch_up()
        run.path += 1e-2
        return run

    assert train("catch_up").distance(train(False)) < 1e-9


def test_inside_xla(monkeypatch):
    monkeypatch.setattr(
        "tf_opt.python.optimizers.state.table_modes.MOST_MISSED_STEPS", 8
    )

    def compiled(step: Callable) -> Callable:
        return tf.function(step, jit_compile=True)

    # One number of rows: XLA compiles for each.
    exact, found = (
        Run("Adam", lazy_mode, weight_decay=0.1).train(
            40, count_rows=lambda _: 2, wrap=wrap
        )
        for lazy_mode, wrap in ((False, tf.function), ("catch_up", compiled))
    )
    assert found.distance(exact) < 1e-9
