"""One handle for many variables: TfOpt>VariableGroup."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tf_opt.python import tensorflow_internals
from tf_opt.python.ops import library


class VariableGroup(tf.saved_model.experimental.TrackableResource):
    """A resource that an op takes in place of a list of variables.

    Passing handles costs TensorFlow microseconds each, which for a thousand
    small slots is more than updating them. Automatic control dependencies see
    an op that takes the group as one that writes the group's variables, and a
    saved model that holds the group fills it again when it is loaded.
    """

    def __init__(self, handles: Sequence[tf.Tensor], device: str) -> None:
        """Makes and fills the group, eagerly.

        Args:
            handles: The variables' handles, eager tensors.
            device: The device that the variables are on.
        """
        super().__init__(device=device)
        self.handles = list(handles)
        with tf.init_scope():
            self._initialize()
            tensorflow_internals.declare_alias(self)

    def _create_resource(self) -> tf.Tensor:
        return library.library().ops.tf_opt_variable_group()

    def _initialize(self) -> None:
        with tf.device(self._resource_device):
            library.library().ops.tf_opt_variable_group_fill(
                self.resource_handle, self.handles
            )
