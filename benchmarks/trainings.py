"""Measures trainings, each in a process of its own, in turns.

TensorFlow never gives memory back, so only a process of its own can tell how
much a training takes.

    python benchmarks/trainings.py CLIENT CONTENDER

trains and reports its first step. For each number in its input it trains that
many steps more and reports these.
"""

import contextlib
import gc
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from typing import Any, NamedTuple

import keras

import clients
import measure as turns
import results
from measure import Measurement
from results import Row

_STATUS = pathlib.Path("/proc/self/status")


class Report(NamedTuple):
    """What some steps took, and the process' memory in MB."""

    seconds: float
    cpu_seconds: float  # Of all cores.
    memory: float  # Now.
    peak: float  # The most so far.
    loss: float  # Of the last step.


class _Enough(Exception):
    """Ends a training."""


def _memory(name: str) -> float:
    # The peak of getrusage would begin with the parent's.
    found = re.search(rf"{name}:\s*(\d+) kB", _STATUS.read_text())
    return int(found.group(1)) * 1024 / 1e6


def train(name: str, contender: str) -> None:
    """Trains in this process."""
    # What is printed here mustn't be taken for reports.
    reports = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    client = clients.CLIENTS[name]
    left = 1
    started = 0.0, 0.0

    def done(loss: Any) -> None:
        nonlocal left, started
        left -= 1
        if left:
            return
        loss = float(loss)
        seconds = time.perf_counter() - started[0]
        cpu_seconds = time.process_time() - started[1]
        if client.keeps:
            gc.collect()
        memory = _memory("VmRSS"), _memory("VmHWM")
        report = Report(seconds, cpu_seconds, *memory, loss)
        print(json.dumps(report), file=reports, flush=True)
        request = sys.stdin.readline()
        if not request:
            raise _Enough
        left = int(request)
        started = time.perf_counter(), time.process_time()

    keras.utils.set_random_seed(1)  # The same weights for each.
    run = client.make(clients.make_optimizer(client, contender), done)
    started = time.perf_counter(), time.process_time()
    with contextlib.suppress(_Enough):
        run()


class _Training:
    """A training in another process, and its reports."""

    def __init__(self, name: str, contender: str) -> None:
        command = [sys.executable, __file__, name, contender]
        self.errors = tempfile.TemporaryFile("w+")
        self.client = clients.CLIENTS[name]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self.reports: list[Report] = []
        self.receive()

    def receive(self) -> None:
        """Waits for a report."""
        line = self.process.stdout.readline()
        if not line:
            self.errors.seek(0)
            raise RuntimeError(f"A training failed:\n{self.errors.read()}")
        self.reports.append(Report(*json.loads(line)))

    def step(self) -> None:
        """Trains some steps."""
        print(self.client.steps, file=self.process.stdin, flush=True)
        self.receive()

    def summarize(self, wall: Measurement) -> dict[str, Measurement]:
        """Returns all that was measured, with the time of steps."""
        # Steps before the samples show how long one takes.
        later = self.reports[-len(wall.samples) :]
        first, *_, warm = self.reports[: -len(later)]
        steps = self.client.steps
        cpu = [1e3 * each.cpu_seconds / steps for each in later]
        memory = later[-1].peak
        if self.client.keeps:
            memory = (later[-1].memory - warm.memory) / (steps * len(later))
        return {
            "step, ms": wall,
            "CPU, ms": Measurement(cpu),
            "first step, s": Measurement([first.seconds]),
            "memory, MB": Measurement([memory]),
        }

    def losses(self) -> list[float]:
        """Returns the last loss: it changes and is finite if variables are."""
        return [self.reports[-1].loss]

    def end(self) -> None:
        """Ends the process."""
        self.process.stdin.close()
        self.process.wait()


def measure(variant: str, workload: str, rounds: int, quick: bool) -> list[Row]:
    """Measures a client with each of its optimizers."""
    client = clients.CLIENTS[workload]
    trainings: dict[str, _Training] = {}
    with contextlib.ExitStack() as ends:
        for contender in client.contenders:
            trainings[contender] = _Training(workload, contender)
            ends.callback(trainings[contender].end)
        measured = turns.measure(
            {
                name: turns.Contender(each.step, each.losses)
                for name, each in trainings.items()
            },
            rounds,
            seconds=3 if quick else 12,
            micro_steps=client.steps,
        )
    found = {
        name: each.summarize(measured[name]) for name, each in trainings.items()
    }
    return [
        results.row(client.title, what, name, found[name][what])
        for what in found[client.contenders[0]]
        for name in found
    ]


if __name__ == "__main__":
    train(*sys.argv[1:])
