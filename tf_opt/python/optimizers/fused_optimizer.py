"""What every tf_opt optimizer shares: slots, decay, and how a step is run."""

from __future__ import annotations

import abc
import collections
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_opt.python import dispatch
from tf_opt.python.functional import arithmetic
from tf_opt.python.keras_internals import KerasOptimizer
from tf_opt.python.keras_internals import Variable
from tf_opt.python.keras_internals import is_overwritten_by_gradient
from tf_opt.python.keras_internals import layout_of
from tf_opt.python.keras_internals import strategy_of
from tf_opt.python.keras_internals import tf_variable
from tf_opt.python.ops.handles import VariableLike
from tf_opt.python.ops.variable_group import variable_group
from tf_opt.python.optimizers import gradients
from tf_opt.python.optimizers import validation
from tf_opt.python.optimizers.exclusions import Exclusions
from tf_opt.python.optimizers.gradients import GradientLike
from tf_opt.python.optimizers.gradients import path_of
from tf_opt.python.optimizers.step_plan import Launch
from tf_opt.python.optimizers.step_plan import Plan
from tf_opt.python.optimizers.step_plan import PlanKeeper

LearningRate = (
    float | keras.optimizers.schedules.LearningRateSchedule | Callable
)

# A number, or a variable that may be assigned to between steps.
WeightDecay = float | Variable


class FusedOptimizer(KerasOptimizer):
    """Base class: one launch of a custom op for all variables of a type.

    A subclass names its op and its slots and says how to run a step of each
    implementation; everything else of Keras' base class works unchanged.
    """

    # The registered name of the custom op.
    _op_name: str

    def __init__(
        self,
        learning_rate: LearningRate,
        weight_decay: WeightDecay | None = None,
        clipnorm: float | None = None,
        clipvalue: float | None = None,
        global_clipnorm: float | None = None,
        use_ema: bool = False,
        ema_momentum: float = 0.99,
        ema_overwrite_frequency: int | None = None,
        loss_scale_factor: float | None = None,
        gradient_accumulation_steps: int | None = None,
        name: str | None = None,
        *,
        decoupled_weight_decay: bool = True,
        maximize: bool = False,
        implementation: str = dispatch.AUTO,
    ) -> None:
        validation.check_learning_rate(learning_rate)
        validation.check_weight_decay(weight_decay)
        validation.check_boolean(
            "decoupled_weight_decay", decoupled_weight_decay
        )
        validation.check_boolean("maximize", maximize)
        validation.check_one_of(
            "implementation", implementation, dispatch.IMPLEMENTATIONS
        )
        super().__init__(
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            clipnorm=clipnorm,
            clipvalue=clipvalue,
            global_clipnorm=global_clipnorm,
            use_ema=use_ema,
            ema_momentum=ema_momentum,
            ema_overwrite_frequency=ema_overwrite_frequency,
            loss_scale_factor=loss_scale_factor,
            gradient_accumulation_steps=gradient_accumulation_steps,
            name=name,
        )
        self.decoupled_weight_decay = decoupled_weight_decay
        self.maximize = maximize
        self.implementation = implementation
        self._plans = PlanKeeper()
        self._exclusions = Exclusions()

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
        weight_decay: Sequence[float] | tf.Tensor,
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
        # By the ops themselves: a small step is mostly such calls.
        return {
            "step": tf.raw_ops.AddV2(x=tf_variable(self.iterations), y=1),
            "learning_rate": self._float64(learning_rate),
        }

    @staticmethod
    def _float64(x: arithmetic.Scalar | keras.Variable) -> tf.Tensor:
        x = tf_variable(x)
        if isinstance(x, (tf.Variable, tf.Tensor)):
            return tf.raw_ops.Cast(x=x, DstT=tf.float64)
        return arithmetic.float64(x)

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

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Gets ready for these variables; a subclass adds its slots.

        Args:
            variables: The model variables that will be updated.
        """
        super().build(variables)
        self._plans.clear()
        self._exclude_what_was_saved(variables)

    def _add_slots(
        self,
        variables: Sequence[keras.Variable],
        names: Sequence[str],
        *,
        rows: Mapping[str, int] = {},
    ) -> tuple[list[keras.Variable | None], ...]:
        """Adds one slot of each name for each variable, a variable at a time.

        That is the order and these are the names that Keras gives them, but
        the type is that of the arithmetic, not the variable's.

        Args:
            variables: The variables.
            names: The slots' names.
            rows: By name, how many of the variable's shape a slot holds, if it
                is a table of them.

        Returns:
            For each name, its slots in the order of `variables`; None for a
            variable that has none.
        """
        slots = tuple([] for _ in names)
        for variable in variables:
            for slot, name in zip(slots, names, strict=True):
                # Keras writes such a variable's gradient straight into it.
                if is_overwritten_by_gradient(variable):
                    slot.append(None)
                else:
                    slot.append(self._add_slot(variable, name, rows.get(name)))
        return slots

    def _add_slot(
        self,
        variable: Variable,
        name: str,
        rows: int | None,
    ) -> keras.Variable:
        prefix = getattr(variable, "path", variable.name)
        prefix = prefix.replace("/", "_").replace(":", "_")
        with strategy_of(self).extended.colocate_vars_with(
            tf_variable(variable)
        ):
            return self.add_variable(
                shape=(*(() if rows is None else (rows,)), *variable.shape),
                dtype=arithmetic.slot_dtype(variable.dtype).name,
                layout=layout_of(variable),
                name=f"{prefix}_{name}",
            )

    # ---- Weight decay: part of the rule, so not a pass of its own. ----

    def _decays_before_the_step(self) -> bool:
        # Of a rule that isn't ours; `_weight_decay` hands it to those that are.
        return self.decoupled_weight_decay and self._overrides_update_step()

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
        # They say what decays.
        self._plans.clear()
        self._exclusions = Exclusions(
            var_names=tuple(sorted(set(var_names or ()))),
            paths=tuple(sorted(map(path_of, var_list or ()))),
        )

    def _exclude_what_was_saved(
        self, variables: Sequence[keras.Variable]
    ) -> None:
        """Tells Keras which variables a loaded optimizer leaves out."""
        if not self._excluded_positions():
            self._exclude_variables(self._exclusions.find(variables))
        self._exclusions = Exclusions.of(
            self._exclusions.var_names, variables, self._excluded_positions()
        )

    def _weight_decay(self, decays: Sequence[bool]) -> list[float] | tf.Tensor:
        """The decay of each variable, of which some have none."""
        if self._decays_before_the_step():
            return [0.0] * len(decays)
        decay = self.weight_decay
        if isinstance(decay, (keras.Variable, tf.Variable, tf.Tensor)):
            decay = arithmetic.float64(tf.convert_to_tensor(decay))
            return decay * tf.constant(decays, tf.float64)
        decay = float(decay or 0.0)
        return [decay if applies else 0.0 for applies in decays]

    # ---- A step. ----

    def apply(
        self,
        grads: Sequence[GradientLike | None],
        trainable_variables: Sequence[Variable] | None = None,
    ) -> None:
        """Updates the variables: one step.

        Args:
            grads: Gradients, one for each variable: tensors, `IndexedSlices`,
                what converts to a tensor, or None.
            trainable_variables: The variables; by default those that the
                optimizer was built with.

        Raises:
            ValueError: If there is another number of gradients than of
                variables, or one has a shape that doesn't fit its variable's.
            TypeError: If one doesn't convert to a tensor.
        """
        grads = list(grads)
        if not grads or (trainable_variables is None and not self.built):
            # Keras says what to do, if there is anything to do.
            super().apply(grads, trainable_variables)
            return
        if trainable_variables is None:
            variables = self._trainable_variables
        else:
            variables = trainable_variables = list(trainable_variables)
        if len(grads) != len(variables):
            raise ValueError(
                "`grads` must have one gradient for each of the "
                f"{len(variables)} variables. Received: {len(grads)}"
            )
        # Keras can't divide or add slices, and the norm of slices that repeat
        # a row is not the gradient's.
        dense = (
            self.clipnorm
            or self.global_clipnorm
            or self.clipvalue
            or self.loss_scale_factor
            or self.gradient_accumulation_steps
        )
        for i, gradient in enumerate(grads):
            if gradient is None:
                continue
            if not isinstance(gradient, tf.Tensor):
                gradient = gradients.as_gradient(gradient, variables[i])
                if dense:
                    gradient = gradients.to_dense(gradient, variables[i])
                grads[i] = gradient
        super().apply(grads, trainable_variables)

    def _overrides_update_step(self) -> bool:
        """Whether a subclass, or a user, has put another rule in place."""
        update_step = getattr(self.update_step, "__func__", None)
        return update_step is not FusedOptimizer.update_step

    def _update_all(
        self,
        grads: Sequence[GradientLike],
        variables: Sequence[Variable],
        learning_rate: arithmetic.Scalar,
    ) -> None:
        scalars = self._scalars(learning_rate)
        if (
            self._overrides_update_step()
            # Without gradients to sum, each copy of each variable is updated.
            or tf.distribute.in_cross_replica_context()
            or _replicas_share(variables)
        ):
            self._update_one_by_one(grads, variables, learning_rate)
        else:
            self._update(grads, variables, learning_rate, scalars)
        self._finish_step(**scalars)

    def update_step(
        self,
        gradient: GradientLike,
        variable: Variable,
        learning_rate: arithmetic.Scalar,
    ) -> None:
        """Updates one variable, as a part of a step.

        A subclass may override it, as with Keras' optimizers: then a step goes
        through it variable by variable.

        Args:
            gradient: Its gradient.
            variable: The variable, one that the optimizer was built with.
            learning_rate: The step size, a scalar.
        """
        scalars = self._scalars(learning_rate)
        self._update([gradient], [variable], learning_rate, scalars)

    def _update(
        self,
        grads: Sequence[GradientLike],
        variables: Sequence[Variable],
        learning_rate: arithmetic.Scalar,
        scalars: dict[str, Any],
    ) -> None:
        """Updates variables and slots; what variables share stays."""
        # In replica context each replica updates its own copies.
        has_strategy = tf.distribute.has_strategy()
        distributed = (
            has_strategy and tf.distribute.get_replica_context() is not None
        )
        if tf.executing_eagerly() and not has_strategy:
            plan = self._plans.of(
                variables,
                self.implementation,
                lambda: self._plan(variables, groups=True),
            )
        else:
            plan = self._plan(variables)
        self._plans.last = plan
        # All gradients before the first launch: a wrong one must not leave
        # half a step.
        ready = [
            gradients.for_update(gradient, variable, known_as)
            for gradient, variable, known_as in zip(
                grads, plan.variables, variables, strict=True
            )
        ]
        for launch in plan.launches:
            own = [ready[i] for i in launch.positions]
            if distributed:
                # The sum of the gradients is all that replicas share.
                updated = [plan.variables[i] for i in launch.positions]
                own = self._sum_over_replicas(own, updated)
            self._custom_op_step(
                *launch.lists,
                gradients=own,
                weight_decay=self._weight_decay(launch.decays),
                **scalars,
            )
        for positions in plan.composed:
            rest = [(ready[i], plan.variables[i]) for i in positions]
            if distributed:
                own, updated = zip(*rest, strict=True)
                self._update_one_by_one(own, updated, learning_rate)
            else:
                self._compose(rest, **scalars)

    def _plan(
        self,
        variables: Sequence[Variable],
        groups: bool = False,
    ) -> Plan:
        """Decides what updates which variables.

        Args:
            variables: The variables of a step.
            groups: Whether a launch takes each of its lists as one group.
        """
        buckets: dict[tuple[tf.DType, str, int], list[int]] = {}
        occurrences: collections.Counter[int] = collections.Counter()
        tf_variables = list(map(tf_variable, variables))
        for i, variable in enumerate(tf_variables):
            # One that occurs twice is updated twice, one after the other.
            key = id(variable)
            bucket = (variable.dtype, variable.device, occurrences[key])
            buckets.setdefault(bucket, []).append(i)
            occurrences[key] += 1
        launches: list[Launch] = []
        composed: list[tuple[int, ...]] = []
        for (dtype, device, _), positions in buckets.items():
            if not dispatch.runs_custom_op(
                self.implementation, self._op_name, dtype, device
            ):
                composed.append(tuple(positions))
                continue
            updated = [tf_variables[i] for i in positions]
            indices = list(map(self._index_of, updated))
            lists = [updated, *zip(*map(self._slots, indices), strict=True)]
            if groups:
                lists = [[variable_group(list_, device)] for list_ in lists]
            launches.append(
                Launch(
                    tuple(positions),
                    tuple(lists),
                    tuple(map(self._decays, updated)),
                )
            )
        return Plan(tuple(tf_variables), tuple(launches), tuple(composed))

    def _compose(
        self,
        pairs: Sequence[tuple[tf.Tensor, tf.Variable]],
        **scalars: tf.Tensor,
    ) -> None:
        """Runs the composed implementation, a variable at a time."""
        apply = self._composed_step(**scalars)
        for gradient, variable in pairs:
            slots = self._slots(self._index_of(variable))
            decays = self._decays(variable)
            value, *slot_values = apply(
                tf.convert_to_tensor(variable),
                gradient,
                self._read_slots(slots, **scalars),
                self._weight_decay([decays])[0],
            )
            self.assign(variable, value)
            # A rule returns more than the slots: what the step shares, or None
            # for a slot that its mode doesn't have.
            self._write_slots(slots, slot_values[: len(slots)], **scalars)

    @property
    def implementation_in_use(self) -> str | None:
        """What the last step ran that was eager, or was traced.

        `"custom_op"`, `"composed"`, `"custom_op and composed"` (of variables
        of different types, say), or None before the first step. After
        `model.fit` it says what `fit` ran.
        """
        last = self._plans.last
        return None if last is None else last.describe()

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

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, serializable."""
        config = super().get_config()
        if isinstance(self.weight_decay, (keras.Variable, tf.Variable)):
            config["weight_decay"] = float(self.weight_decay.numpy())
        config.update(
            {
                "decoupled_weight_decay": self.decoupled_weight_decay,
                "maximize": self.maximize,
                "implementation": self.implementation,
            }
        )
        if self._exclusions != Exclusions():
            config["exclude_from_weight_decay"] = self._exclusions.get_config()
        return config

    @classmethod
    def from_config(
        cls,
        config: dict[str, Any],
        custom_objects: dict[str, Any] | None = None,
    ) -> FusedOptimizer:
        """Makes an optimizer from what `get_config` returned.

        Args:
            config: The configuration.
            custom_objects: Names of user-defined objects, to look up.
        """
        config = dict(config)
        excluded = config.pop("exclude_from_weight_decay", None)
        optimizer = super().from_config(config, custom_objects)
        if excluded:
            exclusions = Exclusions.from_config(excluded)
            optimizer.exclude_from_weight_decay(var_names=exclusions.var_names)
            # The variables themselves aren't known yet.
            optimizer._exclusions = exclusions
        return optimizer


def _replicas_share(variables: Sequence[Variable]) -> bool:
    """Whether several replicas have one copy (CentralStorageStrategy)."""
    return tf.distribute.get_strategy().num_replicas_in_sync > 1 and not all(
        isinstance(tf_variable(variable), tf.distribute.DistributedValues)
        for variable in variables
    )
