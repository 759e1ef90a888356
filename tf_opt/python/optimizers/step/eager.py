"""The quick way through an eager step that does nothing around its rule.

In eager loops with small models, Python calls take most of the time of a step.
This path makes as few calls as possible. All other steps take the usual path,
which also raises the errors.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.keras_internals import Variable
from tf_opt.python.ops import library
from tf_opt.python.ops.step_frame import BARE
from tf_opt.python.optimizers.state import factors
from tf_opt.python.optimizers.state.optimizer_state import OptimizerState
from tf_opt.python.optimizers.step.launch import rounding_of
from tf_opt.python.optimizers.step.plan import Plan
from tf_opt.python.optimizers.step.settings import Settings
from tf_opt.python.optimizers.step.update_rule import UpdateRule
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.tensorflow_internals import eager_signature

_EagerTensor = tf.__internal__.EagerTensor


@functools.cache
def _bare() -> dict[str, Any]:
    """Returns a frame that does nothing; kept, since making it takes longer."""
    with tf.init_scope(), tf.device("CPU"):
        return {
            name: tf.constant(x, tf.float64) if isinstance(x, float) else x
            for name, x in dataclasses.asdict(BARE).items()
        }


def can_run(
    settings: Settings,
    state: OptimizerState,
    plan: Plan,
    grads: Sequence[Any],
    variables: Sequence[Variable],
) -> bool:
    """Returns whether a step may take the quick path.

    Args:
        settings: The step's options.
        state: The optimizer's state.
        plan: A kept plan, of a step without sparse gradients.
        grads: The gradients as the user gave them.
        variables: The variables as the user gave them.
    """
    return (
        len(plan.buckets) == 1
        and plan.buckets[0].runs_op
        and settings.is_bare
        and state.unsaved.learning_rate_multipliers is None
        and state.unsaved.weight_decay_multipliers is None
        and all(type(gradient) is _EagerTensor for gradient in grads)
        # An op that runs asynchronously would refuse them too late.
        and (
            tf.config.experimental.get_synchronous_execution()
            or eager_signature(grads) == plan.buckets[0].signature
        )
        and all(variable.constraint is None for variable in variables)
    )


def run(
    rule: UpdateRule,
    settings: Settings,
    state: OptimizerState,
    plan: Plan,
    grads: Sequence[tf.Tensor],
    learning_rate: Scalar,
) -> bool:
    """Runs a step for which `can_run` is true.

    Returns:
        Whether it ran; if not, nothing was written.
    """
    (bucket,) = plan.buckets
    op, lists = rule.op, bucket.lists
    learning_rate, updates = (
        access.read(x) if isinstance(x, keras.Variable) else x
        for x in (learning_rate, state.iterations)
    )
    scalars = rule.scalars(learning_rate, updates)
    numbers = {**rule.hyperparameters, **scalars}
    weight_decay = factors.weight_decays(
        settings.weight_decay, state, bucket.indices
    )
    if isinstance(weight_decay, list):
        # The op would take a list's elements one by one.
        weight_decay = np.array(weight_decay)
    rounding = rounding_of(settings.rounding, state, bucket, updates)
    try:
        getattr(library.library().ops, op.wrapper)(
            variables=lists["variables"],
            gradients=grads,
            weight_decay=weight_decay,
            **{name: lists[name] for name in op.slots},
            **{name: numbers[name] for name in (*op.numbers, *op.modes)},
            **{**_bare(), **rounding},
        )
    except (TypeError, ValueError, tf.errors.InvalidArgumentError):
        # The op refuses gradients to broadcast, for example, before it
        # writes anything.
        return False
    rule.begin(state, plan.variables, True)
    state.commit(rule.next_shared(scalars), True)
    state.iterations.count_eagerly()
    return True
