"""Random bits and rounding: those of docs/random-bits.md, bit for bit."""

import itertools

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from tf_opt.python.functional import stochastic_rounding as ours
from tf_opt.python.functional import storage_rounding

from op_cases import OPS
from reference import rounding as reference
from trajectory import RUNS

DTYPES = ["bfloat16", "float16"]


@pytest.fixture(params=RUNS.values(), ids=RUNS)
def way(request):
    return request.param


def bits_of(x) -> np.ndarray:
    return np.asarray(x).view(np.uint16)


def numbers(dtype: str, count: int = 4000) -> np.ndarray:
    """Float32 numbers from everywhere, and those where something changes."""
    random = np.random.default_rng(1)
    anywhere = random.integers(0, 2**32, count, np.uint32).view(np.float32)
    scales = 2.0 ** random.integers(-30, 17, count)
    usual = (random.normal(size=count) * scales).astype(np.float32)
    info = ml_dtypes.finfo(reference.TYPES[dtype])
    special = [0, np.inf, np.nan, 65504, 65519.9, 65520, 65536, 2.0**-40, 1e-45]
    special += [info.max, info.tiny, info.smallest_subnormal, 3.3895314e38]
    special = np.array(special, np.float32)
    with np.errstate(all="ignore"):
        around = [np.nextafter(special, np.float32(end)) for end in (-9e9, 9e9)]
    found = np.concatenate([anywhere, usual, special, *around])
    return np.concatenate([found, -found])


@pytest.mark.parametrize(
    ("key", "shape"),
    [
        ((3, 4, 5, 0), ()),
        ((0, 0, 0, 0), (1,)),
        ((1, 2, 3, 5), (31,)),
        ((-7, 2**40, 9, 3), (65,)),
        ((2**63 - 1, 1, 0, 6), (7, 33)),
    ],
)
def test_the_bits_are_those_of_the_formula(key, shape, way):
    expected = reference.all_bits(reference.key(*key), int(np.prod(shape)))
    seed, iteration, variable, stream = key

    def draw(iteration):
        step = ours.key_of_step(seed, iteration)
        return ours.bits_of(ours.key_of_stream(step, variable, stream), shape)

    at = tf.constant(iteration, tf.int64)
    for drawn in (draw(iteration), way(draw)(at)):
        np.testing.assert_array_equal(drawn, expected.reshape(shape))


@pytest.mark.parametrize(
    ("shape", "rows"),
    [
        ((50, 3, 7), [49, 0, 3, 3, 12]),
        # Elements beyond 32 bits have bits of their own.
        ((2**40, 3), [0, 2**31, 2**37 + 5, 2**40 - 1]),
    ],
)
def test_rows_have_the_bits_that_they_have_in_the_whole(shape, rows, way):
    key = reference.key(1, 1, 1, 1)
    width = int(np.prod(shape[1:]))
    expected = [
        [reference.bits(key, row * width + i) for i in range(width)]
        for row in rows
    ]
    drawn = way(lambda rows: ours.bits_of(key, shape, rows))(
        tf.constant(rows, tf.int64)
    )
    np.testing.assert_array_equal(drawn, np.reshape(expected, (-1, *shape[1:])))


@pytest.mark.parametrize("dtype", DTYPES)
def test_rounding_at_random_is_that_of_the_formula(dtype, way):
    x = numbers(dtype)
    random = np.random.default_rng(2)
    type_ = tf.dtypes.as_dtype(dtype)
    rounded = way(lambda x, r: storage_rounding.at_random(x, type_, r))
    for drawn in (
        random.integers(0, 2**16, x.size, np.uint32),
        np.zeros(x.size, np.uint32),
        np.full(x.size, 2**16 - 1, np.uint32),
    ):
        expected = reference.stochastic(x, dtype, drawn)
        found = rounded(tf.constant(x), tf.constant(drawn))
        np.testing.assert_array_equal(bits_of(found), bits_of(expected))


@pytest.mark.parametrize("dtype", DTYPES)
def test_rounding_to_nearest_is_that_of_ml_dtypes(dtype, way):
    x = numbers(dtype)
    type_ = tf.dtypes.as_dtype(dtype)

    found = way(lambda x: storage_rounding.to_nearest(x, type_))(x)
    expected = reference.to_nearest(x, dtype)
    np.testing.assert_array_equal(bits_of(found), bits_of(expected))
    # XLA may leave out a cast to 16 bits and back, and be "more exact".
    back = way(
        lambda x: tf.cast(storage_rounding.to_nearest(x, type_), tf.float32)
    )(x)
    np.testing.assert_array_equal(back, expected.astype(np.float32))


@pytest.mark.kernels
@pytest.mark.parametrize("at_random", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_op_rounds_a_multiple_of_every_number(dtype, at_random):
    every = np.arange(2**16, dtype=np.uint16).view(reference.TYPES[dtype])
    drawn = reference.all_bits(reference.key(4, 5, 6, 0), every.size)

    def flushed(x):  # Of bfloat16's subnormal numbers nothing is left.
        return np.where(np.abs(x) < 2.0**-126, np.copysign(0, x), x)

    # A half makes ties among subnormals, 13/16 and 3/2 everywhere. The others
    # overflow, one of them by less than a float16's last place.
    for factor in np.float32([1, 0.5, 0.8125, 1.0002, 1.5]):
        variable = tf.Variable(every)
        with np.errstate(all="ignore"), tf.device("CPU"):
            expected = flushed(flushed(every.astype(np.float32)) * factor)
            OPS["sgd"].apply(
                variables=[variable],
                gradients=[tf.zeros(every.shape, dtype)],
                learning_rate=1.0,
                step=1,
                # Nothing but decay is left of the step.
                weight_decay=1 - float(factor),
                stochastic_rounding=at_random,
                seed=4,
                iteration=5,
                variable_numbers=6.0,
            )
        expected = (
            reference.stochastic(expected, dtype, drawn)
            if at_random
            else reference.to_nearest(expected, dtype)
        )
        np.testing.assert_array_equal(bits_of(variable), bits_of(expected))


@pytest.mark.kernels
def test_the_op_rounds_a_maximum_to_nearest_and_what_it_is_of_at_random():
    g = np.random.default_rng(2).normal(size=999).astype(np.float32)
    slots = {
        name: tf.Variable(tf.zeros(g.shape, "bfloat16"))
        for name in ("m", "v", "v_max")
    }
    with tf.device("CPU"):
        OPS["adam"].apply(
            variables=[tf.Variable(g)],
            gradients=[g],
            **{name: [slot] for name, slot in slots.items()},
            learning_rate=1.0,
            step=1,
            beta_1=0.0,
            beta_2=0.0,
        )
    nearest = bits_of(reference.to_nearest(g * g, "bfloat16"))
    np.testing.assert_array_equal(bits_of(slots["v_max"]), nearest)
    assert (bits_of(slots["v"]) != nearest).any()


# ---- Statistics. ----

DRAWS = 10**6


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    """In standard errors."""
    return np.mean(a * b) / ((2**32 - 1) / 12) * np.sqrt(a.size)


def test_bits_are_uniform_and_those_of_elements_and_keys_independent():
    mean = (2**16 - 1) / 2
    drawn = [
        np.float64(ours.bits_of(reference.key(*key), [DRAWS])) - mean
        for key in (
            (1, 2, 3, 0),
            (2, 2, 3, 0),
            (1, 3, 3, 0),
            (1, 2, 4, 0),
            (1, 2, 3, 5),
            (1, 2, 3, 6),
        )
    ]
    one = drawn[0]
    drawn_bits = (one + mean).astype(int)
    for byte in (drawn_bits >> 8, drawn_bits & 255):
        expected = DRAWS / 256
        chi_square = np.sum((np.bincount(byte) - expected) ** 2 / expected)
        assert abs(chi_square - 255) < 5 * np.sqrt(2 * 255)
    for distance in (1, 2, 31, 32, 33, 64, 1000, 4096):
        assert abs(_correlation(one[distance:], one[:-distance])) < 5
    for first, second in itertools.combinations(drawn, 2):
        assert abs(_correlation(first, second)) < 5
        assert abs(_correlation(first[1:], second[:-1])) < 5


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_mean_of_what_all_bits_round_to_is_the_number(dtype):
    drawn = np.arange(2**16)
    # The last ones are subnormal float16, or become so.
    for x in np.float32([1, 1.001, -1.3, 3.14159, 6e4, -7e-5, 6.1e-5, -3e-8]):
        found = np.float64(reference.stochastic(x + 0 * drawn, dtype, drawn))
        assert len(np.unique(found)) <= 2
        assert found.mean() == pytest.approx(x, abs=np.ptp(found) * 2**-16)
