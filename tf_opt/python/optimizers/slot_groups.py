"""The groups through which an optimizer's slots reach the custom op."""

from __future__ import annotations

from collections.abc import Hashable
from collections.abc import Sequence

import keras
import tensorflow as tf

from tf_opt.python.ops.variable_group import VariableGroup


class SlotGroups:
    """Makes a group the first time that a list of slots is launched."""

    def __init__(self) -> None:
        self._groups: dict[Hashable, VariableGroup] = {}

    def __deepcopy__(self, memo: dict) -> SlotGroups:
        # A copied optimizer has variables of its own.
        return SlotGroups()

    def of(
        self, key: Hashable, slots: Sequence[keras.Variable], device: str
    ) -> Sequence[tf.Tensor | keras.Variable]:
        """What to pass to the op for `slots`.

        Args:
            key: Names these slots and, under a strategy, this replica.
            slots: The slots, on one device.
            device: That device.

        Returns:
            One group's handle; in a graph of TensorFlow 1, whose variables
            have no eager handles, the slots themselves.
        """
        if key not in self._groups:
            # In replica context: each replica's own handles.
            handles = [slot.value.handle for slot in slots]
            with tf.init_scope():
                if not tf.executing_eagerly():
                    return slots
                self._groups[key] = VariableGroup(handles, device)
        return [self._groups[key].resource_handle]

    def trackable(self) -> dict[str, VariableGroup]:
        """The groups by name, for a saved model to find."""
        return {
            f"slot_group_{i}": group
            for i, group in enumerate(self._groups.values())
        }
