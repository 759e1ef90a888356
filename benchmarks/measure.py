"""Times contenders in turns."""

from __future__ import annotations

import dataclasses
import gc
import math
import random
import statistics
import time
from collections.abc import Callable
from collections.abc import Mapping

# Called with what runs now and the part of the work done, from 0 to 1.
OnProgress = Callable[[str, float], None]

# Before each step, until the progress is drawn and the threads of the contender
# before stop spinning in wait for more work.
_PAUSE_SECONDS = 0.01


@dataclasses.dataclass(frozen=True)
class Contender:
    """Somebody's optimizer, ready to step.

    Attributes:
        step: One whole optimizer step, with all its micro-steps.
        norms: The squared norm of each variable that `step` updates: enough
            to see whether they changed and are finite.
        steps: How many steps a sample is the mean of; None for as many as of
            the others.
    """

    step: Callable[[], None]
    norms: Callable[[], list[float]]
    steps: int | None = None


@dataclasses.dataclass
class Measurement:
    """What was seen of one contender, in milliseconds.

    Attributes:
        first_call_ms: The first step: with tracing, compiling, allocating.
        samples_ms: The timed steps after it, or micro-steps.
    """

    first_call_ms: float
    samples_ms: list[float] = dataclasses.field(default_factory=list)

    @property
    def median_ms(self) -> float:
        """The median of the samples."""
        return statistics.median(self.samples_ms)


def _timed_ms(step: Callable[[], None], steps: int = 1) -> float:
    """Milliseconds of a step, of which so many are timed together."""
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
    # What the contender before left behind isn't this one's.
    gc.collect()
    measurement = Measurement(_timed_ms(contender.step))
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

    In each round everybody has one turn, in random order: whatever else the
    machine does hits all alike, so that the ratios hold where times don't.

    Args:
        contenders: Whom to time, by name.
        rounds: How many samples of each.
        seconds: A contender too slow for `rounds` samples in this time sits
            out rounds, evenly spread; it has one sample at least.
        steps: How many steps a sample is the mean of. If several, some more are
            done before, so that all begin alike.
        on_progress: Called before each step.
        micro_steps: Of how many a step consists: samples are the mean of one.

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
                measurements[name].samples_ms.append(sample / micro_steps)
                spent_ms[name] += sample * timed
    finally:
        gc.enable()

    for name, contender in contenders.items():
        _check_finite(name, contender.norms())
    return measurements
