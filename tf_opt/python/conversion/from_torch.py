"""Conversion of PyTorch optimizers to tf_opt optimizers."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import Unpack

from tf_opt.python.conversion.torch_counterparts import (
    BETAS,
    COUNTERPARTS,
    Layouts,
    Variables,
    checked,
    layout_of,
)
from tf_opt.python.conversion.torch_layouts import Layout
from tf_opt.python.keras_internals import Variable, path_of
from tf_opt.python.optimizers.base.arguments import CommonArguments
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer
from tf_opt.python.optimizers.state import patterns


def from_torch(
    optimizer: Any,
    variables: Variables,
    layouts: Layouts | None = None,
    **options: Unpack[CommonArguments],
) -> FusedOptimizer:
    """Converts a PyTorch optimizer and keeps its state.

    The result continues where PyTorch's optimizer stopped; the next steps are
    PyTorch's, to rounding. Move the weights yourself, before you call this with
    `use_ema=True`: averages begin as the weights. Clipping and accumulation
    aren't part of a PyTorch optimizer, so pass them as options.

    Args:
        optimizer: A `torch.optim.Adam`, `AdamW`, `NAdam`, `Adamax`,
            `RMSprop`, `Adagrad`, `Adadelta`, `ASGD` or `SGD`; or a tuple of
            the name of such a class and the optimizer's `state_dict()`. tf_opt
            doesn't import PyTorch. Settings that the `state_dict` of an older
            PyTorch lacks have PyTorch's defaults.
        variables: The variables in the order of the optimizer's parameters,
            with None for parameters to leave out. Or, if the optimizer was
            created with `named_parameters()`, a dictionary with the
            parameters' names as keys. The result is built with the variables
            in this order, which must be that of `model.trainable_variables` if
            you want to save it with the model.
        layouts: A dictionary with the path of each variable that has two or
            more axes. Its value is a permutation: `numpy.transpose(parameter,
            permutation)` has the variable's shape.
            `tf_opt.torch_layouts(model)` returns those of usual layers. None:
            all axes have the same order.
        **options: Arguments that all tf_opt optimizers take, such as
            `master_weights=True` or `global_clipnorm=1.0`.

    Returns:
        A built optimizer: `AveragedSGD` for `ASGD`, otherwise the class of the
        same name. The first group's learning rate and weight decay are its own
        (if they aren't 0), other groups' become multipliers.

    Raises:
        TypeError: If `optimizer` has another class, such as a subclass, or
            `variables` holds anything but variables and None.
        ValueError: If the state isn't that of a PyTorch optimizer, variables
            and parameters don't fit, or the state isn't one that tf_opt can
            have: groups that differ in other settings, or parameters with
            different numbers of steps. PyTorch's SGD doesn't count its steps:
            `iterations` is then 0 or 1.

    Example:

    >>> import keras, numpy as np, tf_opt
    >>> variable = keras.Variable([1.0, 2.0])
    >>> state_dict = {
    ...     "state": {0: {"step": 1.0, "exp_avg": np.array([0.05, -0.05]),
    ...                   "exp_avg_sq": np.array([2.5e-4, 2.5e-4])}},
    ...     "param_groups": [{
    ...         "lr": 0.5, "betas": (0.9, 0.999), "eps": 1e-8,
    ...         "weight_decay": 0.01, "amsgrad": False, "maximize": False,
    ...         "params": [0]}]}
    >>> optimizer = tf_opt.from_torch(("AdamW", state_dict), [variable])
    >>> int(optimizer.iterations), optimizer.weight_decay
    (1, 0.01)
    """
    name, state_dict = _name_and_state(optimizer)
    counterpart = COUNTERPARTS[name]
    parameters = _parameters(state_dict, checked(variables))
    kept = [parameter.variable for parameter in parameters]
    axes = [layout_of(variable, layouts) for variable in kept]
    result = counterpart.cls(**{**_arguments(name, parameters), **options})
    result.build(kept)
    for variable, average in zip(kept, result._state.averages, strict=False):
        if average is not None:
            average.assign(variable)
    steps = _same(parameters, "step", _steps_of)
    # `iterations` counts updates, this variable the steps that accumulate, too.
    micro_steps = result.gradient_accumulation_steps or 1
    result._iterations.assign(int(steps) * micro_steps)
    for ours, key in counterpart.shared.items():
        if steps:
            value = _same(parameters, key, lambda x, k=key: float(x.state[k]))
            result._state.shared[ours].assign(value)
    for index, parameter in enumerate(parameters):
        slots = zip(result._state.spec.slots, result._state.slots, strict=True)
        for slot, its_variables in slots:
            value = parameter.state.get(counterpart.slots[slot.name])
            if value is not None:
                value = _in_layout(value, parameter.variable, axes[index])
                its_variables[index].assign(value)
    return result


class _Parameter(NamedTuple):
    """A parameter of PyTorch's optimizer, with its group and its state."""

    variable: Variable
    group: Mapping[str, Any]
    state: Mapping[str, Any]


def _name_and_state(optimizer: Any) -> tuple[str, Mapping[str, Any]]:
    """Returns the class's name and the state of what `from_torch` takes."""
    if isinstance(optimizer, tuple) and len(optimizer) == 2:
        name, state_dict = optimizer
    else:
        of_torch = type(optimizer).__module__.startswith("torch.optim.")
        name = type(optimizer).__name__ if of_torch else None
        state_dict = optimizer.state_dict() if of_torch else None
    if name not in COUNTERPARTS or not isinstance(state_dict, Mapping):
        raise TypeError(
            "`optimizer` must be an optimizer of torch.optim, or a tuple of "
            "its class's name and its state_dict, and the class one of "
            f"{', '.join(COUNTERPARTS)}. Received: {optimizer!r}"
        )
    _check_has(state_dict, "state_dict", state=Mapping, param_groups=Sequence)
    for group in state_dict["param_groups"]:
        _check_has(group, "group", params=Sequence, lr=object)
    return name, state_dict


def _check_has(part: Any, what: str, **kinds: type) -> None:
    """Raises a ValueError unless a part of a state_dict has these keys."""
    values = part if isinstance(part, Mapping) else {}
    for key, kind in kinds.items():
        value = values.get(key)
        if value is None or not isinstance(value, kind):
            raise ValueError(
                "`optimizer` must have the state_dict of a PyTorch optimizer. "
                f"Expected: the key {key!r} in the {what}, a {kind.__name__}. "
                f"Received: a {type(part).__name__} with {key}={value!r} and "
                f"the keys {list(values)}"
            )


def _parameters(
    state_dict: Mapping[str, Any], variables: Variables
) -> list[_Parameter]:
    """Returns the parameters that have a variable, in its order."""
    found = [
        (group, state_dict["state"].get(index) or {})
        for group in state_dict["param_groups"]
        for index in group["params"]
    ]
    if isinstance(variables, Mapping):
        names = [
            name
            for group in state_dict["param_groups"]
            for name in group.get("param_names", ())
        ]
        if set(names) != set(variables) or len(names) != len(found):
            raise ValueError(
                "`variables` must have the names of the parameters as keys "
                "(PyTorch knows them if the optimizer was created with "
                f"`named_parameters()`). Expected: {names}. Received: "
                f"{list(variables)}"
            )
        by_name = dict(zip(names, found, strict=True))
        found = [by_name[name] for name in variables]
        variables = list(variables.values())
    if len(variables) != len(found):
        raise ValueError(
            "`variables` must have one entry for each parameter (None leaves "
            f"one out). Expected: {len(found)}. Received: {len(variables)}"
        )
    parameters = [
        _Parameter(variable, *of_torch)
        for variable, of_torch in zip(variables, found, strict=True)
        if variable is not None
    ]
    if not parameters:
        raise ValueError("`variables` must have a variable. Received: none")
    return parameters


def _steps_of(parameter: _Parameter) -> float:
    """Returns how many steps a parameter had; 1 for some, if not counted."""
    has_state = any(x is not None for x in parameter.state.values())
    return float(parameter.state.get("step", has_state))


def _same(parameters: Sequence[_Parameter], name: str, get: Any) -> Any:
    """Returns what must be the same for all parameters, or else raises."""
    first = get(parameters[0])
    for parameter in parameters:
        if get(parameter) != first:
            raise ValueError(
                f"`{name}` must be the same for all parameters. (None in "
                "`variables` leaves out a parameter that had no gradients.) "
                f"Received: {first} for `{path_of(parameters[0].variable)}` "
                f"and {get(parameter)} for `{path_of(parameter.variable)}`"
            )
    return first


def _arguments(name: str, parameters: Sequence[_Parameter]) -> dict[str, Any]:
    """Returns the arguments with which tf_opt's optimizer is PyTorch's."""
    counterpart = COUNTERPARTS[name]
    # What an older PyTorch's group lacks has the same default in both.
    signature = inspect.signature(counterpart.cls)
    defaults = {x.name: x.default for x in signature.parameters.values()}
    defaults["decoupled_weight_decay"] = name == "AdamW"

    def setting(parameter: _Parameter, argument: str) -> Any:
        group = parameter.group
        if argument in BETAS and "betas" in group:
            return float(group["betas"][BETAS.index(argument)])
        return group.get(counterpart.name_of(argument), defaults[argument])

    arguments = {
        argument: _same(
            parameters,
            counterpart.name_of(argument),
            functools.partial(setting, argument=argument),
        )
        for argument in (
            *counterpart.cls._own_arguments,
            "maximize",
            "decoupled_weight_decay",
        )
    }
    for key, value in counterpart.theirs.items():
        received = _same(parameters, key, lambda x, k=key: x.group.get(k, 0))
        if received != value:
            raise ValueError(
                f"`{key}` must be {value} in PyTorch's {name}: give a learning "
                f"rate schedule to tf_opt's. Received: {key}={received}"
            )
    arguments |= counterpart.fixed
    for argument in ("learning_rate", "weight_decay"):
        values = [float(setting(x, argument) or 0.0) for x in parameters]
        base = next(filter(None, values), 0.0)
        arguments[argument] = base
        if any(value != base for value in values):
            arguments[f"{argument}_multipliers"] = patterns.of_paths(
                "variables",
                [parameter.variable for parameter in parameters],
                [value / base for value in values],
            )
    if (
        name == "ASGD"
        and "learning_rate_multipliers" in arguments
        and arguments["lambd"]
    ):
        raise ValueError(
            "`lr` must be the same for all groups of an ASGD with `lambd`, "
            "whose step size isn't proportional to it. Received: "
            f"{sorted({float(x.group['lr']) for x in parameters})}"
        )
    return arguments


def _in_layout(value: Any, variable: Variable, layout: Layout) -> np.ndarray:
    """Converts a tensor of PyTorch's to an array of a variable's shape."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        # NumPy has no bfloat16.
        value = value.float() if value.itemsize == 2 else value
    value = np.asarray(value)
    fits = value.ndim == len(layout)
    moved = np.transpose(value, layout) if fits else value
    if moved.shape != tuple(variable.shape):
        raise ValueError(
            "`variables` must have the shapes of the parameters, after "
            "`layouts` (tf_opt.torch_layouts(model) knows those of usual "
            f"layers). Expected: {tuple(variable.shape)} for "
            f"`{path_of(variable)}`. Received: {value.shape}, which the layout "
            f"{layout} makes {moved.shape}"
        )
    return moved
