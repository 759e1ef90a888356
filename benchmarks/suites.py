"""The suites: what is measured, by which module, and how it is shown."""

import dataclasses
import itertools
from collections.abc import Collection

import variants
from shapes import SPARSE_WORKLOADS, WORKLOADS


@dataclasses.dataclass(frozen=True)
class Suite:
    """Cases that are measured and shown together."""

    title: str
    # The variant and the workload of each case, which has its own process.
    cases: tuple[tuple[str, str], ...]
    # The contender with which the others of a case are compared.
    reference: str
    # Its `measure` measures a case.
    module: str = "contenders"
    unit: str = "ms per step"
    # The fields of a row that have a table, a line, a column and a panel of the
    # picture for each of their values. An empty `group` is one table.
    group: str = "variant"
    line: str = "contender"
    column: str = "workload"
    panel: str = "workload"
    # The only variant of which there is a picture; empty for all.
    drawn: str = ""
    # What a case's first contender is called, whose bar is 100 % long; empty
    # for bars in the unit.
    full: str = ""
    # Whether there are tables of first calls.
    first_calls: bool = False
    # Whether bars have a logarithmic scale.
    log: bool = False


def cases_of(names: Collection[str]) -> tuple[tuple[str, str], ...]:
    """Pairs variants with the models that they update."""
    return tuple(
        (name, workload)
        for name in names
        for workload in variants.VARIANTS[name].workloads or WORKLOADS
    )


# Every optimizer moves memory alike, so one shows how models differ.
_STEPS = (
    *cases_of(["adam"]),
    *itertools.product(
        (name for name in variants.OPTIMIZERS if name != "adam"),
        ("resnet-50", "single"),
    ),
)
_TABLES = ("table-uniform", "table-zipf")
# Too large for all contenders of Adam together.
_WIDE = "table-128"
_SIZES = ("4096-ids", "4096-ids-zipf", "100000-rows", "10000000-rows")

# Those of clients.py, which loads TensorFlow.
_CLIENTS = (
    *("bert", "bert-adafactor", "gpt2", "efficient-net", "gan", "dense"),
    *("small-dense", "lstm"),
    *("dqn", "retrieval", "retrieval-catch-up", "retrieval-lazy", "ratings"),
    *("ratings-row-wise", "dlrm", "dlrm-row-wise", "dlrm-catch-up"),
    *("tfrs-retrieval", "tfrs-retrieval-lazy", "tfrs-ranking", "models"),
)

DEFAULT = "results"
"""The suite that is measured if the command line names none."""

# By the name of their files, and of their option.
SUITES: dict[str, Suite] = {
    DEFAULT: Suite(
        "Optimizer steps",
        _STEPS,
        variants.TF_OPT,
        drawn="adam",
        log=True,
    ),
    "features": Suite(
        "AdamW's step with clipping, averages and so on",
        (
            *(("adamw", name) for name in variants.FEATURE_WORKLOADS),
            *cases_of(variants.FEATURES),
        ),
        variants.TF_OPT,
        group="workload",
        line="variant",
        column="contender",
        log=True,
    ),
    "matrices": Suite(
        "Keras' newest optimizers, and AdamW",
        (
            *cases_of(variants.MATRICES),
            *itertools.product(
                ("adamw", "schedule-free-adamw"),
                ("mlp", "60-tensors", "bert-base"),
            ),
        ),
        variants.TF_OPT,
        log=True,
    ),
    "sparse": Suite(
        "Sparse gradients of embedding tables",
        (
            *(("adam", name) for name in SPARSE_WORKLOADS if name != _WIDE),
            *(
                ("adam-amsgrad", name)
                for name, workload in SPARSE_WORKLOADS.items()
                if not workload.family and name != _WIDE
            ),
            *(("adagrad", name) for name in (*_TABLES, _WIDE, *_SIZES)),
            *itertools.product(("rmsprop", "ftrl"), _TABLES),
        ),
        variants.TF_OPT_LAZY,
        log=True,
    ),
    "low-precision": Suite(
        "Adam with variables and state of 16 bits",
        cases_of(variants.LOW_PRECISION),
        variants.TORCH_FLOAT32,
    ),
    "offload": Suite(
        "AdamW with its state on another device; two logical CPUs, no GPU",
        cases_of(variants.OFFLOAD),
        variants.TORCH_FLOAT32,
    ),
    "compiled": Suite(
        "Adam compiled by XLA",
        cases_of(["adam-compiled"]),
        variants.TF_OPT_XLA,
        first_calls=True,
    ),
    "clients": Suite(
        "Whole training steps",
        tuple(("optimizer", name) for name in _CLIENTS),
        "tf_opt",
        module="trainings",
        unit="memory is the most that the process took, or what each of "
        "many models in a process leaves behind",
        group="",
        line="workload",
        column="measured",
        panel="variant",
        full="Keras",
    ),
}
