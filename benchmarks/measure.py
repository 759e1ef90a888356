"""Times contenders in turns."""

from __future__ import annotations

import dataclasses
import gc
import math
import random
import time
from collections.abc import Callable
from collections.abc import Mapping
from typing import NamedTuple

# Called with what runs now and the part of the work done, from 0 to 1.
OnProgress = Callable[[str, float], None]

# Before each step: the progress is drawn, and the threads of the contender
# before stop spinning in wait for more work.
_PAUSE_SECONDS = 0.01


@dataclasses.dataclass(frozen=True)
class Contender:
    """An optimizer that is ready to step.

    Attributes:
        step: One whole optimizer step, with all its micro-steps.
        norms: The squared norm of each variable that `step` updates: enough
            to see whether they changed and are finite.
        steps: How many steps a sample is the mean of; None for the default.
    """

    step: Callable[[], None]
    norms: Callable[[], list[float]]
    steps: int | None = None


class Measurement(NamedTuple):
    """The times of one contender, in milliseconds.

    Attributes:
        first_call: The first step: with tracing, compiling, allocating.
        samples: The timed steps after it, or micro-steps.
    """

    first_call: float
    samples: list[float]


def _timed_ms(step: Callable[[], None], steps: int = 1) -> float:
    """Returns the mean milliseconds of several steps."""
    start = time.perf_counter()
    for _ in range(steps):
        step()
    return 1e3 * (time.perf_counter() - start) / steps


def _check_finite(name: str, norms: list[float]) -> None:
    for i, value in enumerate(norms):
        if not math.isfinite(value):
            raise RuntimeError(
                f"{name}: variable {i} must stay finite, but its squared norm "
                f"is {value}. A time would mean nothing."
            )


def _first_call(name: str, contender: Contender) -> Measurement:
    before = contender.norms()
    # The garbage of the contender before isn't this one's.
    gc.collect()
    measurement = Measurement(_timed_ms(contender.step), [])
    after = contender.norms()
    _check_finite(name, after)
    unchanged = [i for i, norm in enumerate(before) if norm == after[i]]
    if unchanged:
        raise RuntimeError(
            f"{name}: a step must change every variable; it left these as "
            f"they were: {unchanged}."
        )
    return measurement


def measure(
    contenders: Mapping[str, Contender],
    rounds: int,
    seconds: float,
    steps: int,
    on_progress: OnProgress,
    micro_steps: int = 1,
) -> dict[str, Measurement]:
    """Times every contender's step, interleaved.

    In each round each contender has one turn, in random order: other load on
    the machine hits all of them, so that ratios hold where times don't.

    Args:
        contenders: The contenders, by name.
        rounds: How many samples of each.
        seconds: A contender too slow for `rounds` samples in this time sits
            out rounds, evenly spread; it has one sample at least.
        steps: How many steps a sample is the mean of. If several, some more are
            done before, so that all begin with warm caches.
        on_progress: Called before each step.
        micro_steps: How many micro-steps a step has; a sample is the time of
            one.

    Returns:
        The measurements, by name.

    Raises:
        RuntimeError: If a contender's variables don't change or aren't finite.
    """
    measurements = {}
    for name, contender in contenders.items():
        on_progress(f"{name}: first call", 0.0)
        measurements[name] = _first_call(name, contender)

    shuffle = random.Random(0).shuffle
    spent_ms = dict.fromkeys(contenders, 0.0)
    gc.collect()
    gc.disable()
    try:
        for done in range(rounds):
            names = list(contenders)
            shuffle(names)
            for name in names:
                if spent_ms[name] > 1e3 * seconds * done / rounds:
                    continue
                on_progress(name, done / rounds)
                time.sleep(_PAUSE_SECONDS)
                step = contenders[name].step
                timed = contenders[name].steps or steps
                for _ in range(timed // 5):
                    step()
                sample = _timed_ms(step, timed)
                measurements[name].samples.append(sample / micro_steps)
                spent_ms[name] += sample * timed
    finally:
        gc.enable()

    for name, contender in contenders.items():
        _check_finite(name, contender.norms())
    return measurements
