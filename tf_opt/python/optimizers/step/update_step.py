"""Updates one variable by the rule alone, for Keras' own step."""

from __future__ import annotations

import tensorflow as tf

from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.keras_internals import Variable
from tf_opt.python.optimizers.step.composed import Composed
from tf_opt.python.optimizers.step.frame import (
    BucketStep,
    Frame,
    StepContext,
    factors_of,
)
from tf_opt.python.optimizers.step.launch import launch
from tf_opt.python.optimizers.values import gradients
from tf_opt.python.optimizers.values.gradients import Gradient


def update_variable(
    context: StepContext,
    gradient: Gradient,
    variable: Variable,
    learning_rate: Scalar,
    updates: int | tf.Tensor,
) -> None:
    """Updates a variable and its slots, given how many updates came before.

    The context has the plan of this variable.
    """
    (bucket,), (updated,) = context.plan.buckets, context.plan.variables
    gradient = gradients.for_update(
        gradient,
        updated,
        variable,
        sparse=bucket.sparse,
        for_op=bucket.runs_op,
    )
    # Keras' step has applied the decay.
    factors = factors_of(context, bucket)._replace(weight_decay=0.0)
    scalars = context.rule.scalars(learning_rate, updates)
    step = BucketStep(bucket, [gradient], Frame(), factors, scalars)
    with tf.control_dependencies(context.check_numbers()):
        if bucket.runs_op:
            launch(context, step)
        else:
            Composed(context).update(step)
