"""Float64 numbers that know how far another precision may be from them.

A tolerance picked by hand is too loose for most elements and too tight for
the few where terms cancel. So a reference is evaluated on `Rounded` arrays:
each carries, element by element, a bound on the error that a computation of
the same formula in the type under test makes, by running error analysis
(Wilkinson; Higham, "Accuracy and Stability of Numerical Algorithms", 3.3).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin


class Rounded(NDArrayOperatorsMixin):
    """A float64 array with a first-order bound on its error.

    Attributes:
        value: The array, computed in float64.
        error: For each element, how much a computation in the other type may
            differ.
        unit: That type's unit roundoff: half a unit in the last place of 1.
    """

    def __init__(
        self, value: np.ndarray, unit: float, error: np.ndarray | float = 0.0
    ) -> None:
        self.value = value
        self.unit = unit
        self.error = error

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Array, **kwargs: object
    ) -> Rounded:
        if method != "__call__" or kwargs or ufunc not in _PROPAGATED:
            return NotImplemented
        operands = [
            # A constant of the formula is rounded to the type once.
            x if isinstance(x, Rounded) else Rounded(x, 0, self.unit * abs(x))
            for x in inputs
        ]
        value = ufunc(*(x.value for x in operands))
        error = _PROPAGATED[ufunc](*operands)
        if ufunc not in _EXACT:
            error = error + self.unit * abs(value)
        return Rounded(value, self.unit, error)


Array = np.ndarray | Rounded | float

_TINY = np.finfo(np.float64).tiny


def _product_error(x: Rounded, y: Rounded) -> np.ndarray:
    return abs(x.value) * y.error + abs(y.value) * x.error + x.error * y.error


def _quotient_error(x: Rounded, y: Rounded) -> np.ndarray:
    smallest_divisor = abs(y.value) - y.error
    return np.where(
        smallest_divisor > 0,
        (x.error + abs(x.value / y.value) * y.error) / smallest_divisor,
        np.inf,
    )


def _root_error(x: Rounded) -> np.ndarray:
    # Downwards, where the root is steeper. The difference of the two roots
    # would cancel in float64; this is the same. Around 0 it is the upper side.
    smallest = np.maximum(x.value - x.error, 0)
    return np.where(
        smallest > 0,
        x.error / np.maximum(np.sqrt(x.value) + np.sqrt(smallest), _TINY),
        np.sqrt(x.error),
    )


def _sign_error(x: Rounded) -> np.ndarray:
    return np.where((x.error > 0) & (abs(x.value) <= x.error), 2.0, 0.0)


# What the operands' errors come to in the result.
_PROPAGATED: dict[np.ufunc, Callable[..., np.ndarray]] = {
    np.negative: lambda x: x.error,
    np.add: lambda x, y: x.error + y.error,
    np.subtract: lambda x, y: x.error + y.error,
    np.multiply: _product_error,
    np.divide: _quotient_error,
    np.maximum: lambda x, y: np.maximum(x.error, y.error),
    np.sqrt: _root_error,
    np.sign: _sign_error,
}
# These round nothing themselves.
_EXACT = {np.negative, np.maximum, np.sign}
