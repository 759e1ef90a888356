"""Checks of the lists that an op takes."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

# They can be iterated over too, but are one element of such a list.
_ONE = (tf.Tensor, tf.Variable, keras.Variable, np.ndarray, str, bytes)


def to_list(values: Iterable[Any], argument: str, of: str) -> Sequence[Any]:
    """`values` as a list or tuple, checked to be more than one of its elements.

    Args:
        values: What the user gave.
        argument: The argument's name.
        of: What it is a list of.

    Returns:
        `values`, if it is a list or tuple; else its elements.

    Raises:
        TypeError: If it isn't a list of anything.
    """
    if isinstance(values, (list, tuple)):
        return values
    if isinstance(values, _ONE) or not isinstance(values, Iterable):
        raise TypeError(
            f"`{argument}` must be a list of {of}. Received: {values!r}"
        )
    return list(values)


def check_length(argument: str, variables: Sequence[Any], count: int) -> None:
    """Checks that there is a variable for each gradient, or one group of them.

    Args:
        argument: The argument's name.
        variables: The list of variables.
        count: The number of gradients.

    Raises:
        ValueError: If there isn't.
    """
    may_be_group = len(variables) == 1 and isinstance(variables[0], tf.Tensor)
    if len(variables) != count and not may_be_group:
        raise ValueError(
            f"`{argument}` must have one variable for each of the {count} "
            f"`gradients`, got {len(variables)}"
        )
