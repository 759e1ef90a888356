"""The optimizers under test. A new one is an entry here, and a reference."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
import tf_opt
from allpairspy import AllPairs

from reference import rules

Arguments = Mapping[str, Any]


class Row(NamedTuple):
    """One row of a table, to be read like a variable."""

    table: keras.Variable
    index: int

    def numpy(self) -> np.ndarray:
        return self.table.numpy()[self.index]


Slot = keras.Variable | Row
State = dict[str, tf.Tensor]


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
        slot_names: For each slot, how its name ends in `optimizer.variables`.
        modes: Constructor arguments to test, by name.
        thorough_mode: The mode that turns on the most at once, for what is
            too slow to test in every mode; None for an optimizer that shares
            its op, and so this, with another.
        torch_name: The class in `torch.optim` with the same numbers.
    """

    make: Callable[..., keras.optimizers.Optimizer]
    op_name: str
    reference: Callable[..., dict[str, Any]]
    functional: Callable[..., State]
    slot_names: Mapping[str, str]
    modes: Mapping[str, Arguments]
    thorough_mode: str | None
    torch_name: str | None

    def slots(self, arguments: Arguments) -> tuple[str, ...]:
        """The slots in a mode; each row of ASGD's table is one."""
        names = dict.fromkeys(self.slot_names)
        if not arguments.get("amsgrad"):
            names.pop("v_max", None)
        if "y" in names:
            rows = range(arguments.get("batch_num", 1))
            return ("d", *(f"y_{i}" for i in rows))
        return tuple(names)

    def find_slots(
        self, optimizer: keras.optimizers.Optimizer, count: int
    ) -> dict[str, Sequence[Slot]]:
        """Each slot's variables, if the optimizer has `count` variables."""
        found = {}
        for slot, name in self.slot_names.items():
            named = [
                x for x in optimizer.variables if x.name.endswith(f"_{name}")
            ]
            # Moving averages, which come first, are called like AveragedSGD's.
            named = named[-count:]
            if slot == "y":
                for i in range(named[0].shape[0]):
                    found[f"y_{i}"] = [Row(table, i) for table in named]
            elif named:
                found[slot] = named
        return found

    def torch(self, arguments: Arguments) -> tuple[str, Arguments] | None:
        """PyTorch's class and arguments of a mode; None where it has none."""
        name, found = self.torch_name, dict(arguments)
        decoupled = found.pop("decoupled_weight_decay", True)
        decays = decoupled and "weight_decay" in found
        if not name or "epsilon_hat" in found or (name == "ASGD" and decays):
            return None
        if name == "Adam" and decays:
            name = "AdamW"
        if name == "NAdam":
            found["decoupled_weight_decay"] = decoupled
        if "beta_2" in found:
            found["betas"] = found.pop("beta_1", 0.9), found.pop("beta_2")
        if "epsilon" in found:
            found["eps"] = found.pop("epsilon")
        return name, found


def _functional_adam(
    state: State, gradient: tf.Tensor, *, t: int, **arguments: Any
) -> State:
    arguments.pop("amsgrad", None)
    return tf_opt.functional.adam(
        gradient=gradient, step=t, **state, **arguments
    )._asdict()


def _functional_nadam(
    state: State, gradient: tf.Tensor, *, t: int, **arguments: Any
) -> State:
    beta_1 = arguments.get("beta_1", 0.9)
    decay = arguments.get("momentum_decay", 0.004)
    momenta = [beta_1 * (1 - 0.5 * 0.96 ** (i * decay)) for i in range(1, t)]
    return tf_opt.functional.nadam(
        gradient=gradient,
        step=t,
        momentum_product=math.prod(momenta),
        **state,
        **arguments,
    )._asdict()


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
    return {**state, "variable": result.variable, "d": result.d, y: result.y}


def _functional_averaged_sgd(
    state: State, gradient: tf.Tensor, *, t: int, **arguments: Any
) -> State:
    rate = arguments["learning_rate"]
    lambd = arguments.get("lambd", 1e-4)
    eta = rate / (1 + lambd * rate * (t - 1)) ** arguments.get("alpha", 0.75)
    return tf_opt.functional.averaged_sgd(
        gradient=gradient, step=t, eta=eta, **state, **arguments
    )._asdict()


_MOMENTS = {"m": "momentum", "v": "velocity"}
_L2 = {"weight_decay": 0.1, "decoupled_weight_decay": False}

# Where epsilon is large it matters where it stands, and where beta_2 is small
# the second moment falls below its maximum soon.
OPTIMIZERS: dict[str, OptimizerUnderTest] = {
    "Adam": OptimizerUnderTest(
        make=tf_opt.Adam,
        op_name="TfOpt>ResourceApplyAdamAmsgrad",
        reference=rules.adam,
        functional=_functional_adam,
        slot_names={**_MOMENTS, "v_max": "velocity_hat"},
        modes={
            "plain": {},
            "small_betas": {"beta_1": 0.5, "beta_2": 0.6, "epsilon": 0.1},
            "amsgrad": {"amsgrad": True, "beta_2": 0.9},
            "l2": _L2,
            "decoupled": {"weight_decay": 0.5},
            "maximize": {"maximize": True},
            "epsilon_hat": {"epsilon_hat": True, "epsilon": 0.01},
            "amsgrad_l2_maximize": {
                "amsgrad": True,
                "beta_2": 0.8,
                "epsilon": 0.01,
                **_L2,
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
        torch_name="Adam",
    ),
    "AdamW": OptimizerUnderTest(
        make=tf_opt.AdamW,
        op_name="TfOpt>ResourceApplyAdamAmsgrad",
        reference=functools.partial(rules.adam, weight_decay=0.01),
        functional=functools.partial(_functional_adam, weight_decay=0.01),
        slot_names={**_MOMENTS, "v_max": "velocity_hat"},
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
        torch_name="AdamW",
    ),
    "NAdam": OptimizerUnderTest(
        make=tf_opt.NAdam,
        op_name="TfOpt>ResourceApplyNAdam",
        reference=rules.nadam,
        functional=_functional_nadam,
        slot_names=_MOMENTS,
        modes={
            "plain": {},
            "keras_schedule": {"momentum_decay": 1.0},
            "small_betas": {"beta_1": 0.5, "beta_2": 0.6, "epsilon": 0.1},
            "l2": _L2,
            "decoupled": {"weight_decay": 0.5},
            "maximize": {"maximize": True},
            "l2_maximize_small_beta": {
                "beta_2": 0.8,
                "epsilon": 0.01,
                "momentum_decay": 0.3,
                **_L2,
                "maximize": True,
            },
        },
        thorough_mode="l2_maximize_small_beta",
        torch_name="NAdam",
    ),
    "ASGD": OptimizerUnderTest(
        make=tf_opt.ASGD,
        op_name="TfOpt>ResourceApplyASGD",
        reference=rules.asgd,
        functional=_functional_asgd,
        slot_names={"d": "gradient_sum", "y": "gradients"},
        modes={
            "plain": {},
            "batches": {"batch_num": 4},
            "l2": {"batch_num": 7, **_L2},
            "decoupled": {"batch_num": 3, "weight_decay": 0.5},
            "maximize": {"batch_num": 2, "maximize": True},
            "l2_maximize": {"batch_num": 3, **_L2, "maximize": True},
        },
        thorough_mode="l2_maximize",
        torch_name=None,
    ),
    "AveragedSGD": OptimizerUnderTest(
        make=tf_opt.AveragedSGD,
        op_name="TfOpt>ResourceApplyAveragedSGD",
        reference=rules.averaged_sgd,
        functional=_functional_averaged_sgd,
        slot_names={"ax": "average"},
        modes={
            "plain": {},
            "averages": {"t0": 5, "lambd": 0.5},
            "l2": {"t0": 0, **_L2},
            "decoupled": {"t0": 3, "weight_decay": 0.5},
            "maximize": {"t0": 2.5, "maximize": True},
            "l2_maximize": {
                "t0": 1,
                "lambd": 0.3,
                "alpha": 0.5,
                **_L2,
                "maximize": True,
            },
        },
        thorough_mode="l2_maximize",
        torch_name="ASGD",
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
    modes: Iterable[tuple[str, ...]],
    *choices: Iterable[Any],
    filter_func: Callable[[list[Any]], bool] = lambda case: True,
) -> list[tuple[Any, ...]]:
    """Cases in which every pair of choices occurs with each optimizer.

    Each optimizer has its own pairs: a new one leaves the others' cases alone.

    Args:
        modes: Tuples that begin with an optimizer's name.
        *choices: What is combined with them.
        filter_func: Whether a case, or its beginning, may occur.
    """
    modes, choices = list(modes), list(map(list, choices))
    cases = []
    for name in dict.fromkeys(mode[0] for mode in modes):
        own = [mode for mode in modes if mode[0] == name]
        cases += [
            (*mode, *chosen)
            for mode, *chosen in AllPairs(
                [own, *choices], filter_func=filter_func
            )
        ]
    return cases
