"""The quick way through an eager step that does nothing around its rule.

Small models are trained in eager loops, where a step is mostly calls: this one
makes as few as can be. Whatever isn't as it expects goes the usual way, which
also says what is wrong.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_opt.python.keras_internals import Variable
from tf_opt.python.ops import library
from tf_opt.python.ops.step_frame import BARE
from tf_opt.python.optimizers import local_state
from tf_opt.python.optimizers import rounding
from tf_opt.python.tensorflow_internals import eager_signature

if TYPE_CHECKING:
    from tf_opt.python.optimizers.fused_optimizer import FusedOptimizer

_EagerTensor = tf.__internal__.EagerTensor


@functools.cache
def _bare() -> dict[str, Any]:
    """A frame that does nothing, kept: to make it would take longer."""
    with tf.init_scope(), tf.device("CPU"):
        return {
            name: tf.constant(x, tf.float64) if isinstance(x, float) else x
            for name, x in dataclasses.asdict(BARE).items()
        }


def run(
    optimizer: FusedOptimizer,
    grads: Sequence[Any],
    variables: Sequence[Variable],
) -> bool:
    """Does a step if it can.

    Args:
        optimizer: The optimizer.
        grads: What the user gave.
        variables: The variables.

    Returns:
        Whether it did; if not, nothing was written.
    """
    if not local_state.is_plain():
        return False
    plan = optimizer._plans.find(variables, optimizer.implementation)
    if (
        plan is None
        or len(plan.buckets) != 1
        or plan.buckets[0].lists is None
        or len(grads) != len(variables)
        or not _is_bare(optimizer)
        or not all(type(gradient) is _EagerTensor for gradient in grads)
        # An op that runs asynchronously would refuse it too late.
        or (
            not tf.config.experimental.get_synchronous_execution()
            and eager_signature(grads) != plan.buckets[0].signature
        )
        or any(variable.constraint is not None for variable in variables)
    ):
        return False
    (bucket,) = plan.buckets
    op = optimizer._op
    numbers = optimizer._hyperparameters()
    # Read here, where it is known that they may be.
    learning_rate, updates = (
        local_state.read(x) if isinstance(x, keras.Variable) else x
        for x in (optimizer.learning_rate, optimizer._iterations)
    )
    numbers.update(optimizer._scalars(learning_rate, updates))
    weight_decay = optimizer._weight_decay(bucket)
    if isinstance(weight_decay, list):
        # The op would take a list's elements one by one.
        weight_decay = np.array(weight_decay)
    lists = bucket.lists
    try:
        getattr(library.library().ops, op.wrapper)(
            variables=lists["variables"],
            gradients=grads,
            weight_decay=weight_decay,
            **{name: lists[name] for name in op.slots},
            **{name: numbers[name] for name in (*op.numbers, *op.modes)},
            **{**_bare(), **rounding.of_launch(optimizer, bucket, updates)},
        )
    except (TypeError, ValueError, tf.errors.InvalidArgumentError):
        # Before anything was written: shapes that broadcast, say.
        return False
    optimizer._plans.last = plan
    optimizer._begin_step(plan.variables, True)
    optimizer._commit(optimizer._next_shared(**numbers), True)
    optimizer._iterations.count_eagerly()
    return True


def _is_bare(optimizer: FusedOptimizer) -> bool:
    """Whether a step of it does nothing around the rule."""
    return not (
        optimizer.clipnorm
        or optimizer.global_clipnorm
        or optimizer.clipvalue
        or optimizer.use_ema
        or optimizer.loss_scale_factor is not None
        or optimizer.gradient_accumulation_steps
        or optimizer.skip_nonfinite
        or optimizer.track_gradient_norm
        or optimizer.learning_rate_multipliers
        or optimizer.weight_decay_multipliers
        or optimizer._overrides_update_step()
    )
