"""The programs of tests/gpu, with the engine for GPUs emulated.

That the engine itself is right, Bazel's tests check in the same way.
"""

from __future__ import annotations

import importlib.util
import pathlib
import subprocess
import sys
import types

import pytest

ROOT = pathlib.Path(__file__).parents[1]
BUILT = ROOT / "bazel-bin/tests/gpu"

needs_the_programs = pytest.mark.skipif(
    not (BUILT / "libtf_opt_gpu.so").exists(),
    reason="`bazel build //tests/gpu:all` makes what this is about",
)


def run(*command: str, **kwargs) -> str:
    result = subprocess.run(
        command, capture_output=True, text=True, check=False, **kwargs
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def measure() -> types.ModuleType:
    """tests/gpu/measure.py."""
    path = ROOT / "tests/gpu/measure.py"
    spec = importlib.util.spec_from_file_location("measure", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@needs_the_programs
def test_the_engine_on_torch_tensors_computes_what_torch_does(measure):
    pytest.importorskip("torch")
    # It checks the numbers before it measures.
    output = run(
        sys.executable,
        str(ROOT / "tests/gpu/torch_steps.py"),
        str(BUILT / "libtf_opt_gpu.so"),
        "1",
        "--device",
        "cpu",
    )
    cases = {case for _, case in measure.rows(output)}
    assert cases == {"Adam", "Adam, AMSGrad", "AdamW", "NAdam"}


@needs_the_programs
def test_speed_prints_what_the_table_is_made_of(measure):
    many = measure.workloads.MANY
    workloads = f"few\t10 7\n{many}\t{'256 ' * 1000}\nBERT-base x 8\t9\n"
    output = run(str(BUILT / "speed"), "1", input=workloads)
    speed = measure.rows(output)
    table = measure.table(speed, {("few", "AdamW"): ["2", "4"]})
    assert len(table.splitlines()) == 2 + 3 * 6 + 1
    assert table.splitlines()[-1].endswith("| 2 | 4 | 0.50 |")
    # Launches don't depend on how fast this machine is.
    targets = measure.targets(speed, {("few", "AdamW"): ["2", "4"]})
    (launches,) = [line for line in targets if "1,000 small" in line]
    assert launches.startswith("reached")
    assert targets[-1].startswith("reached  AdamW, few: 0.50")


def test_what_was_missed_says_so(measure):
    speed = {
        ("BERT-base x 8", "Adam"): ["3", "1.0", "80.0", "100.0"],
        ("1,000 x 256", "Adam"): ["5", "1.0", "80.0", "100.0"],
    }
    lines = measure.targets(speed, {("few", "Adam"): ["4", "2"]})
    assert [line.split()[0] for line in lines] == [
        "MISSED",
        "unknown",
        "MISSED",
        "MISSED",
    ]
