"""Learning rates that decrease from the last layer of a model to the first."""

from __future__ import annotations

from collections.abc import Iterator

import keras

from tf_opt.python.optimizers.state import patterns
from tf_opt.python.optimizers.values import validation


def layerwise_multipliers(model: keras.Model, decay: float) -> dict[str, float]:
    r"""Returns factors for layer-wise learning rates, as used in fine-tuning.

    The last layer with trainable variables gets the factor 1. Each layer before
    it gets `decay` times the factor of the layer behind it. Layers are counted
    as in `model.layers`: a layer made of other layers counts as one, and each
    layer of an inner model counts.

    Args:
        model: A built model.
        decay: The factor between a layer and the one before it, in (0, 1].

    Returns:
        A dictionary for `learning_rate_multipliers`. It maps a regular
        expression for the path of each trainable variable to the variable's
        factor. You may freeze layers later, before the optimizer is built.

    Raises:
        ValueError: If `model` isn't a model, has no trainable variables or has
            variables of the same path in different layers, or `decay` isn't in
            (0, 1].

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
    validation.check_factor("decay", decay)
    layers = _layers_with_variables(model)
    if not layers:
        raise ValueError(
            "`model` must be built and have trainable variables. Received: "
            f"{model}"
        )
    variables = [variable for layer in layers for variable in layer]
    factors = [
        float(decay) ** (len(layers) - 1 - depth)
        for depth, layer in enumerate(layers)
        for _ in layer
    ]
    return patterns.of_paths("model", variables, factors)


def _layers_with_variables(
    model: keras.Model,
) -> list[list[keras.Variable]]:
    """Returns each trainable layer's variables, from first to last."""
    seen: set[int] = set()
    layers = []
    for layer in [*_layers_of(model), model]:
        # The model comes last, for variables that are in no layer.
        own = [
            variable
            for variable in layer.trainable_variables
            if id(variable) not in seen
        ]
        seen.update(map(id, own))
        if own:
            layers.append(own)
    return layers


def _layers_of(model: keras.Model) -> Iterator[keras.Layer]:
    for layer in model.layers:
        if isinstance(layer, keras.Model):
            yield from _layers_of(layer)
        else:
            yield layer
