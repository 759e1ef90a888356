"""One step of a rule on one tensor, with checked arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tf_opt.python.functional import arithmetic, checks
from tf_opt.python.functional.rule_spec import ROW_WISE, RuleSpec, Slot

# Narrower types that a slot may have, by arithmetic type.
_NARROWER = {
    tf.float32: (tf.bfloat16,),
    tf.float64: (tf.float32, tf.bfloat16),
}


def pure_step(spec: RuleSpec, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Checks the arguments of a rule's function and computes its step.

    Returns by name the new variable and slots, in the types of the old ones,
    and the shared state. Raises a ValueError if an argument can't be used.
    """
    variable = checks.floating("variable", arguments["variable"])
    if ROW_WISE in spec.forms and checks.mode(ROW_WISE, arguments[ROW_WISE]):
        spec = spec.forms[ROW_WISE]
        checks.has_rows("variable", variable)
    others = {slot.name: arguments[slot.name] for slot in spec.slots_of_forms}
    spec = spec.forms[spec.form_of(variable)]
    spec.check_slots(arguments)
    gradient = checks.like(
        *("gradient", arguments["gradient"], "variable", variable),
        [variable.dtype],
    )
    dtype = arithmetic.slot_dtype(variable.dtype)

    def old_slot(slot: Slot) -> tf.Tensor:
        dtypes = (dtype, *(() if slot.exact else _NARROWER.get(dtype, ())))
        shape = slot.shape_of(variable.shape)
        return checks.like(
            *(slot.name, arguments[slot.name], "variable", variable),
            dtypes,
            shape,
        )

    # Those that may be left out are None.
    old = {
        slot.name: old_slot(slot)
        for slot in spec.slots
        if not (slot.needed_by and arguments[slot.name] is None)
    }
    numbers = _numbers(spec, arguments)
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


def _numbers(spec: RuleSpec, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Checks the numbers and modes that the rule takes."""
    numbers = {
        number.name: number.check(arguments[number.name])
        for number in spec.numbers
        if number.in_rule
    }
    for shared in spec.shared:
        value = arguments[shared.name]
        if value is not None or shared.first is not None:
            value = checks.real(shared.name, value)
        numbers[shared.name] = value
    for mode in spec.all_modes:
        numbers[mode] = checks.mode(mode, arguments[mode])
    return numbers
