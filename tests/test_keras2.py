"""Optimizers of Keras 2 beside those of tf_keras."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.distribute.sharded_variable import ShardedVariable

from registry import ALL, slow
from small_model import assert_close, checkpoint_of

tf_keras = pytest.importorskip("tf_keras")
import tf_opt.keras2 as tfo

from processes.keras2 import model_with
from processes.parameter_server import SHARDED

pytestmark = pytest.mark.core

# The classes of tf_keras, with arguments that ask for all of the state.
CLASSES = {
    **dict.fromkeys(("Adafactor", "Adadelta", "Adagrad", "AdamW"), {}),
    **dict.fromkeys(("Adamax", "Lion"), {}),
    "Adam": {"amsgrad": True},
    "Ftrl": {"l1_regularization_strength": 0.01},
    "RMSprop": {"centered": True, "momentum": 0.5},
    "SGD": {"momentum": 0.5, "nesterov": True},
}
OPTIONS = {
    "use_ema": True,
    "ema_momentum": 0.5,
    "ema_overwrite_frequency": 3,
    "weight_decay": 0.1,
    "global_clipnorm": 0.5,
}
# No id is twice in a batch of one: tf_keras clips before it adds them up.
IDS = np.array([[0, 5, 7], [3, 2, 1], [8, 9, 10], [11, 0, 2], [7, 1, 3]])
TARGETS = np.linspace(-1, 1, 5, dtype="float32")[:, None]
# tf_keras rounds 1 - beta_2**step to float32.
CLOSE = dict.fromkeys(("rtol", "atol"), 1e-5)


def train(model, epochs=2, **options):
    model.fit(IDS, TARGETS, 1, epochs, shuffle=False, verbose=0, **options)
    return model


def both(name, rate=0.05, **options):
    """Returns tf_keras' optimizer and ours with the same arguments."""
    cls = getattr(tf_keras.optimizers, name)
    theirs = cls(rate, **(CLASSES.get(name, {}) | options))
    return theirs, tfo.from_tf_keras(theirs)


@pytest.mark.parametrize("name", CLASSES)
def test_fit_equals_keras(name):
    expected, found = (train(model_with(x)) for x in both(name, **OPTIONS))
    assert_close(found.get_weights(), expected.get_weights(), **CLOSE)
    if name != "Adafactor":
        states = (x.optimizer.variables for x in (found, expected))
        assert_close(*states, **CLOSE)


def test_every_optimizer_trains():
    assert {*ALL} < {*tfo.__all__}
    for name in ALL:
        given = {"batch_num": 5} if name == "ASGD" else {}
        optimizer = getattr(tfo, name)(0.01, **given)
        assert isinstance(optimizer, tf_keras.optimizers.Optimizer)
        if name in CLASSES:
            continue  # test_fit_equals_keras trains it.
        model = model_with(optimizer)
        before = model.get_weights()
        train(model)
        assert not np.array_equal(model.get_weights()[0], before[0])


@pytest.mark.parametrize(
    "name", [x if x in ("Adafactor", "Adam") else slow(x) for x in CLASSES]
)
def test_state_converts_both_ways(name):
    theirs, _ = both(name, use_ema=True)
    theirs.exclude_from_weight_decay(var_names=["bias"])
    model = train(model_with(theirs))
    weights, ours = model.get_weights(), tfo.from_tf_keras(theirs)
    train(train(model))
    expected = model.get_weights()
    model.set_weights(weights)
    model.compile(ours, "mse")
    train(model)
    model.compile(tfo.to_tf_keras(ours), "mse")
    assert_close(train(model).get_weights(), expected, **CLOSE)


# Endings of files of a whole model, of its weights and of a checkpoint.
FORMATS = ".keras", ".h5", ".weights.h5", ".tf_weights", ".checkpoint"


def save(model, kind, path):
    if kind == ".checkpoint":
        return checkpoint_of(model).save(path)
    (model.save_weights if "weights" in kind else model.save)(path)
    return path


def load(model, kind, path):
    """Loads a file into a model of the same layers that has trained."""
    if kind == ".checkpoint":
        checkpoint_of(model).restore(path).assert_consumed()
    elif "weights" in kind:
        model.load_weights(path)
    else:
        saved = tf_keras.models.load_model(path)
        model.set_weights(saved.get_weights())
        model.optimizer.set_weights(saved.optimizer.variables)
    return model


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("Adam", ".keras"), slow("Adam", ".checkpoint")),
        *(slow(name, x) for name in ("Adagrad", "SGD") for x in FORMATS),
    ],
)
def test_files_load_both_ways(name, kind, tmp_path):
    rate = tf_keras.optimizers.schedules.ExponentialDecay(0.1, 4, 0.5)
    # tf_keras' SGD has slots without momentum, too.
    options = {"momentum": 0.0} if name == "SGD" else {}
    options |= {"use_ema": True, "weight_decay": 0.01}
    models = [train(model_with(x)) for x in both(name, rate, **options)]
    paths = [
        save(model, kind, str(tmp_path / f"{i}{kind}"))
        for i, model in enumerate(models)
    ]
    expected = train(models[0]).get_weights()
    for path in paths:
        for optimizer in both(name, rate, **options):
            model = load(train(model_with(optimizer)), kind, path)
            assert_close(
                train(model).get_weights(), expected, rtol=1e-7, atol=1e-5
            )


LEGACY = {
    **dict.fromkeys(("Adadelta", "Adagrad", "Nadam", "RMSprop"), {}),
    "Adam": {"amsgrad": True, "decay": 0.1},
    "Adamax": {"clipnorm": 0.5},
    "Ftrl": {"l2_shrinkage_regularization_strength": 0.1},
    "RMSprop ": {"momentum": 0.5, "centered": True},
    "SGD": {"momentum": 0.9, "nesterov": True},
}


@pytest.mark.parametrize("name", LEGACY)
def test_legacy_numbers(name):
    cls = getattr(tf_keras.optimizers.legacy, name.strip())
    theirs = cls(0.05, **LEGACY[name])
    ours = tfo.from_tf_keras(theirs)
    results = []
    for optimizer in (theirs, ours):
        table, bias = tf.Variable(tf.ones((4, 2))), tf.Variable([1.0, -2.0])
        for rows in ([0, 1], [1, 2], [2, 0], [0, 1], [1, 2]):
            values = tf.gather(table, rows) ** 2 * 0.01
            slices = tf.IndexedSlices(values, rows, table.shape)
            # Legacy Nadam's tables are neither exact nor lazy.
            pairs = [(slices, table)] if name != "Nadam" else []
            optimizer.apply_gradients([*pairs, (bias * 0.01, bias)])
        results.append(np.append(table.numpy(), bias.numpy()))
    np.testing.assert_allclose(*results, rtol=CLOSE["rtol"])
    with pytest.raises(ValueError, match="after 5 steps"):
        tfo.from_tf_keras(theirs)


class Halving(tf_keras.optimizers.schedules.LearningRateSchedule):
    """A schedule as in many tutorials: without `get_config`."""

    def __call__(self, step):
        return 0.5 ** (1.0 + tf.cast(step, tf.float32))


@pytest.mark.parametrize(
    "cls", [tf_keras.optimizers.SGD, tf_keras.optimizers.legacy.SGD]
)
def test_schedules_that_cannot_be_saved_convert(cls):
    for optimizer in (
        tfo.from_tf_keras(cls(Halving())),
        tfo.to_tf_keras(tfo.from_tf_keras(cls(Halving()))),
    ):
        variable = tf.Variable(1.0)
        for _ in range(2):
            optimizer.apply_gradients([(tf.constant(1.0), variable)])
        assert variable.numpy() == 0.25


def test_average_that_was_validated_stays():
    stop = tf_keras.callbacks.EarlyStopping(
        patience=2, restore_best_weights=True
    )
    callbacks = [stop, tfo.callbacks.SwapAveragedWeights()]
    model = model_with(tfo.AveragedSGD(0.05, t0=2))
    train(model, 6, callbacks=callbacks, validation_data=(IDS, TARGETS))
    best = min(model.history.history["val_loss"])
    assert model.evaluate(IDS, TARGETS, verbose=0) == pytest.approx(best)


def split(make, **arguments):
    """Makes a variable; a table is in two parts, as on parameter servers."""
    variable = make(**arguments)
    if variable.shape != SHARDED:
        return variable
    parts = tf.split(variable, 2)
    return ShardedVariable([tf.Variable(x, name="embeddings") for x in parts])


def test_rows_catch_up_before_layers_read_them():
    results = []
    for scope in (contextlib.nullcontext(), tf.variable_creator_scope(split)):
        lazy = tfo.Adam(0.05, lazy_mode="catch_up")
        with scope:
            model = model_with(lazy)
        train(model, callbacks=[tfo.callbacks.CatchUp()])
        lazy.catch_up()
        results.append(model.get_weights())
    results[1][:2] = [np.concatenate(results[1][:2])]
    # Later models call the layer as before.
    exact = train(model_with(tfo.Adam(0.05))).get_weights()
    for result in results:
        assert_close(result, exact, rtol=0, atol=1e-6)


def test_subclass_may_override_only_what_is_called():
    averages = "_overwrite_model_variables_with_average_value"
    for hook in ("update_step", averages):
        with pytest.raises(TypeError, match=hook):
            type("Own", (tfo.Adam,), {hook: lambda *args: None})
    with pytest.raises(TypeError, match="update_step"):
        tfo.Adam().update_step = None

    class Doubled(tfo.SGD):
        def aggregate_gradients(self, grads_and_vars):
            return [(2 * grad, x) for grad, x in grads_and_vars]

    variable = tf.Variable(1.0)
    Doubled(0.25).apply_gradients([(tf.constant(1.0), variable)])
    assert variable.numpy() == 0.5


@pytest.mark.parametrize("name", ["decay", "lr", "jit_compile", "mesh"])
def test_refused_arguments_say_what_to_do(name):
    with pytest.raises(ValueError, match=f"`{name}` isn't an argument"):
        tfo.Adam(**{name: 0.5})
    with pytest.raises(TypeError, match=r"Adam\(\) got an unexpected"):
        tfo.Adam(no_such=1)


def test_replicas_sum_gradients_or_not(strategy):
    results = []
    # The rate of what is converted is a variable of the replicas.
    for converts in (lambda optimizer: optimizer, tfo.from_tf_keras):
        with strategy.scope():
            variable = tf.Variable([1.0, 2.0])
            optimizer = converts(tf_keras.optimizers.SGD(0.125))
            optimizer.build([variable])

        @tf.function
        def step(are_summed, optimizer=optimizer, variable=variable):
            def on_replica():
                optimizer.apply_gradients(
                    [(tf.ones(2), variable)],
                    skip_gradients_aggregation=are_summed,
                )

            strategy.run(on_replica)

        for are_summed in (True, False, True):
            step(are_summed)
            results.append(variable.values[0].numpy())
    np.testing.assert_array_equal(results[:3], results[3:])
    # Two replicas sum ones.
    assert [x[0] for x in results[:3]] == [0.875, 0.625, 0.5]
