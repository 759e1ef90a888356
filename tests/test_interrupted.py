"""Training killed at any time goes on from its last checkpoint, bit for bit."""

from __future__ import annotations

import pathlib
import time

import numpy as np
import pytest

from processes import job
from processes import training

# Longer than it takes to save once, so that most kills come while it saves.
LONGEST_WAIT = 0.6
# For a worker to see that another is gone.
LONGEST_SURVIVAL = 60.0


def _starts(folder: pathlib.Path) -> list[int]:
    path = folder / "starts_0.txt"
    if not path.exists():
        return []
    return [int(line) for line in path.read_text().splitlines()]


# One process, then one of two, and both.
@pytest.mark.parametrize(
    "victims",
    [
        [["worker_0"]] * 2,
        [["worker_1"], ["worker_0", "worker_1"]],
    ],
    ids=["one_process", "two_workers"],
)
def test_killed_training_goes_on(tmp_path, victims):
    workers = sorted({name for names in victims for name in names})
    tasks = {"worker": len(workers)}
    undisturbed = tmp_path / "undisturbed"
    killed = tmp_path / "killed"
    for folder in (undisturbed, killed):
        folder.mkdir()
    random = np.random.default_rng(len(workers))

    def start(folder: pathlib.Path) -> job.Job:
        return job.Job(training.work, tasks, folder, folder)

    with start(undisturbed) as reference:
        for kills, names in enumerate(victims, 1):
            with start(killed) as training_job:
                training_job.wait_until(
                    lambda kills=kills: (
                        len(_starts(killed)) == kills
                        and (killed / "checkpoints" / "checkpoint").exists()
                    ),
                    "first checkpoint",
                )
                time.sleep(random.uniform(0, LONGEST_WAIT))
                training_job.kill(*names)
                for name in workers:
                    # Who is left notices, and doesn't train on alone.
                    code = training_job.exit_code(name, LONGEST_SURVIVAL)
                    assert code not in (None, 0), name
        with start(killed) as training_job:
            training_job.wait(*workers)
        reference.wait(*workers)

    starts = _starts(killed)
    assert len(starts) == len(victims) + 1
    assert starts == sorted(starts)
    assert 0 < starts[-1] < training.STEPS
    for name in workers:
        final = f"final_{name.removeprefix('worker_')}.npz"
        ours, expected = np.load(killed / final), np.load(undisturbed / final)
        assert len(ours) > 50
        for key in expected:
            assert np.isfinite(expected[key]).all(), key
            np.testing.assert_array_equal(ours[key], expected[key], err_msg=key)
