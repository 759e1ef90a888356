"""examples/offload.py runs: equal losses, and the state is on the host."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("rich", reason="the examples' requirements")

import offload

EXAMPLE = pathlib.Path(offload.__file__)


def test_short_run_has_equal_losses_and_its_state_on_the_host() -> None:
    # In a process of its own, because it makes logical devices.
    printed = subprocess.run(
        [sys.executable, EXAMPLE, "--steps", "10"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        # Wide enough for the tables; on a GPU, last digits may differ.
        env={**os.environ, "COLUMNS": "120", "CUDA_VISIBLE_DEVICES": ""},
    ).stdout
    assert "The losses are equal" in printed
    # Of the usual training's device, the offloaded one's, and the host.
    bytes_of = {
        kind: [int(x.replace(",", "")) for x in re.findall(r"[\d,]+", cells)]
        for kind, cells in re.findall(
            r"^│ (\w+) +│(.*)$", printed, re.MULTILINE
        )
    }
    size = bytes_of["variables"][0]
    assert bytes_of["variables"] == [size, size, 0]
    assert bytes_of["slots"] == [4 * size, 0, 4 * size]
    assert bytes_of["master_weights"] == [2 * size, 0, 2 * size]
    assert bytes_of["working_copies"] == [0, 0, size]
    assert sum(bytes_of["all"]) > 14 * size


def test_dry_run_of_the_measurement_prints_and_draws(tmp_path) -> None:
    script = EXAMPLE.parents[1] / "tests" / "gpu" / "offload.py"
    picture = tmp_path / "timeline.png"
    size = ["--dtype=float32", "--width=64", "--batch=8", "--steps=1"]
    printed = subprocess.run(
        [sys.executable, script, "--dry-run", *size, "--timeline", picture],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    rows = {
        (cells := [cell.strip() for cell in line.split("|")])[1]: cells[2:]
        for line in printed.splitlines()
        if line.startswith("| ")
    }
    # A share of no copies is no number.
    for name in ("state_device", "state_device, global_clipnorm"):
        assert rows[name][3].endswith("%")
    # The usual step copies nothing, and updates after the backward pass.
    assert rows["usual"][2:4] == ["0.0", "-"]
    # (On a busy machine, spans begin and end a little late.)
    assert int(rows["usual"][5].rstrip("%")) < 50
    assert picture.read_bytes().startswith(b"\x89PNG")
