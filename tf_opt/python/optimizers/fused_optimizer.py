"""What every tf_opt optimizer shares: slots, decay, and how a step is run."""

from __future__ import annotations

import abc
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_opt.python import dispatch
from tf_opt.python.functional import arithmetic
from tf_opt.python.optimizers import validation
from tf_opt.python.optimizers.gradients import Gradient
from tf_opt.python.optimizers.gradients import to_dense

LearningRate = (
    float | keras.optimizers.schedules.LearningRateSchedule | Callable
)

# A gradient and the `tf.Variable` that it updates.
Pair = tuple[tf.Tensor, tf.Variable]


class FusedOptimizer(keras.optimizers.Optimizer, abc.ABC):
    """Base class: one launch of a custom op for all variables of a type.

    A subclass names its op and its slots and says how to run a step of each
    implementation; everything else of Keras' base class works unchanged.
    """

    # The registered name of the custom op.
    _op_name: str

    def __init__(
        self,
        learning_rate: LearningRate,
        *,
        weight_decay: float | None,
        decoupled_weight_decay: bool,
        maximize: bool,
        implementation: str,
        **kwargs: Any,
    ) -> None:
        if isinstance(learning_rate, float):
            validation.check_not_negative("learning_rate", learning_rate)
        if weight_decay is not None:
            validation.check_not_negative("weight_decay", weight_decay)
        validation.check_one_of(
            "implementation", implementation, dispatch.IMPLEMENTATIONS
        )
        excluded = kwargs.pop("exclude_from_weight_decay", None)
        super().__init__(
            learning_rate=learning_rate, weight_decay=weight_decay, **kwargs
        )
        self.decoupled_weight_decay = decoupled_weight_decay
        self.maximize = maximize
        self.implementation = implementation
        self._excluded_names: list[str] = []
        self._excluded_paths: list[str] = []
        if excluded:
            self._excluded_names = list(excluded["var_names"])
            self._excluded_paths = list(excluded["paths"])

    # ---- What a subclass says. ----

    @abc.abstractmethod
    def _slots(self, index: int) -> list[keras.Variable]:
        """The slots of the variable with this index, in the rule's order."""

    @abc.abstractmethod
    def _custom_op_step(
        self,
        variables: Sequence[tf.Variable],
        slots: Sequence[Sequence[keras.Variable]],
        gradients: Sequence[tf.Tensor],
        *,
        step: tf.Tensor,
        learning_rate: tf.Tensor,
        weight_decay: Sequence[float],
    ) -> None:
        """Updates variables of one type; `slots[k][i]` is variable i's."""

    @abc.abstractmethod
    def _composed_step(
        self, *, step: tf.Tensor, learning_rate: tf.Tensor
    ) -> Callable[..., tuple[tf.Tensor, ...]]:
        """Computes a step's scalars, once, and returns the rest of the rule.

        That is a function of (variable, gradient, slots, weight decay) that
        returns the new variable and its new slots.
        """

    # ---- Building. ----

    def _add_slots(
        self, variables: Sequence[keras.Variable], names: Sequence[str]
    ) -> tuple[list[keras.Variable | None], ...]:
        """Adds one slot of each name for each variable, a variable at a time.

        That is the order and these are the names that Keras gives them, but
        the type is that of the arithmetic, not the variable's.
        """
        slots = tuple([] for _ in names)
        for variable in variables:
            for slot, name in zip(slots, names):
                # Keras writes such a variable's gradient straight into it.
                if getattr(variable, "overwrite_with_gradient", False):
                    slot.append(None)
                else:
                    slot.append(self._add_slot(variable, name))
        return slots

    def _add_slot(
        self, variable: keras.Variable | tf.Variable, name: str
    ) -> keras.Variable:
        prefix = getattr(variable, "path", variable.name)
        prefix = prefix.replace("/", "_").replace(":", "_")
        strategy = self._distribution_strategy
        with strategy.extended.colocate_vars_with(_tf_variable(variable)):
            return self.add_variable(
                shape=variable.shape,
                dtype=arithmetic.slot_dtype(variable.dtype).name,
                layout=getattr(variable, "_layout", None),
                name=f"{prefix}_{name}",
            )

    # ---- Weight decay: part of the rule, so not a pass of its own. ----

    def _apply_weight_decay(self, variables: Sequence[keras.Variable]) -> None:
        """Nothing: `_weight_decay_of` hands the decay to the step."""

    def exclude_from_weight_decay(
        self,
        var_list: Sequence[keras.Variable] | None = None,
        var_names: Sequence[str] | None = None,
    ) -> None:
        """Excludes variables from weight decay, and remembers it on saving.

        Args:
            var_list: Variables to exclude.
            var_names: Strings, taken as regular expressions: a variable in
                whose name one of them is found is excluded.
        """
        super().exclude_from_weight_decay(
            var_list=var_list, var_names=var_names
        )
        self._excluded_paths = sorted(map(_path, var_list or ()))
        self._excluded_names = sorted(set(var_names or ()))

    def _weight_decay_of(self, index: int) -> float:
        variable = self._trainable_variables[index]
        if not self.weight_decay or _path(variable) in self._excluded_paths:
            return 0.0
        if not self._use_weight_decay(_tf_variable(variable)):
            return 0.0
        return float(self.weight_decay)

    # ---- A step. ----

    def _clip_gradients(self, grads: Sequence[Gradient]) -> list[Gradient]:
        # A norm of slices that repeat a row is not the gradient's norm.
        if self.clipnorm or self.global_clipnorm or self.clipvalue:
            grads = [to_dense(gradient) for gradient in grads]
        return super()._clip_gradients(grads)

    def _backend_update_step(
        self,
        grads: Sequence[Gradient],
        trainable_variables: Sequence[keras.Variable | tf.Variable],
        learning_rate: arithmetic.Scalar,
    ) -> None:
        pairs = [
            (gradient, _tf_variable(variable))
            for gradient, variable in zip(grads, trainable_variables)
        ]
        if tf.distribute.in_cross_replica_context():
            super()._backend_update_step(
                grads, trainable_variables, learning_rate
            )
            return
        fused, composed = self._split(pairs)
        if fused:
            # In replica context each replica updates its own copies: the sum
            # over replicas is all that they share.
            self._launch(self._all_reduce_sum_gradients(fused), learning_rate)
        if composed and tf.distribute.has_strategy():
            gradients, variables = zip(*composed)
            super()._backend_update_step(gradients, variables, learning_rate)
        elif composed:
            self._compose(composed, learning_rate)

    def update_step(
        self,
        gradient: Gradient,
        variable: tf.Variable,
        learning_rate: arithmetic.Scalar,
    ) -> None:
        """Updates one variable.

        Args:
            gradient: Its gradient.
            variable: The variable, one that the optimizer was built with.
            learning_rate: The step size, a scalar.
        """
        fused, composed = self._split([(gradient, _tf_variable(variable))])
        if fused:
            self._launch(fused, learning_rate)
        else:
            self._compose(composed, learning_rate)

    def _split(self, pairs: Sequence[Pair]) -> tuple[list[Pair], list[Pair]]:
        """The pairs that the custom op updates, and those composed."""
        fused, composed = [], []
        for pair in pairs:
            runs_custom_op = dispatch.runs_custom_op(
                self.implementation, self._op_name, pair[1]
            )
            (fused if runs_custom_op else composed).append(pair)
        return fused, composed

    def _scalars(self, learning_rate: arithmetic.Scalar) -> dict[str, Any]:
        return {
            "step": tf.cast(self.iterations, tf.int64) + 1,
            "learning_rate": arithmetic.float64(learning_rate),
        }

    def _launch(
        self, pairs: Sequence[Pair], learning_rate: arithmetic.Scalar
    ) -> None:
        """Runs the custom op: one launch for each type and device."""
        launches: dict[Any, list[Pair]] = {}
        for pair in pairs:
            key = (pair[1].dtype, pair[1].device)
            launches.setdefault(key, []).append(pair)
        scalars = self._scalars(learning_rate)
        for (dtype, _), launch in launches.items():
            gradients, variables = zip(*launch)
            indices = [self._get_variable_index(v) for v in variables]
            self._custom_op_step(
                variables,
                list(zip(*map(self._slots, indices))),
                [to_dense(gradient, dtype) for gradient in gradients],
                weight_decay=[self._weight_decay_of(i) for i in indices],
                **scalars,
            )

    def _compose(
        self, pairs: Sequence[Pair], learning_rate: arithmetic.Scalar
    ) -> None:
        """Runs the composed implementation, a variable at a time."""
        apply = self._composed_step(**self._scalars(learning_rate))
        for gradient, variable in pairs:
            index = self._get_variable_index(variable)
            slots = self._slots(index)
            results = apply(
                tf.convert_to_tensor(variable),
                to_dense(gradient, variable.dtype),
                [tf.convert_to_tensor(slot) for slot in slots],
                self._weight_decay_of(index),
            )
            for target, value in zip([variable, *slots], results):
                self.assign(target, value)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, serializable."""
        config = super().get_config()
        config.update(
            {
                "decoupled_weight_decay": self.decoupled_weight_decay,
                "maximize": self.maximize,
                "implementation": self.implementation,
            }
        )
        if self._excluded_names or self._excluded_paths:
            config["exclude_from_weight_decay"] = {
                "var_names": self._excluded_names,
                "paths": self._excluded_paths,
            }
        return config


def _tf_variable(variable: keras.Variable | tf.Variable) -> tf.Variable:
    return variable.value if isinstance(variable, keras.Variable) else variable


def _path(variable: keras.Variable | tf.Variable) -> str:
    return getattr(variable, "path", variable.name)
