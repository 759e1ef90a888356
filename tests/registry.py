"""The optimizers under test. A new one is an entry here, and a reference."""

from __future__ import annotations

import functools
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
import tf_opt
from allpairspy import AllPairs

from reference.adam import adam
from reference.asgd import asgd
from reference.averaged_sgd import averaged_sgd
from reference.nadam import nadam

Arguments = Mapping[str, Any]


class Row(NamedTuple):
    """One row of a table, to be read like a variable."""

    table: keras.Variable
    index: int

    def numpy(self) -> np.ndarray:
        """Its value."""
        return self.table.numpy()[self.index]


Slot = keras.Variable | Row
State = dict[str, tf.Tensor]


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
        functional: The same by `tf_opt.functional`, on tensors.
        slots: The names of the slots that a mode's arguments lead to.
        find_slots: A function of (optimizer, number of variables) that returns
            each slot's variables, by name, from the public
            `optimizer.variables`.
        lasting_slots: The slots that a NaN never leaves.
        modes: Constructor arguments to test, by name.
        thorough_mode: The mode that turns on the most at once, for what is
            too slow to test in every mode; None for an optimizer that shares
            its op, and so this, with another.
        torch: What PyTorch calls a mode; None where it has no such mode.
    """

    make: Callable[..., keras.optimizers.Optimizer]
    op_name: str
    reference: Callable[..., dict[str, Any]]
    functional: Callable[..., State]
    slots: Callable[[Arguments], tuple[str, ...]]
    find_slots: Callable[
        [keras.optimizers.Optimizer, int],
        dict[str, Sequence[Slot]],
    ]
    lasting_slots: tuple[str, ...]
    modes: Mapping[str, Arguments]
    thorough_mode: str | None
    torch: Callable[[Arguments], TorchOptimizer | None]


def _adam_slots(arguments: Arguments) -> tuple[str, ...]:
    return ("m", "v", "v_max") if arguments.get("amsgrad") else ("m", "v")


def _find_adam_slots(
    optimizer: keras.optimizers.Optimizer, count: int
) -> dict[str, Sequence[Slot]]:
    # Keras' order: iterations, learning rate, then m and v variable by
    # variable, then every v_max.
    slots = optimizer.variables[2:]
    moments, maxima = slots[: 2 * count], slots[2 * count :]
    found = {"m": moments[::2], "v": moments[1::2]}
    if maxima:
        found["v_max"] = maxima
    return found


def _functional_adam(
    state: State, gradient: tf.Tensor, *, t: int, **arguments: Any
) -> State:
    arguments.pop("amsgrad", None)
    result = tf_opt.functional.adam(
        gradient=gradient, step=t, **state, **arguments
    )._asdict()
    return {key: result[key] for key in state}


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


def _nadam_slots(arguments: Arguments) -> tuple[str, ...]:
    return ("m", "v")


def _find_nadam_slots(
    optimizer: keras.optimizers.Optimizer, count: int
) -> dict[str, Sequence[Slot]]:
    *moments, _ = optimizer.variables[2:]
    return {"m": moments[::2], "v": moments[1::2]}


def _functional_nadam(
    state: State, gradient: tf.Tensor, *, t: int, **arguments: Any
) -> State:
    beta_1 = arguments.get("beta_1", 0.9)
    decay = arguments.get("momentum_decay", 0.004)
    product = 1.0
    for i in range(1, t):
        product *= beta_1 * (1 - 0.5 * 0.96 ** (i * decay))
    result = tf_opt.functional.nadam(
        gradient=gradient,
        step=t,
        momentum_product=product,
        **state,
        **arguments,
    )._asdict()
    return {key: result[key] for key in state}


def _torch_nadam(arguments: Arguments) -> TorchOptimizer:
    return TorchOptimizer(
        "NAdam",
        {
            "betas": (
                arguments.get("beta_1", 0.9),
                arguments.get("beta_2", 0.999),
            ),
            "eps": arguments.get("epsilon", 1e-8),
            "weight_decay": arguments.get("weight_decay", 0.0),
            "momentum_decay": arguments.get("momentum_decay", 4e-3),
            "decoupled_weight_decay": arguments.get(
                "decoupled_weight_decay", True
            ),
            "maximize": arguments.get("maximize", False),
        },
        {"m": "exp_avg", "v": "exp_avg_sq"},
    )


def _asgd_slots(arguments: Arguments) -> tuple[str, ...]:
    rows = range(arguments.get("batch_num", 1))
    return ("d", *(f"y_{i}" for i in rows))


def _find_asgd_slots(
    optimizer: keras.optimizers.Optimizer, count: int
) -> dict[str, Sequence[Slot]]:
    # Behind the slots: the order, which have been seen, which is said.
    *slots, _, _, _ = optimizer.variables[2:]
    tables = slots[1::2]
    found: dict[str, Sequence[Slot]] = {"d": slots[::2]}
    for i in range(tables[0].shape[0]):
        found[f"y_{i}"] = [Row(table, i) for table in tables]
    return found


def _functional_asgd(
    state: State,
    gradient: tf.Tensor,
    *,
    t: int,
    batch_num: int = 1,
    **arguments: Any,
) -> State:
    y = f"y_{(t - 1) % batch_num}"
    result = tf_opt.functional.asgd(
        state["variable"],
        gradient,
        state["d"],
        state[y],
        seen_batches=min(t, batch_num),
        **arguments,
    )
    return {
        **state,
        "variable": result.variable,
        "d": result.d,
        y: result.y,
    }


def _averaged_sgd_slots(arguments: Arguments) -> tuple[str, ...]:
    return ("ax",)


def _find_averaged_sgd_slots(
    optimizer: keras.optimizers.Optimizer, count: int
) -> dict[str, Sequence[Slot]]:
    *averages, _ = optimizer.variables[2:]
    return {"ax": averages}


def _functional_averaged_sgd(
    state: State,
    gradient: tf.Tensor,
    *,
    t: int,
    learning_rate: float,
    **arguments: Any,
) -> State:
    lambd = arguments.get("lambd", 1e-4)
    alpha = arguments.get("alpha", 0.75)
    eta = learning_rate / (1 + lambd * learning_rate * (t - 1)) ** alpha
    result = tf_opt.functional.averaged_sgd(
        gradient=gradient,
        step=t,
        eta=eta,
        learning_rate=learning_rate,
        **state,
        **arguments,
    )._asdict()
    return {key: result[key] for key in state}


def _torch_asgd(arguments: Arguments) -> TorchOptimizer | None:
    weight_decay = arguments.get("weight_decay", 0.0)
    if weight_decay and arguments.get("decoupled_weight_decay", True):
        return None
    return TorchOptimizer(
        "ASGD",
        {
            "lambd": arguments.get("lambd", 1e-4),
            "alpha": arguments.get("alpha", 0.75),
            "t0": arguments.get("t0", 1e6),
            "weight_decay": weight_decay,
            "maximize": arguments.get("maximize", False),
        },
        {"ax": "ax"},
    )


def _no_torch(arguments: Arguments) -> None:
    """PyTorch has no such optimizer."""


# Where epsilon is large it matters where it stands, and where beta_2 is small
# the second moment falls below its maximum soon.
OPTIMIZERS: dict[str, OptimizerUnderTest] = {
    "Adam": OptimizerUnderTest(
        make=tf_opt.Adam,
        op_name="TfOpt>ResourceApplyAdamAmsgrad",
        reference=adam,
        functional=_functional_adam,
        slots=_adam_slots,
        find_slots=_find_adam_slots,
        lasting_slots=("m", "v", "v_max"),
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
        functional=functools.partial(_functional_adam, weight_decay=0.01),
        slots=_adam_slots,
        find_slots=_find_adam_slots,
        lasting_slots=("m", "v", "v_max"),
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
    "NAdam": OptimizerUnderTest(
        make=tf_opt.NAdam,
        op_name="TfOpt>ResourceApplyNAdam",
        reference=nadam,
        functional=_functional_nadam,
        slots=_nadam_slots,
        find_slots=_find_nadam_slots,
        lasting_slots=("m", "v"),
        modes={
            "plain": {},
            "keras_schedule": {"momentum_decay": 1.0},
            "small_betas": {"beta_1": 0.5, "beta_2": 0.6, "epsilon": 0.1},
            "l2": {"weight_decay": 0.1, "decoupled_weight_decay": False},
            "decoupled": {"weight_decay": 0.5},
            "maximize": {"maximize": True},
            "l2_maximize_small_beta": {
                "beta_2": 0.8,
                "epsilon": 0.01,
                "momentum_decay": 0.3,
                "weight_decay": 0.1,
                "decoupled_weight_decay": False,
                "maximize": True,
            },
        },
        thorough_mode="l2_maximize_small_beta",
        torch=_torch_nadam,
    ),
    "ASGD": OptimizerUnderTest(
        make=tf_opt.ASGD,
        op_name="TfOpt>ResourceApplyASGD",
        reference=asgd,
        functional=_functional_asgd,
        slots=_asgd_slots,
        find_slots=_find_asgd_slots,
        lasting_slots=("d",),
        modes={
            "plain": {},
            "batches": {"batch_num": 4},
            "l2": {
                "batch_num": 7,
                "weight_decay": 0.1,
                "decoupled_weight_decay": False,
            },
            "decoupled": {"batch_num": 3, "weight_decay": 0.5},
            "maximize": {"batch_num": 2, "maximize": True},
            "l2_maximize": {
                "batch_num": 3,
                "weight_decay": 0.1,
                "decoupled_weight_decay": False,
                "maximize": True,
            },
        },
        thorough_mode="l2_maximize",
        torch=_no_torch,
    ),
    "AveragedSGD": OptimizerUnderTest(
        make=tf_opt.AveragedSGD,
        op_name="TfOpt>ResourceApplyAveragedSGD",
        reference=averaged_sgd,
        functional=_functional_averaged_sgd,
        slots=_averaged_sgd_slots,
        find_slots=_find_averaged_sgd_slots,
        lasting_slots=("ax",),
        modes={
            "plain": {},
            "averages": {"t0": 5, "lambd": 0.5},
            "l2": {
                "t0": 0,
                "weight_decay": 0.1,
                "decoupled_weight_decay": False,
            },
            "decoupled": {"t0": 3, "weight_decay": 0.5},
            "maximize": {"t0": 2.5, "maximize": True},
            "l2_maximize": {
                "t0": 1,
                "lambd": 0.3,
                "alpha": 0.5,
                "weight_decay": 0.1,
                "decoupled_weight_decay": False,
                "maximize": True,
            },
        },
        thorough_mode="l2_maximize",
        torch=_torch_asgd,
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


def pairwise(
    modes: Sequence[tuple[str, str]], *choices: Sequence[Any]
) -> list[tuple[Any, ...]]:
    """Cases in which every pair of choices occurs with each optimizer.

    Each optimizer has its own pairs: a new one leaves the others' cases alone.

    Args:
        modes: (optimizer, mode) pairs.
        *choices: What else a case consists of.
    """
    cases = []
    for name in dict.fromkeys(name for name, _ in modes):
        own = [mode for mode in modes if mode[0] == name]
        cases += [
            (*mode, *chosen) for mode, *chosen in AllPairs([own, *choices])
        ]
    return cases
