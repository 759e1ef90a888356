"""Adafactor, Lamb and Muon, which need sums or products over a variable.

test_whole_step.py compares them with NumPy.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt
from tf_opt import functional as f
from tf_opt.python.functional import arithmetic

from counterparts import KERAS
from registry import COMPOSED
from small_model import assert_close
from trajectory import RUNS, gradient, initial_value

# Wide, tall, square, a vector, a scalar, and twice the same.
SHAPES = [(3, 5), (7, 2), (4, 4), (5,), (), (3, 5)]
RATE = 0.0625


def trained(
    optimizer: keras.optimizers.Optimizer,
    steps: int,
    how: str = "eager",
    shapes=SHAPES,
    dtype: str = "float64",
) -> list[keras.Variable]:
    variables = [keras.Variable(initial_value(x), dtype=dtype) for x in shapes]
    optimizer.build(variables)
    step = RUNS[how](lambda *grads: optimizer.apply(list(grads), variables))
    for t in range(steps):
        step(*(tf.constant(gradient(x, t), dtype) for x in shapes))
    return variables


@pytest.mark.parametrize("name", COMPOSED)
def test_functions_check_the_shapes_of_slots(name):
    rule = getattr(f, name.lower())
    with pytest.raises(ValueError, match="must have the shape"):
        rule(tf.ones([2, 3]), tf.ones([2, 3]), tf.ones(5), tf.ones(5), step=1)


# Numbers that Keras' constants of float32 hold.
EXACT = {
    "Adafactor": [{}, {"clip_threshold": 0.5, "epsilon_2": 0.125}],
    "Lamb": [{"beta_1": 0.75, "beta_2": 0.875, "epsilon": 2.0**-20}],
    "Muon": [
        {
            **{"adam_beta_1": 0.75, "adam_beta_2": 0.875, "epsilon": 2.0**-20},
            **{"adam_weight_decay": 0.125, "adam_lr_ratio": 0.5},
            "exclude_layers": ["no such"],
        }
    ],
}


@pytest.mark.core
@pytest.mark.parametrize(
    ("name", "own"),
    [(name, own) for name in EXACT if name in KERAS for own in EXACT[name]],
)
def test_keras_numbers_to_the_last_digits(name, own, request):
    # Keras' Muon can't multiply two types.
    keras.config.set_floatx("float64")
    request.addfinalizer(lambda: keras.config.set_floatx("float32"))
    arguments = {"learning_rate": RATE, "weight_decay": 0.0078125, **own}
    # Keras takes the root of 4, 9 and so on in float32.
    shapes = [(3, 4), (9, 2), *SHAPES[2:5], (3, 4), (2, 3, 4)]
    expected, ours = (
        trained(
            convert(getattr(keras.optimizers, name)(**arguments)),
            *(200, "tf.function", shapes),
        )
        for convert in (lambda optimizer: optimizer, tf_opt.from_keras)
    )
    assert_close(ours, expected, rtol=2e-11)


@pytest.mark.parametrize("name", ["Adafactor", "Muon"])
def test_torchs_numbers(name, monkeypatch):
    torch = pytest.importorskip("torch")
    # PyTorch multiplies in bfloat16.
    monkeypatch.setattr(torch.Tensor, "bfloat16", lambda x: x)
    shapes = SHAPES if name == "Adafactor" else SHAPES[:3]
    own = {"adjust_lr_fn": "match_rms_adamw"} if name == "Muon" else {}
    parameters = [
        torch.nn.Parameter(torch.tensor(initial_value(x))) for x in shapes
    ]
    theirs = getattr(torch.optim, name)(
        parameters, lr=RATE, weight_decay=0.0, **own
    )
    for t in range(50):
        for parameter, shape in zip(parameters, shapes, strict=True):
            parameter.grad = torch.tensor(np.asarray(gradient(shape, t)))
        theirs.step()
    ours = trained(
        getattr(tf_opt, name)(RATE, weight_decay=None), 50, shapes=shapes
    )
    expected = [x.detach().numpy() for x in parameters]
    # PyTorch bounds a norm, and adds nothing to it.
    assert_close(ours, expected, rtol=1e-11 if name == "Adafactor" else 1e-5)


@pytest.mark.parametrize("name", ["Adafactor", "Lamb"])
def test_what_needs_the_whole_variable_is_refused(name):
    make, table = COMPOSED[name].make, keras.Variable(np.ones((4, 2)))
    with pytest.raises(ValueError, match="`lazy_mode` must be False"):
        make(lazy_mode=True)
    with pytest.raises(RuntimeError, match="has no custom op"):
        make(implementation="custom_op").apply([tf.ones((4, 2))], [table])
    # In exact mode a sparse gradient is the dense one.
    dense = keras.Variable(np.ones((4, 2)))
    slices = tf.IndexedSlices(tf.ones((2, 2)), tf.constant([1, 1]), (4, 2))
    make().apply([slices], [table])
    make().apply([tf.convert_to_tensor(slices)], [dense])
    np.testing.assert_array_equal(table, dense)


def test_adafactors_state_is_rows_and_columns():
    optimizer = tf_opt.Adafactor()
    optimizer.build([keras.Variable(np.ones(x)) for x in [(7, 3, 4), (5,)]])
    shapes = [tuple(x.shape) for x in optimizer.variables[2:]]
    assert shapes == [(7, 3), (7, 4), (5,)]


def test_sizes_of_64_bits():
    # XLA computes sums of constants without the 17 GB.
    sides = [2**16, 2**16]

    def adafactor(p: tf.Tensor, g: tf.Tensor) -> tf.Tensor:
        state = tf.zeros([2**16]), tf.zeros([2**16])
        numbers = {"step": 1, "learning_rate": 0.125}
        p, g = (tf.broadcast_to(x, sides) for x in (p, g))
        return f.adafactor(p, g, *state, **numbers).variable[:1, 0]

    def row(x: tf.Tensor) -> tf.Tensor:
        row = tf.broadcast_to(x, [1, *sides])
        return arithmetic.mean_square_of_rows(row)

    for function, x, expected in (
        (adafactor, (3.0, 0.5), 3 * (1 - 0.125)),
        (row, (3.0,), 9.0),
    ):
        compiled = tf.function(function, jit_compile=True)
        found = compiled(*map(tf.constant, x))
        np.testing.assert_allclose(found, [expected], rtol=1e-4)


def test_a_dead_row_and_column_leave_adafactor_finite():
    variable = keras.Variable(np.ones((3, 4)), dtype="float32")
    dead = np.ones((3, 4), "float32")
    dead[0], dead[:, 1] = 0, 0
    tf_opt.Adafactor(0.1).apply([tf.constant(dead)], [variable])
    assert np.isfinite(variable).all()


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
@pytest.mark.parametrize("name", COMPOSED)
def test_empty_matrices(name, shape):
    variable = keras.Variable(np.ones(shape))
    COMPOSED[name].make().apply([tf.ones(shape)], [variable])
    assert variable.shape == shape
