"""tf_opt's engine and PyTorch's optimizers on the same tensors, in turns.

    python3 torch_steps.py LIBRARY ROUNDS [--device cpu]

LIBRARY is what engine.h describes. Prints a line for each optimizer and
workload, its columns separated by tabs: workload, case, and the milliseconds of
a step of tf_opt and of PyTorch; before that, it checks that both compute the
same. On a CPU (with the library that emulates a GPU) small workloads stand for
the real ones: that checks this program. Needs PyTorch.
"""

from __future__ import annotations

import argparse
import ctypes
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
from collections.abc import Sequence
from typing import NamedTuple

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from workloads import WORKLOADS

LEARNING_RATE = 1e-3
WEIGHT_DECAY = 0.01
BETAS = (0.9, 0.999)
EPSILON = 1e-8
MOMENTUM_DECAY = 4e-3


class _Step(ctypes.Structure):
    """TfOptStep, see engine.h."""

    _fields_ = [
        ("optimizer", ctypes.c_char_p),
        ("dtype", ctypes.c_char_p),
        ("amsgrad", ctypes.c_int),
        ("epsilon_hat", ctypes.c_int),
        ("l2", ctypes.c_int),
        ("maximize", ctypes.c_int),
        ("count", ctypes.c_int64),
        ("sizes", ctypes.c_void_p),
        ("variables", ctypes.c_void_p),
        ("gradients", ctypes.c_void_p),
        ("slots", ctypes.c_void_p),
        ("scalars", ctypes.c_void_p),
        ("weight_decay", ctypes.c_void_p),
        ("row", ctypes.c_void_p),
        ("rows", ctypes.c_int64),
        ("workspace", ctypes.c_void_p),
    ]


def load(path: str) -> ctypes.CDLL:
    """The engine's library."""
    library = ctypes.CDLL(path)
    library.TfOptWorkspaceBytes.restype = ctypes.c_int64
    library.TfOptApply.restype = ctypes.c_char_p
    library.TfOptApply.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    return library


def _stream(device: torch.device) -> int | None:
    if device.type == "cuda":
        return torch.cuda.current_stream(device).cuda_stream
    return None


class EngineOptimizer:
    """Adam, AdamW or NAdam by tf_opt's engine, on torch tensors."""

    def __init__(
        self,
        library: ctypes.CDLL,
        optimizer: str,
        parameters: Sequence[torch.Tensor],
        *,
        amsgrad: bool = False,
        weight_decay: float = 0.0,
    ) -> None:
        self._library = library
        self._device = parameters[0].device
        count = len(parameters)
        self.slots = [
            torch.zeros_like(p)
            for _ in range(3 if amsgrad else 2)
            for p in parameters
        ]
        self._weight_decay = torch.full(
            (count,), weight_decay, dtype=torch.float64, device=self._device
        )
        # Kept where the engine reads them; only the step advances.
        self._step = torch.zeros((), dtype=torch.int64, device=self._device)
        self._product = self._number(1.0)
        numbers = {
            "learning_rate": self._number(LEARNING_RATE),
            "step": self._step,
            "momentum_product": self._product,
            "beta_1": self._number(BETAS[0]),
            "beta_2": self._number(BETAS[1]),
            "epsilon": self._number(EPSILON),
            "momentum_decay": self._number(MOMENTUM_DECAY),
        }
        self._is_nadam = optimizer == "nadam"
        if not self._is_nadam:
            del numbers["momentum_product"], numbers["momentum_decay"]
        self._numbers = list(numbers.values())
        self._arrays = [
            (ctypes.c_int64 * count)(*(p.numel() for p in parameters)),
            self._pointers(parameters),
            self._pointers([p.grad for p in parameters]),
            self._pointers(self.slots),
            self._pointers(self._numbers),
        ]
        sizes, variables, gradients, slots, scalars = map(
            ctypes.addressof, self._arrays
        )
        self._arguments = _Step(
            optimizer=optimizer.encode(),
            dtype=str(parameters[0].dtype).removeprefix("torch.").encode(),
            amsgrad=amsgrad,
            count=count,
            sizes=sizes,
            variables=variables,
            gradients=gradients,
            slots=slots,
            scalars=scalars,
            weight_decay=self._weight_decay.data_ptr(),
        )
        self._workspace = torch.empty(
            library.TfOptWorkspaceBytes(ctypes.byref(self._arguments)),
            dtype=torch.uint8,
            device=self._device,
        )
        self._arguments.workspace = self._workspace.data_ptr()

    def _number(self, value: float) -> torch.Tensor:
        return torch.tensor(value, dtype=torch.float64, device=self._device)

    @staticmethod
    def _pointers(tensors: Sequence[torch.Tensor]) -> ctypes.Array:
        return (ctypes.c_void_p * len(tensors))(
            *(t.data_ptr() for t in tensors)
        )

    def step(self) -> None:
        """One step; the numbers stay on the device."""
        self._step += 1
        error = self._library.TfOptApply(
            ctypes.byref(self._arguments), _stream(self._device)
        )
        if error is not None:
            raise RuntimeError(error.decode())
        if self._is_nadam:
            decay = 0.96 ** (self._step.double() * MOMENTUM_DECAY)
            self._product *= BETAS[0] * (1 - 0.5 * decay)


class Case(NamedTuple):
    """An optimizer of both.

    Attributes:
        title: What the table calls it.
        ours: Arguments of `EngineOptimizer`.
        theirs: Makes PyTorch's, from the parameters.
    """

    title: str
    ours: dict
    theirs: Callable[[Sequence[torch.Tensor]], torch.optim.Optimizer]


_COMMON = {"lr": LEARNING_RATE, "betas": BETAS, "eps": EPSILON}

CASES = [
    Case(
        "Adam",
        {"optimizer": "adam"},
        lambda p: torch.optim.Adam(p, **_COMMON, fused=True),
    ),
    Case(
        "Adam, AMSGrad",
        {"optimizer": "adam", "amsgrad": True},
        lambda p: torch.optim.Adam(p, **_COMMON, amsgrad=True, fused=True),
    ),
    Case(
        "AdamW",
        {"optimizer": "adam", "weight_decay": WEIGHT_DECAY},
        lambda p: torch.optim.AdamW(
            p, **_COMMON, weight_decay=WEIGHT_DECAY, fused=True
        ),
    ),
    Case(
        "NAdam",
        {"optimizer": "nadam"},
        lambda p: torch.optim.NAdam(
            p, **_COMMON, momentum_decay=MOMENTUM_DECAY, foreach=True
        ),
    ),
]


def parameters_of(
    sizes: Sequence[tuple[int, ...]], device: torch.device
) -> list[torch.Tensor]:
    """Parameters with gradients, the same ones every time."""
    generator = torch.Generator(device).manual_seed(3)

    def numbers(shape: tuple[int, ...]) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device)

    parameters = []
    for shape in sizes:
        parameter = numbers(shape)
        parameter.grad = numbers(shape)
        parameters.append(parameter)
    return parameters


def check_same(case: Case, library: ctypes.CDLL, device: torch.device) -> None:
    """Ends the program unless 20 steps of both agree to float32's digits."""
    sizes = [(3,), (17, 241), (), (9, 5)]
    ours = parameters_of(sizes, device)
    theirs = parameters_of(sizes, device)
    engine = EngineOptimizer(library, parameters=ours, **case.ours)
    optimizer = case.theirs(theirs)
    for _ in range(20):
        for parameters in (ours, theirs):
            for parameter in parameters:
                parameter.grad.mul_(-0.9)
        engine.step()
        optimizer.step()
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=2e-6, atol=2e-6)


def time_step(
    step: Callable[[], None], repetitions: int, device: torch.device
) -> float:
    """Milliseconds of a step, its call from Python included."""

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    wait()
    begin = time.perf_counter()
    for _ in range(repetitions):
        step()
    wait()
    return (time.perf_counter() - begin) / repetitions * 1e3


def measure(
    case: Case,
    sizes: Sequence[tuple[int, ...]],
    library: ctypes.CDLL,
    device: torch.device,
    rounds: int,
) -> tuple[float, float]:
    """The medians of both, in milliseconds."""
    ours = parameters_of(sizes, device)
    theirs = parameters_of(sizes, device)
    engine = EngineOptimizer(library, parameters=ours, **case.ours)
    optimizer = case.theirs(theirs)
    times: tuple[list[float], list[float]] = ([], [])
    for round_number in range(-1, rounds):  # The first one warms up.
        for step, of in zip((engine.step, optimizer.step), times, strict=True):
            milliseconds = time_step(step, 10, device)
            if round_number >= 0:
                of.append(milliseconds)
    return statistics.median(times[0]), statistics.median(times[1])


def workloads(device: torch.device) -> dict[str, list[tuple[int, ...]]]:
    """The shapes of each workload, by title."""
    if device.type == "cpu":
        return {"small": [(3, 5), (257,)], "100 x 256": [(256,)] * 100}
    return WORKLOADS


def main() -> None:
    """Checks, measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library")
    parser.add_argument("rounds", type=int)
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    library = load(arguments.library)
    for case in CASES:
        check_same(case, library, device)
    for title, sizes in workloads(device).items():
        for case in CASES:
            ours, theirs = measure(
                case, sizes, library, device, arguments.rounds
            )
            print(
                title,
                case.title,
                f"{ours:.4f}",
                f"{theirs:.4f}",
                sep="\t",
                flush=True,
            )


if __name__ == "__main__":
    main()
