"""Exported, served without tf_opt, converted, and trained on where loaded."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from registry import OPTIMIZERS

X = np.random.default_rng(4).standard_normal((12, 5)).astype("float32")

SERVE = """
import json, pathlib, sys
import numpy as np
import tensorflow as tf

folder = pathlib.Path(sys.argv[1])
x = np.load(folder / "x.npy")
outputs = {}
for path in sorted(folder.glob("*/saved_model.pb")):
    signature = tf.saved_model.load(str(path.parent)).signatures[
        "serving_default"
    ]
    (name,) = signature.structured_input_signature[1]
    (output,) = signature(**{name: tf.constant(x)}).values()
    outputs[path.parent.name] = output.numpy().tolist()
assert "tf_opt" not in sys.modules
print(json.dumps(outputs))
"""


def fitted(optimizer: keras.optimizers.Optimizer) -> keras.Model:
    model = keras.Sequential(
        [
            keras.layers.Input((5,)),
            keras.layers.Dense(3, activation="relu"),
            keras.layers.Dense(1),
        ]
    )
    model.compile(optimizer, "mse", jit_compile=False)
    model.fit(X, X[:, :1], batch_size=4, shuffle=False, verbose=0)
    return model


@pytest.mark.core
def test_what_is_exported_is_served_without_tf_opt(strategy, tmp_path):
    expected = {}

    def export(name: str, model: keras.Model) -> None:
        expected[f"{name}_export"] = expected[f"{name}_saved"] = model(X)
        model.export(str(tmp_path / f"{name}_export"), verbose=False)
        tf.saved_model.save(model, str(tmp_path / f"{name}_saved"))

    for name, optimizer in OPTIMIZERS.items():
        model = fitted(optimizer.make(0.01))
        assert model.optimizer.implementation_in_use == "custom_op"
        export(name, model)
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("serve", model.call, [tf.TensorSpec((None, 5))])
    archive.write_out(str(tmp_path / "archive"), verbose=False)
    expected["archive"] = model(X)
    with strategy.scope():
        export("mirrored", fitted(tf_opt.Adam(0.01)))

    np.save(tmp_path / "x.npy", X)
    served = subprocess.run(
        [sys.executable, "-c", SERVE, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert served.returncode == 0, served.stderr
    outputs = json.loads(served.stdout.splitlines()[-1])
    assert set(outputs) == set(expected)
    for name, output in expected.items():
        np.testing.assert_allclose(outputs[name], output, rtol=1e-5)


@pytest.mark.parametrize("name", ["AdamW", "ASGD"])
def test_a_trained_model_becomes_a_tflite_model(name):
    model = fitted(OPTIMIZERS[name].make(0.01))
    converted = tf.lite.TFLiteConverter.from_keras_model(model).convert()
    interpreter = tf.lite.Interpreter(model_content=converted)
    input_, output = (
        interpreter.get_input_details()[0]["index"],
        interpreter.get_output_details()[0]["index"],
    )
    interpreter.allocate_tensors()
    interpreter.set_tensor(input_, X[:1])
    interpreter.invoke()
    np.testing.assert_allclose(
        interpreter.get_tensor(output), model(X[:1]), rtol=1e-5
    )


def thorough(name: str) -> keras.optimizers.Optimizer:
    under_test = OPTIMIZERS[name]
    mode = under_test.modes[under_test.thorough_mode or "plain"]
    return under_test.make(0.125, **mode)


class Trainer(tf.Module):
    """Training to be exported, as for a device that goes on with it.

    It tracks variables and slots, and not the optimizer.
    """

    def __init__(self, optimizer: keras.optimizers.Optimizer) -> None:
        super().__init__()
        self.variable = tf.Variable([1.0, 2.0])
        optimizer.build([self.variable])
        # An eager step, which keeps something of its own, first.
        optimizer.apply([tf.constant([0.5, -0.5])], [self.variable])
        self.slots = [variable.value for variable in optimizer.variables]

        @tf.function(input_signature=[tf.TensorSpec([2])])
        def step(gradient):
            optimizer.apply([gradient], [self.variable])
            return {"variable": tf.identity(self.variable)}

        self.step = step


@pytest.mark.core
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_that_tracks_only_variables_goes_on_where_it_is_loaded(
    name, tmp_path
):
    trainer = Trainer(thorough(name))
    trainer.step(tf.constant([0.25, 1.0]))
    tf.saved_model.save(
        trainer, str(tmp_path), {"train": trainer.step.get_concrete_function()}
    )
    loaded = tf.saved_model.load(str(tmp_path))
    gradients = ([0.1, -0.2], [0.01, 0.3], [2.0, 1.0])
    expected = []
    for gradient in map(tf.constant, gradients):
        expected.append(trainer.step(gradient)["variable"].numpy())
        np.testing.assert_array_equal(
            loaded.step(gradient)["variable"], expected[-1]
        )

    # As C++ serving does.
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        signature = tf.compat.v1.saved_model.load(
            session, ["serve"], str(tmp_path)
        ).signature_def["train"]
        for gradient, value in zip(gradients, expected, strict=True):
            np.testing.assert_array_equal(
                session.run(
                    signature.outputs["variable"].name,
                    {signature.inputs["gradient"].name: gradient},
                ),
                value,
            )


@pytest.mark.core
def test_a_loaded_training_function_keeps_the_order_of_steps_and_reads(
    tmp_path,
):
    trainer = Trainer(tf_opt.Adam(0.1))
    tf.saved_model.save(trainer, str(tmp_path))
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


def test_nothing_of_ours_is_in_an_export_and_only_the_op_in_training(tmp_path):
    model = fitted(tf_opt.Adam(0.01))
    model.export(str(tmp_path / "model"), verbose=False)
    assert b"TfOpt" not in (tmp_path / "model/saved_model.pb").read_bytes()
    tf.saved_model.save(Trainer(tf_opt.Adam(0.1)), str(tmp_path / "training"))
    training = (tmp_path / "training/saved_model.pb").read_bytes()
    assert b"TfOpt>ResourceApplyAdamAmsgrad" in training
    assert b"VariableGroup" not in training


def test_training_loads_where_tf_opt_is_imported_and_nowhere_else(tmp_path):
    trainer = Trainer(tf_opt.Adam(0.1))
    tf.saved_model.save(trainer, str(tmp_path))
    gradient = [0.5, -0.5]
    expected = trainer.step(tf.constant(gradient))["variable"].numpy()
    script = f"""
        import tensorflow as tf
        try:
            tf.saved_model.load({str(tmp_path)!r})
        except Exception as error:
            print(error)
        import tf_opt
        loaded = tf.saved_model.load({str(tmp_path)!r})
        print(loaded.step(tf.constant({gradient}))["variable"].numpy().tolist())
    """
    loaded = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert loaded.returncode == 0, loaded.stderr
    *error, result = loaded.stdout.splitlines()
    assert "TfOpt>ResourceApplyAdamAmsgrad" in "".join(error)
    assert json.loads(result) == expected.tolist()
