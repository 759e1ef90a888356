"""Rows of a table that wait, and then catch up with the steps they missed.

`cc/rules/coasting.h` does the same; docs/formulas-sparse.md has the formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional.arithmetic import Scalar

_MOST_SLOTS = 3

# The columns of the matrix `coasting`; `MissedSteps` in coasting.h has them.
COLUMNS = 6 + _MOST_SLOTS

# Of no missed step.
_NONE = (0.0, 1.0, 0.0, 0.0, 1.0, 1.0, *[1.0] * _MOST_SLOTS)


def _stay(epsilon: tf.Tensor, *_: tf.Tensor) -> tf.Tensor:
    return tf.zeros_like(epsilon)


class MissedStep(NamedTuple):
    """What a step does to a row that misses it.

    Attributes:
        decays: The factors of the slots.
        step_size: The factor of the direction.
        direction: Returns the direction for epsilon and the slots; by default
            only decay moves a row.
        ratio: The direction's factor from one missed step to the next.
        epsilon: The direction's epsilon.
        epsilon_growth: The factor by which epsilon grows from step to step,
            compared with the denominator that it is added to.
        moving_slot: The slot with which the direction vanishes.
    """

    decays: Sequence[Scalar]
    step_size: Scalar = 0.0
    direction: Callable[..., tf.Tensor] = _stay
    ratio: Scalar = 1.0
    epsilon: Scalar = 0.0
    epsilon_growth: Scalar = 1.0
    moving_slot: int = 0


def along_first_moment(
    step_size: Scalar,
    epsilon: Scalar,
    beta_1: tf.Tensor,
    beta_2: tf.Tensor,
    *,
    amsgrad: bool = False,
) -> MissedStep:
    """Returns a missed step of Adam's family, in which m moves the variable.

    With AMSGrad, the maximum of the second moment stays.
    """
    root_decay = arithmetic.float64(1.0) if amsgrad else tf.sqrt(beta_2)

    def direction(epsilon, m, v, v_max=None):
        return m / (tf.sqrt(v if v_max is None else v_max) + epsilon)

    return MissedStep(
        [beta_1, beta_2],
        step_size,
        direction,
        ratio=beta_1 / root_decay,
        epsilon=epsilon,
        epsilon_growth=1 / root_decay,
    )


def count(entries: tf.Tensor) -> tf.Tensor:
    """Returns how many entries of the matrix `coasting` are in use."""
    return tf.math.count_nonzero(entries[:, 0], dtype=tf.int32)


def is_full(entries: tf.Tensor) -> tf.Tensor:
    """Returns whether there is no room for another step."""
    return count(entries) >= entries.shape[0]


def has_decayed(entries: tf.Tensor) -> tf.Tensor:
    """Returns whether a row may have missed weight decay."""
    return tf.not_equal(entries[0, 1], 1.0)


def add(
    entries: tf.Tensor, count: tf.Tensor, step: MissedStep, kept: Scalar
) -> tf.Tensor:
    """Returns the matrix `coasting` after one more step that rows missed.

    The matrix, in float64, has one row for each of the `count` steps before
    and zeros after them. `kept` is the factor that weight decay leaves of the
    variable.
    """
    number = tf.range(entries.shape[0])
    is_new = tf.equal(number, count)[:, None]
    entries = tf.where(is_new, tf.constant(_NONE, tf.float64), entries)
    steps, all_kept, moved, epsilons, direction, epsilon_size, *decays = (
        tf.unstack(entries, axis=1)
    )
    step_size, ratio, epsilon, epsilon_growth, kept = map(
        arithmetic.float64,
        (step.step_size, step.ratio, step.epsilon, step.epsilon_growth, kept),
    )
    # Lion's direction keeps its size until the average is zero.
    is_over = tf.equal(decays[step.moving_slot], 0)
    ratio = tf.where(is_over, tf.zeros_like(ratio), ratio)
    direction *= ratio
    epsilon_size *= ratio * epsilon_growth
    own = [arithmetic.float64(x) for x in step.decays]
    own += [arithmetic.float64(1.0)] * (_MOST_SLOTS - len(own))
    columns = [
        steps + 1,
        all_kept * kept,
        kept * moved + step_size * direction,
        kept * epsilons + step_size * (epsilon * epsilon_size),
        direction,
        epsilon_size,
        *(old * new for old, new in zip(decays, own, strict=True)),
    ]
    is_used = (number <= count)[:, None]
    return tf.where(is_used, tf.stack(columns, axis=1), entries)


def coast(
    missed: tf.Tensor,
    step: MissedStep,
    variable: tf.Tensor,
    slots: Sequence[tf.Tensor],
) -> list[tf.Tensor]:
    """Returns rows of a variable and of its slots after their missed steps.

    `missed` has each row's entry of the matrix `coasting`, and `step` is any
    missed step of the rule. The results have the arithmetic type.
    """
    variable = tf.cast(variable, arithmetic.slot_dtype(variable.dtype))
    _, kept, moved, epsilons, _, _, *decays = tf.unstack(missed, axis=1)
    # Any epsilon does if nothing moves; zero would give NaNs.
    stays = tf.equal(moved, 0)
    one = tf.ones_like(moved)
    epsilon = tf.where(stays, one, epsilons / tf.where(stays, one, moved))

    def of_rows(column: tf.Tensor, table: tf.Tensor = variable) -> tf.Tensor:
        return arithmetic.of_rows(tf.cast(column, table.dtype), table)

    slots = [tf.cast(slot, variable.dtype) for slot in slots]
    direction = step.direction(of_rows(epsilon), *slots)
    return [
        of_rows(kept) * variable - of_rows(moved) * direction,
        *(of_rows(x, s) * s for x, s in zip(decays, slots, strict=False)),
    ]
