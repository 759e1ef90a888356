"""Saving and loading of state that Keras' optimizers don't have.

Keras numbers an optimizer's variables in a store and expects the same number
when it loads them. Master weights, the state of rows that catch up and numbers
that only tf_opt's optimizer has get separate keys, so that the other variables
load with and without them.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any

import keras
import numpy as np

from tf_opt.python.optimizers.state.optimizer_state import OptimizerState


def separate_keys(state: OptimizerState | None) -> dict[int, str]:
    """Returns the keys of what Keras' optimizer doesn't have, by `id`.

    A key is a kind and a number; a store has all variables of a kind, or none.
    """
    if state is None:
        return {}
    kinds = {
        "master_weight": state.masters,
        "since": state.since,
        "coasting": state.coasting,
        **{
            shared.name: [state.shared[shared.name]]
            for shared in state.spec.shared
            if not shared.in_keras
        },
    }
    return {
        id(variable): f"{kind}_{number}"
        for kind, variables in kinds.items()
        for number, variable in enumerate(x for x in variables if x is not None)
    }


def save(
    variables: Sequence[keras.Variable],
    separate: Mapping[int, str],
    store: MutableMapping[str, Any],
) -> None:
    """Saves an optimizer's variables, of which some have separate keys."""
    keys = _keys(variables, separate)
    for key, variable in zip(keys, variables, strict=True):
        store[key] = variable.numpy()


def adapt(
    variables: Sequence[keras.Variable],
    separate: Mapping[int, str],
    store: Mapping[str, Any],
) -> dict[str, Any]:
    """Converts a store to one that Keras can load into a built optimizer.

    Either of the two may have any kinds of variables with `separate` keys.

    Returns:
        The store with all variables numbered. Those with separate keys that the
        store doesn't have are zeros, as in an optimizer before its first step,
        and those that the optimizer doesn't have are left out. The store of a
        different optimizer keeps a wrong length, for Keras' error.
    """
    keys = _keys(variables, separate)
    values = {key: store[key] for key in store.keys()}
    expected, saved = _count_kinds(keys), _count_kinds(values)
    if saved[""] != expected[""] or any(
        saved[kind] not in (0, count)
        for kind, count in expected.items()
        if kind
    ):
        return values | ({"": None} if len(values) == len(keys) else {})
    numbered = {}
    for i, (key, variable) in enumerate(zip(keys, variables, strict=True)):
        if key in values:
            _check_same_form(variable, np.shape(values[key]))
        else:
            values[key] = np.zeros(variable.shape, variable.dtype)
        numbered[str(i)] = values[key]
    return numbered


def _check_same_form(variable: keras.Variable, saved: tuple[int, ...]) -> None:
    """Raises a ValueError if either a variable or its saved value is by row."""
    shape = tuple(variable.shape)
    one_is_by_row = shape[:1] == saved[:1] and 1 in (len(shape), len(saved))
    if one_is_by_row and shape != saved:
        raise ValueError(
            "`row_wise` must be as it was when the state was saved: "
            f"`{variable.path}` has shape {shape}, and its saved value "
            f"{saved}. To go from False to True, load into an optimizer as "
            "the saved one, then convert that: "
            "`tf_opt.from_keras(tf_opt.to_keras(optimizer), row_wise=...)`"
        )


def _keys(
    variables: Sequence[keras.Variable], separate: Mapping[int, str]
) -> list[str]:
    """Returns each variable's key in a store."""
    numbers = iter(range(len(variables)))
    return [separate.get(id(x)) or str(next(numbers)) for x in variables]


def _count_kinds(keys: Iterable[str]) -> collections.Counter[str]:
    """Counts keys by kind; that of Keras' keys is empty."""
    return collections.Counter(re.sub(r"_?\d+$", "", key) for key in keys)
