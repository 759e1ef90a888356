"""The slower examples run, and show what the documents state of them."""

from __future__ import annotations

import csv
import itertools
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

for module in ("matplotlib", "rich", "sklearn"):
    pytest.importorskip(module, reason="the examples' requirements")

import learned_schedule
import precisions
import two_towers

ROOT = pathlib.Path(__file__).parents[1]


def run(script: str, folder: pathlib.Path, *options: str) -> str:
    """Runs a script in a process of its own; returns what it printed."""
    return subprocess.run(
        [sys.executable, ROOT / script, *options],
        check=True,
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        # Wide enough for the tables; on a GPU, last digits may differ.
        env={**os.environ, "COLUMNS": "120", "CUDA_VISIBLE_DEVICES": ""},
    ).stdout


def cells(printed: str, bar: str) -> dict[str, list[str]]:
    """The rows of the tables, by their first cell."""
    lines = [x for x in printed.splitlines() if x.startswith(bar)]
    rows = [[cell.strip() for cell in line.split(bar)] for line in lines]
    return {row[1]: row[2:-1] for row in rows}


def assert_is_picture(path: pathlib.Path) -> None:
    assert path.read_bytes().startswith(b"\x89PNG")


def test_learned_schedule_writes_its_plot(
    tmp_path, monkeypatch, capsys
) -> None:
    plot = tmp_path / "plot.png"
    monkeypatch.setattr("sys.argv", ["x", "--quick", f"--output={plot}"])
    learned_schedule.main()
    printed = capsys.readouterr().out
    for name in (*learned_schedule.SHAPES, learned_schedule.LEARNED):
        # The table may break lines.
        assert name.split()[-1] in printed
    assert_is_picture(plot)


def test_learned_rates_are_better_on_what_they_have_not_seen() -> None:
    size = learned_schedule.Size(
        steps=10, outer_steps=40, outer_batch=2, choosing=0, testing=20
    )
    train_data, choose_data, test_data = learned_schedule.load_data()
    training = learned_schedule.Training(train_data, size.steps)
    seeds = itertools.count()
    testing = list(itertools.islice(seeds, size.testing))
    start = np.full(size.steps, 0.02)
    rates = learned_schedule.learn(training, choose_data, size, start, seeds)
    scores = training.make_scorer(test_data)
    before, after = (scores(x, testing)[:, 0] for x in (start, rates))
    # Measured: 0.69 of the loss, and better in every training.
    assert after.mean() < 0.85 * before.mean()
    assert np.mean(after < before) > 0.9


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


def test_only_pure_bfloat16_with_keras_adam_stands_still(tmp_path) -> None:
    plot = tmp_path / "plot.png"
    run(*("examples/low_precision.py", tmp_path, "--quick"), f"--output={plot}")
    assert_is_picture(plot)
    with plot.with_suffix(".csv").open(newline="") as table:
        # The last epoch's row is the last.
        rows = {row["precision"]: row for row in csv.DictReader(table)}
    sizes = {name: float(x["bytes_per_parameter"]) for name, x in rows.items()}
    assert sizes == BYTES
    # Guessing costs log(10), 2.3, and knowing nothing yet more.
    losses = {name: float(row["train_loss_mean"]) for name, row in rows.items()}
    assert losses.pop(precisions.KERAS) > 2.3
    assert max(losses.values()) < 0.5


def test_offloaded_losses_are_equal_and_the_state_is_on_the_host(
    tmp_path,
) -> None:
    printed = run("examples/offload.py", tmp_path, "--steps=10")
    assert "The losses are equal" in printed
    # Of the usual training's device, the offloaded one's, and the host.
    bytes_of = {
        kind: [int(x.replace(",", "")) for x in row]
        for kind, row in cells(printed, "│").items()
        if all(re.fullmatch(r"[\d,]+", x) for x in row)
    }
    size = bytes_of["variables"][0]
    assert bytes_of["variables"] == [size, size, 0]
    assert bytes_of["slots"] == [4 * size, 0, 4 * size]
    assert bytes_of["master_weights"] == [2 * size, 0, 2 * size]
    assert bytes_of["working_copies"] == [0, 0, size]


def test_recommender_prints_the_bytes_of_state_and_draws(tmp_path) -> None:
    plot = tmp_path / "plot.png"
    printed = run(
        *("examples/recommender.py", tmp_path, "--steps=2", "--seed=1"),
        f"--output={plot}",
    )
    assert_is_picture(plot)
    rows = cells(printed, "│")
    size = {name: int(row[0].replace(",", "")) for name, row in rows.items()}
    tables = 2 * two_towers.ROWS * two_towers.WIDTH * 4
    assert {name: x / tables for name, x in size.items()} == pytest.approx(
        {
            "keras.optimizers.Adam": 2,
            "tf_opt.Adam": 2,
            "tf_opt.Adam, lazy_mode=True": 2,
            # Where a row is up to date is 4 bytes, one element of a row.
            'tf_opt.Adam, lazy_mode="catch_up"': 2 + 1 / two_towers.WIDTH,
            "keras.optimizers.Adagrad": 1,
            "tf_opt.Adagrad": 1,
            "tf_opt.Adagrad, row_wise=True": 1 / two_towers.WIDTH,
        },
        # The layers and the tables of what rows missed are small.
        abs=0.003,
    )
