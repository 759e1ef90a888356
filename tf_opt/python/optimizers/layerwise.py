"""Learning rates that fall from the last layer of a model to the first."""

from __future__ import annotations

import re
from collections.abc import Iterator

import keras

from tf_opt.python.optimizers.values import validation
from tf_opt.python.optimizers.values.gradients import path_of


def layerwise_multipliers(model: keras.Model, decay: float) -> dict[str, float]:
    r"""Factors for layer-wise learning rates, as fine-tuning uses them.

    The last layer that has trainable variables gets the factor 1, and each one
    before it `decay` times that of the one behind it. Layers are counted as
    they stand in `model.layers`: one that is made of others is one, an inner
    model is as many as it has.

    Args:
        model: A built model.
        decay: The factor from a layer to the one before it, in (0, 1].

    Returns:
        A dictionary for `learning_rate_multipliers`: for each trainable
        variable the regular expression that finds its path, and its factor.
        Layers may be frozen afterwards, before the optimizer is built.

    Raises:
        ValueError: If `model` is no model, or has no trainable variables, or
            two of one path in different layers, or `decay` isn't in (0, 1].

    Example:

    >>> import keras, tf_opt
    >>> model = keras.Sequential(
    ...     [keras.Input((4,)), keras.layers.Dense(3, name="first"),
    ...      keras.layers.Dense(2, name="last")])
    >>> factors = tf_opt.layerwise_multipliers(model, 0.5)
    >>> [factor for path, factor in factors.items() if "kernel" in path]
    [0.5, 1.0]
    >>> optimizer = tf_opt.AdamW(learning_rate_multipliers=factors)

    References:
        - [Howard and Ruder, 2018](https://arxiv.org/abs/1801.06146)
    """
    if not isinstance(model, keras.Model):
        raise ValueError(
            f"`model` must be a `keras.Model`. Received: model={model!r}"
        )
    validation.check_fraction("decay", decay)
    if decay == 0:
        raise ValueError("`decay` must be in (0, 1]. Received: decay=0")
    layers = _layers_with_variables(model)
    if not layers:
        raise ValueError(
            "`model` must be built and have trainable variables. Received: "
            f"{model}"
        )
    factors: dict[str, float] = {}
    for depth, paths in enumerate(reversed(layers)):
        for path in paths:
            pattern = f"^{re.escape(path)}$"
            if pattern in factors:
                raise ValueError(
                    "`model` must have a path of its own for each trainable "
                    f"variable. Received: {path!r} in several layers"
                )
            factors[pattern] = float(decay) ** depth
    return dict(reversed(factors.items()))


def _layers_with_variables(model: keras.Model) -> list[list[str]]:
    """For each layer that trains, from first to last, its variables' paths."""
    seen: set[int] = set()
    layers = []
    for layer in [*_layers_of(model), model]:
        # At last, of the model, those that are in none of its layers.
        own = [
            variable
            for variable in layer.trainable_variables
            if id(variable) not in seen
        ]
        seen.update(map(id, own))
        if own:
            layers.append([path_of(variable) for variable in own])
    return layers


def _layers_of(model: keras.Model) -> Iterator[keras.Layer]:
    for layer in model.layers:
        if isinstance(layer, keras.Model):
            yield from _layers_of(layer)
        else:
            yield layer
