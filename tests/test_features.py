"""What the features of `apply()` promise, one by one; Keras beside it."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from xla_kernels import HAS_XLA_KERNELS

pytestmark = [pytest.mark.core, pytest.mark.kernels]

KERAS = {
    tf_opt.Adam: (keras.optimizers.Adam, {"epsilon": 1e-7}),
    tf_opt.AdamW: (
        keras.optimizers.AdamW,
        {"epsilon": 1e-7, "weight_decay": 0.004},
    ),
    tf_opt.NAdam: (
        keras.optimizers.Nadam,
        {"epsilon": 1e-7, "momentum_decay": 1.0},
    ),
}
FEATURES = {
    "average": {"use_ema": True, "ema_momentum": 0.9},
    "average and accumulate": {
        "use_ema": True,
        "ema_overwrite_frequency": 2,
        "gradient_accumulation_steps": 2,
    },
    "clip": {"global_clipnorm": 0.5},
}


def _variables(*values: Any, dtype: str = "float32") -> list[keras.Variable]:
    return [keras.Variable(np.array(value), dtype=dtype) for value in values]


def _model(**dense: Any) -> keras.Model:
    keras.utils.set_random_seed(3)
    return keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(8, activation="relu", name="first"),
            keras.layers.Dense(1, name="last", **dense),
        ],
        name="model",
    )


def _data() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(5)
    x = random.normal(size=(64, 4)).astype(np.float32)
    return x, x.sum(axis=1, keepdims=True) ** 2


def _state(optimizer: Any, variables: list[keras.Variable]) -> list[bytes]:
    unlisted = optimizer._unsaved.variables
    skipped = optimizer._unsaved.skipped_steps
    return [
        x.numpy().tobytes()
        for x in [*variables, *optimizer.variables, *unlisted]
        if x is not skipped
    ]


# ---- Skipping. ----


@pytest.mark.parametrize("implementation", ["custom_op", "composed"])
@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize(
    "make",
    [tf_opt.Adam, tf_opt.NAdam, tf_opt.ASGD, tf_opt.AveragedSGD],
)
def test_a_skipped_step_changes_nothing_at_all(make, in_graph, implementation):
    variables = _variables([1.0, 2.0], [3.0], [4.0, 5.0])
    optimizer = make(
        learning_rate=0.1,
        skip_nonfinite=True,
        use_ema=True,
        ema_overwrite_frequency=2,
        weight_decay=0.1,
        implementation=implementation,
    )
    optimizer.build(variables)

    def step(gradients):
        optimizer.apply([*gradients, None], variables)

    if in_graph:
        step = tf.function(step)
    good = [tf.constant([0.5, -0.5]), tf.constant([1.0])]
    for wrong in (np.nan, np.inf, -np.inf):
        before = _state(optimizer, variables)
        step([good[0], tf.constant([wrong])])
        assert _state(optimizer, variables) == before
        step(good)
        assert _state(optimizer, variables) != before
    assert int(optimizer.skipped_steps) == 3
    assert int(optimizer.iterations) == 3


def test_a_skipped_micro_step_leaves_what_was_accumulated():
    (variable,) = variables = _variables([1.0, 2.0])
    optimizer = tf_opt.Adam(
        0.1, skip_nonfinite=True, gradient_accumulation_steps=2
    )
    for gradient in ([1.0, 0.0], [np.inf, 0.0], [0.0, 1.0]):
        optimizer.apply([tf.constant(gradient)], variables)
    other = _variables([1.0, 2.0])
    expected = tf_opt.Adam(0.1)
    expected.apply([tf.constant([0.5, 0.5])], other)
    np.testing.assert_array_equal(variable.numpy(), other[0].numpy())
    assert int(optimizer.iterations) == 1


def test_float64_gradients_whose_squares_overflow_are_finite():
    variables = _variables([1.0, 2.0], dtype="float64")
    optimizer = tf_opt.Adam(0.1, skip_nonfinite=True)
    optimizer.apply([tf.constant([1e200, 1.0], tf.float64)], variables)
    assert int(optimizer.skipped_steps) == 0


def test_skipped_steps_and_norms_that_nobody_keeps():
    optimizer = tf_opt.Adam()
    with pytest.raises(ValueError, match="`skip_nonfinite=True`"):
        _ = optimizer.skipped_steps
    with pytest.raises(ValueError, match="`track_gradient_norm=True`"):
        _ = optimizer.gradient_norm


# ---- Norms and clipping. ----


@pytest.mark.parametrize("implementation", ["auto", "composed"])
def test_the_global_norm_is_over_all_types(implementation):
    variables = [
        *_variables([1.0, 1.0]),
        *_variables([1.0], dtype="float64"),
        *_variables([1.0, 1.0], dtype="bfloat16"),
    ]
    optimizer = tf_opt.AveragedSGD(
        1.0,
        lambd=0.0,
        global_clipnorm=1.0,
        track_gradient_norm=True,
        implementation=implementation,
    )
    gradients = [
        tf.constant([2.0, 0.0]),
        tf.constant([4.0], tf.float64),
        tf.constant([0.0, 4.0], tf.bfloat16),
    ]
    optimizer.apply(gradients, variables)
    assert float(optimizer.gradient_norm) == 6
    for variable, gradient in zip(variables, gradients, strict=True):
        expected = 1 - tf.cast(gradient, tf.float64).numpy() / 6
        np.testing.assert_allclose(
            variable.numpy().astype(float), expected, rtol=4e-3
        )


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_global_norm_that_is_no_number_shows_in_all_variables(wrong):
    ours, theirs = _variables([1.0], [2.0]), _variables([1.0], [2.0])
    gradients = [tf.constant([wrong]), tf.constant([1.0])]
    for variables, optimizer in (
        (ours, tf_opt.Adam(0.1, global_clipnorm=1.0)),
        (theirs, keras.optimizers.Adam(0.1, global_clipnorm=1.0)),
    ):
        optimizer.apply(gradients, variables)
    assert [np.isnan(v.numpy()).all() for v in ours] == [True, True]
    assert [np.isnan(v.numpy()).all() for v in theirs] == [True, True]


def test_clipping_can_be_changed_between_eager_steps():
    (variable,) = variables = _variables([0.0])
    optimizer = tf_opt.AveragedSGD(1.0, lambd=0.0)
    optimizer.apply([tf.constant([8.0])], variables)
    assert variable.numpy().item() == -8
    optimizer.clipvalue = 2.0
    optimizer.apply([tf.constant([8.0])], variables)
    assert variable.numpy().item() == -10


@pytest.mark.parametrize("implementation", ["custom_op", "composed"])
@pytest.mark.parametrize("bound", [0, -1.0])
@pytest.mark.parametrize("name", ["clipnorm", "clipvalue", "global_clipnorm"])
def test_what_is_not_above_zero_does_not_clip(name, bound, implementation):
    (ours,), (theirs,) = _variables([1.0, 2.0]), _variables([1.0, 2.0])
    gradient = tf.constant([3.0, -1.0])
    tf_opt.AveragedSGD(
        0.1, lambd=0.0, implementation=implementation, **{name: bound}
    ).apply([gradient], [ours])
    keras.optimizers.SGD(0.1, **{name: bound}).apply([gradient], [theirs])
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-6)


# ---- Multipliers. ----


def test_multipliers_are_parameter_groups():
    named = [keras.Variable([1.0, 2.0], name=name) for name in ("head", "body")]
    optimizer = tf_opt.AdamW(
        0.1,
        learning_rate_multipliers={"body": 0.5},
        weight_decay_multipliers={"head": 0.0},
    )
    gradient = tf.constant([0.5, -0.5])
    for _ in range(3):
        optimizer.apply([gradient, gradient], named)
    for variable, rate, decay in ((named[0], 0.1, 0.0), (named[1], 0.05, 0.01)):
        alone = _variables([1.0, 2.0])
        single = tf_opt.AdamW(rate, weight_decay=decay)
        for _ in range(3):
            single.apply([gradient], alone)
        np.testing.assert_allclose(
            variable.numpy(), alone[0].numpy(), rtol=1e-6
        )


@pytest.mark.parametrize("implementation", ["custom_op", "composed"])
def test_changed_multipliers_take_effect_in_a_traced_step(implementation):
    variable = keras.Variable([0.0], name="x")
    optimizer = tf_opt.AveragedSGD(
        1.0,
        lambd=0.0,
        learning_rate_multipliers={"x": 1.0},
        implementation=implementation,
    )
    optimizer.build([variable])

    @tf.function
    def step():
        optimizer.apply([tf.constant([1.0])], [variable])

    step()
    assert variable.numpy().item() == -1
    optimizer.learning_rate_multipliers = {"x": 4.0}
    step()
    assert variable.numpy().item() == -5
    optimizer.learning_rate_multipliers = None
    step()
    assert variable.numpy().item() == -6


def test_an_optimizer_may_be_built_again_with_others():
    optimizer = tf_opt.AveragedSGD(
        1.0,
        lambd=0.0,
        learning_rate_multipliers={".": 2.0},
        weight_decay_multipliers={".": 2.0},
        skip_nonfinite=True,
    )
    for count in (2, 3):
        variables = _variables(*[[0.0]] * count)
        optimizer.built = False
        optimizer.build(variables)
        optimizer.apply([tf.constant([1.0])] * count, variables)
        assert [v.numpy().item() for v in variables] == [-2] * count
        assert int(optimizer.skipped_steps) == 0


def test_multipliers_of_no_variable_are_an_error():
    optimizer = tf_opt.Adam(learning_rate_multipliers={"nowhere": 2.0})
    with pytest.raises(
        ValueError, match="`learning_rate_multipliers`.*'nowhere'.*no trainable"
    ):
        optimizer.build([keras.Variable([1.0], name="x")])


@pytest.mark.parametrize(
    "value", [{"(": 1.0}, {"x": -1.0}, {"x": "1"}, {1: 1.0}, ["x"], 2.0]
)
def test_wrong_multipliers(value):
    for name in ("learning_rate_multipliers", "weight_decay_multipliers"):
        with pytest.raises(ValueError, match=f"`{name}"):
            tf_opt.Adam(**{name: value})


def test_layerwise_multipliers_fall_from_the_last_layer_to_the_first():
    inner = keras.Sequential(
        [keras.layers.Dense(3, name="a"), keras.layers.Dense(3, name="b")]
    )
    model = keras.Sequential(
        [
            keras.Input((3,)),
            inner,
            keras.layers.ReLU(),
            keras.layers.Dense(2, name="c"),
        ]
    )
    model.layers[0].layers[0].bias.trainable = False
    factors = tf_opt.layerwise_multipliers(model, 0.5)
    assert list(factors.values()) == [0.25, 0.5, 0.5, 1.0, 1.0]
    model.compile(tf_opt.Adam(learning_rate_multipliers=factors), "mse")
    model.fit(np.ones((4, 3)), np.ones((4, 2)), verbose=0)


@pytest.mark.parametrize("by_fit", [True, False])
def test_a_layer_may_be_frozen_after_layerwise_multipliers(by_fit):
    model = _model()
    factors = tf_opt.layerwise_multipliers(model, 0.5)
    model.get_layer("first").trainable = False
    optimizer = tf_opt.Adam(learning_rate_multipliers=factors)
    if by_fit:
        model.compile(optimizer, "mse")
        model.fit(np.ones((4, 4)), np.ones((4, 1)), verbose=0)
    else:
        optimizer.build(model.trainable_variables)
    assert optimizer._unsaved.learning_rate_multipliers.numpy().tolist() == [
        1,
        1,
    ]


def test_an_expression_for_frozen_variables_says_what_to_do():
    model = _model()
    model.get_layer("first").trainable = False
    model.compile(tf_opt.Adam(learning_rate_multipliers={"first/": 0.5}), "mse")
    with pytest.raises(ValueError, match="Leave it out while .* are frozen"):
        model.fit(np.ones((4, 4)), np.ones((4, 1)), verbose=0)


@pytest.mark.parametrize("decay", [0, 1.5, -1, "1"])
def test_layerwise_multipliers_check_their_decay(decay):
    with pytest.raises(ValueError, match="`decay` must be"):
        tf_opt.layerwise_multipliers(_model(), decay)


# ---- Averages. ----


@pytest.mark.parametrize("make", KERAS)
def test_averages_of_variables_without_gradients_too(make):
    theirs_class, arguments = KERAS[make]
    results = []
    for cls, extra in ((make, arguments), (theirs_class, {})):
        variables = _variables([1.0, 2.0], [3.0])
        optimizer = cls(0.1, use_ema=True, ema_momentum=0.5, **extra)
        optimizer.build(variables)
        for step in range(3):
            variables[1].assign([3.0 + step])
            with pytest.warns(UserWarning, match="do not exist"):
                optimizer.apply([tf.constant([0.5, 1.0]), None], variables)
        results.append(
            [v.numpy() for v in optimizer._model_variables_moving_average]
        )
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4)


@pytest.mark.parametrize("implementation", ["custom_op", "composed"])
@pytest.mark.parametrize("in_graph", [False, True])
def test_a_variable_that_occurs_twice_is_averaged_once(
    in_graph, implementation
):
    arguments = {
        "use_ema": True,
        "ema_momentum": 0.5,
        "ema_overwrite_frequency": 2,
    }

    def train(optimizer):
        twice, once = variables = _variables([1.0], [2.0])
        optimizer.build(variables)

        def step():
            gradients = [tf.constant([x]) for x in (0.5, 1.0, -2.0)]
            optimizer.apply(gradients, [twice, once, twice])

        run = tf.function(step) if in_graph else step
        for _ in range(3):
            run()
        averages = optimizer._model_variables_moving_average
        return [v.numpy() for v in (*variables, *averages)]

    ours = tf_opt.AveragedSGD(
        0.1, lambd=0.0, implementation=implementation, **arguments
    )
    theirs = keras.optimizers.SGD(0.1, **arguments)
    np.testing.assert_allclose(train(ours), train(theirs), rtol=1e-6)


def test_16_bit_variables_have_float32_averages_and_sums():
    variables = _variables([1.0, 2.0], dtype="bfloat16")
    optimizer = tf_opt.Adam(
        2.0**-7,
        use_ema=True,
        ema_momentum=0.999,
        gradient_accumulation_steps=2,
    )
    optimizer.build(variables)
    assert optimizer._model_variables_moving_average[0].dtype == "float32"
    assert optimizer._accumulated_gradients[0].dtype == "float32"
    for _ in range(4):
        optimizer.apply([tf.constant([1.0, 2.0], tf.bfloat16)], variables)
    optimizer.finalize_variable_values(variables)
    assert variables[0].dtype == "bfloat16"
    np.testing.assert_allclose(
        variables[0].numpy().astype(np.float32),
        optimizer._model_variables_moving_average[0].numpy(),
        rtol=2**-8,
    )


def test_fit_with_swapped_averages_is_keras_own():
    results = []
    for cls, extra in (
        (tf_opt.Adam, {"epsilon": 1e-7, "epsilon_hat": True}),
        (keras.optimizers.Adam, {}),
    ):
        model = _model()
        model.compile(cls(0.01, use_ema=True, ema_momentum=0.9, **extra), "mse")
        history = model.fit(
            *_data(),
            epochs=3,
            batch_size=16,
            verbose=0,
            shuffle=False,
            validation_data=_data(),
            callbacks=[keras.callbacks.SwapEMAWeights(swap_on_epoch=True)],
        )
        results.append((history.history["val_loss"], model.get_weights()))
    (ours, weights), (theirs, their_weights) = results
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    for own, their in zip(weights, their_weights, strict=True):
        np.testing.assert_allclose(own, their, rtol=1e-4, atol=1e-6)


# ---- Loss scaling. ----


def test_loss_scaling_is_keras_own():
    runs = []
    for wrapper, inner in (
        (
            tf_opt.LossScaleOptimizer,
            tf_opt.Adam(0.01, epsilon=1e-7, epsilon_hat=True),
        ),
        (keras.optimizers.LossScaleOptimizer, keras.optimizers.Adam(0.01)),
    ):
        variables = _variables([1.0, 2.0], [3.0])
        optimizer = wrapper(inner, 8.0, dynamic_growth_steps=2)
        seen = []
        for step in range(9):
            wrong = np.inf if step in (3, 4) else 1.0
            optimizer.apply(
                [tf.constant([1.0, -2.0]), tf.constant([wrong])], variables
            )
            seen.append(
                (
                    float(optimizer.dynamic_scale),
                    int(optimizer.step_counter),
                    int(optimizer.iterations),
                )
            )
        assert float(optimizer.scale_loss(tf.constant(1.0))) == seen[-1][0]
        runs.append((seen, [v.numpy() for v in variables]))
    (ours, values), (theirs, their_values) = runs
    assert ours == theirs
    for own, their in zip(values, their_values, strict=True):
        np.testing.assert_allclose(own, their, rtol=1e-5)


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("make", [tf.Variable, keras.Variable])
def test_a_loss_scale_may_be_a_variable(make, in_graph):
    (variable,) = variables = _variables([0.0])
    scale = make(2.0)
    optimizer = tf_opt.AveragedSGD(1.0, lambd=0.0, loss_scale_factor=scale)
    optimizer.build(variables)

    def step():
        optimizer.apply([tf.constant([4.0])], variables)

    if in_graph:
        step = tf.function(step)
    step()
    assert variable.numpy().item() == -2
    scale.assign(4.0)
    step()
    assert variable.numpy().item() == -3


def test_mixed_float16_leaves_our_loss_scaling_and_saves_it(tmp_path):
    keras.config.set_dtype_policy("mixed_float16")
    try:
        model = _model(dtype="float32")
        optimizer = tf_opt.LossScaleOptimizer(tf_opt.AdamW(0.01))
        model.compile(optimizer, "mse", jit_compile=False)
        assert model.optimizer is optimizer
        first, *_, last = model.fit(
            *_data(), epochs=5, batch_size=16, verbose=0
        ).history["loss"]
        assert last < first
        inner = optimizer.inner_optimizer.implementation_in_use
        assert optimizer.implementation_in_use == inner is not None
        assert optimizer.inner_optimizer.implementation_in_use == "custom_op"
        model.save(tmp_path / "model.keras")
        loaded = keras.saving.load_model(tmp_path / "model.keras")
        assert type(loaded.optimizer) is tf_opt.LossScaleOptimizer
        for ours, theirs in zip(
            loaded.optimizer.variables, optimizer.variables, strict=True
        ):
            np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
        loaded.fit(*_data(), verbose=0)
    finally:
        keras.config.set_dtype_policy("float32")


def test_loss_scaling_around_another_optimizer_is_keras_own():
    (variable,) = variables = _variables([1.0])
    optimizer = tf_opt.LossScaleOptimizer(keras.optimizers.SGD(1.0), 4.0)
    assert optimizer.implementation_in_use is None
    optimizer.apply([tf.constant([4.0])], variables)
    assert variable.numpy().item() == 0
    optimizer.apply([tf.constant([np.inf])], variables)
    assert variable.numpy().item() == 0
    assert float(optimizer.dynamic_scale) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"initial_scale": 0}, "`initial_scale`"),
        ({"initial_scale": np.inf}, "`initial_scale`"),
        ({"dynamic_growth_steps": 0}, "`dynamic_growth_steps`"),
        ({"dynamic_growth_steps": 1.5}, "`dynamic_growth_steps`"),
    ],
)
def test_wrong_arguments_of_loss_scaling(arguments, message):
    with pytest.raises(ValueError, match=message):
        tf_opt.LossScaleOptimizer(tf_opt.Adam(), **arguments)
    with pytest.raises(TypeError, match="`inner_optimizer`"):
        tf_opt.LossScaleOptimizer("adam")


@pytest.mark.parametrize(
    "inner", [tf_opt.Adam, keras.optimizers.Adam], ids=["ours", "Keras"]
)
def test_loss_scaling_that_is_not_built_says_what_it_needs(inner):
    optimizer = tf_opt.LossScaleOptimizer(inner())
    with pytest.raises(ValueError, match=r"call `optimizer\.build\("):
        optimizer.apply([tf.constant(1.0)])


# ---- With what Keras does around them. ----


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("implementation", ["custom_op", "composed"])
def test_constraints_hold_after_a_step_and_not_after_a_skipped_one(
    implementation, in_graph
):
    variable = tf.Variable([5.0, -5.0], constraint=tf.nn.relu)
    optimizer = tf_opt.Adam(
        0.1, skip_nonfinite=True, implementation=implementation
    )
    optimizer.build([variable])

    def step(gradient):
        optimizer.apply([gradient], [variable])

    if in_graph:
        step = tf.function(step)
    step(tf.constant([np.nan, 0.0]))
    np.testing.assert_array_equal(variable.numpy(), [5, -5])
    step(tf.constant([1.0, 1.0]))
    np.testing.assert_allclose(variable.numpy(), [4.9, 0], rtol=1e-6)


@pytest.mark.parametrize("steps", [None, 2])
def test_variables_that_are_overwritten_by_gradients(steps):
    results = []
    for cls in (tf_opt.Adam, keras.optimizers.Adam):
        variables = _variables([1.0], [2.0])
        variables[1].overwrite_with_gradient = True
        optimizer = cls(
            0.1,
            use_ema=True,
            global_clipnorm=0.5,
            gradient_accumulation_steps=steps,
        )
        optimizer.build(variables)
        for value in (5.0, 7.0, 3.0):
            optimizer.apply(
                [tf.constant([1.0]), tf.constant([value])], variables
            )
        results.append([v.numpy() for v in variables])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4)


@pytest.mark.parametrize("scales_loss", [False, True])
def test_steps_with_float8_variables_are_not_skipped(scales_loss):
    variables = _variables([1.0], [2.0])
    variables[1].overwrite_with_gradient = True
    optimizer = tf_opt.Adam(0.1, skip_nonfinite=not scales_loss)
    if scales_loss:
        optimizer = tf_opt.LossScaleOptimizer(optimizer)
    with pytest.raises(ValueError, match="keras.optimizers.LossScaleOptimizer"):
        optimizer.apply([tf.constant([1.0]), tf.constant([3.0])], variables)
    assert [v.numpy().item() for v in variables] == [1, 2]


@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
@pytest.mark.parametrize("make", KERAS)
def test_checkpoints_move_both_ways(make, features, tmp_path):
    theirs_class, arguments = KERAS[make]
    x, y = _data()

    def model(cls, extra):
        model = _model()
        model.compile(cls(0.01, **features, **extra), "mse")
        return model

    ours, theirs = model(make, arguments), model(theirs_class, {})
    for source, target in ((ours, theirs), (theirs, ours)):
        source.fit(x, y, batch_size=16, epochs=1, verbose=0)
        target.optimizer.build(target.trainable_variables)
        shapes = [v.shape for v in source.optimizer.variables]
        assert shapes == [v.shape for v in target.optimizer.variables]
        source.save_weights(tmp_path / "x.weights.h5")
        target.load_weights(tmp_path / "x.weights.h5")
        checkpoint = tf.train.Checkpoint(
            model=source, optimizer=source.optimizer
        )
        path = checkpoint.save(tmp_path / "checkpoint")
        tf.train.Checkpoint(model=target, optimizer=target.optimizer).restore(
            path
        ).assert_existing_objects_matched()
        for a, b in zip(
            source.optimizer.variables, target.optimizer.variables, strict=True
        ):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_checkpoints_move_whatever_is_kept_beside_the_variables(tmp_path):
    def make(cls, **arguments):
        variables = [keras.Variable([0.0], name="x")]
        optimizer = cls(1.0, **arguments)
        optimizer.apply([tf.constant([1.0])], variables)
        return optimizer

    ours, others = (
        make(
            tf_opt.Adam,
            learning_rate_multipliers={"x": factor},
            weight_decay_multipliers={"x": factor},
            skip_nonfinite=True,
            track_gradient_norm=True,
        )
        for factor in (1.0, 4.0)
    )
    theirs = make(keras.optimizers.Adam)
    for source, target in (
        (theirs, others),
        (ours, others),
        (ours, theirs),
    ):
        path = tf.train.Checkpoint(x=source).save(tmp_path / "checkpoint")
        tf.train.Checkpoint(x=target).restore(path).assert_consumed()
    # The rates are what the optimizer says.
    assert others._unsaved.learning_rate_multipliers.numpy() == [4]
    assert others._unsaved.weight_decay_multipliers.numpy() == [4]


def test_a_saved_training_function_keeps_what_it_uses(tmp_path):
    class Trainer(tf.Module):
        def __init__(self):
            super().__init__()
            self.variable = tf.Variable([0.0], name="x")
            self.optimizer = tf_opt.AveragedSGD(
                1.0,
                lambd=0.0,
                learning_rate_multipliers={"x": 2.0},
                skip_nonfinite=True,
                track_gradient_norm=True,
            )
            self.optimizer.build([self.variable])

        @tf.function(input_signature=[tf.TensorSpec([1])])
        def step(self, gradient):
            self.optimizer.apply([gradient], [self.variable])
            state = self.optimizer
            return self.variable, state.gradient_norm, state.skipped_steps

    trainer = Trainer()
    trainer.step(tf.constant([np.inf]))
    trainer.step(tf.constant([1.0]))
    tf.saved_model.save(trainer, tmp_path)
    loaded = tf.saved_model.load(tmp_path)
    variable, norm, skipped = loaded.step(tf.constant([3.0]))
    assert (variable.numpy(), norm.numpy(), skipped.numpy()) == (-8, 3, 1)


def test_everything_is_in_the_configuration():
    arguments = {
        "learning_rate_multipliers": {"kernel": 0.5},
        "weight_decay_multipliers": {"bias": 0.0},
        "skip_nonfinite": True,
        "track_gradient_norm": True,
        "use_ema": True,
        "global_clipnorm": 1.0,
    }
    optimizer = tf_opt.AdamW(0.01, **arguments)
    for again in (
        tf_opt.AdamW.from_config(optimizer.get_config()),
        pickle.loads(pickle.dumps(optimizer)),
        copy.deepcopy(optimizer),
    ):
        config = again.get_config()
        assert {key: config[key] for key in arguments} == arguments
        model = _model()
        model.compile(again, "mse")
        model.fit(*_data(), verbose=0)
        assert float(again.gradient_norm) > 0


def test_an_exported_model_has_nothing_of_it(tmp_path):
    model = _model()
    model.compile(
        tf_opt.LossScaleOptimizer(
            tf_opt.AdamW(
                0.01,
                skip_nonfinite=True,
                track_gradient_norm=True,
                learning_rate_multipliers={"first": 0.5},
                use_ema=True,
                gradient_accumulation_steps=2,
            )
        ),
        "mse",
    )
    model.fit(*_data(), verbose=0)
    model.export(tmp_path / "served", verbose=False)
    served = tf.saved_model.load(tmp_path / "served")
    x, _ = _data()
    np.testing.assert_allclose(served.serve(x), model(x), rtol=1e-5)
    assert b"TfOpt" not in (tmp_path / "served/saved_model.pb").read_bytes()


class Halving(tf_opt.Adam):
    """An optimizer with a rule of its own."""

    def update_step(self, gradient, variable, learning_rate):
        """Subtracts half of the gradient times the learning rate."""
        learning_rate = tf.cast(learning_rate, variable.dtype)
        self.assign_sub(variable, learning_rate * gradient / 2)


@pytest.mark.parametrize("in_graph", [False, True])
def test_a_rule_of_ones_own_has_the_features_too(in_graph):
    (variable,) = variables = [keras.Variable([8.0], name="x")]
    optimizer = Halving(
        1.0,
        clipvalue=2.0,
        use_ema=True,
        ema_momentum=0.5,
        skip_nonfinite=True,
        gradient_accumulation_steps=2,
        learning_rate_multipliers={"x": 2.0},
    )
    optimizer.build(variables)

    def step(gradient):
        optimizer.apply([gradient], variables)

    if in_graph:
        step = tf.function(step)
    for gradient in (1.0, np.nan, 2.0, 6.0, np.inf, 6.0):
        step(tf.constant([gradient]))
    # The means are 1.5 and 6, which is clipped to 2; the rate is 2 / 2.
    assert variable.numpy().item() == 8 - 1.5 - 2
    assert int(optimizer.skipped_steps) == 2
    np.testing.assert_allclose(
        optimizer._model_variables_moving_average[0].numpy(),
        [((6.5 + 6.5) / 2 + 4.5) / 2],
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_custom_op_and_composed_have_the_same_bits(dtype):
    random = np.random.default_rng(0)
    begin = [random.normal(size=shape) for shape in ((33,), (4, 5))]
    gradients = [[random.normal(size=v.shape) for v in begin] for _ in range(6)]
    results = []
    for implementation in ("custom_op", "composed"):
        variables = _variables(*begin, dtype=dtype)
        optimizer = tf_opt.Adam(
            0.05,
            weight_decay=0.1,
            clipvalue=0.5,
            loss_scale_factor=3.0,
            use_ema=True,
            ema_momentum=0.9,
            ema_overwrite_frequency=2,
            gradient_accumulation_steps=2,
            implementation=implementation,
        )
        for step in gradients:
            optimizer.apply([tf.constant(g, dtype) for g in step], variables)
        results.append([*variables, *optimizer.variables])
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_sparse_gradients_with_all_features():
    def gradient():
        return tf.IndexedSlices(
            tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
            tf.constant([0, 2, 0]),
            tf.constant([4, 2]),
        )

    results = []
    for sparse in (True, False):
        variables = _variables(np.ones((4, 2)))
        optimizer = tf_opt.Adam(
            0.1,
            global_clipnorm=1.0,
            use_ema=True,
            skip_nonfinite=True,
            gradient_accumulation_steps=2,
        )
        for _ in range(4):
            given = gradient() if sparse else tf.convert_to_tensor(gradient())
            optimizer.apply([given], variables)
        results.append(variables[0].numpy())
    np.testing.assert_array_equal(*results)


# ---- Arguments and gradients as Keras takes them. ----


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("implementation", ["custom_op", "composed"])
@pytest.mark.parametrize(
    "make", [np.float32, tf.constant, tf.Variable, keras.Variable]
)
def test_the_momentum_of_averages_may_be_a_scalar_of_any_kind(
    make, implementation, in_graph
):
    averages = []
    for cls, momentum, options in (
        (keras.optimizers.Adam, 0.5, {}),
        (tf_opt.Adam, make(0.5), {"implementation": implementation}),
    ):
        variable = keras.Variable([1.0, 2.0])
        optimizer = cls(
            0.1, epsilon=1e-7, use_ema=True, ema_momentum=momentum, **options
        )
        optimizer.build([variable])

        def step(gradient, optimizer=optimizer):
            optimizer.apply([gradient])

        step = tf.function(step) if in_graph else step
        for i in range(3):
            step(tf.constant([1.0, i]))
        averages.append(optimizer._model_variables_moving_average[0].numpy())
    np.testing.assert_allclose(*averages, rtol=1e-4)


def _run_multi_task(
    make: Any, mode: str, options: dict[str, Any]
) -> list[np.ndarray]:
    variables = _variables([0.0, 0.0], [0.0, 0.0])
    optimizer = make(1.0, gradient_accumulation_steps=2, **options)
    optimizer.build(variables)

    def step(*grads: tf.Tensor | None) -> None:
        optimizer.apply(grads, variables)

    if mode != "eager":
        step = tf.function(step, jit_compile=mode == "XLA")
    for numbers in ((1, 100), (1, None), (1, 1), (1, 1)):
        step(*(None if x is None else tf.fill([2], float(x)) for x in numbers))
    state = [*variables, *optimizer._accumulated_gradients]
    return [x.numpy() for x in state]


@pytest.mark.filterwarnings("ignore:Gradients do not exist")
@pytest.mark.parametrize("mode", ["eager", "graph", "XLA"])
@pytest.mark.parametrize(
    "options",
    [
        {"implementation": "custom_op"},
        {"implementation": "composed"},
        {"skip_nonfinite": True},
    ],
    ids=str,
)
def test_a_sum_without_a_gradient_in_the_update_is_dropped(options, mode):
    if mode == "XLA" and not HAS_XLA_KERNELS and "implementation" in options:
        pytest.skip("this build has no kernels for XLA")
    expected = _run_multi_task(keras.optimizers.SGD, "eager", {})
    ours = _run_multi_task(tf_opt.ASGD, mode, options)
    np.testing.assert_allclose(ours, expected, rtol=1e-6)
    assert ours[1][0] == -1


@pytest.mark.filterwarnings("ignore:Gradients do not exist")
@pytest.mark.parametrize("in_graph", [False, True])
def test_rows_without_a_gradient_in_the_update_are_dropped(in_graph):
    tables = _variables(np.ones((4, 2)), np.ones((4, 2)))
    optimizer = tf_opt.AdamW(
        0.1, lazy_mode=True, gradient_accumulation_steps=2, weight_decay=0.1
    )
    optimizer.build(tables)

    def rows(*indices: int) -> tf.IndexedSlices:
        return tf.IndexedSlices(
            tf.ones([len(indices), 2]), tf.constant(indices)
        )

    def step(first: Any, second: Any) -> None:
        optimizer.apply([first, second], tables)

    step = tf.function(step) if in_graph else step
    for second in (rows(0), None, rows(1), rows(2)):
        step(rows(3), second)
    changed = (tables[1].numpy() != 1).all(axis=1)
    np.testing.assert_array_equal(changed, [False, True, True, False])


@pytest.mark.parametrize("in_graph", [False, True])
def test_clipping_by_the_global_norm_tells_it(in_graph):
    variable = keras.Variable([1.0, 2.0])
    optimizer = tf_opt.Adam(0.1, global_clipnorm=1.0)
    optimizer.build([variable])

    def step() -> None:
        optimizer.apply([tf.constant([3.0, 4.0])], [variable])

    (tf.function(step) if in_graph else step)()
    assert float(optimizer.gradient_norm) == 5
    # What is switched off later isn't measured.
    optimizer.global_clipnorm = None
    step()


@pytest.mark.parametrize("built", [False, True])
@pytest.mark.parametrize(
    "given",
    [np.zeros(2), tf.constant([1.0, 2.0]), "w", None],
    ids=["array", "tensor", "string", "None"],
)
def test_what_is_no_variable_is_refused(given, built):
    optimizer = tf_opt.Adam()
    if built:
        optimizer.build(_variables([1.0, 2.0]))
    with pytest.raises(
        TypeError, match=r"`trainable_variables` must be variables\. .*\[0\]="
    ):
        optimizer.apply([tf.ones(2)], [given])
