"""The study behind docs/low-precision.md runs, and shows what that states."""

from __future__ import annotations

import csv
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

for module in ("matplotlib", "rich"):
    pytest.importorskip(module, reason="the examples' requirements")

import precisions

EXAMPLE = pathlib.Path(__file__).parents[1] / "examples" / "low_precision.py"

# Of the trained variables and Adam's state: variable, master, m and v.
BYTES = {
    "float32": 4 + 4 + 4,
    "float32, bfloat16 state": 4 + 2 + 2,
    "mixed_bfloat16": 4 + 4 + 4,
    "bfloat16, master weights": 2 + 4 + 4 + 4,
    "bfloat16, master weights, bfloat16 state": 2 + 4 + 2 + 2,
    "bfloat16, stochastic rounding": 2 + 4 + 4,
    "bfloat16, stochastic rounding, bfloat16 state": 2 + 2 + 2,
    "bfloat16, plain": 2 + 4 + 4,
    "bfloat16, Keras' Adam": 2 + 2 + 2,
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """The table of a quick run, by precision."""
    plot = tmp_path_factory.mktemp("study") / "plot.png"
    subprocess.run(
        [sys.executable, EXAMPLE, "--quick", "--output", plot],
        check=True,
        cwd=plot.parent,
    )
    assert plot.read_bytes().startswith(b"\x89PNG")
    with plot.with_suffix(".csv").open(newline="") as table:
        # The last epoch's row is the last.
        return {row["precision"]: row for row in csv.DictReader(table)}


def test_quick_run_has_every_precision_at_its_size(rows):
    sizes = {
        name: float(row["bytes_per_parameter"]) for name, row in rows.items()
    }
    assert sizes == BYTES


def test_only_pure_bfloat16_with_keras_adam_stands_still(rows):
    # Guessing costs log(10), 2.3, and knowing nothing yet more.
    losses = {name: float(row["train_loss_mean"]) for name, row in rows.items()}
    assert losses.pop(precisions.KERAS) > 2.3
    assert max(losses.values()) < 0.5


def test_contenders_start_from_the_same_rounded_weights():
    def make(seed: int) -> keras.Model:
        keras.utils.set_random_seed(seed)
        return keras.Sequential([keras.Input((30,)), keras.layers.Dense(20)])

    expected = make(seed=3).get_weights()[0]
    for name, precision in precisions.PRECISIONS.items():
        model = precisions.make_model(name, make, seed=3)
        kernel, _ = model.trainable_variables
        assert keras.config.dtype_policy().name == "float32"
        assert model.layers[0].dtype_policy.name == precision.policy
        np.testing.assert_array_equal(
            kernel.numpy(), expected.astype(kernel.numpy().dtype)
        )
