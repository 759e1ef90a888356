"""Saving and loading of master weights with Keras' stores.

Keras numbers an optimizer's variables in a store and expects the same number
when it loads them. Master weights have separate keys, so that the other
variables load with and without master weights.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from collections.abc import MutableMapping
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_opt.python.keras_internals import Variable

_KEY = "master_weight_"

# Master weights, each with the variable that it belongs to.
MasterPairs = Sequence[tuple[keras.Variable, Variable]]


def save(
    variables: Sequence[keras.Variable],
    masters: MasterPairs,
    store: MutableMapping[str, Any],
) -> None:
    """Saves an optimizer's variables; `masters` are among them."""
    for key, variable in zip(_keys(variables, masters), variables, strict=True):
        store[key] = variable.numpy()


def adapt(
    variables: Sequence[keras.Variable],
    masters: MasterPairs,
    store: Mapping[str, Any],
) -> dict[str, Any]:
    """Converts a store to one that Keras can load into a built optimizer.

    Either of the two may have master weights.

    Returns:
        The store with numbered master weights. If the store has no master
        weights, the result has the variables' values for them. If the optimizer
        has none, they are left out. The store of a different optimizer keeps a
        wrong length, for Keras' error.
    """
    keys = _keys(variables, masters)
    numbered = {key: store[key] for key in store.keys() if _KEY not in key}
    saved = len(store.keys()) - len(numbered)
    if not masters:
        return numbered
    others_fit = len(numbered) == len(keys) - len(masters)
    if not others_fit or saved not in (0, len(masters)):
        # Keras compares lengths and explains that the store doesn't fit.
        count = saved if others_fit else len(masters)
        return numbered | {f"{_KEY}{k}": None for k in range(count)}
    if saved:
        values = {key: store[key] for key in keys}
    else:
        values = numbered | {
            f"{_KEY}{k}": tf.cast(tf.convert_to_tensor(x), tf.float32).numpy()
            for k, (_, x) in enumerate(masters)
        }
    return {str(i): values[key] for i, key in enumerate(keys)}


def _keys(
    variables: Sequence[keras.Variable], masters: MasterPairs
) -> list[str]:
    """Returns each variable's key in a store."""
    own = {id(master): f"{_KEY}{k}" for k, (master, _) in enumerate(masters)}
    numbers = itertools.count()
    return [own.get(id(x)) or str(next(numbers)) for x in variables]
