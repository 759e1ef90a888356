"""The numbers are PyTorch's, and Paddle's as golden/ has recorded them."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt
from tf_opt.python.conversion.torch_counterparts import COUNTERPARTS

import trajectory
from golden import make_paddle as cases
from registry import OPTIMIZERS, slow
from torch_trajectory import (
    LEARNING_RATE,
    TORCH_MODES,
    float64_scalars,
    gradients,
    in_torch,
    initial_value,
)

# Relative, for each element of variable and slots, over 200 steps. Both sides
# round every step: half a unit in the last place each, 6e-8 and 1e-16, in
# sums that grow like a random walk; at worst 200 times that.
TOLERANCES = {"float32": 2e-6, "float64": 1e-12}


# The other combinations have the same bits, as test_whole_step.py shows.
WAYS = [("custom_op", "float32"), ("composed", "float64")]


@pytest.mark.parametrize(
    ("name", "mode", "implementation", "dtype"),
    [
        (slow if k else pytest.param)(*mode, *WAYS[(i + k) % 2])
        for i, mode in enumerate(TORCH_MODES)
        for k in range(2)
    ],
)
def test_equals_torch(name, mode, dtype, implementation):
    torch = pytest.importorskip("torch")
    under_test = OPTIMIZERS[name]
    arguments = under_test.modes[mode]
    variable = keras.Variable(initial_value(dtype), dtype=dtype)
    optimizer = under_test.make(
        LEARNING_RATE, implementation=implementation, **arguments
    )
    optimizer.build([variable])
    slots = under_test.find_slots(optimizer)
    steps = gradients(dtype, arguments)
    found = trajectory.after_each(
        lambda gradient: optimizer.apply([gradient], [variable]),
        steps,
        {"variable": variable, **{key: slots[key][0] for key in slots}},
    )
    torch_name, arguments = in_torch(name, mode)
    names = COUNTERPARTS[torch_name].slots
    parameter = torch.nn.Parameter(torch.tensor(initial_value(dtype)))
    theirs = getattr(torch.optim, torch_name)(
        [parameter], lr=LEARNING_RATE, foreach=False, **arguments
    )
    for step, gradient in enumerate(steps):
        parameter.grad = torch.tensor(gradient)
        with float64_scalars():
            theirs.step()
        state = theirs.state[parameter]
        expected = {"variable": parameter.detach()}
        expected |= {key: state[names[key]] for key in slots}
        for key, value in expected.items():
            np.testing.assert_allclose(
                *(found[key][step], value.numpy(), TOLERANCES[dtype]),
                err_msg=f"{key}, step {step}",
            )


@pytest.mark.parametrize(("implementation", "dtype"), WAYS)
@pytest.mark.parametrize("name", cases.CASES)
def test_equals_recorded_paddle(name, dtype, implementation):
    case = cases.CASES[name]
    variable = keras.Variable(cases.initial_value(dtype), dtype=dtype)
    optimizer = getattr(tf_opt, case.name)(
        cases.LEARNING_RATE,
        implementation=implementation,
        decoupled_weight_decay=False,
        **case.arguments,
    )
    with np.load(cases.GOLDEN) as golden:
        expected = golden[f"{name}/{dtype}"]
    assert len(expected) == cases.STEPS
    for step, value in enumerate(expected, start=1):
        gradient = tf.constant(cases.gradient(step, dtype))
        optimizer.apply([gradient], [variable])
        np.testing.assert_allclose(
            variable.numpy(),
            value,
            rtol=2e-6 if dtype == "float32" else case.tolerance,
            err_msg=f"step {step}",
        )
