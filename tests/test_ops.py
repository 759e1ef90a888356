"""The custom op: what it checks, what it leaves alone, what it shares."""

from __future__ import annotations

import itertools
import resource
import threading
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from devices import refusal
from trajectory import RUNS
from xla_kernels import needs_xla_kernels

_COUNT = itertools.count()

pytestmark = pytest.mark.kernels

apply_adam = tf_opt.ops.resource_apply_adam_amsgrad


class State:
    """Variables and slots for a launch, all different."""

    def __init__(self, shapes=((2, 3), (4,)), dtype=tf.float32) -> None:
        slot = tf.float64 if dtype == tf.float64 else tf.float32

        def make(offset: float, dtype: tf.DType) -> list[tf.Variable]:
            return [
                tf.Variable(tf.cast(tf.fill(shape, offset + i), dtype))
                for i, shape in enumerate(shapes)
            ]

        self.variables = make(1.0, dtype)
        self.m = make(0.25, slot)
        self.v = make(0.5, slot)
        # Below v, so that a step raises it.
        self.v_max = make(0.375, slot)
        self.gradients = [
            tf.cast(tf.fill(shape, 0.125), dtype) for shape in shapes
        ]

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


def never_assigned(dtype: tf.DType, shape: tuple[int, ...]) -> tf.Tensor:
    # Another one each time: looking for it is enough to make it.
    return tf.raw_ops.VarHandleOp(
        dtype=dtype, shape=shape, shared_name=f"never_assigned_{next(_COUNT)}"
    )


# What is wrong, and what the message must say.
WRONG: dict[str, tuple[Callable[[State], dict], str]] = {
    "gradient's shape": (
        lambda s: {"gradients": [s.gradients[0], tf.zeros(5)]},
        r"`(gradients|variables)\[1\]`.*\[4\].*\[5\]|\[1\].*\[5\].*\[4\]",
    ),
    "a moment's shape": (
        lambda s: {"m": [s.m[0], tf.Variable(tf.zeros(5))]},
        r"`m\[1\]` must have the shape.*\[4\].*\[5\]",
    ),
    "a moment's type": (
        lambda s: {"v": [tf.Variable(tf.zeros((2, 3), tf.float64)), s.v[1]]},
        r"`v\[0\]` must be a variable of float or bfloat16, got double",
    ),
    "moments of two types": (
        lambda s: {"v": [tf.Variable(tf.zeros((2, 3), tf.bfloat16)), s.v[1]]},
        r"`v\[0\]` must have the type of `m\[0\]`, float, got bfloat16",
    ),
    "master weights of float32": (
        lambda s: {
            "frame": tf_opt.ops.StepFrame(
                master_weights=[tf.Variable(x) for x in s.variables]
            )
        },
        r"`master_weights` must be empty where variables aren't half or "
        "bfloat16; these are float",
    ),
    "a variable's type": (
        lambda s: {
            "variables": [
                tf.Variable(tf.zeros((2, 3), tf.float64)),
                s.variables[1],
            ]
        },
        r"`variables\[0\]` must be a variable of float, got double",
    ),
    "too few moments": (
        lambda s: {"m": s.m[:1]},
        r"`m` must have one variable for each of the 2",
    ),
    "too few maxima": (
        lambda s: {"v_max": s.v_max[:1]},
        r"`v_max` must have one variable for each of the 2",
    ),
    "the same variable twice": (
        lambda s: {
            "variables": [s.variables[0]] * 2,
            "gradients": [s.gradients[0]] * 2,
            "m": [s.m[0], tf.Variable(tf.zeros((2, 3)))],
            "v": [s.v[0], tf.Variable(tf.zeros((2, 3)))],
            "v_max": (),
        },
        r"`variables\[0\]` and `variables\[1\]` are the same variable",
    ),
    "a moment that is the variable": (
        lambda s: {"m": [s.variables[0], s.m[1]]},
        r"`variables\[0\]` and `m\[0\]` are the same variable",
    ),
    "a variable never assigned": (
        lambda s: {"v": [s.v[0], never_assigned(tf.float32, (4,))]},
        # Under XLA TensorFlow finds it first.
        r"`v\[1\]`.* is not an initialized variable"
        "|Read variable failure never_assigned",
    ),
    "weight decay's length": (
        lambda s: {"weight_decay": [0.1, 0.1, 0.1]},
        r"`weight_decay` must .*one element for each of the 2",
    ),
    "step 0": (lambda s: {"step": 0}, r"`step` must be >= 1, got 0"),
    "beta_1": (
        lambda s: {"beta_1": 1.0},
        r"`beta_1` must be in \[0, 1\), got 1",
    ),
    "beta_2": (
        lambda s: {"beta_2": -0.5},
        r"`beta_2` must be in \[0, 1\), got -0.5",
    ),
    "epsilon": (lambda s: {"epsilon": -1.0}, r"`epsilon` must be >= 0"),
    "a vector as learning rate": (
        lambda s: {"learning_rate": tf.constant([0.1, 0.2])},
        r"`learning_rate` must be a scalar, got shape \[2\]",
    ),
}


@pytest.mark.parametrize(
    "how",
    [
        "eager",
        "tf.function",
        pytest.param("jit_compile", marks=needs_xla_kernels),
    ],
)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_argument_is_named_and_nothing_is_written(
    wrong, how, device, capfd
):
    change, message = WRONG[wrong]
    state = State()
    before = [variable.numpy() for variable in state.everything()]
    arguments = change(state)

    def step() -> None:
        state.apply(**arguments)

    is_of_a_number = wrong in ("step 0", "beta_1", "beta_2", "epsilon")
    # What XLA compiles knows the number already.
    on_device = is_of_a_number and how != "jit_compile"
    with refusal(device, message, capfd, is_of_a_number=on_device):
        RUNS[how](step)()
    for variable, value in zip(state.everything(), before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


def test_the_shape_function_checks_a_graph_before_it_runs():
    state = State()

    @tf.function
    def step() -> None:
        state.apply(m=[state.m[0], tf.Variable(tf.zeros(5))])

    with pytest.raises(ValueError, match=r"`m\[1\]` must have the shape"):
        step.get_concrete_function()


@pytest.mark.parametrize("slot", ["variables", "m", "v", "v_max"])
def test_a_tensor_read_before_the_step_does_not_change(slot, device):
    state = State()
    read = getattr(state, slot)[0].read_value()
    before = read.numpy().copy()
    state.apply()
    np.testing.assert_array_equal(read.numpy(), before)
    assert (getattr(state, slot)[0].numpy() != before).any()


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


def _page_faults(function: Callable[[], None]) -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    function()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


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
    assert _page_faults(state.apply) < pages / 4

    # So that the count is known to see a copy: now one is needed.
    fresh = State(shapes=((rows, width),))
    fresh.apply()
    read = fresh.variables[0].read_value()
    assert _page_faults(fresh.apply) > pages / 2
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
