"""Adafactor on pure tensors."""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import tensorflow as tf

from tf_opt.python.functional import arithmetic, rule_spec
from tf_opt.python.functional.arithmetic import Scalar, TensorLike
from tf_opt.python.functional.pure_step import pure_step
from tf_opt.python.functional.update import Formula


class AdafactorResult(NamedTuple):
    """Result of `adafactor`: the new variable and second moments."""

    variable: tf.Tensor
    r: tf.Tensor | None = None
    c: tf.Tensor | None = None
    v: tf.Tensor | None = None


def adafactor(
    variable: TensorLike,
    gradient: TensorLike,
    r: TensorLike | None = None,
    c: TensorLike | None = None,
    v: TensorLike | None = None,
    *,
    step: Scalar,
    learning_rate: Scalar = 1e-3,
    beta_2_decay: Scalar = -0.8,
    epsilon_1: Scalar = 1e-30,
    epsilon_2: Scalar = 1e-3,
    clip_threshold: Scalar = 1.0,
    weight_decay: Scalar = 0.0,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
    relative_step: bool = True,
) -> AdafactorResult:
    r"""Computes one step of Adafactor on one tensor.

    Args:
        r: For a real tensor of two axes or more: the second moment's means over
            the last axis, which it lacks.
        c: For such a tensor: those over the last axis but one.
        v: For any other tensor: the second moment.

    Example:

    >>> from tf_opt import functional as f
    >>> new = f.adafactor([3.0, 4.0], [0.5, 2.0], v=[0.0, 0.0], step=1)
    >>> print(new.variable.numpy().round(4))
    [2.9965 3.9965]
    """
    return AdafactorResult(**pure_step(SPEC, locals()))


def adafactor_update(
    *,
    step,
    learning_rate,
    beta_2_decay,
    epsilon_1,
    epsilon_2,
    clip_threshold,
    relative_step,
    is_matrix=False,
) -> Formula:
    """Binds a step's numbers; the slots are r and c of a matrix, else v."""

    def normalized(s, g, **slots):
        squares = tf.square(g) + s.epsilon_1

        def moved(name, axis=None):
            new = squares if axis is None else tf.reduce_mean(squares, axis)
            return s.beta_2 * slots[name] + s.one_minus_beta_2 * new

        if not is_matrix:
            v = moved("v")
            return g / s.sqrt(v), [v]
        r, c = moved("r", -1), moved("c", -2)
        of_rows = s.sqrt(r / tf.reduce_mean(r, axis=-1, keepdims=True))
        # The product of two small moments would be 0.
        u = g / of_rows[..., tf.newaxis] / s.sqrt(c)[..., tf.newaxis, :]
        return u, [r, c]

    def rms(s, x):
        size = tf.cast(tf.size(x, tf.int64), x.dtype)
        return s.sqrt(arithmetic.sum_of_squares(x) / size)

    def formula(s, p, g, **slots):
        u, slots = normalized(s, g, **slots)
        rate = s.rate * tf.maximum(rms(s, p), s.epsilon_2)
        rate = rate / tf.maximum(rms(s, u) / s.clip_threshold, 1)
        return p - rate * u, *slots

    rate = learning_rate
    if relative_step:
        rate = tf.minimum(rate, 1 / tf.sqrt(step))
    return Formula(
        formula, {"rate": rate, "beta_2": 1 - tf.pow(step, beta_2_decay)}
    )


_VECTOR = rule_spec.RuleSpec(
    function=adafactor,
    class_name="Adafactor",
    op=None,
    update=adafactor_update,
    slots=[rule_spec.Slot("v", "velocity", "_v")],
    numbers=[
        rule_spec.STEP,
        rule_spec.LEARNING_RATE,
        rule_spec.Number("beta_2_decay", rule_spec.NON_POSITIVE),
        rule_spec.Number("epsilon_1", rule_spec.NON_NEGATIVE),
        rule_spec.Number("epsilon_2", rule_spec.NON_NEGATIVE),
        rule_spec.Number(
            "clip_threshold", rule_spec.GREATER_THAN_0, may_be_infinite=True
        ),
    ],
    modes=["relative_step"],
)
_MATRIX = dataclasses.replace(
    _VECTOR,
    update=functools.partial(adafactor_update, is_matrix=True),
    slots=[
        rule_spec.Slot(
            "r", keras_list="_r", exact=True, shape_of=lambda shape: shape[:-1]
        ),
        rule_spec.Slot(
            "c",
            keras_list="_c",
            exact=True,
            shape_of=lambda shape: shape[:-2] + shape[-1:],
        ),
    ],
)
SPEC = dataclasses.replace(_VECTOR, other_forms={rule_spec.MATRIX: _MATRIX})
