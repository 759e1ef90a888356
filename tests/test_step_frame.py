"""What ops check of a `StepFrame`; test_features.py is about its numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from devices import refusal

pytestmark = pytest.mark.kernels

# Of the frame's numbers: what is wrong, and what the message says of it.
WRONG_NUMBERS: dict[str, tuple[dict[str, Any], str]] = {
    "no bound": (
        {"clip_value": float("nan")},
        "`clip_value` must be >= 0, got -?nan",
    ),
    "a negative bound": (
        {"clip_value": -1.0},
        "`clip_value` must be >= 0, got -1",
    ),
    "more than all of an average": (
        {"ema_momentum": 1.5},
        r"`ema_momentum` must be in \[0, 1\], got 1.5",
    ),
    "nothing to accumulate in": (
        {"update": False},
        "`accumulators` must hold one variable for each gradient where "
        "`update` is false, got none",
    ),
}


@pytest.mark.parametrize("in_graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("wrong", WRONG_NUMBERS)
def test_a_wrong_number_is_named_and_nothing_is_written(
    wrong, in_graph, device, capfd
):
    change, message = WRONG_NUMBERS[wrong]
    p, m, v, average = variables = [
        tf.Variable([1.0, 2.0, 3.0]) for _ in range(4)
    ]
    frame = tf_opt.ops.StepFrame(
        averages=[average], **{"ema_momentum": 0.5, **change}
    )

    def step() -> None:
        tf_opt.ops.resource_apply_adam_amsgrad(
            [p], [m], [v], [tf.constant([0.5, -0.5, 4.0])], step=1, frame=frame
        )

    with refusal(device, message, capfd, is_of_a_number=True):
        (tf.function(step) if in_graph else step)()
    for variable in variables:
        np.testing.assert_array_equal(variable.numpy(), [1.0, 2.0, 3.0])
