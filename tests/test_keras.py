"""In Keras: `fit`, schedules, and Keras' own numbers.

test_from_keras.py has the options of the base class.
"""

import inspect
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

import torch_trajectory
from counterparts import COUNTERPARTS, variables_of
from devices import GPUS
from registry import OPTIMIZERS
from small_model import FIT, X, Y, assert_close, assert_same, compiled, fit
from trajectory import RUNS, after_each

# Whose `cast` Keras' optimizers and initializers call; the former call the
# backend's since Keras 3.16.
KERAS_OPS = [keras.src.ops, getattr(keras.src.backend, "ops", keras.src.ops)]

# Keras computes 1 - beta_2^t in float32, where 1 - 0.999 is off by up to 3e-5:
# some 1.5e-5 of a learning rate of 0.02 each step, until t has grown.
# On a GPU, TensorFlow's square root of a float32 isn't rounded correctly.
TOLERANCE = dict.fromkeys(("rtol", "atol"), 2e-5 if GPUS else 2e-6)


@pytest.mark.core
@pytest.mark.parametrize(
    ("name", "mode"),
    # The others differ in their numbers, which have a test of their own.
    [
        ("NAdam", {}),
        ("SGD", {"jit_compile": True}),
        ("Lion", {"run_eagerly": True}),
    ],
    ids=str,
)
def test_fit_equals_keras(name, mode):
    ours, theirs = (
        fit(make(), **mode).get_weights() for make in COUNTERPARTS[name]
    )
    assert_close(ours, theirs, **TOLERANCE)


# A float32 has these exactly, also 1 - beta: Keras computes with them in the
# variable's type, and keeps the learning rate in float32.
EXACT = {
    "learning_rate": 2.0**-10,
    "beta_1": 0.875,
    "beta_2": 0.9375,
    "weight_decay": 2.0**-6,
}


def exact_cast(x, dtype):
    """`keras.ops.cast`, but a Python float becomes a float64 as it is."""
    return tf.constant(x, dtype) if isinstance(x, float) else tf.cast(x, dtype)


@pytest.mark.core
@pytest.mark.parametrize(
    ("name", "implementation"),
    zip(
        # test_whole_matrices.py tests the others.
        [x for x in COUNTERPARTS if x.partition(",")[0] in OPTIMIZERS],
        itertools.cycle(["composed", "custom_op"]),
        strict=False,
    ),
)
def test_numbers_are_those_of_keras(name, implementation, monkeypatch):
    # Keras takes 0.96 to float64 through float32, 2e-8 off.
    for ops in KERAS_OPS:
        monkeypatch.setattr(ops, "cast", exact_cast)
    pair = COUNTERPARTS[name]
    known = inspect.signature(pair.keras.func).parameters
    exact = {key: value for key, value in EXACT.items() if key in known}
    optimizers = [
        pair.ours(**exact, implementation=implementation),
        pair.keras(**exact),
    ]
    start = torch_trajectory.initial_value("float64")
    variables = [keras.Variable(start, dtype="float64") for _ in optimizers]
    for optimizer, variable in zip(optimizers, variables, strict=True):
        optimizer.build([variable])

    ours, theirs = (
        after_each(
            lambda gradient, o=optimizer, v=variable: o.apply([gradient], [v]),
            torch_trajectory.gradients("float64", {}),
            {
                str(i): x
                for i, x in enumerate((variable, *variables_of(optimizer)[2:]))
            }
            # Subclasses read Keras' lists.
            | {
                name: each[0]
                for name, each in vars(optimizer).items()
                if isinstance(each, list)
                and isinstance((*each, 0)[0], keras.Variable)
            },
        )
        for optimizer, variable in zip(optimizers, variables, strict=True)
    )
    assert ours.keys() == theirs.keys()
    for key, each in ours.items():
        # A product of 200 numbers has 200 rounding errors.
        factor = 200 if each.ndim == 1 else 1
        np.testing.assert_allclose(each, theirs[key], factor * 1e-12)


@pytest.mark.core
@pytest.mark.parametrize("schedule_by", ["steps", "updates"])
@pytest.mark.parametrize(
    ("name", "how"), [("Adam", "tf.function"), ("SGD", "eager")]
)
def test_a_schedule_counts_steps_or_updates(name, schedule_by, how):
    pair = COUNTERPARTS[name]
    arguments = {
        "learning_rate": keras.optimizers.schedules.CosineDecay(0.1, 50),
        "weight_decay": 0.1,
    }
    accumulates = {"gradient_accumulation_steps": 3}
    ours = pair.ours(**arguments, **accumulates, schedule_by=schedule_by)
    # By updates, it is Keras' on the mean of three batches.
    as_large = schedule_by == "updates"
    theirs = pair.keras(**arguments, **({} if as_large else accumulates))
    variables = [keras.Variable([1.0, -2.0, 0.5]) for _ in range(2)]
    for optimizer, variable in zip([ours, theirs], variables, strict=True):
        optimizer.build([variable])
    our_step = RUNS[how](lambda gradient: ours.apply([gradient]))
    their_step = RUNS[how](lambda gradient: theirs.apply([gradient]))
    random = np.random.default_rng(4)
    for _ in range(20):
        batches = random.normal(size=(3, 3)).astype("float32")
        for batch in batches:
            assert float(ours.learning_rate) == float(theirs.learning_rate)
            our_step(tf.constant(batch))
            if not as_large:
                their_step(tf.constant(batch))
        if as_large:
            their_step(tf.constant(batches.mean(axis=0)))
        np.testing.assert_allclose(*variables, **TOLERANCE)
    assert abs(variables[0].numpy() - [1.0, -2.0, 0.5]).min() > 0.01


@pytest.mark.filterwarnings("ignore:Gradients do not exist")
def test_variables_may_come_in_any_order_in_part_and_without_gradients(
    implementation,
):
    def run(order, with_none: bool = False) -> list[np.ndarray]:
        types = ["float32", "bfloat16", "float64"]
        variables = [
            keras.Variable([1.0 * i, 3.0], dtype=x) for i, x in enumerate(types)
        ]
        gradients = [
            tf.constant([1 + i, -1], dtype) for i, dtype in enumerate(types)
        ]
        optimizer = tf_opt.NAdam(0.1, implementation=implementation)
        optimizer.build(variables)
        for indices in order:
            given = range(3) if with_none else indices
            optimizer.apply(
                [gradients[i] if i in indices else None for i in given],
                [variables[i] for i in given],
            )
        # Each step counts once, whatever its variables.
        exponents = np.arange(1, 4) * optimizer.momentum_decay
        product = np.prod(optimizer.beta_1 * (1 - 0.5 * 0.96**exponents))
        np.testing.assert_allclose(optimizer.variables[-1], product, 1e-14)
        return [v.numpy() for v in (*variables, *optimizer.variables)]

    expected = run([[0, 1, 2], [0, 1], [2]])
    assert_same(run([[2, 1, 0], [1, 0], [2]]), expected)
    assert_same(run([[0, 1, 2], [0, 1], [2]], with_none=True), expected)


def test_plain_tf_variables_and_apply_gradients(implementation):
    variable = tf.Variable([[1.0, 2.0]])
    optimizer = tf_opt.Adam(0.1, implementation=implementation)
    for expected_steps in (1, 2):
        pairs = [(tf.constant([[2.0, -3.0]]), variable)]
        steps = optimizer.apply_gradients(pairs)
        assert int(steps.numpy()) == expected_steps
    np.testing.assert_allclose(variable.numpy(), [[0.8, 2.2]], atol=1e-6)
    with pytest.raises(ValueError, match="Unknown variable"):
        optimizer.apply([tf.constant([1.0])], [keras.Variable([1.0])])


@pytest.mark.core
def test_the_count_of_steps_is_a_variable_to_add_to():
    iterations = tf_opt.Adam().iterations
    assert int(iterations.assign_add(tf.constant(2))) == 2
    with keras.StatelessScope() as scope:
        iterations.assign_add(1)
    assert int(iterations) == 2
    assert int(scope.get_current_value(iterations)) == 3


@pytest.mark.parametrize("how", RUNS)
def test_a_schedule_may_return_one_number_in_a_list(how):
    def trained(rate):
        class Schedule(keras.optimizers.schedules.LearningRateSchedule):
            def __call__(self, step):
                return tf.constant(rate)

        variables = [keras.Variable([1.0, 2.0]), keras.Variable(3.0)]
        optimizer = tf_opt.Adam(Schedule())
        optimizer.build(variables)
        gradients = [tf.constant([1.0, -1.0]), tf.constant(2.0)]
        RUNS[how](lambda: optimizer.apply(gradients))()
        return [variable.numpy().tolist() for variable in variables]

    assert trained([0.1]) == trained(0.1)
    with pytest.raises(ValueError, match="`learning_rate` must return one"):
        trained([0.1, 0.2])


@pytest.mark.core
@pytest.mark.parametrize("device", ["CPU:0", "CPU:1"])
def test_fit_builds_the_state_on_the_models_device(device):
    optimizer = tf_opt.NAdam(
        0.1,
        master_weights=True,
        gradient_accumulation_steps=2,
        use_ema=True,
        skip_nonfinite=True,
        global_clipnorm=1.0,
        learning_rate_multipliers={"bias": 0.5},
    )
    with tf.device(device):
        model = compiled(optimizer, "bfloat16")
    # XLA would look for the model on a GPU.
    model.compile(optimizer, "mse", jit_compile=False)
    model.fit(X, Y, **FIT)
    shapes = {v.shape for v in model.trainable_variables}
    slots = [x for x in optimizer.variables if x.shape in shapes]
    assert len(slots) > 4 * len(shapes)
    assert all(x.value.device.endswith(device) for x in slots)
