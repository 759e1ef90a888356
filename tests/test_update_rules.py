"""The same bits from both implementations, and in any launch and processor.

test_whole_step.py compares them with NumPy.
"""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

import trajectory
from registry import MODES
from registry import OPTIMIZERS
from registry import THOROUGH_MODES
from registry import pairwise

SHAPES = [(0,), (), (3,), (17,), (17, 241)]
FOR_SEVERAL_THREADS = (100_001,)
DTYPES = ["float16", "bfloat16", "float32", "float64"]
# Both, of which the op also runs on other builds.
implementations = pytest.mark.parametrize(
    "implementation",
    [pytest.param("custom_op", marks=pytest.mark.kernels), "composed"],
)


def bits(numbers: np.ndarray) -> bytes:
    # The ops choose one NaN; TensorFlow leaves the choice to the processor.
    return np.where(np.isnan(numbers), np.nan, numbers).tobytes()


def assert_same_bits(
    actual: list[trajectory.State], expected: list[trajectory.State]
) -> None:
    for i, (got, wanted) in enumerate(zip(actual, expected, strict=True)):
        assert got.keys() == wanted.keys()
        for name in wanted:
            assert got[name].dtype == wanted[name].dtype
            assert bits(got[name]) == bits(wanted[name]), (
                f"{name} of variable {i} differs"
            )


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_one_launch_for_all_variables_of_a_type(name, device):
    under_test = OPTIMIZERS[name]
    optimizer = under_test.make(implementation="custom_op")
    variables = [
        tf.Variable(tf.ones(3, dtype))
        for dtype in ["float32", "float64"]
        for _ in range(5)
    ]
    optimizer.build(variables)
    step = tf.function(lambda: optimizer.apply(variables, variables))
    operations = step.get_concrete_function().graph.get_operations()
    types = [operation.type for operation in operations]
    assert types.count(under_test.spec.op_name) == 2


def with_special_numbers(gradient: np.ndarray, number: int) -> np.ndarray:
    """Puts infinities and zeros into the gradient of the third step."""
    if number == 3:
        for i, special in enumerate([np.inf, -np.inf, 0.0, -0.0]):
            gradient.flat[i::9] = special
    return gradient


FEATURES = {
    "clipvalue": 0.5,
    "loss_scale_factor": 3.0,
    "use_ema": True,
    "ema_momentum": 0.9,
    "ema_overwrite_frequency": 2,
    "gradient_accumulation_steps": 2,
}


@pytest.mark.kernels
@pytest.mark.parametrize(
    ("name", "mode", "dtype", "features"),
    [
        *((*mode, DTYPES[i % 4], {}) for i, mode in enumerate(MODES)),
        *(
            pytest.param(
                *(*mode, dtype, FEATURES),
                marks=[] if k == i % 4 else [pytest.mark.slow],
            )
            for i, mode in enumerate(THOROUGH_MODES)
            for k, dtype in enumerate(DTYPES)
        ),
    ],
)
def test_both_implementations_agree_bit_for_bit_in_eager_mode(
    name, mode, dtype, features
):
    shapes = [*SHAPES]
    if name == "Adam" and features:
        shapes.append(FOR_SEVERAL_THREADS)
    # On a GPU, TensorFlow's square roots and powers have other last bits.
    with tf.device("CPU:0"):
        states = {
            implementation: trajectory.last(
                name,
                mode,
                dtype,
                shapes,
                implementation=implementation,
                steps=6,
                change_gradient=with_special_numbers,
                **features,
            )
            for implementation in ["custom_op", "composed"]
        }
    assert_same_bits(states["custom_op"], states["composed"])


@pytest.mark.kernels
@pytest.mark.parametrize(
    "decay",
    [
        {"weight_decay": 0.0},
        {"weight_decay": tf.Variable(0.0)},
        {"weight_decay": 0.1, "weight_decay_multipliers": {".": 0.0}},
    ],
)
def test_an_l2_decay_of_zero_changes_no_gradient(decay, implementation):
    variable = keras.Variable([np.inf, 1.0])
    optimizer = tf_opt.ASGD(
        batch_num=1,
        decoupled_weight_decay=False,
        implementation=implementation,
        **decay,
    )
    optimizer.apply([tf.constant([0.5, -0.0])], [variable])
    # What the step stored of the gradient.
    stored = optimizer.variables[3].numpy()
    assert bits(stored) == bits(np.array([0.5, -0.0], "float32"))


@pytest.mark.parametrize(
    ("name", "mode", "dtype", "how", "implementation"),
    pairwise(
        THOROUGH_MODES,
        DTYPES,
        trajectory.RUNS,
        ["custom_op", "composed"],
        filter_func=lambda case: case[2:] != ["jit_compile", "custom_op"],
    ),
)
def test_nan_in_a_gradient_reaches_the_variable_and_stays_in_its_slots(
    name, mode, dtype, how, implementation, device
):
    # Whole vectors of them and the loop's tail; a maximum may drop a NaN.
    bad = np.zeros(37, bool)
    bad[[3, 20, 36]] = True
    (after,) = trajectory.last(
        name,
        mode,
        dtype,
        [bad.shape],
        how=how,
        implementation=implementation,
        steps=3,
        change_gradient=lambda g, number: (
            np.where(bad, g.dtype.type(np.nan), g) if number == 2 else g
        ),
    )
    # A batch's row holds its last gradient only.
    for key in [key for key in after if not key.startswith("y")]:
        isnan = np.isnan(after[key].astype(np.float64))
        np.testing.assert_array_equal(isnan, bad, err_msg=key)


@implementations
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_infinite_learning_rate_without_decay_is_no_nan(
    name, implementation, device
):
    own = {"AveragedSGD": {"lambd": 0.0}, "ASGD": {"batch_num": 1}}
    # Known to be 0 while a step is traced, and not.
    for no_decay in (0.0, tf.Variable(0.0)):
        optimizer = OPTIMIZERS[name].make(
            lambda: tf.constant(np.inf),
            weight_decay=no_decay,
            implementation=implementation,
            **own.get(name, {}),
        )
        variable = tf.Variable([1.0, 2.0])
        optimizer.apply([tf.constant([3.0, -4.0])], [variable])
        assert variable.numpy().tolist() == [-np.inf, np.inf]


@implementations
def test_a_variance_that_rounding_made_negative_is_zero(implementation, device):
    variable = tf.Variable([1.0])
    optimizer = tf_opt.RMSprop(
        0.5, centered=True, implementation=implementation
    )
    optimizer.build([variable])
    (average,) = OPTIMIZERS["RMSprop"].find_slots(optimizer)["average_gradient"]
    average.assign([4.0])  # Its square is more than the average of squares.
    optimizer.apply([tf.constant([0.0])], [variable])
    assert variable.numpy() == [1.0]
