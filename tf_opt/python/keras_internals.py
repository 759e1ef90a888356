"""Everything tf_opt asks of Keras that has no public name.

Kept in one file: it is what to look at when a new Keras comes out. Tested with
Keras 3.12 to 3.15. (What `fit` is doing, for a warning of ASGD's, is asked in
`optimizers/running_fit.py`.)
"""

from __future__ import annotations

import abc
import contextlib
import functools
import random
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional import slices

Variable = keras.Variable | tf.Variable

# None in a Keras that has none.
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
    """What says which part of a `MultiOptimizer` updates a variable."""
    return optimizer._optimizer_map


def part_of(
    optimizer: keras.optimizers.Optimizer, variable: Variable
) -> keras.optimizers.Optimizer:
    """Which part of a `MultiOptimizer`, built, updates a variable."""
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
            return super()._get_current_learning_rate()

    @abc.abstractmethod
    def _decays_before_the_step(self) -> bool:
        """Whether Keras' own pass of weight decay goes over the variables."""

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

    def _around_the_rule(self) -> dict[str, Sequence[Any]]:
        """What is kept for each variable besides slots; empty if it isn't."""
        return {
            "accumulators": getattr(self, "_accumulated_gradients", ()),
            "averages": getattr(self, "_model_variables_moving_average", ()),
            "master_weights": self._masters,
        }

    def _decay(self, variables: Sequence[Variable]) -> None:
        """Keras' own pass of weight decay."""
        self._apply_weight_decay(variables)

    def _update_one(
        self, gradient: Any, variable: Variable, learning_rate: Any
    ) -> None:
        """Updates one variable by `update_step`."""
        self.update_step(gradient, variable, learning_rate)

    def _update_one_by_one(
        self,
        grads: Sequence[Any],
        variables: Sequence[tf.Variable],
        learning_rates: Sequence[Any],
    ) -> None:
        """Goes through `update_step`, as Keras does, for every copy."""

        def update(
            strategy: tf.distribute.Strategy, *lists: Sequence[Any]
        ) -> None:
            for variable, gradient, learning_rate in zip(*lists, strict=True):
                strategy.extended.update(
                    variable,
                    lambda variable, *args: self._update_one(
                        args[0], variable, args[1]
                    ),
                    args=(gradient, learning_rate),
                    group=False,
                )

        lists = (list(variables), list(grads), list(learning_rates))
        if tf.distribute.in_cross_replica_context():
            update(self._distribution_strategy, *lists)
        else:
            tf.__internal__.distribute.interim.maybe_merge_call(
                update, self._distribution_strategy, *lists
            )

    def _when(self, condition: tf.Tensor, do: Callable[[], None]) -> None:
        """Does something in every replica, where the condition holds.

        Some strategies can't have replicas meet inside a condition: there the
        condition is outside of them, and that of the first one counts.
        """
        if tf.__internal__.distribute.strategy_supports_no_merge_call():
            tf.cond(condition, do, lambda: None)
            return

        def when(strategy: tf.distribute.Strategy, conditions: Any) -> None:
            first = strategy.experimental_local_results(conditions)[0]
            tf.cond(
                first,
                lambda: strategy.extended.call_for_each_replica(do),
                lambda: None,
            )

        replica_context = tf.distribute.get_replica_context()
        replica_context.merge_call(when, args=(condition,))

    def _sum_over_replicas(
        self,
        gradients: Sequence[tf.Tensor | tf.IndexedSlices],
        variables: Sequence[tf.Variable],
    ) -> list[tf.Tensor | tf.IndexedSlices]:
        """Each gradient's sum over the replicas, in replica context.

        Slices are gathered from all of them.
        """
        if tf.distribute.get_strategy().num_replicas_in_sync == 1:
            return list(gradients)
        pairs = [
            (slices.to_gather(gradient), variable)
            if isinstance(gradient, tf.IndexedSlices)
            # TensorFlow sums no complex numbers over replicas.
            else (
                arithmetic.as_real(gradient, gradient.dtype.real_dtype),
                variable,
            )
            for gradient, variable in zip(gradients, variables, strict=True)
        ]
        totals = self._all_reduce_sum_gradients(pairs)
        return [
            slices.gathered(total, variable.dtype)
            if isinstance(total, tf.IndexedSlices)
            else arithmetic.from_real(total, gradient.dtype)
            for gradient, (total, variable) in zip(
                gradients, totals, strict=True
            )
        ]

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
        # What Keras has looked up, so that it looks for no name any more.
        self._exclude_from_weight_decay_cache = {
            self._var_key(variable): i not in positions
            for i, variable in enumerate(variables)
        }
