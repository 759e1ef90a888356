"""Times contenders in turns."""

import dataclasses
import gc
import math
import random
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

# Before each step, in which other contenders' threads stop waiting for work.
_PAUSE_SECONDS = 0.01
# A sample is the mean of as many steps as take this long: a short one after
# another contender's would be timed with cold caches and sleeping threads.
_SAMPLE_MS = 20
_MOST_STEPS = 100


@dataclasses.dataclass(frozen=True)
class Contender:
    """An optimizer that is ready to step."""

    step: Callable[[], None]  # A whole one, with all its micro-steps.
    # The squared norm of each variable that `step` updates: enough to see
    # whether they changed and are finite.
    norms: Callable[[], list[float]]


class Measurement(NamedTuple):
    """What was measured of a contender, usually in milliseconds."""

    samples: list[float]  # Of steps, or micro-steps.
    first_call: float = 0.0  # With tracing, compiling, allocating.


def _timed_ms(step: Callable[[], None], steps: int = 1) -> float:
    """Returns the mean milliseconds of several steps."""
    start = time.perf_counter()
    for _ in range(steps):
        step()
    return 1e3 * (time.perf_counter() - start) / steps


def _steps_of_sample(step: Callable[[], None]) -> int:
    warm_ms = min(_timed_ms(step) for _ in range(2))
    return min(int(_SAMPLE_MS / warm_ms), _MOST_STEPS) or 1


def _check_finite(name: str, norms: list[float]) -> None:
    if not all(map(math.isfinite, norms)):
        raise RuntimeError(
            f"{name}: variables must stay finite, but their squared norms are "
            f"{norms}. A time would mean nothing."
        )


def _first_call(name: str, contender: Contender) -> Measurement:
    before = contender.norms()
    # The garbage of the contender before isn't this one's.
    gc.collect()
    measurement = Measurement([], _timed_ms(contender.step))
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
    micro_steps: int = 1,
) -> dict[str, Measurement]:
    """Times every contender's step, interleaved; or a micro-step's share.

    In each round each contender has one turn, in random order: other load on
    the machine hits all of them, so that ratios hold where times don't.

    A contender too slow for `rounds` samples in that many seconds sits out
    rounds, evenly spread; it has one sample at least. If a contender's
    variables don't change or aren't finite, that is a RuntimeError.
    """
    measurements = {
        name: _first_call(name, contender)
        for name, contender in contenders.items()
    }
    shuffle = random.Random(0).shuffle
    spent_ms = dict.fromkeys(contenders, 0.0)
    steps = {
        name: _steps_of_sample(contender.step)
        for name, contender in contenders.items()
    }
    gc.collect()
    gc.disable()
    try:
        for done in range(rounds):
            names = list(contenders)
            shuffle(names)
            for name in names:
                if spent_ms[name] > 1e3 * seconds * done / rounds:
                    continue
                time.sleep(_PAUSE_SECONDS)
                step = contenders[name].step
                for _ in range(max(1, steps[name] // 5)):
                    step()  # Warms the caches.
                sample = _timed_ms(step, steps[name])
                measurements[name].samples.append(sample / micro_steps)
                spent_ms[name] += sample * steps[name]
    finally:
        gc.enable()

    for name, contender in contenders.items():
        _check_finite(name, contender.norms())
    return measurements
