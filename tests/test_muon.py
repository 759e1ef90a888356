"""Which variables are matrices to Muon, and what gets AdamW."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt
from allpairspy import AllPairs
from tf_opt import functional as f

from counterparts import KERAS
from small_model import assert_close, assert_same, look_up
from test_whole_matrices import RATE, trained
from trajectory import RUNS, gradient, initial_value


def attention() -> keras.Model:
    x = inputs = keras.Input((6, 8))
    x = keras.layers.MultiHeadAttention(2, 4, name="attention")(x, x)
    x = keras.layers.Conv1D(4, 3, name="conv")(x)
    x = keras.layers.SeparableConv1D(4, 2, name="apart_conv")(x)
    x = keras.layers.EinsumDense("abc,cde->abde", (3, 2, 3))(x)
    x = keras.layers.Flatten()(x)
    return keras.Model(inputs, keras.layers.Dense(2, name="last")(x))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            {"exclude_layers": ["last"]},
            {
                **{"query/kernel": 1, "key/kernel": 1, "value/kernel": 1},
                **{"attention_output/kernel": 2, "/conv/kernel": 2},
                "pointwise_kernel": 2,
            },
        ),
        # Keras' variables of two axes, biases included.
        (
            {"matrix_axes": {}},
            {"query/bias": 1, "key/bias": 1, "value/bias": 1, "last/kernel": 1},
        ),
        (
            {"matrix_axes": {"einsum.*kernel": 1, "bias": 0, "out.*el": -1}},
            {"einsum": 1, "attention_output": 2, "last/kernel": 1},
        ),
    ],
    ids=["known", "Keras'", "given"],
)
def test_which_variables_are_matrices(arguments, expected):
    model = attention()
    model.compile(tf_opt.Muon(**arguments), "mse")
    optimizer = model.optimizer
    optimizer.build(model.trainable_variables)
    variables = model.trainable_variables
    axes = zip(variables, optimizer._state.input_axes, strict=True)
    found = {"/" + x.path: n for x, n in axes if n}
    assert len(found) == len(expected), found
    for name, n in expected.items():
        assert [k for path, k in found.items() if name in path] == [n], name


def test_a_kernel_of_attention_moves_as_its_matrix():
    value, slope = initial_value((6, 2, 3)), gradient((6, 2, 3), 0)
    ends = []
    for shape in [(6, 2, 3), (6, 6)]:
        variable = keras.Variable(value.reshape(shape), name="kernel")
        tf_opt.Muon(0.5, matrix_axes={".": 1}).apply(
            [tf.constant(slope.reshape(shape), "float32")], [variable]
        )
        ends.append(variable.numpy().ravel())
    assert_same(*([x] for x in ends))


@pytest.mark.parametrize(
    ("matrix_axes", "message"),
    [
        ({"nowhere": 1}, "nowhere"),
        ({".": 2}, "less than the number of axes"),
        ({".": 1.0}, "regular expressions and integers"),
        (["."], "regular expressions and integers"),
    ],
)
def test_wrong_axes_are_refused(matrix_axes, message):
    with pytest.raises(ValueError, match=f"`matrix_axes`.*{message}"):
        tf_opt.Muon(matrix_axes=matrix_axes).build(
            [keras.Variable(np.ones((2, 2)))]
        )


@pytest.mark.parametrize("lazy_mode", [True, "catch_up"])
def test_muons_tables_are_adamws(lazy_mode):
    kernel = {"shape": (3, 3), "dtype": "float32"}
    ends = []
    for make in (
        lambda **x: tf_opt.Muon(0.01, adam_weight_decay=0.125, **x),
        lambda **x: tf_opt.AdamW(
            0.01, 0.125, epsilon=1e-7, epsilon_hat=True, **x
        ),
    ):
        table = keras.Variable(initial_value((5, 2)), name="embeddings")
        optimizer = make(lazy_mode={"embeddings": lazy_mode})
        variables = [table, keras.Variable(tf.ones(**kernel), name="kernel")]
        optimizer.build(variables)
        for row in 1, 3, 1:
            slices = tf.IndexedSlices(tf.ones((1, 2)), tf.constant([row]))
            optimizer.apply([slices, tf.ones(**kernel)], variables)
        optimizer.catch_up()
        ends.append(table.numpy())
        assert "custom_op" in optimizer.implementation_in_use
    assert_same(*([x] for x in ends))


def test_products_in_bfloat16_are_near():
    found, expected = (
        trained(tf_opt.Muon(RATE, ns_bfloat16=x), 5, shapes=[(16, 64)])
        for x in (True, False)
    )
    assert_close(found, expected, rtol=0.1, atol=0.01)
    assert (found[0].numpy() != expected[0].numpy()).any()


@pytest.mark.parametrize("shape", [(64, 256), (256, 64)])
def test_many_products_of_few_directions_stay_as_near_as_keras(shape):
    random = np.random.default_rng(0)
    slope = random.normal(size=(shape[0], 4)) @ random.normal(
        size=(4, shape[1])
    )
    arguments = {"learning_rate": 1.0, "ns_steps": 10, "weight_decay": None}
    ends = {}
    for name, make, dtype in (
        ("exact", tf_opt.Muon, "float64"),
        ("ours", tf_opt.Muon, "float32"),
        ("keras", keras.optimizers.Muon, "float32"),
    ):
        variable = keras.Variable(np.zeros(shape), dtype=dtype)
        make(**arguments).apply([tf.constant(slope, dtype)], [variable])
        ends[name] = variable.numpy()
    ours, theirs = (
        np.linalg.norm(ends[x] - ends["exact"]) for x in ("ours", "keras")
    )
    assert ours < 2 * theirs


@pytest.mark.parametrize("lazy_mode", [True, {"table": True}])
def test_muons_lazy_matrices_are_exact(lazy_mode):
    ends = []
    slices = tf.IndexedSlices(tf.ones((2, 3)), tf.constant([2, 2]), (5, 3))
    for given, mode in (
        (slices, lazy_mode),
        (tf.convert_to_tensor(slices), False),
    ):
        table = keras.Variable(initial_value((5, 3)), name="table")
        tf_opt.Muon(0.1, lazy_mode=mode).apply([given], [table])
        ends.append([table])
    assert_same(*ends)
    with pytest.raises(ValueError, match="`table`, which is updated as a matr"):
        tf_opt.Muon(lazy_mode={"table": "catch_up"}).build([table])


@pytest.mark.parametrize("how", RUNS)
@pytest.mark.parametrize("ratio", [0.0, 0.5])
def test_the_ratio_of_muons_adamw_may_be_a_variable(ratio, how):
    ends = []
    for make in (float, tf.Variable):
        optimizer = tf_opt.Muon(
            RATE, adam_lr_ratio=make(ratio), adam_weight_decay=make(0.5)
        )
        ends.append([trained(optimizer, 2, how, [(5,)])[0].numpy()])
    assert_close(*ends, rtol=1e-12)
    optimizer.adam_lr_ratio.assign(-1.0)
    if how == "eager":
        with pytest.raises(tf.errors.InvalidArgumentError, match="adam_lr_rat"):
            optimizer.apply([tf.ones(5, tf.float64)])


def test_a_ratio_of_0_leaves_tables_their_decay():
    table = keras.Variable(initial_value((4, 2)), name="embeddings")
    optimizer = tf_opt.Muon(
        0.25,
        adam_lr_ratio=0.0,
        adam_weight_decay=0.5,
        lazy_mode={"embeddings": "catch_up"},
    )
    look_up(optimizer, table, 1, 3, 1)
    optimizer.catch_up()
    expected = initial_value((4, 2)) * (1 - 0.25 * 0.5) ** 3
    np.testing.assert_allclose(table, expected, rtol=1e-6)


# ---- Sizes that aren't known while a step is traced. ----


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("shape", [(3, 7), (7, 3), (2, 4, 4)])
def test_the_function_of_sizes_unknown_while_tracing(shape, jit_compile):
    operands = [tf.constant(gradient(shape, t)) for t in range(3)]
    unknown = tf.TensorSpec([None] * len(shape), tf.float64)
    step = tf.function(
        lambda p, g, m: f.muon(p, g, m, step=2, learning_rate=RATE),
        input_signature=[unknown] * 3,
        jit_compile=jit_compile,
    )
    expected = f.muon(*operands, step=2, learning_rate=RATE)
    assert_close(step(*operands)[:2], expected[:2], rtol=1e-11)


def test_a_step_with_gradients_of_sizes_unknown_while_tracing():
    shape, ends = (3, 7), []
    for known in (shape, (None, None)):
        variables = [keras.Variable(initial_value(shape)) for _ in range(2)]
        optimizer = tf_opt.Muon(RATE)
        optimizer.build(variables)
        step = tf.function(
            lambda *grads, apply=optimizer.apply: apply(list(grads)),
            input_signature=[tf.TensorSpec(known)] * 2,
        )
        step(*(tf.constant(gradient(shape, t), "float32") for t in range(2)))
        ends.append(variables)
    assert_same(*ends)


# ---- Conversion. ----

# What Keras takes for a matrix, or not. It takes roots of sizes in float32.
SHAPES = {
    "kernel": (3, 4),
    "embeddings": (4, 4),
    "last": (9, 2),
    "conv": (2, 3, 4),
}
OPTIONS = {
    "exclude_layers": [None, ["last"]],
    "exclude_embeddings": [True, False],
    "weight_decay": [None, 0.0078125],
    "adam_weight_decay": [None, 0.125],
    "adam_lr_ratio": [0.0, 0.5, 1.0],
    "nesterov": [True, False],
    "rms_rate": [0.25, None],
    "ns_steps": [5, 2],
    "momentum": [0.75, 0.5],
}
FEATURES = [
    {},
    {"clipnorm": 0.5},
    {"clipvalue": 0.5},
    {"global_clipnorm": 0.5},
    {"loss_scale_factor": 4.0},
    {"use_ema": True, "ema_momentum": 0.75, "ema_overwrite_frequency": 2},
    {"gradient_accumulation_steps": 2},
]


# Every pair of options, and what Keras' base class does in turn.
CASES = [
    (3 * (i % 3 > 0), FEATURES[i % 7], dict(zip(OPTIONS, own, strict=True)))
    for i, own in enumerate(AllPairs(OPTIONS.values()))
]


@pytest.mark.skipif("Muon" not in KERAS, reason="It has no `rms_rate`.")
@pytest.mark.parametrize("way", ["from", "to"])
@pytest.mark.parametrize(("before", "features", "own"), CASES)
def test_conversion_keeps_the_numbers(way, before, features, own, request):
    # Keras' Muon can't multiply two types.
    keras.config.set_floatx("float64")
    request.addfinalizer(lambda: keras.config.set_floatx("float32"))
    betas = {"adam_beta_1": 0.75, "adam_beta_2": 0.875, "epsilon": 2.0**-20}
    if way == "from":
        make, convert = keras.optimizers.Muon, tf_opt.from_keras
    else:
        make = functools.partial(tf_opt.Muon, matrix_axes={})
        convert = tf_opt.to_keras
    ends = []
    for continues_with in (lambda optimizer: optimizer), convert:
        variables = [
            keras.Variable(initial_value(shape), name=name)
            for name, shape in SHAPES.items()
        ]
        optimizer = make(RATE, **own, **betas, **features)
        for t in range(6):
            if t == before:
                optimizer = continues_with(optimizer)
            slopes = [gradient(shape, t) for shape in SHAPES.values()]
            optimizer.apply(list(map(tf.constant, slopes)), variables)
        ends.append(variables)
    assert_close(*ends, rtol=2e-11)
