"""A sparse step without enough memory is an error and writes nothing."""

import sys

import pytest

from processes import python
from registry import slow

pytestmark = pytest.mark.kernels

# Runs by itself, as its address space is limited.
_SCRIPT = """
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


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("how", ["eager", slow("graph")])
def test_without_memory_to_sort_nothing_is_written(how):
    # With oneDNN, TensorFlow waits ten seconds for memory.
    run = python.run_alone("-c", _SCRIPT, how, TF_ENABLE_ONEDNN_OPTS="0")
    assert run.returncode == 0, run.stderr
    assert run.stdout == f"step {how} refused\nmerge {how} refused\n"
