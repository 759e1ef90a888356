"""Checks of the lists that users pass to an op."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

# These can be iterated over, but they are single elements of a list.
_ONE = (tf.Tensor, tf.Variable, keras.Variable, np.ndarray, str, bytes)


def to_list(values: Iterable[Any], argument: str, of: str) -> Sequence[Any]:
    """Converts an iterable to a list, and checks that it isn't one element.

    Args:
        values: The user's value.
        argument: The argument's name, for the error.
        of: The name of the elements, for the error.

    Returns:
        `values`, if it is a list or tuple; otherwise a list of its elements.

    Raises:
        TypeError: If it can't be iterated over, or is a single element.
    """
    if isinstance(values, (list, tuple)):
        return values
    if isinstance(values, _ONE) or not isinstance(values, Iterable):
        raise TypeError(
            f"`{argument}` must be a list of {of}. Received: {values!r}"
        )
    return list(values)


def check_length(argument: str, variables: Sequence[Any], count: int) -> None:
    """Checks that there is one variable per gradient, or one variable group.

    Args:
        argument: The argument's name.
        variables: The list of variables.
        count: The number of gradients.

    Raises:
        ValueError: If the length differs.
    """
    may_be_group = len(variables) == 1 and isinstance(variables[0], tf.Tensor)
    if len(variables) != count and not may_be_group:
        raise ValueError(
            f"`{argument}` must have one variable for each of the {count} "
            f"`gradients`, got {len(variables)}"
        )
