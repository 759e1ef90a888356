"""The groups through which variables and slots reach the custom op."""

from __future__ import annotations

from collections.abc import Hashable
from collections.abc import Sequence

import keras
import tensorflow as tf

from tf_opt.python.ops.variable_group import VariableGroup


def can_group(variables: Sequence[tf.Variable]) -> bool:
    """Whether these variables, and so their slots, have eager handles.

    They don't in a graph of TensorFlow 1.
    """
    return all(
        isinstance(variable.handle, tf.__internal__.EagerTensor)
        for variable in variables
    )


class VariableGroups:
    """Makes a group the first time that a list of variables is launched."""

    def __init__(self) -> None:
        self._groups: dict[Hashable, VariableGroup] = {}

    def __deepcopy__(self, memo: dict) -> VariableGroups:
        # A copied optimizer has variables of its own.
        return VariableGroups()

    def of(
        self,
        key: Hashable,
        variables: Sequence[tf.Variable | keras.Variable],
        device: str,
    ) -> list[tf.Tensor]:
        """What to pass to the op for `variables`.

        Args:
            key: Names these variables and, under a strategy, this replica.
            variables: Variables that can be grouped, or their slots.
            device: The device that they are on.

        Returns:
            One group's handle, in a list.
        """
        if key not in self._groups:
            # In replica context: each replica's own handles.
            handles = [variable.handle for variable in variables]
            self._groups[key] = VariableGroup(handles, device)
        return [self._groups[key].resource_handle]

    def trackable(self) -> dict[str, VariableGroup]:
        """The groups by name, for a saved model to find."""
        return {
            f"variable_group_{i}": group
            for i, group in enumerate(self._groups.values())
        }
