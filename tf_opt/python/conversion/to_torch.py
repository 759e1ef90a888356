"""Conversion of tf_opt optimizers to the state of PyTorch optimizers."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_opt.python import keras_internals
from tf_opt.python.conversion import features
from tf_opt.python.conversion.torch_counterparts import (
    BETAS,
    COUNTERPARTS,
    Counterpart,
    Layouts,
    Variables,
    checked,
    layout_of,
)
from tf_opt.python.keras_internals import Variable, path_of
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer

# Those in PyTorch that have L2 decay and decoupled decay.
_CHOOSE_DECAY = ("Adam", "NAdam")


def to_torch(
    optimizer: FusedOptimizer,
    variables: Variables,
    layouts: Layouts | None = None,
) -> dict[str, Any]:
    """Converts an optimizer's state to a PyTorch optimizer's `state_dict`.

    It has one parameter group for each run of variables with the same learning
    rate and weight decay. A PyTorch optimizer with such groups loads it:

    ```python
    state_dict = tf_opt.to_torch(optimizer, model.trainable_variables, layouts)
    parameters = list(network.parameters())
    torch_optimizer = torch.optim.AdamW(
        {"params": [parameters[i] for i in group["params"]]}
        for group in state_dict["param_groups"]
    )
    torch_optimizer.load_state_dict(state_dict)
    ```

    Args:
        optimizer: A built `tf_opt.Adam`, `AdamW`, `NAdam`, `Adamax`,
            `RMSprop`, `Adagrad`, `Adadelta`, `AveragedSGD` (for
            `torch.optim.ASGD`) or `SGD`. A schedule becomes its present rate.
            The rows of tables with `lazy_mode="catch_up"` catch up first.
        variables: All variables of the optimizer in the order of PyTorch's
            parameters, with None for other parameters; or a dictionary with
            the parameters' names as keys.
        layouts: As in `from_torch`.

    Returns:
        A `state_dict` with PyTorch's tensors. An `Adam` with decoupled weight
        decay loads into `torch.optim.AdamW`. As in PyTorch, gradients that
        `gradient_accumulation_steps` has summed up aren't part of it.

    Raises:
        ImportError: If PyTorch isn't installed.
        TypeError: If PyTorch has no such optimizer, `optimizer` is a
            subclass, or `variables` holds anything but variables and None.
        ValueError: If the optimizer isn't built, or has settings or state that
            PyTorch's optimizer lacks, or variables don't fit.

    Example:

    >>> import keras, tf_opt
    >>> variable = keras.Variable([1.0, 2.0])
    >>> optimizer = tf_opt.SGD(0.5)
    >>> optimizer.build([variable])
    >>> try:
    ...     groups = tf_opt.to_torch(optimizer, [variable])["param_groups"]
    ... except ImportError:  # PyTorch isn't installed
    ...     groups = [{"lr": 0.5}]
    >>> groups[0]["lr"]
    0.5
    """
    # Imported here because nothing else needs it.
    import torch

    name, counterpart = _counterpart_of(optimizer)
    _check_features(getattr(torch.optim, name), counterpart, optimizer)
    if not optimizer.built:
        raise ValueError(
            "`optimizer` must be built: train first, or call "
            f"`optimizer.build(variables)`. Received: {optimizer}"
        )
    variables = checked(variables)
    optimizer.catch_up()
    names = None
    if isinstance(variables, Mapping):
        names, variables = list(variables), list(variables.values())
    indices = _indices(optimizer, variables)
    groups = _groups(name, optimizer, indices)
    if names is not None:
        for group in groups:
            group["param_names"] = [names[i] for i in group["params"]]
    steps = int(optimizer.iterations.numpy())
    built = optimizer._state
    shared = {
        key: float(built.shared[ours].numpy())
        for ours, key in counterpart.shared.items()
    }
    if name != "SGD":
        shared["step"] = float(steps)
    if name == "ASGD":
        shared["mu"] = 1 / max(1, steps - float(optimizer.t0))
    # PyTorch creates it in the first step, unless it isn't zero.
    has_state = steps or any(slot.first for slot in optimizer._spec.slots)
    state = {}
    for position, index in enumerate(indices):
        if index is None or not has_state:
            continue
        # PyTorch counts each parameter's steps in place.
        numbers = {key: torch.tensor(x) for key, x in shared.items()}
        state[position] = numbers
        specs, slots = built.spec.slots, built.slots_of(index)
        for slot, variable in zip(specs, slots, strict=True):
            value = tf.convert_to_tensor(variable)
            if value.dtype == tf.bfloat16:
                value = tf.cast(value, tf.float32)
            layout = layout_of(variables[position], layouts)
            value = np.transpose(value.numpy(), np.argsort(layout))
            numbers[counterpart.slots[slot.name]] = torch.tensor(value)
    return {"state": state, "param_groups": groups}


def _counterpart_of(optimizer: Any) -> tuple[str, Counterpart]:
    """Returns PyTorch's optimizer by name."""
    for name, counterpart in COUNTERPARTS.items():
        if type(optimizer) is counterpart.cls:
            return name, counterpart
    classes = ", ".join(x.cls.__name__ for x in COUNTERPARTS.values())
    raise TypeError(
        f"`optimizer` must be one of tf_opt's {classes}; PyTorch has no other. "
        f"Received: {optimizer} of type {type(optimizer)}"
    )


def _check_features(
    theirs: type, counterpart: Counterpart, optimizer: FusedOptimizer
) -> None:
    """Raises for what PyTorch's optimizer lacks."""
    name = theirs.__name__
    taken = {*BETAS, *inspect.signature(theirs).parameters}
    own = inspect.signature(counterpart.cls).parameters
    fixed = {
        argument: own[argument].default
        for argument in counterpart.cls._own_arguments
        if not taken & {argument, counterpart.name_of(argument)}
    } | counterpart.fixed
    if name not in _CHOOSE_DECAY:
        fixed["decoupled_weight_decay"] = name == "AdamW"
    lacks = (
        "clipnorm",
        "clipvalue",
        "global_clipnorm",
        "use_ema",
        "loss_scale_factor",
        "skip_nonfinite",
        "master_weights",
        "stochastic_rounding",
    )
    features.check(optimizer, "PyTorch", lacks, fixed)


def _indices(
    optimizer: FusedOptimizer, variables: Iterable[Variable | None]
) -> list[int | None]:
    """Returns the positions of variables in the optimizer."""
    known = optimizer._state.variables
    positions = {id(variable): i for i, variable in enumerate(known)}
    given = [x for x in variables if x is not None]
    if {id(x) for x in given} != positions.keys():
        expected, received = (list(map(path_of, x)) for x in (known, given))
        raise ValueError(
            "`variables` must be those that `optimizer` was built with, in the "
            f"order of PyTorch's parameters. Expected: {expected}. Received: "
            f"{received}"
        )
    return [None if x is None else positions[id(x)] for x in variables]


def _groups(
    name: str, optimizer: FusedOptimizer, indices: Sequence[int | None]
) -> list[dict[str, Any]]:
    """Returns a group for each run of variables with the same settings."""
    counterpart = COUNTERPARTS[name]
    # Variables in the place of numbers are numbers there.
    config = keras_internals.config_of(optimizer)
    own: dict[str, Any] = {
        counterpart.name_of(argument): config[argument]
        for argument in type(optimizer)._own_arguments
        if argument not in (*BETAS, *counterpart.fixed)
    }
    own |= counterpart.theirs
    if BETAS[0] in config:
        own["betas"] = tuple(config[beta] for beta in BETAS)
    if name in ("AdamW", *_CHOOSE_DECAY):
        own["decoupled_weight_decay"] = optimizer.decoupled_weight_decay
    own["maximize"] = optimizer.maximize
    known = [index for index in indices if index is not None]
    count = len(known)
    rates = np.broadcast_to(
        optimizer._state.learning_rate_factors(known), count
    ) * float(keras.ops.convert_to_numpy(optimizer.learning_rate))
    decays = np.broadcast_to(
        optimizer._state.weight_decays(optimizer.weight_decay, known), count
    )
    pairs = zip(rates.tolist(), decays.tolist(), strict=True)
    by_index = dict(zip(known, pairs, strict=True))
    settings = by_index[known[0]]
    # A parameter without a variable is in the group before it.
    of_each = [settings := by_index.get(index, settings) for index in indices]
    runs = itertools.groupby(range(len(indices)), of_each.__getitem__)
    return [
        {**own, "lr": rate, "weight_decay": decay, "params": list(positions)}
        for (rate, decay), positions in runs
    ]
