"""ARCHITECTURE.md lists the files that a step runs through."""

from __future__ import annotations

import pathlib
import re
import sys

import keras
import numpy as np
import pytest
import tf_opt

DOCUMENT = pathlib.Path(__file__).parents[1] / "ARCHITECTURE.md"
PACKAGE = pathlib.Path(tf_opt.__file__).parent


def test_it_lists_the_files_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    optimizer = tf_opt.Adam()
    optimizer.build(model.trainable_variables)
    model.compile(optimizer, "mse", jit_compile=False)
    found = {"adam.py"}

    def note(frame, event, _) -> None:
        path = pathlib.Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE / "python"):
            name = str(path.relative_to(PACKAGE / "python"))
            found.add(name.removeprefix("optimizers/"))

    apply = optimizer.apply

    def traced(*args) -> None:
        sys.setprofile(note)
        try:
            apply(*args)
        finally:
            sys.setprofile(None)

    monkeypatch.setattr(optimizer, "apply", traced)
    model.fit(np.ones((8, 4)), np.ones((8, 1)), verbose=0)
    section = DOCUMENT.read_text().split("### Its files")[1].split("\n## ")[0]
    listed = re.findall(r"`([\w/]+\.py)`", section.split("--- |")[-1])
    assert sorted(listed) == sorted(found)
