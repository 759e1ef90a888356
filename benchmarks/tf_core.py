"""Steps of TensorFlow's own ops, which update one variable each."""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from variants import MOMENTS, Variant

# A step takes the values and the ids of a batch.
Step = Callable[[list[tf.Tensor], list[tf.Tensor]], None]


class _Op(NamedTuple):
    """An op, the first values of its slots, and its other arguments."""

    apply: Callable[..., Any]
    slots: dict[str, float]
    scalars: dict[str, float]


_EPSILON = {"epsilon": MOMENTS["epsilon"]}
_ADAM = {"beta1": MOMENTS["beta_1"], "beta2": MOMENTS["beta_2"], **_EPSILON}
_OPS = {
    "Adam": _Op(tf.raw_ops.ResourceApplyAdam, {"m": 0, "v": 0}, _ADAM),
    "Adam, AMSGrad": _Op(
        tf.raw_ops.ResourceApplyAdamWithAmsgrad,
        {"m": 0, "v": 0, "vhat": 0},
        _ADAM,
    ),
    "Adagrad": _Op(
        tf.raw_ops.ResourceSparseApplyAdagradV2, {"accum": 0.1}, _EPSILON
    ),
    "RMSprop": _Op(
        tf.raw_ops.ResourceSparseApplyRMSProp,
        {"ms": 0, "mom": 0},
        {"rho": 0.9, "momentum": 0.0, **_EPSILON},
    ),
    "Ftrl": _Op(
        tf.raw_ops.ResourceSparseApplyFtrlV2,
        {"accum": 0.1, "linear": 0},
        {"l1": 0.0, "l2": 0.0, "l2_shrinkage": 0.0, "lr_power": -0.5},
    ),
}


def make_step(variant: Variant, variables: list[tf.Variable]) -> Step:
    """Makes a step; that of tables sums the gradients of repeated ids."""
    # The op has no decay, so AdamW is Adam after it.
    op = _OPS[variant.title.replace("AdamW", "Adam")]
    rate = variant.arguments["learning_rate"]
    decay = rate * variant.arguments.get("weight_decay", 0)
    slots = [
        {
            name: tf.Variable(tf.fill(variable.shape, float(value)))
            for name, value in op.slots.items()
        }
        for variable in variables
    ]
    count = tf.Variable(0.0)

    def step(values: list[tf.Tensor], ids: list[tf.Tensor]) -> None:
        inputs = {"lr": rate, **op.scalars}
        if op.scalars is _ADAM:
            t = count.assign_add(1)
            inputs["beta1_power"] = op.scalars["beta1"] ** t
            inputs["beta2_power"] = op.scalars["beta2"] ** t
        for i, variable in enumerate(variables):
            if decay:
                variable.assign_sub(decay * variable)
            inputs["grad"] = values[i]
            if ids:
                inputs["indices"], place = tf.unique(ids[i])
                inputs["grad"] = tf.math.unsorted_segment_sum(
                    values[i], place, tf.size(inputs["indices"])
                )
            handles = {name: slot.handle for name, slot in slots[i].items()}
            op.apply(var=variable.handle, **handles, **inputs)

    return step
