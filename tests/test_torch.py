"""The numbers are PyTorch's, as recorded by golden/make_torch_golden.py.

test_torch_conversion.py compares with the PyTorch that is installed.
"""

from __future__ import annotations

import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from registry import OPTIMIZERS
from torch_trajectory import LEARNING_RATE
from torch_trajectory import STEPS
from torch_trajectory import TORCH_MODES
from torch_trajectory import gradient
from torch_trajectory import initial_value

GOLDEN = pathlib.Path(__file__).parent / "golden" / "torch.npz"

# Relative, for each element of variable and slots, over 200 steps. Both sides
# round every step: half a unit in the last place each, 6e-8 and 1e-16, in
# sums that grow like a random walk; at worst 200 times that.
TOLERANCES = {"float32": 2e-6, "float64": 1e-12}


@pytest.mark.parametrize(
    ("implementation", "dtype"),
    # The other combinations have the same bits, as test_update_rules.py shows.
    [("custom_op", "float32"), ("composed", "float64")],
)
@pytest.mark.parametrize(("name", "mode"), TORCH_MODES)
def test_equals_torch_as_recorded(
    name: str, mode: str, dtype: str, implementation: str
) -> None:
    under_test = OPTIMIZERS[name]
    arguments = under_test.modes[mode]
    variable = keras.Variable(initial_value(dtype), dtype=dtype)
    optimizer = under_test.make(
        LEARNING_RATE, implementation=implementation, **arguments
    )
    optimizer.build([variable])
    columns = {"variable": [variable], **under_test.find_slots(optimizer)}
    apply = tf.function(lambda g: optimizer.apply([g], [variable]))
    with np.load(GOLDEN) as golden:
        recorded = golden["recorded_steps"].tolist()
        assert recorded[-1] == STEPS
        expected = {
            key: golden[f"{name}/{mode}/{dtype}/{key}"] for key in columns
        }
    for step in range(1, STEPS + 1):
        apply(tf.constant(gradient(step, dtype, arguments)))
        if step not in recorded:
            continue
        for key, (found,) in columns.items():
            np.testing.assert_allclose(
                found.numpy(),
                expected[key][recorded.index(step)],
                rtol=TOLERANCES[dtype],
                atol=0,
                err_msg=f"{key} after step {step}",
            )
