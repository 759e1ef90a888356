"""Variables in the place of numbers: each step reads them, traced or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from registry import RULES
from small_model import assert_close
from trajectory import RUNS

VALUES = (0.75, 0.5, 0.0, 0.25)
CLIPPING = ("clipnorm", "global_clipnorm", "clipvalue")


def _cases() -> list[tuple[type, str, str, str]]:
    """Each number in the op and composed, eagerly and traced."""
    numbers = [
        (under_test.make, number.name)
        for under_test in RULES.values()
        for number in under_test.spec.hyperparameters
        # The op has one value of that power.
        if number.name != "learning_rate_power"
        and (number.in_rule or number.in_op)
    ]
    of_all = ("weight_decay", "ema_momentum", *CLIPPING)
    numbers += [(tf_opt.Adam, name) for name in of_all]
    ways = (
        ("custom_op", "tf.function"),
        ("composed", "eager"),
        ("composed", "jit_compile"),
    )
    return [(*number, *way) for number in numbers for way in ways]


def _make(cls: type, **arguments: Any) -> Any:
    if "dampening" in arguments:
        arguments.update(momentum=0.5, torch_momentum=True)
    if "ema_momentum" in arguments:
        arguments["use_ema"] = True
    if cls is tf_opt.AveragedSGD:
        arguments.setdefault("t0", 1)
    return cls(0.1, **arguments)


def _train(
    optimizer: Any, change: Callable[[float], None], how: str
) -> list[np.ndarray]:
    variable = keras.Variable([1.0, 2.0, -1.0])
    optimizer.build([variable])
    step = RUNS[how](lambda gradient: optimizer.apply([gradient], [variable]))
    for i, value in enumerate(VALUES):
        change(value)
        step(tf.constant([1.0, -2.0, 3.0 + i]))
    return [variable.numpy(), *(x.numpy() for x in optimizer.variables)]


@pytest.mark.parametrize(("cls", "name", "implementation", "how"), _cases())
def test_each_step_reads_a_variable(cls, name, implementation, how):
    # An eager step reads what has been assigned to a plain number.
    assigned = _make(cls, **{name: 0.5}, implementation=implementation)
    if name == "momentum":
        # Its state depends on whether that number is 0.
        expected = None
    else:
        expected = _train(
            assigned, lambda x: setattr(assigned, name, x), "eager"
        )
    make = keras.Variable if name in CLIPPING else tf.Variable
    number = make(0.5, dtype="float64")
    optimizer = _make(cls, **{name: number}, implementation=implementation)
    found = _train(optimizer, number.assign, how)
    assert optimizer.get_config()[name] == VALUES[-1]
    if expected is None:
        # The third step has no momentum; the fourth a quarter of it.
        if cls is tf_opt.SGD:
            np.testing.assert_allclose(found[-1][0], -0.1 * 1.25, rtol=1e-6)
        assert np.isfinite(found[0]).all()
        return
    assert_close(found, expected, rtol=1e-6)


def test_such_a_variable_is_not_state():
    optimizer = tf_opt.Adam(beta_1=keras.Variable(0.5))
    optimizer.beta_2 = keras.Variable(0.75)
    optimizer.weight_decay = keras.Variable(0.5)
    optimizer.build([keras.Variable(1.0)])
    assert len(optimizer.variables) == 4
    config = optimizer.get_config()
    assert (config["beta_1"], config["beta_2"]) == (0.5, 0.75)
    assert tf_opt.Adam.from_config(config).weight_decay == 0.5
