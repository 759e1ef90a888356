"""The optimizers that are measured, and which contenders take part."""

from __future__ import annotations

import dataclasses
from typing import Any

FLOOR = "memory floor"
TF_OPT = "tf_opt, tf.function"
TF_OPT_EAGER = "tf_opt, eager"
KERAS = "Keras, tf.function"
KERAS_XLA = "Keras, XLA"
KERAS_EAGER = "Keras, eager"
TF_CORE = "TF core op, tf.function"
TORCH_FUSED = "torch, fused"
TORCH_FOREACH = "torch, foreach"

ALL_CONTENDERS = (
    FLOOR,
    TF_OPT,
    TF_OPT_EAGER,
    TORCH_FUSED,
    TF_CORE,
    KERAS_XLA,
    KERAS,
    TORCH_FOREACH,
    KERAS_EAGER,
)

LEARNING_RATE = 1e-3
BETA_1 = 0.9
BETA_2 = 0.999
EPSILON = 1e-7


@dataclasses.dataclass(frozen=True)
class Variant:
    """One optimizer with its settings.

    Attributes:
        title: What people call it.
        optimizer: The name of the class, the same in Keras, tf_opt and torch.
        amsgrad: Whether AMSGrad's maximum is kept.
        weight_decay: The decoupled decay; None for none.
        dtype: The type of variables and gradients.
        options: Further arguments for Keras' base class.
        contenders: Who takes part.
        workloads: Whose shapes are measured; None for all.
    """

    title: str
    optimizer: str
    amsgrad: bool = False
    weight_decay: float | None = None
    dtype: str = "float32"
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    contenders: tuple[str, ...] = ALL_CONTENDERS
    workloads: tuple[str, ...] | None = None

    @property
    def slots(self) -> int:
        """How many slots a variable has."""
        return 3 if self.amsgrad else 2

    @property
    def keras_arguments(self) -> dict[str, Any]:
        """Arguments that the Keras and the tf_opt class both take."""
        arguments = {
            "learning_rate": LEARNING_RATE,
            "beta_1": BETA_1,
            "beta_2": BETA_2,
            "epsilon": EPSILON,
            "amsgrad": self.amsgrad,
            **self.options,
        }
        if self.weight_decay is not None:
            arguments["weight_decay"] = self.weight_decay
        return arguments

    @property
    def torch_arguments(self) -> dict[str, Any]:
        """The same for torch's class."""
        return {
            "lr": LEARNING_RATE,
            "betas": (BETA_1, BETA_2),
            "eps": EPSILON,
            "amsgrad": self.amsgrad,
            "weight_decay": self.weight_decay or 0.0,
        }


VARIANTS: dict[str, Variant] = {
    "adam": Variant("Adam", "Adam"),
    "adam-amsgrad": Variant("Adam, AMSGrad", "Adam", amsgrad=True),
    "adamw": Variant("AdamW", "AdamW", weight_decay=0.01),
    "adamw-amsgrad": Variant(
        "AdamW, AMSGrad", "AdamW", amsgrad=True, weight_decay=0.01
    ),
    "adam-bfloat16": Variant(
        "Adam, bfloat16",
        "Adam",
        dtype="bfloat16",
        contenders=(FLOOR, TF_OPT),
        workloads=("bert-base", "single"),
    ),
    "adamw-clip-ema": Variant(
        "AdamW + global_clipnorm + EMA",
        "AdamW",
        weight_decay=0.01,
        options={"global_clipnorm": 1.0, "use_ema": True},
        contenders=(TF_OPT, KERAS),
        workloads=("resnet-50",),
    ),
}
