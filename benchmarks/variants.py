"""The optimizers that are measured, and which contenders take part."""

from __future__ import annotations

import dataclasses
from typing import Any

FLOOR = "memory floor"
CALL = "call alone, tf.function"
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
    CALL,
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
# A step of gradient descent must change a variable's norm visibly, too.
SGD_LEARNING_RATE = 0.1
BETA_1 = 0.9
BETA_2 = 0.999
EPSILON = 1e-7


@dataclasses.dataclass(frozen=True)
class Variant:
    """One optimizer with its settings.

    Attributes:
        title: What people call it.
        optimizer: The name of the class in tf_opt.
        arguments: Its arguments that Keras' class takes too.
        own_arguments: Those that only tf_opt's takes: so that both compute
            the same formula.
        keras_optimizer: The name of the class in Keras.
        torch_optimizer: The name of the class in torch.
        torch_arguments: Its arguments.
        slots: How many arrays of the variable's size a step reads and writes
            besides the variable.
        dtype: The type of variables and gradients.
        contenders: Who takes part.
        workloads: Whose shapes are measured; None for all.
    """

    title: str
    optimizer: str
    arguments: dict[str, Any]
    own_arguments: dict[str, Any] = dataclasses.field(default_factory=dict)
    keras_optimizer: str = ""
    torch_optimizer: str = ""
    torch_arguments: dict[str, Any] = dataclasses.field(default_factory=dict)
    slots: int = 2
    dtype: str = "float32"
    contenders: tuple[str, ...] = ALL_CONTENDERS
    workloads: tuple[str, ...] | None = None

    @property
    def amsgrad(self) -> bool:
        """Whether AMSGrad's maximum is kept."""
        return self.arguments.get("amsgrad", False)

    @property
    def weight_decay(self) -> float | None:
        """The decoupled decay; None for none."""
        return self.arguments.get("weight_decay")


_MOMENTS = {
    "learning_rate": LEARNING_RATE,
    "beta_1": BETA_1,
    "beta_2": BETA_2,
    "epsilon": EPSILON,
}
_TORCH_MOMENTS = {
    "lr": LEARNING_RATE,
    "betas": (BETA_1, BETA_2),
    "eps": EPSILON,
}


def _adam(
    title: str,
    optimizer: str = "Adam",
    amsgrad: bool = False,
    weight_decay: float | None = None,
    options: dict[str, Any] | None = None,
    **variant: Any,
) -> Variant:
    """Adam or AdamW; `options` are for Keras' base class."""
    arguments = {**_MOMENTS, "amsgrad": amsgrad, **(options or {})}
    if weight_decay is not None:
        arguments["weight_decay"] = weight_decay
    return Variant(
        title,
        optimizer,
        arguments,
        own_arguments={"epsilon_hat": True},
        keras_optimizer=optimizer,
        torch_optimizer=optimizer,
        torch_arguments={
            **_TORCH_MOMENTS,
            "amsgrad": amsgrad,
            "weight_decay": weight_decay or 0.0,
        },
        slots=3 if amsgrad else 2,
        **variant,
    )


VARIANTS: dict[str, Variant] = {
    "adam": _adam("Adam"),
    "adam-amsgrad": _adam("Adam, AMSGrad", amsgrad=True),
    "adamw": _adam("AdamW", "AdamW", weight_decay=0.01),
    "adamw-amsgrad": _adam(
        "AdamW, AMSGrad", "AdamW", amsgrad=True, weight_decay=0.01
    ),
    "adam-bfloat16": _adam(
        "Adam, bfloat16",
        dtype="bfloat16",
        contenders=(FLOOR, TF_OPT),
        workloads=("bert-base", "single"),
    ),
    "adamw-clip-ema": _adam(
        "AdamW + global_clipnorm + EMA",
        "AdamW",
        weight_decay=0.01,
        options={"global_clipnorm": 1.0, "use_ema": True},
        contenders=(TF_OPT, KERAS),
        workloads=("resnet-50",),
    ),
    "nadam": Variant(
        "NAdam",
        "NAdam",
        _MOMENTS,
        own_arguments={"momentum_decay": 1.0},
        keras_optimizer="Nadam",
        torch_optimizer="NAdam",
        torch_arguments={**_TORCH_MOMENTS, "momentum_decay": 1.0},
        contenders=(
            FLOOR,
            TF_OPT,
            TF_OPT_EAGER,
            KERAS,
            TORCH_FOREACH,
            KERAS_EAGER,
        ),
    ),
    # Nobody else has it. One batch: the rows of the others aren't touched.
    "asgd": Variant(
        "ASGD",
        "ASGD",
        {"learning_rate": SGD_LEARNING_RATE},
        own_arguments={"batch_num": 1},
        contenders=(FLOOR, TF_OPT, TF_OPT_EAGER),
    ),
    "averaged-sgd": Variant(
        "AveragedSGD",
        "AveragedSGD",
        {"learning_rate": SGD_LEARNING_RATE},
        own_arguments={"t0": 0},
        torch_optimizer="ASGD",
        torch_arguments={"lr": SGD_LEARNING_RATE, "t0": 0},
        slots=1,
        contenders=(FLOOR, TF_OPT, TF_OPT_EAGER, TORCH_FOREACH),
    ),
}
