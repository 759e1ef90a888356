"""Choices by variable after saving, where variables' paths change."""

import pickle
from collections.abc import Callable

import keras
import pytest
import tensorflow as tf
import tf_opt

from small_model import X, assert_same, assert_same_config, state, train

# Before Keras 3.16, loading drops the name of a Sequential from paths.
KERAS = tuple(map(int, keras.__version__.split(".")[:2]))
LOADED = "whole/" if KERAS >= (3, 16) else ""


def sequential() -> keras.Model:
    sizes = {"first": 3, "last": 2}
    layers = [keras.layers.Dense(n, name=name) for name, n in sizes.items()]
    return keras.Sequential(layers, name="whole")


def nested() -> keras.Model:
    first, last = sequential().layers
    inner = keras.Sequential([first], name="inner")
    return keras.Sequential([inner, last], name="whole")


def with_a_table() -> keras.Model:
    layers = [
        keras.layers.ReLU(),
        keras.layers.Embedding(9, 2, name="first"),
        keras.layers.Flatten(),
        keras.layers.Dense(2, name="last"),
    ]
    return keras.Sequential(layers, name="whole")


@keras.saving.register_keras_serializable("tests")
class Subclass(keras.Model):
    def __init__(self, name: str = "whole", **arguments) -> None:
        super().__init__(name=name, **arguments)
        self.parts = [*sequential().layers]

    def call(self, x):
        for part in self.parts:
            x = part(x)
        return x


def named_embedding() -> keras.Model:
    return Subclass("embedding")


def lazily(_: keras.Model) -> tf_opt.Adam:
    return tf_opt.Adam(0.05, lazy_mode=["whole/first"])


def some_matrices(_: keras.Model) -> tf_opt.Muon:
    return tf_opt.Muon(
        0.05,
        exclude_layers=["^whole/last"],
        matrix_axes={"^whole/first/kernel": 1, "bias": 0},
        learning_rate_multipliers={"whole/first": 0.5},
    )


def no_matrices(_: keras.Model) -> tf_opt.Muon:
    return tf_opt.Muon(0.05)


def by_the_models_name(_: keras.Model) -> tf_opt.AdamW:
    return tf_opt.AdamW(
        0.05,
        weight_decay=0.5,
        learning_rate_multipliers={"whole.*first": 0.25, "whole": 0.5},
        weight_decay_multipliers={"^whole/.*kernel": 2.0},
    )


def with_exclusions(model: keras.Model) -> tf_opt.AdamW:
    optimizer = by_the_models_name(model)
    optimizer.exclude_from_weight_decay(
        var_list=model.trainable_variables[:1],
        # The second is found in no path until the model is loaded, so it warns.
        var_names=["^whole/.*first/bias", "^last/kernel"],
    )
    return optimizer


def trained(make: Callable[[], keras.Model], optimizer) -> keras.Model:
    keras.utils.set_random_seed(3)
    model = make()
    model(X)
    model.compile(optimizer(model), "mse", run_eagerly=True)
    train(model, epochs=1)
    return model


@pytest.mark.core
@pytest.mark.parametrize(
    ("make", "optimizer"),
    [
        (sequential, with_exclusions),
        (nested, with_exclusions),
        (with_a_table, lazily),
        (Subclass, with_exclusions),
        (Subclass, some_matrices),
        (named_embedding, no_matrices),
    ],
)
def test_a_loaded_model_trains_on_bit_for_bit(make, optimizer, tmp_path):
    model = trained(make, optimizer)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    if make in (sequential, Subclass):
        # Otherwise nothing of this is tested, as since Keras 3.16.
        assert model.variables[0].path == "whole/first/kernel"
        assert loaded.variables[0].path == f"{LOADED}first/kernel"
    assert_same_config(loaded.optimizer, model.optimizer)
    # And from what was loaded, saved and loaded again.
    loaded.save(tmp_path / "again.keras")
    again = keras.models.load_model(tmp_path / "again.keras")
    assert_same_config(again.optimizer, model.optimizer)
    pickled = pickle.loads(pickle.dumps(model))
    for _ in range(2):
        for other in (again, pickled):
            assert_same(state(other), state(model))
            train(other, epochs=1)
        train(model, epochs=1)


def test_what_is_set_after_loading_counts(tmp_path):
    model = trained(sequential, by_the_models_name)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    loaded.optimizer.learning_rate_multipliers = {f"^{LOADED}last": 0.0}
    before = loaded.get_weights()
    train(loaded, epochs=1)
    same = zip(loaded.get_weights(), before, strict=True)
    assert [(a == b).all() for a, b in same] == [False, False, True, True]
    config = loaded.optimizer.get_config()["by_position"]["values"]
    assert config["learning_rate_multipliers"] == [1.0, 1.0, 0.0, 0.0]
    assert config["weight_decay_multipliers"] == [2.0, 1.0, 2.0, 1.0]

    # Before it is built, too.
    optimizer = tf_opt.AdamW.from_config(model.optimizer.get_config())
    optimizer.learning_rate_multipliers = None
    optimizer.weight_decay_multipliers = {"^b": 3.0}
    variables = [tf.Variable([1.0], name=name) for name in "abc"]
    optimizer.exclude_from_weight_decay(variables[2:], var_names=["a"])
    optimizer.build(variables)
    by_position = optimizer.get_config()["by_position"]
    assert by_position["paths"] == ["a:0", "b:0", "c:0"]
    assert by_position["values"] == {
        "weight_decay_multipliers": [1.0, 3.0, 1.0],
        "excluded": [True, False, True],
    }


def two_layers(*names: str, **layer: object) -> keras.Model:
    kernel = keras.initializers.RandomNormal(seed=1)
    layers = [
        keras.layers.Dense(3, kernel_initializer=kernel, name=name, **layer)
        for name in names
    ]
    return keras.Sequential([keras.Input((3,)), *layers])


def changes(optimizer, model: keras.Model) -> dict[str, list]:
    before = model.get_weights()
    variables = model.trainable_variables
    for _ in range(2):
        grads = [
            tf.IndexedSlices(tf.constant([[1.0, 2.0]]), [1], v.shape)
            if "embeddings" in v.path
            else tf.ones(v.shape)
            for v in variables
        ]
        optimizer.apply(grads, variables)
    return {
        "/".join(variable.path.split("/")[-2:]): (after - first).tolist()
        for variable, first, after in zip(
            variables, before, model.get_weights(), strict=True
        )
    }


HEAD, BODY = {"head": 0.5}, {"body": 0.25}
EXCLUDED = [{"var_names": [name], "paths": []} for name in ("kernel", "bias")]


@pytest.mark.core
@pytest.mark.parametrize(
    ("option", "before", "after"),
    [
        ("learning_rate_multipliers", HEAD, {"head": 0.0}),
        ("learning_rate_multipliers", HEAD, None),
        ("learning_rate_multipliers", HEAD, BODY),
        ("learning_rate_multipliers", HEAD | {"e": 0.0}, {"e": 0.0} | HEAD),
        ("weight_decay_multipliers", HEAD, BODY),
        ("exclude_from_weight_decay", *EXCLUDED),
        ("exclude_from_weight_decay", EXCLUDED[0], None),
        ("lazy_mode", ["users"], ["items"]),
        ("lazy_mode", {"users": True}, False),
        ("row_wise", ["users"], ["items"]),
        ("row_wise", ["users"], True),
        ("exclude_layers", ["head"], ["body"]),
    ],
)
def test_an_edited_configuration_does_what_it_says(option, before, after):
    def model():
        if option not in ("lazy_mode", "row_wise"):
            return two_layers("body", "head", bias_initializer="ones")
        ids = keras.Input((1,), dtype="int32")
        tables = [
            keras.layers.Embedding(3, 2, "ones", name=name)(ids)
            for name in ("users", "items")
        ]
        return keras.Model(ids, keras.layers.Add()(tables))

    classes = {"row_wise": tf_opt.Adagrad, "exclude_layers": tf_opt.Muon}
    cls = classes.get(option, tf_opt.AdamW)
    built = cls(0.5, weight_decay=0.25, **{option: before})
    first = changes(built, model())
    config = built.get_config() | {option: after}
    expected = changes(cls(0.5, weight_decay=0.25, **{option: after}), model())
    # Otherwise nothing of this is tested.
    assert expected != first
    for edited in (cls.from_config({**config}), cls(**config)):
        assert changes(edited, model()) == expected
        again = cls.from_config(edited.get_config())
        assert again.get_config() == edited.get_config()
    if isinstance(after, dict) and option != "exclude_from_weight_decay":
        config[option] = {"nowhere": 0.5}
        with pytest.raises(ValueError, match="'nowhere', which is found in no"):
            cls.from_config(config).build(model().trainable_variables)


@pytest.mark.core
@pytest.mark.parametrize(
    ("pattern", "saved", "now", "factors", "excluded"),
    [
        # Names win over positions where they are found.
        ("head", "m/body m/head", "m/head m/body", [0.5, 1.0], [True, False]),
        # Layers of one name in models that changed places.
        ("^b/[de]", "a/d b/d", "b/d a/d", [0.5, 1.0], [True, False]),
        # A model that has another name, which no expression finds.
        ("^m/[de]", "m/d m/e", "x/d x/e", [0.5, 0.5], [False, True]),
        # A model's name that comes or goes, in another order.
        ("^d", "d e", "x/e x/d", [1.0, 0.5], [True, False]),
        ("^x/d", "x/d x/e", "e d", [1.0, 0.5], [True, False]),
        # A layer that was frozen joins the others.
        ("^m/e", "m/e", "m/d m/e", [1.0, 0.5], [False, True]),
        # Another layer of the same shape.
        ("body", "m/body", "m/head", None, None),
        # Both are of one layer, and neither is found.
        ("^m/[de]", "m/d m/e", "m/x m/x", None, None),
    ],
)
def test_paths_tell_which_variable_is_which(
    pattern, saved, now, factors, excluded
):
    def built(optimizer: tf_opt.AdamW, layers: str) -> list[tf.Variable]:
        paths = [f"{layer}/kernel" for layer in layers.split()]
        variables = [tf.Variable([1.0], name=path) for path in paths]
        optimizer.build(variables)
        return variables

    optimizer = tf_opt.AdamW(learning_rate_multipliers={pattern: 0.5})
    *_, last = built(optimizer, saved)
    optimizer.exclude_from_weight_decay(var_list=[last])
    other = tf_opt.AdamW(**optimizer.get_config())
    if factors is None:
        with pytest.raises(ValueError, match="found in no trainable"):
            built(other, now)
        return
    built(other, now)
    values = other.get_config()["by_position"]["values"]
    expected = {"learning_rate_multipliers": factors, "excluded": excluded}
    assert values == expected


class Mine(tf_opt.Adam):
    @classmethod
    def from_config(cls, config, custom_objects=None):
        del custom_objects
        return cls(**config)


@pytest.mark.core
@pytest.mark.parametrize("wrap", [lambda x: x, tf_opt.LossScaleOptimizer])
def test_the_constructor_takes_what_get_config_returns(wrap):
    schedule = keras.optimizers.schedules.CosineDecay(0.5, 10)
    optimizer = wrap(Mine(schedule, learning_rate_multipliers={"head": 0.0}))
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    inner.exclude_from_weight_decay(var_names=["body"])
    optimizer.build(two_layers("body", "head").trainable_variables)
    config = optimizer.get_config()
    with keras.saving.custom_object_scope({"Mine": Mine}):
        cls = type(optimizer)
        for other in (cls(**config), cls.from_config({**config})):
            assert other.get_config() == config
            assert type(other) is cls


CHOSEN = {"learning_rate_multipliers": {"b": 0.5}}
SAVED = {
    "paths": ["a:0", "b:0"],
    "chosen": CHOSEN,
    "values": {"learning_rate_multipliers": [0.25, 1.0]},
}


@pytest.mark.core
@pytest.mark.parametrize(
    ("by_position", "counts"),
    [
        # Those of earlier builds, the first by positions only.
        ({"shapes": [[1], [1]], **SAVED["values"]}, False),
        ({"shapes": [[1], [1]], **SAVED}, True),
        (SAVED, True),
        (SAVED | {"format": 1}, True),
        (SAVED | {"format": 2}, False),
        (SAVED | {"paths": ["a:0"]}, False),
    ],
)
def test_only_saved_values_of_a_known_form_count(by_position, counts):
    config = {"name": "x", **CHOSEN, "by_position": by_position}
    for load in (tf_opt.AdamW.from_config, lambda x: tf_opt.AdamW(**x)):
        optimizer = load({**config})
        optimizer.build([tf.Variable([1.0], name=name) for name in "ab"])
        (values,) = optimizer.get_config()["by_position"]["values"].values()
        assert values == ([0.25, 1.0] if counts else [1.0, 0.5])


@pytest.mark.parametrize(
    "argument",
    [
        {"by_position": 1},
        {"exclude_from_weight_decay": ["bias"]},
        {"exclude_from_weight_decay": {"names": ["bias"]}},
        {"exclude_from_weight_decay": {"var_names": "bias"}},
        {"exclude_from_weight_decay": {"var_names": ["("]}},
    ],
)
def test_what_no_configuration_has_is_refused(argument):
    (name,) = argument
    with pytest.raises(ValueError, match=f"`{name}.* must"):
        tf_opt.Adam(**argument)
