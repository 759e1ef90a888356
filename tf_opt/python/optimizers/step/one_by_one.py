"""Updates variables through an `update_step` that a subclass overrides."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional import stochastic_rounding
from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.keras_internals import Variable
from tf_opt.python.optimizers.state.factors import weight_decays
from tf_opt.python.optimizers.state.master_weights import Weight
from tf_opt.python.optimizers.state.optimizer_state import OptimizerState
from tf_opt.python.optimizers.state.rounding import Rounding
from tf_opt.python.optimizers.step.settings import Settings
from tf_opt.python.optimizers.values.gradients import Gradient

UpdateStep = Callable[[Gradient, Variable, Scalar], None]


def update_one_by_one(
    update: UpdateStep,
    grads: Sequence[Gradient],
    variables: Sequence[tf.Variable],
    learning_rates: Sequence[Scalar],
    strategy: tf.distribute.Strategy,
) -> None:
    """Calls `update` for each variable, as Keras does for every copy.

    Args:
        update: Updates one variable.
        grads: The variables' gradients.
        variables: The variables.
        learning_rates: The variables' learning rates.
        strategy: The optimizer's strategy.
    """

    def update_all(
        strategy: tf.distribute.Strategy, *lists: Sequence[Any]
    ) -> None:
        for variable, gradient, learning_rate in zip(*lists, strict=True):
            strategy.extended.update(
                variable,
                lambda variable, *args: update(args[0], variable, args[1]),
                args=(gradient, learning_rate),
                group=False,
            )

    lists = (list(variables), list(grads), list(learning_rates))
    if tf.distribute.in_cross_replica_context():
        update_all(strategy, *lists)
    else:
        tf.__internal__.distribute.interim.maybe_merge_call(
            update_all, strategy, *lists
        )


def decay(
    settings: Settings,
    state: OptimizerState,
    variable: Variable,
    learning_rate: Scalar,
) -> None:
    """Applies decoupled weight decay before a rule that isn't tf_opt's.

    Args:
        settings: The step's options.
        state: The optimizer's state.
        variable: The variable, or a replica's copy.
        learning_rate: The variable's learning rate.
    """
    index = state.index_of(variable)
    if settings.weight_decay is None or not state.decays[index]:
        return
    weight_decay = weight_decays(settings.weight_decay, state, [index])
    weight = Weight(state, index, variable)
    dtype = arithmetic.slot_dtype(weight.stored.dtype)
    factor = 1 - arithmetic.float64(learning_rate) * tf.reshape(
        arithmetic.float64(weight_decay), []
    )
    weight.write(
        tf.cast(factor, dtype) * tf.cast(weight.value, dtype),
        True,
        Rounding(settings.rounding, state),
        stream=stochastic_rounding.DECAYED_VARIABLE,
    )
