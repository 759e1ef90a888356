"""One step of a rule on one tensor, with checked arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tf_opt.python.functional import arithmetic, checks
from tf_opt.python.functional.arithmetic import is_known
from tf_opt.python.functional.rule_spec import ROW_WISE, RuleSpec

# Narrower types that a slot may have, by arithmetic type.
_NARROWER = {tf.float32: (tf.bfloat16,), tf.float64: (tf.float32, tf.bfloat16)}


def pure_step(spec: RuleSpec, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Checks the arguments of a rule's function and computes its step.

    Returns by name the new variable and slots, in the types of the old ones,
    and the shared state. Raises a ValueError if an argument can't be used.
    """
    variable = checks.floating("variable", arguments["variable"])
    if ROW_WISE in spec.forms and checks.mode(ROW_WISE, arguments[ROW_WISE]):
        spec = spec.forms[ROW_WISE]
        if variable.shape.rank == 0 or variable.dtype.is_complex:
            raise ValueError(
                "`variable` must have rows and be real, with `row_wise`. "
                f"Received: {variable.dtype.name} of shape {variable.shape}"
            )
    others = {slot.name: arguments[slot.name] for slot in spec.slots_of_forms}
    spec = spec.forms[spec.form_of(variable)]
    gradient = checks.like(
        *("gradient", arguments["gradient"], "variable", variable),
        [variable.dtype],
    )
    dtype = arithmetic.slot_dtype(variable.dtype)

    old: dict[str, tf.Tensor] = {}
    for slot in spec.slots:
        given = arguments[slot.name]
        needed_by = slot.needed_by and arguments.get(slot.needed_by, 0)
        # A tensor can't be compared with `()` in a graph.
        is_left_out = given is None or (isinstance(given, tuple) and not given)
        if slot.needed_by and is_left_out and not is_known(needed_by, 0):
            raise ValueError(
                f"`{slot.name}` must be given unless `{slot.needed_by}` is 0. "
                f"Received: {slot.needed_by}={needed_by}"
            )
        if given is None and slot.needed_by:
            continue
        old[slot.name] = checks.like(
            *(slot.name, given, "variable", variable),
            (dtype, *(() if slot.exact else _NARROWER.get(dtype, ()))),
            slot.shape_of(variable.shape),
        )
    numbers = {
        x.name: x.check(arguments[x.name]) for x in spec.numbers if x.in_rule
    }
    for shared in spec.shared:
        value = arguments[shared.name]
        if value is not None or shared.first is not None:
            value = checks.real(shared.name, value)
        numbers[shared.name] = value
    for mode in spec.all_modes:
        numbers[mode] = checks.mode(mode, arguments[mode])
    update = dataclasses.replace(
        spec.with_slots(lambda slot: slot.name in old).bind(**numbers),
        sqrt=arithmetic.differentiable_sqrt,
    )
    weight_decay = checks.real("weight_decay", arguments["weight_decay"])
    new = update(variable, gradient, list(old.values()), weight_decay)
    old = {"variable": variable, **old}
    results = {
        name: tf.cast(x, old[name].dtype)
        for name, x in zip(old, new, strict=True)
    }
    shared = {
        each.name: arithmetic.float64(each.next(**numbers))
        for each in spec.shared
    }
    # Those of another form stay as they are.
    return others | results | shared
