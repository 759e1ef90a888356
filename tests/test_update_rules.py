"""Launches, and numbers that are infinite, no numbers or zero.

test_whole_step.py compares rules with NumPy, and bits.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

import trajectory
from beside_numpy import Trained, tensor
from registry import OPTIMIZERS, THOROUGH_MODES, pairwise

DTYPES = ["float16", "bfloat16", "float32", "float64"]
# Both, of which the op also runs on other builds.
implementations = pytest.mark.parametrize(
    "implementation",
    [pytest.param("custom_op", marks=pytest.mark.kernels), "composed"],
)


@pytest.mark.parametrize("in_replicas", [False, True])
def test_one_launch_for_all_variables_of_a_type(in_replicas, device, strategy):
    scope = strategy if in_replicas else tf.distribute.get_strategy()
    with scope.scope():
        optimizer = tf_opt.Adam()
        variables = [
            tf.Variable(tf.ones(3, dtype))
            for dtype in ["float32", "float64"]
            for _ in range(5)
        ]
        optimizer.build(variables)

    def on_replica() -> None:
        optimizer.apply([tf.ones(3, x.dtype) for x in variables], variables)

    step = tf.function(lambda: scope.run(on_replica))
    operations = step.get_concrete_function().graph.get_operations()
    types = [operation.type for operation in operations]
    launches = types.count(optimizer._spec.op_name)
    assert launches == 2 * scope.num_replicas_in_sync


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
    assert stored.tobytes() == np.array([[0.5, -0.0]], "float32").tobytes()


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
    under_test = OPTIMIZERS[name]
    trained = Trained(
        *(name, under_test.modes[mode], {}, [bad.shape], [dtype]),
        implementation=implementation,
    )
    step = trajectory.RUNS[how](trained.apply)
    for number in range(3):
        gradient = trajectory.gradient(bad.shape, number)
        if number == 1:
            gradient[bad] = np.nan
        step([tensor(gradient, trained.variables[0])])
    after = under_test.find_slots(trained.optimizer)
    after["variable"] = trained.variables
    # A batch's row holds its last gradient only.
    for key in [key for key in after if not key.startswith("y")]:
        isnan = np.isnan(after[key][0].numpy().astype(np.float64))
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
