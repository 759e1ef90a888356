"""Saving and loading of state that Keras' optimizers don't have.

Keras numbers an optimizer's variables in a store and expects the same number
when it loads them. Master weights and the state of rows that catch up have
separate keys, so that the other variables load with and without them.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import MutableMapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import keras
import numpy as np


class Extra(NamedTuple):
    """Variable that has a separate key.

    Attributes:
        variable: The variable.
        kind: Its kind: a store has all variables of a kind, or none.
        default: Returns its value for a store that has none.
    """

    variable: keras.Variable
    kind: str
    default: Callable[[], np.ndarray]


def save(
    variables: Sequence[keras.Variable],
    extras: Sequence[Extra],
    store: MutableMapping[str, Any],
) -> None:
    """Saves an optimizer's variables; those of `extras` are among them."""
    for key, variable in zip(_keys(variables, extras), variables, strict=True):
        store[key] = variable.numpy()


def adapt(
    variables: Sequence[keras.Variable],
    extras: Sequence[Extra],
    store: Mapping[str, Any],
) -> dict[str, Any]:
    """Converts a store to one that Keras can load into a built optimizer.

    Either of the two may have any kinds of extra variables.

    Returns:
        The store with extra variables numbered. Those that the store doesn't
        have get their defaults, and those that the optimizer doesn't have are
        left out. The store of a different optimizer keeps a wrong length, for
        Keras' error.
    """
    keys = _keys(variables, extras)
    values = {key: store[key] for key in store.keys()}
    numbered = {key: x for key, x in values.items() if key.isdecimal()}
    if not extras:
        return numbered
    fits = len(numbered) == len(keys) - len(extras)
    for kind in {extra.kind for extra in extras}:
        own = [extra for extra in extras if extra.kind == kind]
        saved = sum(key.startswith(kind) for key in values)
        fits = fits and saved in (0, len(own))
        if not saved:
            values |= {f"{kind}_{k}": x.default() for k, x in enumerate(own)}
    if not fits:
        # Keras compares lengths and explains that the store doesn't fit.
        values = {key: store[key] for key in store.keys()}
        return values | ({"": None} if len(values) == len(keys) else {})
    return {str(i): values[key] for i, key in enumerate(keys)}


def _keys(
    variables: Sequence[keras.Variable], extras: Sequence[Extra]
) -> list[str]:
    """Returns each variable's key in a store."""
    numbers: Any = collections.defaultdict(itertools.count)
    own = {
        id(extra.variable): f"{extra.kind}_{next(numbers[extra.kind])}"
        for extra in extras
    }
    return [own.get(id(x)) or str(next(numbers[""])) for x in variables]
