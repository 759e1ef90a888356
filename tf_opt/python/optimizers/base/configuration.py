"""Constructor and configuration of all optimizers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import Literal
from typing import TypedDict
from typing import get_args

import keras
import numpy as np
import tensorflow as tf

from tf_opt.python import keras_internals
from tf_opt.python.dispatch import IMPLEMENTATIONS
from tf_opt.python.dispatch import Implementation
from tf_opt.python.functional.rule_spec import RuleSpec
from tf_opt.python.keras_internals import KerasOptimizer
from tf_opt.python.keras_internals import Number
from tf_opt.python.keras_internals import Variable
from tf_opt.python.optimizers.base import representation
from tf_opt.python.optimizers.base.saved_options import ByPosition
from tf_opt.python.optimizers.base.saved_options import Exclusions
from tf_opt.python.optimizers.state import factors
from tf_opt.python.optimizers.state import patterns
from tf_opt.python.optimizers.state import placement
from tf_opt.python.optimizers.state import storage
from tf_opt.python.optimizers.state.lazy_mode import LazyMode
from tf_opt.python.optimizers.state.optimizer_state import UnsavedState
from tf_opt.python.optimizers.state.storage import StateDtype
from tf_opt.python.optimizers.step.plan import PlanKeeper
from tf_opt.python.optimizers.values import validation
from tf_opt.python.optimizers.values import variables as access

LearningRate = (
    float
    | keras.optimizers.schedules.LearningRateSchedule
    | Callable[[], float | tf.Tensor]
)
ScheduleBy = Literal["steps", "updates"]

Check = Callable[[str, Any], None]

# Checks of the common arguments, when they are assigned.
COMMON_CHECKS: Mapping[str, Check] = {
    **dict.fromkeys(
        (
            "decoupled_weight_decay",
            "maximize",
            "use_ema",
            "skip_nonfinite",
            "track_gradient_norm",
            "master_weights",
            "stochastic_rounding",
            "shard_state",
        ),
        validation.check_boolean,
    ),
    "learning_rate": validation.check_assigned_learning_rate,
    "weight_decay": validation.check_weight_decay,
    "clipnorm": validation.check_clip_bound,
    "clipvalue": validation.check_clip_bound,
    "global_clipnorm": validation.check_clip_bound,
    "ema_momentum": validation.check_ema_momentum,
    "ema_overwrite_frequency": functools.partial(
        validation.check_count, least=1
    ),
    "loss_scale_factor": validation.check_loss_scale,
    "gradient_accumulation_steps": functools.partial(
        validation.check_count, least=2
    ),
    "schedule_by": functools.partial(
        validation.check_one_of, choices=get_args(ScheduleBy)
    ),
    "state_device": placement.check_device,
    "seed": validation.check_seed,
    "implementation": functools.partial(
        validation.check_one_of, choices=IMPLEMENTATIONS
    ),
}

# Arguments of which only one may be set, and why.
_EXCLUSIVE = {
    ("stochastic_rounding", "master_weights"): "master weights lose nothing by "
    "rounding",
    ("shard_state", "state_device"): "all replicas have one state there",
    ("clipnorm", "clipvalue", "global_clipnorm"): "a step clips once",
}


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


class CommonArguments(KerasArguments, Options, total=False):
    """What all optimizers take, besides the learning rate."""


def _multipliers(name: str, doc: str) -> Any:
    """Creates the property of a dictionary of multipliers."""
    return property(
        lambda self: getattr(self, f"_{name}"),
        lambda self, value: self._set_multipliers(name, value),
        doc=doc,
    )


class ConfiguredOptimizer(KerasOptimizer):
    """Base class: checks and stores the constructor's arguments."""

    # The rule, the checks of all arguments, and the class's own arguments
    # besides the learning rate. (base/definition.py sets these.)
    _spec: RuleSpec
    _checks: Mapping[str, Check] = COMMON_CHECKS
    _own_arguments: tuple[str, ...] = ()
    # Checks that aren't the rule's, the arguments that decide which state
    # `build` creates, and those that users should give, with what the class
    # does without.
    _own_checks: Mapping[str, Check] = {}
    _fixed_by_build: tuple[str, ...] = ()
    _if_left_out: Mapping[str, str] = {}

    def __init__(
        self,
        learning_rate: LearningRate,
        weight_decay: Number | None = None,
        clipnorm: Number | None = None,
        clipvalue: Number | None = None,
        global_clipnorm: Number | None = None,
        use_ema: bool = False,
        ema_momentum: Number = 0.99,
        ema_overwrite_frequency: int | None = None,
        loss_scale_factor: Number | None = None,
        gradient_accumulation_steps: int | None = None,
        name: str | None = None,
        *,
        decoupled_weight_decay: bool = True,
        maximize: bool = False,
        schedule_by: ScheduleBy = "steps",
        learning_rate_multipliers: Mapping[str, float] | None = None,
        weight_decay_multipliers: Mapping[str, float] | None = None,
        skip_nonfinite: bool = False,
        track_gradient_norm: bool = False,
        lazy_mode: LazyMode = False,
        master_weights: bool = False,
        stochastic_rounding: bool = False,
        seed: int | None = None,
        state_dtype: StateDtype | None = None,
        state_device: str | None = None,
        shard_state: bool = False,
        implementation: Implementation = "auto",
        **hyperparameters: float | bool,
    ) -> None:
        self._check_all_are_given(hyperparameters)
        # Keras uses these before it stores them.
        validation.check_learning_rate(learning_rate)
        validation.check_boolean("use_ema", use_ema)
        if use_ema:
            validation.check_ema_momentum("ema_momentum", ema_momentum)
            validation.check_count(
                "ema_overwrite_frequency", ema_overwrite_frequency, least=1
            )
        super().__init__(
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            clipnorm=clipnorm,
            clipvalue=clipvalue,
            global_clipnorm=global_clipnorm,
            use_ema=use_ema,
            ema_momentum=ema_momentum,
            ema_overwrite_frequency=ema_overwrite_frequency,
            loss_scale_factor=loss_scale_factor,
            gradient_accumulation_steps=gradient_accumulation_steps,
            name=name,
        )
        self.decoupled_weight_decay = decoupled_weight_decay
        self.maximize = maximize
        self.schedule_by = schedule_by
        self.skip_nonfinite = skip_nonfinite
        self.track_gradient_norm = track_gradient_norm
        self.master_weights = master_weights
        self.stochastic_rounding = stochastic_rounding
        self.state_dtype = state_dtype
        self.seed = seed
        self.state_device = state_device
        self.shard_state = shard_state
        self.implementation: Implementation = implementation
        for argument, value in hyperparameters.items():
            setattr(self, argument, value)
        self._plans = PlanKeeper()
        self._exclusions = Exclusions()
        self._by_position = ByPosition()
        self._unsaved = UnsavedState()
        self.learning_rate_multipliers = learning_rate_multipliers
        self.weight_decay_multipliers = weight_decay_multipliers
        self.lazy_mode = lazy_mode

    def _check_all_are_given(self, given: Mapping[str, Any]) -> None:
        """Raises unless a class passes on all numbers and modes of its rule."""
        names = {each.name for each in self._spec.hyperparameters}
        names.update(self._spec.modes)
        if given.keys() != names:
            raise TypeError(
                f"{type(self).__name__} must pass on the hyperparameters "
                f"{sorted(names)}. Received: {sorted(given)}"
            )

    def __repr__(self) -> str:
        return representation.of_optimizer(self)

    def _is_fixed(self, name: str) -> bool:
        """Returns whether an attribute can't be assigned any more."""
        return getattr(self, "built", False) and name in (
            "master_weights",
            "state_dtype",
            "state_device",
            "shard_state",
            *self._fixed_by_build,
        )

    def __setattr__(self, name: str, value: Any) -> None:
        keras_internals.refuse_lr(self, name, value)
        if self._is_fixed(name) and value != getattr(self, name):
            raise ValueError(
                f"`{name}` can't be changed once the optimizer is built, as "
                f"its state depends on it. Received: {name}={value!r}"
            )
        if (
            name in ("use_ema", "gradient_accumulation_steps")
            and value
            and getattr(self, "built", False)
            and not getattr(self, name)
        ):
            raise ValueError(
                f"`{name}` can't begin once the optimizer is built, as its "
                f"state depends on it. Received: {name}={value!r}"
            )
        # As in Keras, `ema_` arguments are ignored without `use_ema`.
        if name in self._checks and (
            not name.startswith("ema_") or self.use_ema
        ):
            self._checks[name](name, value)
            self._check_exclusive(name, value)
            if name == "use_ema" and value:
                for other in ("ema_momentum", "ema_overwrite_frequency"):
                    if hasattr(self, other):
                        self._checks[other](other, getattr(self, other))
        if name == "state_dtype":
            value = storage.standard_state_dtype(value)
        elif isinstance(value, (np.bool_, np.integer)):
            # Python's types can be serialized.
            value = value.item()
        if name in self._checks and isinstance(value, Variable):
            # A variable in the place of a number isn't the optimizer's state.
            with keras_internals.untracked():
                super().__setattr__(name, value)
        else:
            super().__setattr__(name, value)
        # An unneeded draw would change the random numbers of the user's layers.
        if name in ("seed", "stochastic_rounding", "state_dtype") and (
            getattr(self, "seed", 0) is None and self._rounding().needs_bits
        ):
            self.seed = keras_internals.next_seed()

    def _check_exclusive(self, name: str, value: Any) -> None:
        """Raises if an argument is set together with one that excludes it."""
        for names, reason in _EXCLUSIVE.items():
            values = {x: getattr(self, x, None) for x in names}
            values = {
                x: y
                for x, y in (values | {name: value}).items()
                if y is not None and y is not False
            }
            if name in values and len(values) > 1 and name in names:
                listed = ", ".join(f"`{x}`" for x in names)
                received = ", ".join(f"{x}={y!r}" for x, y in values.items())
                raise ValueError(
                    f"Only one of {listed} can be set, because {reason}. "
                    f"Received: {received}"
                )

    def _rounding(self) -> storage.RoundingSettings:
        """Returns the options of rounding."""
        return storage.RoundingSettings(
            self.master_weights,
            self.stochastic_rounding,
            self.seed,
            self.state_dtype,
        )

    # ---- Multipliers. ----

    learning_rate_multipliers: Mapping[str, float] | None = _multipliers(
        "learning_rate_multipliers",
        """Factors of the learning rate by regular expression, or None.

        An assignment takes effect in the next step, traced or not. It is an
        error if a step was traced without factors.
        """,
    )
    weight_decay_multipliers: Mapping[str, float] | None = _multipliers(
        "weight_decay_multipliers",
        """Factors of the weight decay by regular expression, or None.

        An assignment takes effect as that of `learning_rate_multipliers`.
        """,
    )

    def _set_multipliers(
        self,
        name: str,
        value: Mapping[str, float] | None,
        saved: Sequence[float] | None = None,
    ) -> None:
        """Sets multipliers; `saved` are the variables' factors, if loaded."""
        value = factors.check(name, value)
        found = saved
        if self.built:
            if value is not None and found is None:
                found = patterns.values_of(
                    name, value, self._trainable_variables, 1.0
                )
            with access.creation_scope_of(self):
                getattr(self._unsaved, name).set(
                    found, len(self._trainable_variables)
                )
        self._by_position = self._by_position.replace(**{name: found})
        # Bypasses Keras, which would wrap the dictionary.
        object.__setattr__(self, f"_{name}", value)

    # ---- Configuration. ----

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, serializable."""
        config = super().get_config()
        for name in (*Options.__annotations__, *self._own_arguments):
            config[name] = getattr(self, name)
        for name, value in config.items():
            if name in self._checks and isinstance(value, Variable):
                config[name] = float(value.numpy())
        if self._exclusions != Exclusions():
            config["exclude_from_weight_decay"] = self._exclusions.get_config()
        by_position = self._by_position
        if self.built and self._exclusions != Exclusions():
            excluded = [
                i
                for i, variable in enumerate(self._trainable_variables)
                if not self._decays(variable)
            ]
            by_position = by_position.replace(excluded=excluded)
        if by_position.get_config():
            config["by_position"] = by_position.get_config()
        return config

    @classmethod
    def from_config(
        cls,
        config: dict[str, Any],
        custom_objects: dict[str, Any] | None = None,
    ) -> ConfiguredOptimizer:
        """Creates an optimizer from the result of `get_config`.

        Args:
            config: The configuration.
            custom_objects: User-defined objects by name.
        """
        config = dict(config)
        excluded = config.pop("exclude_from_weight_decay", None)
        by_position = config.pop("by_position", None)
        optimizer = super().from_config(config, custom_objects)
        # Only names and paths are known; `build` finds the variables.
        if excluded:
            exclusions = Exclusions.from_config(excluded)
            optimizer.exclude_from_weight_decay(var_names=exclusions.var_names)
            object.__setattr__(optimizer, "_exclusions", exclusions)
        if by_position:
            positions = ByPosition.from_config(by_position)
            object.__setattr__(optimizer, "_by_position", positions)
        return optimizer
