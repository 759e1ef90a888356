"""The optimizers that are measured, alone and with what a step does besides."""

from __future__ import annotations

import dataclasses
from typing import Any

FLOOR = "memory floor"
CALL = "call alone, tf.function"
TF_OPT = "tf_opt, tf.function"
TF_OPT_EAGER = "tf_opt, eager"
TF_OPT_WITHOUT = "tf_opt without it, tf.function"
TF_OPT_XLA = "tf_opt, XLA"
COMPOSED_XLA = "tf_opt composed, XLA"
COMPOSED_EAGER = "tf_opt composed, eager"
KERAS = "Keras, tf.function"
KERAS_XLA = "Keras, XLA"
KERAS_EAGER = "Keras, eager"
TF_CORE = "TF core op, tf.function"
TORCH_FUSED = "torch, fused"
TORCH_FOREACH = "torch, foreach"
# Of sparse gradients.
ROW_FLOOR = "row floor"
ALL_ROWS_FLOOR = "floor of all rows"
TF_OPT_LAZY = "tf_opt lazy, tf.function"
TF_OPT_LAZY_EAGER = "tf_opt lazy, eager"
# What `global_clipnorm` adds to a lazy step.
TF_OPT_MEASURING = "tf_opt measuring, tf.function"
TORCH_SPARSE = "torch, SparseAdam"

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
# Below the gradients' norm, also the smallest model's: all are scaled.
GLOBAL_CLIPNORM = 1.0
EMA_MOMENTUM = 0.99


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
        loss_scaled: Whether a LossScaleOptimizer is around it.
        passes: The passes over memory that a step can't do without, with all
            its micro-steps: each reads the gradient, and reads and writes so
            many arrays of its size. The variable is one of the last pass'.
        without: The variant that lacks what this one is about, to be measured
            beside it; empty for none.
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
    loss_scaled: bool = False
    passes: tuple[int, ...] = (3,)
    without: str = ""
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

    @property
    def global_clipnorm(self) -> float | None:
        """The norm to which all gradients together are clipped."""
        return self.arguments.get("global_clipnorm")

    @property
    def ema_momentum(self) -> float | None:
        """The momentum of the variables' averages; None for no averages."""
        return self.arguments.get("ema_momentum")

    @property
    def micro_steps(self) -> int:
        """How many gradients are accumulated for a step."""
        return self.arguments.get("gradient_accumulation_steps", 1)

    @property
    def slots(self) -> int:
        """How many arrays a step reads and writes besides the variable."""
        return self.passes[-1] - 1

    @property
    def bytes_per_parameter(self) -> float:
        """The traffic of a micro-step, the mean of all; slots are float32."""
        size = {"bfloat16": 2, "float32": 4}[self.dtype]
        narrower = 2 * (4 - size)  # The variable's, in and out.
        traffic = size * len(self.passes) + 8 * sum(self.passes) - narrower
        return traffic / self.micro_steps


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
    own_options: dict[str, Any] | None = None,
    passes: tuple[int, ...] | None = None,
    **variant: Any,
) -> Variant:
    """Adam or AdamW; `options` are for Keras' base class or only for ours."""
    arguments = {**_MOMENTS, "amsgrad": amsgrad, **(options or {})}
    if weight_decay is not None:
        arguments["weight_decay"] = weight_decay
    return Variant(
        title,
        optimizer,
        arguments,
        own_arguments={"epsilon_hat": True, **(own_options or {})},
        keras_optimizer=optimizer,
        torch_optimizer=optimizer,
        torch_arguments={
            **_TORCH_MOMENTS,
            "amsgrad": amsgrad,
            "weight_decay": weight_decay or 0.0,
        },
        passes=passes or ((4,) if amsgrad else (3,)),
        **variant,
    )


FEATURE_WORKLOADS = ("mlp", "resnet-50", "bert-base", "1000x256")
# Without XLA, which compiles 1,000 tensors for half a minute and more.
_FEATURE_CONTENDERS = (
    FLOOR,
    TF_OPT,
    TF_OPT_EAGER,
    TF_OPT_WITHOUT,
    TORCH_FUSED,
    KERAS,
    KERAS_EAGER,
)
_ONLY_OURS = (FLOOR, TF_OPT, TF_OPT_EAGER, TF_OPT_WITHOUT)


def _feature(title: str, passes: tuple[int, ...], **variant: Any) -> Variant:
    """AdamW, and what else a user's step does."""
    defaults = {
        "without": "adamw",
        "contenders": _FEATURE_CONTENDERS,
        "workloads": FEATURE_WORKLOADS,
    }
    return _adam(
        title,
        "AdamW",
        weight_decay=0.01,
        passes=passes,
        **{**defaults, **variant},
    )


_CLIP = {"global_clipnorm": GLOBAL_CLIPNORM}
_EMA = {"use_ema": True, "ema_momentum": EMA_MOMENTUM}


OPTIMIZERS: dict[str, Variant] = {
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
        passes=(2,),
        contenders=(FLOOR, TF_OPT, TF_OPT_EAGER, TORCH_FOREACH),
    ),
}

# The norm takes a pass of its own over the gradients, and an average is one
# array more in the other; so are accumulated gradients, which is where each of
# the micro-steps before goes.
FEATURES: dict[str, Variant] = {
    "adamw-clip": _feature("AdamW + global_clipnorm", (0, 3), options=_CLIP),
    "adamw-ema": _feature("AdamW + EMA", (4,), options=_EMA),
    "adamw-clip-ema": _feature(
        "AdamW + global_clipnorm + EMA",
        (0, 4),
        options=_CLIP | _EMA,
        contenders=(*_FEATURE_CONTENDERS, CALL, KERAS_XLA),
    ),
    "adamw-clip-ema-loss-scale": _feature(
        "AdamW + global_clipnorm + EMA + loss scale",
        (0, 4),
        options=_CLIP | _EMA,
        loss_scaled=True,
        without="adamw-clip-ema",
    ),
    "adamw-skip-nonfinite": _feature(
        "AdamW + skip_nonfinite",
        (0, 3),
        own_options={"skip_nonfinite": True},
        contenders=_ONLY_OURS,
    ),
    "adamw-accumulate": _feature(
        "AdamW, 4 gradients accumulated",
        (1, 1, 1, 4),
        options={"gradient_accumulation_steps": 4},
    ),
}

# A process of its own: what XLA compiled keeps memory, and takes its time.
COMPILED: dict[str, Variant] = {
    "adam-compiled": _adam(
        "Adam under XLA",
        contenders=(FLOOR, TF_OPT, TF_OPT_XLA, COMPOSED_XLA, KERAS_XLA),
        workloads=("resnet-50", "bert-base", "1000x256", "single"),
    ),
}

# Where the custom ops aren't: asked for by name.
COMPOSED: dict[str, Variant] = {
    "adam-composed": _adam(
        "Adam, composed",
        contenders=(
            FLOOR,
            TF_OPT,
            TF_OPT_EAGER,
            COMPOSED_EAGER,
            KERAS,
            KERAS_EAGER,
        ),
        workloads=("60-tensors", "resnet-50", "1000x256"),
    ),
}

VARIANTS = OPTIMIZERS | FEATURES | COMPILED | COMPOSED
