"""Order of axes of PyTorch's parameters, beside Keras' variables."""

from __future__ import annotations

from collections.abc import Iterator

import keras

from tf_opt.python import keras_internals
from tf_opt.python.functional.checks import require
from tf_opt.python.keras_internals import path_of

Layout = tuple[int, ...]

_CONVOLUTIONS = (
    *(getattr(keras.layers, f"Conv{n}D") for n in (1, 2, 3)),
    *(getattr(keras.layers, f"Conv{n}DTranspose") for n in (1, 2, 3)),
)
_DEPTHWISE = (keras.layers.DepthwiseConv1D, keras.layers.DepthwiseConv2D)
_SEPARABLE = (keras.layers.SeparableConv1D, keras.layers.SeparableConv2D)
_SAME_IN_BOTH = (
    keras.layers.Embedding,
    keras.layers.BatchNormalization,
    keras.layers.GroupNormalization,
    keras.layers.LayerNormalization,
    keras.layers.RMSNormalization,
)


def torch_layouts(model: keras.Model) -> dict[str, Layout]:
    """Returns the permutation of axes from PyTorch's parameters to Keras'.

    For each variable, `numpy.transpose(parameter, permutation)` has the
    variable's shape. PyTorch's Linear has a weight of shape (outputs, inputs),
    for example, and Keras' Dense a kernel of shape (inputs, outputs).

    Args:
        model: A built model.

    Returns:
        A permutation by the variable's path, for the variables with two or
        more axes of these layers: Dense, Embedding, the convolutions
        (transposed, depthwise with `depth_multiplier=1`, and separable ones,
        too), and normalization layers. Add the variables of other layers
        yourself before you pass it to `from_torch` or `to_torch`.

    Raises:
        ValueError: If `model` isn't a model, isn't built, or two variables with
            different permutations have the same path.

    Example:

    >>> import keras, tf_opt
    >>> model = keras.Sequential(
    ...     [keras.Input((4,)), keras.layers.Dense(3, name="first")])
    >>> list(tf_opt.torch_layouts(model).values())
    [(1, 0)]
    """
    is_built = isinstance(model, keras.Model) and model.built
    require(is_built, "model", model, "a built `keras.Model`")
    layouts: dict[str, Layout] = {}
    for layer in keras_internals.layers_of(model):
        for variable, layout in _layouts_of(layer):
            path = path_of(variable)
            if layouts.setdefault(path, layout) != layout:
                raise ValueError(
                    "`model` must have a path of its own for each variable. "
                    f"Received: {path!r} in several layers"
                )
    return layouts


def _layouts_of(layer: keras.Layer) -> Iterator[tuple[keras.Variable, Layout]]:
    """Yields a layer's own variables of two or more axes, if it is known."""
    for variable in keras_internals.own_variables_of(layer):
        rank = len(variable.shape)
        spatial = range(2, rank)
        if rank < 2:
            continue
        if isinstance(layer, _SAME_IN_BOTH):
            yield variable, tuple(range(rank))
        elif isinstance(layer, keras.layers.Dense):
            yield variable, (1, 0)
        elif isinstance(layer, (*_DEPTHWISE, *_SEPARABLE)) and (
            variable.name in ("kernel", "depthwise_kernel")
        ):
            # PyTorch's has the shape (channels * multiplier, 1, ...).
            if layer.depth_multiplier == 1:
                yield variable, (*spatial, 0, 1)
        elif isinstance(layer, (*_CONVOLUTIONS, *_SEPARABLE)):
            yield variable, (*spatial, 1, 0)
