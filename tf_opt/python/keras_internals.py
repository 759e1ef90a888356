"""Everything tf_opt asks of Keras that has no public name.

Kept in one file: it is what to look at when a new Keras comes out. Tested with
Keras 3.12 to 3.15.
"""

from __future__ import annotations

import abc
import contextlib
import functools
import random
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src.utils import naming

Variable = keras.Variable | tf.Variable

# None if the installed Keras doesn't have it.
MultiOptimizer = getattr(keras.optimizers, "MultiOptimizer", None)

# What Keras calls the averages of `use_ema`.
MOVING_AVERAGE = "average"


def tf_variable(variable: Any) -> Any:
    """The `tf.Variable` of a `keras.Variable`; anything else as it is."""
    return variable.value if isinstance(variable, keras.Variable) else variable


def is_overwritten_by_gradient(variable: Variable) -> bool:
    """Whether Keras writes its gradient straight into it (float8 scales)."""
    return getattr(variable, "overwrite_with_gradient", False)


def layout_of(variable: Variable) -> Any:
    """How a variable is laid out over devices, to give a slot the same."""
    return getattr(variable, "_layout", None)


def trainable_variables_of(
    optimizer: keras.optimizers.Optimizer,
) -> list[Variable]:
    """What an optimizer was built with; empty before."""
    return getattr(optimizer, "_trainable_variables", [])


def learning_rate_of(optimizer: keras.optimizers.Optimizer) -> Any:
    """A number, a schedule or a callable: what the constructor was given."""
    learning_rate = optimizer._learning_rate
    if isinstance(learning_rate, keras.Variable):
        return float(learning_rate.numpy())
    return learning_rate


def strategy_of(
    optimizer: keras.optimizers.Optimizer,
) -> tf.distribute.Strategy:
    """The strategy in whose scope an optimizer was made."""
    return optimizer._distribution_strategy


def optimizer_map_of(optimizer: keras.optimizers.Optimizer) -> Any:
    """Returns what chooses a `MultiOptimizer`'s part for a variable."""
    return optimizer._optimizer_map


def part_of(
    optimizer: keras.optimizers.Optimizer, variable: Variable
) -> keras.optimizers.Optimizer:
    """Returns the part of a built `MultiOptimizer` that updates a variable."""
    key = optimizer._var_key(variable)
    return optimizer.optimizers[optimizer._var_to_optimizer_idx[key]]


def forgotten_variable_of(
    optimizer: keras.optimizers.Optimizer,
) -> keras.Variable | None:
    """Of a Nadam built by a `LossScaleOptimizer`, what its variables lack.

    That is the product of its momenta, otherwise the last of them.
    """
    product = getattr(optimizer, "_u_product", None)
    if product is None or optimizer.variables[-1] is product:
        return None
    return product


def exclude_same_from_weight_decay(
    source: keras.optimizers.Optimizer, target: keras.optimizers.Optimizer
) -> None:
    """Copies what `exclude_from_weight_decay` said; no config has it."""
    keys = getattr(source, "_exclude_from_weight_decay", set())
    pattern = getattr(source, "_exclude_from_weight_decay_pattern", None)
    target.exclude_from_weight_decay(
        var_list=[
            variable
            for variable in trainable_variables_of(source)
            if source._var_key(variable) in keys
        ],
        var_names=[pattern.pattern] if pattern else None,
    )
    # Before Keras' optimizer is built it knows the variables by key only.
    target._exclude_from_weight_decay = set(keys)


def next_name(class_name: str) -> str:
    """Returns the name that Keras would give the next optimizer of a class."""
    return naming.auto_name(class_name)


def next_seed() -> int:
    """The seed that Keras would give a layer that asks for one now.

    As `keras.random.SeedGenerator` draws it, which would also count itself in
    the names of those that follow.
    """
    return random.randint(1, int(1e9))


@contextlib.contextmanager
def numbers_in_float32() -> Iterator[None]:
    """Where Keras makes numbers of no type float32, if they were 16-bit ones.

    `keras.config.set_floatx("bfloat16")` is for the variables of a model: a
    learning rate in it would have three digits.
    """
    floatx = keras.config.floatx()
    if floatx not in ("float16", "bfloat16"):
        yield
        return
    keras.config.set_floatx("float32")
    try:
        yield
    finally:
        keras.config.set_floatx(floatx)


@functools.cache
def _one() -> tf.Tensor:
    """Kept, as to make it would take longer than to add it."""
    with tf.init_scope(), tf.device("CPU"):
        return tf.constant(1, tf.int64)


class _Counter(keras.Variable):
    """Keras' variable, but it adds in one op.

    Keras composes `self.assign(self + value)`, which takes longer than a small
    step.
    """

    def assign_add(self, value: int) -> None:
        # Nobody asks for the sum, which would be one more op.
        self.value.assign_add(value, read_value=False)

    def count_eagerly(self) -> None:
        """Adds one, where an eager step may go to the handle."""
        handle = self.value.handle
        tf.raw_ops.AssignAddVariableOp(resource=handle, value=_one())


class KerasOptimizer(keras.optimizers.Optimizer, abc.ABC):
    """A Keras optimizer that updates all variables of a step at once.

    A subclass brings its own `apply`; here is what that asks of Keras.
    """

    # For each variable its float32 copy, or None; empty without any.
    _masters: Sequence[keras.Variable | None] = ()

    def __init__(self, **arguments: Any) -> None:
        # Where the rate, if it is a number, becomes a variable.
        with numbers_in_float32():
            super().__init__(**arguments)
        # Made and tracked by Keras' constructor.
        self._iterations.__class__ = _Counter

    # ---- What Keras calls. ----

    def _get_current_learning_rate(self) -> Any:
        # A schedule makes tensors of its numbers.
        with numbers_in_float32():
            rate = super()._get_current_learning_rate()
        shape = rate.shape if hasattr(rate, "shape") else np.shape(rate)
        if shape == ():
            return rate
        # Some schedules return their number in a tensor of shape [1].
        if tf.TensorShape(shape).num_elements() not in (1, None):
            raise ValueError(
                f"`learning_rate` must return one number. Received: {rate}"
            )
        return tf.reshape(rate, [])

    def _overwrite_model_variables_with_average_value(
        self, trainable_variables: Sequence[Variable]
    ) -> None:
        # Keras' own doesn't convert types, and takes no None.
        averages = self._model_variables_moving_average
        masters = self._masters or [None] * len(averages)
        for variable, average, master in zip(
            trainable_variables, averages, masters, strict=True
        ):
            if average is None:
                continue
            for target in (variable, master):
                if target is not None:
                    self._distribution_strategy.extended.update(
                        tf_variable(target),
                        lambda a, b: a.assign(tf.cast(b, a.dtype)),
                        args=(tf_variable(average),),
                    )

    # ---- What we ask. ----

    def _get_ready_for(self, variables: Sequence[Variable]) -> None:
        """Builds the optimizer if need be.

        Raises:
            ValueError: If it was built with others.
        """
        if not self.built:
            with keras.name_scope(self.name, caller=self):
                self.build(variables)
        self._check_variables_are_known(variables)

    def _name_scope(self) -> contextlib.AbstractContextManager:
        """What the names of a step's ops begin with; eager ops have none."""
        if tf.executing_eagerly():
            return contextlib.nullcontext()
        return keras.name_scope(self.name, caller=self)

    def _to_update(
        self, grads: Sequence[Any], variables: Sequence[Variable]
    ) -> tuple[list[Any], list[Variable]]:
        """Those that have gradients; overwrites what its gradient overwrites.

        Raises:
            ValueError: If none has.
        """
        if any(gradient is None for gradient in grads):
            grads, variables = self._filter_empty_gradients(grads, variables)
        return self._overwrite_variables_directly_with_gradients(
            grads, variables
        )

    def _index_of(self, variable: Variable) -> int:
        """Where a variable stands among those the optimizer was built with."""
        return self._get_variable_index(variable)

    def _decays(self, variable: tf.Variable) -> bool:
        """Whether weight decay applies to it."""
        return self._use_weight_decay(variable)

    def _excluded_positions(self) -> list[int]:
        """Where the single variables stand that weight decay leaves out."""
        keys = getattr(self, "_exclude_from_weight_decay", set())
        indices = self._trainable_variables_indices
        return sorted(indices[key] for key in keys if key in indices)

    def _exclude_variables(self, variables: Iterable[Variable]) -> None:
        """Excludes variables, also once the optimizer is built."""
        keys = getattr(self, "_exclude_from_weight_decay", set())
        self._exclude_from_weight_decay = keys | set(
            map(self._var_key, variables)
        )

    def _exclude_positions(self, positions: Collection[int]) -> None:
        """Excludes the variables at these positions and no others."""
        variables = self._trainable_variables
        self._exclude_variables(variables[i] for i in positions)
        # Keras looks up names only for variables that are not in this cache.
        self._exclude_from_weight_decay_cache = {
            self._var_key(variable): i not in positions
            for i, variable in enumerate(variables)
        }
