"""`from_keras` and `to_keras` keep numbers, state and settings."""

import copy
import functools
import inspect
import re
from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt
from tf_opt.python import keras_internals

from counterparts import COUNTERPARTS, KERAS, variables_of
from small_model import assert_close, look_up, multi

# Relative. Keras computes with these in float32, where 1 - 0.999 has five
# digits; these both represent exactly.
TOLERANCE = 1e-5
EXACT = {"beta_1": 0.75, "beta_2": 0.875}
AVERAGE = {"use_ema": True, "ema_momentum": 0.7}
DECAY = keras.optimizers.schedules.ExponentialDecay(0.125, 2, 0.5)


# And how many steps come before.
SETTINGS = [
    ({"learning_rate": lambda: 0.125, **AVERAGE}, 4),
    ({}, 4),
    ({"learning_rate": DECAY, "clipnorm": 1.0}, 4),
    ({"weight_decay": 0.25, "loss_scale_factor": 4.0}, 4),
    # In the middle of an accumulation, and of a moving average.
    ({"clipvalue": 0.5, "gradient_accumulation_steps": 2}, 5),
    ({"global_clipnorm": 0.3, **AVERAGE, "ema_overwrite_frequency": 3}, 4),
]


LOSS_SCALE = {
    "keras": keras.optimizers.LossScaleOptimizer,
    "ours": tf_opt.LossScaleOptimizer,
}


BOTH_WAYS = pytest.mark.parametrize(
    ("convert", "source", "target"),
    [(tf_opt.from_keras, "keras", "ours"), (tf_opt.to_keras, "ours", "keras")],
    ids=["from", "to"],
)


def steps(optimizer, variables, gradients) -> list[np.ndarray]:
    for gradient in gradients:
        # An infinite one halves the scale and is left out.
        optimizer.apply([tf.constant(gradient, v.dtype) for v in variables])
    return [v.numpy() for v in variables]


@pytest.mark.core
@BOTH_WAYS
@pytest.mark.parametrize(
    ("name", "settings", "steps_before"),
    [
        (name, *SETTINGS[i % len(SETTINGS)])
        for i, name in enumerate(COUNTERPARTS)
    ]
    # Before they are built.
    + [("AdamW", settings, 0) for settings, _ in SETTINGS],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)
def test_numbers_state_and_settings_go_on(
    convert, source, target, name, settings, steps_before
):
    gradients = np.random.default_rng(3).normal(size=(9, 3))
    outcomes = []
    for continues_with in lambda optimizer: optimizer, convert:
        variables = [
            keras.Variable([1.0, -2.0, 0.0], dtype="float64", name=variable)
            for variable in ("decayed", "kept")
        ]
        make = getattr(COUNTERPARTS[name], source)
        taken = inspect.signature(make).parameters
        exact = {key: beta for key, beta in EXACT.items() if key in taken}
        optimizer = make(**{"learning_rate": 0.125, **exact, **settings})
        optimizer.exclude_from_weight_decay(var_list=variables[1:])
        if steps_before:
            optimizer.build(variables)
            steps(optimizer, variables, gradients[:steps_before])
        optimizer = continues_with(optimizer)
        optimizer.build(variables)
        steps(optimizer, variables, gradients[steps_before:])
        kept = [*variables, *variables_of(optimizer)]
        outcomes.append([v.numpy() for v in kept])
    assert type(optimizer) is getattr(COUNTERPARTS[name], target).func
    if target == "ours":
        excluded = optimizer.get_config()["exclude_from_weight_decay"]
        assert excluded["paths"] == [variables[1].path]
    assert_close(*outcomes, rtol=TOLERANCE, atol=1e-7)


class OfSteps(keras.optimizers.schedules.LearningRateSchedule):
    """A schedule without `get_config`, as in TensorFlow's tutorials."""

    def __call__(self, step) -> tf.Tensor:
        return 0.25 / (tf.cast(step, tf.float32) + 1)


class Rate:
    def __call__(self) -> float:
        return 0.125


RATES = {"schedule": OfSteps(), "object": Rate()}
RATES["partial"] = functools.partial(float, 0.125)


@pytest.mark.core
@BOTH_WAYS
@pytest.mark.parametrize("rate", RATES.values(), ids=RATES)
@pytest.mark.parametrize(
    ("wrap", "built"),
    [
        ("none", "inner"),
        *(("scaled", x) for x in ("both", "inner", "none")),
        ("several", "both"),
    ],
)
def test_wrappers_and_rates_that_cannot_be_serialized_go_on(
    convert, source, target, rate, wrap, built
):
    outcomes = []
    for continues_with in lambda optimizer: optimizer, convert:
        variable = keras.Variable([1.0, -2.0])
        optimizer = getattr(COUNTERPARTS["NAdam"], source)(
            learning_rate=rate, name="own", **EXACT
        )
        if built == "inner":
            optimizer.build([variable])
            steps(optimizer, [variable], [[0.5, 1.0]])
        gradients = [[4.0, 8.0], [3.0, -8.0], [2.0, 2.0]]
        if wrap == "scaled":
            optimizer = LOSS_SCALE[source](
                optimizer, initial_scale=8.0, dynamic_growth_steps=2
            )
            gradients += [[np.inf, 1.0], [1.0, np.nan]]
        if wrap == "several":
            optimizer = multi(optimizer)
        if built == "both":
            optimizer.build([variable])
            steps(optimizer, [variable], gradients[::-1])
        optimizer = continues_with(optimizer)
        if not optimizer.built:
            optimizer.build([variable])
        outcome = steps(optimizer, [variable], gradients * 2)
        if wrap == "scaled":
            outcome += [optimizer.dynamic_scale, optimizer.step_counter]
        outcomes.append(outcome)
    (end,) = keras_internals.unwrapped(optimizer)
    assert type(end) is getattr(COUNTERPARTS["NAdam"], target).func
    assert end.name == "own"
    assert keras_internals.learning_rate_of(end) is rate
    if wrap == "scaled":
        assert type(optimizer) is LOSS_SCALE[target]
    assert_close(*outcomes, rtol=TOLERANCE)


@pytest.mark.core
@pytest.mark.parametrize(
    ("source", "make"),
    [
        ("sgd", tf_opt.from_keras),
        (keras.optimizers.SGD(0.5, momentum=0.5), tf_opt.from_keras),
        ("sgd", lambda _: tf_opt.SGD(0.01, use_ema=True)),
    ],
)
def test_a_step_that_is_being_traced_may_make_an_optimizer(source, make):
    variable, made = keras.Variable([1.0, 2.0]), []

    @tf.function
    def step(gradient: tf.Tensor) -> None:
        if not made:
            made.append(make(source))
        made[0].apply([gradient], [variable])

    expected = keras.Variable([1.0, 2.0])
    theirs = keras.optimizers.get(source)
    for gradient in tf.constant([[1.0, -2.0], [0.5, 3.0]]):
        step(gradient)
        theirs.apply([gradient], [expected])
    np.testing.assert_allclose(variable, expected, rtol=TOLERANCE)


@BOTH_WAYS
@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "scaled"])
def test_outside_of_the_strategys_scope(
    convert, source, target, strategy, scaled
):
    outcomes = []
    for continues_with in lambda optimizer: optimizer, convert:
        with strategy.scope():
            variable = keras.Variable([1.0, -2.0])
            optimizer = getattr(COUNTERPARTS["Adam"], source)(
                learning_rate=0.125, amsgrad=True, **EXACT
            )
            if scaled:
                optimizer = LOSS_SCALE[source](optimizer)
            optimizer.build([variable])
        for i, gradient in enumerate([[3.0, 1.0], [1.0, -2.0], [2.0, 0.5]]):
            if i == 1:
                optimizer = continues_with(optimizer)

            def step(gradient, optimizer=optimizer, variable=variable):
                # A copy of its own, as that of another replica, for the sum.
                optimizer.apply([tf.identity(gradient)], [variable])

            tf.function(strategy.run)(step, (tf.constant(gradient),))
        copies = strategy.experimental_local_results(variable.value)
        np.testing.assert_array_equal(copies[0], copies[1])
        outcomes.append(copies[0].numpy())
    np.testing.assert_allclose(outcomes[1], outcomes[0], rtol=TOLERANCE)


def test_inside_of_a_strategys_scope(strategy):
    new = keras.optimizers.Adam()
    built = keras.optimizers.Adam()
    built.build([keras.Variable([1.0])])
    with strategy.scope():
        continued = tf_opt.from_keras(new)
        variable = keras.Variable([1.0])
        continued.build([variable])
        with pytest.raises(ValueError, match="call it outside of that scope"):
            tf_opt.from_keras(built)
    for v in continued.variables:
        assert len(strategy.experimental_local_results(v.value)) == 2


@pytest.mark.core
@pytest.mark.parametrize(
    "given",
    [
        "nadam",
        {"class_name": "Nadam", "config": {}},
        keras.optimizers.serialize(keras.optimizers.Nadam()),
    ],
    ids=["name", "short", "saved"],
)
def test_what_keras_takes_for_an_optimizer_is_taken(given):
    before = copy.deepcopy(given)
    options = {"skip_nonfinite": True, "master_weights": True}
    config = tf_opt.from_keras(given, **options).get_config()
    assert given == before
    expected = tf_opt.from_keras(keras.optimizers.Nadam()).get_config()
    assert config == {**expected, **options, "name": config["name"]}
    with pytest.raises(TypeError, match="lasy_mode"):
        tf_opt.from_keras(given, lasy_mode=True)


def trained_table(optimizer, convert: Callable) -> list:
    """A table after six sparse steps, the last two with another optimizer."""
    table = keras.Variable(np.ones((4, 2)), name="embeddings")
    optimizer.build([table])
    look_up(optimizer, table, 0, 1, 3, 1)
    optimizer = convert(optimizer)
    look_up(optimizer, table, 2, 1)
    if getattr(optimizer, "lazy_mode", None) == "catch_up":
        optimizer.catch_up()
    return [x.numpy() for x in (table, *optimizer.variables[2:4])]


# Nadam has a variable that isn't a table's.
@pytest.mark.parametrize("name", ["Adam", "Nadam"])
def test_a_table_of_keras_goes_on_lazily_and_catches_up(name):
    make = getattr(keras.optimizers, name)
    lazily = functools.partial(tf_opt.from_keras, lazy_mode="catch_up")
    found, expected = (
        trained_table(make(0.125, **EXACT), convert)
        for convert in (lazily, lambda optimizer: optimizer)
    )
    # Keras rounds its betas' powers to float32.
    assert_close(found[:1], expected[:1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("lazy_mode", ["catch_up", {"embeddings": "catch_up"}])
@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "scaled"])
def test_a_table_that_catches_up_goes_on_in_keras(lazy_mode, scaled):
    outcomes = []
    for lazy in (False, lazy_mode):
        arguments = {"epsilon_hat": True, "lazy_mode": lazy, **EXACT}
        optimizer = tf_opt.Adam(0.125, **arguments)
        if scaled:
            optimizer = tf_opt.LossScaleOptimizer(optimizer, initial_scale=1.0)
        outcomes.append(trained_table(optimizer, tf_opt.to_keras))
    assert_close(*outcomes, rtol=TOLERANCE, atol=1e-6)


@pytest.mark.parametrize(
    "lazy_mode",
    [True, ["a"], {"a": True}, {"a": True, "b": "catch_up"}],
    ids=str,
)
def test_lazy_tables_are_refused_with_advice_that_helps(lazy_mode):
    variables = [keras.Variable(np.ones((4, 2)), name=name) for name in "ab"]
    optimizer = tf_opt.Lion(lazy_mode=lazy_mode)
    optimizer.build(variables)
    with pytest.raises(ValueError, match="`lazy_mode` must") as error:
        tf_opt.to_keras(optimizer)
    (advice,) = re.findall("assign `(.*?)` first", str(error.value))
    exec(advice, {"optimizer": optimizer})
    assert type(tf_opt.to_keras(optimizer)) is keras.optimizers.Lion


def test_several_optimizers_by_a_function_are_known_once_built():
    first, ours = keras.optimizers.Nadam(0.1), tf_opt.Adam(0.1)
    theirs = multi(ours)
    theirs = type(theirs)(lambda x: first if x.name == "first" else ours)
    with pytest.raises(TypeError, match="must have been built"):
        tf_opt.from_keras(theirs)
    theirs.build([keras.Variable([1.0], name=x) for x in ("first", "other")])
    continued = tf_opt.from_keras(theirs)
    assert ours in continued.optimizers
    assert {*map(type, continued.optimizers)} == {tf_opt.NAdam, tf_opt.Adam}
    assert len(continued.variables) == len(theirs.variables)


def subclass(cls: type) -> type:
    return type("Mine", (cls,), {})


FOREIGN = [
    None,
    subclass(keras.optimizers.Adam)(),
    LOSS_SCALE["keras"](subclass(keras.optimizers.Adam)()),
    subclass(LOSS_SCALE["keras"])(keras.optimizers.Adam()),
]
MISTAKEN = [
    "nadamm",
    {"config": {}},
    {"class_name": 5, "config": {}},
    {"class_name": "Adam", "config": {"beta_3": 0.5}},
]
OURS_ALONE = ["adam", tf_opt.ASGD(), tf_opt.AveragedSGD()]
OURS_ALONE.append(subclass(tf_opt.Lion)())
L2 = {"weight_decay": 0.1, "decoupled_weight_decay": False}
BY_UPDATES = {"gradient_accumulation_steps": 2, "schedule_by": "updates"}
FACTORS = {"learning_rate_multipliers": {".*": 2.0}}
SKIPS = tf_opt.Lion(skip_nonfinite=True)
LACKING = {
    "epsilon_hat": tf_opt.Adam(epsilon_hat=False),
    "momentum_decay": tf_opt.NAdam(momentum_decay=0.004),
    "torch_momentum": tf_opt.SGD(momentum=0.9, torch_momentum=True),
    "lazy_mode": tf_opt.Lion(lazy_mode=True),
    "maximize": tf_opt.Lion(maximize=True),
    "decoupled_weight_decay": tf_opt.Lion(**L2),
    "skip_nonfinite": LOSS_SCALE["ours"](SKIPS),
    "learning_rate_multipliers": tf_opt.Lion(**FACTORS),
    "schedule_by": tf_opt.Lion(DECAY, **BY_UPDATES),
}


@pytest.mark.parametrize(
    ("convert", "error", "message", "refused"),
    [
        ("from_keras", TypeError, "must be one of keras.optimizers", FOREIGN),
        ("from_keras", ValueError, "`optimizer` must .* Received:", MISTAKEN),
        ("to_keras", TypeError, "must be one of tf_opt", OURS_ALONE),
        *(
            ("to_keras", ValueError, f"`{name}` must be", [optimizer])
            for name, optimizer in LACKING.items()
        ),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_what_the_other_library_lacks_is_refused(
    convert, error, message, refused
):
    for optimizer in refused:
        with pytest.raises(error, match=message):
            getattr(tf_opt, convert)(optimizer)


@pytest.mark.skipif("Muon" not in KERAS, reason="It has no `rms_rate`.")
def test_muons_that_keras_does_not_compute_are_refused():
    unbuilt, built = tf_opt.Muon(), tf_opt.Muon()
    kernel = keras.Variable(np.ones((3, 3, 2, 4)), name="kernel")
    built.build([kernel, keras.Variable(np.ones((2, 2)))])
    decay = {"weight_decay": None, "adam_weight_decay": 0.5, "matrix_axes": {}}
    for optimizer, message in (
        (unbuilt, "`matrix_axes` must be {}.*assign .* = {}"),
        (built, "`matrix_axes` must be {}.*can't be changed"),
        (
            tf_opt.Muon(decoupled_weight_decay=False, **decay),
            "`decoupled_weight_decay` must be True",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            tf_opt.to_keras(optimizer)
    unbuilt.matrix_axes = {}
    assert type(tf_opt.to_keras(unbuilt)) is KERAS["Muon"]


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("Lamb", {}),
        ("Lamb", {"decoupled_weight_decay": False}),
        ("ScheduleFreeAdamW", {"weight_decay": 0.0, "weight_lr_power": 0.0}),
        ("SGD", {"torch_momentum": True}),
        # All of its matrices have two axes.
        ("Muon", {"adam_weight_decay": 0.125}),
    ],
)
def test_what_has_no_effect_is_not_refused(name, own):
    if name not in KERAS:
        pytest.skip("This Keras has no such optimizer.")
    outcomes = []
    for convert in (lambda optimizer: optimizer), tf_opt.to_keras:
        variables = [keras.Variable([[1.0, -2.0]]), keras.Variable([3.0])]
        optimizer = getattr(tf_opt, name)(0.125, **own)
        optimizer.build(variables)
        optimizer = convert(optimizer)
        for _ in range(3):
            optimizer.apply([tf.constant([[0.5, 2.0]]), tf.ones(1)], variables)
        outcomes.append(variables)
    assert type(optimizer) is KERAS[name]
    assert_close(*outcomes, rtol=1e-4)


def test_optimizers_of_the_target_are_kept():
    for inner in keras.optimizers.Adafactor(), keras.optimizers.Adam():
        wrapper = keras.optimizers.LossScaleOptimizer(inner)
        assert tf_opt.to_keras(wrapper).inner_optimizer is inner
    inner = tf_opt.ASGD()
    wrapper = keras.optimizers.LossScaleOptimizer(inner)
    assert tf_opt.from_keras(wrapper).inner_optimizer is inner
