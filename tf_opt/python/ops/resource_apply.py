"""What the wrappers of all resource-apply ops do."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.ops import library
from tf_opt.python.ops.handles import VariableLike
from tf_opt.python.ops.handles import to_handles


def resource_apply(
    name: str,
    variables: Mapping[str, Sequence[VariableLike]],
    gradients: Sequence[tf.Tensor],
    *,
    scalars: Mapping[str, arithmetic.Scalar],
    integers: Mapping[str, arithmetic.Scalar],
    weight_decay: arithmetic.Scalar | Sequence[float],
    **attributes: Any,
) -> None:
    """Runs an op that updates variables in place.

    Args:
        name: The op's generated wrapper.
        variables: Its lists of variables and slots, by name.
        gradients: One for each variable.
        scalars: Its float64 inputs, by name.
        integers: Its int64 inputs, by name.
        weight_decay: One number for all variables, or one for each.
        **attributes: The op's.

    Raises:
        RuntimeError: If the library of custom ops isn't loaded.
        TypeError: If a list holds something else than variables.
    """
    ops = library.library().ops
    if ops is None:
        raise RuntimeError(library.explain_problem())
    if isinstance(weight_decay, (int, float)):
        weight_decay = [weight_decay] * len(gradients)
    getattr(ops, name)(
        **{key: to_handles(value, key) for key, value in variables.items()},
        gradients=gradients,
        **{key: arithmetic.float64(x) for key, x in scalars.items()},
        **{key: tf.cast(x, tf.int64) for key, x in integers.items()},
        weight_decay=tf.convert_to_tensor(weight_decay, tf.float64),
        **attributes,
    )
