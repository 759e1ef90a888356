"""What the features of `apply()` promise, one by one; Keras beside it."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from small_model import (
    assert_close,
    assert_same,
    compiled,
    loaded,
    state,
    train,
)
from trajectory import RUNS

pytestmark = [pytest.mark.core, pytest.mark.kernels]


def _variables(*values: Any, dtype: str = "float32") -> list[keras.Variable]:
    return [keras.Variable(np.array(value), dtype=dtype) for value in values]


def test_a_skipped_step_applies_no_constraint(implementation):
    # test_whole_step.py has all else that such a step leaves alone.
    variables = _variables([-3.0], [4.0])
    variables[0].constraint = keras.constraints.NonNeg()
    optimizer = tf_opt.NAdam(
        0.1, skip_nonfinite=True, implementation=implementation
    )
    optimizer.build(variables)
    step = tf.function(lambda *grads: optimizer.apply(grads, variables))
    for wrong in (np.nan, np.inf, -np.inf):
        step(tf.constant([1.0]), tf.constant([wrong]))
        assert [v.numpy() for v in variables] == [-3, 4]
    step(tf.constant([1.0]), tf.constant([1.0]))
    assert variables[0].numpy() == 0
    assert (optimizer.skipped_steps, optimizer.iterations) == (3, 1)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_global_norm_that_is_no_number_shows_in_all_variables(wrong):
    gradients = [tf.constant([wrong]), tf.constant([1.0])]
    for cls in (tf_opt.Adam, keras.optimizers.Adam):
        variables = _variables([1.0], [2.0])
        cls(0.1, global_clipnorm=1.0).apply(gradients, variables)
        assert [np.isnan(v.numpy()).all() for v in variables] == [True, True]


def test_a_traced_step_reads_a_loss_scale(implementation):
    variable, scale = keras.Variable([0.0]), keras.Variable(1.0)
    optimizer = tf_opt.SGD(
        1.0, loss_scale_factor=scale, implementation=implementation
    )
    optimizer.build([variable])
    step = tf.function(lambda: optimizer.apply([tf.ones(1)], [variable]))
    step()
    scale.assign(2.0)
    step()
    assert variable.numpy() == [-1.5]


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


def test_a_variable_that_occurs_twice_is_updated_in_order_and_averaged_once(
    how, implementation
):
    def train(cls, **options):
        table, other = variables = _variables([[1.0]], [[2.0]])
        optimizer = cls(
            0.1,
            momentum=0.5,
            use_ema=True,
            ema_momentum=0.5,
            ema_overwrite_frequency=2,
            **options,
        )
        optimizer.build(variables)
        dense = tf.constant([[0.5]])
        slices = tf.IndexedSlices([[3.0]], [0], [1, 1])
        # The second update of both is dense, and the table's first isn't.
        grads = [dense, dense, slices, dense]
        step = RUNS[how](
            lambda: optimizer.apply(grads, [other, other, table, table])
        )
        for _ in range(3):
            step()
        averages = optimizer._model_variables_moving_average
        return [v.numpy() for v in (*variables, *averages)]

    ours = train(tf_opt.SGD, implementation=implementation)
    assert_close(ours, train(keras.optimizers.SGD), rtol=1e-6)


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
        # The second one has no slots.
        kept = [*variables, *optimizer.variables]
        results.append([v.numpy() for v in kept])
    assert_close(*results, rtol=1e-4)


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
    for source, target in ((theirs, others), (ours, others), (ours, theirs)):
        path = tf.train.Checkpoint(x=source).save(tmp_path / "checkpoint")
        tf.train.Checkpoint(x=target).restore(path).assert_consumed()
    # The rates are what the optimizer says.
    assert others._unsaved.learning_rate_multipliers.factors.numpy() == [4]
    assert others._unsaved.weight_decay_multipliers.factors.numpy() == [4]


def _run_multi_task(
    make: Any, how: str, options: dict[str, Any]
) -> list[np.ndarray]:
    strategy = tf.distribute.get_strategy()
    variables = _variables([0.0, 0.0], [0.0, 0.0])
    optimizer = make(1.0, gradient_accumulation_steps=2, **options)
    optimizer.build(variables)
    step = RUNS[how](
        lambda *grads: strategy.run(lambda: optimizer.apply(grads, variables))
    )
    part = 1 / strategy.num_replicas_in_sync
    for numbers in ((1, 100), (1, None), (1, 1), (1, 1)):
        step(*(None if x is None else tf.fill([2], x * part) for x in numbers))
    state = [*variables, *optimizer._accumulated_gradients]
    return [x.numpy() for x in state]


@pytest.mark.filterwarnings("ignore:Gradients do not exist")
@pytest.mark.parametrize("how", [*RUNS, "replicas"])
@pytest.mark.parametrize(
    "options",
    [{}, {"implementation": "composed"}, {"skip_nonfinite": True}],
    ids=str,
)
def test_a_sum_without_a_gradient_in_the_update_is_dropped(
    options, how, strategy
):
    expected = _run_multi_task(keras.optimizers.SGD, "eager", {})
    if how == "replicas":
        with strategy.scope():
            ours = _run_multi_task(tf_opt.ASGD, "tf.function", options)
    else:
        ours = _run_multi_task(tf_opt.ASGD, how, options)
    np.testing.assert_allclose(ours, expected, rtol=1e-6)
    assert ours[1][0] == -1


@pytest.mark.filterwarnings("ignore:Gradients do not exist")
def test_rows_without_a_gradient_in_the_update_are_dropped(how):
    tables = _variables(np.ones((4, 2)), np.ones((4, 2)))
    optimizer = tf_opt.AdamW(
        0.1, lazy_mode=True, gradient_accumulation_steps=2, weight_decay=0.1
    )
    optimizer.build(tables)

    def rows(*indices: int) -> tf.IndexedSlices:
        return tf.IndexedSlices(
            tf.ones([len(indices), 2]), tf.constant(indices)
        )

    step = RUNS[how](lambda *slices: optimizer.apply(slices, tables))
    for second in (rows(0), None, rows(1), rows(2)):
        step(rows(3), second)
    changed = (tables[1].numpy() != 1).all(axis=1)
    np.testing.assert_array_equal(changed, [False, True, True, False])


def test_clipping_by_the_global_norm_tells_it(how):
    variable = keras.Variable([1.0, 2.0])
    optimizer = tf_opt.Adam(0.1, global_clipnorm=1.0)
    optimizer.build([variable])

    gradient = tf.constant([3.0, 4.0])
    RUNS[how](lambda: optimizer.apply([gradient], [variable]))()
    assert float(optimizer.gradient_norm) == 5
    with pytest.raises(ValueError, match="`skip_nonfinite=True`"):
        _ = optimizer.skipped_steps
    with pytest.raises(ValueError, match="`track_gradient_norm=True`"):
        _ = tf_opt.Adam().gradient_norm
    # What is switched off later isn't measured.
    optimizer.global_clipnorm = None
    optimizer.apply([2 * gradient], [variable])
    assert float(optimizer.gradient_norm) == 5


# ---- Loss scaling. ----


@pytest.mark.parametrize("inner", [tf_opt.Adam, keras.optimizers.Adam])
def test_wrong_arguments_of_loss_scaling(inner):
    for name in ("initial_scale", "dynamic_growth_steps"):
        for value in (0, np.inf, "x"):
            with pytest.raises(ValueError, match=f"`{name}`"):
                tf_opt.LossScaleOptimizer(inner(), **{name: value})
    with pytest.raises(TypeError, match="`inner_optimizer`"):
        tf_opt.LossScaleOptimizer("adam")
    with pytest.raises(ValueError, match="`loss_scale_factor` must be None"):
        tf_opt.LossScaleOptimizer(inner()).loss_scale_factor = 2.0
    with pytest.raises(ValueError, match=r"call `optimizer\.build\("):
        tf_opt.LossScaleOptimizer(inner()).apply([tf.constant(1.0)])


@pytest.mark.parametrize(
    "inner", [tf_opt.Adam(use_ema=True), tf_opt.ASGD(0.1, batch_num=2)]
)
def test_loss_scaling_has_every_public_name_of_the_inner_optimizer(inner):
    inner.track_gradient_norm = True
    (variable,) = variables = _variables([1.0])
    optimizer = tf_opt.LossScaleOptimizer(inner, 4.0)
    optimizer.apply([tf.constant([4.0])], variables)
    keras_own = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD())
    added = {x for x in dir(inner) if x[0] != "_"} - {*dir(keras_own)}
    assert {"averaged_weights", "skipped_steps", "maximize"} <= added
    for name in added:
        own, received = getattr(inner, name), getattr(optimizer, name)
        assert (
            callable(received) if callable(own) else repr(received) == repr(own)
        )
    optimizer.learning_rate_multipliers = {".": 1.0}
    assert inner.learning_rate_multipliers == {".": 1.0}
    optimizer.track_gradient_norm = False
    assert not inner.track_gradient_norm
    with pytest.raises(AttributeError, match="no attribute 'batch_indexes'"):
        _ = optimizer.batch_indexes


@pytest.mark.core
@pytest.mark.parametrize("make", [tf_opt.AdamW, keras.optimizers.AdamW])
@pytest.mark.parametrize(
    "options",
    [
        {"weight_decay": 0.5, "clipnorm": 0.25},
        {"global_clipnorm": 0.25},
        {"clipvalue": 0.25},
        {"use_ema": True, "ema_momentum": 0.5, "ema_overwrite_frequency": 2},
        {"gradient_accumulation_steps": 2},
    ],
    ids=str,
)
def test_arguments_that_loss_scaling_is_assigned_are_the_inner_optimizers(
    make, options
):
    ends = []
    for assigns in (True, False):
        inner = make(0.1, name="inner", **{} if assigns else options)
        optimizer = tf_opt.LossScaleOptimizer(inner, 4.0, name="outer")
        for name, value in options.items() if assigns else ():
            setattr(optimizer, name, value)
        for name, value in options.items():
            assert getattr(optimizer, name) == value
        variables = [keras.Variable([1.0], name=name) for name in "ab"]
        optimizer.exclude_from_weight_decay(var_list=variables[1:])
        for _ in range(4):
            gradients = [tf.constant([2.0]), tf.constant([0.0])]
            optimizer.apply(gradients, variables)
        saved = keras.optimizers.serialize(optimizer)
        again = keras.optimizers.deserialize(saved)
        assert again.get_config() == optimizer.get_config()
        # What doesn't decay and has no gradient stays.
        assert variables[1].numpy() == 1
        found = [x.numpy() for x in (*variables, *optimizer.variables)]
        ends.append((found, saved))
    assert_same(*(found for found, _ in ends))
    assert ends[0][1] == ends[1][1]


@pytest.mark.needs_library
def test_mixed_float16_leaves_our_loss_scaling_and_saves_it(tmp_path):
    keras.config.set_dtype_policy("mixed_float16")
    try:
        optimizer = tf_opt.LossScaleOptimizer(tf_opt.AdamW(0.01))
        model = compiled(optimizer, dtype=None)
        assert model.optimizer is optimizer
        train(model)
        inner = optimizer.inner_optimizer
        for each in (optimizer, inner):
            assert each.implementation_in_use == "custom_op"
        other = loaded(model, model, "keras", tmp_path)
        assert type(other.optimizer) is tf_opt.LossScaleOptimizer
        assert_same(state(other), state(model))
        train(other)
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
