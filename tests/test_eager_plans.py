"""What eager steps keep: private, bounded, and of the variables themselves."""

import concurrent.futures
import ctypes
import gc
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt
from tensorflow.python.eager import context
from tf_opt.python.optimizers.step.plan import PlanKeeper

from devices import GPU_KERNELS
from registry import slow
from small_model import assert_same

pytestmark = pytest.mark.core


def _events(step: Callable[[], None]) -> list[tuple[str, str]]:
    """Kinds of a step's calls and returns, with the names of C functions."""
    events: list[tuple[str, str]] = []
    sys.setprofile(
        lambda _, event, function: events.append(
            (event, getattr(function, "__name__", ""))
        )
    )
    try:
        step()
    finally:
        sys.setprofile(None)
    return events


def _calls(step: Callable[[], None]) -> int:
    """How many Python functions a step calls that isn't the first."""
    step()
    return [event for event, _ in _events(step)].count("call")


def _in_turns(count: int, subsets: Sequence[Sequence[int]]) -> tuple[Any, Any]:
    """An optimizer, and a loop over subsets of its variables."""
    variables = [keras.Variable([1.0]) for _ in range(count)]
    optimizer = tf_opt.Adam(0.1)
    optimizer.build(variables)

    def loop() -> None:
        for subset in subsets:
            chosen = [variables[i] for i in subset]
            optimizer.apply([tf.ones(1)] * len(chosen), chosen)

    return optimizer, loop


def _all_but_one(count: int) -> list[list[int]]:
    return [[i for i in range(count) if i != k] for k in range(count)]


@pytest.mark.parametrize(
    "subsets",
    [_all_but_one(40), slow([[i] for i in range(200)])],
    ids=["all but one", "one"],
)
def test_many_subsets_in_turns_cost_what_few_do(subsets):
    few, many = (
        _calls(_in_turns(len(subsets), taken)[1]) / len(taken)
        for taken in (subsets[:8], subsets)
    )
    # Numbers of earlier steps, which are kept for a while, cost less.
    assert many < 1.5 * few


def test_plans_are_bounded_and_many_stay_where_too_many_take_turns(monkeypatch):
    one = len(("mode", *range(19))) + PlanKeeper.BESIDES
    monkeypatch.setattr(PlanKeeper, "LIMIT", 15 * one)
    optimizer, loop = _in_turns(20, _all_but_one(20))
    kept = optimizer._plans._plans
    stayed = []
    for _ in range(20):
        before = list(kept.values())
        loop()
        assert len(kept) == 15
        stayed.append(len({*map(id, before)} & {*map(id, kept.values())}))
    # Of plans dropped in turn, none would.
    assert np.mean(stayed[1:]) > 5


@pytest.mark.parametrize(
    "options",
    [
        {"clipvalue": 0.5},
        {"loss_scale_factor": 8.0},
        {"use_ema": True, "ema_overwrite_frequency": 2},
        {"learning_rate_multipliers": {".": 0.5}},
    ],
    ids=lambda options: next(iter(options)),
)
@pytest.mark.needs_library
def test_options_of_a_launch_cost_few_calls(options):
    variables = [keras.Variable([1.0, 2.0]) for _ in range(6)]
    optimizer = tf_opt.Adam(0.1, **options)
    optimizer.build(variables)
    few = 400  # A launch takes 60 to 300, the usual path more than 600.

    def calls(gradient: Any) -> int:
        gradients = [gradient] * 6
        optimizer.apply(gradients, variables)  # Makes the plan.
        return _calls(lambda: optimizer.apply(gradients, variables))

    assert calls(tf.constant([0.3, -0.7])) < few
    # Arrays take the usual path.
    assert calls(np.float32([0.3, -0.7])) > few


@pytest.mark.skipif(GPU_KERNELS, reason="they read the GPU's memory alone")
@pytest.mark.needs_library
def test_a_step_without_options_is_one_call_of_tensorflow():
    variables = [keras.Variable([1.0, 2.0]) for _ in range(6)]
    optimizer = tf_opt.Adam(0.1)
    gradients = [tf.ones(2)] * 6
    for _ in range(2):  # Makes the plan.
        optimizer.apply(gradients, variables)
    events = _events(lambda: optimizer.apply(gradients, variables))
    assert events.count(("c_call", "TFE_Py_FastPathExecute")) == 1


_CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "rate assigned": lambda x, _: x.learning_rate.assign(0.5),
    "rate": lambda x, _: setattr(x, "learning_rate", 0.5),
    "steps": lambda x, _: x.iterations.assign(100),
    "beta_1": lambda x, _: setattr(x, "beta_1", 0.5),
    "beta_1, a variable": lambda x, other: setattr(x, "beta_1", other),
    "weight_decay": lambda x, _: setattr(x, "weight_decay", 0.5),
    "clipvalue": lambda x, _: setattr(x, "clipvalue", 0.1),
    "loss scale": lambda x, _: setattr(x, "loss_scale_factor", 2.0),
    "clipnorm": lambda x, _: setattr(x, "clipnorm", 0.1),
    "multipliers": lambda x, _: setattr(
        x, "learning_rate_multipliers", {"first": 0.5}
    ),
    "excluded": lambda x, _: (
        x.exclude_from_weight_decay(var_names=["first"]),
        setattr(x, "weight_decay", 0.5),
    ),
    "constraint": lambda x, _: setattr(
        x._trainable_variables[0], "constraint", keras.constraints.NonNeg()
    ),
    "rounding": lambda x, _: setattr(x, "stochastic_rounding", True),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("change", _CHANGES)
def test_what_changes_between_steps_is_seen_by_the_next(change, dtype):
    other = keras.Variable(0.25)
    tensor = tf.cast([0.3, -0.7], dtype)
    trainings = []
    # Arrays take the usual path.
    for gradient in (tensor, tensor.numpy()):
        variables = [
            keras.Variable([1.0, 2.0], dtype=dtype, name=name)
            for name in ("first", "second")
        ]
        optimizer = tf_opt.AdamW(0.1, weight_decay=0.0, seed=3)
        optimizer.build(variables)
        trainings.append((optimizer, variables, [gradient] * 2))

    def run(steps: int) -> None:
        ends = []
        for optimizer, variables, gradients in trainings:
            for _ in range(steps):
                optimizer.apply(gradients, variables)
            kept = [*variables, *optimizer.variables]
            ends.append([x.numpy() for x in kept])
        assert_same(*ends)

    run(3)
    for optimizer, *_ in trainings:
        _CHANGES[change](optimizer, other)
    run(2)
    other.assign(0.75)
    run(2)


def _counting_callable(base: Any) -> Any:
    rates = iter(0.5 ** np.arange(9))
    return base(lambda: float(next(rates)))


def _callable_of_a_variable(base: Any) -> Any:
    rate = keras.Variable(1.0)
    return base(lambda: rate.assign(rate * 0.5) is None or rate)


def _rate_of_a_subclass(base: Any) -> Any:
    class WarmUp(base):
        def _get_current_learning_rate(self) -> Any:
            rate = super()._get_current_learning_rate()
            rate.assign(0.1 * (1 + float(self._iterations)))
            return rate

    return WarmUp(0.1)


@pytest.mark.parametrize(
    "make",
    [
        _counting_callable,
        _callable_of_a_variable,
        _rate_of_a_subclass,
    ],
)
def test_what_is_computed_for_a_step_is_computed_once_in_each(make):
    def train(module: Any) -> np.ndarray:
        variable = keras.Variable([1.0, 2.0])
        optimizer = make(module.SGD)
        for _ in range(6):
            optimizer.apply([tf.ones(2)], [variable])
        return variable.numpy()

    expected = train(keras.optimizers)
    np.testing.assert_allclose(train(tf_opt), expected, rtol=1e-6)


def test_multipliers_that_a_traced_function_assigns_are_seen():
    variable = keras.Variable(1.0, name="first")
    optimizer = tf_opt.SGD(0.1, learning_rate_multipliers={"first": 1.0})
    optimizer.build([variable])

    @tf.function
    def freeze() -> None:
        optimizer.learning_rate_multipliers = {"first": 0.0}

    freeze()
    optimizer.learning_rate_multipliers = {"first": 1.0}
    for _ in range(3):
        optimizer.apply([tf.constant(1.0)], [variable])
    freeze()
    before = float(variable)
    optimizer.apply([tf.constant(1.0)], [variable])
    assert float(variable) == before < 1.0


@pytest.mark.parametrize("implementation", ["auto", "composed"])
def test_variables_and_slots_go_with_their_optimizer(implementation):
    def train() -> list[weakref.ref]:
        variables = [keras.Variable([1.0]) for _ in range(2)]
        optimizer = tf_opt.Adam(0.1, implementation=implementation)
        optimizer.apply([tf.ones(1)] * 2, variables)
        everything = [*variables, *optimizer.variables, optimizer]
        return [weakref.ref(x) for x in everything]

    kept = train()
    gc.collect()
    assert [reference() for reference in kept] == [None] * len(kept)


@pytest.mark.parametrize("implementation", ["auto", slow("composed")])
def test_memory_stays_the_same_from_step_to_step(implementation):
    # TensorFlow keeps every Python number that becomes an eager tensor.
    class Allocated(ctypes.Structure):
        _fields_ = [(f"field_{i}", ctypes.c_size_t) for i in range(10)]

    mallinfo2 = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo2 is None:
        pytest.skip("measuring needs glibc 2.33")
    mallinfo2.restype = Allocated

    def allocated() -> int:
        gc.collect()
        return mallinfo2().field_4 + mallinfo2().field_7  # hblkhd, uordblks.

    schedule = keras.optimizers.schedules.InverseTimeDecay(0.1, 100, 1.0)
    optimizer = tf_opt.NAdam(
        schedule,
        global_clipnorm=0.1,
        learning_rate_multipliers={".": 0.5},
        stochastic_rounding=True,
        implementation=implementation,
    )
    variable = tf.Variable([1.0], dtype=tf.bfloat16)
    # No gradient, and no number, is that of another step.
    gradients = iter(tf.unstack(tf.linspace([1.0], [2.0], 400)))

    def train(steps: int) -> None:
        for _ in range(steps):
            optimizer.apply([next(gradients)], [variable])

    train(200)  # What is kept is bounded, and is full now.
    before = allocated()
    train(200)
    kept = allocated() - before
    assert kept < 200 * 500  # Python numbers keep 1,800 bytes in each step.


@pytest.mark.needs_library
def test_an_implementation_changed_later_is_used():
    variable = keras.Variable([1.0])
    optimizer = tf_opt.Adam(0.1)
    assert optimizer.implementation_in_use is None
    for implementation in ("custom_op", "composed", "custom_op"):
        optimizer.implementation = implementation
        optimizer.apply([tf.ones(1)], [variable])
        assert optimizer.implementation_in_use == implementation


def test_threads_may_train_models_of_their_own_and_share_an_optimizer():
    shared = tf_opt.Adam(0.1)
    variables = [keras.Variable([float(i)]) for i in range(6)]
    shared.build(variables)

    def run(own: list[keras.Variable]) -> None:
        for _ in range(100):
            shared.apply([tf.ones(1)] * len(own), own)

    with concurrent.futures.ThreadPoolExecutor(3) as threads:
        # What a thread raises is raised here.
        list(threads.map(run, [variables[i : i + 2] for i in (0, 2, 4)]))
    for i, variable in enumerate(variables):
        assert variable.numpy() < i - 1


@pytest.mark.parametrize(
    "gradient",
    [np.float64([1, 1, 1]), np.float32(1), np.float32([1])],
    ids=["type", "scalar", "broadcast"],
)
def test_asynchronous_steps_take_what_synchronous_ones_do(gradient):
    variables = [keras.Variable(np.zeros(3, "float32")) for _ in range(2)]
    optimizer = tf_opt.Adam(0.1)
    optimizer.build(variables)
    ones = tf.ones(3)
    # With an executor of its own, which an error would spoil.
    with context.execution_mode(context.ASYNC):
        assert not tf.config.experimental.get_synchronous_execution()
        optimizer.apply([ones, ones], variables)
        optimizer.apply([ones, tf.constant(gradient)], variables)
        with pytest.raises(ValueError, match="must have its shape"):
            optimizer.apply([ones, tf.ones(2)], variables)
        optimizer.apply([ones, ones], variables)
    assert int(optimizer.iterations) == 3
    for variable in variables:
        np.testing.assert_allclose(variable.numpy(), -0.3, rtol=1e-5)
