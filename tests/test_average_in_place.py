"""Averages in the variables' place: saved, refused by steps, in wrappers."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt
from allpairspy import AllPairs
from tf_opt.python.keras_internals import unwrapped
from tf_opt.python.optimizers.values import variables as access

from low_precision_cases import SETTINGS
from registry import pairwise, quick_first, slow
from small_model import (
    FIT,
    X,
    Y,
    assert_same,
    compiled,
    loaded,
    multi,
    state,
)
from trajectory import RUNS

# Each kind of average. What optimizer Keras' is of, it doesn't know.
MAKES = {
    "Adam": lambda: tf_opt.Adam(0.1, use_ema=True, ema_momentum=0.5),
    "ASGD": lambda: tf_opt.ASGD(0.1, batch_num=2, use_ema=True),
    "AveragedSGD": lambda: tf_opt.AveragedSGD(0.1, t0=1),
}
FIRST = ".*first/.*"
WRAPPED = {
    "ours": lambda: tf_opt.LossScaleOptimizer(MAKES["AveragedSGD"]()),
    "two of Keras'": lambda: keras.optimizers.LossScaleOptimizer(
        multi(MAKES["Adam"](), {FIRST: MAKES["AveragedSGD"]()})
    ),
}


class Fails(keras.callbacks.Callback):
    """Ends a `fit` after this epoch, while the average is in place."""

    def __init__(self, epoch: int) -> None:
        super().__init__()
        self.epoch = epoch

    def on_epoch_end(self, epoch, logs=None):
        if epoch == self.epoch:
            raise KeyboardInterrupt


def step(model: keras.Model) -> None:
    model.train_on_batch(X, Y)


def trained(optimizer, dtype="float32") -> keras.Model:
    model = compiled(optimizer, dtype)
    for _ in range(3):
        step(model)
    return model


def averages_of(model: keras.Model) -> list[np.ndarray]:
    return [x.numpy() for x in model.optimizer._state.averages_to_swap]


@pytest.mark.core
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Adam", "keras"),
        ("ASGD", "weights.h5"),
        ("AveragedSGD", "checkpoint"),
        ("AveragedSGD", "keras"),
        ("ours", "keras"),
        ("two of Keras'", "keras"),
    ],
)
def test_what_was_saved_with_the_average_in_place_says_so(name, kind, tmp_path):
    make = (MAKES | WRAPPED)[name]
    model = trained(make())
    before = state(model)
    expected = averages_of(model) if name in MAKES else []
    for part in unwrapped(model.optimizer):
        part.swap_in_average()
    averages = model.get_weights()
    if expected:
        assert_same(averages, expected)
    restored = loaded(model, compiled(make()), kind, tmp_path)
    for each in model, restored:
        assert_same(each.get_weights(), averages)
        parts, meanwhile = unwrapped(each.optimizer), state(each)
        assert all(part.average_is_swapped_in for part in parts)
        uses = [part.use_ema for part in parts]
        for is_on in (True, False):
            for part, use_ema in zip(parts, uses, strict=True):
                part.use_ema = is_on and use_ema
            with pytest.raises(RuntimeError, match="swap_out_average"):
                step(each)
        assert_same(state(each), meanwhile)
        # Also while they are off.
        for part in parts:
            part.swap_out_average()
        assert_same(state(each), before)
        step(each)
        for part, use_ema in zip(parts, uses, strict=True):
            part.use_ema = use_ema
    assert_same(state(restored), state(model))


@pytest.mark.parametrize("arguments", [{}, SETTINGS["masters, state"]], ids=str)
@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_swapping_in_and_out_changes_nothing(make, arguments):
    config = make().get_config() | arguments
    model = trained(type(make()).from_config(config), "bfloat16")
    step(model)
    before = state(model)
    with model.optimizer.averaged_weights():
        for a, b in zip(model.get_weights(), averages_of(model), strict=True):
            assert (np.asarray(a) != np.asarray(b)).any()
    assert_same(state(model), before)


@pytest.mark.parametrize("how", ["eager", "tf.function", "replicas"])
@pytest.mark.parametrize(
    ("make", "steps", "expected"),
    [
        # The average of the last two of 5.5, 5.0 and 4.5.
        (
            lambda: tf_opt.AveragedSGD(0.5, lambd=tf.Variable(0.0), t0=0),
            3,
            4.75,
        ),
        (lambda: tf_opt.ScheduleFreeAdamW(0.125, 0.75), 1, 5.875),
    ],
    ids=["AveragedSGD", "ScheduleFreeAdamW"],
)
def test_averages_begin_as_what_the_variables_are_then(
    make, steps, expected, implementation, how, strategy
):
    scope = strategy if how == "replicas" else tf.distribute.get_strategy()
    with scope.scope():
        variables = [keras.Variable([3.0]), keras.Variable([4.0])]
        optimizer = make()
        optimizer.implementation = implementation
        optimizer.build(variables)

    def on_replica() -> None:  # The second never has a gradient.
        gradient = tf.ones(1) / scope.num_replicas_in_sync
        optimizer.apply([gradient], variables[:1])

    def assert_copies(*expected: float) -> None:
        for variable, value in zip(variables, expected, strict=True):
            for copy in scope.experimental_local_results(variable.value):
                np.testing.assert_allclose(copy, [value], rtol=1e-7)

    step = on_replica
    if how != "eager":
        step = tf.function(lambda: scope.run(on_replica))
        step.get_concrete_function()
    variables[0].assign([5.0])
    with optimizer.averaged_weights():
        assert_copies(5.0, 4.0)
    for variable in variables:
        variable.assign([6.0])
    for _ in range(steps):
        step()
    (last,) = variables[0].numpy()
    with optimizer.averaged_weights():
        assert_copies(expected, 6.0)
    assert_copies(last, 6.0)


def test_counts_and_rates_are_right_while_the_average_is_in_place():
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay(
        [2, 9], [0.5, 0.25, 0.125]
    )
    model = trained(tf_opt.Adam(schedule, use_ema=True))
    with model.optimizer.averaged_weights():
        assert int(model.optimizer.iterations) == 3
        assert float(model.optimizer.learning_rate) == 0.25
    assert int(model.optimizer.iterations.numpy()) == 3
    model = trained(tf_opt.Adam(use_ema=True, gradient_accumulation_steps=2))
    with model.optimizer.averaged_weights():
        assert int(model.optimizer.iterations) == 1


@pytest.mark.core
@pytest.mark.parametrize(
    ("name", "how", "implementation", "scaled"),
    pairwise(zip(MAKES), RUNS, ["auto", "composed"], [False, True]),
)
def test_a_step_meanwhile_neither_writes_nor_counts(
    name, how, implementation, scaled
):
    made = MAKES[name]()
    config = made.get_config() | {"implementation": implementation}
    inner = optimizer = type(made).from_config(config)
    if scaled:
        optimizer = tf_opt.LossScaleOptimizer(
            inner, initial_scale=4.0, dynamic_growth_steps=3
        )
    variable = keras.Variable([0.5, -1.0])
    optimizer.build([variable])

    def values() -> list[np.ndarray]:
        return [x.numpy() for x in (variable, *optimizer.variables)]

    gradient = tf.constant([-1.0, 2.0])
    do = RUNS[how](lambda: optimizer.apply([gradient], [variable]))
    do()
    do()
    trained = values()
    with inner.averaged_weights():
        before = values()
        if how == "jit_compile":
            do()  # Nothing raises an error inside XLA.
        else:
            errors = RuntimeError, tf.errors.InvalidArgumentError
            with pytest.raises(errors, match="swap_out_average"):
                do()
        assert_same(values(), before)
    assert_same(values(), trained)
    do()
    assert int(optimizer.iterations.numpy()) == 3


@pytest.mark.parametrize("make", [tf_opt.Lion, tf_opt.Adam])
def test_on_a_gpu_the_op_refuses_a_step_meanwhile(make, monkeypatch):
    # Nothing waits for a check there. Lion counts no steps.
    monkeypatch.setattr(access, "on_gpu", lambda _: True)
    optimizer = make(0.1, use_ema=True, implementation="custom_op")
    variable = keras.Variable([0.5, -1.0])
    optimizer.build([variable])
    step = tf.function(lambda: optimizer.apply([tf.ones(2)], [variable]))
    step()
    with optimizer.averaged_weights():
        kept = [variable, *optimizer.variables]
        before = [x.numpy() for x in kept]
        with pytest.raises(tf.errors.InvalidArgumentError, match="must be"):
            step()
        assert_same([x.numpy() for x in kept], before)


@pytest.mark.core
@pytest.mark.parametrize(
    ("callback", "how"),
    [
        ("checkpoint", {"run_eagerly": False}),
        slow("checkpoint", {"jit_compile": True}),
        slow("backup", {"run_eagerly": True}),
        slow("interrupt", {"run_eagerly": True}),
    ],
)
def test_fit_goes_on_from_what_callbacks_saved(callback, how, tmp_path):
    def ready(model: keras.Model) -> keras.Model:
        model.compile(model.optimizer, "mse", **how)
        # Without the end of `fit`, where Keras leaves the averages.
        model.optimizer.finalize_variable_values = lambda variables: None
        return model

    swap = tf_opt.callbacks.SwapAveragedWeights(swap_on_epoch=True)
    through, model = (ready(compiled(MAKES["Adam"]())) for _ in range(2))
    through.fit(X, Y, epochs=3, **FIT)

    callbacks = {
        "checkpoint": keras.callbacks.ModelCheckpoint(tmp_path / "x.keras"),
        "backup": keras.callbacks.BackupAndRestore(tmp_path / "backup"),
    }
    own = [callbacks[callback]] if callback in callbacks else []
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y, epochs=3, callbacks=[swap, *own, Fails(1)], **FIT)
    assert model.optimizer.average_is_swapped_in
    if callback == "checkpoint":
        model = ready(keras.models.load_model(tmp_path / "x.keras"))
    elif callback == "backup":
        model = ready(compiled(MAKES["Adam"]()))
    # Refused, as nobody brings the weights back.
    with pytest.raises(RuntimeError, match="`optimizer.swap_out_a") as error:
        model.fit(X, Y, initial_epoch=2, epochs=3, callbacks=own, **FIT)
    assert "\n" not in str(error.value)

    # Averages are swapped out in time where the first step is traced later.
    again = tf_opt.callbacks.SwapAveragedWeights()
    model.fit(X, Y, initial_epoch=2, epochs=3, callbacks=[again], **FIT)
    model.optimizer.swap_out_average()
    assert_same(state(model), state(through))


def test_a_fit_after_an_interrupted_one_knows_that_no_step_ran():
    model = compiled(MAKES["Adam"]())
    # Inside XLA, steps raise no errors.
    model.compile(model.optimizer, "mse", jit_compile=True)
    swap = tf_opt.callbacks.SwapAveragedWeights()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y, callbacks=[swap, Fails(0)], **FIT)
    with pytest.raises(RuntimeError, match="No step ran"):
        model.fit(X, Y, **FIT)


def test_a_file_loaded_meanwhile_brings_its_own_average(tmp_path):
    model, other = (trained(MAKES["AveragedSGD"]()) for _ in range(2))
    step(other)
    expected = state(other)
    for each in model, other:
        each.optimizer.swap_in_average()
    other.save_weights(tmp_path / "x.weights.h5")
    model.load_weights(tmp_path / "x.weights.h5")
    model.optimizer.swap_out_average()
    assert_same(state(model), expected)


def test_an_average_that_is_not_a_number_gives_the_weights_back():
    model = trained(MAKES["AveragedSGD"]())
    model.optimizer._state.averages_to_swap[0].assign(np.full((4, 8), np.nan))
    before = state(model)
    model.optimizer.swap_in_average()
    model.optimizer.swap_out_average()
    assert_same(state(model), before)


BEST = {
    **(MAKES | WRAPPED),
    "ScheduleFreeAdamW": lambda: tf_opt.ScheduleFreeAdamW(0.1),
}


@pytest.mark.core
@pytest.mark.parametrize(
    ("name", "order", "kind"),
    quick_first(
        AllPairs(
            [
                list(BEST),
                ["swap stop save", "stop save swap"]
                + ["stop swap save", "save swap stop"],
                ["keras", "weights.h5"],
            ]
        )
    ),
)
def test_the_model_that_was_best_is_the_one_that_remains(
    name, order, kind, tmp_path
):
    # The loss falls, so that the first epoch is the "best".
    file, best = tmp_path / "best.keras", {"monitor": "val_loss", "mode": "max"}
    callbacks = {
        "swap": tf_opt.callbacks.SwapAveragedWeights(),
        "stop": keras.callbacks.EarlyStopping(
            **best, patience=1, restore_best_weights=True
        ),
        "save": keras.callbacks.ModelCheckpoint(
            file, **best, save_best_only=True
        ),
    }
    model = compiled(BEST[name]())
    losses = model.fit(
        *(X, Y),
        validation_data=(X, Y),
        epochs=5,
        callbacks=[callbacks[each] for each in order.split()],
        **FIT,
    ).history["val_loss"]
    assert losses[1] < losses[0] * 0.99
    swap = tf_opt.callbacks.SwapAveragedWeights()
    restored = model.get_weights()
    for each in model, keras.models.load_model(file):
        for how in {}, {"callbacks": [swap]}:
            score = each.evaluate(X, Y, verbose=0, **how)
            assert score == pytest.approx(losses[0], rel=1e-6)
    # Files know, too, that training goes on from these weights.
    again = loaded(model, compiled(BEST[name]()), kind, tmp_path)
    for each in model, again:
        for part in unwrapped(each.optimizer):
            assert not part.average_is_swapped_in
        assert_same(each.get_weights(), restored)
        for part in unwrapped(each.optimizer):
            part.swap_in_average()
        assert_same(each.get_weights(), restored)
        each.fit(X, Y, callbacks=[swap], **FIT)
    assert_same(state(model), state(again))


def test_the_end_of_fit_leaves_frozen_and_other_optimizers_variables():
    # Keras takes averages by their position, here those of other variables.
    model = compiled(MAKES["Adam"]())
    variables = model.trainable_variables
    own, others = variables[:4], variables[4:]
    for _ in range(2):
        model.optimizer.apply([tf.ones_like(x) for x in own], own)
    unchanged = [x.numpy() for x in (*own[:2], *others)]
    expected = [*unchanged[:2], *averages_of(model)[2:], *unchanged[2:]]
    model.optimizer.finalize_variable_values(variables[2:])
    assert_same([x.numpy() for x in variables], expected)
