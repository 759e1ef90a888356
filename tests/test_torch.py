"""The numbers are PyTorch's: live where it is installed, else as recorded."""

from __future__ import annotations

import importlib.util
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from registry import OPTIMIZERS
from torch_trajectory import LEARNING_RATE
from torch_trajectory import STEPS
from torch_trajectory import TORCH_MODES
from torch_trajectory import State
from torch_trajectory import gradient
from torch_trajectory import initial_value
from torch_trajectory import torch_states

GOLDEN = pathlib.Path(__file__).parent / "golden" / "torch.npz"

# Relative, for each element of variable and slots, over 200 steps. Both sides
# round every step: half a unit in the last place each, 6e-8 and 1e-16, in
# sums that grow like a random walk; at worst 200 times that.
TOLERANCES = {"float32": 2e-6, "float64": 1e-12}


def tf_opt_states(
    name: str, mode: str, dtype: str, implementation: str
) -> list[State]:
    under_test = OPTIMIZERS[name]
    arguments = under_test.modes[mode]
    variable = keras.Variable(initial_value(dtype), dtype=dtype)
    optimizer = under_test.make(
        LEARNING_RATE, implementation=implementation, **arguments
    )
    optimizer.build([variable])
    slots = under_test.find_slots(optimizer)
    apply = tf.function(lambda g: optimizer.apply([g], [variable]))
    states = []
    for step in range(1, STEPS + 1):
        apply(tf.constant(gradient(step, dtype, arguments)))
        states.append(
            {
                "variable": variable.numpy(),
                **{slot: column[0].numpy() for slot, column in slots.items()},
            }
        )
    return states


@pytest.mark.parametrize(
    ("name", "mode", "dtype", "implementation"),
    [
        *((*mode, "float32", "custom_op") for mode in TORCH_MODES),
        *((*mode, "float64", "custom_op") for mode in TORCH_MODES),
        # The same bits, as test_update_rules.py shows.
        *(
            (*mode, list(TOLERANCES)[i % 2], "composed")
            for i, mode in enumerate(TORCH_MODES)
        ),
    ],
)
def test_equals_torch_as_recorded_and_live(
    name: str, mode: str, dtype: str, implementation: str
) -> None:
    states = tf_opt_states(name, mode, dtype, implementation)
    with np.load(GOLDEN) as golden:
        steps = golden["recorded_steps"].tolist()
        recorded = [
            {
                key: golden[f"{name}/{mode}/{dtype}/{key}"][i]
                for key in states[0]
            }
            for i in range(len(steps))
        ]
    assert steps[-1] == STEPS
    comparisons = [*zip(steps, recorded, strict=True)]
    if importlib.util.find_spec("torch"):
        comparisons += enumerate(torch_states(name, mode, dtype), start=1)
    for step, expected in comparisons:
        for key, array in expected.items():
            assert states[step - 1][key].dtype == array.dtype
            np.testing.assert_allclose(
                states[step - 1][key],
                array,
                rtol=TOLERANCES[dtype],
                atol=0,
                err_msg=f"{key} after step {step}",
            )
