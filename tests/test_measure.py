"""What is measured of gradients: by the custom op and composed."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt
from tf_opt.python.ops.calls import measure_gradients as custom_op
from tf_opt.python.ops.calls import variable_group

from op_cases import never_assigned
from trajectory import RUNS

pytestmark = pytest.mark.kernels

composed = tf_opt.functional.measure_gradients

DTYPES = [tf.float16, tf.bfloat16, tf.float32, tf.float64]
# Neither float32 nor a 16-bit float holds it.
SCALE = 0.3
# Around the lanes and tiles of the engines; empty, scalar, of many dimensions.
SHAPES = [
    (),
    (0,),
    (1,),
    (127,),
    (128,),
    (513,),
    (8191,),
    (2, 4096),
    (8193,),
    (0, 3),
    (3, 5, 7),
    (200, 300),
    (1100000,),
]

every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
both = pytest.mark.parametrize("measure", [custom_op, composed])


def accumulator_dtype(dtype: tf.DType) -> tf.DType:
    return tf.float64 if dtype == tf.float64 else tf.float32


def drawn(
    shapes: list[tuple[int, ...]], dtype: tf.DType
) -> tuple[list[tf.Tensor], list[tf.Variable]]:
    """Gradients and what was accumulated."""
    random = np.random.default_rng(5)
    gradients, accumulated = (
        [tf.cast(random.standard_normal(shape), each) for shape in shapes]
        for each in (dtype, accumulator_dtype(dtype))
    )
    return gradients, list(map(tf.Variable, accumulated))


@both
@pytest.mark.parametrize("accumulated", [False, True])
@every_dtype
def test_equals_numpy(dtype, accumulated, measure, device):
    gradients, accumulators = drawn(SHAPES, dtype)
    accumulators = accumulators if accumulated else ()
    measures = measure(gradients, accumulators, gradient_scale=SCALE)
    assert measures.sums_of_squares.dtype == tf.float64
    # In the type that they are computed in.
    exact = accumulator_dtype(dtype).as_numpy_dtype
    values = [exact(SCALE) * g.numpy().astype(exact) for g in gradients]
    if accumulated:
        values = [
            x + a.numpy() for x, a in zip(values, accumulators, strict=True)
        ]
    expected = [
        math.fsum(np.square(x, dtype=np.float64).ravel()) for x in values
    ]
    # No more roundings than a sum of a million squares, one after the other,
    # could come to; TensorFlow's own sum is free in its order.
    np.testing.assert_allclose(measures.sums_of_squares, expected, rtol=1e-12)
    assert measures.finite.numpy().all()


@both
@every_dtype
def test_what_is_not_finite(dtype, measure, device):
    # Of three tiles.
    shapes = [(20000,)] * 4
    for at in (0, 130, 8191, 9000, 19999):
        for special in (math.inf, -math.inf, math.nan):
            gradients, accumulators = drawn(shapes, dtype)
            gradient = gradients[1].numpy()
            gradient[at] = special
            gradients[1] = tf.constant(gradient)
            accumulators[2][at].assign(special)
            measures = measure(gradients, accumulators)
            finite = [True, False, False, True]
            assert measures.finite.numpy().tolist() == finite
            sums = measures.sums_of_squares.numpy()
            assert np.isfinite(sums).tolist() == finite
            assert np.isnan(sums[1]) == np.isnan(special)


LARGEST = float(np.finfo(np.float32).max)


@both
@pytest.mark.parametrize(
    ("values", "scale", "expected", "finite"),
    [
        # The squares needn't be finite.
        (np.full(700, 1e200), 1.0, math.inf, True),
        (np.eye(1, 700, 333)[0] * -1e308, 1.0, math.inf, True),
        (np.full(1000, LARGEST, "f"), 1.0, 1000 * LARGEST**2, True),
        (np.full(10, 1e38, "f"), 1e3, math.inf, False),
    ],
)
def test_large_numbers(values, scale, expected, finite, measure, device):
    measures = measure([tf.constant(values)], gradient_scale=scale)
    np.testing.assert_allclose(measures.sums_of_squares, expected, rtol=1e-12)
    assert measures.finite.numpy().tolist() == [finite]


@both
@pytest.mark.parametrize(
    ("make", "make_scale"),
    [
        (bool, float),
        (np.bool_, np.float32),
        (tf.constant, tf.constant),
        (tf.Variable, keras.Variable),
    ],
    ids=["Python", "NumPy", "tensor", "variable"],
)
def test_a_scale_and_whether_it_is_enabled(make, make_scale, measure, device):
    gradients = [tf.constant([3.0, 4.0]), tf.constant([math.nan])]
    enabled, disabled = make(True), make(False)  # noqa: FBT003
    scale = make_scale(0.5)

    def run(enabled):
        return measure(gradients, gradient_scale=scale, enabled=enabled)

    for call in (run, tf.function(run)):
        measures = call(enabled)
        np.testing.assert_array_equal(
            measures.sums_of_squares, [6.25, math.nan]
        )
        assert measures.finite.numpy().tolist() == [True, False]
        measures = call(disabled)
        assert measures.sums_of_squares.numpy().tolist() == [0, 0]
        assert measures.finite.numpy().tolist() == [True, True]


@both
def test_accumulators_are_read_in_order_and_never_written(measure, device):
    accumulator = tf.Variable([3.0, 4.0])
    zero = tf.zeros(2)

    @tf.function
    def run():
        before = measure([zero], [accumulator]).sums_of_squares
        accumulator.assign([6.0, 8.0])
        between = measure([zero], [accumulator]).sums_of_squares
        accumulator.assign([0.0, 1.0])
        return before, between, measure([zero], [accumulator]).sums_of_squares

    assert [x.numpy().tolist() for x in run()] == [[25], [100], [1]]
    assert accumulator.numpy().tolist() == [0, 1]


# Accumulators of two gradients, and what the message must say of them.
WRONG = {
    "shape": (
        lambda right: [right[0], tf.Variable(tf.zeros(5))],
        r"`accumulators\[1\]` must have the shape of "
        r"`gradients\[1\]`, \[4\], got \[5\]",
    ),
    "type": (
        lambda right: [tf.Variable(tf.zeros(4, tf.float64)), right[1]],
        r"`accumulators\[0\]` must be a variable of float, got double",
    ),
    "a group of too few": (
        lambda right: [variable_group(right[:1], "CPU:0")],
        "`accumulators` must .*one variable for each of the 2 .*got 1",
    ),
    "the same twice": (
        lambda right: [right[0]] * 2,
        r"`accumulators\[0\]` and `accumulators\[1\]` are the same variable",
    ),
    "never assigned": (
        lambda right: [right[0], never_assigned((4,))],
        r"`accumulators\[1\]`.* is not an initialized variable",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_argument_is_named(wrong, how, device):
    change, message = WRONG[wrong]
    gradients, right = drawn([(4,), (4,)], tf.float32)
    accumulators = change(right)
    with pytest.raises(
        (tf.errors.InvalidArgumentError, tf.errors.FailedPreconditionError),
        match=message,
    ):
        RUNS[how](lambda: custom_op(gradients, accumulators))()
