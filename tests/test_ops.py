"""The custom ops: what they check, what they leave alone, what they share."""

import threading
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_opt
from tensorflow.python.framework import op_def_registry
from tf_opt.python.ops.calls import BARE, measure_gradients

from devices import EMULATED_GPU, assert_refused
from op_cases import BATCHES, OPS, SHAPES, Launch, never_assigned
from registry import quick_first
from small_model import assert_same
from trajectory import RUNS

pytestmark = pytest.mark.kernels

# Numbers of which the rules' specifications have no range.
_NUMBERS = {
    "eta": (-0.5, "`eta` must be >= 0, got -0.5"),
    "batch_index": (
        BATCHES,
        rf"`batch_index` must be in \[0, {BATCHES}\).* got {BATCHES}",
    ),
}
# Numbers of a frame.
_FRAMES = {
    "clip_value that is NaN": (
        {"clip_value": float("nan")},
        "`clip_value` must be >= 0, got -?nan",
    ),
    "clip_value": ({"clip_value": -1.0}, "`clip_value` must be >= 0, got -1"),
    "ema_momentum": (
        {"ema_momentum": 1.5},
        r"`ema_momentum` must be in \[0, 1\], got 1.5",
    ),
    "update": (
        {"update": False},
        "`accumulators` must hold one variable for each gradient where "
        "`update` is false, got none",
    ),
}


def _wrong_arguments(launch: Launch) -> dict[str, tuple[dict[str, Any], str]]:
    """What to change, and what the message must say, by what is wrong."""
    lists, slots = launch.lists, launch.op.slots
    variables = lists["variables"]
    shapes = [tuple(x.shape) for x in variables]
    double = tf.Variable(tf.zeros(shapes[0], tf.float64))
    numbers = launch.arguments()
    cases: dict[str, tuple[dict[str, Any], str]] = {
        wrong: ({name: value}, message)
        for wrong, (name, value, message) in launch.op.out_of_range.items()
        if name in numbers
    }
    for name, (value, message) in _NUMBERS.items():
        if name in numbers:
            cases[name] = {name: value}, message
    for name in slots:
        first, second = lists[name]
        cases[f"{name}'s shape"] = (
            {name: [first, tf.Variable(tf.zeros((*second.shape[:-1], 5)))]},
            rf"`{name}\[1\]` must (have|hold rows of) the shape.*\[4\].*5\]",
        )
        cases[f"{name}'s type"] = (
            {name: [tf.Variable(tf.cast(first, tf.float64)), second]},
            rf"`{name}\[0\]` must be a variable of float"
            r"( or bfloat16)?, got double",
        )
        cases[f"too few of {name}"] = (
            {name: [first]},
            rf"`{name}` must have one variable for each of the 2",
        )
        cases[f"{name} never assigned"] = (
            {name: [first, never_assigned(second.shape)]},
            rf"`{name}\[1\]`.* is not an initialized variable",
        )
    cases["a variable's type"] = (
        {"variables": [double, variables[1]]},
        r"`variables\[0\]` must be a variable of float, got double",
    )
    cases["weight decay's length"] = (
        {"weight_decay": tf.fill(3, 0.1)},
        "`weight_decay` must .*one element for each of the 2",
    )
    cases["gradient's shape"] = (
        {"gradients": [launch.gradients[0], tf.zeros(5)]},
        r"\[1\]`.*\[4\].*\[5\]|\[1\].*\[5\].*\[4\]",
    )
    cases["the same variable twice"] = (
        {
            "variables": variables[:1] * 2,
            "gradients": launch.gradients[:1] * 2,
            **{x: [lists[x][0], tf.Variable(lists[x][0])] for x in slots},
        },
        r"`variables\[0\]` and `variables\[1\]` are the same variable",
    )
    masters = [tf.Variable(x) for x in variables]
    cases["master weights of float32"] = (
        {"master_weights": masters},
        "`master_weights` must be empty where variables aren't half or "
        "bfloat16; these are float",
    )
    for name, (wrong, message) in _FRAMES.items():
        averages = [tf.Variable(x) for x in variables]
        frame = {"averages": averages, "ema_momentum": 0.5, **wrong}
        cases[name] = (frame, message)
    for name, expected in {"counter": "int64", "rate": "float or do.*"}.items():
        cases[f"{name} of another type"] = (
            {name: [tf.Variable(1, dtype=tf.int32)]},
            rf"`{name}` must be one scalar variable of {expected} or empty, "
            rf"got 1, the first of int32|`rate` must be empty on a GPU",
        )
    if "step" in launch.op.op_numbers:
        cases["a counter that is too great"] = (
            {"counter": [tf.Variable(2**63 - 1, dtype=tf.int64)]},
            r"`step` must be >= 1, got -9|`rate` must be empty on a GPU",
        )
    if "y" in slots:
        cases["a table that is a scalar"] = (
            {"y": [tf.Variable(1.0), lists["y"][1]]},
            r"`y\[0\]` must hold rows of the shape.*\[2,3\].*\[\]",
        )
    else:
        cases["a slot that is the variable"] = (
            {slots[0]: [variables[0], lists[slots[0]][1]]},
            rf"`variables\[0\]` and `{slots[0]}\[0\]` are the same variable",
        )
    if {"m", "v"} <= set(slots):
        other = tf.Variable(tf.zeros(shapes[0], tf.bfloat16))
        cases["moments of two types"] = (
            {"v": [other, lists["v"][1]]},
            r"`v\[0\]` must have the type of `m\[0\]`, float, got bfloat16",
        )
    return cases


@pytest.mark.parametrize(
    ("name", "wrong", "how"),
    quick_first(
        (name, wrong, how)
        for name in OPS
        for wrong in _wrong_arguments(Launch(name))
        for how in ("eager", "tf.function")
        # The other ops check in the same way.
        if how == "eager" or name == "adam"
    ),
)
def test_a_wrong_argument_is_named_and_nothing_is_written(
    name, wrong, how, device
):
    launch = Launch(name)
    before = launch.numpy()
    change, message = _wrong_arguments(launch)[wrong]
    is_of_a_number = wrong in {**_FRAMES, **_NUMBERS, **launch.op.out_of_range}
    step = RUNS[how](lambda: launch.apply(**change) and None)
    assert_refused(step, device, message, is_of_a_number=is_of_a_number)
    np.testing.assert_equal(launch.numpy(), before)


@pytest.mark.parametrize("name", OPS)
def test_a_tensor_read_before_the_step_does_not_change(name, device):
    for i in range(len(Launch(name).everything())):
        launch = Launch(name)
        variable = launch.everything()[i]
        read = variable.read_value()
        before = read.numpy().copy()
        launch.apply()
        np.testing.assert_array_equal(read.numpy(), before)
        assert (variable.numpy() != before).any()


@pytest.mark.skipif(EMULATED_GPU, reason="kernels for GPUs refuse them")
@pytest.mark.parametrize("name", OPS)
def test_a_counter_and_a_rate_are_the_numbers_they_hold(name):
    with tf.device("CPU"):
        counter, rate = tf.Variable(6, dtype=tf.int64), tf.Variable(0.25)
        launch, expected = Launch(name), Launch(name)
    held = counter.read_value()
    numbers = {"learning_rate": 0.25, "step": 7}
    numbers = {x: numbers[x] for x in numbers if x in launch.op.op_numbers}
    expected.apply(**numbers)
    launch.apply(counter=[counter], rate=[rate])
    np.testing.assert_equal(launch.numpy(), expected.numpy())
    assert (int(counter), int(held), float(rate)) == (7, 6, 0.25)
    launch.apply(counter=[counter], rate=[rate], enabled=False)
    with pytest.raises(tf.errors.InvalidArgumentError, match="weight_decay"):
        launch.apply(counter=[counter], rate=[rate], weight_decay=[0.5] * 3)
    assert int(counter) == 7


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", OPS)
def test_a_step_traced_before_xla_compiles_it_says_what_to_do(name, sparse):
    launch = Launch(name, shapes=((2, 3),) if sparse else SHAPES)
    if sparse:
        values = tf.constant([[0.5, 1.0, -2.0], [0.25, 0.125, 3.0]])
        launch.gradients = [tf.IndexedSlices(values, [1, 1])]
    step = tf.function(lambda: launch.apply() and None)
    step()
    before = launch.numpy()
    with pytest.raises(
        tf.errors.UnimplementedError, match='implementation="composed"'
    ):
        tf.function(lambda: step(), jit_compile=True)()
    np.testing.assert_equal(launch.numpy(), before)


def test_a_row_must_be_in_the_smallest_table(device):
    launch = Launch("asgd", [(2,)] * 3)
    launch.lists["y"] = [tf.Variable(tf.zeros((rows, 2))) for rows in (4, 2, 3)]
    before = launch.numpy()
    message = r"`batch_index` must be in \[0, 2\).*got 3"
    assert_refused(lambda: launch.apply(batch_index=3), device, message)
    np.testing.assert_equal(launch.numpy(), before)


def test_to_a_tape_around_a_step_its_ops_are_constants(implementation):
    table = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    weights = tf.Variable([1.0, 2.0])
    variables = [table, weights]
    optimizer = tf_opt.AdamW(
        0.1, global_clipnorm=1.0, implementation=implementation
    )
    optimizer.build(variables)
    with tf.GradientTape(persistent=True) as tape:
        loss = tf.reduce_sum(tf.gather(table, [1]) * weights)
        optimizer.apply(tape.gradient(loss, variables), variables)
        after = tf.reduce_sum(weights**2)
    np.testing.assert_allclose(
        tape.gradient(after, weights), 2 * weights.numpy()
    )
    gradients = [tf.constant([1.0, 2.0])]
    with tf.GradientTape() as tape:
        tape.watch(gradients)
        measured = measure_gradients(gradients).sums_of_squares
    assert tape.gradient(measured, gradients) == [None]


def test_no_number_is_an_attribute():
    # TensorFlow keeps a kernel for each value of an attribute.
    for name in (
        "TfOpt>MergeSlices",
        "TfOpt>MeasureGradients",
        "TfOpt>ResourceApplyAdamAmsgrad",
        "TfOpt>ResourceSparseApplyAdamAmsgrad",
    ):
        for attribute in op_def_registry.get(name).attr:
            if attribute.type in ("int", "list(int)", "float"):
                assert attribute.name.startswith(("N", "num_"))


def test_tf_opt_ops_has_every_op():
    found = {x for x in tf_opt.ops.__all__ if x.startswith("resource_apply_")}
    assert {x.replace("_", "") for x in found} == {
        form.op_name.removeprefix("TfOpt>").lower()
        for op in OPS.values()
        for form in op.spec.forms.values()
    }


def test_generated_function_takes_lists_of_handles():
    found, expected = Launch("lion"), Launch("lion").apply(weight_decay=0.5)
    handles = {k: [x.handle for x in v] for k, v in found.lists.items()}
    numbers = {**BARE, **found.op.reals, "weight_decay": 0.5}
    tf_opt.ops.resource_apply_lion(
        **handles, gradients=found.gradients, **numbers
    )
    assert_same(found.everything(), expected.everything())


def test_many_threads_may_step_variables_that_overlap():
    # Locks in one order: crossing lists of the same variables don't deadlock.
    count = 40
    state = Launch("adam", shapes=((64,),) * count)
    backwards = {name: x[::-1] for name, x in state.lists.items()}

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
    assert np.isfinite(state.lists["variables"][0].numpy()).all()
