"""The numbers are PyTorch's: live where it is installed, else as recorded."""

from __future__ import annotations

import importlib.util
import pathlib
from collections.abc import Iterable
from collections.abc import Mapping

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

every_case = pytest.mark.parametrize(
    ("name", "mode", "dtype", "implementation"),
    [
        (name, mode, dtype, implementation)
        for name, mode in TORCH_MODES
        for dtype in TOLERANCES
        for implementation in ["custom_op", "composed"]
    ],
)


def tf_opt_states(
    name: str, mode: str, dtype: str, implementation: str
) -> list[State]:
    """The variable and its slots after each step."""
    under_test = OPTIMIZERS[name]
    arguments = under_test.modes[mode]
    variable = keras.Variable(initial_value(dtype), dtype=dtype)
    optimizer = under_test.make(
        LEARNING_RATE, implementation=implementation, **arguments
    )
    optimizer.build([variable])
    slots = under_test.find_slots(optimizer, 1)
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


def assert_equal_states(
    actual: Mapping[int, State], expected: Mapping[int, State], dtype: str
) -> None:
    """Asserts that the states after some steps agree, by step number."""
    assert actual.keys() == expected.keys()
    for step, state in expected.items():
        assert actual[step].keys() == state.keys()
        for key, array in state.items():
            assert actual[step][key].dtype == array.dtype
            np.testing.assert_allclose(
                actual[step][key],
                array,
                rtol=TOLERANCES[dtype],
                atol=0,
                err_msg=f"{key} after step {step}",
            )


def by_number(states: Iterable[State]) -> dict[int, State]:
    """Numbers states from 1."""
    return dict(enumerate(states, start=1))


@every_case
def test_equals_torch_as_recorded_and_live(
    name: str, mode: str, dtype: str, implementation: str
) -> None:
    slots = OPTIMIZERS[name].slots(OPTIMIZERS[name].modes[mode])
    with np.load(GOLDEN) as golden:
        steps = golden["recorded_steps"].tolist()
        recorded = {
            step: {
                key: golden[f"{name}/{mode}/{dtype}/{key}"][i]
                for key in ("variable", *slots)
            }
            for i, step in enumerate(steps)
        }
    assert steps[-1] == STEPS
    states = by_number(tf_opt_states(name, mode, dtype, implementation))
    assert_equal_states({step: states[step] for step in steps}, recorded, dtype)
    if importlib.util.find_spec("torch"):
        expected = by_number(torch_states(name, mode, dtype))
        assert len(expected) == STEPS
        assert_equal_states(states, expected, dtype)
