"""A whole `apply` in NumPy and float64: all that Keras' base class does too."""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from reference.storage import Storage

State = dict[str, Any]


@dataclasses.dataclass(kw_only=True)
class WholeStep:
    """Trains variables as an optimizer with these arguments should.

    Attributes:
        states: For each variable its value, as "variable", and its slots.
        averages: For each variable its moving average.
        norm: The norm of the last update's gradients.
        scale: What the loss is multiplied by.
    """

    rule: Callable[..., State]
    states: list[State]
    paths: Sequence[str]
    learning_rate: float
    arguments: Mapping[str, Any]
    storages: Sequence[Storage]
    decays: Sequence[str] = ("weight_decay",)
    clipnorm: float | None = None
    clipvalue: float | None = None
    global_clipnorm: float | None = None
    use_ema: bool = False
    ema_momentum: float = 0.99
    ema_overwrite_frequency: int | None = None
    loss_scale_factor: float | None = None
    gradient_accumulation_steps: int = 1
    learning_rate_multipliers: Mapping[str, float] | None = None
    weight_decay_multipliers: Mapping[str, float] | None = None
    skip_nonfinite: bool = False
    dynamic_growth_steps: int | None = None

    def __post_init__(self) -> None:
        self.averages = [np.zeros_like(x["variable"]) for x in self.states]
        self.updates = 0
        self.skipped = 0
        self.norm = 0.0
        self.scale = self.loss_scale_factor or 1.0
        self._sums = [np.zeros_like(average) for average in self.averages]
        self._occurred = [np.zeros(a.shape, bool) for a in self._sums]
        self._micro_steps = 0
        self._finite_steps = 0
        self._rates = _factors(self.learning_rate_multipliers, self.paths)
        self._decays = _factors(self.weight_decay_multipliers, self.paths)

    def apply(
        self,
        gradients: Sequence[np.ndarray],
        occurs: Sequence[np.ndarray | bool] | None = None,
    ) -> None:
        """One step with gradients of the scaled loss.

        `occurs` says for each variable which of its elements are updated, in
        any form that broadcasts; None: all.
        """
        occurs = [True] * len(gradients) if occurs is None else occurs
        gradients = [np.asarray(g, np.float64) / self.scale for g in gradients]
        finite = all(np.isfinite(g).all() for g in gradients)
        self._rescale(finite)
        skips = self.skip_nonfinite or self.dynamic_growth_steps is not None
        if skips and not finite:
            self.skipped += 1
            return
        self._sums = [a + g for a, g in zip(self._sums, gradients, strict=True)]
        # As Keras counts them before the step.
        self._iteration = self._micro_steps
        each = self.gradient_accumulation_steps
        if self._micro_steps % each == 0:
            self._occurred = [np.zeros(np.shape(a), bool) for a in self._sums]
        self._occurred = [
            a | b for a, b in zip(self._occurred, occurs, strict=True)
        ]
        self._micro_steps += 1
        before = self.updates
        if self._micro_steps % each == 0:
            self._update([a / each for a in self._sums])
            self._sums = [np.zeros_like(a) for a in self._sums]
        if self.use_ema:
            self._average(before)

    def _rescale(self, finite: bool) -> None:
        if self.dynamic_growth_steps is None:
            return
        self._finite_steps = self._finite_steps + 1 if finite else 0
        if not finite:
            self.scale /= 2
        elif self._finite_steps == self.dynamic_growth_steps:
            self.scale *= 2
            self._finite_steps = 0

    def _update(self, gradients: Sequence[np.ndarray]) -> None:
        norms = [np.linalg.norm(g.ravel()) for g in gradients]
        self.norm = np.linalg.norm(norms)
        if self.clipnorm:
            gradients = [
                g * min(1, self.clipnorm / norm)
                for g, norm in zip(gradients, norms, strict=True)
            ]
        if self.global_clipnorm:
            factor = min(1, self.global_clipnorm / self.norm)
            gradients = [g * factor for g in gradients]
        if self.clipvalue:
            bound = self.clipvalue
            gradients = [np.clip(g, -bound, bound) for g in gradients]
        self.updates += 1
        for i, gradient in enumerate(gradients):
            arguments = dict(self.arguments)
            for name in arguments.keys() & {*self.decays}:
                arguments[name] *= self._decays[i]
            learning_rate = self.learning_rate * self._rates[i]
            new = self.rule(
                self.states[i],
                gradient,
                t=self.updates,
                learning_rate=learning_rate,
                **arguments,
            )
            new = self._stored(i, new, learning_rate)
            # What doesn't occur stays; what isn't an array all share.
            self.states[i] = {
                name: np.where(self._occurred[i], value, self.states[i][name])
                if np.ndim(value) >= np.ndim(gradient)
                and name in self.states[i]
                else value
                for name, value in new.items()
            }

    def _stored(self, i: int, new: State, learning_rate: float) -> State:
        """What is stored of a variable's new value and slots."""
        storage, t = self.storages[i], self.updates
        if "d" in new:
            batches = self.arguments.get("batch_num", 1)
            y, seen = f"y_{(t - 1) % batches}", min(t, batches)
            new = storage.asgd(new, y, learning_rate / seen)
        stored = {
            name: storage.slot(name, value, self._iteration)
            for name, value in new.items()
            if name in self.states[i]
        }
        variable = storage.variable(new["variable"], self._iteration)
        return {**new, **stored, "variable": variable}

    def _average(self, updates_before: int) -> None:
        momentum = self.ema_momentum if updates_before > 0 else 0.0
        frequency = self.ema_overwrite_frequency
        overwrites = frequency and (updates_before + 1) % frequency == 0
        for i, state in enumerate(self.states):
            average = (
                momentum * self.averages[i] + (1 - momentum) * state["variable"]
            )
            storage = self.storages[i]
            self.averages[i] = storage.average(average, self._iteration)
            if overwrites:
                state["variable"] = storage.variable(average, self._iteration)


def _factors(
    multipliers: Mapping[str, float] | None, paths: Sequence[str]
) -> list[float]:
    by_pattern = {**(multipliers or {}), "": 1.0}
    return [
        next(x for key, x in by_pattern.items() if re.search(key, path))
        for path in paths
    ]
