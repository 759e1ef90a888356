"""A step that is refused when it runs: nothing of it is written."""

import itertools
import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt
from allpairspy import AllPairs

from devices import GPUS
from processes import python
from registry import quick_first, slow
from trajectory import RUNS

OPTIONS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "norm": {"global_clipnorm": 1.0, "skip_nonfinite": True},
    "average": {"use_ema": True},
    "accumulation": {"gradient_accumulation_steps": 2},
    "host": {"state_device": "CPU:1"},
    "lazy": {"lazy_mode": True},
    "lazy, accumulation": {"lazy_mode": True, "gradient_accumulation_steps": 2},
}


def _vector(chosen: tf.Tensor, dtype: str = "float32") -> tf.Tensor:
    """A gradient of four elements if the right ones are chosen."""
    return tf.boolean_mask(tf.ones(4, dtype), chosen[:4])


def _slices(rows: Any, dtype: str = "float32") -> tf.IndexedSlices:
    return tf.IndexedSlices(tf.ones((2, 2), dtype), tf.cast(rows, tf.int64))


def _rows(chosen: tf.Tensor, wrong: int) -> tf.Tensor:
    """The rows 0 and 3 of six, or a row that there isn't."""
    rows = tf.constant([[0, 3], [0, wrong]], tf.int64)
    return tf.where(chosen[3], rows[0], rows[1])


def _columns(chosen: tf.Tensor) -> tf.IndexedSlices:
    values = tf.boolean_mask(tf.ones((2, 2), "float64"), chosen[2:4], axis=1)
    return tf.IndexedSlices(values, tf.constant([0, 3]))


# Shapes, types and gradients of two variables. Of the gradients that depend on
# what is chosen, one is wrong without the fourth.
WRONG: dict[str, tuple[Any, Callable[[tf.Tensor], list[Any]]]] = {
    "size beside a table": (
        [((6, 2), "float32"), ((4,), "float32")],
        lambda x: [_slices([0, 3]), _vector(x)],
    ),
    "size of the second": (
        [((4,), "float32"), ((4,), "float64")],
        lambda x: [tf.ones(4), _vector(x, "float64")],
    ),
    "size of the first": (
        [((4,), "float32"), ((4,), "float64")],
        lambda x: [_vector(x), tf.ones(4, "float64")],
    ),
    "row of the second": (
        [((6, 2), "float32"), ((6, 2), "float64")],
        lambda x: [_slices([0, 3]), _slices(_rows(x, 2**40), "float64")],
    ),
    "row of the first": (
        [((6, 2), "float32"), ((6, 2), "float64")],
        lambda x: [_slices(_rows(x, -1)), _slices([0, 3], "float64")],
    ),
    "number of rows, made dense": (
        [((6, 2), "float32"), ((6, 2), "float16")],
        lambda x: [tf.ones((6, 2)), _slices(tf.boolean_mask([0, 3], x[2:]))],
    ),
    "width": (
        [((6, 2), "float32"), ((6, 2), "float64")],
        lambda x: [_slices([0, 3]), _columns(x)],
    ),
}


@pytest.mark.parametrize(
    ("wrong", "options", "implementation", "how"),
    quick_first(
        [
            *AllPairs(
                [
                    list(WRONG),
                    list(OPTIONS),
                    ["custom_op", "composed"],
                    ["eager", "tf.function"],
                ]
            ),
            *itertools.product(
                ["number of rows, made dense"],
                ["nothing", "norm", "accumulation"],
                ["custom_op", "composed"],
                ["tf.function"],
            ),
        ]
    ),
)
def test_nothing_is_written(wrong, options, implementation, how):
    if GPUS and wrong.startswith("row") and implementation == "custom_op":
        pytest.skip("a GPU's kernel tells later: see test_sparse_errors.py")
    described, gradients = WRONG[wrong]
    variables = [
        keras.Variable(np.ones(shape), dtype=dtype, name=name)
        for name, (shape, dtype) in zip(
            ("first", "second"), described, strict=True
        )
    ]
    optimizer = tf_opt.Adam(
        0.1, implementation=implementation, **OPTIONS[options]
    )
    optimizer.build(variables)
    step = RUNS[how](
        lambda chosen: optimizer.apply(gradients(chosen), variables)
    )
    every = [*variables, *optimizer.variables]
    before = [x.numpy() for x in every]
    message = None
    if wrong.startswith("row"):
        variable = wrong.split()[-1]
        message = rf"{variable}\b.* must be in \[0, 6\)"
    errors = tf.errors.InvalidArgumentError, ValueError
    with pytest.raises(errors, match=message):
        step(tf.constant([True, True, True, False]))
    for x, old in zip(every, before, strict=True):
        np.testing.assert_array_equal(x.numpy(), old, x.path)
    for _ in range(2):
        step(tf.constant([True] * 4))
    for variable in variables:
        assert (variable.numpy()[0] != 1).all()


def test_nothing_is_accumulated_in_replicas(strategy):
    with strategy.scope():
        variables = [keras.Variable(np.ones(size)) for size in (2, 4)]
        optimizer = tf_opt.SGD(0.5, gradient_accumulation_steps=2)
        optimizer.build(variables)

    @tf.function
    def step(chosen: tf.Tensor) -> None:
        strategy.run(
            lambda: optimizer.apply([tf.ones(2), _vector(chosen)], variables)
        )

    with pytest.raises(tf.errors.InvalidArgumentError):
        step(tf.constant([True, True, True, False]))
    for _ in range(2):
        step(tf.constant([True] * 4))
    for variable in variables:
        np.testing.assert_array_equal(variable.numpy(), 0.0)


def test_an_integer_variable_is_refused_by_what_has_state(how):
    kept, counter = tf.Variable([1.0]), tf.Variable([5], name="counter")
    optimizer = tf_opt.Adam()
    optimizer.build([kept, counter])
    gradients = [tf.ones(1), tf.ones(1, tf.int32)]
    with pytest.raises(ValueError, match="`counter:0` must be floating point"):
        RUNS[how](lambda: optimizer.apply(gradients, [kept, counter]))()
    assert [x.numpy() for x in (kept, counter)] == [1, 5]
    optimizer = tf_opt.SGD(2.0)
    optimizer.apply(gradients, [kept, counter])
    assert [x.numpy() for x in (kept, counter)] == [-1, 3]


@pytest.mark.parametrize(
    ("shape", "gradient"), [((4,), _vector), ((6, 2), _columns)]
)
def test_what_is_composed_inside_xla_has_a_known_size(shape, gradient):
    dtype = "float32" if gradient is _vector else "float64"
    variable = keras.Variable(np.ones(shape), dtype=dtype)
    optimizer = tf_opt.SGD(0.1, implementation="composed")
    optimizer.build([variable])

    @tf.function(jit_compile=True)
    def step(chosen: tf.Tensor) -> None:
        optimizer.apply([gradient(chosen)], [variable])

    with pytest.raises(ValueError, match="known shape inside XLA"):
        step(tf.constant([True, True, False, False]))
    assert (variable.numpy() == 1).all()


# Sorts without enough memory; in a process whose address space is limited.
OUT_OF_MEMORY = """
import contextlib
import resource
import sys

import tensorflow as tf
from tf_opt.python.functional import adam_rule
from tf_opt.python.ops.calls import merge_slices
from tf_opt.python.ops.calls import ResourceApplyOp
from tf_opt.python.ops.calls import resource_apply

IDS = 2**24
REFUSED = tf.errors.ResourceExhaustedError


@contextlib.contextmanager
def limited_memory():
    pages = int(open("/proc/self/statm").read().split()[0])
    limits = resource.getrlimit(resource.RLIMIT_AS)
    # Less than sorting needs, enough for all else.
    room = pages * resource.getpagesize() + 160 * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (room, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


p, m, v = (tf.Variable(tf.fill((4, 1), x)) for x in (1.0, 0.5, 0.25))
values, ids = tf.ones((IDS, 1)), tf.zeros(IDS, tf.int32)


def step(enabled):
    lists = {"variables": [p], "m": [m], "v": [v], "v_max": []}
    resource_apply(
        ResourceApplyOp(adam_rule.SPEC.op_name),
        [tf.IndexedSlices(values, ids)],
        **lists,
        **adam_rule.adam.__kwdefaults__,
        step=1,
        lazy=True,
        enabled=enabled,
    )


def merge(enabled):
    all_or_one = tf.cond(
        enabled, lambda: (values, ids), lambda: (values[:1], ids[:1])
    )
    return merge_slices([tf.IndexedSlices(*all_or_one)], [4])


def check(call, how):
    name = call.__name__
    if how != "eager":
        call = tf.function(call)
    # Threads and programs are there before memory becomes scarce. A call that
    # isn't enabled sorts almost nothing.
    call(tf.constant(False))
    before = [x.numpy().tolist() for x in (p, m, v)]
    with limited_memory():
        try:
            call(tf.constant(True))
        except REFUSED:
            print(name, how, "refused", flush=True)
    assert before == [x.numpy().tolist() for x in (p, m, v)]
    call(tf.constant(True))


for call in step, merge:
    check(call, sys.argv[1])
"""


@pytest.mark.kernels
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("how", ["eager", slow("graph")])
def test_without_memory_to_sort_nothing_is_written(how):
    # With oneDNN, TensorFlow waits ten seconds for memory.
    run = python.run_alone("-c", OUT_OF_MEMORY, how, TF_ENABLE_ONEDNN_OPTS="0")
    assert run.returncode == 0, run.stderr
    assert run.stdout == f"step {how} refused\nmerge {how} refused\n"
