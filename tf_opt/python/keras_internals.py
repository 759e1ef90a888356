"""Everything tf_opt asks of Keras that has no public name.

Kept in one file: it is what to look at when a new Keras comes out. Tested with
Keras 3.12 to 3.15. (What `fit` is doing, for a warning of ASGD's, is asked in
`optimizers/running_fit.py`.)
"""

from __future__ import annotations

import abc
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

Variable = keras.Variable | tf.Variable


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


class _Counter(keras.Variable):
    """Keras' variable, but it adds in one op.

    Keras composes `self.assign(self + value)`, which takes longer than a small
    step.
    """

    def assign_add(self, value: int) -> None:
        # Nobody asks for the sum, which would be one more op.
        self.value.assign_add(value, read_value=False)


class KerasOptimizer(keras.optimizers.Optimizer, abc.ABC):
    """A Keras optimizer that updates all variables of a step at once.

    A subclass says how, in `_update_all`, and which variables it decays itself.
    """

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        # Made and tracked by Keras' constructor.
        self._iterations.__class__ = _Counter

    # ---- What Keras calls. ----

    @abc.abstractmethod
    def _update_all(
        self,
        grads: Sequence[Any],
        variables: Sequence[Variable],
        learning_rate: Any,
    ) -> None:
        """Updates variables and slots, given gradients without None."""

    @abc.abstractmethod
    def _decays_before_the_step(self) -> bool:
        """Whether Keras' own pass of weight decay goes over the variables."""

    def _backend_update_step(
        self,
        grads: Sequence[Any],
        trainable_variables: Sequence[Variable],
        learning_rate: Any,
    ) -> None:
        self._update_all(grads, trainable_variables, learning_rate)

    def _apply_weight_decay(self, variables: Sequence[Variable]) -> None:
        if self._decays_before_the_step():
            super()._apply_weight_decay(variables)

    # ---- What we ask. ----

    def _update_one_by_one(
        self,
        grads: Sequence[Any],
        variables: Sequence[Variable],
        learning_rate: Any,
    ) -> None:
        """Goes through `update_step`, as Keras does.

        In replica context the gradients are summed first; in cross-replica
        context each copy of a variable is updated.
        """
        if tf.distribute.in_cross_replica_context():
            self._distributed_tf_update_step(
                self._distribution_strategy,
                list(zip(grads, map(tf_variable, variables), strict=True)),
                learning_rate,
            )
        else:
            super()._backend_update_step(grads, variables, learning_rate)

    def _sum_over_replicas(
        self, gradients: Sequence[tf.Tensor], variables: Sequence[tf.Variable]
    ) -> list[tf.Tensor]:
        """Each gradient's sum over the replicas, in replica context."""
        pairs = list(zip(gradients, variables, strict=True))
        return [sum_ for sum_, _ in self._all_reduce_sum_gradients(pairs)]

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
