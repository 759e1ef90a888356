"""Eager steps of the composed implementation: few calls, the same numbers."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt
from tensorflow.python.framework import op_callbacks
from tf_opt.python.optimizers.step import rule_function

MODES = {
    "Adam": {"amsgrad": True},
    "AdamW": {"epsilon_hat": True, "maximize": True},
    "NAdam": {"weight_decay": 0.1, "decoupled_weight_decay": False},
    "ASGD": {"batch_num": 2},
    "AveragedSGD": {"t0": 1, "weight_decay": 0.1},
}
# What may be assigned between steps, to other numbers in each.
CHANGES = {
    "learning_rate": lambda step: 0.1 / step,
    "weight_decay": lambda step: 0.02 * (step % 2),
    "beta_1": lambda step: 0.5 + 0.1 * step,
    "beta_2": lambda step: 0.9 + 0.01 * step,
    "epsilon": lambda step: 1e-3 * step,
    "momentum_decay": lambda step: 0.1 * step,
    "lambd": lambda step: 0.1 * step,
}


def _values(seed: int, dtype: str) -> list[tf.Tensor]:
    random = np.random.default_rng(seed)
    return [
        tf.cast(random.normal(size=shape), dtype)
        for shape in ((), (3,), (2, 5), (1, 0, 4), (4,))
    ]


def _train(
    name: str, dtype: str = "float32", steps: int = 4, **arguments
) -> list[np.ndarray]:
    """Everything after some steps with numbers that change."""
    variables = [keras.Variable(x, dtype=dtype) for x in _values(0, dtype)]
    optimizer = getattr(tf_opt, name)(
        implementation="composed", **{**MODES[name], **arguments}
    )
    optimizer.build(variables)
    optimizer.exclude_from_weight_decay(var_list=[variables[1]])
    for step in range(1, 1 + steps):
        for attribute, number in CHANGES.items():
            if hasattr(optimizer, attribute):
                setattr(optimizer, attribute, number(step))
        optimizer.apply(_values(step, dtype), variables)
    return [x.numpy() for x in [*variables, *optimizer.variables]]


@pytest.fixture
def op_by_op():
    """Runs an eager step without the function."""

    def run(train, *arguments, **named):
        tf.config.run_functions_eagerly(True)
        try:
            return train(*arguments, **named)
        finally:
            tf.config.run_functions_eagerly(False)

    return run


@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float32", "float64", "complex64"]
)
def test_the_numbers_are_those_of_the_rule(name, dtype, op_by_op):
    expected = op_by_op(_train, name, dtype)
    for got, wanted in zip(_train(name, dtype), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    "arguments",
    [
        {"clipnorm": 0.5, "use_ema": True},
        {"gradient_accumulation_steps": 2, "skip_nonfinite": True},
        {"learning_rate_multipliers": {".": 0.5}},
        {"state_dtype": "bfloat16", "seed": 3},
    ],
    ids=lambda arguments: next(iter(arguments)),
)
def test_so_they_are_with_what_is_done_around_it(arguments, op_by_op):
    expected = op_by_op(_train, "AdamW", **arguments)
    got = _train("AdamW", **arguments)
    for each, wanted in zip(got, expected, strict=True):
        np.testing.assert_array_equal(each, wanted)


def test_what_changes_between_steps_traces_nothing():
    _train("AdamW", steps=2)  # With decay and without.
    functions = rule_function._function.cache_info().currsize
    _train("AdamW", steps=6)
    assert rule_function._function.cache_info().currsize == functions
    # Nor is any of it kept for a while only.
    gc.collect()
    _train("AdamW", steps=1)
    assert rule_function._function.cache_info().currsize == functions


def _ops_for_each_variable(optimizer: keras.optimizers.Optimizer) -> float:
    """How many more ops and calls a step with ten variables more runs."""
    counts = []
    for count in (10, 20):
        variables = [keras.Variable(tf.ones([3])) for _ in range(count)]
        own = optimizer.from_config(optimizer.get_config())
        own.build(variables)
        own.apply([tf.ones([3])] * count, variables)
        ops = []
        with op_callbacks_to(ops):
            own.apply([tf.ones([3])] * count, variables)
        counts.append(len(ops))
    return (counts[1] - counts[0]) / 10


class op_callbacks_to:
    """Notes the type of each eager op in a list."""

    def __init__(self, types: list) -> None:
        self._note = lambda op_type, *_, **__: types.append(op_type)

    def __enter__(self) -> None:
        op_callbacks.add_op_callback(self._note)

    def __exit__(self, *_) -> None:
        op_callbacks.remove_op_callback(self._note)


def test_a_variable_takes_few_calls(monkeypatch):
    # Who counts is told of each op; here as if nobody were.
    monkeypatch.setattr(rule_function, "has_op_callbacks", lambda: False)
    ours = _ops_for_each_variable(tf_opt.Adam(implementation="composed"))
    kerass = _ops_for_each_variable(keras.optimizers.Adam())
    # The rule, which reads and assigns as well.
    assert ours == 1
    assert kerass > 20


def test_a_tape_costs_a_step_nothing(monkeypatch):
    monkeypatch.setattr(rule_function, "has_op_callbacks", lambda: False)
    variable = tf.Variable([1.0, 2.0])
    optimizer = tf_opt.Adam(implementation="composed")
    optimizer.build([variable])
    gradient = tf.constant([3.0, 12.0])
    optimizer.apply([gradient], [variable])
    alone, taped = [], []
    with op_callbacks_to(alone):
        optimizer.apply([gradient], [variable])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(gradient)
        with op_callbacks_to(taped):
            optimizer.apply([gradient], [variable])
        after = tf.reduce_sum(variable**2)
    # No function that would keep what a derivative needs.
    assert taped == alone
    np.testing.assert_allclose(
        tape.gradient(after, variable), 2 * variable.numpy()
    )


def test_threads_may_be_the_first_to_step():
    rule_function._function.cache_clear()
    expected = _train("NAdam")
    rule_function._function.cache_clear()
    results = [[] for _ in range(4)]
    threads = [
        threading.Thread(target=lambda own=own: own.extend(_train("NAdam")))
        for own in results
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for own in results:
        for got, wanted in zip(own, expected, strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_a_forked_process_goes_on(tmp_path):
    code = (
        "import os, sys\n"
        "import tensorflow as tf, tf_opt\n"
        "variable = tf.Variable([1.0, 2.0])\n"
        "optimizer = tf_opt.Adam(0.5, implementation='composed')\n"
        "optimizer.apply([tf.ones(2)], [variable])\n"
        "child = os.fork()\n"
        "optimizer.apply([tf.ones(2)], [variable])\n"
        "if not child:\n"
        "    os._exit(abs(float(variable[0])) > 1e-6)\n"
        "sys.exit(os.waitpid(child, 0)[1])"
    )
    subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=120
    )


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


def _run_alone(code: str, tmp_path, **environment: str) -> None:
    """In a process of its own: it is how TensorFlow starts that matters."""
    subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        check=True,
        timeout=120,
        env={**os.environ, **environment},
    )


def test_a_thread_of_tensorflow_does_not_wait_for_itself(tmp_path):
    _run_alone(
        "import tensorflow as tf\n"
        "tf.config.threading.set_inter_op_parallelism_threads(1)\n"
        "import tf_opt\n"
        "variable = tf.Variable([1.0, 2.0])\n"
        "optimizer = tf_opt.Adam(0.5, implementation='composed')\n"
        "optimizer.apply([tf.ones(2)], [variable])\n"
        "def apply(gradient):\n"
        "    optimizer.apply([gradient], [variable])\n"
        "    return gradient\n"
        "step = tf.function(\n"
        "    lambda x: tf.py_function(apply, [x], tf.float32))\n"
        "step(tf.ones(2))\n"
        "assert abs(float(variable[0])) < 1e-6, variable",
        tmp_path,
    )


def test_a_step_is_no_cluster_of_xla(tmp_path):
    _run_alone(
        "import tensorflow as tf, tf_opt\n"
        "tf.config.optimizer.set_jit(True)\n"
        "for state_dtype in None, 'bfloat16':\n"
        "    variable = tf.Variable([1.0, 2.0])\n"
        "    optimizer = tf_opt.Adam(\n"
        "        0.5, implementation='composed', state_dtype=state_dtype)\n"
        "    for _ in range(3):\n"
        "        optimizer.apply([tf.ones(2)], [variable])\n"
        "    assert abs(float(variable[0]) + 0.5) < 1e-2, variable",
        tmp_path,
        TF_XLA_FLAGS="--tf_xla_cpu_global_jit",
    )
