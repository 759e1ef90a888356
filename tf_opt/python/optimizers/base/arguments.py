"""Arguments that all optimizers take: their types, and what they may be."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from numbers import Integral
from typing import Any, Literal, TypedDict, get_args

import numpy as np
import tensorflow as tf

from tf_opt.python.dispatch import IMPLEMENTATIONS, Implementation
from tf_opt.python.functional.arithmetic import is_known
from tf_opt.python.functional.checks import mode as check_mode
from tf_opt.python.functional.rule_spec import RuleSpec
from tf_opt.python.keras_internals import Number, Optimizer
from tf_opt.python.optimizers.state import placement, table_modes
from tf_opt.python.optimizers.state.optimizer_state import OptimizerState
from tf_opt.python.optimizers.state.storage import (
    StateDtype,
    standard_state_dtype,
)
from tf_opt.python.optimizers.state.table_modes import LazyMode
from tf_opt.python.optimizers.values import validation

ScheduleBy = Literal["steps", "updates"]

Check = Callable[[str, Any], None]

_FLAGS = (
    "decoupled_weight_decay",
    "maximize",
    "use_ema",
    "skip_nonfinite",
    "track_gradient_norm",
    "master_weights",
    "stochastic_rounding",
    "shard_state",
)
_CLIP_BOUNDS = ("clipnorm", "clipvalue", "global_clipnorm")
_NUMBERS = (
    validation.WEIGHT_DECAY,
    validation.EMA_MOMENTUM,
    validation.LOSS_SCALE_FACTOR,
    *map(validation.clip_bound, _CLIP_BOUNDS),
)

# Checks of the common arguments, when they are assigned.
COMMON_CHECKS: Mapping[str, Check] = {
    **dict.fromkeys(_FLAGS, check_mode),
    **validation.checks_of(_NUMBERS),
    "learning_rate": validation.check_assigned_learning_rate,
    "ema_overwrite_frequency": partial(validation.check_count, least=1),
    "gradient_accumulation_steps": partial(validation.check_count, least=2),
    "schedule_by": partial(
        validation.check_one_of, choices=get_args(ScheduleBy)
    ),
    "state_device": placement.check_device,
    "seed": validation.check_seed,
    "implementation": partial(validation.check_one_of, choices=IMPLEMENTATIONS),
}

# Defaults of the common arguments; the others are None.
_DEFAULTS: Mapping[str, Any] = {
    **dict.fromkeys(_FLAGS, False),
    "decoupled_weight_decay": True,
    "ema_momentum": 0.99,
    "schedule_by": "steps",
    "lazy_mode": False,
    "implementation": "auto",
}

# Numbers for which Keras also takes False, like None.
_OFF_IF_FALSE = (
    "weight_decay",
    *_CLIP_BOUNDS,
    "ema_overwrite_frequency",
    "gradient_accumulation_steps",
)

# Arguments of which only one may be set, and why.
_EXCLUSIVE = {
    ("stochastic_rounding", "master_weights"): "master weights lose nothing by "
    "rounding",
    ("shard_state", "state_device"): "all replicas have one state there",
    _CLIP_BOUNDS: "a step clips once",
}

# Those that can't change once there is a state, as of every optimizer.
_FIXED = ("master_weights", "state_dtype", "state_device", "shard_state")


class KerasArguments(TypedDict, total=False):
    """The arguments of all of Keras' optimizers, besides the learning rate."""

    weight_decay: Number | None
    clipnorm: Number | None
    clipvalue: Number | None
    global_clipnorm: Number | None
    use_ema: bool
    ema_momentum: Number
    ema_overwrite_frequency: int | None
    loss_scale_factor: Number | None
    gradient_accumulation_steps: int | None
    name: str | None


class Options(TypedDict, total=False):
    """The keyword-only arguments of all optimizers."""

    decoupled_weight_decay: bool
    maximize: bool
    schedule_by: ScheduleBy
    learning_rate_multipliers: Mapping[str, float] | None
    weight_decay_multipliers: Mapping[str, float] | None
    skip_nonfinite: bool
    track_gradient_norm: bool
    lazy_mode: LazyMode
    master_weights: bool
    stochastic_rounding: bool
    seed: int | None
    state_dtype: StateDtype | None
    state_device: str | None
    shard_state: bool
    implementation: Implementation


class SavedChoices(TypedDict, total=False):
    """What `get_config` saves of choices by variable besides the options."""

    exclude_from_weight_decay: Mapping[str, Sequence[str]] | None
    by_position: Mapping[str, Any] | None


class CommonArguments(KerasArguments, Options, SavedChoices, total=False):
    """What all optimizers take, besides the learning rate."""


def parameters() -> dict[str, inspect.Parameter]:
    """Returns the parameters for the common arguments, by name."""
    of_keras = [*KerasArguments.__annotations__]
    return {
        name: inspect.Parameter(
            name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD
            if name in of_keras
            else inspect.Parameter.KEYWORD_ONLY,
            default=_DEFAULTS.get(name),
            annotation=annotation.__forward_arg__,
        )
        for name, annotation in CommonArguments.__annotations__.items()
    }


def standard(checks: Mapping[str, Check], name: str, value: Any) -> Any:
    """Returns an attribute's value as a type that can be serialized."""
    if name == "state_dtype":
        return standard_state_dtype(value)
    if isinstance(value, (np.bool_, np.integer)):
        value = value.item()
    if name in checks and isinstance(value, (list, tuple)):
        value = list(value)
    if name in checks and isinstance(value, Mapping):
        value = dict(value)
    is_array = isinstance(value, (tf.Tensor, np.ndarray)) and value.shape == ()
    if name in checks and is_array and not tf.is_symbolic_tensor(value):
        dtype = tf.as_dtype(value.dtype)
        if dtype.is_floating or dtype.is_integer:
            value = tf.convert_to_tensor(value).numpy().item()
    # As in Keras, 0, 1 and None are flags: a YAML file or a tuner has these.
    if checks.get(name) is check_mode and (
        value is None or (isinstance(value, Integral) and value in (0, 1))
    ):
        return bool(value)
    return None if value is False and name in _OFF_IF_FALSE else value


def check(
    optimizer: Optimizer, checks: Mapping[str, Check], name: str, value: Any
) -> None:
    """Raises a ValueError if an argument can't become this value."""
    if name not in checks:
        return
    # As in Keras, `ema_` arguments are ignored without `use_ema`.
    if name.startswith("ema_") and not optimizer.use_ema:
        return
    checks[name](name, value)
    if name == "use_ema" and value:
        for other in ("ema_momentum", "ema_overwrite_frequency"):
            if hasattr(optimizer, other):
                checks[other](other, getattr(optimizer, other))
    for names, reason in _EXCLUSIVE.items():
        values = {x: getattr(optimizer, x, None) for x in names}
        values = {
            x: y
            for x, y in (values | {name: value}).items()
            if y is not None and y is not False
        }
        if name in names and name in values and len(values) > 1:
            listed = ", ".join(f"`{x}`" for x in names)
            received = ", ".join(f"{x}={y!r}" for x, y in values.items())
            raise ValueError(
                f"Only one of {listed} can be set, because {reason}. "
                f"Received: {received}"
            )


def fixed(spec: RuleSpec, own: Sequence[str]) -> frozenset[str]:
    """Returns the arguments that can't change once there is a state.

    Of a class's own arguments, these are those that no step reads.
    """
    of_state = {*own} - {*spec.arguments} - {x.needed_by for x in spec.slots}
    return frozenset((*_FIXED, *of_state, *(x.first for x in spec.slots)))


def check_fits_state(
    optimizer: Optimizer, state: OptimizerState, name: str, value: Any
) -> None:
    """Raises a ValueError if an optimizer's state needs another value.

    An option that was built with its state may be switched off and on again.
    """
    old, optional = getattr(optimizer, name), optimizer._spec.optional_slots
    of_slots = {
        slot.needed_by: slot.name in state.built_slots for slot in optional
    }
    has_state = {
        **of_slots,
        "use_ema": bool(state.averages),
        "gradient_accumulation_steps": bool(state.accumulators),
    }
    problem = None
    if name in optimizer._fixed:
        problem = "be changed" if value != old else None
    elif not has_state.get(name, True) and not is_off(value):
        problem = "begin"
    elif name in of_slots and state.since and is_off(value) != is_off(old):
        problem = "begin or end, while rows of tables have to catch up,"
    if problem is not None:
        raise ValueError(
            f"`{name}` can't {problem} once the optimizer is built, as its "
            f"state depends on it. Received: {name}={value!r}"
        )
    if name == "use_ema" and value:
        table_modes.check_none_is_lazy(state.lazy_mode, state.lazy_mode)


def is_off(value: Any) -> bool:
    """Returns whether an option is known to be off, and not a variable."""
    return value is None or is_known(value, 0)
