"""Optimizers, their options and their contenders."""

import dataclasses
import itertools
from typing import Any

FLOOR = "memory floor"
CALL = "call alone, tf.function"
TF_OPT = "tf_opt, tf.function"
TF_OPT_EAGER = "tf_opt, eager"
TF_OPT_WITHOUT = "tf_opt without it, tf.function"
TF_OPT_XLA = "tf_opt composed, XLA"
COMPOSED_EAGER = "tf_opt composed, eager"
KERAS = "Keras, tf.function"
KERAS_XLA = "Keras, XLA"
KERAS_EAGER = "Keras, eager"
TF_CORE = "TF core op, tf.function"
TORCH_FUSED = "torch, fused"
TORCH_FOREACH = "torch, foreach"
# Sparse gradients.
ROW_FLOOR = "row floor"
ALL_ROWS_FLOOR = "floor of all rows"
TF_OPT_LAZY = "tf_opt lazy, tf.function"
TF_OPT_LAZY_EAGER = "tf_opt lazy, eager"
TF_OPT_LAZY_CLIPPING = "tf_opt lazy with global_clipnorm, tf.function"
TF_OPT_CATCH_UP = "tf_opt catch_up, tf.function"
TF_OPT_CATCH_UP_READS = "tf_opt catch_up before reads, tf.function"
TORCH_SPARSE_ADAM = "torch, SparseAdam"
TORCH_ADAGRAD = "torch, Adagrad"
ROW_WISE_FLOOR = "row floor of row-wise state"
TF_OPT_ROW_WISE = "tf_opt row-wise, tf.function"
FBGEMM = "FBGEMM, row-wise Adagrad"
TF_OPT_LAZY_ADAM = "tf_opt lazy Adam, tf.function"
TF_CORE_ROWS = "TF core op after tf.unique, tf.function"
KERAS_2 = "tf_keras, tf.function"
# Variables and state of 16 bits.
TORCH_FLOAT32 = "torch, fused, float32"
TORCH_BFLOAT16 = "torch, fused, bfloat16"

_OURS = (FLOOR, TF_OPT, TF_OPT_EAGER)
_DENSE = (
    *(FLOOR, CALL, TF_OPT, TF_OPT_EAGER, TORCH_FUSED, TF_CORE, KERAS_XLA),
    *(KERAS, TORCH_FOREACH, KERAS_EAGER),
)
SPARSE = (
    *(ROW_FLOOR, ALL_ROWS_FLOOR, TF_OPT_LAZY, TF_OPT_LAZY_EAGER),
    *(TF_OPT_LAZY_CLIPPING, TF_OPT_CATCH_UP, TF_OPT_CATCH_UP_READS),
    *(TF_OPT, TF_OPT_EAGER, TORCH_SPARSE_ADAM, KERAS),
)
SPARSE_BY_SIZE = (
    *(ROW_FLOOR, TF_OPT_LAZY, TF_OPT_LAZY_CLIPPING, TF_OPT_CATCH_UP, KERAS),
)
# What users of recommender systems' optimizers have.
_ROW_RIVALS = (TF_CORE_ROWS, KERAS_2, KERAS)


@dataclasses.dataclass(frozen=True)
class Variant:
    """One optimizer with its settings."""

    title: str
    optimizer: str  # The name of the class in tf_opt.
    # Those that tf_opt's and Keras' class share; and those of tf_opt's alone,
    # with which both compute the same formula.
    arguments: dict[str, Any]
    own_arguments: dict[str, Any] = dataclasses.field(default_factory=dict)
    rule_slots: int = 2
    # Whether a LossScaleOptimizer is around it.
    loss_scaled: bool = False
    # The variant that lacks this one's feature; empty for none.
    without: str = ""
    dtype: str = "float32"
    # For dense gradients, and for sparse ones; empty for Adam's.
    contenders: tuple[str, ...] = _DENSE
    sparse: tuple[str, ...] = ()
    workloads: tuple[str, ...] | None = None  # None for all.
    # For contenders that keep state of several types: more arguments, by the
    # contender's name; and each array's type, by the floor's name.
    precisions: dict[str, dict[str, Any]] = dataclasses.field(
        default_factory=dict
    )
    floors: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    device: str = ""  # Of the variables; empty for the default one.

    @property
    def micro_steps(self) -> int:
        """How many gradients are accumulated for a step."""
        return self.arguments.get("gradient_accumulation_steps", 1)

    @property
    def slots(self) -> int:
        """How many arrays a step updates besides the variable."""
        options = ("amsgrad", "use_ema", "gradient_accumulation_steps")
        return self.rule_slots + sum(
            bool(self.arguments.get(x)) for x in options
        )

    @property
    def passes(self) -> tuple[int, ...]:
        """How many arrays each pass of a step over the gradient updates.

        Each micro-step before the last adds to a sum, and norms take a pass
        of their own that updates nothing.
        """
        measured = "global_clipnorm" in self.arguments or (
            "skip_nonfinite" in self.own_arguments
        )
        accumulating = (1,) * (self.micro_steps - 1)
        return (*accumulating, *(0,) * measured, 1 + self.slots)


# A step of gradient descent must change a variable's norm visibly, too.
_SGD = {"learning_rate": 0.1}
MOMENTS = {
    "learning_rate": 1e-3,
    "beta_1": 0.9,
    "beta_2": 0.999,
    "epsilon": 1e-7,
}


def _adam(
    title: str,
    optimizer: str = "Adam",
    options: dict[str, Any] | None = None,
    own_options: dict[str, Any] | None = None,
    **variant: Any,
) -> Variant:
    """Adam or AdamW with options of Keras' class, and with tf_opt's own."""
    decay = {"weight_decay": 0.01} if optimizer == "AdamW" else {}
    return Variant(
        title,
        optimizer,
        MOMENTS | decay | (options or {}),
        {"epsilon_hat": True, **(own_options or {})},
        **variant,
    )


def _like_keras(
    title: str,
    rule_slots: int,
    *others: str,
    name: str = "",
    sparse: tuple[str, ...] = (),
    **arguments: Any,
) -> Variant:
    """An optimizer with the numbers of Keras' of the same name."""
    return Variant(
        title,
        name or title,
        _SGD | arguments,
        rule_slots=rule_slots,
        contenders=(*_OURS, CALL, *others, KERAS, KERAS_XLA, KERAS_EAGER),
        sparse=sparse,
    )


_TORCH = (TORCH_FUSED, TORCH_FOREACH)
_AMSGRAD = {"amsgrad": True}
OPTIMIZERS: dict[str, Variant] = {
    "adam": _adam("Adam"),
    "adam-amsgrad": _adam("Adam, AMSGrad", options=_AMSGRAD),
    "adamw": _adam("AdamW", "AdamW"),
    "adamw-amsgrad": _adam("AdamW, AMSGrad", "AdamW", _AMSGRAD),
    "nadam": Variant(
        "NAdam",
        "NAdam",
        MOMENTS,
        {"momentum_decay": 1.0},
        contenders=(*_OURS, KERAS, TORCH_FOREACH, KERAS_EAGER),
    ),
    # Only tf_opt has it. With several batches, a step reads and writes no
    # more: it leaves the other batches' rows alone.
    "asgd": Variant("ASGD", "ASGD", _SGD, {"batch_num": 1}, contenders=_OURS),
    "averaged-sgd": Variant(
        "AveragedSGD",
        "AveragedSGD",
        _SGD,
        {"t0": 0},
        rule_slots=1,
        contenders=(*_OURS, TORCH_FOREACH),
    ),
    "schedule-free-adamw": Variant(
        "ScheduleFreeAdamW",
        "ScheduleFreeAdamW",
        MOMENTS | {"weight_decay": 0.01},
        {"weight_lr_power": 0.0, "decay_in_direction": False},
        contenders=(*_OURS, CALL, KERAS, KERAS_XLA, KERAS_EAGER),
    ),
    "sgd": _like_keras("SGD", 0, *_TORCH),
    "lion": _like_keras("Lion", 1),
    "adagrad": _like_keras(
        *("Adagrad", 1, *_TORCH),
        sparse=(
            *(ROW_FLOOR, ROW_WISE_FLOOR, TF_OPT, TF_OPT_ROW_WISE, TF_OPT_LAZY),
            *(TF_OPT_LAZY_ADAM, FBGEMM, TORCH_ADAGRAD, *_ROW_RIVALS),
        ),
    ),
    "rmsprop": _like_keras(
        *("RMSprop", 1, TORCH_FOREACH),
        sparse=(ROW_FLOOR, TF_OPT_LAZY, TF_OPT_CATCH_UP, *_ROW_RIVALS),
    ),
    "adadelta": _like_keras("Adadelta", 2, TORCH_FOREACH),
    "adamax": _like_keras("Adamax", 2, TORCH_FOREACH),
    "ftrl": _like_keras(
        "Ftrl", 2, sparse=(ROW_FLOOR, TF_OPT_LAZY, *_ROW_RIVALS)
    ),
    "sgd-momentum": _like_keras(
        "SGD, momentum", 1, *_TORCH, name="SGD", momentum=0.9
    ),
}


def _whole(
    title: str,
    name: str = "",
    own_options: dict[str, Any] | None = None,
    **variant: Any,
) -> Variant:
    """An optimizer without an op, which needs sums over a variable."""
    return Variant(
        title,
        name or title,
        **{
            "arguments": {"learning_rate": 1e-3},
            "own_arguments": {"implementation": "auto", **(own_options or {})},
            "contenders": (
                *(TF_OPT, TF_OPT_EAGER, TF_OPT_XLA),
                *(KERAS, KERAS_EAGER, KERAS_XLA),
            ),
            "workloads": ("bert-base", "mlp"),
            **variant,
        },
    )


# Of BERT's variables, the first three are its embeddings. Attention's begin
# with the sixth, and each layer has 16.
_FIRST = [5 + 16 * layer for layer in range(12)]


def _variables(*places: int) -> str:
    numbers = (str(first + place) for first in _FIRST for place in places)
    return f"^variable_({'|'.join(numbers)})$"


_MUON = {"learning_rate": 1e-3, "exclude_layers": ["^variable_[012]$"]}
MATRICES: dict[str, Variant] = {
    "adafactor": _whole("Adafactor"),
    "lamb": _whole("Lamb"),
    "muon": _whole("Muon", arguments=_MUON),
    "muon-bfloat16": _whole(
        "Muon, products in bfloat16",
        "Muon",
        {"ns_bfloat16": True},
        arguments=_MUON,
        contenders=(TF_OPT, KERAS),
    ),
    # Keras' takes biases for matrices, and kernels of three axes for none.
    "muon-heads": _whole(
        "Muon",
        own_options={
            "matrix_axes": {
                _variables(0, 2, 4): 1,
                _variables(6): -1,
                _variables(1, 3, 5): 0,
            },
        },
        arguments=_MUON,
        contenders=(TF_OPT, KERAS),
        workloads=("bert-heads",),
    ),
}

FEATURE_WORKLOADS = ("mlp", "resnet-50", "bert-base", "1000x256")
_FEATURE_OURS = (*_OURS, TF_OPT_WITHOUT)
# Without XLA, which compiles 1,000 tensors for half a minute and more.
_FEATURE = (*_FEATURE_OURS, TORCH_FUSED, KERAS, KERAS_EAGER)


def _feature(title: str, without: str = "adamw", **variant: Any) -> Variant:
    return _adam(
        title,
        "AdamW",
        without=without,
        workloads=FEATURE_WORKLOADS,
        **{"contenders": _FEATURE, **variant},
    )


# Below the gradients' norm of the smallest model: all are scaled.
_CLIP = {"global_clipnorm": 1.0}
_EMA = {"use_ema": True, "ema_momentum": 0.99}
FEATURES: dict[str, Variant] = {
    "adamw-clip": _feature("AdamW + global_clipnorm", options=_CLIP),
    "adamw-ema": _feature("AdamW + EMA", options=_EMA),
    "adamw-clip-ema": _feature(
        "AdamW + global_clipnorm + EMA",
        options=_CLIP | _EMA,
        contenders=(*_FEATURE, CALL, KERAS_XLA),
    ),
    "adamw-clip-ema-loss-scale": _feature(
        "AdamW + global_clipnorm + EMA + loss scale",
        "adamw-clip-ema",
        options=_CLIP | _EMA,
        loss_scaled=True,
    ),
    "adamw-skip-nonfinite": _feature(
        "AdamW + skip_nonfinite",
        own_options={"skip_nonfinite": True},
        contenders=_FEATURE_OURS,
    ),
    "adamw-accumulate": _feature(
        "AdamW, 4 gradients accumulated",
        options={"gradient_accumulation_steps": 4},
    ),
}

OTHERS: dict[str, Variant] = {
    "adam-compiled": _adam(
        "Adam under XLA",
        contenders=(FLOOR, TF_OPT, TF_OPT_XLA, KERAS_XLA),
        workloads=("resnet-50", "bert-base", "1000x256", "single"),
    ),
    # The implementation for machines without the custom ops.
    "adam-composed": _adam(
        "Adam, composed",
        contenders=(*_OURS, COMPOSED_EAGER, KERAS, KERAS_EAGER),
        workloads=("60-tensors", "resnet-50", "1000x256"),
    ),
}


def _low_precision(
    dtype: str,
    kinds: list[dict[str, bool]],
    others: tuple[str, ...] = (),
    workloads: tuple[str, ...] = ("single", "bert-base"),
) -> Variant:
    """Adam with variables of one type, and several types of state."""
    floors, options = {}, {}
    for kind, state in itertools.product(kinds, ("float32", "bfloat16")):
        masters = "master_weights" in kind
        kept = f"{'master weights, ' * masters}{state} state"
        rounded = ", stochastic" * ("stochastic_rounding" in kind)
        arrays = (dtype, *("float32",) * masters, state, state)
        floors[f"floor, {kept}"] = arrays
        options[f"tf_opt, {kept}{rounded}"] = {"state_dtype": state, **kind}
    return _adam(
        f"{dtype} variables",
        dtype=dtype,
        contenders=(*floors, *options, TORCH_FLOAT32, *others),
        workloads=workloads,
        precisions=options,
        floors=floors,
    )


_KINDS = [{}, {"stochastic_rounding": True}, {"master_weights": True}]
# A process for each type of variables: all together would not fit into memory.
# PyTorch in float32, the reference, takes part in each.
LOW_PRECISION: dict[str, Variant] = {
    "float32-variables": _low_precision("float32", [{}], (KERAS,)),
    "bfloat16-variables": _low_precision(
        "bfloat16", _KINDS, (TORCH_BFLOAT16, KERAS)
    ),
    "float16-variables": _low_precision(
        "float16", _KINDS, workloads=("single",)
    ),
}


def _offloaded(dtype: str, **state: Any) -> Variant:
    """AdamW with its state beside the variables, and on another device."""
    places = {
        "tf_opt, state beside": state,
        "tf_opt, state_device": {"state_device": "CPU:0", **state},
    }
    return _adam(
        ", ".join([dtype, *state]),
        "AdamW",
        dtype=dtype,
        contenders=(*places, TORCH_FLOAT32),
        workloads=("single", "bert-base"),
        precisions=places,
        device="CPU:1",
    )


OFFLOAD: dict[str, Variant] = {
    "offload": _offloaded("float32"),
    "offload-masters": _offloaded("bfloat16", master_weights=True),
    "offload-bfloat16-state": _offloaded(
        "bfloat16", master_weights=True, state_dtype="bfloat16"
    ),
}

VARIANTS = OPTIMIZERS | MATRICES | FEATURES | OTHERS | LOW_PRECISION | OFFLOAD
