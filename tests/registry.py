"""The optimizers under test. A new one is an entry here, and a reference."""

from __future__ import annotations

import functools
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import keras
import tf_opt

from reference.adam import adam

Arguments = Mapping[str, Any]


class TorchOptimizer(NamedTuple):
    """The PyTorch optimizer that computes the same.

    Attributes:
        name: Its class in `torch.optim`.
        arguments: Its arguments.
        slots: For each of our slots, its key in PyTorch's state.
    """

    name: str
    arguments: dict[str, Any]
    slots: dict[str, str]


class OptimizerUnderTest(NamedTuple):
    """An optimizer, what it should compute, and how to look inside.

    Attributes:
        make: The class. Takes `learning_rate`, a mode's arguments and
            `implementation`.
        op_name: The registered name of its custom op.
        reference: One step in NumPy: a function of (state, gradient), `t`,
            `learning_rate` and a mode's arguments that returns the new state,
            a dictionary of "variable" and the slots.
        slots: The names of the slots that a mode's arguments lead to.
        find_slots: A function of (optimizer, number of variables) that returns
            each slot's variables, by name, from the public
            `optimizer.variables`.
        modes: Constructor arguments to test, by name.
        thorough_mode: The mode that turns on the most at once, for what is
            too slow to test in every mode; None for an optimizer that shares
            its op, and so this, with another.
        torch: What PyTorch calls a mode; None where it has no such mode.
    """

    make: Callable[..., keras.optimizers.Optimizer]
    op_name: str
    reference: Callable[..., dict[str, Any]]
    slots: Callable[[Arguments], tuple[str, ...]]
    find_slots: Callable[
        [keras.optimizers.Optimizer, int],
        dict[str, Sequence[keras.Variable]],
    ]
    modes: Mapping[str, Arguments]
    thorough_mode: str | None
    torch: Callable[[Arguments], TorchOptimizer | None]


def _adam_slots(arguments: Arguments) -> tuple[str, ...]:
    return ("m", "v", "v_max") if arguments.get("amsgrad") else ("m", "v")


def _find_adam_slots(
    optimizer: keras.optimizers.Optimizer, count: int
) -> dict[str, Sequence[keras.Variable]]:
    # Keras' order: iterations, learning rate, then m and v variable by
    # variable, then every v_max.
    slots = optimizer.variables[2:]
    moments, maxima = slots[: 2 * count], slots[2 * count :]
    found = {"m": moments[::2], "v": moments[1::2]}
    if maxima:
        found["v_max"] = maxima
    return found


def _torch_adam(
    arguments: Arguments, weight_decay: float = 0.0
) -> TorchOptimizer | None:
    if arguments.get("epsilon_hat"):
        return None
    weight_decay = arguments.get("weight_decay", weight_decay)
    decoupled = arguments.get("decoupled_weight_decay", True)
    return TorchOptimizer(
        "AdamW" if weight_decay and decoupled else "Adam",
        {
            "betas": (
                arguments.get("beta_1", 0.9),
                arguments.get("beta_2", 0.999),
            ),
            "eps": arguments.get("epsilon", 1e-8),
            "weight_decay": weight_decay,
            "amsgrad": arguments.get("amsgrad", False),
            "maximize": arguments.get("maximize", False),
        },
        {
            "m": "exp_avg",
            "v": "exp_avg_sq",
            "v_max": "max_exp_avg_sq",
        },
    )


# Where epsilon is large it matters where it stands, and where beta_2 is small
# the second moment falls below its maximum soon.
OPTIMIZERS: dict[str, OptimizerUnderTest] = {
    "Adam": OptimizerUnderTest(
        make=tf_opt.Adam,
        op_name="TfOpt>ResourceApplyAdamAmsgrad",
        reference=adam,
        slots=_adam_slots,
        find_slots=_find_adam_slots,
        modes={
            "plain": {},
            "small_betas": {"beta_1": 0.5, "beta_2": 0.6, "epsilon": 0.1},
            "amsgrad": {"amsgrad": True, "beta_2": 0.9},
            "l2": {"weight_decay": 0.1, "decoupled_weight_decay": False},
            "decoupled": {"weight_decay": 0.5},
            "maximize": {"maximize": True},
            "epsilon_hat": {"epsilon_hat": True, "epsilon": 0.01},
            "amsgrad_l2_maximize": {
                "amsgrad": True,
                "beta_2": 0.8,
                "epsilon": 0.01,
                "weight_decay": 0.1,
                "decoupled_weight_decay": False,
                "maximize": True,
            },
            "amsgrad_decoupled_maximize_epsilon_hat": {
                "amsgrad": True,
                "beta_2": 0.8,
                "epsilon": 0.01,
                "weight_decay": 0.5,
                "maximize": True,
                "epsilon_hat": True,
            },
        },
        thorough_mode="amsgrad_decoupled_maximize_epsilon_hat",
        torch=_torch_adam,
    ),
    "AdamW": OptimizerUnderTest(
        make=tf_opt.AdamW,
        op_name="TfOpt>ResourceApplyAdamAmsgrad",
        reference=functools.partial(adam, weight_decay=0.01),
        slots=_adam_slots,
        find_slots=_find_adam_slots,
        modes={
            "plain": {},
            "amsgrad_maximize": {
                "amsgrad": True,
                "beta_2": 0.8,
                "weight_decay": 0.5,
                "maximize": True,
            },
        },
        thorough_mode=None,
        torch=functools.partial(_torch_adam, weight_decay=0.01),
    ),
}

# (optimizer, mode) pairs, to parametrize tests with.
MODES = [
    (name, mode)
    for name, optimizer in OPTIMIZERS.items()
    for mode in optimizer.modes
]
THOROUGH_MODES = [
    (name, optimizer.thorough_mode)
    for name, optimizer in OPTIMIZERS.items()
    if optimizer.thorough_mode
]
