"""Saving and loading of master weights with Keras' stores.

Keras numbers an optimizer's variables in a store and expects the same number
when it loads them. Master weights have separate keys, so that the other
variables load with and without master weights.
"""

from __future__ import annotations

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
    """Saves an optimizer's variables.

    Args:
        variables: All variables of the optimizer.
        masters: The master weights among them.
        store: The store to save to.
    """
    for i, variable in enumerate(_without(masters, variables)):
        store[str(i)] = variable.numpy()
    for k, (master, _) in enumerate(masters):
        store[f"{_KEY}{k}"] = master.numpy()


def adapt(
    variables: Sequence[keras.Variable],
    masters: MasterPairs,
    store: Mapping[str, Any],
) -> dict[str, Any]:
    """Converts a store to one that Keras can load into this optimizer.

    Args:
        variables: All variables of the built optimizer that will load it.
        masters: The master weights among them.
        store: The store of an optimizer with or without master weights.

    Returns:
        The store with numbered master weights. If the store has no master
        weights, the result has the variables' values for them. If the optimizer
        has none, they are left out. The store of a different optimizer keeps a
        wrong length, for Keras' error.
    """
    numbered = {key: store[key] for key in store.keys() if _KEY not in key}
    saved = len(store.keys()) - len(numbered)
    others = _without(masters, variables)
    if not masters:
        return numbered
    if len(numbered) != len(others) or saved not in (0, len(masters)):
        # Keras compares lengths and explains that the store doesn't fit.
        count = len(masters) if len(numbered) != len(others) else saved
        return numbered | {f"{_KEY}{k}": None for k in range(count)}
    values = iter(numbered[str(i)] for i in range(len(others)))
    places = {id(master): k for k, (master, _) in enumerate(masters)}
    adapted = {}
    for i, variable in enumerate(variables):
        k = places.get(id(variable))
        if k is None:
            adapted[str(i)] = next(values)
        elif saved:
            adapted[str(i)] = store[f"{_KEY}{k}"]
        else:
            model_variable = tf.convert_to_tensor(masters[k][1])
            adapted[str(i)] = tf.cast(model_variable, tf.float32).numpy()
    return adapted


def _without(
    masters: MasterPairs, variables: Sequence[keras.Variable]
) -> list[keras.Variable]:
    places = {id(master) for master, _ in masters}
    return [x for x in variables if id(x) not in places]
