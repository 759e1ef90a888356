"""The whole of `apply`: every pair of features, ways to run and optimizers.

Against NumPy in float64 (reference/whole_step.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

import trajectory
from devices import HAS_SPARSE_KERNELS
from low_precision_cases import masters_of
from reference.storage import Storage
from reference.whole_step import WholeStep
from registry import OPTIMIZERS
from registry import TWO_MODES
from registry import pairwise

pytestmark = pytest.mark.kernels

LEARNING_RATE = 0.05
STEPS = 16
# Of these steps one gradient is no number.
NONFINITE = {4: np.inf, 5: np.nan}
SHAPES = ((7, 5), (70,), ())
# Of the first variable's gradient, if it is sparse.
ROWS = 4

FEATURES: dict[str, dict[str, dict[str, Any]]] = {
    "clipping": {
        "none": {},
        "norm": {"clipnorm": 1.5},
        "global": {"global_clipnorm": 2.0},
        "value": {"clipvalue": 0.4},
    },
    "averaging": {
        "none": {},
        "average": {"use_ema": True, "ema_momentum": 0.75},
        "overwrite": {
            "use_ema": True,
            "ema_momentum": 0.5,
            "ema_overwrite_frequency": 2,
        },
    },
    "scaling": {
        "none": {},
        "factor": {"loss_scale_factor": 3.0},
        "dynamic": {"dynamic_growth_steps": 3},
    },
    "accumulation": {"none": {}, "three": {"gradient_accumulation_steps": 3}},
    "skipping": {"none": {}, "skip": {"skip_nonfinite": True}},
    "multipliers": {
        "none": {},
        "some": {
            "learning_rate_multipliers": {"a$": 0.5, ".": 2.0},
            "weight_decay_multipliers": {"[bc]": 3.0},
        },
    },
    "norm": {"none": {}, "track": {"track_gradient_norm": True}},
    "storage": {
        "none": {},
        "masters": {"master_weights": True},
        "stochastic": {"stochastic_rounding": True, "seed": 3},
        "state": {"state_dtype": "bfloat16", "seed": 4},
        "masters, state": {
            "master_weights": True,
            "state_dtype": "bfloat16",
            "seed": 5,
        },
    },
    "slices": {"none": {}, "exact": {}, "lazy": {"lazy_mode": True}},
}
IMPLEMENTATIONS = ("custom_op", "composed")
# Ways to run whose state isn't beside the variables.
ELSEWHERE: dict[str, tuple[str, dict[str, Any]]] = {
    "graph, host": ("tf.function", {"state_device": "CPU:0"}),
    "replicas, host": ("replicas", {"state_device": "CPU:0"}),
    "replicas, shards": ("replicas", {"shard_state": True}),
}
RUNS = (*trajectory.RUNS, "replicas", *ELSEWHERE)
DTYPES = ("float32", "float64", "mixed", "bfloat16")
# The arguments that say what is stored in fewer bits.
STORAGE = {
    "master_weights": False,
    "stochastic_rounding": False,
    "seed": None,
    "state_dtype": None,
}


def _cases() -> list[Any]:
    names = [*FEATURES]
    choices = [list(options) for options in FEATURES.values()]
    return [
        pytest.param(
            *case,
            dict(zip(names, chosen, strict=True)),
            id="-".join([*case, *chosen]),
        )
        for *case, chosen in (
            (*case[:5], case[5:])
            for case in pairwise(
                TWO_MODES,
                IMPLEMENTATIONS,
                RUNS,
                DTYPES,
                *choices,
                filter_func=lambda case: (
                    case[1:3] != ["custom_op", "jit_compile"]
                    and (
                        case[-1] != "lazy"
                        or (
                            OPTIMIZERS[case[0][0]].has_lazy_mode
                            # Averages need exact tables.
                            and case[4 + names.index("averaging")] == "none"
                        )
                    )
                ),
            )
        )
    ]


def _dtypes(dtype: str) -> list[str]:
    if dtype == "mixed":
        return ["float32", "float64", "float32"]
    if dtype == "bfloat16":
        return ["bfloat16", "bfloat16", "float32"]
    return [dtype] * len(SHAPES)


class Slices(NamedTuple):
    """A sparse gradient; rows may occur twice."""

    values: np.ndarray
    indices: np.ndarray

    def dense(self) -> np.ndarray:
        dense = np.zeros(SHAPES[0])
        np.add.at(dense, self.indices, self.values)
        return dense

    def occurs(self) -> np.ndarray:
        return np.isin(np.arange(SHAPES[0][0]), self.indices)[:, None]


def _gradients(
    step: int, wrong: bool, sparse: bool
) -> list[np.ndarray | Slices]:
    random = np.random.default_rng(step)
    # With few digits, so that they, and sums of some, are numbers in 16 bits.
    gradients = [
        np.asarray(np.round(random.normal(size=shape) * 8) / 8)
        for shape in SHAPES
    ]
    if wrong and step in NONFINITE:
        gradients[1][7] = NONFINITE[step]
    if sparse:
        # As many as there are, but now and then none; few rows, and others in
        # every step.
        count = 0 if step == 9 else ROWS
        indices = random.integers(0, 3, count) + step % 5
        gradients[0] = Slices(gradients[0][:count], indices)
    return gradients


def _tensor(
    gradient: np.ndarray | Slices, variable: keras.Variable
) -> tf.Tensor | tf.IndexedSlices:
    if not isinstance(gradient, Slices):
        return tf.constant(gradient, variable.dtype)
    return tf.IndexedSlices(
        tf.constant(gradient.values, variable.dtype),
        tf.constant(gradient.indices),
        tf.constant(variable.shape),
    )


def _stepper(
    how: str,
    optimizer: keras.optimizers.Optimizer,
    variables: list[keras.Variable],
    strategy: tf.distribute.Strategy,
) -> Callable[[list[tf.Tensor | tf.IndexedSlices]], None]:

    def step(gradients: list[tf.Tensor]) -> None:
        optimizer.apply(gradients, variables)

    def replica(gradients: list[tf.Tensor]) -> None:
        # A quarter of the gradient in one, the rest in the other.
        context = tf.distribute.get_replica_context()
        part = 2 * context.replica_id_in_sync_group + 1
        scale = tf.math.scalar_mul
        step([scale(tf.cast(part / 4, g.dtype), g) for g in gradients])

    if how == "replicas":
        return tf.function(lambda values: strategy.run(replica, (values,)))
    return trajectory.RUNS[how](step)


def _numbers(variable: keras.Variable) -> np.ndarray:
    return variable.numpy().astype(np.float64)


def _assert_close(
    found: list[keras.Variable],
    expected: list[np.ndarray],
    tolerance: float,
    rounds: bool,
) -> None:
    """Compares variables; if rounded to 16 bits, nearly all of them.

    A number that in float32 is on the other side of where the rounding changes
    is another one in 16 bits, and so is what follows of it.
    """
    found = np.concatenate([_numbers(x).ravel() for x in found])
    expected = np.concatenate([np.ravel(x) for x in expected])
    if not rounds:
        np.testing.assert_allclose(
            found, expected, rtol=tolerance, atol=tolerance
        )
        return
    error = np.abs(found - expected) / (1 + np.abs(expected))
    assert np.mean(error < 2e-5) > 0.9
    assert error.max() < 0.05


@pytest.mark.parametrize(
    ("name", "mode", "implementation", "how", "dtype", "chosen"), _cases()
)
def test_all_features_together(
    name: str,
    mode: str,
    implementation: str,
    how: str,
    dtype: str,
    chosen: dict[str, str],
    strategy: tf.distribute.Strategy,
) -> None:
    features = {}
    for feature, choice in chosen.items():
        features.update(FEATURES[feature][choice])
    growth = features.pop("dynamic_growth_steps", None)
    skips = growth is not None or features.get("skip_nonfinite", False)
    if implementation == "custom_op" and not HAS_SPARSE_KERNELS:
        # The op for dense gradients, the composed one for others.
        implementation = "auto"
    how, placement = ELSEWHERE.get(how, (how, {}))
    under_test = OPTIMIZERS[name]
    arguments = {
        "weight_decay": 0.1,
        **under_test.modes[mode],
        **under_test.proportional,
    }
    random = np.random.default_rng(0)
    begins = [random.normal(size=shape) for shape in SHAPES]
    scope = strategy if how == "replicas" else tf.distribute.get_strategy()
    on_device = how == "tf.function" and bool(placement)
    with scope.scope(), tf.device("CPU:1" if on_device else "CPU:0"):
        variables = [
            keras.Variable(value, dtype=dtype_, name=variable_name)
            for value, dtype_, variable_name in zip(
                begins, _dtypes(dtype), "abc", strict=True
            )
        ]
        inner = optimizer = under_test.make(
            learning_rate=LEARNING_RATE,
            implementation=implementation,
            **arguments,
            **features,
            **placement,
        )
        if growth is not None:
            optimizer = tf_opt.LossScaleOptimizer(inner, 4.0, growth)
        optimizer.build(variables)
    slots = under_test.slots(arguments)
    tracks = features.pop("track_gradient_norm", False)
    features.pop("lazy_mode", None)
    stored = {
        argument: features.pop(argument, default)
        for argument, default in STORAGE.items()
    }
    reference = WholeStep(
        rule=under_test.step,
        states=[
            {"variable": v.numpy().astype(float)}
            | {slot: np.zeros(v.shape) for slot in slots}
            for v in variables
        ],
        paths=[v.path for v in variables],
        learning_rate=float(np.float32(LEARNING_RATE)),
        arguments=arguments,
        **features,
        dynamic_growth_steps=growth,
        storages=[
            Storage(v.dtype, i, under_test, **stored)
            for i, v in enumerate(variables)
        ],
    )
    if growth is not None:
        reference.scale = 4.0
    step = _stepper(how, optimizer, variables, strategy)
    accumulates = inner.gradient_accumulation_steps is not None
    if (
        how == "replicas"
        and not placement
        and chosen["slices"] == "lazy"
        and accumulates
    ):
        gradients = map(_tensor, _gradients(0, skips, True), variables)
        with pytest.raises(ValueError, match="`lazy_mode` must be False"):
            step(list(gradients))
        return

    norms = []
    for i in range(STEPS):
        gradients = _gradients(i, skips, chosen["slices"] != "none")
        step(list(map(_tensor, gradients, variables)))
        occurs = None
        if isinstance(gradients[0], Slices):
            if chosen["slices"] == "lazy":
                occurs = [gradients[0].occurs(), True, True]
            gradients[0] = gradients[0].dense()
        updates = reference.updates
        reference.apply(gradients, occurs)
        if tracks and reference.updates > updates:
            norms.append((float(inner.gradient_norm), reference.norm))

    assert reference.updates > 3
    assert bool(reference.skipped) == skips
    tolerance = 1e-12 if dtype == "float64" else 2e-5
    rounds = dtype == "bfloat16" or stored["state_dtype"] is not None
    found, expected = [], []
    masters = iter(masters_of(inner))
    for i, (variable, state) in enumerate(
        zip(variables, reference.states, strict=True)
    ):
        storage = Storage(variable.dtype, i, under_test, **stored)
        if storage.has_master:
            # The variable is the rounded master, and that is what is compared.
            master = next(masters)
            np.testing.assert_array_equal(
                _numbers(variable), storage.copy(_numbers(master))
            )
            variable = master
        found.append(variable)
        expected.append(state["variable"])
    if features.get("use_ema"):
        found += inner._model_variables_moving_average
        expected += reference.averages
    _assert_close(found, expected, tolerance, rounds)
    if features.get("skip_nonfinite"):
        assert int(inner.skipped_steps) == reference.skipped
    if growth is not None:
        assert optimizer.dynamic_scale.numpy() == reference.scale
    each = features.get("gradient_accumulation_steps", 1)
    iterations = keras.ops.convert_to_numpy(inner.iterations)
    assert iterations == (STEPS - reference.skipped) // each
    if norms:
        np.testing.assert_allclose(*np.transpose(norms), rtol=1e-5)
