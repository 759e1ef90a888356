"""Adam on variables of 16 bits, and with state of 16 bits: who keeps what."""

from __future__ import annotations

import dataclasses

import variants
from variants import Variant

WORKLOADS = ("single", "bert-base")

TORCH_FLOAT32 = "torch, fused, float32"
TORCH_BFLOAT16 = "torch, fused, bfloat16"

_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}


@dataclasses.dataclass(frozen=True)
class Precision:
    """What a step of Adam keeps in which type, and how it rounds.

    Attributes:
        variables: The type of the variables and of their gradients.
        state: The type of both moments.
        master_weights: Whether there is a float32 copy of the variables.
        stochastic_rounding: Whether the variables are rounded at random.
    """

    variables: str
    state: str = "float32"
    master_weights: bool = False
    stochastic_rounding: bool = False

    @property
    def arrays(self) -> tuple[str, ...]:
        """The type of each array that a step reads and writes."""
        masters = ("float32",) * self.master_weights
        return (self.variables, *masters, self.state, self.state)

    @property
    def gradient_bytes(self) -> int:
        """What a step reads of the gradient, for each parameter."""
        return _BYTES[self.variables]

    @property
    def array_bytes(self) -> int:
        """What it reads and writes besides."""
        return 2 * sum(_BYTES[dtype] for dtype in self.arrays)

    @property
    def bytes_per_parameter(self) -> int:
        """The traffic of a step."""
        return self.gradient_bytes + self.array_bytes

    @property
    def kept(self) -> str:
        """What is kept besides the variables, in words."""
        masters = "master weights, " if self.master_weights else ""
        return f"{masters}{self.state} state"

    @property
    def floor(self) -> str:
        """The contender that moves the same bytes."""
        return f"floor, {self.kept}"

    @property
    def tf_opt(self) -> str:
        """The contender that is tf_opt with it."""
        rounded = ", stochastic" if self.stochastic_rounding else ""
        return f"tf_opt, {self.kept}{rounded}"


# What there is for variables of 16 bits. The contenders have the same names on
# float16 variables, and, those without more than state, on float32 ones.
PLAIN = Precision("bfloat16")
STOCHASTIC = Precision("bfloat16", stochastic_rounding=True)
STATE_16 = Precision("bfloat16", "bfloat16")
STATE_16_STOCHASTIC = Precision(
    "bfloat16", "bfloat16", stochastic_rounding=True
)
MASTERS = Precision("bfloat16", master_weights=True)
MASTERS_STATE_16 = Precision("bfloat16", "bfloat16", master_weights=True)
_ALL = (
    PLAIN,
    STOCHASTIC,
    STATE_16,
    STATE_16_STOCHASTIC,
    MASTERS,
    MASTERS_STATE_16,
)


@dataclasses.dataclass(frozen=True)
class LowPrecision(Variant):
    """Adam on variables of one type, with several types of state beside it.

    Attributes:
        precisions: What each contender keeps, by its name; of those that only
            move bytes none.
    """

    precisions: dict[str, Precision] = dataclasses.field(default_factory=dict)

    @property
    def floors(self) -> dict[str, Precision]:
        """By name: whose bytes each contender moves that only does this."""
        return {
            precision.floor: precision
            for precision in self.precisions.values()
            if precision.variables == self.dtype
        }

    def floor_of(self, contender: str) -> str | None:
        """The contender that moves this one's bytes; None for none.

        Args:
            contender: A name, also one of those that move bytes.
        """
        if contender in self.floors:
            return contender
        precision = self.precisions[contender]
        return precision.floor if precision.variables == self.dtype else None


def _low_precision(
    variables: str,
    kinds: tuple[Precision, ...],
    others: dict[str, Precision],
    workloads: tuple[str, ...] = WORKLOADS,
) -> LowPrecision:
    ours = [dataclasses.replace(kind, variables=variables) for kind in kinds]
    precisions = {precision.tf_opt: precision for precision in ours} | others
    variant = LowPrecision(
        **vars(variants.VARIANTS["adam"])
        | {
            "title": f"{variables} variables",
            "dtype": variables,
            "workloads": workloads,
        },
        precisions=precisions,
    )
    return dataclasses.replace(
        variant, contenders=(*variant.floors, *precisions)
    )


_TORCH = {TORCH_FLOAT32: Precision("float32")}


# A process for each type of variables: all together would not fit into memory.
# PyTorch's in float32, which everybody is compared with, takes part in each.
LOW_PRECISION: dict[str, LowPrecision] = {
    "float32-variables": _low_precision(
        "float32",
        (PLAIN, STATE_16),
        _TORCH | {variants.KERAS: Precision("float32")},
    ),
    "bfloat16-variables": _low_precision(
        "bfloat16",
        _ALL,
        _TORCH
        | {
            # Their state is of the variables' type.
            TORCH_BFLOAT16: Precision("bfloat16", "bfloat16"),
            variants.KERAS: Precision("bfloat16", "bfloat16"),
        },
    ),
    "float16-variables": _low_precision(
        "float16",
        _ALL,
        _TORCH,
        workloads=("single",),
    ),
}

# Keras' would be the one for which there is no memory left.
WITHOUT = {("bfloat16-variables", "bert-base"): (variants.KERAS,)}
