"""Adagrad, on pure tensors."""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import tensorflow as tf

from tf_opt.python.functional import arithmetic, rule_spec
from tf_opt.python.functional.arithmetic import Scalar, TensorLike
from tf_opt.python.functional.coasting import MissedStep
from tf_opt.python.functional.pure_step import pure_step
from tf_opt.python.functional.update import Formula


class AdagradResult(NamedTuple):
    """Result of `adagrad`: the new variable and sum of squared gradients."""

    variable: tf.Tensor
    accumulator: tf.Tensor


def adagrad(
    variable: TensorLike,
    gradient: TensorLike,
    accumulator: TensorLike,
    *,
    learning_rate: Scalar = 1e-3,
    epsilon: Scalar = 1e-7,
    weight_decay: Scalar = 0.0,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
    torch_epsilon: bool = False,
    row_wise: bool = False,
) -> AdagradResult:
    r"""Computes one step of Adagrad on one tensor.

    Args:
        accumulator: Sum $a$ of the squared gradients, at first any number >= 0,
            such as 0.1 everywhere. With `row_wise`, of the shape [rows], and
            float32 for a 16-bit variable.
        row_wise: Whether rows, along the first axis, have one accumulator each
            (see `tf_opt.Adagrad`). The variable isn't a scalar or complex then.

    Example:

    >>> from tf_opt import functional as f
    >>> new = f.adagrad([1.0, 2.0], [0.5, -0.5], [0.0, 3.75], learning_rate=0.5)
    >>> print(new.variable.numpy().round(4))
    [0.5   2.125]
    """
    return AdagradResult(**pure_step(SPEC, locals()))


def adagrad_update(*, epsilon, torch_epsilon, row_wise=False, **_) -> Formula:
    """Binds a step's numbers; the only slot is the accumulator."""
    zero = arithmetic.float64(0.0)

    def root(s, accumulator):
        # In a graph, TensorFlow makes `x / sqrt(y)` a product with another
        # function, whose results are rounded otherwise: it needs the sum.
        return s.sqrt(accumulator + s.epsilon_inside) + s.epsilon_outside

    def formula(s, p, g, accumulator):
        accumulator = accumulator + g * g
        return p - s.learning_rate * g / root(s, accumulator), accumulator

    def row_wise_formula(s, p, g, accumulator):
        accumulator = accumulator + arithmetic.mean_square_of_rows(g)
        rate = s.learning_rate / root(s, accumulator)
        return p - arithmetic.of_rows(rate, p) * g, accumulator

    return Formula(
        row_wise_formula if row_wise else formula,
        {
            "epsilon_inside": zero if torch_epsilon else epsilon,
            "epsilon_outside": epsilon if torch_epsilon else zero,
        },
        missed=lambda _: MissedStep([1.0]),
    )


_ACCUMULATOR = rule_spec.Slot(
    "accumulator",
    keras_list="_accumulators",
    first="initial_accumulator_value",
    stays=True,
)
_ELEMENTWISE = rule_spec.RuleSpec(
    function=adagrad,
    class_name="Adagrad",
    update=adagrad_update,
    coasts=True,
    slots=[_ACCUMULATOR],
    numbers=[
        rule_spec.LEARNING_RATE,
        rule_spec.EPSILON,
        rule_spec.INITIAL_ACCUMULATOR_VALUE,
    ],
    modes=["torch_epsilon"],
)
_ROW_WISE = dataclasses.replace(
    _ELEMENTWISE,
    op="RowWiseAdagrad",
    update=functools.partial(adagrad_update, row_wise=True),
    slots=[
        dataclasses.replace(
            _ACCUMULATOR, exact=True, shape_of=lambda shape: shape[:1]
        )
    ],
)
SPEC = dataclasses.replace(
    _ELEMENTWISE, other_forms={rule_spec.ROW_WISE: _ROW_WISE}
)
