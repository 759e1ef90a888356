"""State on another device than the variables, or in shards; replicas.

test_whole_step.py has every feature of a step; this is what surrounds it.
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

import small_model
from registry import slow

HOST = {"state_device": "CPU:0"}
PLACEMENTS = {"shards": {"shard_state": True}, "host": HOST}
# Where the variables are whose state isn't beside them.
DEVICE = "CPU:1"


@pytest.mark.parametrize(
    ("placement", "elements"),
    [({"shard_state": True}, [80, 80]), ({"state_device": "CPU:1"}, [0, 160])],
    ids=str,
)
def test_the_state_is_in_halves_or_on_the_host(strategy, placement, elements):
    with strategy.scope():
        variables = [
            keras.Variable(np.ones(n, "float32")) for n in (60, 50, 30, 20)
        ]
        optimizer = tf_opt.Adam(master_weights=True, **placement)
        optimizer.build(variables)
    memory = optimizer.memory()
    devices = [memory[name] for name in ("CPU:0", "CPU:1")]
    assert [x.get("slots", 0) for x in devices] == [8 * n for n in elements]
    assert [x["variables"] for x in devices] == [160 * 4] * 2


@pytest.mark.parametrize("placement", [*PLACEMENTS, "host, one device"])
def test_saved_state_loads_elsewhere(strategy, tmp_path, placement):
    alone = placement not in PLACEMENTS
    where = tf.device("CPU:1") if alone else strategy.scope()

    def make(**arguments: Any) -> keras.Model:
        optimizer = tf_opt.AdamW(0.05, use_ema=True, **arguments)
        model = small_model.compiled(optimizer)
        optimizer.build(model.trainable_variables)
        for i, variable in enumerate(optimizer.variables[2:]):
            random = np.random.default_rng(i)
            variable.assign(random.normal(size=variable.shape))
        return model

    usual = make()
    with where:
        moved = make(**PLACEMENTS[placement.split(",")[0]])
    for source, target in ((usual, moved), (moved, usual)):
        for kind in ("weights.h5", "checkpoint", *["keras"] * alone):
            for variable in target.optimizer.variables[2:]:
                variable.assign(tf.zeros_like(variable))
            found = small_model.loaded(source, target, kind, tmp_path)
            same = source if kind == "keras" else target
            device = same.optimizer.state_device
            assert found.optimizer.state_device == device
            small_model.assert_same(
                small_model.state(found), small_model.state(source)
            )


@pytest.mark.parametrize("placement", ["shards", slow("host")])
def test_rows_catch_up_in_replicas(strategy, placement):
    def train(**arguments: Any) -> np.ndarray:
        with strategy.scope():
            table = keras.Variable(np.ones((6, 2)), name="table")
            optimizer = tf_opt.Adam(
                0.1, lazy_mode={"table": "catch_up"}, **arguments
            )
            optimizer.build([table])

        def on_replica(number: tf.Tensor) -> None:
            context = tf.distribute.get_replica_context()
            own = 2 * number + context.replica_id_in_sync_group
            rows = tf.stack([0, own % 6])
            # Another one, which has missed a step.
            optimizer.catch_up(table, [(own + 2) % 6])
            values = tf.ones((2, 2), tf.float64)
            optimizer.apply([tf.IndexedSlices(values, rows)], [table])

        step = tf.function(lambda number: strategy.run(on_replica, (number,)))
        for number in range(3):
            step(tf.constant(number))
        for variable in (table, *optimizer.variables) if not arguments else ():
            copies = strategy.experimental_local_results(variable.value)
            np.testing.assert_array_equal(copies[0], copies[-1])
        optimizer.catch_up()
        return table.numpy()

    np.testing.assert_array_equal(train(**PLACEMENTS[placement]), train())


def test_shards_need_a_mirrored_strategy_outside_of_xla(strategy):
    optimizer = tf_opt.Adam(shard_state=True)
    with pytest.raises(ValueError, match="needs a `tf.distribute.Mirrored"):
        optimizer.build([keras.Variable(1.0)])
    variable = keras.Variable(1.0)
    with strategy.scope():
        optimizer = tf_opt.Adam(shard_state=True)
        with pytest.raises(ValueError, match="a copy in each replica"):
            optimizer.build([variable])
        with pytest.raises(ValueError, match="needs steps outside"):
            small_model.fit(tf_opt.Adam(shard_state=True), jit_compile=True)
    with pytest.raises(ValueError, match="Only one of `shard_state`"):
        tf_opt.Adam(shard_state=True, state_device="CPU:0")


# ---- State of one device's variables on the host. ----


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


# ---- Each replica with its own state. ----


def test_the_only_replica_builds_the_optimizer():
    alone = tf.distribute.MirroredStrategy(["CPU:0"])
    with alone.scope():
        variable = keras.Variable([1.0])
        optimizer = tf_opt.SGD(0.1, skip_nonfinite=True)
    for gradient in ([1.0], [np.inf]):
        grads = [tf.constant(gradient)]
        alone.run(lambda grads: optimizer.apply(grads, [variable]), (grads,))
    assert variable.numpy() == pytest.approx(0.9)
    assert int(optimizer.skipped_steps) == 1


@pytest.mark.parametrize("wrap", [lambda x: x, tf_opt.LossScaleOptimizer])
def test_an_optimizer_from_outside_of_the_scope_says_what_to_do(strategy, wrap):
    inner = tf_opt.Adam(0.1)
    optimizer = wrap(inner)
    with strategy.scope():
        variable = keras.Variable([1.0])
        with pytest.raises(ValueError, match=r"`with strategy\.scope\(\):`"):
            optimizer.build([variable])
    with pytest.raises(ValueError, match=r"Received: Adam\(learning_rate=0.1"):
        strategy.run(lambda: optimizer.apply([tf.ones(1)], [variable]))
    assert not inner.built
    # Keras' own would train the replicas apart.
    optimizer.build([variable])
    with pytest.raises(ValueError, match=r"`with strategy\.scope\(\):`"):
        strategy.run(lambda: optimizer.apply([tf.ones(1)], [variable]))


def test_replicas_that_share_one_copy_are_refused():
    central = tf.distribute.experimental.CentralStorageStrategy(
        ["CPU:0", "CPU:1"], "CPU:0"
    )
    with central.scope():
        shared, optimizer = tf.Variable([1.0]), tf_opt.Adam(0.1)
        optimizer.build([shared])
        with pytest.raises(ValueError, match="must be None under CentralStora"):
            tf_opt.Adam(state_device="CPU:0").build([shared])

    @tf.function
    def step() -> None:
        central.run(lambda: optimizer.apply([tf.constant([0.5])], [shared]))

    with pytest.raises(ValueError, match="must have a copy.*CentralStorage"):
        step()
    assert shared.numpy() == 1
