"""Exported, served without tf_opt, converted, and trained on where loaded."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from processes import python
from registry import OPTIMIZERS

X = np.random.default_rng(4).standard_normal((12, 5)).astype("float32")
GRADIENTS = ([0.1, -0.2], [0.01, 0.3], [2.0, 1.0])


def fitted(optimizer: keras.optimizers.Optimizer) -> keras.Model:
    model = keras.Sequential(
        [
            keras.layers.Input((5,)),
            keras.layers.Dense(3, activation="relu"),
            keras.layers.Dense(1),
        ]
    )
    in_graph = tf.distribute.has_strategy()
    model.compile(optimizer, "mse", run_eagerly=not in_graph, jit_compile=False)
    model.fit(X, X[:, :1], batch_size=4, shuffle=False, verbose=0)
    return model


class Trainer(tf.Module):
    """Training to be exported, as for a device that goes on with it.

    It tracks the variable and the slots; the optimizer too, or not.
    """

    def __init__(self, optimizer: Any, tracks_optimizer: bool = False) -> None:
        super().__init__()
        self.variable = tf.Variable([1.0, 2.0])
        optimizer.build([self.variable])
        # An eager step, which keeps something of its own, first.
        optimizer.apply([tf.constant([0.5, -0.5])], [self.variable])
        self.slots = [variable.value for variable in optimizer.variables]
        if tracks_optimizer:
            self.optimizer = optimizer

        @tf.function(input_signature=[tf.TensorSpec([2])])
        def step(gradient):
            optimizer.apply([gradient], [self.variable])
            return {"variable": self.variable + 0.0}

        self.step = step

    def save(self, folder: pathlib.Path) -> None:
        signatures = {"train": self.step.get_concrete_function()}
        tf.saved_model.save(self, str(folder), signatures)

    def steps(self) -> list[np.ndarray]:
        """The variable after each step on `GRADIENTS`."""
        return [
            self.step(tf.constant(gradient))["variable"].numpy()
            for gradient in GRADIENTS
        ]


@pytest.mark.core
@pytest.mark.parametrize(
    "names",
    [["Adam"], pytest.param(list(OPTIMIZERS), marks=pytest.mark.slow)],
    ids=len,
)
def test_models_are_served_without_tf_opt_and_training_with_it(
    names, strategy, tmp_path
):
    served = {}

    def save(
        name: str, model: keras.Model, write: Any = tf.saved_model.save
    ) -> None:
        served[name] = model(X)
        write(model, str(tmp_path / "served" / name))

    for name in names:
        model = fitted(OPTIMIZERS[name].make(0.01))
        assert model.optimizer.implementation_in_use == "custom_op"
        save(name, model)
    save("exported", model, keras.Model.export)
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("serve", model.call, [tf.TensorSpec((None, 5))])
    archive.write_out(str(tmp_path / "served/archive"), verbose=False)
    served["archive"] = model(X)
    if len(names) > 1:
        with strategy.scope():
            model = fitted(tf_opt.Adam(0.01))
            save("mirrored", model)
            save("mirrored and exported", model, keras.Model.export)
    # Keras has an Adam, too, which mustn't be loaded instead.
    model.save(tmp_path / "model.keras")
    for path in tmp_path.glob("served/*/saved_model.pb"):
        assert b"TfOpt" not in path.read_bytes()

    trainer = Trainer(tf_opt.Adam(0.1))
    trainer.save(tmp_path / "trainer")
    saved = (tmp_path / "trainer/saved_model.pb").read_bytes()
    assert b"TfOpt>ResourceApplyAdamAmsgrad" in saved
    assert b"VariableGroup" not in saved

    np.save(tmp_path / "x.npy", X)
    output = python.run(
        f"""
        import json, pathlib, sys
        import numpy as np
        import tensorflow as tf

        folder = pathlib.Path({str(tmp_path)!r})
        x, found = np.load(folder / "x.npy"), dict()
        for path in folder.glob("served/*"):
            loaded = tf.saved_model.load(str(path))
            serve = loaded.signatures["serving_default"]
            (name,) = serve.structured_input_signature[1]
            (output,) = serve(**dict([(name, tf.constant(x))])).values()
            found[path.name] = output.numpy().tolist()
        import keras
        keras.saving.load_model(folder / "model.keras", compile=False)
        try:
            keras.saving.load_model(folder / "model.keras")
        except TypeError as error:
            assert "Could not locate class 'Adam'" in str(error), error
        else:
            raise AssertionError("its optimizer loads without tf_opt")
        assert "tf_opt" not in sys.modules
        try:
            tf.saved_model.load(str(folder / "trainer"))
        except Exception as error:
            assert "TfOpt>ResourceApplyAdamAmsgrad" in str(error), error
        else:
            raise AssertionError("it loads without tf_opt")
        import tf_opt
        loaded = tf.saved_model.load(str(folder / "trainer"))
        steps = [
            loaded.step(tf.constant(gradient))["variable"].numpy().tolist()
            for gradient in {GRADIENTS!r}
        ]
        print(json.dumps([found, steps]))
        """
    )
    found, steps = json.loads(output.splitlines()[-1])
    np.testing.assert_array_equal(np.float32(steps), trainer.steps())
    assert found.keys() == served.keys()
    for name, expected in served.items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-5)


@pytest.mark.parametrize("kind", ["custom_op", "composed", "to_keras"])
def test_training_becomes_a_tflite_model_without_the_ops(kind, tmp_path):
    optimizer = tf_opt.to_keras(tf_opt.SGD(0.1))
    if kind != "to_keras":
        optimizer = tf_opt.Adam(0.1, implementation=kind)
    Trainer(optimizer).save(tmp_path)
    converter = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path))
    converter.experimental_enable_resource_variables = True
    converter.target_spec.supported_ops = [
        tf.lite.OpsSet.TFLITE_BUILTINS,
        tf.lite.OpsSet.SELECT_TF_OPS,
    ]
    if kind != "custom_op":
        assert converter.convert()
        return
    # docs/troubleshooting.md has the text.
    message = "Custom ops: TfOpt>ResourceApplyAdamAmsgrad"
    with pytest.raises(Exception, match=message) as error:
        converter.convert()
    assert type(error.value).__name__ == "ConverterError"


@pytest.mark.parametrize(
    ("name", "tracks_optimizer"),
    [(name, i % 2 == 0) for i, name in enumerate(OPTIMIZERS)],
)
def test_training_goes_on_where_it_is_loaded(name, tracks_optimizer, tmp_path):
    optimizer = OPTIMIZERS[name].make(0.125, **OPTIMIZERS[name].thorough)
    trainer = Trainer(optimizer, tracks_optimizer)
    trainer.step(tf.constant([0.25, 1.0]))
    trainer.save(tmp_path)
    loaded = tf.saved_model.load(str(tmp_path))
    expected = trainer.steps()
    np.testing.assert_array_equal(Trainer.steps(loaded), expected)

    # As C++ serving does.
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        load = tf.compat.v1.saved_model.load
        signatures = load(session, ["serve"], str(tmp_path)).signature_def
        given = signatures["train"].inputs["gradient"].name
        updated = signatures["train"].outputs["variable"].name
        for gradient, value in zip(GRADIENTS, expected, strict=True):
            found = session.run(updated, {given: gradient})
            np.testing.assert_array_equal(found, value)


def test_a_saved_training_function_keeps_what_it_uses(tmp_path):
    number = keras.Variable(0.25)
    optimizer = tf_opt.AveragedSGD(
        0.125,
        lambd=number,
        learning_rate_multipliers={".": 2.0},
        skip_nonfinite=True,
        track_gradient_norm=True,
    )
    trainer = Trainer(optimizer, tracks_optimizer=True)
    trainer.save(tmp_path)
    loaded = tf.saved_model.load(str(tmp_path))
    np.testing.assert_array_equal(Trainer.steps(loaded), trainer.steps())


@pytest.mark.core
def test_a_loaded_training_function_keeps_the_order_of_steps_and_reads(
    tmp_path,
):
    trainer = Trainer(tf_opt.Adam(0.1))
    trainer.save(tmp_path)
    loaded = tf.saved_model.load(str(tmp_path))
    # After iterations and learning rate.
    slot = loaded.slots[2]

    @tf.function
    def around(gradient):
        before = slot * 1.0
        loaded.step(gradient)
        between = slot * 1.0
        loaded.step(gradient)
        return before, between, slot * 1.0

    gradient = tf.constant([0.5, -0.5])
    moment = slot.numpy()
    for _ in range(60):
        for found in around(gradient):
            np.testing.assert_allclose(found, moment, rtol=1e-5)
            moment = 0.9 * moment + 0.1 * gradient.numpy()
        # What was expected after the last read is what is there before.
        moment = slot.numpy()
