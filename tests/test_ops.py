"""The custom op: what it checks, what it leaves alone, what it shares."""

from __future__ import annotations

import resource
import threading

import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from devices import page_faults

pytestmark = pytest.mark.kernels

apply_adam = tf_opt.ops.resource_apply_adam_amsgrad


class State:
    """Variables and slots for a launch, all different."""

    def __init__(self, shapes=((2, 3), (4,))) -> None:
        def make(offset: float) -> list[tf.Variable]:
            return [
                tf.Variable(tf.fill(shape, offset + i))
                for i, shape in enumerate(shapes)
            ]

        self.variables = make(1.0)
        self.m = make(0.25)
        self.v = make(0.5)
        # Below v, so that a step raises it.
        self.v_max = make(0.375)
        self.gradients = [tf.fill(shape, 0.125) for shape in shapes]

    def everything(self) -> list[tf.Variable]:
        return [*self.variables, *self.m, *self.v, *self.v_max]

    def apply(self, **changes) -> None:
        arguments = {
            "variables": self.variables,
            "m": self.m,
            "v": self.v,
            "v_max": self.v_max,
            "gradients": self.gradients,
            "step": 3,
            **changes,
        }
        apply_adam(**arguments)


def test_variables_that_share_an_initial_buffer_part_ways(device):
    zeros, alone = tf.zeros(4), State(shapes=((4,),))
    state = State(shapes=((4,),))
    state.m, state.v = [tf.Variable(zeros)], [tf.Variable(zeros)]
    state.variables = [tf.Variable(zeros)]
    alone.m, alone.v = (
        [tf.Variable(np.zeros(4, "f"))],
        [tf.Variable(np.zeros(4, "f"))],
    )
    alone.variables = [tf.Variable(np.zeros(4, "f"))]
    for step in (1, 2, 3):
        state.apply(v_max=(), step=step)
        alone.apply(v_max=(), step=step)
    np.testing.assert_array_equal(zeros.numpy(), np.zeros(4))
    for name in ("variables", "m", "v"):
        np.testing.assert_array_equal(
            getattr(state, name)[0].numpy(), getattr(alone, name)[0].numpy()
        )
    assert (state.m[0].numpy() != state.v[0].numpy()).all()


def test_a_table_that_was_gathered_from_is_updated_in_place():
    # 64 MiB: memory that the C library asks the system for, and gives back.
    # A copy touches each of its pages for the first time.
    rows, width = 2**16, 256
    pages = rows * width * 4 // resource.getpagesize()
    state = State(shapes=((rows, width),))
    table = state.variables[0]
    state.apply()  # Buffers that were shared at the start are copied here.
    tf.gather(table, [1, 2, 3])
    tf.raw_ops.ResourceGather(
        resource=table.handle, indices=[1], dtype=tf.float32
    )
    assert page_faults(state.apply) < pages / 4

    # So that the count is known to see a copy: now one is needed.
    fresh = State(shapes=((rows, width),))
    fresh.apply()
    read = fresh.variables[0].read_value()
    assert page_faults(fresh.apply) > pages / 2
    del read


def test_an_infinite_gradient_stays_in_its_own_element():
    state = State(shapes=((4,),))
    state.apply(gradients=[tf.constant([1.0, np.inf, np.nan, 1.0])])
    finite = np.isfinite(state.variables[0].numpy())
    np.testing.assert_array_equal(finite, [True, False, False, True])


def test_a_group_must_be_filled_and_only_once():
    ops = tf_opt.python.ops.library.library().ops
    state = State()
    group = ops.tf_opt_variable_group()
    with pytest.raises(
        tf.errors.FailedPreconditionError, match="was not filled"
    ):
        state.apply(m=[group])
    ops.tf_opt_variable_group_fill(group, [m.handle for m in state.m])
    expected = State()
    expected.apply()
    state.apply(m=[group])
    for ours, theirs in zip(
        state.everything(), expected.everything(), strict=True
    ):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    with pytest.raises(
        tf.errors.FailedPreconditionError, match="filled already"
    ):
        ops.tf_opt_variable_group_fill(group, [m.handle for m in state.m])


def test_a_group_of_too_few_variables_is_refused():
    ops = tf_opt.python.ops.library.library().ops
    state = State()
    group = ops.tf_opt_variable_group()
    ops.tf_opt_variable_group_fill(group, [state.m[0].handle])
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="`m` must have one variable"
    ):
        state.apply(m=[group])


def test_many_threads_may_step_variables_that_overlap():
    # Locks in one order: crossing lists of the same variables don't deadlock.
    count = 40
    state = State(shapes=((64,),) * count)
    backwards = {
        name: getattr(state, name)[::-1]
        for name in ("variables", "m", "v", "v_max")
    }

    @tf.function
    def forward_steps() -> None:
        for _ in tf.range(200):
            state.apply()

    @tf.function
    def backward_steps() -> None:
        for _ in tf.range(200):
            state.apply(**backwards)

    threads = [
        threading.Thread(target=step, daemon=True)
        for step in (forward_steps, backward_steps)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
        assert not thread.is_alive(), "deadlock"
    assert np.isfinite(state.variables[0].numpy()).all()
