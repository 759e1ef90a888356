"""The workloads of the proof: those of `make bench`, and a larger one."""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "benchmarks"))
import shapes

# Of these tensors there are 1,000.
MANY = shapes.WORKLOADS["1000x256"].title
FAR_LARGER_THAN_CACHES = "BERT-base x 8"

# The shape of each tensor, by the workload's title.
WORKLOADS: dict[str, list[shapes.Shape]] = {
    **{each.title: each.shapes for each in shapes.WORKLOADS.values()},
    FAR_LARGER_THAN_CACHES: 8 * shapes.WORKLOADS["bert-base"].shapes,
}
