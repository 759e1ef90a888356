"""Learning rates that decrease from the last layer of a model to the first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import keras

from tf_opt.python.functional.checks import require
from tf_opt.python.functional.rule_spec import FACTOR
from tf_opt.python.optimizers.state import patterns
from tf_opt.python.optimizers.values import validation

# Not the wrappers, such as SpectralNormalization, around a layer with weights.
_NORMALIZATION = tuple(
    cls
    for name, cls in vars(keras.layers).items()
    if name.endswith("Normalization")
    and not issubclass(cls, keras.layers.Wrapper)
)


def layerwise_multipliers(
    model: keras.Model, decay: float, blocks: Sequence[str] | None = None
) -> dict[str, float]:
    r"""Returns factors for layer-wise learning rates, as used in fine-tuning.

    With `blocks`, a variable in the $k$-th of $n$ blocks gets the factor
    $\text{decay}^{n + 1 - k}$: `decay` in the last block, $\text{decay}^n$ in
    the first. All other variables get the factor 1, such as those of a new
    head. This is what `layer_decay` does in timm and BEiT.

    Without `blocks`, each layer of `model.layers` is a level, together with
    Keras' normalization layers after it; so is each layer of an inner model.
    The last level gets the factor 1, and each one before it `decay` times the
    factor of the next. This is for models with few levels; see
    docs/how-to/fine-tune.md.

    Args:
        model: A built model.
        decay: The factor between a block and the one before it, in (0, 1].
        blocks: Regular expressions, from the first block to the last, such as
            `["stem", "block1", "block2"]`. A variable belongs to the first one
            that is found in its path. Include the stem or the embeddings, and
            leave out the head.

    Returns:
        A dictionary for `learning_rate_multipliers`. It maps a regular
        expression for the path of each trainable variable to the variable's
        factor. You may freeze layers later, before the optimizer is built.

    Raises:
        ValueError: If `model` isn't a model, has no trainable variables or has
            variables of the same path in different layers; `decay` isn't in
            (0, 1]; or a block has no trainable variable that isn't in an
            earlier block.

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
        - [Bao et al., 2021](https://arxiv.org/abs/2106.08254), "BEiT"
    """
    is_model = isinstance(model, keras.Model)
    require(is_model, "model", model, "a `keras.Model`")
    validation.check_fixed_number("decay", decay, FACTOR)
    levels = _levels(model)
    if not levels:
        raise ValueError(
            "`model` must be built and have trainable variables. Received: "
            f"{model}"
        )
    variables = [variable for level in levels for variable in level]
    if blocks is None:
        last = len(levels) - 1
        depths = [depth for depth, level in enumerate(levels) for _ in level]
    else:
        depths = _depths_in(blocks, variables)
        last = len(blocks)
    factors = [float(decay) ** (last - depth) for depth in depths]
    return patterns.of_paths("model", variables, factors)


def _depths_in(
    blocks: Sequence[str], variables: Sequence[keras.Variable]
) -> list[int]:
    """Returns the position of each variable's block, or `len(blocks)`."""
    is_list = isinstance(blocks, (list, tuple)) and len(blocks) > 0
    require(is_list, "blocks", blocks, "a list of regular expressions")
    patterns.check("blocks", blocks, "elements")
    depth_of = {pattern: depth for depth, pattern in enumerate(blocks)}
    depths = patterns.values_of("blocks", depth_of, variables, len(blocks))
    for depth, pattern in enumerate(blocks):
        if depth not in depths:
            raise ValueError(
                "`blocks` must have a variable for each regular expression, "
                f"but {pattern!r} is found in no trainable variable's path, or "
                "only in paths of earlier blocks. Write these more narrowly, "
                f"such as 'block1/'. Received: blocks={blocks!r}"
            )
    return depths


def _levels(model: keras.Model) -> list[list[keras.Variable]]:
    """Returns the trainable variables of each level, from first to last."""
    seen: set[int] = set()
    levels: list[list[keras.Variable]] = []
    for layer in [*_layers_of(model), model]:
        # The model comes last, for variables that are in no layer.
        own = [
            variable
            for variable in layer.trainable_variables
            if id(variable) not in seen
        ]
        seen.update(map(id, own))
        if own and levels and isinstance(layer, _NORMALIZATION):
            levels[-1].extend(own)
        elif own:
            levels.append(own)
    return levels


def _layers_of(model: keras.Model) -> Iterator[keras.Layer]:
    for layer in model.layers:
        if isinstance(layer, keras.Model):
            yield from _layers_of(layer)
        else:
            yield layer
