"""Exported, served without tf_opt, converted, and trained on where loaded."""

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
from small_model import X, fit

GRADIENTS = ([0.1, -0.2], [0.01, 0.3], [2.0, 1.0])


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
        return [
            self.step(tf.constant(gradient))["variable"].numpy()
            for gradient in GRADIENTS
        ]


@pytest.mark.core
@pytest.mark.needs_library
def test_models_are_served_without_tf_opt_and_training_with_it(
    strategy, tmp_path
):
    served = {}

    def save(
        name: str, model: keras.Model, write: Any = tf.saved_model.save
    ) -> None:
        served[name] = model(X)
        write(model, str(tmp_path / "served" / name))

    model = fit(tf_opt.Adam(0.01), run_eagerly=True)
    assert model.optimizer.implementation_in_use == "custom_op"
    save("saved", model)
    save("exported", model, keras.Model.export)
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("serve", model.call, [tf.TensorSpec((None, 4))])
    archive.write_out(str(tmp_path / "served/archive"), verbose=False)
    served["archive"] = model(X)
    with strategy.scope():
        mirrored = fit(tf_opt.Lion(0.01))
        save("mirrored", mirrored)
        save("mirrored and exported", mirrored, keras.Model.export)
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


# The last one keeps more than its state.
TRAINED = [
    *(x.make(0.125, **x.thorough) for x in OPTIMIZERS.values()),
    tf_opt.AveragedSGD(
        0.125,
        lambd=keras.Variable(0.25),
        learning_rate_multipliers={".": 2.0},
        skip_nonfinite=True,
        track_gradient_norm=True,
    ),
]


@pytest.mark.parametrize(
    ("optimizer", "tracks_optimizer"),
    [(x, i % 2 == len(TRAINED) % 2) for i, x in enumerate(TRAINED, 1)],
    ids=lambda x: getattr(x, "name", x),
)
def test_training_goes_on_where_it_is_loaded(
    optimizer, tracks_optimizer, tmp_path
):
    trainer = Trainer(optimizer, tracks_optimizer)
    trainer.step(tf.constant([0.25, 1.0]))
    trainer.save(tmp_path)
    loaded = tf.saved_model.load(str(tmp_path))
    expected = trainer.steps()

    @tf.function
    def steps() -> list[tf.Tensor]:
        found = []
        for gradient in GRADIENTS:
            loaded.step(tf.constant(gradient))
            # Read in order with the steps.
            found.append(loaded.variable * 1.0)
        return found

    np.testing.assert_array_equal(steps(), expected)

    if optimizer is TRAINED[-1]:
        return  # C++ serving restores only what is tracked.
    # As C++ serving does.
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        load = tf.compat.v1.saved_model.load
        signatures = load(session, ["serve"], str(tmp_path)).signature_def
        given = signatures["train"].inputs["gradient"].name
        updated = signatures["train"].outputs["variable"].name
        for gradient, value in zip(GRADIENTS, expected, strict=True):
            found = session.run(updated, {given: gradient})
            np.testing.assert_array_equal(found, value)
