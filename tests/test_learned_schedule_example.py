"""examples/learned_schedule.py runs, and learning lowers what it should."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="the examples' requirements")
pytest.importorskip("rich", reason="the examples' requirements")

import learned_schedule


def test_quick_run_writes_its_plot(tmp_path, monkeypatch, capsys) -> None:
    plot = tmp_path / "plot.png"
    monkeypatch.setattr("sys.argv", ["x", "--quick", "--output", str(plot)])
    learned_schedule.main()
    printed = capsys.readouterr().out
    for name in (*learned_schedule.SHAPES, learned_schedule.LEARNED):
        # The table may break lines.
        assert name.split()[-1] in printed
    assert plot.read_bytes().startswith(b"\x89PNG")


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


def test_what_is_learned_from_and_what_tests_are_apart() -> None:
    parts = learned_schedule.load_data()
    images = [{x.tobytes() for x in x} for x, _ in parts]
    assert [len(part) for part in images] == [898, 449, 450]
    for one, other in itertools.combinations(images, 2):
        assert not one & other
