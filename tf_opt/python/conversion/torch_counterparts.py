"""PyTorch's optimizers and what they are in tf_opt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import NoneType
from typing import Any, NamedTuple, get_args

from tf_opt.python.conversion.torch_layouts import Layout
from tf_opt.python.keras_internals import Variable, path_of
from tf_opt.python.optimizers.adadelta import Adadelta
from tf_opt.python.optimizers.adagrad import Adagrad
from tf_opt.python.optimizers.adam import Adam, AdamW
from tf_opt.python.optimizers.adamax import Adamax
from tf_opt.python.optimizers.averaged_sgd import AveragedSGD
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer
from tf_opt.python.optimizers.nadam import NAdam
from tf_opt.python.optimizers.rmsprop import RMSprop
from tf_opt.python.optimizers.sgd import SGD

Variables = Sequence[Variable | None] | Mapping[str, Variable | None]
Layouts = Mapping[str, Layout]


class Counterpart(NamedTuple):
    """An optimizer of PyTorch, in tf_opt.

    Attributes:
        cls: The class.
        slots: PyTorch's names of the slots, by ours.
        fixed: Arguments with which the numbers are the same.
        shared: PyTorch's names of the state that all variables share, by ours.
        theirs: PyTorch's settings that tf_opt has with these values alone.
        names: PyTorch's names of arguments that have another one only there.
    """

    cls: type[FusedOptimizer]
    slots: Mapping[str, str]
    fixed: Mapping[str, Any] = {}
    shared: Mapping[str, str] = {}
    theirs: Mapping[str, Any] = {}
    names: Mapping[str, str] = {}

    def name_of(self, argument: str) -> str:
        """Returns PyTorch's name of an argument."""
        return {**_NAMES, **self.names}.get(argument, argument)


_NAMES = {"learning_rate": "lr", "epsilon": "eps"}
_ADAM_SLOTS = {"m": "exp_avg", "v": "exp_avg_sq", "v_max": "max_exp_avg_sq"}
# By PyTorch's name.
COUNTERPARTS = {
    "Adam": Counterpart(Adam, _ADAM_SLOTS, {"epsilon_hat": False}),
    "AdamW": Counterpart(AdamW, _ADAM_SLOTS, {"epsilon_hat": False}),
    "Adagrad": Counterpart(
        Adagrad,
        {"accumulator": "sum"},
        {"torch_epsilon": True, "row_wise": False},
        theirs={"lr_decay": 0},
    ),
    "RMSprop": Counterpart(
        RMSprop,
        {
            "velocity": "square_avg",
            "momentum_buffer": "momentum_buffer",
            "average_gradient": "grad_avg",
        },
        {"torch_epsilon": True, "torch_momentum": True},
        names={"rho": "alpha"},
    ),
    "Adadelta": Counterpart(
        Adadelta,
        {
            "accumulated_grad": "square_avg",
            "accumulated_delta_var": "acc_delta",
        },
    ),
    "Adamax": Counterpart(
        Adamax, {"m": "exp_avg", "u": "exp_inf"}, {"torch_epsilon": True}
    ),
    "NAdam": Counterpart(
        NAdam, _ADAM_SLOTS, shared={"momentum_product": "mu_product"}
    ),
    "ASGD": Counterpart(AveragedSGD, {"ax": "ax"}, shared={"eta": "eta"}),
    "SGD": Counterpart(
        SGD, {"velocity": "momentum_buffer"}, {"torch_momentum": True}
    ),
}
# Arguments that are one argument in PyTorch.
BETAS = ("beta_1", "beta_2")


def checked(variables: Any) -> Variables:
    """Returns a user's `variables`, in a list unless in a dictionary.

    Raises a TypeError if anything else than variables and None is among them.
    """
    if not isinstance(variables, Mapping):
        is_iterable = isinstance(variables, Iterable)
        variables = list(variables) if is_iterable else [variables]
    for value in getattr(variables, "values", lambda: variables)():
        if not isinstance(value, (*get_args(Variable), NoneType)):
            raise TypeError(
                "`variables` must hold variables, such as those of "
                "`model.trainable_variables`, and None for parameters to "
                f"leave out. Received: a {type(value)}"
            )
    return variables


def layout_of(variable: Variable, layouts: Layouts | None) -> Layout:
    """Returns the permutation from PyTorch's axes to a variable's."""
    rank = len(variable.shape)
    if layouts is None or rank < 2:
        return tuple(range(rank))
    layout = layouts.get(path_of(variable))
    if layout is None or sorted(layout) != list(range(rank)):
        raise ValueError(
            "`layouts` must have a permutation of the axes for each variable "
            "with two or more axes, such as (1, 0) for a Dense kernel. "
            f"Received: {layout} for `{path_of(variable)}` of shape "
            f"{tuple(variable.shape)}"
        )
    return tuple(layout)
