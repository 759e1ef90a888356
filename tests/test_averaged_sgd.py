"""What only AveragedSGD has: the step size's lag, and a usable average."""

from __future__ import annotations

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

implementations = pytest.mark.parametrize(
    "implementation", ["custom_op", "composed"]
)


@implementations
def test_a_changing_learning_rate_acts_one_step_later_as_in_torch(
    implementation,
):
    torch = pytest.importorskip("torch")
    schedule = keras.optimizers.schedules.ExponentialDecay(0.5, 1, 0.75)
    variable = keras.Variable([2.0, -1.0], dtype="float64")
    optimizer = tf_opt.AveragedSGD(
        schedule, lambd=0.25, t0=2, implementation=implementation
    )
    parameter = torch.nn.Parameter(
        torch.tensor([2.0, -1.0], dtype=torch.double)
    )
    theirs = torch.optim.ASGD(
        [parameter], lr=0.5, lambd=0.25, t0=2, foreach=False
    )
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        for step in range(12):
            gradient = np.array([0.5, -0.25]) / (step + 1)
            optimizer.apply([tf.constant(gradient)], [variable])
            theirs.param_groups[0]["lr"] = float(schedule(step))
            parameter.grad = torch.tensor(gradient)
            theirs.step()
            np.testing.assert_allclose(
                variable.numpy(), parameter.detach().numpy(), rtol=1e-12
            )
            np.testing.assert_allclose(
                optimizer.variables[1].numpy(),
                theirs.state[parameter]["ax"].numpy(),
                rtol=1e-12,
            )
    finally:
        torch.set_default_dtype(default)


def trained() -> tuple[keras.Variable, tf_opt.AveragedSGD]:
    """A variable that went from 0 to 5 in five steps."""
    variable = keras.Variable([0.0], dtype="bfloat16")
    optimizer = tf_opt.AveragedSGD(1.0, lambd=0.0, t0=1)
    for _ in range(5):
        optimizer.apply([tf.constant([-1.0], tf.bfloat16)], [variable])
    return variable, optimizer


def test_the_average_swaps_in_and_out():
    with pytest.raises(RuntimeError, match="has not been built"):
        tf_opt.AveragedSGD().swap_in_average()
    variable, optimizer = trained()
    assert float(variable.numpy()[0]) == 5
    with optimizer.averaged_weights():
        assert optimizer.average_is_swapped_in
        assert float(variable.numpy()[0]) == 4  # 3 to 5: mu lags a step.
        with pytest.raises(RuntimeError, match="swap_out_average"):
            optimizer.swap_in_average()
        with pytest.raises(RuntimeError, match="swap_out_average"):
            optimizer.apply([tf.ones(1, tf.bfloat16)], [variable])
    assert float(variable.numpy()[0]) == 5
    assert not optimizer.average_is_swapped_in
    with pytest.raises(RuntimeError, match="swap_in_average"):
        optimizer.swap_out_average()


def test_the_average_comes_out_also_after_an_error():
    variable, optimizer = trained()
    with pytest.raises(KeyError), optimizer.averaged_weights():
        raise KeyError
    assert float(variable.numpy()[0]) == 5


def test_a_function_that_built_the_optimizer_raises_too():
    variable = keras.Variable([1.0])
    optimizer = tf_opt.AveragedSGD(0.5)

    @tf.function
    def step() -> None:
        optimizer.apply([tf.constant([1.0])], [variable])

    step()
    with optimizer.averaged_weights():
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="swap_out_average"
        ):
            step()
    with pytest.raises(RuntimeError, match="outside of `tf.function`"):
        tf.function(optimizer.swap_in_average)()


@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("steps", [0, 1, 7])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_swapping_changes_nothing(dtype, steps, rate):
    variable = keras.Variable([0.1, -0.7], dtype=dtype)
    optimizer = tf_opt.AveragedSGD(rate, t0=2)
    optimizer.build([variable])
    for step in range(steps):
        gradient = tf.constant([1 / (step + 3), 0.1], dtype)
        optimizer.apply([gradient], [variable])
    before = [v.numpy() for v in [variable, *optimizer.variables]]
    with optimizer.averaged_weights():
        assert optimizer.average_is_swapped_in
        np.testing.assert_array_equal(
            variable,
            optimizer.variables[2].numpy()
            if steps == 0
            else before[3].astype(dtype),
        )
    if steps == 0:
        # Then the average begins: as the variable.
        before[3] = before[0].astype(before[3].dtype)
    for known, v in zip(before, [variable, *optimizer.variables], strict=True):
        np.testing.assert_array_equal(v, known)


def test_what_is_set_while_the_average_is_in_place_is_the_average():
    variable, optimizer = trained()
    optimizer.swap_in_average()
    variable.assign([7.0])
    optimizer.swap_out_average()
    assert float(variable.numpy()[0]) == 5
    assert float(optimizer.variables[2].numpy()[0]) == 7


@pytest.mark.parametrize("in_graph", [False, True], ids=["eager", "graph"])
@implementations
def test_averages_begin_as_what_the_variables_are_then(
    implementation, in_graph
):
    variables = [keras.Variable([3.0]), keras.Variable([4.0])]
    optimizer = tf_opt.AveragedSGD(
        0.5, lambd=0.0, t0=0, implementation=implementation
    )
    optimizer.build(variables)

    def step() -> None:  # The second never has a gradient.
        optimizer.apply([tf.constant([1.0])], variables[:1])

    if in_graph:
        step = tf.function(step)
        step.get_concrete_function()
    variables[0].assign([5.0])
    variables[1].assign([6.0])
    with optimizer.averaged_weights():
        assert variables[0].numpy() == [5.0]
        assert variables[1].numpy() == [6.0]
    for _ in range(3):
        step()
    with optimizer.averaged_weights():
        # 4.5, 4.0 and 3.5, of which the average is of the last two.
        assert variables[0].numpy() == [3.75]
        assert variables[1].numpy() == [6.0]


REPLICAS = """
import keras, tensorflow as tf, tf_opt

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2,
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    variables = [keras.Variable([0.0]), keras.Variable([1.0])]
    optimizer = tf_opt.AveragedSGD(1.0, lambd=0.0, t0=1)
    optimizer.build(variables)
variables[1].assign([2.0])

@tf.function
def step():
    strategy.run(
        lambda: optimizer.apply([tf.constant([-0.5])], variables[:1])
    )

for _ in range(5):
    step()
with optimizer.averaged_weights():
    print([float(v.numpy()[0]) for v in variables])
    try:
        step()
    except tf.errors.InvalidArgumentError as error:
        print("swap_out_average" in str(error))
for variable in variables:
    copies = strategy.experimental_local_results(variable.value)
    print([float(copy.numpy()[0]) for copy in copies])
print(int(optimizer.iterations.numpy()))
"""


def test_replicas_swap_and_raise():
    # In a process of its own: after an error in one of its functions
    # TensorFlow sums nothing over replicas any more.
    result = subprocess.run(
        [sys.executable, "-c", REPLICAS],
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "[4.0, 2.0]",
        "True",
        "[5.0, 5.0]",
        "[2.0, 2.0]",
        "5",
    ]


def test_the_first_step_may_be_compiled_by_xla():
    x = np.ones((8, 4), "float32")
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(tf_opt.AveragedSGD(0.1), "mse", jit_compile=True)
    before = model.get_weights()[0]
    model.fit(x, x[:, :1], verbose=0)
    assert (model.get_weights()[0] != before).all()


def test_iterations_that_were_set_before_the_first_step():
    variable, untouched = tf.Variable([1.0]), tf.Variable([3.0])
    optimizer = tf_opt.AveragedSGD(0.5, lambd=0.0)
    optimizer.build([variable, untouched])
    optimizer.iterations.assign(1000)
    for expected in ([0.5], [0.0]):
        optimizer.apply([tf.ones(1), None])
        np.testing.assert_array_equal(variable.numpy(), expected)
    with optimizer.averaged_weights():
        assert untouched.numpy() == [3.0]


def test_before_training_the_average_is_the_variable():
    with pytest.raises(RuntimeError, match="has not been built"):
        tf_opt.AveragedSGD().swap_in_average()
    variables = [keras.Variable([3.0]), keras.Variable([4.0])]
    optimizer = tf_opt.AveragedSGD(0.5, t0=0)
    optimizer.build(variables)
    for _ in range(3):  # The second never has a gradient.
        optimizer.apply([tf.constant([1.0])], variables[:1])
    with optimizer.averaged_weights():
        assert variables[1].numpy() == [4.0]
        assert variables[0].numpy() != [3.0]


@pytest.mark.parametrize("rates", [(0.0, 0.5, 0.5), (0.5, 0.0, 0.5)])
def test_a_learning_rate_of_zero_lags_a_step_as_in_pytorch(rates):
    torch = pytest.importorskip("torch")
    parameter = torch.nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    # Without decay, whose powers PyTorch rounds to float32.
    theirs = torch.optim.ASGD(
        [parameter], lr=rates[0], lambd=0.0, foreach=False
    )
    variable = tf.Variable([1.0], dtype=tf.float64)
    ours = tf_opt.AveragedSGD(rates[0], lambd=0.0)
    for rate in rates:
        theirs.param_groups[0]["lr"] = rate
        parameter.grad = torch.ones(1, dtype=torch.float64)
        theirs.step()
        ours.learning_rate = rate
        ours.apply([tf.ones(1, tf.float64)], [variable])
        # Our least step size isn't quite 0.
        np.testing.assert_allclose(
            variable.numpy(), parameter.detach().numpy(), rtol=0, atol=1e-300
        )
