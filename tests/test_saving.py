"""Saved and restored: bit for bit, and to and from Keras."""

from __future__ import annotations

import pathlib
import pickle
import subprocess
import sys
import textwrap

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from counterparts import COUNTERPARTS
from registry import OPTIMIZERS

pairs = pytest.mark.parametrize(
    "pair", COUNTERPARTS.values(), ids=COUNTERPARTS.keys()
)
ALL_MODES = {
    "amsgrad": True,
    "weight_decay": 0.1,
    "maximize": True,
    "decoupled_weight_decay": False,
    "epsilon_hat": True,
    "use_ema": True,
    "clipnorm": 3.0,
}


# With state that all variables share, and stopped where it matters: 8 steps,
# within an epoch of ASGD's and after AveragedSGD began to average.
RESUMABLE = {
    "NAdam": lambda: tf_opt.NAdam(0.01, weight_decay=0.1, use_ema=True),
    "ASGD": lambda: tf_opt.ASGD(0.01, batch_num=6, clipnorm=3.0),
    "AveragedSGD": lambda: tf_opt.AveragedSGD(0.01, t0=4, maximize=True),
}


def make_model() -> keras.Model:
    keras.utils.set_random_seed(5)
    return keras.Sequential(
        [
            keras.layers.Input((4,)),
            keras.layers.Dense(8, activation="relu"),
            keras.layers.Dense(2),
        ]
    )


def make_data() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(2)
    x = random.standard_normal((32, 4)).astype("float32")
    return x, x[:, :2] ** 2


def train(model: keras.Model, epochs: int = 2) -> None:
    model.fit(
        *make_data(), batch_size=8, epochs=epochs, shuffle=False, verbose=0
    )


def state(model: keras.Model) -> list[np.ndarray]:
    return [v.numpy() for v in (*model.variables, *model.optimizer.variables)]


def assert_same(ours: list[np.ndarray], theirs: list[np.ndarray]) -> None:
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b)


def assert_close(ours: list[np.ndarray], theirs: list[np.ndarray]) -> None:
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=2e-6)


def compiled(optimizer: keras.optimizers.Optimizer) -> keras.Model:
    model = make_model()
    model.compile(optimizer, "mse")
    return model


@pytest.mark.core
@pytest.mark.parametrize(
    "make",
    [
        lambda: tf_opt.Adam(0.01),
        lambda: tf_opt.Adam(0.01, **ALL_MODES),
        lambda: tf_opt.AdamW(keras.optimizers.schedules.CosineDecay(0.01, 100)),
        *RESUMABLE.values(),
    ],
    ids=["Adam", "all modes", "AdamW", *RESUMABLE],
)
def test_a_keras_file_continues_bit_for_bit(make, tmp_path):
    model = compiled(make())
    train(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded.optimizer) is type(model.optimizer)
    assert loaded.optimizer.get_config() == model.optimizer.get_config()
    assert_same(state(loaded), state(model))
    train(model)
    train(loaded)
    assert_same(state(loaded), state(model))


@pytest.mark.core
@pytest.mark.parametrize(
    "make",
    [lambda: tf_opt.Adam(0.01, **ALL_MODES), *RESUMABLE.values()],
    ids=["Adam", *RESUMABLE],
)
def test_a_tensorflow_checkpoint_continues_bit_for_bit(make, tmp_path):
    model = compiled(make())
    train(model)
    path = tf.train.Checkpoint(model=model, optimizer=model.optimizer).save(
        str(tmp_path / "ckpt")
    )
    restored = compiled(make())
    # Also into slots that were stepped before, and so are in their groups.
    train(restored, epochs=1)
    status = tf.train.Checkpoint(
        model=restored, optimizer=restored.optimizer
    ).restore(path)
    status.assert_existing_objects_matched()
    assert_same(state(restored), state(model))
    train(model)
    train(restored)
    assert_same(state(restored), state(model))


@pairs
def test_the_variables_are_those_of_keras(pair):
    model = make_model()
    ours, theirs = pair.ours(), pair.keras()
    ours.build(model.trainable_variables)
    theirs.build(model.trainable_variables)
    described = [
        [(v.name, tuple(v.shape), v.dtype) for v in optimizer.variables]
        for optimizer in (ours, theirs)
    ]
    if isinstance(ours, tf_opt.NAdam):
        # Keras' last one has no name of its own.
        (_, *ours_last), (_, *theirs_last) = (d.pop() for d in described)
        assert ours_last == theirs_last == [(), "float32"]
    assert described[0] == described[1]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_implementation_never_changes_the_variables(name):
    model = make_model()
    under_test = OPTIMIZERS[name]
    described = []
    for implementation in ["custom_op", "composed", "auto"]:
        optimizer = under_test.make(
            implementation=implementation,
            **under_test.modes[under_test.thorough_mode or "plain"],
        )
        optimizer.build(model.trainable_variables)
        described.append(
            [(v.name, tuple(v.shape), v.dtype) for v in optimizer.variables]
        )
    assert described[0] == described[1] == described[2]


def stored(optimizer: keras.optimizers.Optimizer) -> dict[str, np.ndarray]:
    store: dict[str, np.ndarray] = {}
    optimizer.save_own_variables(store)
    return store


@pytest.mark.core
@pytest.mark.parametrize("from_ours", [True, False])
@pairs
def test_weights_move_between_keras_and_us(pair, from_ours):
    makes = (pair.ours, pair.keras) if from_ours else (pair.keras, pair.ours)
    source, target = (compiled(make()) for make in makes)
    train(source)
    target.set_weights(source.get_weights())
    target.optimizer.build(target.trainable_variables)
    target.optimizer.load_own_variables(stored(source.optimizer))
    assert_same(state(target), state(source))
    train(source)
    train(target)
    assert_close(state(target), state(source))


@pytest.mark.parametrize("from_ours", [True, False])
@pairs
def test_tensorflow_checkpoints_move_between_keras_and_us(
    pair, from_ours, tmp_path
):
    makes = (pair.ours, pair.keras) if from_ours else (pair.keras, pair.ours)
    source, target = (compiled(make()) for make in makes)
    train(source)
    path = tf.train.Checkpoint(model=source, optimizer=source.optimizer).save(
        str(tmp_path / "ckpt")
    )
    target.optimizer.build(target.trainable_variables)
    checkpoint = tf.train.Checkpoint(model=target, optimizer=target.optimizer)
    checkpoint.restore(path).assert_existing_objects_matched()
    assert_same(state(target), state(source))


@pytest.mark.core
@pytest.mark.parametrize("built", [True, False])
@pytest.mark.parametrize(
    "make",
    [
        lambda: keras.optimizers.Adam(0.01, amsgrad=True, beta_2=0.6),
        lambda: keras.optimizers.AdamW(
            keras.optimizers.schedules.CosineDecay(0.01, 50), clipnorm=1.0
        ),
        lambda: keras.optimizers.Adam(lambda: 0.01, use_ema=True),
        lambda: keras.optimizers.Nadam(0.01, weight_decay=0.1),
    ],
    ids=["Adam", "AdamW", "callable", "Nadam"],
)
def test_from_keras_continues_with_the_same_numbers(make, built):
    model = compiled(make())
    model.optimizer.exclude_from_weight_decay(var_names=["bias"])
    twin = compiled(make())
    twin.optimizer.exclude_from_weight_decay(var_names=["bias"])
    if built:
        train(model)
        train(twin)
    continued = tf_opt.from_keras(twin.optimizer)
    name = type(twin.optimizer).__name__
    assert type(continued) is getattr(
        tf_opt, {"Nadam": "NAdam"}.get(name, name)
    )
    other = make_model()
    other.set_weights(twin.get_weights())
    if built:
        # The same variables go on; Keras' compile needs a fresh model's.
        store = stored(continued)
        continued = tf_opt.from_keras(make())
        continued.exclude_from_weight_decay(var_names=["bias"])
        continued.build(other.trainable_variables)
        continued.load_own_variables(store)
    other.compile(continued, "mse")
    train(model)
    train(other)
    assert_close(state(other), state(model))


def test_from_keras_updates_the_same_variables_and_keeps_exclusions():
    kept, decayed = keras.Variable([1.0]), keras.Variable([1.0])
    source = keras.optimizers.AdamW(0.5, weight_decay=0.5)
    source.exclude_from_weight_decay(var_list=[kept])
    source.apply([tf.constant([0.0])] * 2, [kept, decayed])
    continued = tf_opt.from_keras(source)
    assert int(continued.iterations.numpy()) == 1
    continued.apply([tf.constant([0.0])] * 2)
    assert kept.numpy() == [1.0]
    assert decayed.numpy() == pytest.approx(0.75**2)
    excluded = continued.get_config()["exclude_from_weight_decay"]
    assert excluded["paths"] == [kept.path]


@pytest.mark.parametrize(
    "optimizer",
    [
        keras.optimizers.SGD(0.1),
        type("MyAdam", (keras.optimizers.Adam,), {})(0.1),
        "adam",
    ],
    ids=["SGD", "subclass", "string"],
)
def test_from_keras_refuses_what_it_does_not_know(optimizer):
    with pytest.raises(TypeError, match="must be one of keras.optimizers.Adam"):
        tf_opt.from_keras(optimizer)


def thorough(name: str) -> keras.optimizers.Optimizer:
    """An optimizer in its most demanding mode."""
    under_test = OPTIMIZERS[name]
    mode = under_test.modes[under_test.thorough_mode or "plain"]
    return under_test.make(0.125, **mode)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_pickle_and_config_round_trip(name):
    optimizer = thorough(name)
    config = optimizer.get_config()
    arguments = OPTIMIZERS[name].modes[
        OPTIMIZERS[name].thorough_mode or "plain"
    ]
    assert arguments.items() <= config.items()
    again = type(optimizer).from_config(config)
    assert again.get_config() == config
    assert pickle.loads(pickle.dumps(optimizer)).get_config() == config
    registered = keras.saving.get_registered_name(type(optimizer))
    assert registered == f"tf_opt>{name}"


class Trainer(tf.Module):
    """A step as somebody would export it, for on-device training say."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.variable = tf.Variable([1.0, 2.0])
        self.optimizer = thorough(name)
        self.optimizer.build([self.variable])

    @tf.function(input_signature=[tf.TensorSpec([2])])
    def step(self, gradient):
        self.optimizer.apply([gradient], [self.variable])
        return tf.identity(self.variable)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_saved_function_goes_on_where_it_was(name, tmp_path):
    trainer, gradient = Trainer(name), tf.constant([0.5, -0.5])
    trainer.step(gradient)
    tf.saved_model.save(trainer, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    for gradient in ([0.1, -0.2], [0.01, 0.3], [2.0, 1.0]):
        np.testing.assert_array_equal(
            loaded.step(tf.constant(gradient)).numpy(),
            trainer.step(tf.constant(gradient)).numpy(),
        )


def bfloat16_model(optimizer: keras.optimizers.Optimizer) -> keras.Model:
    keras.utils.set_random_seed(5)
    model = keras.Sequential(
        [keras.layers.Input((4,)), keras.layers.Dense(2, dtype="bfloat16")]
    )
    model.compile(optimizer, "mse")
    return model


@pytest.mark.parametrize("from_ours", [True, False])
def test_state_of_16_bit_variables_moves_in_keras_files_and_no_others(
    from_ours, tmp_path
):
    pair = COUNTERPARTS["Adam"]
    makes = (pair.ours, pair.keras) if from_ours else (pair.keras, pair.ours)
    source, target = (bfloat16_model(make()) for make in makes)
    train(source)
    path = str(tmp_path / "model.weights.h5")
    source.save_weights(path)
    target.optimizer.build(target.trainable_variables)
    target.load_weights(path)
    for found, expected in zip(state(target), state(source), strict=True):
        np.testing.assert_allclose(
            np.asarray(found, "float32"),
            np.asarray(expected, "float32"),
            # Half a unit of bfloat16's last place.
            rtol=2**-8,
        )
    assert int(target.optimizer.iterations.numpy()) == 8

    # docs/guarantees.md quotes TensorFlow's message.
    path = tf.train.Checkpoint(optimizer=source.optimizer).save(
        str(tmp_path / "ckpt")
    )
    types = ("bfloat16", "float") if from_ours else ("float", "bfloat16")
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match="expected dtype {} does not equal original dtype {}".format(
            *types
        ),
    ):
        tf.train.Checkpoint(optimizer=target.optimizer).restore(path)


def test_a_model_is_never_loaded_with_keras_optimizer_instead(tmp_path):
    model = compiled(tf_opt.Adam(0.01))
    train(model)
    path = tmp_path / "model.keras"
    model.save(path)
    script = textwrap.dedent(
        f"""
        import keras
        try:
            model = keras.models.load_model({str(path)!r})
            print("LOADED", model.optimizer)
        except Exception as error:
            print("REFUSED", error)
        """
    )
    output = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        cwd=pathlib.Path(tmp_path),
    ).stdout
    assert "REFUSED" in output, output
    assert "tf_opt" in output, output
