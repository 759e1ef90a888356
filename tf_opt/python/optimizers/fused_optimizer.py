"""What every tf_opt optimizer shares: slots, decay, and how a step is run."""

from __future__ import annotations

import abc
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_opt.python import dispatch
from tf_opt.python.functional import arithmetic
from tf_opt.python.ops.handles import VariableLike
from tf_opt.python.optimizers import validation
from tf_opt.python.optimizers.gradients import Gradient
from tf_opt.python.optimizers.gradients import to_dense
from tf_opt.python.optimizers.variable_groups import VariableGroups
from tf_opt.python.optimizers.variable_groups import can_group

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
        weight_decay: float | None = None,
        decoupled_weight_decay: bool = True,
        maximize: bool = False,
        implementation: str = dispatch.AUTO,
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
        self._groups = VariableGroups()
        self._excluded = {"var_names": [], "paths": []}
        self._excluded_paths: frozenset[str] = frozenset()
        if excluded:
            self.exclude_from_weight_decay(var_names=excluded["var_names"])
            # The variables themselves aren't known yet; their paths are.
            self._excluded["paths"] = list(excluded["paths"])
            self._excluded_paths = frozenset(excluded["paths"])

    # ---- What a subclass says. ----

    @abc.abstractmethod
    def _slots(self, index: int) -> list[keras.Variable]:
        """The slots of the variable with this index, in the rule's order."""

    @abc.abstractmethod
    def _custom_op_step(
        self,
        variables: Sequence[VariableLike],
        *slots: Sequence[VariableLike],
        gradients: Sequence[tf.Tensor],
        weight_decay: Sequence[float],
        **scalars: tf.Tensor,
    ) -> None:
        """Updates variables of one type; `slots[k]` holds all their k-th.

        Variables and slots come as lists or as one group each; `scalars` are
        those of `_scalars`.
        """

    @abc.abstractmethod
    def _composed_step(
        self, **scalars: tf.Tensor
    ) -> Callable[..., tuple[tf.Tensor, ...]]:
        """Computes a step's scalars, once, and returns the rest of the rule.

        That is a function of (variable, gradient, slots, weight decay) that
        returns the new variable and its new slots.
        """

    def _hyperparameters(self) -> dict[str, Any]:
        """What the rule takes besides a step's scalars."""
        return {
            "decoupled_weight_decay": self.decoupled_weight_decay,
            "maximize": self.maximize,
        }

    def _scalars(self, learning_rate: arithmetic.Scalar) -> dict[str, Any]:
        """What a step goes by, before it."""
        return {
            "step": tf.cast(self.iterations, tf.int64) + 1,
            "learning_rate": arithmetic.float64(learning_rate),
        }

    def _finish_step(self, **scalars: tf.Tensor) -> None:
        """Advances, once a step and after it, what all variables share.

        That is scalar state besides `iterations`, by `_assign_shared`.
        """

    def _read_slots(
        self, slots: Sequence[keras.Variable], **scalars: tf.Tensor
    ) -> list[tf.Tensor]:
        """The slots of one variable as the functional rule takes them."""
        return [tf.convert_to_tensor(slot) for slot in slots]

    def _write_slots(
        self,
        slots: Sequence[keras.Variable],
        values: Sequence[tf.Tensor],
        **scalars: tf.Tensor,
    ) -> None:
        """Assigns what the functional rule made of them."""
        for slot, value in zip(slots, values, strict=True):
            self.assign(slot, value)

    # ---- Building. ----

    def _add_slots(
        self,
        variables: Sequence[keras.Variable],
        names: Sequence[str],
        *,
        rows: Mapping[str, int] = {},
        copies_of_variables: bool = False,
    ) -> tuple[list[keras.Variable | None], ...]:
        """Adds one slot of each name for each variable, a variable at a time.

        That is the order and these are the names that Keras gives them, but
        the type is that of the arithmetic, not the variable's.

        Args:
            variables: The variables.
            names: The slots' names.
            rows: By name, how many of the variable's shape a slot holds, if it
                is a table of them.
            copies_of_variables: Whether the slots begin as the variables
                rather than as zeros.

        Returns:
            For each name, its slots in the order of `variables`; None for a
            variable that has none.
        """
        slots = tuple([] for _ in names)
        for variable in variables:
            for slot, name in zip(slots, names, strict=True):
                # Keras writes such a variable's gradient straight into it.
                if getattr(variable, "overwrite_with_gradient", False):
                    slot.append(None)
                else:
                    slot.append(
                        self._add_slot(
                            variable,
                            name,
                            rows.get(name),
                            _copy_of(variable)
                            if copies_of_variables
                            else "zeros",
                        )
                    )
        return slots

    def _add_slot(
        self,
        variable: keras.Variable | tf.Variable,
        name: str,
        rows: int | None,
        initializer: str | Callable[..., tf.Tensor],
    ) -> keras.Variable:
        prefix = getattr(variable, "path", variable.name)
        prefix = prefix.replace("/", "_").replace(":", "_")
        strategy = self._distribution_strategy
        with strategy.extended.colocate_vars_with(_tf_variable(variable)):
            return self.add_variable(
                shape=(*(() if rows is None else (rows,)), *variable.shape),
                initializer=initializer,
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
        self._excluded = {
            "var_names": sorted(set(var_names or ())),
            "paths": sorted(map(_path, var_list or ())),
        }
        self._excluded_paths = frozenset()

    def _weight_decay_of(self, index: int) -> float:
        if not self.weight_decay:
            return 0.0
        variable = self._trainable_variables[index]
        if _path(variable) in self._excluded_paths:
            return 0.0
        if not self._use_weight_decay(_tf_variable(variable)):
            return 0.0
        return float(self.weight_decay)

    # ---- A step. ----

    def apply(
        self,
        grads: Sequence[Gradient | None],
        trainable_variables: Sequence[keras.Variable | tf.Variable]
        | None = None,
    ) -> None:
        """Updates the variables: one step.

        Args:
            grads: Gradients, one for each variable: tensors, `IndexedSlices`
                or None.
            trainable_variables: The variables; by default those that the
                optimizer was built with.
        """
        clips = self.clipnorm or self.global_clipnorm or self.clipvalue
        if clips or self.loss_scale_factor:
            # The norm of slices that repeat a row is not the gradient's, and
            # Keras can't divide slices.
            grads = [g if g is None else to_dense(g) for g in grads]
        super().apply(grads, trainable_variables)

    def _backend_update_step(
        self,
        grads: Sequence[Gradient],
        trainable_variables: Sequence[keras.Variable | tf.Variable],
        learning_rate: arithmetic.Scalar,
    ) -> None:
        pairs = [
            (gradient, _tf_variable(variable))
            for gradient, variable in zip(
                grads, trainable_variables, strict=True
            )
        ]
        scalars = self._scalars(learning_rate)
        if tf.distribute.in_cross_replica_context():
            # No gradients to sum; update_step for each copy of each variable.
            self._distributed_tf_update_step(
                self._distribution_strategy, pairs, learning_rate
            )
            self._finish_step(**scalars)
            return
        launches, composed = self._plan(pairs)
        distributed = tf.distribute.has_strategy()
        for launch in launches:
            if distributed:
                # In replica context each replica then updates its own copies:
                # the sum of the gradients is all that they share.
                launch = self._all_reduce_sum_gradients(launch)
            self._launch(launch, **scalars)
        for bucket in composed:
            if distributed:
                super()._backend_update_step(
                    *zip(*bucket, strict=True), learning_rate
                )
            else:
                self._compose(bucket, **scalars)
        self._finish_step(**scalars)

    def update_step(
        self,
        gradient: Gradient,
        variable: tf.Variable,
        learning_rate: arithmetic.Scalar,
    ) -> None:
        """Updates one variable, as a part of a step.

        Args:
            gradient: Its gradient.
            variable: The variable, one that the optimizer was built with.
            learning_rate: The step size, a scalar.
        """
        launches, composed = self._plan([(gradient, _tf_variable(variable))])
        scalars = self._scalars(learning_rate)
        for launch in launches:
            self._launch(launch, **scalars)
        for bucket in composed:
            self._compose(bucket, **scalars)

    def _plan(
        self, pairs: Sequence[Pair]
    ) -> tuple[list[list[Pair]], list[list[Pair]]]:
        """Buckets of one type and device: to launch, and to compose."""
        buckets: dict[tuple[tf.DType, str], list[Pair]] = {}
        for pair in pairs:
            variable = pair[1]
            buckets.setdefault((variable.dtype, variable.device), []).append(
                pair
            )
        launches: list[list[Pair]] = []
        composed: list[list[Pair]] = []
        for (dtype, device), bucket in buckets.items():
            runs_custom_op = dispatch.runs_custom_op(
                self.implementation, self._op_name, dtype, device
            )
            (launches if runs_custom_op else composed).append(bucket)
        return launches, composed

    def _launch(self, pairs: Sequence[Pair], **scalars: tf.Tensor) -> None:
        """Runs the custom op on variables of one type, on one device."""
        gradients, variables = zip(*pairs, strict=True)
        dtype, device = variables[0].dtype, variables[0].device
        indices = tuple(map(self._get_variable_index, variables))
        lists = [variables, *zip(*map(self._slots, indices), strict=True)]
        if can_group(variables):
            # In a graph the variables themselves stay inputs: TensorFlow then
            # orders the step with their reads, however they got there.
            first = 0 if tf.executing_eagerly() else 1
            lists[first:] = [
                self._groups.of((k, device, indices), lists[k], device)
                for k in range(first, len(lists))
            ]
        self._custom_op_step(
            *lists,
            gradients=[to_dense(gradient, dtype) for gradient in gradients],
            weight_decay=[self._weight_decay_of(i) for i in indices],
            **scalars,
        )

    def _compose(self, pairs: Sequence[Pair], **scalars: tf.Tensor) -> None:
        """Runs the composed implementation, a variable at a time."""
        apply = self._composed_step(**scalars)
        for gradient, variable in pairs:
            index = self._get_variable_index(variable)
            slots = self._slots(index)
            value, *slot_values = apply(
                tf.convert_to_tensor(variable),
                to_dense(gradient, variable.dtype),
                self._read_slots(slots, **scalars),
                self._weight_decay_of(index),
            )
            self.assign(variable, value)
            # A rule returns more than the slots: what the step shares, or None
            # for a slot that its mode doesn't have.
            self._write_slots(slots, slot_values[: len(slots)], **scalars)

    def _assign_shared(
        self, variable: keras.Variable, value: tf.Tensor
    ) -> None:
        """Assigns what all variables share, after a step.

        In a replica only to its own copy: each computes the same, and
        TensorFlow would have them wait for each other, which it can't inside
        a condition.
        """
        value = tf.cast(value, variable.dtype)
        in_replica = not tf.distribute.in_cross_replica_context()
        if tf.distribute.has_strategy() and in_replica:
            tf.raw_ops.AssignVariableOp(
                resource=variable.value.handle, value=value
            )
        else:
            variable.assign(value)

    def _trackable_children(
        self, save_type: str = "checkpoint", **kwargs: Any
    ) -> dict[str, Any]:
        """What TensorFlow saves with the optimizer.

        The groups only in a saved model, whose functions use them: in a
        checkpoint they would hold nothing and spoil the interchange with
        Keras'.
        """
        children = super()._trackable_children(save_type, **kwargs)
        if save_type == "savedmodel":
            children.update(self._groups.trackable())
        return children

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
        if any(self._excluded.values()):
            config["exclude_from_weight_decay"] = dict(self._excluded)
        return config


def _tf_variable(variable: keras.Variable | tf.Variable) -> tf.Variable:
    return variable.value if isinstance(variable, keras.Variable) else variable


def _path(variable: keras.Variable | tf.Variable) -> str:
    return getattr(variable, "path", variable.name)


def _copy_of(
    variable: keras.Variable | tf.Variable,
) -> Callable[..., tf.Tensor]:
    """An initializer with the variable's value."""
    return lambda shape, dtype: tf.cast(_tf_variable(variable), dtype)
