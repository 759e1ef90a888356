"""Everything private that tf_opt uses of Keras.

Check this file when a new Keras comes out. Tested with Keras 3.12 to 3.15.
"""

from __future__ import annotations

import abc
import contextlib
import copy
import functools
import random
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src.backend.common import global_state
from keras.src.utils import naming
from keras.src.utils import tracking

from tf_opt.python.tensorflow_internals import explains_later_traces

Variable = keras.Variable | tf.Variable
# A number, or a variable that may be assigned to between steps.
Number = float | Variable

# None if the installed Keras has no such class.
MultiOptimizer = getattr(keras.optimizers, "MultiOptimizer", None)

# Keras' name for the averages of `use_ema`.
MOVING_AVERAGE = "average"


def tf_variable(variable: Any) -> Any:
    """Returns the `tf.Variable` of a `keras.Variable`, or else the argument."""
    return variable.value if isinstance(variable, keras.Variable) else variable


def is_overwritten_by_gradient(variable: Variable) -> bool:
    """Whether Keras overwrites a variable with its gradient (float8 scales)."""
    return getattr(variable, "overwrite_with_gradient", False)


def layout_of(variable: Variable) -> Any:
    """Returns a variable's layout over devices, which its slots get, too."""
    return getattr(variable, "_layout", None)


def layers_of(model: keras.Model) -> list[keras.Layer]:
    """Returns all layers of a model, also those inside of other layers."""
    return list(model._flatten_layers(include_self=False))


def own_variables_of(layer: keras.Layer) -> list[keras.Variable]:
    """Returns the trainable variables of a layer, not of layers inside it."""
    return list(layer._trainable_variables)


def trainable_variables_of(
    optimizer: keras.optimizers.Optimizer,
) -> list[Variable]:
    """Returns the variables that an optimizer was built with; empty before."""
    return getattr(optimizer, "_trainable_variables", [])


def is_schedule(learning_rate: Any) -> bool:
    """Returns whether a learning rate is a schedule, which takes the step."""
    return isinstance(
        learning_rate, keras.optimizers.schedules.LearningRateSchedule
    )


def given_learning_rate_of(optimizer: keras.optimizers.Optimizer) -> Any:
    """Returns what holds the learning rate; None if it isn't constructed."""
    return getattr(optimizer, "_learning_rate", None)


def learning_rate_of(optimizer: keras.optimizers.Optimizer) -> Any:
    """Returns the learning rate: a number, a schedule or a callable."""
    learning_rate = optimizer._learning_rate
    if isinstance(learning_rate, keras.Variable):
        return float(learning_rate.numpy())
    return learning_rate


def strategy_of(
    optimizer: keras.optimizers.Optimizer,
) -> tf.distribute.Strategy:
    """Returns the strategy under which an optimizer was created."""
    return optimizer._distribution_strategy


def optimizer_map_of(optimizer: keras.optimizers.Optimizer) -> Any:
    """Returns the map of a `MultiOptimizer` from variables to optimizers."""
    return optimizer._optimizer_map


def unwrapped(optimizer: Any) -> list[Any]:
    """Returns the optimizers inside of Keras' wrappers of one or several."""
    if hasattr(optimizer, "inner_optimizer"):
        return unwrapped(optimizer.inner_optimizer)
    if hasattr(optimizer, "optimizers"):
        return [x for part in optimizer.optimizers for x in unwrapped(part)]
    return [optimizer]


def part_of(
    optimizer: keras.optimizers.Optimizer, variable: Variable
) -> keras.optimizers.Optimizer:
    """Returns the optimizer in a built `MultiOptimizer` for a variable."""
    key = optimizer._var_key(variable)
    return optimizer.optimizers[optimizer._var_to_optimizer_idx[key]]


def missing_variable_of(
    optimizer: keras.optimizers.Optimizer,
) -> keras.Variable | None:
    """Returns the variable missing in the `variables` of a Keras Nadam, if any.

    If a `LossScaleOptimizer` builds it, its `variables` lack the product of the
    momenta, which is otherwise the last of them.
    """
    product = getattr(optimizer, "_u_product", None)
    if product is None or optimizer.variables[-1] is product:
        return None
    return product


def exclude_same_from_weight_decay(
    source: keras.optimizers.Optimizer, target: keras.optimizers.Optimizer
) -> None:
    """Copies the exclusions from weight decay, which no config contains."""
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
    # A Keras optimizer that isn't built knows only the variables' keys.
    target._exclude_from_weight_decay = set(keys)


def undone_by_errors(build: Callable[..., None]) -> Callable[..., None]:
    """Decorator of a `build` whose errors leave an optimizer as it was.

    What a failed `build` leaves behind would be in the next one's way.
    """

    @functools.wraps(build)
    def build_or_undo(
        self: keras.optimizers.Optimizer, variables: Sequence[Variable]
    ) -> None:
        attributes = {
            # TensorFlow notes in some of these what it tracks.
            name: copy.copy(value) if type(value) in (list, dict) else value
            for name, value in vars(self).items()
        }
        own = list(self._variables)
        try:
            with explains_later_traces():
                build(self, variables)
        except BaseException:
            vars(self).clear()
            vars(self).update(attributes)
            self._trainable_variables_indices = {}
            # A new list: TensorFlow doesn't save one that became shorter, nor
            # one that Keras tracks.
            with untracked():
                self._variables = []
            is_variable, _ = self._tracker.config["variables"]
            self._tracker = tracking.Tracker(
                {"variables": (is_variable, self._variables)}
            )
            for variable in own:
                self._track_variable(variable)
            raise

    return build_or_undo


def build_eagerly(
    optimizer: keras.optimizers.Optimizer, variables: Sequence[Variable]
) -> None:
    """Builds an optimizer in its name scope, also while a step is traced.

    Where a step is traced, as in `fit`, TensorFlow would first make all
    variables share a buffer and keep their initializers.
    """
    with tf.init_scope(), keras.name_scope(optimizer.name, caller=optimizer):
        optimizer.build(variables)


def refuse_lr(optimizer: Any, name: str, value: Any) -> None:
    """Raises if an attribute that is assigned is Keras 2's `lr`."""
    if name == "lr":
        raise AttributeError(
            f"{type(optimizer).__name__} has no attribute 'lr'. Assign to "
            f"`learning_rate`. Received: lr={value!r}"
        )


def untracked() -> contextlib.AbstractContextManager:
    """Returns a context in which no attribute becomes an optimizer's state."""
    return tracking.DotNotTrackScope()


def is_saving_model() -> bool:
    """Whether Keras is writing a `.keras` file, or pickles or copies.

    Keras then asks an optimizer for its configuration before it writes any
    layer's weights.
    """
    shared = global_state.get_global_attribute(
        "shared_objects/id_to_config_map"
    )
    return shared is not None


def next_name(class_name: str) -> str:
    """Returns Keras' default name for the next optimizer of a class."""
    return naming.auto_name(class_name)


def next_seed() -> int:
    """Draws a seed as Keras draws one for a layer without a seed.

    A `keras.random.SeedGenerator` would also change the automatic names of
    later generators.
    """
    return random.randint(1, int(1e9))


@contextlib.contextmanager
def numbers_in_float32() -> Iterator[None]:
    """Context in which Keras' default type is float32, if it was a 16-bit one.

    `keras.config.set_floatx("bfloat16")` is meant for a model's variables: a
    learning rate would have only three digits.
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
    """Returns a constant 1, cached: creating it takes longer than adding it."""
    with tf.init_scope(), tf.device("CPU"):
        return tf.constant(1, tf.int64)


class _Counter(keras.Variable):
    """Keras variable that adds in one op.

    Keras computes `self.assign(self + value)`, which takes longer than a small
    step.
    """

    def assign_add(self, value: int) -> None:
        # Without `read_value=False`, reading the sum would be one more op.
        self.value.assign_add(value, read_value=False)

    def count_eagerly(self) -> None:
        """Adds one through the handle; for eager steps without a strategy."""
        handle = self.value.handle
        tf.raw_ops.AssignAddVariableOp(resource=handle, value=_one())


class KerasOptimizer(keras.optimizers.Optimizer, abc.ABC):
    """Keras optimizer that updates all variables of a step at once.

    A subclass defines `apply`. This class contains the private parts of Keras
    that it needs.
    """

    # Each variable's master weight, or None; empty without master weights.
    _masters: Sequence[keras.Variable | None] = ()

    def __init__(self, **arguments: Any) -> None:
        # Keras' constructor makes a variable of a learning rate.
        with numbers_in_float32(), explains_later_traces():
            super().__init__(**arguments)
        # Keras' constructor has created this variable and tracks it.
        self._iterations.__class__ = _Counter

    # ---- Methods that Keras calls. ----

    def _get_current_learning_rate(self) -> Any:
        rate = self._learning_rate
        if isinstance(rate, keras.Variable):
            return rate
        # A schedule converts its numbers to tensors.
        with numbers_in_float32():
            rate = rate(self._scheduled_step()) if is_schedule(rate) else rate()
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
        # Keras' method doesn't convert types or accept None.
        averages = self._model_variables_moving_average
        masters = self._masters or [None] * len(averages)
        for variable, average, master in zip(
            trainable_variables, averages, masters, strict=True
        ):
            if average is None:
                continue
            for target in (variable, master):
                if target is not None:
                    self.assign(target, tf.convert_to_tensor(average))

    # ---- Methods for subclasses. ----

    def _scheduled_step(self) -> Any:
        """Returns the number of a step for which a schedule has a rate."""
        return self._iterations

    def _name_scope(self) -> contextlib.AbstractContextManager:
        """Returns the name scope of a step's ops; eager ops have no names."""
        if tf.executing_eagerly():
            return contextlib.nullcontext()
        return keras.name_scope(self.name, caller=self)

    def _to_update(
        self, grads: Sequence[Any], variables: Sequence[Variable]
    ) -> tuple[list[Any], list[Variable]]:
        """Returns gradients and variables to update.

        Leaves out variables without a gradient. Assigns the gradients of
        float8 scales, and leaves these out, too.

        Raises:
            ValueError: If no variable has a gradient.
        """
        if any(gradient is None for gradient in grads):
            grads, variables = self._filter_empty_gradients(grads, variables)
        return self._overwrite_variables_directly_with_gradients(
            grads, variables
        )

    def _index_of(self, variable: Variable) -> int:
        """Returns a variable's position in the list of `build`."""
        return self._get_variable_index(variable)

    def _take_for(self, copy: tf.Variable, variable: Variable) -> None:
        """Lets `_index_of` find a copy of a variable, too."""
        indices = self._trainable_variables_indices
        indices[self._var_key(copy)] = indices[self._var_key(variable)]

    def _decays(self, variable: Variable) -> bool:
        """Whether weight decay applies to a variable."""
        # A step of Keras matches the names of TensorFlow's variables.
        return self._use_weight_decay(tf_variable(variable))

    def _excluded_positions(self) -> list[int]:
        """Returns the positions of variables excluded from weight decay."""
        keys = getattr(self, "_exclude_from_weight_decay", set())
        indices = self._trainable_variables_indices
        return sorted(indices[key] for key in keys if key in indices)

    def _exclude_variables(self, variables: Iterable[Variable]) -> None:
        """Excludes variables from weight decay, also after `build`."""
        keys = getattr(self, "_exclude_from_weight_decay", set())
        self._exclude_from_weight_decay = keys | set(
            map(self._var_key, variables)
        )

    def _exclude_positions(self, positions: Collection[int]) -> None:
        """Excludes only the variables at these positions from weight decay."""
        variables = self._trainable_variables
        self._exclude_variables(variables[i] for i in positions)
        # Keras matches names only of variables that aren't in this cache.
        self._exclude_from_weight_decay_cache = {
            self._var_key(variable): i not in positions
            for i, variable in enumerate(variables)
        }
