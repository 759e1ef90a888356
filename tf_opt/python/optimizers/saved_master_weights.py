"""Master weights in what Keras saves of an optimizer.

Keras numbers an optimizer's variables and loads a store that has as many.
Master weights have keys of their own there, so that one sees whether there are
any: the others load wherever they would without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import MutableMapping
from typing import TYPE_CHECKING
from typing import Any

import keras
import tensorflow as tf

if TYPE_CHECKING:
    from tf_opt.python.optimizers.fused_optimizer import FusedOptimizer

_KEY = "master_weight_"


def save(
    whole: keras.optimizers.Optimizer,
    optimizer: FusedOptimizer,
    store: MutableMapping[str, Any],
) -> None:
    """Saves an optimizer's variables.

    Args:
        whole: The optimizer.
        optimizer: What of it may have master weights: itself, or an inner one.
        store: Where to.
    """
    masters = _masters(optimizer)
    for i, variable in enumerate(_others(whole, masters)):
        store[str(i)] = variable.numpy()
    for k, (master, _) in enumerate(masters):
        store[f"{_KEY}{k}"] = master.numpy()


def adapt(
    whole: keras.optimizers.Optimizer,
    optimizer: FusedOptimizer,
    store: Mapping[str, Any],
) -> dict[str, Any]:
    """What was saved, as Keras would have saved it of this optimizer.

    Args:
        whole: The optimizer that is to load it, built.
        optimizer: What of it may have master weights: itself, or an inner one.
        store: What an optimizer with or without master weights has saved.

    Returns:
        It with the master weights in their place: where none were saved those
        are the variables; where there is none they are left out. What was saved
        of another optimizer has another length still.
    """
    numbered = {key: store[key] for key in store.keys() if _KEY not in key}
    masters = _masters(optimizer)
    saved = len(store.keys()) - len(numbered)
    others = _others(whole, masters)
    if not masters:
        return numbered
    if len(numbered) != len(others) or saved not in (0, len(masters)):
        # As long as it would be with as many, so that Keras sees that it isn't
        # this optimizer's, and says so.
        count = len(masters) if len(numbered) != len(others) else saved
        return numbered | {f"{_KEY}{k}": None for k in range(count)}
    values = iter(numbered[str(i)] for i in range(len(others)))
    places = {id(master): k for k, (master, _) in enumerate(masters)}
    adapted = {}
    for i, variable in enumerate(whole.variables):
        k = places.get(id(variable))
        if k is None:
            adapted[str(i)] = next(values)
        elif saved:
            adapted[str(i)] = store[f"{_KEY}{k}"]
        else:
            of = tf.convert_to_tensor(masters[k][1])
            adapted[str(i)] = tf.cast(of, tf.float32).numpy()
    return adapted


def _masters(
    optimizer: FusedOptimizer,
) -> list[tuple[keras.Variable, keras.Variable]]:
    """Each master weight and the variable that it belongs to."""
    return [
        (master, variable)
        for master, variable in zip(
            optimizer._masters, optimizer._trainable_variables, strict=False
        )
        if master is not None
    ]


def _others(
    whole: keras.optimizers.Optimizer,
    masters: list[tuple[keras.Variable, keras.Variable]],
) -> list[keras.Variable]:
    places = {id(master) for master, _ in masters}
    return [x for x in whole.variables if id(x) not in places]
