"""Eager steps of the composed implementation: few calls and functions.

test_variable_numbers.py has the numbers that change between them.
"""

import concurrent.futures
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt
from tensorflow.python.framework import op_callbacks
from tf_opt.python.optimizers.step import rule_function

from processes import python


def _values(seed: int) -> list[tf.Tensor]:
    random = np.random.default_rng(seed)
    return [
        tf.cast(random.normal(size=shape), "float32")
        for shape in ((), (3,), (2, 5), (1, 0, 4), (4,))
    ]


def _train(make: type, steps: int = 4) -> list[np.ndarray]:
    """Everything after some steps with numbers that change."""
    variables = [keras.Variable(x) for x in _values(0)]
    optimizer = make(implementation="composed")
    optimizer.build(variables)
    optimizer.exclude_from_weight_decay(var_list=[variables[1]])
    for step in range(1, 1 + steps):
        optimizer.learning_rate = 0.1 / step
        optimizer.weight_decay = 0.02 * (step % 2)
        optimizer.beta_1 = 0.5 + 0.05 * step
        optimizer.apply(_values(step), variables)
    return [x.numpy() for x in [*variables, *optimizer.variables]]


def test_threads_may_be_the_first_to_step():
    expected = _train(tf_opt.NAdam)
    rule_function._function.cache_clear()
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        for found in threads.map(_train, [tf_opt.NAdam] * 4):
            np.testing.assert_equal(found, expected)


def test_what_changes_between_steps_traces_nothing():
    _train(tf_opt.AdamW, steps=2)  # With decay and without.
    functions = rule_function._function.cache_info().currsize
    _train(tf_opt.AdamW, steps=6)
    assert rule_function._function.cache_info().currsize == functions


def test_matrices_of_all_shapes_share_functions():
    def step(*shape: int, count: int) -> None:
        variables = [keras.Variable(np.ones(shape)) for _ in range(count)]
        tf_opt.Muon().apply([tf.ones(shape)] * count, variables)

    step(2, 5, count=1)
    step(2, 5, count=2)
    functions = rule_function._function.cache_info().currsize
    for i in range(9):
        step(2, 6 + i, count=1 + i % 3)
    assert rule_function._function.cache_info().currsize == functions


def test_a_variable_takes_one_call_also_under_a_tape(monkeypatch):
    # Who counts is told of each op; here as if nobody were.
    monkeypatch.setattr(rule_function, "has_op_callbacks", lambda: False)
    counts = []
    for count in (10, 20):
        variables = [keras.Variable([1.0]) for _ in range(count)]
        gradients = [tf.ones(1)] * count
        optimizer = tf_opt.Adam(implementation="composed")
        optimizer.apply(gradients, variables)
        ops = []

        def note(op_type: str, *_: Any, ops: list = ops, **__: Any) -> None:
            ops.append(op_type)

        op_callbacks.add_op_callback(note)
        with tf.GradientTape() as tape:
            tape.watch(gradients)
            optimizer.apply(gradients, variables)
        op_callbacks.remove_op_callback(note)
        counts.append(len(ops))
    assert counts[1] - counts[0] == 10


@pytest.mark.parametrize("is_checked", [True, False])
def test_numerics_are_checked_where_that_is_asked(is_checked):
    def step(gradient: list[float]) -> None:
        optimizer = tf_opt.AveragedSGD(implementation="composed")
        optimizer.apply([tf.constant(gradient)], [tf.Variable([1.0, 2.0])])

    def checked(gradient: list[float]) -> None:
        tf.debugging.enable_check_numerics()
        try:
            step(gradient)
        finally:
            tf.debugging.disable_check_numerics()

    # What was traced in one way isn't kept for the other.
    first, then = (step, checked) if is_checked else (checked, step)
    first([1.0, 1.0])
    if is_checked:
        with pytest.raises(tf.errors.InvalidArgumentError, match="NaN"):
            then([1.0, float("nan")])
    else:
        then([1.0, float("nan")])


# In a process of its own.
FORKS = """
import os
import tensorflow as tf
tf.config.threading.set_inter_op_parallelism_threads(1)
import tf_opt
variable = tf.Variable([1.0, 2.0])
optimizer = tf_opt.Adam(0.5, implementation="composed")
optimizer.apply([tf.ones(2)], [variable])
child = os.fork()
def apply(gradient):
    optimizer.apply([gradient], [variable])
    return gradient
if not child:
    apply(tf.ones(2))
    os._exit(abs(float(variable[0])) > 1e-6)
step = tf.function(lambda x: tf.py_function(apply, [x], tf.float32))
step(tf.ones(2))
assert abs(float(variable[0])) < 1e-6, variable
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.slow
def test_a_forked_process_and_a_thread_of_tensorflow_do_not_wait():
    result = python.run_alone("-c", FORKS)
    assert result.returncode == 0, result.stderr
