"""Every step, against NumPy in float64 with the same random bits.

A step in float32 and one in float64 are not quite the same number, and near a
boundary of the rounding they may round to different ones. So the expected
number is rounded twice, a little smaller and a little greater: what is stored
must lie between the two, and nearly always the two are one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from low_precision_cases import SETTINGS
from low_precision_cases import masters_of
from low_precision_cases import numbers
from reference import rounding
from reference.storage import AVERAGE
from reference.storage import VARIABLE
from reference.storage import Storage
from registry import OPTIMIZERS
from registry import TWO_MODES
from registry import OptimizerUnderTest
from registry import pairwise
from trajectory import RUNS

pytestmark = pytest.mark.kernels

SHAPES = ((9, 7), (70,), ())
STEPS = 5
# As Keras stores it. With few bits, many results would be ties.
LEARNING_RATE = float(np.float32(0.02))
MOMENTUM = 0.75

CASES = [
    pytest.param(*case, id="-".join(map(str, case)))
    for case in pairwise(
        TWO_MODES,
        ["custom_op", "composed"],
        RUNS,
        ["bfloat16", "float16", "float32", "float64"],
        SETTINGS,
        ["dense", "exact", "lazy"],
        [1, 2],
        [False, True],
        filter_func=lambda case: (
            case[5:6] != ["lazy"]
            or (
                OPTIMIZERS[case[0][0]].has_lazy_mode
                # Averages need exact tables.
                and case[7:] != [True]
            )
        ),
    )
]


def assert_stored(
    found: np.ndarray,
    exact: np.ndarray,
    dtype: str,
    terms: np.ndarray,
    bits: np.ndarray | None,
    what: str,
) -> None:
    """Compares what is stored, in float64, with what should be before rounding.

    The numbers of which it is the sum are of the magnitude `terms`, which is 0
    where it stays as it was. Without random bits it is rounded to nearest.
    """
    unit = 2.0**-53 if dtype == "float64" else 2.0**-24
    slack = 16 * unit * terms
    if dtype in ("float32", "float64"):
        assert (np.abs(found - exact) <= slack).all(), what
        return

    def rounded(x: np.ndarray) -> np.ndarray:
        x = x.astype(np.float32)
        if bits is None:
            return rounding.to_nearest(x, dtype).astype(np.float64)
        stochastic = rounding.stochastic(x, dtype, bits)
        return stochastic.astype(np.float64)

    low, high = rounded(exact - slack), rounded(exact + slack)
    # Where terms cancel there may be numbers between the two.
    wrong = (found < np.minimum(low, high)) | (found > np.maximum(low, high))
    assert not wrong.any(), (what, found[wrong], exact[wrong], low[wrong])
    assert np.mean(low == high) >= 0.75 or low.size < 10, what


def terms_of(
    slot: str,
    before: dict[str, np.ndarray],
    new: dict[str, np.ndarray],
    gradient: np.ndarray,
    arguments: Mapping[str, Any],
) -> np.ndarray:
    """Of what magnitude the numbers are of which a slot is the sum."""
    # Little of the gradient goes into the moments.
    terms = np.abs(before[slot]) + np.abs(new[slot])
    magnitude = np.abs(gradient)
    if not arguments.get("decoupled_weight_decay", True):
        decay = arguments["weight_decay"] * np.abs(before["variable"])
        magnitude = magnitude + decay
        # Unless it is a sum in which the decay cancels it.
        if slot == "m":
            terms = terms + (1 - arguments.get("beta_1", 0.9)) * magnitude
        elif slot in ("v", "v_max"):
            part = 1 - arguments.get("beta_2", 0.999)
            terms = terms + part * magnitude**2
    if slot not in ("m", "v", "v_max"):
        terms = terms + np.abs(gradient) + np.abs(before["variable"])
    # What another batch's row of a table holds is the same array.
    if new[slot] is before[slot]:
        return 0 * terms
    return np.where((new[slot] == before[slot]) & (magnitude == 0), 0, terms)


def reference_step(
    under_test: OptimizerUnderTest,
    arguments: Mapping[str, Any],
    storage: Storage,
    before: dict[str, np.ndarray],
    g: np.ndarray,
    t: int,
) -> dict[str, np.ndarray]:
    """The new variable and slots, before they are rounded."""
    new = under_test.step(
        before, g, t=t, learning_rate=LEARNING_RATE, **arguments
    )
    if "d" not in new:
        return new
    batches = arguments.get("batch_num", 1)
    y, seen = f"y_{(t - 1) % batches}", min(t, batches)
    return storage.asgd(new, y, LEARNING_RATE / seen)


@pytest.mark.parametrize(
    "name, mode, implementation, how, dtype, setting, slices, each, averages",
    CASES,
)
def test_a_step_is_that_of_numpy(
    name, mode, implementation, how, dtype, setting, slices, each, averages
):
    features = dict(SETTINGS[setting])
    if averages:
        features.update(use_ema=True, ema_momentum=MOMENTUM)
    if each > 1:
        features.update(gradient_accumulation_steps=each)
    random = np.random.default_rng(len(setting) + each)
    variables = [
        keras.Variable(random.normal(size=shape), dtype=dtype)
        for shape in SHAPES
    ]
    under_test = OPTIMIZERS[name]
    arguments = under_test.modes[mode]
    optimizer = under_test.make(
        LEARNING_RATE,
        **arguments,
        **features,
        lazy_mode=slices == "lazy",
        implementation="auto" if implementation == "custom_op" else "composed",
    )
    optimizer.build(variables)

    def step(gradients, indices):
        if slices != "dense":
            sparse = tf.IndexedSlices(gradients[0], indices, SHAPES[0])
            gradients = [sparse, *gradients[1:]]
        optimizer.apply(gradients, variables)

    step = RUNS[how](step)
    masters = masters_of(optimizer)
    has_masters = features.get("master_weights") and "16" in dtype
    assert len(masters) == (len(SHAPES) if has_masters else 0)
    moving = optimizer._model_variables_moving_average if averages else None
    slots = under_test.find_slots(optimizer)
    arithmetic = "float64" if dtype == "float64" else "float32"
    state_dtype = features.get("state_dtype", arithmetic)
    types = {
        slot: arithmetic if slot in under_test.exact else state_dtype
        for slot in slots
    }
    storages = [
        Storage(dtype, i, under_test, **SETTINGS[setting])
        for i in range(len(SHAPES))
    ]
    for slot, of_variables in slots.items():
        for found in of_variables:
            assert getattr(found, "table", found).dtype == types[slot]

    for update in range(1, STEPS + 1):
        if update == 3:
            # Somebody sets a part of a variable.
            value = numbers(variables[1])
            value[3:9] = random.normal(size=6)
            variables[1].assign(value)
        before = [
            {"variable": numbers(variable)}
            | {slot: numbers(found[i]) for slot, found in slots.items()}
            for i, variable in enumerate(variables)
        ]
        if has_masters:
            for state, master in zip(before, masters, strict=True):
                rounded = rounding.to_nearest(master.numpy(), dtype)
                state["variable"] = np.where(
                    rounded.astype(np.float64) == state["variable"],
                    numbers(master),
                    state["variable"],
                )
        averages_before = [numbers(x) for x in moving or ()]
        total = [np.zeros(shape) for shape in SHAPES]
        occurs = np.zeros(SHAPES[0][0], bool)
        for micro in range(each):
            rows = np.array([2, 0, 2, 6]) + micro
            # Few digits, so that their sum has no error.
            gradients = [
                np.round(random.normal(size=shape) * 16) / 16
                for shape in ((4, 7), *SHAPES[1:])
            ]
            if slices == "dense":
                gradients[0] = np.round(random.normal(size=SHAPES[0]) * 8) / 8
                total[0] += gradients[0]
            else:
                occurs[rows] = True
                np.add.at(total[0], rows, gradients[0])
            for i in (1, 2):
                total[i] += gradients[i]
            step([tf.constant(g, dtype) for g in gradients], tf.constant(rows))
        iteration = update * each - 1
        for i, variable in enumerate(variables):
            new = reference_step(
                under_test,
                arguments,
                storages[i],
                before[i],
                total[i] / each,
                update,
            )
            found = {"variable": numbers(variable)}
            found |= {slot: numbers(x[i]) for slot, x in slots.items()}
            changed = np.ones(SHAPES[i], bool)
            if i == 0 and slices == "lazy":
                changed = np.broadcast_to(occurs[:, None], SHAPES[0])

            def bits(stream, i=i, iteration=iteration):
                return storages[i].bits(stream, iteration, SHAPES[i])

            for slot in slots:
                assert_stored(
                    found[slot],
                    np.where(changed, new[slot], before[i][slot]),
                    types[slot],
                    changed
                    * terms_of(slot, before[i], new, total[i], arguments),
                    bits(under_test.streams[slot])
                    if slot in under_test.streams
                    else None,
                    f"{slot} of {i} in update {update}",
                )
            exact = np.where(changed, new["variable"], before[i]["variable"])
            terms = changed * (np.abs(before[i]["variable"]) + np.abs(exact))
            if has_masters:
                value = numbers(masters[i])
                assert_stored(value, exact, "float32", terms, None, "master")
                rounded = rounding.to_nearest(value, dtype)
                np.testing.assert_array_equal(
                    found["variable"], rounded.astype(np.float64)
                )
            else:
                value = found["variable"]
                random_bits = None
                if features.get("stochastic_rounding"):
                    random_bits = bits(VARIABLE)
                assert_stored(
                    value, exact, dtype, terms, random_bits, "variable"
                )
            if averages and each == 1:
                momentum = MOMENTUM if update > 1 else 0.0
                average = momentum * averages_before[i] + (1 - momentum) * value
                assert_stored(
                    numbers(moving[i]),
                    average,
                    state_dtype,
                    np.abs(value) + np.abs(averages_before[i]),
                    bits(AVERAGE),
                    f"average of {i} in update {update}",
                )
