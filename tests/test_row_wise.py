"""Adagrad with one accumulator for each row of a table.

test_whole_step.py has its numbers in every type and with every feature.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from op_cases import OPS, Op
from small_model import assert_same, multi
from trajectory import RUNS

ROWS, WIDTH = 30, 6


def _table(
    dtype: str = "float64", width: int = WIDTH, name: str = "embeddings"
) -> keras.Variable:
    values = np.random.default_rng(0).normal(size=(ROWS, width))
    return keras.Variable(values, dtype=dtype, name=name)


def _slices(step: int, table: keras.Variable) -> tf.IndexedSlices:
    """Some rows, most of them several times."""
    rng = np.random.default_rng(step)
    values = rng.normal(size=(20, *table.shape[1:]))
    return tf.IndexedSlices(
        tf.constant(values, table.dtype),
        tf.constant(rng.integers(0, 10, 20) + step % 15),
        tf.constant(table.shape),
    )


def _accumulator(optimizer: keras.optimizers.Optimizer) -> keras.Variable:
    (found,) = (x for x in optimizer.variables if "accumulator" in x.name)
    return found


@pytest.mark.kernels
@pytest.mark.parametrize("width", [1, 5, 64, 200, 1100, 20000])
def test_rows_that_occur_get_the_bits_of_a_dense_gradient(width, how):
    def train(*, dense: bool) -> list[np.ndarray]:
        table = _table("float32", width)
        optimizer = tf_opt.Adagrad(0.125, row_wise=True, clipvalue=0.9)
        optimizer.build([table])
        step = RUNS[how](lambda gradient: optimizer.apply([gradient], [table]))
        for i in range(5):
            slices = _slices(i, table)
            step(tf.convert_to_tensor(slices) if dense else slices)
        assert optimizer.implementation_in_use == "custom_op"
        return [table.numpy(), _accumulator(optimizer).numpy()]

    assert_same(train(dense=False), train(dense=True))


def _model() -> keras.Model:
    inputs = keras.Input((3,), dtype="int32")
    users = keras.layers.Embedding(ROWS, 4, name="users")(inputs)
    items = keras.layers.Embedding(ROWS, 8, name="items")(inputs)
    both = keras.layers.Concatenate()([users, items])
    return keras.Model(inputs, keras.layers.Dense(1)(both))


@pytest.mark.parametrize(
    ("row_wise", "shapes"),
    [
        (True, {"users": (ROWS,), "items": (ROWS,), "kernel": (12, 1)}),
        (["items/"], {"users": (ROWS, 4), "items": (ROWS,)}),
        (["users/", "kernel"], {"users": (ROWS,), "kernel": (12,)}),
        (False, {"users": (ROWS, 4), "items": (ROWS, 8)}),
    ],
)
def test_chooses_tables(row_wise, shapes):
    model = _model()
    optimizer = tf_opt.Adagrad(0.1, row_wise=row_wise)
    optimizer.build(model.trainable_variables)
    for name, shape in shapes.items():
        (found,) = (
            x.shape
            for x in optimizer.variables
            if name in x.name and "accumulator" in x.name
        )
        assert found == shape
    assert optimizer.row_wise == row_wise
    sizes = [np.prod(x.shape) for x in optimizer._state.slots[0]]
    slots = sum(memory["slots"] for memory in optimizer.memory().values())
    assert slots == 4 * sum(sizes)


def test_refuses_what_it_can_not_do():
    table, scalar = _table(), keras.Variable(1.0, name="scalar")
    with pytest.raises(ValueError, match="`row_wise` must"):
        tf_opt.Adagrad(row_wise=[3])
    with pytest.raises(ValueError, match="row_wise=\\['users'\\]"):
        tf_opt.Adagrad(row_wise="users")
    with pytest.raises(ValueError, match="in no trainable variable's path"):
        tf_opt.Adagrad(row_wise=["items"]).build([table])
    with pytest.raises(ValueError, match="`scalar`, which is a scalar"):
        tf_opt.Adagrad(row_wise=["."]).build([table, scalar])
    numbers = tf.Variable(tf.zeros([3, 2], tf.complex64), name="complex")
    with pytest.raises(ValueError, match="which is complex"):
        tf_opt.Adagrad(row_wise=["."]).build([numbers])


def test_from_keras_takes_the_mean_of_a_rows_accumulators():
    for dtype in ("float32", "bfloat16"):
        theirs, table = keras.optimizers.Adagrad(0.1), _table(dtype, 512)
        theirs.apply([tf.convert_to_tensor(_slices(0, table))], [table])
        ours = tf_opt.from_keras(theirs, row_wise=True)
        np.testing.assert_allclose(
            _accumulator(ours).numpy(),
            _accumulator(theirs).numpy().astype("float64").mean(axis=1),
            rtol=1e-6,
        )
    with pytest.raises(ValueError, match="`row_wise` must be False"):
        tf_opt.to_keras(ours)
    for other in (keras.optimizers.Adam(0.1), tf_opt.Adam(0.1), "adam"):
        with pytest.raises(ValueError, match="unless an Adagrad is converted"):
            tf_opt.from_keras(other, row_wise=True)
    with pytest.raises(TypeError, match="must be one of"):
        tf_opt.from_keras(tf_opt.Adagrad(0.1), row_wise=True)


def test_from_keras_finds_the_adagrads_of_several_optimizers():
    model = _model()
    tables = {".*embeddings": keras.optimizers.Adagrad(0.1)}
    theirs = multi(keras.optimizers.Adam(0.1), tables)
    ours = tf_opt.from_keras(theirs, row_wise=True)
    ours.build(model.trainable_variables)
    (tables,) = (x for x in ours.optimizers if isinstance(x, tf_opt.Adagrad))
    assert [x.shape for x in tables._state.slots[0]] == [(ROWS,), (ROWS,)]


def test_a_file_with_the_other_form_is_refused(tmp_path):
    path = tmp_path / "model.weights.h5"
    for saved, loaded in ((False, True), (True, False)):
        models = [_model(), _model()]
        for model, row_wise in zip(models, (saved, loaded), strict=True):
            model.compile(tf_opt.Adagrad(0.1, row_wise=row_wise), "mse")
            model.optimizer.build(model.trainable_variables)
        models[0].save_weights(path)
        optimizer = models[1].optimizer
        before = [x.numpy() for x in optimizer.variables]
        with pytest.raises(ValueError, match="`row_wise` must be as it was"):
            models[1].load_weights(path)
        assert_same(optimizer.variables, before)


def test_functional_form_checks_shapes():
    for wrong in ([[0.0, 0.0], [0.0, 0.0]], [0.0, 0.0, 0.0]):
        with pytest.raises(ValueError, match=r"must have the shape \(2,\), by"):
            tf_opt.functional.adagrad(
                np.ones((2, 2)), np.ones((2, 2)), wrong, row_wise=True
            )
    with pytest.raises(ValueError, match="`variable` must have rows"):
        tf_opt.functional.adagrad(1.0, 1.0, 1.0, row_wise=True)


@pytest.mark.kernels
@pytest.mark.parametrize("shape", [(ROWS, WIDTH), (ROWS - 1,), ()])
def test_ops_check_the_accumulators_shape(shape):
    table = tf.Variable(tf.ones([ROWS, WIDTH]))
    before = table.numpy()
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="one element for each row"
    ):
        Op(OPS["adagrad"].spec.forms["row_wise"]).apply(
            variables=[table],
            accumulator=[tf.Variable(tf.ones(shape))],
            gradients=[tf.ones([ROWS, WIDTH])],
        )
    np.testing.assert_array_equal(table.numpy(), before)
