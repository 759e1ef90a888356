"""Variables in the place of numbers: each step reads them, traced or not."""

import itertools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt
from tf_opt.python.functional.rule_spec import FRACTION, Number

from op_cases import out_of
from registry import RULES, quick_first
from small_model import assert_close, assert_same
from trajectory import RUNS

VALUES = (0.75, 0.5, 0.0, 0.25)
CLIPPING = ("clipnorm", "global_clipnorm", "clipvalue")


def _cases() -> list[Any]:
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
    return quick_first(
        (*number, *ways[(i + k) % 3])
        for k in range(3)
        for i, number in enumerate(numbers)
    )


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
    make = keras.Variable if name in CLIPPING else tf.Variable
    number = make(0.5, dtype="float64")
    optimizer = _make(cls, **{name: number}, implementation=implementation)
    found = _train(optimizer, number.assign, how)
    assert optimizer.get_config()[name] == VALUES[-1]
    if name == "momentum":
        # The state depends on whether a plain number is 0. The third step has
        # no momentum; the fourth a quarter of it.
        if cls is tf_opt.SGD:
            np.testing.assert_allclose(found[-1][0], -0.1 * 1.25, rtol=1e-6)
        assert np.isfinite(found[0]).all()
        return
    # An eager step reads what has been assigned to a plain number.
    assigned = _make(cls, **{name: 0.5}, implementation=implementation)
    expected = _train(assigned, lambda x: setattr(assigned, name, x), "eager")
    assert_close(found, expected, rtol=1e-6)


WAYS = [*itertools.product(("custom_op", "composed"), ("eager", "tf.function"))]
# Each number that has a range, with one out of it, in one of the ways.
OUT_OF_RANGE = [
    (cls, number.name, number.range.text, wrong, *WAYS[i % 4])
    for i, (cls, number) in enumerate(
        [
            *(
                (under_test.make, number)
                for under_test in RULES.values()
                for number in under_test.spec.hyperparameters
                if number.in_rule
            ),
            (tf_opt.Adam, Number("ema_momentum", FRACTION)),
        ]
    )
    for wrong in out_of(number.range)
]


def _refuses(
    step: Callable[[], None], number: tf.Variable, wrong: float, every: Any
) -> str:
    """Returns the error of a step that writes nothing."""
    right = float(number)
    step()
    before = [x.numpy() for x in every]
    number.assign(wrong)
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        step()
    assert_same(every, before)
    number.assign(right)
    step()
    return str(error.value)


@pytest.mark.parametrize(
    ("cls", "name", "text", "wrong", "implementation", "how"), OUT_OF_RANGE
)
def test_what_is_out_of_range_is_refused_and_writes_nothing(
    cls, name, text, wrong, implementation, how
):
    # The op has one value of that power.
    is_power = name == "learning_rate_power"
    number = tf.Variable(-0.5 if is_power else 0.5, dtype="float64")
    optimizer = _make(
        cls,
        **{name: number},
        implementation="composed" if is_power else implementation,
    )
    variable = keras.Variable([1.0, 2.0])
    optimizer.build([variable])
    step = RUNS[how](lambda: optimizer.apply([tf.ones(2)], [variable]))
    error = _refuses(step, number, wrong, [variable, *optimizer.variables])
    assert f"`{name}` must be {text}, got" in error


@pytest.mark.parametrize("lazy_mode", [{".": "catch_up"}, True])
def test_so_it_is_outside_of_steps(lazy_mode, implementation, how):
    number = tf.Variable(0.5, dtype="float64")
    optimizer = tf_opt.Adam(
        beta_1=0.25,
        beta_2=number,
        lazy_mode=lazy_mode,
        implementation=implementation,
    )
    table = keras.Variable(np.ones((3, 2)))
    optimizer.build([table])
    gradient = tf.IndexedSlices(tf.ones((1, 2)), tf.constant([1]))
    for _ in range(2):
        optimizer.apply([gradient], [table])

    def outside() -> None:
        if lazy_mode is True:
            optimizer.update_step(tf.ones((3, 2)), table, 0.1)
        else:
            optimizer.catch_up(table)

    run = RUNS[how](outside)
    every = [table, *optimizer.variables]
    assert "`beta_2` must be in [0, 1), got" in _refuses(run, number, 1, every)


def test_such_a_variable_is_not_state():
    optimizer = tf_opt.Adam(beta_1=keras.Variable(0.5))
    optimizer.beta_2 = keras.Variable(0.75)
    optimizer.weight_decay = keras.Variable(0.5)
    optimizer.build([keras.Variable(1.0)])
    assert len(optimizer.variables) == 4
    config = optimizer.get_config()
    assert (config["beta_1"], config["beta_2"]) == (0.5, 0.75)
    assert tf_opt.Adam.from_config(config).weight_decay == 0.5
