"""Optimizers of Keras 2 that hold one of tf_opt's and share its variables.

An adapter has no formula, option or state of its own.
"""

from __future__ import annotations

import collections
import functools
import inspect
from collections.abc import Iterable, Sequence
from typing import Any

import keras
import tensorflow as tf
import tf_keras

from tf_opt.python import keras_internals
from tf_opt.python.keras_internals import tf_variable
from tf_opt.python.optimizers.base import averages, saving
from tf_opt.python.optimizers.base.forwarding import Forwarding
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer
from tf_opt.python.optimizers.nadam import NAdam
from tf_opt.python.optimizers.sgd import SGD
from tf_opt.python.optimizers.state.optimizer_state import PerVariable
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.tensorflow_internals import private

_Base = tf_keras.optimizers.Optimizer
_ShardedVariable = private(
    "A split table", "tensorflow:__internal__.distribute.ShardedVariable"
)
Schedule = tf_keras.optimizers.schedules.LearningRateSchedule

# What the step of Keras 2 calls, and this one doesn't.
_HOOKS = (
    "_apply_weight_decay",
    "_clip_gradients",
    "_deduplicate_sparse_grad",
    "_distributed_apply_gradients_fn",
    "_internal_apply_gradients",
    "_overwrite_model_variables_with_average_value",
    "_update_model_variables_moving_average",
    "_update_step",
    "_use_weight_decay",
    "update_step",
)


class Adapter(Forwarding, _Base):
    """Base class: an optimizer of Keras 2 that holds one of tf_opt's.

    Attributes:
        inner_optimizer: The optimizer that it holds.
    """

    _inner_class: type[FusedOptimizer]

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        for name in _HOOKS:
            if getattr(cls, name) is not getattr(_Base, name):
                raise TypeError(
                    f"`{cls.__name__}.{name}` would never be called. Override "
                    "`apply_gradients`, or subclass an optimizer of tf_keras"
                )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.pop("is_legacy_optimizer", None)
        for name, instead in _NOT_HERE.items():
            if value := kwargs.pop(name, None):
                raise ValueError(
                    f"`{name}` isn't an argument of tf_opt.keras2."
                    f"{type(self).__name__}. {instead}. Received: "
                    f"{name}={value!r}"
                )
        signature = inspect.signature(self._inner_class)
        try:
            given = signature.bind_partial(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}() {error}") from None
        rate = given.get("learning_rate")
        if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
            raise TypeError(
                "`learning_rate` must be a schedule of tf_keras, not of Keras "
                f"3. Received: {rate}"
            )
        if isinstance(rate, Schedule):
            given["learning_rate"] = self._current_rate
        elif isinstance(rate, (tf.Tensor, tf.Variable)):
            given["learning_rate"] = float(rate)
        given.setdefault("name", type(self).__name__)
        inner = self._inner_class(**given)
        inner._begins_averages = False
        # Not tracked, as its variables are this optimizer's.
        vars(self)["inner_optimizer"] = inner
        # Keys in a store, by a variable's `id`.
        vars(self)["_separate"] = {}
        # It assigns these, which go to the inner optimizer.
        taken = inspect.signature(_Base).parameters
        same = {x: getattr(inner, x) for x in taken if hasattr(inner, x)}
        super().__init__(**same, jit_compile=False)
        self._unsaved = inner._unsaved
        self._learning_rate = (
            self._build_learning_rate(rate)
            if isinstance(rate, Schedule)
            else tf_variable(inner._learning_rate)
        )
        # What `build` begins with, if this optimizer was converted.
        vars(self)["_taken"] = []
        self._built = False

    # ---- Attributes. ----

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _HOOKS:
            raise TypeError(f"`{name}` would never be called")
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        return repr(self.inner_optimizer)

    def _current_rate(self) -> tf.Variable:
        return self._current_learning_rate

    @property
    def _given_rate(self) -> Any:
        """The learning rate as an argument: a number, schedule or callable."""
        if isinstance(self._learning_rate, Schedule):
            return self._learning_rate
        return keras_internals.learning_rate_of(self.inner_optimizer)

    def _compute_current_learning_rate(self) -> None:
        if isinstance(self._learning_rate, Schedule):
            inner = self.inner_optimizer
            by_updates = inner.schedule_by == "updates"
            step = inner.iterations if by_updates else self._iterations
            self._current_learning_rate.assign(self._learning_rate(step))

    @property
    def learning_rate(self) -> Any:
        """The learning rate, a `tf.Variable`; a schedule's present rate."""
        if isinstance(self._learning_rate, (tf.Variable, Schedule)):
            return _Base.learning_rate.fget(self)
        return self.inner_optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, rate: Any) -> None:
        if isinstance(rate, Schedule):
            self._learning_rate = self._build_learning_rate(rate)
            self.inner_optimizer.learning_rate = self._current_rate
        elif isinstance(self._learning_rate, Schedule):
            # Keras 2 raises an error that explains it.
            _Base.learning_rate.fset(self, rate)
        else:
            self.inner_optimizer.learning_rate = rate

    @property
    def iterations(self) -> tf.Variable:
        """The counter of steps."""
        return self._iterations

    @iterations.setter
    def iterations(self, variable: Any) -> None:
        raise ValueError(
            "`iterations` can't become another variable. Assign the number: "
            f"`optimizer.iterations.assign(...)`. Received: {variable!r}"
        )

    def exclude_from_weight_decay(
        self,
        var_list: Sequence[tf.Variable] | None = None,
        var_names: Sequence[str] | None = None,
    ) -> None:
        """Excludes variables from weight decay; saved with the optimizer."""
        self.inner_optimizer.exclude_from_weight_decay(var_list, var_names)

    # ---- State. ----

    def _create_iteration_variable(self) -> None:
        self._iterations = tf_variable(self.inner_optimizer._iterations)
        self._variables.append(self._iterations)

    def build(self, var_list: Sequence[tf.Variable]) -> None:
        """Creates the state, in the order of Keras 2's optimizer."""
        if self._built:
            return
        access.check_variables(var_list, "var_list")
        self._build_index_dict(var_list)
        inner = self.inner_optimizer
        if keys := getattr(self, "_exclude_from_weight_decay", ()):
            excluded = [x for x in var_list if self._var_key(x) in keys]
            names = inner._choices.chosen["excluded"].var_names
            inner.exclude_from_weight_decay(excluded, names)
        inner.build(list(var_list))
        state = inner._state
        if state.averages:
            # In Keras 2 they begin before the first step.
            averages.start_averages(state)
        slots = {
            slot.keras_list: state.built_slots.get(slot.name, ())
            for slot in inner._spec.slots_of_forms
            if slot.keras_list
        }
        slots["_model_variables_moving_average"] = state.averages
        for name, of_variables in slots.items():
            kept = [tf_variable(x) for x in of_variables if x is not None]
            setattr(self, name, kept)
        keys = saving.separate_keys(state) | {
            id(variable): name for name, variable in state.shared.items()
        }
        others = {id(inner._iterations), id(inner._learning_rate)}
        own = [x for x in inner.variables if id(x) not in others]
        # Files of Keras 2 may lack the last ones.
        own.sort(key=lambda x: id(x) in keys)
        for variable in own:
            if key := keys.get(id(variable)):
                self._separate[id(tf_variable(variable))] = key
        containers = _containers(var_list, slots.values())
        for variable in map(tf_variable, own):
            container = containers.get(id(variable), variable)
            if container is variable or variable is container.variables[-1]:
                self._variables.append(container)
        if self._inner_class is SGD and not self.momentums:
            # Keras 2 keeps them without momentum, too.
            self.momentums = [
                self.add_variable_from_reference(x, "m") for x in var_list
            ]
        if self._inner_class is NAdam:
            self._u_product = tf_variable(state.shared["momentum_product"])
        self._built = True
        if self._taken:
            self.set_weights(self._taken)
            self._taken.clear()

    # ---- A step. ----

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, tf.Variable]],
        name: str | None = None,
        skip_gradients_aggregation: bool = False,
        **kwargs: Any,
    ) -> tf.Variable:
        """Updates the variables by one step.

        Args:
            grads_and_vars: Pairs of a gradient and its variable.
            name: A name scope for the step's ops.
            skip_gradients_aggregation: Whether the gradients are sums over the
                replicas already.
            **kwargs: `experimental_aggregate_gradients=False` means the same.

        Returns:
            The counter of steps.
        """
        are_summed = skip_gradients_aggregation or not kwargs.pop(
            "experimental_aggregate_gradients", True
        )
        if kwargs:
            raise TypeError(f"Unknown arguments of `apply_gradients`: {kwargs}")
        pairs = list(grads_and_vars)
        if not pairs:
            return self._iterations
        if type(self).aggregate_gradients is not _Base.aggregate_gradients:
            pairs = pairs if are_summed else self.aggregate_gradients(pairs)
            are_summed = True
        self._compute_current_learning_rate()
        grads, variables = map(list, zip(*pairs, strict=True))
        access.build_in_first_step(self, variables)
        inner = self.inner_optimizer
        with (
            tf.name_scope(name or self.name),
            inner._unless_swapped_in() as may_step,
        ):
            inner._apply_scaled(
                grads, variables, may_step=may_step, are_summed=are_summed
            )
        return self._iterations

    def finalize_variable_values(self, var_list: Sequence[tf.Variable]) -> None:
        """Completes the variables; Keras calls this at the end of `fit`."""
        self.inner_optimizer.finalize_variable_values(var_list)

    # ---- Saving. ----

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, serializable."""
        config = keras_internals.config_of(self.inner_optimizer)
        rate = self._serialize_hyperparameter(self._given_rate)
        return config | {"learning_rate": rate, "is_legacy_optimizer": False}

    def save_own_variables(self, store: Any) -> None:
        """Saves the variables; those that Keras lacks have separate keys."""
        saving.save(self._variables, self._separate, store)

    def load_own_variables(self, store: Any) -> None:
        """Loads the variables that `save_own_variables` saved."""
        super().load_own_variables(
            saving.adapt(self._variables, self._separate, store)
        )


def _containers(
    variables: Sequence[tf.Variable], slots: Iterable[PerVariable]
) -> dict[int, Any]:
    """Returns sharded variables, by the `id` of each slot that is a part.

    A checkpoint then restores where a table has another number of parts.
    """
    parts: dict[int, list[int]] = collections.defaultdict(list)
    for i, variable in enumerate(variables):
        if hasattr(variable, "_sharded_container"):
            parts[id(variable._sharded_container())].append(i)
    result = {}
    for indices in parts.values():
        whole = variables[indices[0]]._sharded_container()
        if len(indices) < len(whole.variables):
            continue
        for of_variables in slots:
            if not of_variables or of_variables[indices[0]] is None:
                continue
            group = [tf_variable(of_variables[i]) for i in indices]
            container = _ShardedVariable(group)
            result |= {id(part): container for part in group}
    return result


# Arguments of Keras 3, Keras 2 and older ones that are refused.
_NOT_HERE = {
    "loss_scale_factor": "Use tf_keras.mixed_precision.LossScaleOptimizer",
    "lr": "Use `learning_rate`",
    "decay": "Pass a schedule as `learning_rate`",
    "jit_compile": "Pass it to `model.compile`",
    "mesh": "DTensor isn't supported",
}


@functools.cache
def adapted(cls: type[FusedOptimizer]) -> type[Adapter]:
    """Returns the class for Keras 2 of one of tf_opt's optimizers."""
    new = type(cls.__name__, (Adapter,), {"_inner_class": cls})
    new.__module__, new.__doc__ = "tf_opt.keras2", cls.__doc__
    new.__signature__ = inspect.signature(cls)
    return tf_keras.saving.register_keras_serializable("tf_opt")(new)
