"""Muon on pure tensors."""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import tensorflow as tf

from tf_opt.python.functional import adam_rule, arithmetic, rule_spec
from tf_opt.python.functional.arithmetic import Scalar, TensorLike
from tf_opt.python.functional.pure_step import pure_step
from tf_opt.python.functional.rule_spec import Number
from tf_opt.python.functional.update import Formula


class MuonResult(NamedTuple):
    """Result of `muon`: the new variable and moments."""

    variable: tf.Tensor
    m: tf.Tensor
    v: tf.Tensor | None = None


def muon(
    variable: TensorLike,
    gradient: TensorLike,
    m: TensorLike,
    v: TensorLike | None = None,
    *,
    step: Scalar,
    learning_rate: Scalar = 1e-3,
    adam_beta_1: Scalar = 0.9,
    adam_beta_2: Scalar = 0.999,
    epsilon: Scalar = 1e-7,
    muon_a: Scalar = 3.4445,
    muon_b: Scalar = -4.7750,
    muon_c: Scalar = 2.0315,
    momentum: Scalar = 0.95,
    ns_steps: int = 5,
    rms_rate: Scalar | None = 0.2,
    weight_decay: Scalar = 0.0,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
    nesterov: bool = True,
    ns_bfloat16: bool = False,
) -> MuonResult:
    r"""Computes one step of Muon on one tensor.

    The last two axes of a real tensor are a matrix, and the others count
    matrices. Scalars, vectors and complex tensors get a step of AdamW.

    Args:
        m: First moment.
        v: For AdamW: second moment.

    Example:

    >>> from tf_opt import functional as f
    >>> new = f.muon([[3.0, 4.0]], [[0.5, 0.5]], m=[[0.0, 0.0]], step=1)
    >>> print(new.variable.numpy().round(4))
    [[2.9999 3.9999]]
    """
    return MuonResult(**pure_step(SPEC, locals()))


_MOST_PRODUCTS = 3
# A product of smaller matrices takes less time than to put its parts together.
_WORTH_HALVING = 256


class Layout(NamedTuple):
    """What of a matrix' sides chooses the computation.

    Attributes:
        is_tall: Whether there are more rows than columns.
        is_long: Whether the longer side is at least half as long again.
        is_large: Whether half of the shorter side is worth a product.
    """

    is_tall: bool
    is_long: bool = False
    is_large: bool = False


def layout_of(shape: tf.TensorShape) -> Layout | None:
    """Returns a matrix' layout; None if its sides aren't known."""
    rows, columns = shape[-2:]
    if rows is None or columns is None:
        return None
    short, long = sorted((rows, columns))
    is_large = short // 2 >= _WORTH_HALVING
    return Layout(rows > columns, 2 * long >= 3 * short, is_large)


def symmetric_product(x: tf.Tensor, y: tf.Tensor, halves: bool) -> tf.Tensor:
    """Multiplies matrices whose product is symmetric.

    With `halves`, it computes three quarters of the product.
    """
    if not halves:
        return tf.matmul(x, y)
    half = tf.shape(x)[-2] // 2
    top = tf.matmul(x[..., :half, :], y)
    right = tf.matmul(x[..., half:, :], y[..., half:])
    left = tf.linalg.matrix_transpose(top[..., half:])
    return tf.concat([top, tf.concat([left, right], axis=-1)], axis=-2)


def orthogonalized(
    x: tf.Tensor,
    a: tf.Tensor,
    b: tf.Tensor,
    c: tf.Tensor,
    steps: int,
    layout: Layout | None,
) -> tf.Tensor:
    """Moves the singular values of matrices near 1.

    A step of Newton and Schulz is P X with P = a I + b A + c A^2, A = X X^T.
    All of these commute, so that A becomes P A P. For long matrices, the
    products of P come first, which are as small as A.
    """
    if layout is None:
        rows, columns = tf.unstack(tf.shape(x)[-2:])
        of = functools.partial(orthogonalized, x, a, b, c, steps)
        tall, wide = (functools.partial(of, Layout(t)) for t in (True, False))
        return tf.cond(rows > columns, tall, wide)
    is_tall, is_long, is_large = layout
    x = tf.linalg.matrix_transpose(x) if is_tall else x
    product_of = functools.partial(symmetric_product, halves=is_large)
    norm = tf.sqrt(tf.reduce_sum(x * x, axis=[-2, -1], keepdims=True))
    x = x / (norm + 1e-7)

    def gram() -> tf.Tensor:
        return product_of(x, tf.linalg.matrix_transpose(x))

    def b_and_c(square: tf.Tensor) -> tf.Tensor:
        return b * square + c * product_of(square, square)

    # In bfloat16, A would hold nothing of small singular values.
    if not is_long or x.dtype == tf.bfloat16:
        for _ in range(steps):
            x = a * x + tf.matmul(b_and_c(gram()), x)
    else:
        for k in range(steps):
            # Rounding errors of A grow with each P.
            if k % _MOST_PRODUCTS == 0:
                square, product = gram(), None
            p = b_and_c(square)
            p = tf.linalg.set_diag(p, tf.linalg.diag_part(p) + a)
            product = p if product is None else product_of(p, product)
            if k == steps - 1 or (k + 1) % _MOST_PRODUCTS == 0:
                x = tf.matmul(product, x)
            else:
                square = product_of(product_of(p, square), p)
    return tf.linalg.matrix_transpose(x) if is_tall else x


def matrix_update(
    *, ns_steps, nesterov, ns_bfloat16, rms_rate, layout=None, **_
) -> Formula:
    """Binds a step's numbers of matrices; the slot is m."""

    def formula(s, p, g, m):
        m = s.momentum * m + g
        x = g + s.momentum * m if nesterov else m
        if ns_bfloat16:
            x = tf.cast(x, tf.bfloat16)
        abc = (tf.cast(k, x.dtype) for k in (s.muon_a, s.muon_b, s.muon_c))
        own = layout or layout_of(x.shape)
        u = tf.cast(orthogonalized(x, *abc, ns_steps, own), p.dtype)
        if rms_rate is not None:
            longer = tf.reduce_max(tf.shape(p)[-2:])
            root = tf.sqrt(arithmetic.float64(longer))
            u = u * (tf.cast(root, p.dtype) * s.rms_rate)
        return p - s.learning_rate * u, m

    return Formula(formula)


def adamw_update(
    *, step, learning_rate, adam_beta_1, adam_beta_2, epsilon, **_
) -> Formula:
    """Binds a step's numbers of other variables; the slots are m and v."""
    betas = {"beta_1": adam_beta_1, "beta_2": adam_beta_2}
    formula = adam_rule.adam_update(
        step=step,
        learning_rate=learning_rate,
        **betas,
        epsilon=epsilon,
        epsilon_hat=True,
    )
    return dataclasses.replace(formula, scalars={**formula.scalars, **betas})


_NUMBERS = [
    rule_spec.STEP,
    rule_spec.LEARNING_RATE,
    Number("adam_beta_1", rule_spec.DECAY_RATE),
    Number("adam_beta_2", rule_spec.DECAY_RATE),
    rule_spec.EPSILON,
    Number("muon_a"),
    Number("muon_b"),
    Number("muon_c"),
    Number("momentum", rule_spec.DECAY_RATE),
    Number("ns_steps", rule_spec.POSITIVE, is_static=True),
    Number("rms_rate", rule_spec.NON_NEGATIVE, may_be_none=True),
    rule_spec.of_optimizer("adam_lr_ratio"),
    rule_spec.of_optimizer("adam_weight_decay", may_be_none=True),
]
_M = dataclasses.replace(rule_spec.FIRST_MOMENT, keras_list="momentums")
_V = dataclasses.replace(rule_spec.SECOND_MOMENT, keras_list="adam_velocities")
_MATRIX = rule_spec.RuleSpec(
    function=muon,
    class_name="Muon",
    op=None,
    update=matrix_update,
    slots=[_M],
    numbers=_NUMBERS,
    modes=["nesterov", "ns_bfloat16"],
    layout_of=layout_of,
)
SPEC = dataclasses.replace(
    _MATRIX,
    op="AdamAmsgrad",
    op_arguments={
        "beta_1": "adam_beta_1",
        "beta_2": "adam_beta_2",
        "epsilon_hat": True,
        "weight_decay": "adam_weight_decay",
    },
    update=adamw_update,
    coasts=True,
    coasts_if_less=("adam_beta_1", "adam_beta_2"),
    slots=[_M, _V],
    other_forms={rule_spec.MATRIX: _MATRIX},
    layout_of=None,
)
