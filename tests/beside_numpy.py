"""An optimizer and NumPy's, which take the same steps."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
import tf_opt

from low_precision_cases import masters_of, numbers
from reference.storage import Storage
from reference.whole_step import WholeStep
from registry import ALL

LEARNING_RATE = 0.05
# The arguments that say what is stored in fewer bits.
STORAGE = ("master_weights", "stochastic_rounding", "seed", "state_dtype")


class Slices(NamedTuple):
    """A sparse gradient of a matrix; rows may occur twice."""

    values: np.ndarray
    indices: np.ndarray
    rows: int

    def dense(self) -> np.ndarray:
        dense = np.zeros((self.rows, self.values.shape[1]))
        np.add.at(dense, self.indices, self.values)
        return dense

    def occurs(self) -> np.ndarray:
        return np.isin(np.arange(self.rows), self.indices)[:, None]


def tensor(
    gradient: np.ndarray | Slices, variable: keras.Variable
) -> tf.Tensor | tf.IndexedSlices:
    if not isinstance(gradient, Slices):
        return tf.constant(gradient, variable.dtype)
    return tf.IndexedSlices(
        tf.constant(gradient.values, variable.dtype),
        tf.constant(gradient.indices),
        tf.constant(variable.shape),
    )


def _errors(found: list[Any], expected: list[np.ndarray]) -> np.ndarray:
    """The distances of all numbers as parts of the largest one."""
    found, expected = (
        np.concatenate([np.ravel(x) for x in each])
        for each in (list(map(numbers, found)), expected)
    )
    return np.abs(found - expected) / np.max(np.abs(expected), initial=1e-30)


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
        self.under_test = ALL[name]
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
        features.pop("lazy_mode", None)
        stored = {x: features.pop(x) for x in STORAGE if x in features}
        kept = [*dtypes, stored.get("state_dtype", "")]
        self._rounds = any("16" in dtype for dtype in kept)
        self._storages = [
            Storage(
                v.dtype, i, self.under_test, **stored, by_row=self._is_by_row(i)
            )
            for i, v in enumerate(self.variables)
        ]
        first = {
            slot: float(
                tf.cast(np.float64(x), stored.get("state_dtype", "float64"))
            )
            for slot, x in self.under_test.first_values(arguments).items()
        }
        self.reference = WholeStep(
            rule=self.under_test.step,
            states=[
                {"variable": numbers(v)} | self._first_slots(i, first)
                for i, v in enumerate(self.variables)
            ],
            paths=[v.path for v in self.variables],
            learning_rate=float(np.float32(LEARNING_RATE)),
            arguments=arguments,
            storages=self._storages,
            decays=self.under_test.decays,
            **features,
            dynamic_growth_steps=growth,
        )
        if growth is not None:
            self.reference.scale = 4.0

    def _first_slots(
        self, i: int, first: Mapping[str, float]
    ) -> dict[str, np.ndarray]:
        shape, forms = self.variables[i].shape, self.under_test.spec.forms
        if not self.under_test.is_composed:
            return {slot: np.full(shape, x) for slot, x in first.items()}
        slots = forms[self.inner._state.forms[i]].slots
        return {x.name: np.zeros(x.shape_of(shape)) for x in slots}

    def _is_by_row(self, i: int) -> bool:
        return self.inner._state.forms[i] == "row_wise"

    def set_a_part(self, i: int) -> None:
        """Assigns to some elements of a variable."""
        part = slice(3, 9)
        value = self.variables[i].numpy()
        value[part] = np.arange(6) - 2.5
        self.variables[i].assign(value)
        expected = self.reference.states[i]["variable"].copy()
        expected[part] = value[part]
        self.reference.states[i]["variable"] = expected

    def apply(self, gradients: list[Any]) -> None:
        """A step of the optimizer alone."""
        self.optimizer.apply(gradients, self.variables)

    def step(
        self,
        step: Callable[[list[Any]], None],
        gradients: list[np.ndarray | Slices],
        lazy: bool = False,
    ) -> None:
        step(list(map(tensor, gradients, self.variables)))
        occurs = None
        if isinstance(gradients[0], Slices):
            if lazy:
                occurs = [gradients[0].occurs(), True, True]
            gradients = [gradients[0].dense(), *gradients[1:]]
        updates = self.reference.updates
        self.reference.apply(gradients, occurs)
        if self._tracks_norm and self.reference.updates > updates:
            np.testing.assert_allclose(
                self.inner.gradient_norm, self.reference.norm, rtol=1e-5
            )

    def assert_equal(self, tolerance: float) -> None:
        """Compares variables, masters, slots, averages and counters.

        A number that in float32 is on the other side of where rounding to 16
        bits changes is another one there, and so is what follows of it. So only
        nearly all numbers are compared where they are rounded.
        """
        reference = self.reference
        found = []
        masters = iter(masters_of(self.inner))
        for variable, storage in zip(
            self.variables, self._storages, strict=True
        ):
            if storage.has_master:
                # The variable is the rounded master, which is compared. A lazy
                # row that was never updated has none yet.
                master, value = numbers(next(masters)), numbers(variable)
                others = tuple(range(1, master.ndim))
                has = (master != 0).any(axis=others, keepdims=True)
                master = np.where(has, master, value)
                np.testing.assert_array_equal(value, storage.copy(master))
                variable = tf.constant(master)
            found.append(variable)
        errors = [_errors(found, [x["variable"] for x in reference.states])]
        slots = self.under_test.find_slots(self.inner)
        assert tuple(slots) == self.slots
        for slot, of_variables in slots.items():
            expected = [
                state[slot] for state in reference.states if slot in state
            ]
            for i, x in enumerate(expected):
                if self._is_by_row(i) and x.ndim > 1:
                    expected[i] = x[:, 0]
            errors.append(_errors(of_variables, expected))
        if "v_max" in slots:
            # Otherwise AMSGrad would change nothing.
            v, v_max = (numbers(slots[x][1]) for x in ("v", "v_max"))
            assert (v_max > v).any()
        if reference.use_ema:
            found = self.inner._model_variables_moving_average
            errors.append(_errors(found, reference.averages))
        errors = np.concatenate(errors)
        if self._rounds:
            assert np.mean(errors < 2e-5) > 0.9
            tolerance = 0.05
        # A NaN is wrong, too.
        assert (errors <= tolerance).all()
        if reference.skip_nonfinite:
            assert int(self.inner.skipped_steps) == reference.skipped
        if reference.dynamic_growth_steps is not None:
            scale = self.optimizer.dynamic_scale.numpy()
            assert scale == reference.scale
        iterations = keras.ops.convert_to_numpy(self.inner.iterations)
        assert iterations == reference.updates
