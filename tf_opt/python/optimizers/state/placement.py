"""Decides on which device the state of each variable lives.

A step runs where the state lives. If that isn't where the variable is, the step
updates a working copy of the variable there:

    option          state and step                    working copy
    (none)          beside each variable              the variable itself
    state_device    on one device, for all replicas   a copy on that device, if
                                                      the variable isn't there
    shard_state     on one of the replicas' devices   that replica's copy

step/transfer.py moves values between variables and working copies.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import keras
import tensorflow as tf

from tf_opt.python.functional.checks import require
from tf_opt.python.keras_internals import (
    Optimizer,
    path_of,
    strategy_of,
    tf_variable,
)
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.tensorflow_internals import plain_variables

_Strategy = tf.distribute.Strategy

# A step whose state isn't beside the variables moves values and gradients in
# portions of this size: large enough that launches cost nothing, small enough
# that the update of one overlaps with the backward pass of the next.
PORTION_BYTES = 32 << 20


class Placement:
    """State beside its variables: on their device, in each replica."""

    def __init__(self, strategy: _Strategy) -> None:
        self._strategy = strategy

    @contextlib.contextmanager
    def beside(self, variable: tf.Variable) -> Iterator[None]:
        """Context manager that creates a variable's state where it lives."""
        with contextlib.ExitStack() as stack:
            if not access.has_copies(variable):
                # Colocation doesn't reach variables that are created while a
                # step is traced, as in `fit`.
                stack.enter_context(tf.device(variable.device))
            # It knows the devices of a strategy, such as parameter servers.
            extended = self._strategy.extended
            stack.enter_context(extended.colocate_vars_with(variable))
            yield

    def working_copy(self, variable: tf.Variable) -> tf.Variable | None:
        """Returns what a step updates; None: the variable itself."""
        return None


class _OnDevice(Placement):
    """State on one device, once for all replicas."""

    def __init__(self, strategy: _Strategy, device: str) -> None:
        super().__init__(strategy)
        with tf.init_scope(), tf.device(device):
            self._device = tf.zeros([]).device

    def is_home_of(self, variable: tf.Variable) -> bool:
        """Returns whether a variable is on this device itself."""
        return (
            not access.has_copies(variable) and variable.device == self._device
        )

    def beside(self, variable: tf.Variable) -> AbstractContextManager:
        if tf.distribute.has_strategy():
            return plain_variables(self._device)
        # A function that creates variables is traced once more, with them.
        return tf.device(self._device)

    def working_copy(self, variable: tf.Variable) -> tf.Variable:
        if self.is_home_of(variable):
            return variable
        with self.beside(variable):
            return tf.Variable(
                tf.zeros(variable.shape, variable.dtype),
                trainable=False,
                name="working_copy",
            )


class _InShards(Placement):
    """State of each variable on the device of one replica, its owner."""

    def __init__(
        self, strategy: _Strategy, variables: Sequence[keras.Variable]
    ) -> None:
        super().__init__(strategy)
        self._owners: dict[int, int] = {}
        sizes = {
            id(tf_variable(variable)): bytes_of(tf_variable(variable))
            for variable in variables
        }
        loads = [0] * strategy.num_replicas_in_sync
        # The largest first, each to the replica that has least so far.
        for key in sorted(sizes, key=sizes.get, reverse=True):
            owner = loads.index(min(loads))
            self._owners[key] = owner
            loads[owner] += sizes[key]

    def working_copy(self, variable: tf.Variable) -> tf.Variable:
        return access.copies_of(variable)[self._owners[id(variable)]]

    def beside(self, variable: tf.Variable) -> AbstractContextManager:
        return plain_variables(self.working_copy(variable).device)


def portions_of(variables: Sequence[tf.Variable]) -> list[int]:
    """Returns the number of each variable's portion of the model.

    Portion 0 has the last variables, whose gradients come first.
    """
    found: list[int] = []
    size = 0
    for variable in reversed(variables):
        found.append(size // PORTION_BYTES)
        size += bytes_of(variable)
    return found[::-1]


def bytes_of(variable: tf.Variable) -> int:
    """Returns the size of one copy of a variable."""
    return variable.shape.num_elements() * variable.dtype.size


def placement_of(
    optimizer: Optimizer, variables: Sequence[keras.Variable]
) -> Placement:
    """Returns the placement that the options ask for, if it is possible."""
    strategy, state_device = strategy_of(optimizer), optimizer.state_device
    name = type(strategy).__name__
    if optimizer.shard_state:
        if not isinstance(strategy, tf.distribute.MirroredStrategy):
            raise ValueError(
                "`shard_state` needs a `tf.distribute.MirroredStrategy`, whose "
                "replicas share the state. Create model and optimizer in its "
                f"scope. Received: shard_state=True under {name}"
            )
        for variable in variables:
            if not access.has_copies(variable):
                raise ValueError(
                    "`shard_state` needs variables with a copy in each "
                    "replica: create the model in the scope of the strategy. "
                    f"Received: `{path_of(variable)}`"
                )
        return _InShards(strategy, variables)
    if state_device is None:
        return Placement(strategy)
    if isinstance(
        strategy,
        (
            tf.distribute.ParameterServerStrategy,
            tf.distribute.experimental.CentralStorageStrategy,
            tf.distribute.TPUStrategy,
        ),
    ):
        raise ValueError(
            f"`state_device` must be None under {name}, which itself decides "
            "where variables and their state live. Received: "
            f"state_device={state_device!r}"
        )
    placement = _OnDevice(strategy, state_device)
    if all(placement.is_home_of(tf_variable(x)) for x in variables):
        return Placement(strategy)
    return placement


def check_device(name: str, value: Any) -> None:
    """Raises a ValueError unless `value` is None or a device that exists."""
    if value is None:
        return
    available = tf.config.list_logical_devices()
    try:
        wanted = tf.DeviceSpec.from_string(value)
    except (AttributeError, TypeError, ValueError):
        wanted = None
    exists = wanted is not None and any(
        wanted.device_type and spec.make_merged_spec(wanted) == spec
        for spec in (tf.DeviceSpec.from_string(x.name) for x in available)
    )
    names = sorted({x.name.split("device:")[-1] for x in available})
    require(exists, name, value, f"None or one of {names}")
