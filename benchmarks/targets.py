"""The ratios that tf_opt sets out to reach."""

from __future__ import annotations

import dataclasses

import variants
from all_variants import ALL_VARIANTS
from all_workloads import ALL_WORKLOADS
from low_precision_variants import MASTERS
from low_precision_variants import MASTERS_STATE_16
from low_precision_variants import PLAIN
from low_precision_variants import STATE_16
from low_precision_variants import STATE_16_STOCHASTIC
from low_precision_variants import STOCHASTIC
from low_precision_variants import TORCH_FLOAT32
from report import Row
from table import Table

_ADAM = ("adam", "adamw")
_AMSGRAD = ("adam-amsgrad", "adamw-amsgrad")


@dataclasses.dataclass(frozen=True)
class Target:
    """How tf_opt's time must stand to a reference's in the same run.

    Attributes:
        reference: The contender to compare with.
        limit: If `faster`, how many times as fast tf_opt must be at least;
            otherwise how many times the reference's time it may take at most.
        faster: Which of the two.
        workloads: Where; empty for everywhere.
        optimizers: The variants that must reach it.
        contender: Which of tf_opt's contenders.
        first_call: Whether it is about the first call, with tracing and
            compiling, and not about the steps after it.
    """

    reference: str
    limit: float
    faster: bool = True
    workloads: tuple[str, ...] = ()
    optimizers: tuple[str, ...] = _ADAM + _AMSGRAD
    contender: str = variants.TF_OPT
    first_call: bool = False

    def ratio(self, times: dict[str, float]) -> float:
        """This target's ratio, from the contenders' times."""
        ratio = times[self.contender] / times[self.reference]
        return 1 / ratio if self.faster else ratio

    def reached_by(self, ratio: float) -> bool:
        """Whether this ratio is good enough."""
        return ratio >= self.limit if self.faster else ratio <= self.limit

    def __str__(self) -> str:
        what = ", first call" if self.first_call else ""
        if self.faster:
            return (
                f"{self.reference} / {self.contender}{what} >= {self.limit:g}"
            )
        return f"{self.contender} / {self.reference}{what} <= {self.limit:.2f}"


_LARGE = ("bert-base", "single")
_MODELS = ("resnet-50", "1000x256", *_LARGE)
_SMALL = ("60-tensors", "60-layers")
_CLIP_EMA = ("adamw-clip-ema",)
_TABLES = ("table-uniform", "table-zipf")
_FLOAT32 = ("float32-variables",)
_BFLOAT16 = ("bfloat16-variables",)
_COMPILED = ("adam-compiled",)
_16_BITS = ("float16-variables", *_BFLOAT16)

TARGETS = (
    Target(variants.FLOOR, 1.10, faster=False, workloads=_LARGE),
    Target(variants.TORCH_FUSED, 1.0, faster=False, workloads=_MODELS),
    Target(variants.KERAS, 1.5, workloads=("mlp",)),
    Target(variants.KERAS, 2, workloads=_SMALL),
    Target(variants.KERAS, 4, workloads=("resnet-50",)),
    Target(variants.KERAS, 7, workloads=("bert-base",)),
    Target(variants.KERAS, 2.5, workloads=("1000x256",)),
    Target(
        variants.TORCH_FUSED,
        2.5,
        faster=False,
        workloads=("mlp",),
        contender=variants.TF_OPT_EAGER,
    ),
    Target(
        variants.KERAS_EAGER,
        20,
        workloads=("mlp",),
        contender=variants.TF_OPT_EAGER,
    ),
    Target(
        variants.KERAS_EAGER,
        25,
        workloads=_MODELS,
        contender=variants.TF_OPT_EAGER,
    ),
    Target(
        variants.KERAS_EAGER,
        3,
        optimizers=("adam-composed",),
        contender=variants.COMPOSED_EAGER,
    ),
    Target(variants.TF_CORE, 1.3, workloads=_MODELS, optimizers=_ADAM),
    Target(variants.TF_CORE, 1.6, workloads=_MODELS, optimizers=_AMSGRAD),
    Target(variants.FLOOR, 1.3, faster=False, optimizers=("adam-bfloat16",)),
    Target(
        variants.FLOOR,
        1.15,
        faster=False,
        workloads=("bert-base",),
        optimizers=("nadam", "asgd"),
    ),
    Target(variants.KERAS, 10, workloads=_MODELS, optimizers=("nadam",)),
    Target(
        variants.FLOOR,
        1.25,
        faster=False,
        workloads=("resnet-50",),
        optimizers=(*_CLIP_EMA, "adamw-skip-nonfinite"),
    ),
    Target(
        variants.TORCH_FUSED,
        1.1,
        workloads=("resnet-50", "bert-base"),
        optimizers=_CLIP_EMA,
    ),
    Target(variants.KERAS, 3, optimizers=_CLIP_EMA),
    Target(
        variants.TF_OPT_WITHOUT,
        1.1,
        faster=False,
        workloads=("resnet-50",),
        optimizers=("adamw-clip-ema-loss-scale",),
    ),
    Target(
        variants.FLOOR,
        1.2,
        faster=False,
        workloads=("resnet-50",),
        optimizers=("adamw-accumulate",),
    ),
    Target(
        variants.KERAS,
        1.3,
        workloads=("resnet-50",),
        optimizers=("adamw-accumulate",),
    ),
    Target(
        variants.KERAS,
        200,
        workloads=_TABLES,
        contender=variants.TF_OPT_LAZY,
    ),
    Target(
        variants.TORCH_SPARSE,
        2,
        workloads=_TABLES,
        contender=variants.TF_OPT_LAZY,
    ),
    Target(
        variants.ROW_FLOOR,
        2,
        faster=False,
        workloads=_TABLES,
        contender=variants.TF_OPT_LAZY,
    ),
    Target(variants.KERAS, 8, workloads=_TABLES),
    Target(
        variants.KERAS,
        20,
        workloads=("26-tables",),
        contender=variants.TF_OPT_LAZY,
    ),
    Target(
        STATE_16_STOCHASTIC.floor,
        1.25,
        faster=False,
        optimizers=_BFLOAT16,
        contender=STATE_16_STOCHASTIC.tf_opt,
    ),
    Target(
        TORCH_FLOAT32,
        1.8,
        optimizers=_BFLOAT16,
        contender=STATE_16_STOCHASTIC.tf_opt,
    ),
    Target(
        TORCH_FLOAT32,
        1.25,
        optimizers=_FLOAT32,
        contender=STATE_16.tf_opt,
    ),
    Target(
        MASTERS.floor,
        1.25,
        faster=False,
        optimizers=_16_BITS,
        contender=MASTERS.tf_opt,
    ),
    Target(
        MASTERS_STATE_16.floor,
        1.25,
        faster=False,
        optimizers=_16_BITS,
        contender=MASTERS_STATE_16.tf_opt,
    ),
    *(
        Target(
            variants.KERAS_XLA,
            limit,
            workloads=(workload,),
            optimizers=_COMPILED,
            contender=variants.TF_OPT_XLA,
            first_call=True,
        )
        for workload, limit in (("resnet-50", 8), ("1000x256", 10))
    ),
    *(
        Target(
            variants.KERAS_XLA,
            limit,
            workloads=workloads,
            optimizers=_COMPILED,
            contender=variants.TF_OPT_XLA,
        )
        for workloads, limit in (
            (("resnet-50", *_LARGE), 1.3),
            (("1000x256",), 1),
        )
    ),
    Target(
        variants.TF_OPT,
        1.15,
        faster=False,
        workloads=("resnet-50", *_LARGE),
        optimizers=_COMPILED,
        contender=variants.TF_OPT_XLA,
    ),
    # Where moments are rounded too, no contender's are without random bits.
    Target(
        PLAIN.tf_opt,
        1.1,
        faster=False,
        optimizers=_16_BITS,
        contender=STOCHASTIC.tf_opt,
    ),
)


def table(rows: list[Row]) -> Table:
    """Target by target and workload by workload: was it reached?

    Args:
        rows: The results.

    Returns:
        A table; what was not measured has no line.
    """
    rows_of: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        case = rows_of.setdefault((row["workload"], row["variant"]), {})
        case[row["contender"]] = row

    lines = []
    for target in TARGETS:
        # Of several optimizers the worst counts.
        worst: dict[str, tuple[float, str]] = {}
        for (workload, variant), case in rows_of.items():
            if (
                variant not in target.optimizers
                or (target.workloads and workload not in target.workloads)
                or not {target.contender, target.reference} <= set(case)
            ):
                continue
            key = "first_call_ms" if target.first_call else "median_ms"
            times = {contender: row[key] for contender, row in case.items()}
            found = (target.ratio(times), ALL_VARIANTS[variant].title)
            pick = min if target.faster else max
            worst[workload] = pick(worst.get(workload, found), found)
        for workload, (ratio, title) in worst.items():
            lines.append(
                [
                    str(target),
                    ALL_WORKLOADS[workload].title,
                    f"{ratio:.2f} ({title})",
                    "reached" if target.reached_by(ratio) else "MISSED",
                ]
            )
    return Table(
        "Targets",
        "Ratios of milliseconds; of several optimizers the worst.",
        ["target", "workload", "measured", "result"],
        lines,
    )
