"""Rules by which nothing changes where there is no gradient."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from registry import MODES
from registry import OPTIMIZERS

ROWS, WIDTH = 50, 6
RATE = 0.25


def _variable(seed: int = 0) -> keras.Variable:
    rng = np.random.default_rng(seed)
    return keras.Variable(rng.normal(size=(ROWS, WIDTH)), dtype="float32")


def _slices(step: int) -> tf.IndexedSlices:
    """A gradient in which rows repeat."""
    rng = np.random.default_rng(step)
    ids = rng.integers(0, 9, 20)
    values = rng.normal(size=(20, WIDTH)).astype("float32")
    return tf.IndexedSlices(*map(tf.constant, (values, ids, (ROWS, WIDTH))))


@pytest.mark.parametrize(("name", "mode"), MODES)
def test_a_rule_says_whether_anything_changes(name: str, mode: str) -> None:
    under_test = OPTIMIZERS[name]
    arguments = {**under_test.modes[mode], "weight_decay": 0.0}
    for implementation in ("custom_op", "composed"):
        optimizer = under_test.make(
            RATE, **arguments, implementation=implementation
        )
        variable = _variable()
        optimizer.build([variable])
        slots = [x for slot in optimizer._state.slots for x in slot]
        stays, moved = True, False
        for gradient in (0.0, 1.0, 0.0):
            before = [x.numpy() for x in (variable, *slots)]
            optimizer.apply([tf.fill((ROWS, WIDTH), gradient)])
            after = [x.numpy() for x in (variable, *slots)]
            if not gradient:
                stays &= all(map(np.array_equal, before, after))
                moved |= not np.array_equal(before[0], after[0])
        spec = optimizer._state.spec
        assert moved == (not spec.waits_in_place) or not spec.coasts
        assert stays == spec.rests, implementation


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weight_decay": 0.1},
        {"use_ema": True},
        {"gradient_accumulation_steps": 2},
    ],
    ids=str,
)
def test_only_what_moves_other_rows_makes_a_pass_over_the_table(
    options,
) -> None:
    table = _variable()
    start = table.numpy()
    optimizer = tf_opt.Adagrad(RATE, **options)
    optimizer.apply([_slices(0)], [table])
    *_, (_, plan) = optimizer._plans._plans.values()
    assert plan.buckets[0].lazy == (not options)
    moved = table.numpy()[20:] != start[20:]
    assert moved.all() == ("weight_decay" in options)
