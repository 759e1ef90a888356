"""Measures one optimizer on one workload, in a process of its own.

run.py starts it once for each case: TensorFlow never frees the graph of
Keras' optimizers with all that it captured, and several cases would not fit
into memory. What it has to say it prints as JSON, a line a message: first
`{"doing": ..., "part": ...}` before every step, at last
`{"machine": ..., "rows": ...}`.
"""

from __future__ import annotations

import argparse
import json
import logging
import os

# Before the imports that import TensorFlow.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import contenders
import low_precision_contenders
import low_precision_variants
import machine
import measure
import sparse_contenders
import variants
from all_variants import ALL_VARIANTS
from all_workloads import ALL_WORKLOADS
from low_precision_variants import LowPrecision
from shapes import Workload
from sparse_workloads import SparseWorkload
from variants import Variant


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("variant", choices=ALL_VARIANTS)
    parser.add_argument("workload", choices=ALL_WORKLOADS)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--without", nargs="*", default=[])
    return parser.parse_args()


def _make(
    variant: Variant,
    workload: Workload | SparseWorkload,
    without: list[str],
) -> dict[str, measure.Contender]:
    """The case's contenders."""
    if isinstance(variant, LowPrecision):
        return low_precision_contenders.make(variant, workload, without)
    if isinstance(workload, SparseWorkload):
        return sparse_contenders.make(variant, workload, without)
    return contenders.make(variant, workload, without)


def _references(
    variant: Variant, workload: Workload | SparseWorkload, name: str
) -> tuple[str | None, str]:
    """Which floor and which of tf_opt's a contender is compared with."""
    if isinstance(variant, LowPrecision):
        return variant.floor_of(name), low_precision_variants.PLAIN.tf_opt
    if isinstance(workload, SparseWorkload):
        return variants.ROW_FLOOR, variants.TF_OPT_LAZY
    return variants.FLOOR, variants.TF_OPT


def _rows(
    variant: str,
    workload: str,
    measurements: dict[str, measure.Measurement],
) -> list[dict]:
    """One row for each contender, ready for JSON."""
    medians = {name: m.median_ms for name, m in measurements.items()}

    def ratio(name: str, reference: str | None) -> float | None:
        if reference not in medians:
            return None
        return medians[name] / medians[reference]

    rows = []
    for name, measurement in measurements.items():
        floor, tf_opt = _references(
            ALL_VARIANTS[variant], ALL_WORKLOADS[workload], name
        )
        row = {
            "workload": workload,
            "tensors": len(ALL_WORKLOADS[workload].shapes),
            "parameters": ALL_WORKLOADS[workload].parameters,
            "variant": variant,
            "contender": name,
            "median_ms": medians[name],
            "samples_ms": measurement.samples_ms,
            "first_call_ms": measurement.first_call_ms,
            "ratio_to_floor": ratio(name, floor),
            "ratio_to_tf_opt": ratio(name, tf_opt),
        }
        rows.append(row)
    return rows


def _say(**message: object) -> None:
    print(json.dumps(message), flush=True)


def main() -> None:
    """Measures the case that the command line names."""
    arguments = _parse_arguments()
    # One function for each contender looks to TensorFlow like retracing.
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    contenders.use_cores(machine.count_cores())
    contenders.check_prerequisites()

    _say(doing="building", part=0.0)
    variant = ALL_VARIANTS[arguments.variant]
    workload = ALL_WORKLOADS[arguments.workload]
    measurements = measure.measure(
        _make(variant, workload, arguments.without),
        rounds=arguments.rounds,
        seconds=arguments.seconds,
        # The loops of accumulating optimizers are no longer than the others'.
        steps=max(1, workload.steps // variant.micro_steps),
        on_progress=lambda doing, part: _say(doing=doing, part=part),
        micro_steps=variant.micro_steps,
    )
    rows = _rows(arguments.variant, arguments.workload, measurements)
    _say(machine=machine.describe(), rows=rows)


if __name__ == "__main__":
    main()
