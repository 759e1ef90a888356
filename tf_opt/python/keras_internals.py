"""Everything private that tf_opt uses of Keras.

Check this file when a new Keras comes out.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_opt.python.tensorflow_internals import private

Optimizer = keras.optimizers.Optimizer
Variable = keras.Variable | tf.Variable
# A number, or a variable that may be assigned to between steps.
Number = float | Variable
LearningRate = (
    float
    | keras.optimizers.schedules.LearningRateSchedule
    | Callable[[], float | tf.Tensor]
)

# None if the installed Keras has no such class.
MultiOptimizer = getattr(keras.optimizers, "MultiOptimizer", None)

# What Keras' step calls of an optimizer and tf_opt's doesn't.
STEP_HOOKS = (
    "_all_reduce_sum_gradients",
    "_apply_weight_decay",
    "_backend_apply_gradients",
    "_backend_increment_gradient_accumulators",
    "_backend_reset_gradient_accumulators",
    "_backend_update_step",
    "_clip_by_norm",
    "_clip_gradients",
    "_distributed_tf_update_step",
    "_filter_empty_gradients",
    "_overwrite_model_variables_with_average_value",
    "_overwrite_variable_with_gradient",
    "_overwrite_variables_directly_with_gradients",
    "_update_model_variables_moving_average",
    "_use_weight_decay",
    "assign",
    "assign_add",
    "assign_sub",
    "iterations",
    "update_step",
)

# Keras' name for the averages of `use_ema`.
MOVING_AVERAGE = "average"

_AutocastScope = private(
    "`catch_up`", "keras.src.backend.common.variables.AutocastScope"
)
_get_global_attribute = private(
    'Saving with `lazy_mode="catch_up"`',
    "keras.src.backend.common.global_state.get_global_attribute",
)
_flatten_layers = private("A model's layout", "keras:Model._flatten_layers")
_filter_empty_gradients = private(
    "A gradient that is None",
    "keras.optimizers:Optimizer._filter_empty_gradients",
)
_overwrite_with_gradients = private(
    "Training in float8",
    "keras.optimizers:Optimizer._overwrite_variables_directly_with_gradients",
)


def tf_variable(variable: Any) -> Any:
    """Returns the `tf.Variable` of a `keras.Variable`, or else the argument."""
    return variable.value if isinstance(variable, keras.Variable) else variable


def path_of(variable: Variable) -> str:
    """Returns a variable's path, or the name of a variable without one."""
    return getattr(variable, "path", variable.name)


def without_autocast() -> AbstractContextManager:
    """Returns a context in which Keras doesn't cast variables.

    In a layer's call with mixed precision it does: `value` is a tensor then.
    """
    return _AutocastScope(None)


def is_overwritten_by_gradient(variable: Variable) -> bool:
    """Whether Keras overwrites a variable with its gradient (float8 scales)."""
    return getattr(variable, "overwrite_with_gradient", False)


def layers_of(model: keras.Model) -> list[keras.Layer]:
    """Returns all layers of a model, also those inside of other layers."""
    return list(_flatten_layers(model, include_self=False))


def own_variables_of(layer: keras.Layer) -> list[keras.Variable]:
    """Returns the trainable variables of a layer, not of layers inside it."""
    return list(layer._trainable_variables)


def trainable_variables_of(optimizer: Optimizer) -> list[Variable]:
    """Returns the variables that an optimizer was built with; empty before."""
    return getattr(optimizer, "_trainable_variables", [])


def is_schedule(learning_rate: Any) -> bool:
    """Returns whether a learning rate is a schedule, which takes the step."""
    return isinstance(
        learning_rate, keras.optimizers.schedules.LearningRateSchedule
    )


def given_learning_rate_of(optimizer: Optimizer) -> Any:
    """Returns what holds the learning rate; None if it isn't constructed."""
    return getattr(optimizer, "_learning_rate", None)


def learning_rate_of(optimizer: Optimizer) -> Any:
    """Returns the learning rate: a number, a schedule or a callable."""
    learning_rate = optimizer._learning_rate
    if isinstance(learning_rate, keras.Variable):
        return float(learning_rate.numpy())
    return learning_rate


def config_of(optimizer: Optimizer) -> dict[str, Any]:
    """Returns an optimizer's configuration with its learning rate as it is.

    `get_config` serializes a schedule or a callable, which not all of them can
    be, and loses a callable.
    """
    view = object.__new__(type(optimizer))
    vars(view).update(vars(optimizer), _learning_rate=None)
    rate = learning_rate_of(optimizer)
    return {**view.get_config(), "learning_rate": rate}


def strategy_of(optimizer: Optimizer) -> tf.distribute.Strategy:
    """Returns the strategy under which an optimizer was created."""
    return optimizer._distribution_strategy


def optimizer_map_of(optimizer: Optimizer) -> Any:
    """Returns the map of a `MultiOptimizer` from variables to optimizers."""
    return optimizer._optimizer_map


def unwrapped(optimizer: Any) -> list[Any]:
    """Returns the optimizers inside of Keras' wrappers of one or several."""
    if hasattr(optimizer, "inner_optimizer"):
        return unwrapped(optimizer.inner_optimizer)
    if hasattr(optimizer, "optimizers"):
        return [x for part in optimizer.optimizers for x in unwrapped(part)]
    return [optimizer]


def part_of(optimizer: Optimizer, variable: Variable) -> Optimizer:
    """Returns the optimizer in a built `MultiOptimizer` for a variable."""
    key = optimizer._var_key(variable)
    return optimizer.optimizers[optimizer._var_to_optimizer_idx[key]]


def missing_variable_of(optimizer: Optimizer) -> keras.Variable | None:
    """Returns the variable missing in the `variables` of a Keras Nadam, if any.

    If a `LossScaleOptimizer` builds it, its `variables` lack the product of the
    momenta, which is otherwise the last of them.
    """
    product = getattr(optimizer, "_u_product", None)
    if product is None or optimizer.variables[-1] is product:
        return None
    return product


def unused_variables_of(optimizer: Optimizer) -> set[int]:
    """Returns the `id`s of variables that no step of Keras reads.

    Adafactor computes the second moment of a matrix anew in each step, and has
    placeholders for the means of others.
    """
    if type(optimizer) is not keras.optimizers.Adafactor or not optimizer.built:
        return set()
    kept = zip(optimizer._r, optimizer._c, optimizer._v, strict=True)
    return {
        id(unused)
        for x, (r, c, v) in zip(
            optimizer._trainable_variables, kept, strict=True
        )
        for unused in ([v] if len(x.shape) >= 2 else [r, c])
    }


def searched_name_of(variable: Variable) -> str:
    """Returns the name in which Keras searches for `var_names`.

    Before Keras 3.16 it is TensorFlow's, `"dense/bias:0"`; then `"bias"`.
    """
    is_new = tuple(map(int, keras.__version__.split(".")[:2])) >= (3, 16)
    return (variable if is_new else tf_variable(variable)).name


def exclude_same_from_weight_decay(
    source: Optimizer, target: Optimizer
) -> None:
    """Copies the exclusions from weight decay, which no config contains."""
    keys = getattr(source, "_exclude_from_weight_decay", set())
    pattern = getattr(source, "_exclude_from_weight_decay_pattern", None)
    target.exclude_from_weight_decay(
        var_list=excluded_variables_of(source, trainable_variables_of(source)),
        var_names=[pattern.pattern] if pattern else None,
    )
    # A Keras optimizer that isn't built knows only the variables' keys.
    target._exclude_from_weight_decay = set(keys)


def build_eagerly(optimizer: Optimizer, variables: Sequence[Variable]) -> None:
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


def is_saving_model() -> bool:
    """Whether Keras is writing a `.keras` file, or pickles or copies.

    Keras then asks an optimizer for its configuration before it writes any
    layer's weights.
    """
    return _get_global_attribute("shared_objects/id_to_config_map") is not None


def next_name(class_name: str) -> str:
    """Returns Keras' default name for the next optimizer of a class."""
    # Keras names and counts operations as it does optimizers.
    return type(class_name, (keras.Operation,), {})().name


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


def current_learning_rate(optimizer: Optimizer, step: Callable[[], Any]) -> Any:
    """Returns the learning rate: a number, tensor or variable.

    `step` returns the number of the step for a schedule.
    """
    rate = optimizer._learning_rate
    if isinstance(rate, keras.Variable):
        return rate
    # A schedule converts its numbers to tensors.
    with numbers_in_float32():
        rate = rate(step()) if is_schedule(rate) else rate()
    shape = rate.shape if hasattr(rate, "shape") else np.shape(rate)
    if shape == ():
        return rate
    # Some schedules return their number in a tensor of shape [1].
    if tf.TensorShape(shape).num_elements() not in (1, None):
        raise ValueError(
            f"`learning_rate` must return one number. Received: {rate}"
        )
    return tf.reshape(rate, [])


def name_scope_of(optimizer: Optimizer) -> AbstractContextManager:
    """Returns the name scope of a step's ops; eager ops have no names."""
    if tf.executing_eagerly():
        return contextlib.nullcontext()
    return keras.name_scope(optimizer.name, caller=optimizer)


def overwrite_scales(
    optimizer: Optimizer, grads: Sequence[Any], variables: Sequence[Variable]
) -> tuple[list[Any], list[Variable]]:
    """Overwrites float8 scales with their gradients, and returns the others.

    Leaves out variables without a gradient; at least one must have one.
    """
    if any(gradient is None for gradient in grads):
        grads, variables = _filter_empty_gradients(optimizer, grads, variables)
    if any(map(is_overwritten_by_gradient, variables)):
        return _overwrite_with_gradients(optimizer, grads, variables)
    return grads, variables


def take_for(
    optimizer: Optimizer,
    copies: Sequence[tf.Variable | None],
    variables: Sequence[Variable],
) -> None:
    """Lets an optimizer find copies of its variables, too."""
    indices = optimizer._trainable_variables_indices
    for copy_, variable in zip(copies, variables, strict=False):
        if copy_ is not None:
            key = optimizer._var_key(copy_)
            indices[key] = indices[optimizer._var_key(variable)]


def excluded_variables_of(
    optimizer: Optimizer, variables: Iterable[Variable]
) -> list[Variable]:
    """Returns those that were excluded from weight decay as `var_list`."""
    keys = getattr(optimizer, "_exclude_from_weight_decay", set())
    return [x for x in variables if optimizer._var_key(x) in keys]
