"""The slower examples run, and show what the documents state of them."""

import csv
import os
import pathlib
import re
import sysconfig
from collections.abc import Iterator

import numpy as np
import pytest

from processes import python

pytestmark = pytest.mark.slow

for module in ("matplotlib", "rich", "sklearn"):
    pytest.importorskip(module, reason="the examples' requirements")

import learned_schedule
import low_precision
import precisions
import two_towers

ROOT = pathlib.Path(__file__).parents[1]


def run(example: str, settings: str, *options: str) -> str:
    """Runs an example in a process of its own; returns what it printed.

    `settings` are assignments to names of its modules, which make it smaller.
    """
    return python.run(
        f"""
        import sys
        sys.path.insert(0, {str(ROOT / "examples")!r})
        sys.argv = {["x", *options]}
        import {example}
        {settings}
        {example}.main()
        """,
        # Wide enough for the tables; on a GPU, last digits may differ.
        COLUMNS="120",
        CUDA_VISIBLE_DEVICES="",
    )


def cells(printed: str) -> dict[str, list[str]]:
    """The rows of the tables, by their first cell."""
    lines = [x for x in printed.splitlines() if x.startswith("│")]
    rows = [[cell.strip() for cell in line.split("│")] for line in lines]
    return {row[1]: row[2:-1] for row in rows}


@pytest.fixture
def plot(tmp_path) -> Iterator[pathlib.Path]:
    path = tmp_path / "plot.png"
    yield path
    assert path.read_bytes().startswith(b"\x89PNG")


def test_learned_rates_are_better_on_what_they_have_not_seen(
    plot, monkeypatch, capsys
) -> None:
    size = learned_schedule.Size(
        steps=10, outer_steps=40, outer_batch=2, choosing=2, testing=20
    )
    monkeypatch.setattr(learned_schedule, "QUICK", size)
    # The second one is better, and so the one to start from.
    monkeypatch.setattr(learned_schedule, "PEAKS", (0.001, 0.02, 1.0))
    monkeypatch.setattr("sys.argv", ["x", "--quick", f"--output={plot}"])
    monkeypatch.setenv("COLUMNS", "120")
    learned_schedule.main()
    rows = cells(capsys.readouterr().out)
    assert {*learned_schedule.SHAPES, learned_schedule.LEARNED} <= rows.keys()
    (before, _, wins), (after, *_) = rows["best constant"], rows["learned"]
    # Measured: 0.69 of the loss, and better in every training.
    assert float(after.split()[0]) < 0.85 * float(before.split()[0])
    assert float(wins.split("%")[0]) > 90


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


def test_only_pure_bfloat16_with_keras_adam_stands_still(
    plot, monkeypatch
) -> None:
    monkeypatch.setattr("sys.argv", ["x", "--quick", f"--output={plot}"])
    # One process trains: another one would take longer to start.
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    low_precision.main()
    with plot.with_suffix(".csv").open(newline="") as table:
        # The last epoch's row is the last.
        rows = {row["precision"]: row for row in csv.DictReader(table)}
    sizes = {name: float(x["bytes_per_parameter"]) for name, x in rows.items()}
    assert sizes == BYTES
    # Guessing costs log(10), 2.3, and knowing nothing yet more.
    losses = {name: float(row["train_loss_mean"]) for name, row in rows.items()}
    assert losses.pop(precisions.KERAS) > 2.3
    assert max(losses.values()) < 0.5


def test_five_optimizers_learn(plot) -> None:
    printed = run(
        "five_optimizers",
        "five_optimizers.TASK = five_optimizers.TASK._replace(steps=10)",
        *("--quick", f"--output={plot}"),
    )
    rows = cells(printed)
    for name in ("AdamW", "ScheduleFreeAdamW", "Muon", "Adafactor", "Lamb"):
        # Guessing costs log(128), 4.85.
        assert float(rows[name][1].split()[0]) < 4.5, name


def test_offloaded_losses_are_equal_and_the_state_is_on_the_host() -> None:
    printed = run("offload", "offload.BLOCKS = 1", "--steps=10")
    assert "The losses are equal" in printed
    # Of the usual training's device, the offloaded one's, and the host.
    bytes_of = {
        kind: [int(x.replace(",", "")) for x in row]
        for kind, row in cells(printed).items()
        if all(re.fullmatch(r"[\d,]+", x) for x in row)
    }
    size = bytes_of["variables"][0]
    assert bytes_of["variables"] == [size, size, 0]
    assert bytes_of["slots"] == [4 * size, 0, 4 * size]
    assert bytes_of["master_weights"] == [2 * size, 0, 2 * size]
    assert bytes_of["working_copies"] == [0, 0, size]


# Of the tables, whose bytes are nearly all.
WIDTH = 32


def run_with_small_tables(example: str, *options: str) -> str:
    modules = pathlib.Path(sysconfig.get_path("stdlib"), "asyncio")
    return run(
        example,
        f"{example}.two_towers.WIDTH = {WIDTH}; "
        f"{example}.standard_library.sysconfig.get_path = "
        f"lambda _: {str(modules)!r}",
        *options,
    )


def test_recommender_prints_the_bytes_of_state_and_draws(plot) -> None:
    printed = run_with_small_tables(
        "recommender", "--steps=2", "--seed=1", f"--output={plot}"
    )
    rows = cells(printed)
    size = {name: int(row[0].replace(",", "")) for name, row in rows.items()}
    tables = 2 * two_towers.ROWS * WIDTH * 4
    assert {name: x / tables for name, x in size.items()} == pytest.approx(
        {
            "keras.optimizers.Adam": 2,
            "tf_opt.Adam": 2,
            "tf_opt.Adam, lazy_mode=True": 2,
            # Where a row is up to date is 4 bytes, one element of a row.
            'tf_opt.Adam, lazy_mode="catch_up"': 2 + 1 / WIDTH,
            "keras.optimizers.Adagrad": 1,
            "tf_opt.Adagrad": 1,
            "tf_opt.Adagrad, row_wise=True": 1 / WIDTH,
        },
        # The layers and the tables of what rows missed are small.
        abs=0.003,
    )


def test_keras_2_trains_tables_on_two_servers() -> None:
    pytest.importorskip("tf_keras")
    printed = run(
        "keras2_parameter_servers",
        # The test's own; without it, the example starts a cluster.
        "import os; del os.environ['TF_CONFIG']",
        "--epochs=2",
    )
    for server in range(2):
        assert f"on /job:ps/replica:0/task:{server}/" in printed
    first, second, _ = map(float, re.findall(r"loss ([\d.]+)", printed))
    assert second < first
    # Measured: 26 %. There are thousands of calls.
    assert float(re.search(r"recall ([\d.]+)%", printed)[1]) > 15


def test_from_keras_trains_other_tables_where_ids_repeat() -> None:
    printed = run_with_small_tables("from_keras", "--steps=10", "--factors=1")
    theirs, ours = (
        [float(loss) for loss in row] for row in cells(printed).values()
    )
    assert theirs != ours
    np.testing.assert_allclose(ours, theirs, rtol=0.1)


def test_monitor_shows_where_bfloat16_stands_still(plot) -> None:
    # Convolutions in bfloat16 take long.
    printed = run(
        "monitor",
        "layers = monitor.keras.layers; "
        "monitor.digits.make_model = lambda _: monitor.keras.Sequential("
        "[layers.Flatten(), layers.Dense(64, 'relu'), layers.Dense(10)])",
        *("--epochs=3", f"--output={plot}"),
    )
    unmoved = {
        name: float(row[0].removesuffix("%"))
        for name, row in cells(printed).items()
    }
    # Measured: 15 % and 67 %.
    assert 3 * unmoved["bfloat16, master weights"] < unmoved["bfloat16, plain"]
