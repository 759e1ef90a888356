"""What a rule hands from each of several steps to the next."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional import scalars
from tf_opt.python.functional.adam_rule import adam
from tf_opt.python.functional.asgd_rule import asgd
from tf_opt.python.functional.averaged_sgd_rule import averaged_sgd
from tf_opt.python.functional.nadam_rule import nadam
from tf_opt.python.functional.tensors import to_tensor
from tf_opt.python.functional.unrolled_hyperparameters import Hyperparameters

# A tensor, or lists, tuples and dictionaries of tensors, one in another.
Structure = Any

# What a loop hands from step to step: of each slot a list, one tensor for each
# variable; of what the variables share a scalar.
State = dict[str, list[tf.Tensor] | tf.Tensor]


class Kept(NamedTuple):
    """What a rule keeps, in the order in which it takes and returns that.

    Attributes:
        slots: What it keeps of each variable, zeros at first.
        shared: A scalar that the variables share, if there is one.
        first: What that is at first; None: the learning rate.
    """

    slots: tuple[str, ...]
    shared: str | None = None
    first: float | None = None


_KEPT = {
    adam: Kept(("m", "v")),
    nadam: Kept(("m", "v"), "momentum_product", 1.0),
    asgd: Kept(("d", "y")),
    averaged_sgd: Kept(("ax",), "eta"),
}


def kept_by(rule: Callable[..., tuple], amsgrad: bool, batch_num: int) -> Kept:
    """What a rule keeps; the arguments are `unroll`'s.

    Raises:
        ValueError: If there is no such rule, or not with these arguments.
    """
    # A rule is compared, not looked up: what it is may have no hash.
    kept = next((kept for known, kept in _KEPT.items() if known is rule), None)
    if kept is None:
        names = ", ".join(known.__name__ for known in _KEPT)
        raise ValueError(
            f"`rule` must be one of tf_opt.functional's {names}. Received: "
            f"{rule!r}"
        )
    amsgrad = scalars.booleans(amsgrad=amsgrad)["amsgrad"]
    batch_num = scalars.fixed_integer("batch_num", batch_num)
    if batch_num < 1:
        raise ValueError(f"`batch_num` must be >= 1, got {batch_num}")
    if amsgrad and rule is not adam:
        raise ValueError(f"`amsgrad` must be False for {rule.__name__}")
    if batch_num > 1 and rule is not asgd:
        raise ValueError(f"`batch_num` must be 1 for {rule.__name__}")
    return kept._replace(slots=(*kept.slots, "v_max")) if amsgrad else kept


def flatten_like(
    variables: Structure, name: str, given: Structure
) -> list[Any]:
    """The leaves of what a user gave.

    Args:
        variables: What it must have the structure of.
        name: What an error calls it.
        given: It.

    Raises:
        ValueError: If it has another one.
    """
    try:
        tf.nest.assert_same_structure(variables, given)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must have the structure of `variables`. Received: {given}"
        ) from error
    return tf.nest.flatten(given)


def first_state(
    kept: Kept,
    variables: Sequence[tf.Tensor],
    batch_num: int,
    hyperparameters: Hyperparameters,
) -> State:
    """What there is before the first step of all.

    Args:
        kept: What the rule keeps.
        variables: The variables.
        batch_num: How many rows ASGD's table has.
        hyperparameters: Those of the steps.
    """
    zeros = [
        tf.zeros_like(variable, arithmetic.slot_dtype(variable.dtype))
        for variable in variables
    ]
    state: State = {"iterations": tf.constant(0, tf.int64)}
    state.update((name, zeros) for name in kept.slots)
    if "y" in state:
        # A row for each batch.
        state["y"] = [tf.stack([zero] * batch_num) for zero in zeros]
    if kept.shared is not None:
        first = kept.first
        if first is None:
            now = hyperparameters.at(0, state["iterations"])
            first = scalars.real("learning_rate", now["learning_rate"])
        state[kept.shared] = arithmetic.float64(first)
    return state


def given_state(
    kept: Kept,
    structure: Structure,
    variables: Sequence[tf.Tensor],
    batch_num: int,
    given: Mapping[str, Structure],
) -> State:
    """What another call returned, checked as far as the rule doesn't.

    Args:
        kept: What the rule keeps.
        structure: The variables, in their structure.
        variables: The variables.
        batch_num: How many rows ASGD's table must have.
        given: What the user gave.

    Raises:
        ValueError: If it isn't what these steps begin with.
    """
    shared = [] if kept.shared is None else [kept.shared]
    names = ["iterations", *kept.slots, *shared]
    if not isinstance(given, Mapping) or sorted(given) != sorted(names):
        received = list(given) if isinstance(given, Mapping) else repr(given)
        raise ValueError(
            f"`state` must hold {', '.join(names)}: what unroll returned for "
            f"this rule. Received: {received}"
        )
    state: State = {}
    for name, value in given.items():
        where = f"state[{name!r}]"
        if name == "iterations":
            value = scalars.integer(where, value)
            state[name] = tf.convert_to_tensor(value, tf.int64)
        elif name in shared:
            state[name] = arithmetic.float64(scalars.real(where, value))
        else:
            leaves = flatten_like(structure, f"`{where}`", value)
            state[name] = [
                to_tensor(where, leaf, arithmetic.slot_dtype(variable.dtype))
                for leaf, variable in zip(leaves, variables, strict=True)
            ]
    for table in state.get("y", ()):
        if not table.shape[:1].is_compatible_with([batch_num]):
            raise ValueError(
                f"`state['y']` must have `batch_num`, {batch_num}, rows. "
                f"Received shape {table.shape}"
            )
    return state
