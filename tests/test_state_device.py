"""State on another device than the variables: `state_device`.

The variables are on CPU:1, their state on CPU:0. test_whole_step.py has every
feature of a step; this is what surrounds it.
"""

from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

import small_model
from registry import slow

HOST = {"state_device": "CPU:0"}
DEVICE = "CPU:1"


def variables_of(dtype: str = "float32") -> list[keras.Variable]:
    random = np.random.default_rng(1)
    shapes = {"table": (9, 3), "kernel": (4, 5), "bias": (5,), "scale": ()}
    with tf.device(DEVICE):
        return [
            keras.Variable(random.normal(size=shape), dtype=dtype, name=name)
            for name, shape in shapes.items()
        ]


def gradients_of(
    variables: list[keras.Variable], step: int
) -> list[tf.Tensor | tf.IndexedSlices]:
    random = np.random.default_rng(step)
    with tf.device(DEVICE):
        table, *dense = (
            tf.constant(random.normal(size=x.shape), x.dtype) for x in variables
        )
        rows = tf.constant(random.integers(0, 9, 4))
        return [tf.IndexedSlices(table[:4], rows), *dense]


def assert_alike(train: Callable[..., list[np.ndarray]]) -> None:
    """Compares state beside the variables with state on the host."""
    small_model.assert_same(train(), train(**HOST))


def test_a_constraint_goes_over_a_whole_lazy_table():
    def train(**where: str) -> list[np.ndarray]:
        variables = variables_of()
        variables[0].constraint = keras.constraints.NonNeg()
        optimizer = tf_opt.Adam(0.05, lazy_mode={"^table$": True}, **where)
        optimizer.apply(gradients_of(variables, 0), variables)
        assert variables[0].numpy().min() >= 0
        return [variables[0].numpy()]

    assert_alike(train)


def test_averages_of_variables_without_a_gradient_move():
    def train(**where: str) -> list[np.ndarray]:
        variables = variables_of()
        # In every step, of which only the second updates.
        averaging = {"use_ema": True, "gradient_accumulation_steps": 2}
        optimizer = tf_opt.SGD(0.1, ema_momentum=0.5, **averaging, **where)
        optimizer.build(variables)
        for number in range(3):
            variables[2].assign(np.full(5, number))
            gradient = gradients_of(variables, number)[1]
            optimizer.apply([gradient], [variables[1]])
        return [x.numpy() for x in (*variables, *optimizer.variables)]

    assert_alike(train)


@pytest.mark.parametrize(
    ("wrap", "arguments"),
    [
        (lambda optimizer: optimizer, {"run_eagerly": True}),
        (tf_opt.LossScaleOptimizer, {}),
        slow(keras.optimizers.LossScaleOptimizer, {"steps_per_execution": 3}),
        slow(small_model.multi, {}),
    ],
)
def test_fit_has_the_same_bits(wrap, arguments):
    def fit(**placement: str) -> list[np.ndarray]:
        with tf.device(DEVICE):
            optimizer = tf_opt.AdamW(0.1, use_ema=True, **placement)
            model = small_model.fit(
                wrap(optimizer), jit_compile=False, **arguments
            )
            # With the averages.
            swap = tf_opt.callbacks.SwapAveragedWeights()
            predicted = model.predict(
                np.ones((2, 4)), verbose=0, callbacks=[swap]
            )
        return [predicted, *small_model.state(model)]

    assert_alike(fit)


def test_inside_xla_it_says_what_to_do():
    def fit(device: str) -> None:
        with tf.device(device):
            small_model.fit(tf_opt.Adam(0.1, **HOST), jit_compile=True)

    with pytest.raises(ValueError, match="`jit_compile=False`"):
        fit(DEVICE)
    # On a machine without another device the option changes nothing.
    fit("CPU:0")


def test_variables_on_the_device_itself_have_no_copies():
    optimizer = tf_opt.Adam(0.1, **HOST)
    variables = [*variables_of(), keras.Variable(np.ones(3), name="at_home")]
    before = [x.numpy() for x in variables]
    optimizer.apply([tf.ones(x.shape, x.dtype) for x in variables], variables)
    expected = [old - 0.1 for old in before]
    small_model.assert_close(variables, expected, rtol=1e-5)
    of_others = sum(x.numpy().nbytes for x in variables[:-1])
    assert optimizer.memory()["CPU:0"]["working_copies"] == of_others


def test_memory_tells_what_is_where():
    variables = variables_of("bfloat16")
    elements = sum(x.numpy().size for x in variables)
    optimizer = tf_opt.Adam(0.1, master_weights=True, use_ema=True, **HOST)
    with pytest.raises(ValueError, match="is known once the optimizer is"):
        optimizer.memory()
    optimizer.build(variables)
    memory = optimizer.memory()
    assert memory["CPU:1"]["variables"] == 2 * elements
    host = memory["CPU:0"]
    assert host["slots"] == 8 * elements
    assert host["master_weights"] == host["averages"] == 4 * elements
    assert host["working_copies"] == 2 * elements
    assert "slots" not in memory["CPU:1"]


def test_updates_wait_for_no_gradient_but_their_own(monkeypatch):
    monkeypatch.setattr(
        "tf_opt.python.optimizers.state.placement.PORTION_BYTES", 1 << 10
    )
    with tf.device(DEVICE):
        layers = [keras.Variable(tf.eye(16)) for _ in range(8)]
    optimizer = tf_opt.Adam(0.1, **HOST)
    optimizer.build(layers)

    @tf.function
    def step(x: tf.Tensor) -> None:
        with tf.device(DEVICE), tf.GradientTape() as tape:
            for layer in layers:
                x = x @ layer
        optimizer.apply(tape.gradient(x, layers), layers)

    def products_before(op: tf.Operation) -> int:
        """How many matrices are multiplied before an op may run."""
        seen, ahead = set(), [op]
        while ahead:
            op = ahead.pop()
            if op not in seen:
                seen.add(op)
                ahead += op.control_inputs + [x.op for x in op.inputs]
        return sum(x.type == "MatMul" for x in seen)

    graph = step.get_concrete_function(tf.TensorSpec((4, 16))).graph
    counts = [
        products_before(op)
        for op in graph.get_operations()
        if "ResourceApplyAdam" in op.type
    ]
    # For its gradient those of the layers before it, back through the layers
    # behind it, and its own: fewer than all.
    assert counts == [len(layers)] * len(layers)
