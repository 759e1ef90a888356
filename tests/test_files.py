"""Files of earlier builds, which files/make.py wrote, load and continue."""

import json
import pathlib
import pickle
import tarfile
from collections.abc import Iterator

import keras
import numpy as np
import pytest
import tensorflow as tf

from files import make
from small_model import assert_close, assert_same

pytestmark = pytest.mark.core

FOLDER = pathlib.Path(make.__file__).parent


def cases() -> Iterator[tuple[str, str]]:
    for path in sorted(FOLDER.glob("*.tar.xz")):
        with tarfile.open(path) as archive:
            names = archive.getnames()
        yield from ((path.name, x) for x in make.CASES if x in names)


@pytest.fixture(scope="module")
def files(request, tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("files")
    with tarfile.open(FOLDER / request.param) as archive:
        # Patch releases of Python below 3.12 lack it.
        has_filter = hasattr(tarfile, "data_filter")
        archive.extractall(folder, **({"filter": "data"} if has_filter else {}))
    return folder


def minor(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))


def loaded(kind: str, case: str, folder: pathlib.Path) -> keras.Model:
    if kind == "keras":
        return keras.saving.load_model(folder / "model.keras")
    if kind == "pickle":
        # A built optimizer is pickled without its state, as in Keras.
        pickled = (folder / "model.pickle").read_bytes()
        with pytest.warns(UserWarning, match="Skipping variable loading"):
            optimizer, model = pickle.loads(pickled)
        optimizer.build(model.trainable_variables)
        assert optimizer.get_config() == model.optimizer.get_config()
        return model
    model = make.made(case)
    if kind == "weights.h5":
        model.load_weights(folder / "model.weights.h5")
    else:
        status = make.checkpoint_of(model).read(str(folder / "checkpoint"))
        status.assert_existing_objects_matched()
    return model


@pytest.mark.parametrize(
    "kind",
    [
        *("keras", "weights.h5", "checkpoint", "pickle"),
        # Its training function was traced with the ops.
        pytest.param("saved_model", marks=pytest.mark.needs_library),
    ],
)
@pytest.mark.parametrize(("files", "case"), cases(), indirect=["files"])
def test_a_file_of_an_earlier_build_continues_with_the_same_bits(
    files, case, kind
):
    folder = files / case
    # Layers' configurations are Keras', whose newer ones have more entries, and
    # TensorFlow promises to load graphs of older ones only.
    wrote = json.loads((files / "versions.json").read_text())
    needed = {"keras": "keras", "pickle": "keras", "saved_model": "tensorflow"}
    runs = {"keras": keras.__version__, "tensorflow": tf.__version__}
    package = needed.get(kind)
    if package and minor(runs[package]) < minor(wrote[package]):
        pytest.skip(f"A newer {package} wrote the file.")
    if kind == "saved_model":
        module = tf.saved_model.load(str(folder / kind))
        found = module.continued()
    else:
        found = make.continued(loaded(kind, case, folder))
    with np.load(folder / "continued.npz") as archive:
        expected = [archive[name] for name in archive.files]
    if case.startswith("muon"):
        # TensorFlow's products of matrices, which each processor rounds.
        assert_close(found, expected, rtol=1e-5, atol=1e-6)
    else:
        assert_same(found, expected)
