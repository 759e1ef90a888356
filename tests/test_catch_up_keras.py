"""`lazy_mode="catch_up"` with Keras: `fit`, saving, callbacks, strategies."""

import copy
import re
import warnings
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from devices import GPUS
from registry import slow
from small_model import assert_close, assert_same, loaded, multi, state

pytestmark = pytest.mark.kernels

ROWS = 30
LAZY = {"lazy_mode": "catch_up"}
EAGER = {"run_eagerly": True}
scaled = tf_opt.LossScaleOptimizer


def adam(lazy_mode: Any = "catch_up", **arguments: Any) -> tf_opt.Adam:
    return tf_opt.Adam(0.05, lazy_mode=lazy_mode, **arguments)


def make_model(optimizer: Any, seed: int = 3, **arguments: Any) -> keras.Model:
    keras.utils.set_random_seed(seed)
    ids = keras.Input((2,), dtype="int32")
    model = keras.Sequential([ids, *unbuilt().layers])
    model.compile(optimizer, "mse", **arguments)
    return model


def make_data(count: int = 64) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(4)
    ids = np.minimum(random.pareto(1, (count, 2)) * 3, ROWS - 1)
    return ids.astype("int32"), random.normal(size=(count, 1)).astype("float32")


def fit(model: keras.Model, **arguments: Any) -> keras.callbacks.History:
    options = {"epochs": 2, "batch_size": 4, "shuffle": False, "verbose": 0}
    return model.fit(*make_data(), **{**options, **arguments})


def table(model: keras.Model) -> np.ndarray:
    return model.get_layer("table").embeddings.numpy()


def steps(model: keras.Model, count: int) -> None:
    """Trains on different batches, without the end of a `fit`."""
    for k in range(count):
        model.train_on_batch(*(x[4 * k : 4 * k + 4] for x in make_data()))


def eager_steps(optimizer: Any, catches_up: bool) -> None:
    tables = [keras.Variable(tf.ones([ROWS, 2]), name="embeddings")]
    for ids in ([0, 1], [2], [0]):
        if catches_up:
            optimizer.catch_up(tables, [ids])
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(tables[0].value, ids))
        optimizer.apply(tape.gradient(loss, tables), tables)


class TwoTables(keras.Model):
    def build(self, _):
        self.table = keras.layers.Embedding(ROWS, 4, name="table")
        self.own = self.add_weight(shape=(ROWS, 4), name="embeddings")

    def call(self, ids):
        read = self.table(ids) + tf.gather(self.own, ids)
        return tf.reduce_sum(read, [1, 2])[:, None]


def fit_with_callback(model: keras.Model, optimizer: Any, **how: Any) -> None:
    """Without it the second time, when the model knows what to do."""
    model.compile(optimizer, "mse", **how)
    for callbacks in ([tf_opt.callbacks.CatchUp()], []):
        fit(model, callbacks=callbacks, epochs=1)


def fit_after_evaluating(model: keras.Model) -> None:
    model.optimizer.build(model.trainable_variables)
    callbacks = [tf_opt.callbacks.CatchUp()]
    model.evaluate(*make_data(), verbose=0, callbacks=callbacks)
    # As files do.
    model.optimizer.save_own_variables({})
    fit(model)


@pytest.mark.parametrize(
    ("train", "warned_of"),
    [
        (lambda: fit(make_model(scaled(adam()))), "table/embeddings"),
        (lambda: fit(make_model(adam(), **EAGER)), "table/embeddings"),
        (lambda: eager_steps(adam(), False), "embeddings"),
        (lambda: eager_steps(scaled(adam(), 1.0), True), None),
        # Rows that wait don't move.
        (lambda: eager_steps(tf_opt.Adagrad(**LAZY), False), None),
        (lambda: fit_after_evaluating(make_model(adam())), "table/embeddings"),
        (lambda: fit_with_callback(TwoTables(), adam()), "two_[^/]*/embed"),
        (lambda: fit_with_callback(unbuilt(), scaled(adam()), **EAGER), None),
        (lambda: fit_with_callback(unbuilt(), multi(adam())), None),
    ],
)
def test_a_step_warns_once_if_nothing_let_rows_catch_up(
    train, warned_of, recwarn
):
    # Otherwise Python shows what is repeated only once.
    warnings.simplefilter("always")
    train()
    found = [str(x.message) for x in recwarn if "caught up" in str(x.message)]
    assert len(found) == (warned_of is not None), found
    for message in found:
        assert "`tf_opt.callbacks.CatchUp()`" in message
        # Of one table, even where there are two.
        assert re.search(rf"\['[^,]*{warned_of}[^,]*'\]$", message), message


@pytest.mark.parametrize("kind", ["keras", "weights.h5", "checkpoint"])
def test_training_goes_on_from_files_and_checkpoints(kind, tmp_path):
    mode = {"table": "catch_up"}
    model, waiting = (make_model(adam(mode)) for _ in range(2))
    for each in (model, waiting):
        steps(each, 5)
    other = loaded(model, make_model(adam(mode), seed=8), kind, tmp_path)
    assert other.optimizer.lazy_mode == mode
    if kind == "keras":
        # The rows had to catch up first: the file is what exact training has.
        assert (table(other) != table(waiting)).any()
        waiting.optimizer.catch_up()
        np.testing.assert_array_equal(table(other), table(waiting))
    for each in (model, other):
        fit(each)
    assert_same(state(other), state(model))


@pytest.mark.parametrize("kind", ["weights.h5", "checkpoint"])
def test_state_of_exact_training_loads_as_up_to_date(tmp_path, kind):
    exact = make_model(tf_opt.Adam(0.05))
    fit(exact)
    if kind == "weights.h5":
        other = loaded(exact, make_model(adam(), seed=8), kind, tmp_path)
    else:
        other = make_model(adam(), seed=8)
        other.optimizer.build(other.trainable_variables)
        prefix = tf.train.Checkpoint(model=exact).write(str(tmp_path / "exact"))
        tf.train.Checkpoint(model=other).read(prefix).expect_partial()
    before = table(other)
    other.optimizer.catch_up()
    np.testing.assert_array_equal(table(other), before)
    for model in (exact, other):
        fit(model, callbacks=[tf_opt.callbacks.CatchUp(1)])
    assert_close([table(other)], [table(exact)], rtol=1e-3, atol=1e-5)
    # And back again.
    loaded(other, exact, "weights.h5", tmp_path)
    np.testing.assert_array_equal(table(exact), table(other))


def test_beside_an_optimizer_that_knows_no_tables():
    callbacks = [tf_opt.callbacks.CatchUp(1)]
    # An attribute of the model, beside the optimizer of `compile`.
    steps(model := make_model(adam()), 3)
    model.own, before = {"table": model.optimizer}, table(model)
    for plain in (keras.optimizers.SGD(0.0), tf_opt.SGD(0.0)):
        model.compile(plain, "mse", run_eagerly=True)
        fit(model, callbacks=callbacks, epochs=1)
    assert (table(model) != before).any()
    # Nor is there any before `compile`.
    unbuilt().predict(np.zeros((1, 2)), verbose=0, callbacks=callbacks)


def unbuilt() -> keras.Model:
    table = keras.layers.Embedding(ROWS, 4, name="table")
    layers = [table, keras.layers.Flatten(), keras.layers.Dense(1)]
    return keras.Sequential(layers)


def with_a_shared_table() -> keras.Model:
    ids = keras.Input((2,), dtype="int32")
    table = keras.layers.Embedding(ROWS, 4, name="table")
    read = keras.layers.Concatenate()([table(ids), table((ids + 1) % ROWS)])
    output = keras.layers.Dense(1)(keras.layers.Flatten()(read))
    return keras.Sequential([keras.Model(ids, output)])


class OtherRows(keras.layers.Embedding):
    """Reads other rows than those that its inputs name, in bfloat16."""

    def __init__(self, ids_of: Callable[[Any], Any]) -> None:
        super().__init__(ROWS, 4, name="table", dtype="mixed_bfloat16")
        self.ids_of = ids_of

    def call(self, inputs):
        return super().call(self.ids_of(inputs))


def reading(ids_of: Callable[[Any], Any]) -> Callable[[], keras.Model]:
    ids = keras.Input((2,), dtype="int32")
    return lambda: keras.Sequential(
        [ids, OtherRows(ids_of), *unbuilt().layers[1:]]
    )


def sparse(ids: tf.Tensor) -> tf.SparseTensor:
    """Has no value, for which row 0 is read, where others have large ids."""
    return tf.sparse.from_dense(tf.where(ids > 15, 0, ids + 1))


@pytest.mark.parametrize(
    ("make", "where", "how"),
    [
        (unbuilt, "device", EAGER),
        # Ids as floats.
        (
            lambda: keras.Sequential([keras.Input((2,)), *unbuilt().layers]),
            *("host", {"jit_compile": False}),
        ),
        slow(with_a_shared_table, "device", {"steps_per_execution": 2}),
        (unbuilt, "several optimizers", {}),
        slow(unbuilt, "subclass", EAGER),
        # Negative ids count from the end.
        (reading(lambda ids: ids // 2 - ROWS), "device", {}),
        slow(
            reading(lambda ids: (ids + 7) % ROWS),
            *("device", {"jit_compile": True}),
        ),
        slow(reading(sparse), "device", {}),
    ],
)
def test_fit_that_reads_up_to_date_is_exact_training(make, where, how):
    placement = {"state_device": "CPU:0"} if where == "host" else {}

    def losses(optimizer, **how) -> list[float]:
        keras.utils.set_random_seed(3)
        model = make()
        model.compile(optimizer, "mse", **how)
        callbacks = [tf_opt.callbacks.CatchUp()]
        data = make_data(16)
        history = fit(model, callbacks=callbacks, validation_data=data).history
        return [*history["loss"], *history["val_loss"]]

    with tf.device("CPU:1" if where == "host" else "CPU:0"):
        cls = tf_opt.Adam
        if where == "subclass":
            cls = type("Mine", (cls,), {})
        inner = optimizer = cls(0.05, **LAZY, **placement)
        if where == "device":
            optimizer = scaled(inner, 4.0)
        elif where == "several optimizers":
            optimizer = multi(inner)
        found = losses(optimizer, **how)
    exact = losses(adam(False), run_eagerly=True)
    np.testing.assert_allclose(found, exact, rtol=1e-5)


def test_what_reads_no_rows_moves_none():
    model = make_model(optimizer := adam())
    fit(model, callbacks=[tf_opt.callbacks.CatchUp()])
    before = table(model)
    # After `fit` all are up to date.
    optimizer.catch_up()
    np.testing.assert_array_equal(table(model), before)
    steps(model, 3)
    before = table(model)
    ids = np.arange(ROWS).reshape(-1, 2)
    model(ids)
    model.predict(ids, verbose=0)
    assert optimizer.get_config()["lazy_mode"] == "catch_up"
    keras.saving.serialize_keras_object(model)
    keras.models.clone_model(model)
    copy.deepcopy(optimizer)
    np.testing.assert_array_equal(table(model), before)
    # The method stays, and knows the optimizer that the model has by then.
    model.compile(tf_opt.SGD(0.0), "mse")
    fit(model)
    np.testing.assert_array_equal(table(model), before)
    optimizer.catch_up()
    assert (table(model) != before).any()


# ---- What is refused, and how. ----

SLICES = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([1]))


def embeddings(constraint: Any = None, **arguments: Any) -> keras.Variable:
    usual = {"initializer": np.ones((5, 2)), "name": "embeddings"}
    variable = keras.Variable(**{**usual, **arguments})
    variable.constraint = constraint
    return variable


L2 = {"weight_decay": 0.1, "decoupled_weight_decay": False}
BETA = {"beta_2": 0.5}
NON_NEGATIVE = {"constraint": keras.constraints.NonNeg()}
# By what the message says.
REFUSED = {
    "for ASGD": (tf_opt.ASGD, {}, {}),
    "with L2 decay": (tf_opt.Adam, L2, {}),
    "unless `beta_1` is less than `beta_2`": (tf_opt.NAdam, BETA, {}),
    "has a constraint": (tf_opt.Adam, {}, NON_NEGATIVE),
    "is complex": (tf_opt.Adam, {}, {"dtype": "complex64"}),
    "is a scalar": (tf_opt.Adam, {}, {"initializer": 1.0}),
    "'my_table': 'catch_up'": (tf_opt.Adam, {}, {"name": "my_table"}),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_catch_up_is_refused(message):
    make, arguments, own = REFUSED[message]
    table = embeddings(**own)
    before = table.numpy()
    optimizer = make(0.1, **LAZY, **arguments)
    with pytest.raises(ValueError, match=message):
        optimizer.build([table])
        # Only a gradient shows that this is a table.
        optimizer.apply([SLICES], [table])
    np.testing.assert_array_equal(table, before)
    assert optimizer.built == ("my_table" in message)
    # Without a table nothing has to.
    optimizer.build([keras.Variable([1.0])])


def test_what_catches_up_after_all():
    # AMSGrad may have any betas.
    adam(**BETA, amsgrad=True).apply([SLICES], [embeddings()])
    table = tf.Variable(np.ones((5, 2)), name="own")
    optimizer = adam({"^own": "catch_up"})
    for _ in range(2):
        optimizer.apply([SLICES], [table])
    np.testing.assert_array_equal(table.numpy()[:, 0] < 1, np.arange(5) == 1)


def test_a_built_optimizer_keeps_its_tables():
    optimizer = adam({"emb": "catch_up", "other": True})
    optimizer.build([embeddings(), keras.Variable([1.0], name="other")])
    with pytest.raises(ValueError, match="once the optimizer is built"):
        optimizer.lazy_mode = True
    optimizer.lazy_mode = {"emb": "catch_up"}
    assert optimizer.lazy_mode == {"emb": "catch_up"}
    optimizer.lazy_mode = "catch_up"


def test_wrong_arguments_of_catch_up():
    table, other = embeddings(), keras.Variable([[1.0]], name="other")
    optimizer = adam()
    optimizer.catch_up(table, [1])  # Nothing to do before `build`.
    optimizer.build([table, other])
    optimizer.catch_up([table, other], [[1], [0]])
    with pytest.raises(ValueError, match="needs `variables`"):
        optimizer.catch_up(rows=[1])
    for rows in ([[1], [2]], 3):
        with pytest.raises(ValueError, match="each of the 1 `variables`"):
            optimizer.catch_up([table], rows)
    for rows in ([1.0], [None]):
        with pytest.raises(ValueError, match=r"`rows\[0\]` must be"):
            optimizer.catch_up(table, rows)
    ids = [[], np.uint8([1]), tf.ragged.constant([[1], []])]
    for rows in [*ids, tf.sparse.from_dense([[1, 0]])]:
        optimizer.catch_up(table, rows)
    with pytest.raises(ValueError, match="built with"):
        optimizer.catch_up(embeddings())
    with pytest.raises(TypeError, match="must be variables"):
        optimizer.catch_up([1.0])
    # A GPU's kernel tells later: see test_sparse_errors.py.
    for wrap in () if GPUS else ((lambda f: f), tf.function):
        with pytest.raises(
            tf.errors.InvalidArgumentError,
            match=rf"(?s)`rows\[0\]` .* \[0, 5\), .*{table.path}`.*1.*9",
        ):
            wrap(lambda: optimizer.catch_up(table, [1, 9]))()
    with pytest.raises(ValueError, match="every_n_batches"):
        tf_opt.callbacks.CatchUp(0)
