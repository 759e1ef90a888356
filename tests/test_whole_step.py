"""Steps beside NumPy in float64 (reference/whole_step.py).

Each mode of each optimizer in each type, and every pair of features, ways to
run and optimizers.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
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
from registry import MODES
from registry import OPTIMIZERS
from registry import TWO_MODES
from registry import pairwise

pytestmark = pytest.mark.kernels

LEARNING_RATE = 0.05
STEPS = 16
# Before this step somebody sets a part of a variable.
SET_BEFORE = 7
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
        "stochastic, state": {
            "stochastic_rounding": True,
            "state_dtype": "bfloat16",
            "seed": -6,
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
DTYPES = ("float32", "float64", "mixed", "bfloat16", "float16")
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


def _modes() -> list[tuple[str, ...]]:
    """Modes in the eager op and every type; in other runs, in turn."""
    other_runs = [
        ("eager", "composed"),
        ("tf.function", "custom_op"),
        ("tf.function", "composed"),
        ("jit_compile", "composed"),
    ]
    types = ("float16", "bfloat16", "float32", "float64")
    cases = []
    for i, mode in enumerate(MODES):
        cases += [(*mode, "custom_op", "eager", dtype) for dtype in types]
        how, implementation = other_runs[i % 4]
        cases.append((*mode, implementation, how, types[i // 4 % 4]))
    return cases


def _dtypes(dtype: str) -> list[str]:
    if dtype == "mixed":
        return ["float32", "float64", "float32"]
    if "16" in dtype:
        return [dtype, dtype, "float32"]
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
    shapes: Sequence[tuple[int, ...]],
    step: int,
    wrong: bool = False,
    sparse: bool = False,
) -> list[np.ndarray | Slices]:
    random = np.random.default_rng(step)
    # With few digits, so that they, and sums of some, are numbers in 16 bits.
    # They shrink for a while, so that second moments fall below their maximum.
    gradients = [
        np.asarray(np.round(random.normal(size=shape) * 8) / 8)
        * 0.5 ** (step % 4)
        for shape in shapes
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
    found: list[Any],
    expected: list[np.ndarray],
    tolerance: float,
    rounds: bool,
) -> None:
    """Compares arrays to a part of their size; if rounded, nearly all numbers.

    A number that in float32 is on the other side of where the rounding changes
    is another one in 16 bits, and so is what follows of it.
    """
    errors = [np.zeros(0)]
    for x, y in zip(found, expected, strict=True):
        size = np.max(np.abs(y), initial=1e-30)
        errors.append(np.ravel(np.abs(_numbers(x) - y) / size))
    errors = np.concatenate(errors)
    if not rounds:
        # A NaN is wrong, too.
        assert (errors <= tolerance).all()
        return
    assert np.mean(errors < 2e-5) > 0.9
    assert errors.max() < 0.05


class Trained:
    """An optimizer and NumPy's, which take the same steps.

    `arguments` are the rule's; `features` what `apply` does besides.
    """

    def __init__(
        self,
        name: str,
        arguments: Mapping[str, Any],
        features: Mapping[str, Any],
        shapes: Sequence[tuple[int, ...]],
        dtypes: Sequence[str],
        **own: Any,
    ) -> None:
        features = dict(features)
        growth = features.pop("dynamic_growth_steps", None)
        self.under_test = OPTIMIZERS[name]
        random = np.random.default_rng(0)
        self.variables = [
            keras.Variable(random.normal(size=shape), dtype=dtype, name=path)
            for shape, dtype, path in zip(shapes, dtypes, "abcd", strict=False)
        ]
        self.inner = self.optimizer = self.under_test.make(
            learning_rate=LEARNING_RATE, **arguments, **features, **own
        )
        if growth is not None:
            self.optimizer = tf_opt.LossScaleOptimizer(self.inner, 4.0, growth)
        self.optimizer.build(self.variables)
        self.slots = self.under_test.slots(arguments)
        self._tracks_norm = features.pop("track_gradient_norm", False)
        self._norms: list[tuple[float, float]] = []
        features.pop("lazy_mode", None)
        stored = {
            argument: features.pop(argument, default)
            for argument, default in STORAGE.items()
        }
        self._rounds = stored["state_dtype"] is not None or any(
            "16" in dtype for dtype in dtypes
        )
        self._storages = [
            Storage(v.dtype, i, self.under_test, **stored)
            for i, v in enumerate(self.variables)
        ]
        self.reference = WholeStep(
            rule=self.under_test.step,
            states=[
                {"variable": _numbers(v)}
                | {slot: np.zeros(v.shape) for slot in self.slots}
                for v in self.variables
            ],
            paths=[v.path for v in self.variables],
            learning_rate=float(np.float32(LEARNING_RATE)),
            arguments=arguments,
            storages=self._storages,
            **features,
            dynamic_growth_steps=growth,
        )
        if growth is not None:
            self.reference.scale = 4.0

    def set_a_part(self, i: int) -> None:
        """Assigns to some elements of a variable."""
        part = slice(3, 9)
        value = self.variables[i].numpy()
        value[part] = np.arange(6) - 2.5
        self.variables[i].assign(value)
        expected = self.reference.states[i]["variable"].copy()
        expected[part] = value[part]
        self.reference.states[i]["variable"] = expected

    def step(
        self,
        step: Callable[[list[Any]], None],
        gradients: list[np.ndarray | Slices],
        lazy: bool = False,
    ) -> None:
        step(list(map(_tensor, gradients, self.variables)))
        occurs = None
        if isinstance(gradients[0], Slices):
            if lazy:
                occurs = [gradients[0].occurs(), True, True]
            gradients = [gradients[0].dense(), *gradients[1:]]
        updates = self.reference.updates
        self.reference.apply(gradients, occurs)
        if self._tracks_norm and self.reference.updates > updates:
            norm = float(self.inner.gradient_norm)
            self._norms.append((norm, self.reference.norm))

    def assert_equal(self, tolerance: float) -> None:
        """Compares variables, masters, slots, averages and counters."""
        reference = self.reference
        found, expected = [], []
        masters = iter(masters_of(self.inner))
        for variable, storage, state in zip(
            self.variables, self._storages, reference.states, strict=True
        ):
            if storage.has_master:
                # The variable is the rounded master, which is compared.
                master = next(masters)
                np.testing.assert_array_equal(
                    _numbers(variable), storage.copy(_numbers(master))
                )
                variable = master
            found.append(variable)
            expected.append(state["variable"])
        slots = self.under_test.find_slots(self.inner)
        assert tuple(slots) == self.slots
        for slot, of_variables in slots.items():
            found += of_variables
            expected += [state[slot] for state in reference.states]
        if "v_max" in slots:
            # Otherwise AMSGrad would change nothing.
            v, v_max = (_numbers(slots[x][1]) for x in ("v", "v_max"))
            assert (v_max > v).any()
        if reference.use_ema:
            found += self.inner._model_variables_moving_average
            expected += reference.averages
        _assert_close(found, expected, tolerance, self._rounds)
        if reference.skip_nonfinite:
            assert int(self.inner.skipped_steps) == reference.skipped
        if reference.dynamic_growth_steps is not None:
            scale = self.optimizer.dynamic_scale.numpy()
            assert scale == reference.scale
        iterations = keras.ops.convert_to_numpy(self.inner.iterations)
        assert iterations == reference.updates
        if self._norms:
            np.testing.assert_allclose(*np.transpose(self._norms), rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "mode", "implementation", "how", "dtype"), _modes()
)
def test_each_mode_in_each_type(
    name: str, mode: str, implementation: str, how: str, dtype: str, device: str
) -> None:
    shapes = ((0,), (70,), (17, 241), ())
    arguments = OPTIMIZERS[name].modes[mode]
    trained = Trained(
        *(name, arguments, {}, shapes, [dtype] * len(shapes)),
        implementation=implementation,
    )
    step = trajectory.RUNS[how](
        lambda gradients: trained.optimizer.apply(gradients, trained.variables)
    )
    for i in range(STEPS):
        trained.step(step, _gradients(shapes, i))
    trained.assert_equal(1e-12 if dtype == "float64" else 2e-5)


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
    skips = "dynamic_growth_steps" in features or "skip_nonfinite" in features
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
    scope = strategy if how == "replicas" else tf.distribute.get_strategy()
    on_device = how == "tf.function" and bool(placement)
    with scope.scope(), tf.device("CPU:1" if on_device else "CPU:0"):
        trained = Trained(
            *(name, arguments, features, SHAPES, _dtypes(dtype)),
            implementation=implementation,
            **placement,
        )
    step = _stepper(how, trained.optimizer, trained.variables, strategy)
    accumulates = "gradient_accumulation_steps" in features
    slices, lazy = chosen["slices"] != "none", chosen["slices"] == "lazy"
    if how == "replicas" and not placement and lazy and accumulates:
        gradients = _gradients(SHAPES, 0, skips, slices)
        with pytest.raises(ValueError, match="`lazy_mode` must be False"):
            step(list(map(_tensor, gradients, trained.variables)))
        return

    for i in range(STEPS):
        if i == SET_BEFORE:
            with scope.scope():
                trained.set_a_part(1)
        trained.step(step, _gradients(SHAPES, i, skips, slices), lazy)
    reference = trained.reference
    assert reference.updates > 3
    assert bool(reference.skipped) == skips
    trained.assert_equal(1e-12 if dtype == "float64" else 2e-5)
