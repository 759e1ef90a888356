"""PyTorch's optimizers on a GPU, if there is a PyTorch that sees one."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

try:
    import torch
except (ImportError, OSError):  # OSError: it lacks a library.
    torch = None

if TYPE_CHECKING:
    from shapes import Shape

# By what speed.cc calls the same.
_OPTIMIZERS = {
    "AdamAmsgrad": ("Adam", {"capturable": True}),
    "AdamAmsgrad, all slots": ("Adam", {"capturable": True, "amsgrad": True}),
    "SGD": ("SGD", {}),
    "SGD, all slots": ("SGD", {"momentum": 0.9}),
}
ROW_OPTIMIZERS = {
    "AdamAmsgrad, lazy": "SparseAdam",
    "Adagrad, lazy": "Adagrad",
    "SGD, lazy": "SGD",
}
_REPETITIONS = 20


def available() -> bool:
    """Whether there is a PyTorch that sees a GPU."""
    return torch is not None and torch.cuda.is_available()


def milliseconds(shapes: Sequence[Shape], rounds: int) -> dict[str, float]:
    """Returns each optimizer's median time of a step, without Python's part.

    A step is captured as a CUDA graph, which is replayed.
    """
    parameters = [
        torch.nn.Parameter(torch.rand(shape, device="cuda")) for shape in shapes
    ]
    for parameter in parameters:
        parameter.grad = torch.rand_like(parameter)
    return {
        case: _time(
            getattr(torch.optim, name)(
                parameters, lr=1e-3, fused=True, **arguments
            ),
            rounds,
        )
        for case, (name, arguments) in _OPTIMIZERS.items()
    }


def _time(optimizer: torch.optim.Optimizer, rounds: int) -> float:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        optimizer.step()  # Makes the state, which a graph must not.
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        optimizer.step()
    return _median(graph.replay, rounds)


def row_milliseconds(title: str, case: str, rounds: int) -> float:
    """Returns the median time of a step on some rows, as speed.cc calls it.

    Such a step waits for the device, so no graph can hold it.
    """
    numbers, kind = re.match(r"(.*\d) (\D+)", title).groups()
    rows, width, count = map(int, re.findall(r"\d+", numbers))
    x = torch.rand(_REPETITIONS, count, device="cuda", dtype=torch.float64)
    ranks = {"uniform": rows * x, "zipf": rows**x - 1}.get(kind, 7 + 0 * x)
    ids = iter((ranks.long() * 6180339 % rows).repeat(rounds + 1, 1))
    values = torch.rand(count, width, device="cuda")
    table = torch.nn.Parameter(torch.rand(rows, width, device="cuda"))
    optimizer = getattr(torch.optim, ROW_OPTIMIZERS[case])([table], lr=1e-3)

    def step() -> None:
        table.grad = torch.sparse_coo_tensor(
            next(ids)[None], values, table.shape, check_invariants=False
        )
        optimizer.step()

    return _median(step, rounds)


def _median(step: Callable[[], None], rounds: int) -> float:
    times = []
    for _ in range(rounds + 1):  # The first one warms up.
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(_REPETITIONS):
            step()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / _REPETITIONS)
    return statistics.median(times[1:])
