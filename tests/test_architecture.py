"""ARCHITECTURE.md lists the files that a step runs through."""

import pathlib
import re
import sys

import keras
import tensorflow as tf
import tf_opt

DOCUMENT = pathlib.Path(__file__).parents[1] / "ARCHITECTURE.md"
PACKAGE = pathlib.Path(tf_opt.__file__).parent


def test_it_lists_the_files_of_a_step() -> None:
    optimizer, variable = tf_opt.Adam(), keras.Variable([1.0])
    optimizer.build([variable])
    found: set[str] = set()

    def note(frame, event, _) -> None:
        path = pathlib.Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE / "python"):
            name = str(path.relative_to(PACKAGE / "python"))
            found.add(name.removeprefix("optimizers/"))

    # As `fit` does.
    @tf.function(autograph=False)
    def step(gradient: tf.Tensor) -> None:
        sys.setprofile(note)
        try:
            optimizer.apply([gradient], [variable])
        finally:
            sys.setprofile(None)

    step(tf.constant([1.0]))
    section = DOCUMENT.read_text().split("### Its files")[1].split("\n## ")[0]
    listed = re.findall(r"`([\w/]+\.py)`", section.split("--- |")[-1])
    assert sorted(listed) == sorted(found)
