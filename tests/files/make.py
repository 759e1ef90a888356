"""Makes a set of files, which every later build must load and continue.

Run it with the build that has a new format, and commit what it writes:

    python tests/files/make.py NAME [CASE...]

writes NAME.tar.xz, with all cases or some. A set stays as it is, for it stands
for users' files. So do the cases, by which later builds make what weights and
checkpoints are loaded into; a case may be added.

Gradients aren't computed, so that all bits are the optimizers' own.
"""

import json
import pathlib
import pickle
import sys
import tarfile
import tempfile
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf
import tf_opt

HERE = pathlib.Path(__file__).parent
# Steps before the files are written, and after that.
BEFORE, AFTER = 3, 2


def numbers(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Numbers in [-1, 1] that 16 bits can hold, all about equally often."""
    count = np.arange(1, np.prod(shape) + 1) * 37 + seed * 11
    return ((count % 65 - 32) / 32).astype("float32").reshape(shape)


def adamw(model: keras.Model) -> keras.optimizers.Optimizer:
    optimizer = tf_opt.AdamW(
        0.05,
        weight_decay=0.5,
        learning_rate_multipliers={"whole/first": 0.25, "^whole": 0.5},
        weight_decay_multipliers={"kernel": 2.0},
    )
    optimizer.exclude_from_weight_decay(
        var_list=model.trainable_variables[:1], var_names=["bias"]
    )
    return optimizer


def lazy(_: keras.Model) -> keras.optimizers.Optimizer:
    return tf_opt.RMSprop(0.05, centered=True, lazy_mode=["whole/table"])


def catch_up(_: keras.Model) -> keras.optimizers.Optimizer:
    return tf_opt.Adam(0.05, lazy_mode={"whole/table": "catch_up"})


def row_wise(_: keras.Model) -> keras.optimizers.Optimizer:
    return tf_opt.Adagrad(
        0.05,
        row_wise=["whole/table"],
        learning_rate_multipliers={"whole/last": 0.5},
    )


def muon(_: keras.Model) -> keras.optimizers.Optimizer:
    return tf_opt.Muon(
        0.05,
        exclude_layers=["last"],
        matrix_axes={"first/kernel": 1},
        weight_decay_multipliers={"whole/first": 2.0},
    )


def muon_by_model(_: keras.Model) -> keras.optimizers.Optimizer:
    # A loaded model's paths lack its name before Keras 3.16.
    return tf_opt.Muon(
        0.05,
        exclude_layers=["whole/last"],
        matrix_axes={"whole/first/kernel": 1},
    )


def scaled(_: keras.Model) -> keras.optimizers.Optimizer:
    inner = tf_opt.NAdam(
        0.05,
        weight_decay=0.5,
        weight_decay_multipliers={"whole/first": 2.0},
        master_weights=True,
        state_dtype="bfloat16",
        gradient_accumulation_steps=2,
    )
    inner.exclude_from_weight_decay(var_names=["bias"])
    return tf_opt.LossScaleOptimizer(inner, initial_scale=4.0)


CASES: dict[str, Callable[[keras.Model], keras.optimizers.Optimizer]] = {
    "adamw": adamw,
    "lazy": lazy,
    "catch_up": catch_up,
    "row_wise": row_wise,
    "muon": muon,
    "muon_by_model": muon_by_model,
    "scaled": scaled,
}


def made(case: str) -> keras.Model:
    """A case's model with its optimizer, before the first step."""
    dtype = "bfloat16" if case == "scaled" else "float32"
    layers = [
        keras.Input((2,), dtype="int32"),
        keras.layers.Embedding(5, 4, dtype=dtype, name="table"),
        keras.layers.Conv1D(4, 2, dtype=dtype, name="first"),
        keras.layers.Flatten(),
        keras.layers.Dense(3, dtype=dtype, name="last"),
    ]
    model = keras.Sequential(layers, name="whole")
    model.set_weights(
        [numbers(x.shape, i) for i, x in enumerate(model.variables)]
    )
    model.compile(CASES[case](model), "mse", jit_compile=False)
    model.optimizer.build(model.trainable_variables)
    return model


def train(model: keras.Model, steps: int, seed: int) -> None:
    """Takes steps; rows of the table wait for gradients of their own."""
    optimizer, variables = model.optimizer, model.trainable_variables
    for i in range(steps):
        gradients = [
            tf.cast(numbers(x.shape, seed + 7 * i + j), x.dtype)
            for j, x in enumerate(variables)
        ]
        rows = tf.constant([i % 5, (i + 2) % 5])
        gradients[0] = tf.IndexedSlices(gradients[0][:2], rows, (5, 4))
        optimizer.catch_up(variables[:1], [rows])
        optimizer.apply(gradients, variables)


def continued(model: keras.Model) -> list[tf.Tensor]:
    """The weights after the steps that follow what was saved, in float32."""
    train(model, AFTER, seed=5)
    model.optimizer.catch_up()
    return [tf.cast(x.value, tf.float32) for x in model.variables]


class Trainer(tf.Module):
    """Steps for a SavedModel, which keeps their variables."""

    def __init__(self, model: keras.Model) -> None:
        super().__init__()
        self.weights = [x.value for x in model.variables]
        self.optimizer = model.optimizer
        self.continued = tf.function(
            lambda: continued(model), input_signature=[]
        )


def checkpoint_of(model: keras.Model) -> tf.train.Checkpoint:
    return tf.train.Checkpoint(model=model, optimizer=model.optimizer)


def write(case: str, folder: pathlib.Path) -> None:
    """Writes a case's files."""
    model = made(case)
    train(model, BEFORE, seed=0)
    model.save(folder / "model.keras")
    model.save_weights(folder / "model.weights.h5")
    checkpoint_of(model).write(str(folder / "checkpoint"))
    # A pickled optimizer brings its class, and a model its state.
    pickled = pickle.dumps((model.optimizer, model), protocol=4)
    (folder / "model.pickle").write_bytes(pickled)
    tf.saved_model.save(Trainer(model), str(folder / "saved_model"))
    weights = [x.numpy() for x in continued(model)]
    np.savez(folder / "continued.npz", *weights)


def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """A member of the archive without its owner and time."""
    owner = {"uid": 0, "gid": 0, "uname": "", "gname": ""}
    return member.replace(**owner, mtime=0, deep=False)


def main(name: str, *cases: str) -> None:
    """Writes all cases' files, or those of some, into one archive."""
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        for case in cases or CASES:
            (root / case).mkdir()
            write(case, root / case)
        versions = {"keras": keras.__version__, "tensorflow": tf.__version__}
        (root / "versions.json").write_text(json.dumps(versions))
        with tarfile.open(HERE / f"{name}.tar.xz", "w:xz") as archive:
            for path in sorted(root.rglob("*")):
                archive.add(
                    path,
                    path.relative_to(root),
                    recursive=False,
                    filter=anonymous,
                )


if __name__ == "__main__":
    main(*sys.argv[1:])
