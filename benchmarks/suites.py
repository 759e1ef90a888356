"""The suites: what is measured, by which module, and how it is shown."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

import variants
from shapes import SPARSE_WORKLOADS
from shapes import WORKLOADS
from variants import ALL_VARIANTS


@dataclasses.dataclass(frozen=True)
class Suite:
    """Cases that are measured and shown together.

    Attributes:
        title: The title of the report.
        cases: The variant and the workload of each case. Each case runs in a
            process of its own.
        reference: The contender with which the others of a case are compared.
        help: What the option does.
        module: The module whose `measure` measures a case.
        unit: The unit of the numbers.
        group: The field of a row that has a table for each of its values.
        line: The field that has a line for each.
        column: The field that has a column for each.
        first_calls: Whether there are tables of first calls.
        hidden: Contenders that the picture leaves out, since they would make
            the other bars too short.
        log: Whether bars have a logarithmic scale.
    """

    title: str
    cases: tuple[tuple[str, str], ...]
    reference: str
    help: str
    module: str = "optimizer_steps"
    unit: str = "ms per step"
    group: str = "variant"
    line: str = "contender"
    column: str = "workload"
    first_calls: bool = False
    hidden: tuple[str, ...] = ()
    log: bool = True


def cases_of(names: Collection[str]) -> tuple[tuple[str, str], ...]:
    """Pairs variants with the models that they update."""
    return tuple(
        (name, workload)
        for name in names
        for workload in ALL_VARIANTS[name].workloads or WORKLOADS
    )


DEFAULT = "results"
"""The suite that is measured if the command line names none."""

# By the name of their files, and of their option.
SUITES: dict[str, Suite] = {
    DEFAULT: Suite(
        "Optimizer steps",
        cases_of(variants.OPTIMIZERS),
        variants.TF_OPT,
        "optimizers",
    ),
    "features": Suite(
        "Where a step's time goes",
        (
            *(("adamw", name) for name in variants.FEATURE_WORKLOADS),
            *cases_of(variants.FEATURES),
        ),
        variants.TF_OPT,
        "what clipping, averages and so on add to AdamW's step",
        group="workload",
        line="variant",
        column="contender",
        hidden=(variants.KERAS_EAGER,),
        log=False,
    ),
    "sparse": Suite(
        "Sparse gradients of embedding tables",
        tuple(
            (variant, name)
            for variant in ("adam", "adam-amsgrad")
            for name, workload in SPARSE_WORKLOADS.items()
            if variant in workload.variants
        ),
        variants.TF_OPT_LAZY,
        "sparse gradients of embedding tables",
    ),
    "low-precision": Suite(
        "Adam with variables and state of 16 bits",
        cases_of(variants.LOW_PRECISION),
        variants.TORCH_FLOAT32,
        "Adam with variables and state of 16 bits",
        hidden=(variants.KERAS,),
        log=False,
    ),
    "compiled": Suite(
        "Adam compiled by XLA",
        cases_of(variants.COMPILED),
        variants.TF_OPT_XLA,
        "Adam compiled by XLA, with compiling",
        first_calls=True,
    ),
    "compiled-fit": Suite(
        "Keras' fit of the digits network, compiled by XLA and not",
        (("AdamW", "digits"),),
        variants.TF_OPT_XLA,
        "a network's whole fit, compiled by XLA and not",
        module="compiled_fit",
        unit="ms",
        log=False,
    ),
    "compiled-memory": Suite(
        "Memory of steps compiled by XLA",
        tuple(
            (optimizer, measured)
            for measured in ("step", "fit", "growth")
            for optimizer in ("Keras", "tf_opt")
        ),
        "tf_opt",
        "the memory of steps compiled by XLA",
        module="compiled_memory",
        unit="MiB of the process",
        log=False,
    ),
    "in-cache": Suite(
        "Adam on arrays in the second cache",
        (("adam", "in cache"),),
        "avx512",
        "the engine's loop by instruction set, on arrays in the second cache",
        module="in_cache",
        unit="per element, on one core (cycles) and on all (nanoseconds)",
        line="workload",
        column="contender",
        log=False,
    ),
    "training": Suite(
        "Whole train steps",
        tuple(
            ("AdamW", task)
            for task in ("mlp", "convolutional", "transformer", "embedding")
        ),
        "tf_opt",
        "whole train steps with AdamW and global_clipnorm",
        module="training",
        log=False,
    ),
}
