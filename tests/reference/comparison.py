"""Is a step what the reference says it is, to within its rounding?"""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

from reference.rounded import Rounded

# Three computations may each be off by the bound that `Rounded` finds: the
# implementation; another grouping of its operations, (1 - lr * wd) * p for
# p - lr * wd * p; and, for float64 variables, the reference itself.
SLACK = 3

# The reference is evaluated in pieces that fit into the cache.
_PIECE = 2**14


def _unit_roundoff(dtype: np.dtype) -> float:
    return float(ml_dtypes.finfo(dtype).eps) / 2


def assert_is_reference_step(
    before: dict[str, np.ndarray],
    gradient: np.ndarray,
    after: dict[str, np.ndarray],
    reference: Callable[..., dict[str, Rounded]],
    **arguments: object,
) -> None:
    """Asserts that a step leads a variable and slots from `before` to `after`.

    The reference starts from what the implementation itself stored, so errors
    don't add up over steps and the tolerance is that of a single one: what
    `Rounded` finds for the type of the arithmetic. The variable is then rounded
    to its own type once more: half a unit in the last place, or of the smallest
    subnormal.
    """
    assert before.keys() == after.keys()
    for name in before:
        assert after[name].shape == before[name].shape
        assert after[name].dtype == before[name].dtype

    stored = before["variable"].dtype
    arithmetic = np.promote_types(stored, np.float32)
    unit = _unit_roundoff(arithmetic)

    def exact(array: np.ndarray, piece: slice) -> Rounded:
        return Rounded(array.ravel()[piece].astype(np.float64), unit)

    for start in range(0, gradient.size, _PIECE):
        piece = slice(start, start + _PIECE)
        expected = reference(
            {name: exact(array, piece) for name, array in before.items()},
            exact(gradient, piece),
            **arguments,
        )
        assert expected.keys() == after.keys()
        for name, array in after.items():
            tolerance = SLACK * expected[name].error
            if name == "variable" and stored != arithmetic:
                tolerance += (
                    _unit_roundoff(stored)
                    * (abs(expected[name].value) + tolerance)
                    + float(ml_dtypes.finfo(stored).smallest_subnormal) / 2
                )
            actual = array.ravel()[piece].astype(np.float64)
            # Else nothing would be compared.
            assert np.all(np.isfinite(tolerance))
            error = abs(actual - expected[name].value)
            # Not `error > tolerance`: a NaN is wrong too.
            wrong = np.flatnonzero(~(error <= tolerance))
            if wrong.size:
                i = wrong[0]
                raise AssertionError(
                    f"`{name}` of shape {array.shape} and type {array.dtype} "
                    f"differs in {wrong.size} of {actual.size} elements; the "
                    f"first is {start + i}: expected "
                    f"{expected[name].value[i]} within {tolerance[i]:.3g}, "
                    f"got {actual[i]}, which is {error[i]:.3g} off. "
                    f"The step: {arguments}"
                )
