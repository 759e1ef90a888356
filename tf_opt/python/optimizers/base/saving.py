"""Saving and loading of state that Keras' optimizers don't have.

Keras numbers an optimizer's variables in a store and expects the same number
when it loads them. Master weights and the state of rows that catch up have
separate keys, so that the other variables load with and without them.
"""

from __future__ import annotations

import collections
import functools
import re
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import MutableMapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tf_opt.python.optimizers.state.optimizer_state import OptimizerState


class Extra(NamedTuple):
    """Variable that has a separate key.

    Attributes:
        variable: The variable.
        key: The key: its kind and a number. A store has all variables of a
            kind, or none.
        default: Returns its value for a store that has none.
    """

    variable: keras.Variable
    key: str
    default: Callable[[], np.ndarray]


def extras_of(state: OptimizerState | None) -> list[Extra]:
    """Returns the variables that Keras' optimizer doesn't have."""
    if state is None:
        return []

    def weight(master: keras.Variable, index: int) -> np.ndarray:
        value = tf.convert_to_tensor(state.variables[index])
        return tf.cast(value, master.dtype).numpy()

    def zeros(variable: keras.Variable, _: int) -> np.ndarray:
        return np.zeros(variable.shape, variable.dtype)

    extras: list[Extra] = []
    for kind, variables, default in (
        ("master_weight", state.masters, weight),
        ("since", state.since, zeros),
        ("coasting", state.coasting, zeros),
    ):
        present = [(i, x) for i, x in enumerate(variables) if x is not None]
        extras += [
            Extra(x, f"{kind}_{number}", functools.partial(default, x, i))
            for number, (i, x) in enumerate(present)
        ]
    return extras


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

    Raises:
        ValueError: If only one of the two has row-wise state.
    """
    keys = _keys(variables, extras)
    values = {key: store[key] for key in store.keys()}
    expected, saved = _count_kinds(keys), _count_kinds(values)
    if saved[""] != expected[""] or any(
        saved[kind] not in (0, count)
        for kind, count in expected.items()
        if kind
    ):
        return values | ({"": None} if len(values) == len(keys) else {})
    for key, variable in zip(keys, variables, strict=True):
        if key in values:
            _check_same_form(variable, np.shape(values[key]))
    defaults = {extra.key: extra.default for extra in extras}
    return {
        str(i): values[key] if key in values else defaults[key]()
        for i, key in enumerate(keys)
    }


def _check_same_form(variable: keras.Variable, saved: tuple[int, ...]) -> None:
    """Raises a ValueError if either a variable or its saved value is by row."""
    shape = tuple(variable.shape)
    one_is_by_row = shape[:1] == saved[:1] and 1 in (len(shape), len(saved))
    if one_is_by_row and shape != saved:
        raise ValueError(
            "`row_wise` must be as it was when the state was saved: "
            f"`{variable.path}` has shape {shape}, and its saved value "
            f"{saved}. To change it, load into the optimizer that was "
            "saved, then convert that: "
            "`tf_opt.from_keras(tf_opt.to_keras(optimizer), row_wise=...)`"
        )


def _keys(
    variables: Sequence[keras.Variable], extras: Sequence[Extra]
) -> list[str]:
    """Returns each variable's key in a store."""
    separate = {id(extra.variable): extra.key for extra in extras}
    numbers = iter(range(len(variables)))
    return [separate.get(id(x)) or str(next(numbers)) for x in variables]


def _count_kinds(keys: Iterable[str]) -> collections.Counter[str]:
    """Counts keys by kind; that of Keras' keys is empty."""
    return collections.Counter(re.sub(r"_?\d+$", "", key) for key in keys)
