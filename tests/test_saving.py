"""Saved and restored: bit for bit, and to and from Keras."""

import copy
import itertools
import pickle

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from counterparts import COUNTERPARTS, variables_of
from low_precision_cases import SETTINGS
from processes import python
from registry import ALL, OPTIMIZERS, slow
from small_model import (
    assert_close,
    assert_same,
    assert_same_config,
    checkpoint_of,
    compiled,
    loaded,
    multi,
    state,
    train,
)

# Of all optimizers in turn.
FEATURES = [
    {"learning_rate": 0.01, "use_ema": True, "clipnorm": 3.0},
    {"learning_rate": keras.optimizers.schedules.CosineDecay(0.01, 100)},
]
ACCUMULATION = {"gradient_accumulation_steps": 2}
CASES = [
    *((name, FEATURES[i % 2], "float32") for i, name in enumerate(ALL)),
    ("Adam", SETTINGS["masters, state"], "bfloat16"),
    ("NAdam", SETTINGS["stochastic, state"], "bfloat16"),
    ("Adagrad", {"row_wise": ["kernel"]}, "float32"),
    slow("Lamb", ACCUMULATION | SETTINGS["state"], "float32"),
    slow("Adafactor", {"learning_rate_multipliers": {"first": 0.5}}, "float32"),
    slow("Muon", ACCUMULATION | {"use_ema": True}, "float32"),
    ("Muon", {"master_weights": True, "skip_nonfinite": True}, "bfloat16"),
]


@pytest.mark.core
@pytest.mark.parametrize(("name", "features", "dtype"), CASES)
def test_a_keras_file_and_a_checkpoint_continue_bit_for_bit(
    name, features, dtype, tmp_path
):
    # Stopped where it matters: after 8 steps, within an epoch of ASGD's and
    # after AveragedSGD began to average.
    under_test = ALL[name]

    def make() -> keras.Model:
        optimizer = under_test.make(**under_test.thorough, **features)
        return compiled(optimizer, dtype, run_eagerly=name != "Adam")

    model, restored = make(), make()
    train(model)
    if name == "ASGD":
        # Batches in an order of their own for the rest of the epoch.
        model.optimizer.batch_order = [2, 0, 1]
    model.save(tmp_path / "model.keras")
    path = checkpoint_of(model).save(tmp_path / "checkpoint")

    whole = keras.models.load_model(tmp_path / "model.keras")
    assert type(whole.optimizer) is type(model.optimizer)
    assert_same_config(whole.optimizer, model.optimizer)
    # Also into slots that were stepped before, and so are in their groups.
    train(restored, epochs=1)
    checkpoint_of(restored).restore(path).assert_existing_objects_matched()

    def assert_all_same() -> None:
        assert_same(state(whole), state(model))
        assert_same(state(restored), state(model))

    assert_all_same()
    for each in (model, whole, restored):
        train(each, epochs=1)
    assert_all_same()


def described(model: keras.Model) -> list[tuple]:
    model.optimizer.build(model.trainable_variables)
    variables = variables_of(model.optimizer)
    return [(v.name, tuple(v.shape), v.dtype) for v in variables]


# Of each class the last mode: those with other slots come after the plain one.
LARGEST = {name.partition(",")[0]: name for name in COUNTERPARTS}
# Keras' keeps more for matrices.
del LARGEST["Adafactor"]


@pytest.mark.core
@pytest.mark.parametrize(
    ("name", "from_ours"),
    zip(LARGEST.values(), itertools.cycle([True, False]), strict=False),
)
def test_weights_and_checkpoints_move_between_keras_and_us(
    name, from_ours, tmp_path
):
    def both_have(model: keras.Model) -> list[np.ndarray]:
        kept = (*model.variables, *variables_of(model.optimizer))
        return [v.numpy() for v in kept]

    pair = COUNTERPARTS[name]
    makes = (pair.ours, pair.keras) if from_ours else (pair.keras, pair.ours)
    source, target, restored = (compiled(makes[i]()) for i in (0, 1, 1))
    *variables, _ = map(described, (source, target, restored))
    train(source)
    if isinstance(pair.ours(), tf_opt.NAdam):
        # Keras' last one has no name of its own.
        assert variables[0].pop()[1:] == variables[1].pop()[1:]
    assert variables[0] == variables[1]

    target.set_weights(source.get_weights())
    store: dict[str, np.ndarray] = {}
    source.optimizer.save_own_variables(store)
    # Arrays come from files; lists will do. What Keras lacks isn't numbered.
    store = {
        key: np.array(value).tolist()
        for key, value in store.items()
        if key.isdigit() or not from_ours
    }
    target.optimizer.load_own_variables(store)
    assert_same(both_have(target), both_have(source))
    path = checkpoint_of(source).save(tmp_path / "checkpoint")
    status = checkpoint_of(restored).restore(path)
    if len(both_have(restored)) == len(state(restored)):
        status.assert_existing_objects_matched()
    assert_same(both_have(restored), both_have(source))
    train(source, epochs=1)
    train(target, epochs=1)
    assert_close(both_have(target), both_have(source), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_configuration_and_the_variables_are_always_the_same(name):
    under_test = OPTIMIZERS[name]
    mode = under_test.thorough
    optimizer = under_test.make(0.125, **mode)
    config = optimizer.get_config()
    assert mode.items() <= config.items()
    assert type(optimizer).from_config(config).get_config() == config
    assert pickle.loads(pickle.dumps(optimizer)).get_config() == config
    assert copy.deepcopy(optimizer).get_config() == config
    called = eval(repr(optimizer), {name: under_test.make})
    assert called.get_config() | {"name": optimizer.name} == config
    registered = keras.saving.get_registered_name(type(optimizer))
    assert registered == f"tf_opt>{name}"

    # The implementation never changes the variables.
    ops, composed, auto = (
        described(compiled(under_test.make(implementation=x, **mode)))
        for x in ("custom_op", "composed", "auto")
    )
    assert ops == composed == auto


@pytest.mark.parametrize(
    "wrap", [lambda x: x, tf_opt.LossScaleOptimizer, multi]
)
@pytest.mark.parametrize(
    "option", [{"use_ema": True}, {"lazy_mode": "catch_up"}], ids=str
)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_no_two_variables_have_the_same_path(name, option, wrap):
    under_test = OPTIMIZERS[name]
    arguments = {**under_test.thorough, "decoupled_weight_decay": True}
    if "lazy_mode" in option:
        if under_test.spec.coasts_if_less:
            arguments["beta_1"] = 0.5
        option = option if under_test.spec.coasts else {}
    variables = [
        keras.Variable(np.ones((4, 2)), dtype="bfloat16", name=variable)
        for variable in ("embeddings", "kernel")
    ]
    arguments |= {"master_weights": True, "gradient_accumulation_steps": 2}
    optimizer = wrap(under_test.make(**{**arguments, **option}))
    optimizer.build(variables)
    paths = [variable.path for variable in optimizer.variables]
    # Counters, and for each variable an accumulator, a master weight and more.
    assert len(paths) > 2 + 2 * len(variables)
    assert len(set(paths)) == len(paths)


@pytest.mark.parametrize("from_ours", [True, False])
def test_state_of_16_bit_variables_moves_in_keras_files_and_no_others(
    from_ours, tmp_path
):
    pair = COUNTERPARTS["Adam"]
    makes = (pair.ours, pair.keras) if from_ours else (pair.keras, pair.ours)
    source, target = (compiled(make(), "bfloat16") for make in makes)
    train(source)
    loaded(source, target, "weights.h5", tmp_path)
    found, expected = (
        [np.asarray(x, "float32") for x in state(model)]
        for model in (target, source)
    )
    # Half a unit of bfloat16's last place.
    assert_close(found, expected, rtol=2**-8)
    assert int(target.optimizer.iterations.numpy()) == 8

    # docs/guarantees.md quotes TensorFlow's message.
    path = checkpoint_of(source).save(str(tmp_path / "ckpt"))
    types = ("bfloat16", "float") if from_ours else ("float", "bfloat16")
    message = "expected dtype {} does not equal original dtype {}"
    error = tf.errors.InvalidArgumentError
    with pytest.raises(error, match=message.format(*types)):
        checkpoint_of(target).restore(path)


def test_a_pickled_optimizer_brings_tf_opt_and_a_model_does_not(tmp_path):
    model = compiled(tf_opt.Adam(0.1, maximize=True))
    for name in ("optimizer", "model"):
        pickled = pickle.dumps(getattr(model, name, model))
        (tmp_path / name).write_bytes(pickled)
    code = f"""
    import pathlib, pickle
    folder = pathlib.Path({str(tmp_path)!r})
    try:
        pickle.loads((folder / "model").read_bytes())
    except TypeError as error:
        print(str(error)[:29])
    print(pickle.loads((folder / "optimizer").read_bytes()))
    model = pickle.loads((folder / "model").read_bytes())
    print(type(model.optimizer).__module__)
    """
    assert python.run(code).splitlines() == [
        "Could not locate class 'Adam'",
        "Adam(learning_rate=0.1, maximize=True)",
        "tf_opt.python.optimizers.adam",
    ]


def test_code_in_a_configuration_is_refused():
    config = tf_opt.Adam().get_config()
    code = keras.saving.serialize_keras_object(lambda: 0.1)
    with pytest.raises(ValueError, match="Python lambda"):
        tf_opt.Adam.from_config({**config, "learning_rate": code})
