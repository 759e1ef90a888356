"""Constructor arguments: what is taken, and errors that name what isn't."""

import functools
import inspect
import json
import math
import re
from collections.abc import Iterator

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from counterparts import COUNTERPARTS
from registry import RULES
from small_model import assert_close

MAKERS = (float, tf.Variable, keras.Variable)
NO_NUMBERS = ["0.9", True, [0.9], 1j, np.zeros(1), math.nan]
NO_BOOLEANS = ["no", 2, 0.5, tf.constant(True)]
NO_RATES = ["0.1", None, [1], -0.1, math.nan, math.inf]
NO_SCALARS = ["1", [1.0], True, 1j, tf.constant([1.0]), tf.constant("1")]
NO_BOUNDS = [*NO_SCALARS, math.nan, lambda: 1.0, tf.Variable(math.nan)]
NO_COUNTS = [*NO_SCALARS, math.nan, -2, 2.5, 2**63, tf.constant(2.5)]
NO_FACTORS = [*NO_SCALARS, 0, -1.0, math.nan, math.inf, tf.Variable([1.0])]
averaging = functools.partial(tf_opt.Adam, use_ema=True)


def refused(name: str, value) -> str:
    """What the error must say: which argument, and what it was."""
    is_number = isinstance(value, tf.Tensor) and value.dtype.is_floating
    if is_number and value.shape == () and name != "learning_rate":
        value = value.numpy().tolist()
    return f"`{name}` must be .*{re.escape(f'{name}={value!r}')}"


def _of_the_rules() -> Iterator[tuple[type, str, list]]:
    """Every hyperparameter, what is no number and what is out of its range."""
    for under_test in RULES.values():
        for number in under_test.spec.hyperparameters:
            values = [x for x in (-0.5, 1.0, 1.5) if not number.range.has(x)]
            values += [math.inf] * (not number.may_be_infinite)
            yield under_test.make, number.name, [*NO_NUMBERS, None, *values]


@pytest.mark.parametrize(
    ("make", "name", "values"),
    [
        *_of_the_rules(),
        *(
            (tf_opt.AdamW, name, [make(value) for make in MAKERS])
            for name, value in [("beta_2", 1.5), ("weight_decay", math.nan)]
        ),
        (tf_opt.AdamW, "clipnorm", NO_BOUNDS),
        (tf_opt.Adam, "global_clipnorm", NO_BOUNDS),
        (tf_opt.Adam, "clipvalue", NO_BOUNDS),
        (tf_opt.Adam, "gradient_accumulation_steps", [*NO_COUNTS, 1]),
        (tf_opt.Adam, "loss_scale_factor", [*NO_FACTORS, tf.constant(0.0)]),
        (averaging, "ema_overwrite_frequency", NO_COUNTS),
        (
            *(averaging, "ema_momentum"),
            [*NO_SCALARS, None, math.nan, -0.1, 1.5, tf.constant(2.0)],
        ),
        (tf_opt.ASGD, "batch_num", [*NO_NUMBERS, -0.5, None, 0, 2.5]),
        (tf_opt.Adam, "amsgrad", NO_BOOLEANS),
        (tf_opt.AdamW, "epsilon_hat", NO_BOOLEANS),
        (tf_opt.NAdam, "maximize", NO_BOOLEANS),
        (tf_opt.ASGD, "decoupled_weight_decay", NO_BOOLEANS),
        (tf_opt.AveragedSGD, "use_ema", NO_BOOLEANS),
        (tf_opt.Adagrad, "row_wise", ["users", 1, {"users": True}, None]),
        *(
            (make, name, values)
            for make in (tf_opt.Adam, tf_opt.ASGD)
            for name, values in [
                ("learning_rate", NO_RATES),
                ("weight_decay", [*NO_NUMBERS, -0.5, math.inf]),
                ("implementation", ["fast", None]),
                ("schedule_by", ["iterations", None]),
                ("master_weights", NO_BOOLEANS),
                ("stochastic_rounding", NO_BOOLEANS),
                ("seed", [1.0, True, 2**63]),
                ("state_dtype", ["float16", "float64", "half a float", 16]),
                ("state_device", ["CPU:7", "/job:x/CPU:0", "", 0, "GPU:5"]),
            ]
        ),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_an_error_names_a_wrong_argument_with_its_value(make, name, values):
    optimizer = make()
    for value in values:
        with pytest.raises(ValueError, match=refused(name, value)):
            make(**{name: value})
        before = getattr(optimizer, name)
        with pytest.raises(ValueError, match=refused(name, value)):
            setattr(optimizer, name, value)
        assert getattr(optimizer, name) is before


def test_a_tensor_is_its_number_and_false_is_none():
    optimizer = tf_opt.SGD(
        momentum=tf.constant(0.5),
        nesterov=np.True_,
        maximize=np.True_,
        master_weights=np.True_,
        weight_decay=False,
        clipnorm=False,
        clipvalue=tf.constant(2),
        gradient_accumulation_steps=False,
    )
    config = json.loads(json.dumps(optimizer.get_config()))
    assert config["nesterov"] is config["maximize"] is True
    assert tf_opt.SGD.from_config(config).master_weights is True
    assert (config["momentum"], config["clipvalue"]) == (0.5, 2)
    assert config["weight_decay"] is config["clipnorm"] is None
    assert config["gradient_accumulation_steps"] is None
    optimizer.momentum = tf.constant(0.25, tf.bfloat16)
    optimizer.apply([tf.ones(1)], [keras.Variable([1.0])])
    assert optimizer.momentum == 0.25
    for right in (1, np.float32(0.25), tf.constant(0.125)):
        optimizer.learning_rate = right
        assert float(optimizer.learning_rate) == right


def test_arguments_that_are_wrong_in_their_own_way():
    with pytest.raises(ValueError, match="`weight_decay`.*None"):
        tf_opt.AdamW(weight_decay=None)
    for wrong in (tf.Variable([0.1, 0.2]), keras.Variable(True, dtype="bool")):
        with pytest.raises(ValueError, match="`weight_decay` must be a number"):
            tf_opt.Adam(weight_decay=wrong)
    # 0.999 is 1 in bfloat16.
    with pytest.raises(ValueError, match=r"`beta_2` must be .* in \[0, 1\)"):
        tf_opt.Adam(beta_2=keras.Variable(0.999, dtype="bfloat16"))
    # Keras assigns them.
    for wrong in (1, True, tf.constant(0.1)):
        with pytest.raises(ValueError, match=refused("learning_rate", wrong)):
            tf_opt.Adam(wrong)
    for optimizer in (tf_opt.Adam(), tf_opt.LossScaleOptimizer(tf_opt.Adam())):
        with pytest.raises(AttributeError, match="Assign to `learning_rate`"):
            optimizer.lr = 0.1
    optimizer = tf_opt.Adam(master_weights=True)
    only_one = "Only one of `stochastic_rounding`, `master_weights` can be set"
    with pytest.raises(ValueError, match=only_one):
        optimizer.stochastic_rounding = True
    with pytest.raises(ValueError, match=only_one):
        tf_opt.Adam(master_weights=True, stochastic_rounding=True)
    optimizer = tf_opt.Adam(clipnorm=1.0)
    with pytest.raises(ValueError, match="Received: clipnorm=1.0, clipvalue=2"):
        optimizer.clipvalue = 2.0
    optimizer.clipnorm = None
    optimizer.clipvalue = 2.0
    optimizer = tf_opt.Adam(ema_momentum=5.0)
    with pytest.raises(ValueError, match=refused("ema_momentum", 5.0)):
        optimizer.use_ema = True
    for model in (None, "model", keras.layers.Dense(1)):
        with pytest.raises(ValueError, match=re.escape(f"model={model!r}")):
            tf_opt.layerwise_multipliers(model, 0.5)
    with pytest.raises(TypeError, match="unexpected keyword .*no_such_thing"):
        tf_opt.Adam(no_such_thing=True)
    with pytest.raises(TypeError, match="takes `learning_rate`.*: lr=0.1"):
        tf_opt.Adam(lr=0.1)
    with pytest.warns(UserWarning, match="`SGD` ignores `decay`, as Keras 3"):
        tf_opt.SGD(decay=1e-6)


@pytest.mark.parametrize("number", [0, 0.5, np.float32(0.5), np.int8(0)])
def test_numbers_of_every_kind_are_taken(number):
    names = {
        tf_opt.AveragedSGD: ("lambd", "t0", "alpha"),
        tf_opt.AdamW: ("beta_1", "beta_2", "epsilon", "weight_decay"),
    }
    for cls, numbers in names.items():
        ends = []
        for each in (number, float(number)):
            variable = keras.Variable(1.0)
            optimizer = cls(0.1, **dict.fromkeys(numbers, each))
            for _ in range(2):
                optimizer.apply([tf.constant(1.0)], [variable])
            ends.append(variable.numpy())
        assert ends[0] == ends[1] < 1


@pytest.mark.parametrize("zero", [0.0, np.float32(0), np.float16(0)])
def test_numbers_of_every_kind_are_compared_exactly(zero):
    with pytest.raises(ValueError, match="`clip_threshold` must be .* > 0"):
        tf_opt.Adafactor(clip_threshold=zero)
    with pytest.raises(ValueError, match="`initial_scale` must be .* > 0"):
        tf_opt.LossScaleOptimizer(tf_opt.Adam(), initial_scale=zero)


def test_numbers_may_be_huge():
    variable = keras.Variable(1.0)
    optimizer = tf_opt.AveragedSGD(0.5, t0=math.inf)  # Never averages.
    for each in (tf_opt.NAdam(momentum_decay=1e308), *[optimizer] * 3):
        np.errstate(all="raise")(each.apply)([tf.constant(1.0)], [variable])
    assert optimizer.variables[2].numpy() == variable.numpy()


# ---- What Keras' base class keeps. ----

HALVES = [0.5, np.float32(0.5), np.array(0.5), tf.constant(0.5)]
BOUNDS = [*HALVES, 2, 0, -1.0, None, -math.inf, tf.Variable(0.5)]
TAKEN = {
    "clipnorm": BOUNDS,
    "global_clipnorm": BOUNDS,
    "clipvalue": [*BOUNDS, math.inf],
    "use_ema": [True, np.bool_(True), np.bool_(False), 0, 1, None],
    "ema_momentum": [*HALVES, 0, 1, tf.Variable(0.5), keras.Variable(0.5)],
    "ema_overwrite_frequency": [None, 0, 1, 2],
    "gradient_accumulation_steps": [None, 0, 2, np.int64(2)],
    "loss_scale_factor": [*HALVES, 2, tf.Variable(0.5), keras.Variable(0.5)],
}


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in TAKEN.items() for value in values],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_a_value_that_keras_takes_means_the_same(name, value):
    arguments = {"use_ema": name.startswith("ema_")}
    if name == "ema_momentum":
        arguments["ema_overwrite_frequency"] = 2
    arguments[name] = value
    if name == "global_clipnorm" and isinstance(value, np.ndarray):
        # Keras mixes up its type with the gradients'.
        arguments[name] = value.astype("float32")
    results = []
    for make, others in (
        (keras.optimizers.Adam, {}),
        (tf_opt.Adam, {"epsilon": 1e-7, "epsilon_hat": True}),
    ):
        optimizer = make(0.5, **arguments, **others)
        variable = keras.Variable([1.0, -2.0])
        for step in range(1, 5):
            gradient = tf.constant([0.3, -4.0 * (-1) ** step]) * step
            optimizer.apply([gradient], [variable])
        optimizer.finalize_variable_values([variable])
        results.append(variable.numpy())
    # Keras computes in float32, and the first one comes near to zero.
    np.testing.assert_allclose(results[1], results[0], rtol=1e-4, atol=2e-5)


# For each message: what makes the optimizer, and a value for a built one.
FORBIDDEN = {
    r"`{0}` .* built, as its state depends on it\. Received: {0}={1}": [
        (tf_opt.AdamW, "master_weights", True, False),
        (tf_opt.NAdam, "state_dtype", "bfloat16", None),
        (tf_opt.ASGD, "batch_num", 3, False),
        (tf_opt.Adam, "state_device", "CPU:0", None),
        (tf_opt.Adam, "shard_state", False, True),
        (tf_opt.Adagrad, "row_wise", True, False),
    ],
    "`{0}` can't begin once": [
        (tf_opt.SGD, "use_ema", False, True),
        (tf_opt.SGD, "gradient_accumulation_steps", None, 2),
        (tf_opt.SGD, "momentum", 0.0, 0.5),
        (tf_opt.Adam, "amsgrad", False, True),
    ],
}


@pytest.mark.parametrize(
    ("message", "make", "name", "value", "other"),
    [(message, *x) for message, cases in FORBIDDEN.items() for x in cases],
    ids=lambda x: x if str(x).isidentifier() else "",
)
def test_what_the_state_does_not_fit_is_refused(
    message, make, name, value, other
):
    optimizer = make()
    setattr(optimizer, name, value)
    optimizer.build([keras.Variable(1.0, dtype="bfloat16")])
    with pytest.raises(ValueError, match=message.format(name, other)):
        setattr(optimizer, name, other)
    setattr(optimizer, name, value)
    assert getattr(optimizer, name) == value


@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize(
    ("name", "option", "off"),
    [
        ("SGD", {"use_ema": True, "ema_momentum": 0.5}, False),
        ("Lion", {"gradient_accumulation_steps": 2}, None),
        ("SGD", {"momentum": 0.5}, 0.0),
        ("RMSprop", {"momentum": 0.5}, 0),
        ("RMSprop", {"centered": True}, False),
        # Keras rounds 0.999 to float32.
        ("Adam", {"amsgrad": True, "beta_2": 0.9375}, False),
    ],
)
def test_what_has_state_may_end_and_begin_again(name, option, off, eager):
    (argument, on) = next(iter(option.items()))
    results = []
    for make in (COUNTERPARTS[name].ours, COUNTERPARTS[name].keras):
        variable = keras.Variable([1.0, -2.0], dtype="float64")
        optimizer = make(learning_rate=0.1, **option)
        optimizer.build([variable])
        for step, value in enumerate((on, on, off, off, off, on, on), 1):
            setattr(optimizer, argument, value)
            apply = optimizer.apply if eager else tf.function(optimizer.apply)
            gradient = tf.constant([0.3, 8.0], tf.float64) / step**2
            apply([gradient], [variable.value])
        results.append([variable, *optimizer.variables])
    assert_close(*results, rtol=2e-6)


def test_options_that_rows_in_waiting_need_stay():
    table = keras.Variable([[1.0], [2.0]], name="embeddings")
    optimizer = tf_opt.SGD(0.1, momentum=0.5, lazy_mode="catch_up")
    optimizer.build([table])
    optimizer.momentum = 0.25
    with pytest.raises(ValueError, match="while rows of tables"):
        optimizer.momentum = 0.0


@pytest.mark.parametrize("name", ["clipnorm", "clipvalue", "global_clipnorm"])
def test_infinity_does_not_clip(name):
    bound = keras.Variable(1.0)
    optimizer = tf_opt.SGD(0.5, **{name: bound})
    bound.assign(math.inf)
    for each in (optimizer, tf_opt.SGD.from_config(optimizer.get_config())):
        variable = keras.Variable([1.0])
        each.apply([tf.constant([8.0])], [variable])
        assert variable.numpy() == [-3.0]


def test_properties_without_a_value_are_no_obstacle():
    optimizer = tf_opt.ASGD(batch_num=2)
    names = {name for name, _ in inspect.getmembers(optimizer)}
    assert "learning_rate" in names
    assert not names & {"gradient_norm", "skipped_steps", "batch_index"}
    assert not hasattr(optimizer, "gradient_norm")
    with pytest.raises(ValueError, match="`gradient_norm` is known once"):
        _ = optimizer.gradient_norm
