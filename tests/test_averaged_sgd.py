"""What only AveragedSGD has: the step size's lag, and a usable average."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from small_model import assert_close
from torch_trajectory import float64_scalars


@pytest.mark.parametrize(
    ("rates", "lambd", "implementation"),
    [
        (0.5 * 0.75 ** np.arange(12), 0.25, "custom_op"),
        (0.5 * 0.75 ** np.arange(12), 0.25, "composed"),
        # Without decay, whose powers PyTorch rounds to float32 here.
        ([0.0, 0.5, 0.5], 0.0, "custom_op"),
        ([0.5, 0.0, 0.5], 0.0, "custom_op"),
    ],
)
def test_a_changing_learning_rate_acts_one_step_later_as_in_torch(
    rates, lambd, implementation
):
    torch = pytest.importorskip("torch")
    start = np.array([2.0, -1.0])
    arguments = {"lambd": lambd, "t0": 2}
    variable = keras.Variable(start, dtype="float64")
    optimizer = tf_opt.AveragedSGD(
        rates[0], implementation=implementation, **arguments
    )
    parameter = torch.nn.Parameter(torch.tensor(start))
    theirs = torch.optim.ASGD([parameter], foreach=False, **arguments)
    for step, rate in enumerate(rates):
        gradient = np.array([0.5, -0.25]) / (step + 1)
        optimizer.learning_rate = rate
        optimizer.apply([tf.constant(gradient)], [variable])
        theirs.param_groups[0]["lr"] = float(np.float32(rate))
        parameter.grad = torch.tensor(gradient)
        with float64_scalars():
            theirs.step()
        kept = theirs.state[parameter]["ax"].numpy()
        # Our least step size isn't quite 0.
        found = variable, optimizer.variables[2]
        expected = parameter.detach().numpy(), kept
        assert_close(found, expected, rtol=1e-12, atol=1e-300)


def test_the_average_swaps_in_and_out_also_after_an_error():
    with pytest.raises(RuntimeError, match="has not been built"):
        tf_opt.AveragedSGD().swap_in_average()
    assert not tf_opt.Adam().average_is_swapped_in
    with pytest.raises(RuntimeError, match="needs `use_ema=True`"):
        tf_opt.Adam().swap_in_average()
    variable = keras.Variable([0.0], dtype="bfloat16")
    optimizer = tf_opt.AveragedSGD(1.0, lambd=0.0, t0=1)
    for _ in range(5):
        optimizer.apply([tf.constant([-1.0], tf.bfloat16)], [variable])
    assert float(variable.numpy()[0]) == 5
    with pytest.raises(KeyError), optimizer.averaged_weights():
        assert optimizer.average_is_swapped_in
        assert float(variable.numpy()[0]) == 4  # 3 to 5: mu lags a step.
        with pytest.raises(RuntimeError, match="swap_out_average"):
            optimizer.swap_in_average()
        # What is set meanwhile stays, and the average begins there.
        variable.assign([7.0])
        raise KeyError
    assert float(variable.numpy()[0]) == 7
    assert float(optimizer.variables[2].numpy()[0]) == 7
    assert not optimizer.average_is_swapped_in
    with pytest.raises(RuntimeError, match="swap_in_average"):
        optimizer.swap_out_average()
    with pytest.raises(RuntimeError, match="outside of `tf.function`"):
        tf.function(optimizer.swap_in_average)()


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
