"""What ops check under jit_compile=True: all of it, before they write.

A launch is several calls there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tf_opt.python.ops.measure_gradients import measure_gradients

from op_cases import OPS
from xla_kernels import needs_xla_kernels

pytestmark = needs_xla_kernels

XLA = tf.function(jit_compile=True)
# One more than a call updates.
COUNT = 33
WAYS = {"eager": lambda f: f, "compiled": XLA}
MUST_BE_INTEGERS = r"`variable_numbers` must be integers in \[-2\^53, 2\^53\]"


def lists_of_asgd(
    rows_of_last: int,
) -> tuple[list[tf.Variable], list[tf.Variable], list[tf.Variable]]:
    rows = [4] * (COUNT - 1) + [rows_of_last]
    return (
        [tf.Variable([1.0, 2.0]) for _ in rows],
        [tf.Variable([0.0, 0.0]) for _ in rows],
        [tf.Variable(tf.zeros((n, 2))) for n in rows],
    )


@pytest.mark.parametrize(
    ("rows", "batch_index", "last_number", "message"),
    [
        (2, 3, 0.0, r"`batch_index` must be in \[0, 2\).*got 3"),
        *(
            (4, 3, number, MUST_BE_INTEGERS)
            for number in (0.5, 2.0**60, -(2.0**54), np.inf)
        ),
    ],
)
@pytest.mark.parametrize("way", WAYS)
def test_what_is_wrong_with_the_last_variable_stops_all(
    way, rows, batch_index, last_number, message
):
    lists = lists_of_asgd(rows)
    before = [x.numpy() for each in lists for x in each]

    @WAYS[way]
    def step(batch_index: tf.Tensor, numbers: tf.Tensor) -> None:
        OPS["asgd"].apply(
            **dict(zip(("variables", "d", "y"), lists, strict=True)),
            gradients=[tf.ones(2)] * COUNT,
            batch_index=batch_index,
            seen_batches=1,
            variable_numbers=numbers,
        )

    numbers = np.zeros(COUNT)
    numbers[-1] = last_number
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        step(tf.constant(batch_index, tf.int64), tf.constant(numbers))
    after = [x.numpy() for each in lists for x in each]
    for a, b in zip(after, before, strict=True):
        np.testing.assert_array_equal(a, b)
    numbers[-1] = 2.0**53
    step(tf.constant(1, tf.int64), tf.constant(numbers))
    assert all((x.numpy() != [1.0, 2.0]).all() for x in lists[0])


@pytest.mark.parametrize("way", WAYS)
def test_slots_of_the_last_variable_of_two_types_stop_all(way):
    p, m, v = ([tf.Variable([1.0]) for _ in range(COUNT)] for _ in range(3))
    v[-1] = tf.Variable(tf.ones(1, tf.bfloat16))

    @WAYS[way]
    def step() -> None:
        OPS["adam"].apply(
            variables=p, m=m, v=v, gradients=[tf.ones(1)] * COUNT, step=1
        )

    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"`v\[32\]` must have the type of `m\[32\]`",
    ):
        step()
    assert all(x.numpy() == 1.0 for x in p)


@pytest.mark.parametrize("way", WAYS)
def test_a_variable_without_elements_is_checked_too(way):
    p, d = (tf.Variable(tf.zeros(0)) for _ in range(2))
    y = tf.Variable(tf.zeros((4, 0)))

    @WAYS[way]
    def step(batch_index: tf.Tensor) -> None:
        OPS["asgd"].apply(
            variables=[p],
            d=[d],
            y=[y],
            gradients=[tf.zeros(0)],
            batch_index=batch_index,
            seen_batches=1,
        )

    step(tf.constant(3, tf.int64))
    with pytest.raises(tf.errors.InvalidArgumentError, match="`batch_index`"):
        step(tf.constant(9, tf.int64))


def chosen_columns(values: tf.Tensor, chosen: tf.Tensor) -> tf.Tensor:
    return tf.boolean_mask(values, chosen, axis=1)


@pytest.mark.parametrize("scale", [1.0, np.inf])
@pytest.mark.parametrize("choose", [tf.boolean_mask, chosen_columns])
@pytest.mark.parametrize("chosen", [[], [0, 3], [0, 1, 2, 3]])
def test_what_is_not_there_is_not_measured(
    chosen, choose: Callable[..., Any], scale
):
    values = tf.reshape(tf.range(1.0, 17.0), (4, 4))
    mask = tf.constant(np.isin(np.arange(4), chosen))

    def measure(mask: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return tuple(
            measure_gradients([choose(values, mask)], gradient_scale=scale)
        )

    (square,), (finite,) = (x.numpy() for x in XLA(measure)(mask))
    (expected,), (is_finite,) = (x.numpy() for x in measure(mask))
    assert finite == is_finite
    if choose is tf.boolean_mask or not chosen or np.isfinite(scale):
        assert square == expected
    else:
        assert not np.isfinite(square)


def test_an_accumulator_may_be_measured_once():
    a = tf.Variable([1.0])
    measure = XLA(lambda: measure_gradients([tf.ones(1)] * 2, [a, a]))
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"`accumulators\[0\]` and `accumulators\[1\]` are the same",
    ):
        measure()
