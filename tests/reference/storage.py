"""What a step leaves of its numbers where they are stored in fewer bits."""

from typing import Any

import numpy as np

from reference import rounding
from registry import OptimizerUnderTest

# Streams of random bits.
VARIABLE, AVERAGE = 0, 3


class Storage:
    """How an optimizer with these arguments stores a variable and its state.

    State by row isn't rounded.

    Attributes:
        has_master: Whether the variable is a rounded copy.
        state_dtype: The type of moments and averages.
    """

    def __init__(
        self,
        dtype: str,
        number: int,
        under_test: OptimizerUnderTest,
        *,
        master_weights: bool = False,
        stochastic_rounding: bool = False,
        state_dtype: str | None = None,
        seed: int | None = None,
        by_row: bool = False,
    ) -> None:
        self.arithmetic = "float64" if dtype == "float64" else "float32"
        self.state_dtype = state_dtype or self.arithmetic
        self._by_row = by_row
        self.has_master = master_weights and "16" in dtype
        self._dtype = dtype
        self._number = number
        self._under_test = under_test
        self._stochastic = stochastic_rounding
        self._seed = seed or 0

    def variable(self, value: np.ndarray, iteration: int) -> np.ndarray:
        """A variable's value as a step goes on with it."""
        if self.has_master:
            return value
        stream = VARIABLE if self._stochastic else None
        return self._stored(value, self._dtype, stream, iteration)

    def copy(self, master: np.ndarray) -> np.ndarray:
        """What is in the variable that has this master, or is it."""
        return self._stored(master, self._dtype, None, 0)

    def average(self, value: np.ndarray, iteration: int) -> np.ndarray:
        return self._stored(value, self.state_dtype, AVERAGE, iteration)

    def slot(self, name: str, value: np.ndarray, iteration: int) -> np.ndarray:
        is_exact = self._by_row or name in self._under_test.exact
        dtype = self.arithmetic if is_exact else self.state_dtype
        stream = self._under_test.streams.get(name)
        return self._stored(value, dtype, stream, iteration)

    def asgd(
        self, new: dict[str, Any], y: str, step_size: float
    ) -> dict[str, Any]:
        """What ASGD makes of a new term that its table's row `y` can't hold."""
        term = self.slot(y, new[y], 0)
        change = term - new[y]
        return {
            **new,
            y: term,
            "d": new["d"] + change,
            "variable": new["variable"] - step_size * change,
        }

    def _stored(
        self, value: np.ndarray, dtype: str, stream: int | None, iteration: int
    ) -> np.ndarray:
        if dtype in ("float32", "float64"):
            # As exact as the tests' tolerances for them.
            return value
        value = np.asarray(value, np.float32)
        if stream is None:
            stored = rounding.to_nearest(value, dtype)
        else:
            key = rounding.key(self._seed, iteration, self._number, stream)
            bits = rounding.all_bits(key, value.size).reshape(value.shape)
            stored = rounding.stochastic(value, dtype, bits)
        return stored.astype(np.float64)
