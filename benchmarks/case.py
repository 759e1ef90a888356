"""Measures one case, in a process of its own.

run.py starts it once for each case: TensorFlow never frees the graph of Keras'
optimizers with all that it captured, and several cases would not fit into
memory. It prints JSON, one message a line: `{"doing": ..., "part": ...}` before
every step, and at last the machine, the software and the rows.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
from collections.abc import Callable
from collections.abc import Sequence
from typing import NamedTuple

# Before the imports that import TensorFlow.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

from suites import SUITES


class Options(NamedTuple):
    """How to measure a case.

    Attributes:
        rounds: How many samples each contender has.
        quick: Whether to finish soon.
        without: The contenders to leave out.
        on_progress: Called with what runs now and the part of the work done.
    """

    rounds: int
    quick: bool
    without: Sequence[str]
    on_progress: Callable[[str, float], None]


def _print(**message: object) -> None:
    print(json.dumps(message), flush=True)


def main(
    arguments: Sequence[str] | None = None,
    write: Callable[..., None] = _print,
) -> None:
    """Measures the case that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("variant")
    parser.add_argument("workload")
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--without", nargs="*", default=[])
    parsed = parser.parse_args(arguments)
    # To TensorFlow, one function for each contender looks like retracing.
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    write(doing="building", part=0.0)
    # It may import torch, and some versions crash if TensorFlow came first.
    module = importlib.import_module(SUITES[parsed.suite].module)
    rows = module.measure(
        parsed.variant,
        parsed.workload,
        Options(
            parsed.rounds,
            parsed.quick,
            parsed.without,
            lambda doing, part: write(doing=doing, part=part),
        ),
    )
    machine = importlib.import_module("machine")
    write(
        machine=machine.describe(),
        software=machine.software(),
        rows=rows,
    )


if __name__ == "__main__":
    main()
