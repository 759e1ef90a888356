"""The ops that update variables, one for each rule."""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

from tf_opt.python import docstrings
from tf_opt.python.functional.rule_spec import RuleSpec
from tf_opt.python.functional.rule_spec import Slot
from tf_opt.python.functional.signatures import with_signature
from tf_opt.python.ops.resource_apply import ResourceApplyOp
from tf_opt.python.ops.resource_apply import resource_apply
from tf_opt.python.ops.step_frame import BARE

_MODULE = "tf_opt.ops"

_DOC = """Updates many variables in place by {{title}}, in one launch.

`tf_opt.functional.{{name}}` describes the formula and the arguments, which are
lists here.

{{use}}

Args:
    {{variables}}
    {{slots}}
    {{gradients}}
    {{optional_slots}}
    {{numbers}}
    {{direction}}
    {{modes}}

Raises:
    {{raises}}

Example:

>>> import tensorflow as tf, tf_opt
>>> p = tf.Variable([1.0, 2.0])
{{make_slots}}
>>> tf_opt.ops.{{call}}
>>> p.numpy().round(4).tolist()
{{example_result}}
"""


def check_fits(spec: RuleSpec) -> None:
    """Raises an ImportError unless a rule's registered ops fit it."""
    op = ResourceApplyOp(spec.op_name)
    expected = {
        "slots": [slot.name for slot in spec.slots],
        "numbers": sorted(
            [
                *(number.name for number in spec.numbers if number.in_op),
                *(shared.name for shared in spec.shared),
            ]
        ),
        "modes": sorted(mode.name for mode in spec.all_modes),
        "coasts": spec.coasts,
    }
    for each in (op, op.for_slices):
        found = each.is_registered and {
            "slots": list(each.slots),
            "numbers": sorted(each.numbers),
            "modes": sorted(each.modes),
            "coasts": op.for_slices.coasts,
        }
        if found != expected:
            raise ImportError(
                "tf_opt's library of custom ops doesn't fit its Python files. "
                f"Install tf_opt again. {each.name} must have {expected}, got "
                f"{found or 'no such op'}"
            )


def wrapper(spec: RuleSpec) -> Callable[..., None]:
    """Returns the public function of a rule's op, with its signature."""
    op = ResourceApplyOp(spec.op_name)

    def apply(arguments: dict[str, Any]) -> None:
        spec.check_slots(arguments)
        resource_apply(op, **arguments)

    name = spec.name
    if spec.op:
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", spec.op).lower()
    name = f"resource_apply_{name}"
    optional, required = spec.optional_slots, spec.required_slots
    numbers = [number for number in spec.numbers if number.in_op]
    described = {
        **{number.name: number.doc for number in numbers},
        **{shared.name: shared.op_doc for shared in spec.shared},
    }
    doc = docstrings.filled(
        _DOC,
        **docstrings.OP_PARTS,
        title=spec.title or spec.class_name,
        name=spec.name,
        slots="\n".join(map(_slot_doc, required)),
        optional_slots="\n".join(map(_slot_doc, optional)),
        numbers="\n".join(map(docstrings.item, described, described.values())),
        modes="\n".join(docstrings.item(x.name, x.doc) for x in spec.all_modes),
        make_slots="\n".join(map(_example_slot, required)),
        call=_example_call(name, spec, required),
        example_result=spec.example_result,
    )
    variables = "Sequence[VariableLike]"
    counts = [number.name for number in numbers if number.is_count]
    return with_signature(
        apply,
        name=name,
        module=_MODULE,
        doc=doc,
        positional=[
            ("variables", variables),
            *((slot.name, variables) for slot in required),
            ("gradients", "Sequence[TensorLike | tf.IndexedSlices]"),
            *((slot.name, variables, ()) for slot in optional),
        ],
        keyword=[
            *((x, "Scalar") for x in (*counts, *(s.name for s in spec.shared))),
            *((x.name, "Scalar", x.default) for x in numbers if not x.is_count),
            ("weight_decay", "Scalar | Sequence[Scalar]", 0.0),
            ("frame", "StepFrame", BARE),
            ("lazy_mode", "bool", False),
            *((mode.name, "bool", mode.default) for mode in spec.all_modes),
        ],
        returns=None,
    )


def _slot_doc(slot: Slot) -> str:
    doc = slot.doc[0].lower() + slot.doc[1:]
    text = f"One {doc} for each variable, of its shape"
    if slot.table_doc:
        text = (
            f"{slot.table_doc}, one tensor for each variable, of shape "
            "`[rows] + the variable's`. The op only reads and writes the row "
            f"`{slot.row_input}`"
        )
    text += ": float32, or float64 for float64 variables."
    if slot.row_input:
        text += (
            " They may be narrower: bfloat16, or float32 for float64 "
            "variables. Then gradients are rounded to this type first."
        )
    elif not slot.exact:
        rounded = ", which is rounded at random"
        text += (
            f" They may be narrower: bfloat16{rounded}, or float32 for float64 "
            "variables; all slots alike."
        )
    if slot.needed_by:
        text += f" Or empty: without `{slot.needed_by}`."
    return docstrings.item(slot.name, text)


def _example_slot(slot: Slot) -> str:
    zeros = "tf.zeros((3, 2))" if slot.row_input else "[0.0, 0.0]"
    return f">>> {slot.name} = tf.Variable({zeros})"


def _example_call(name: str, spec: RuleSpec, slots: Sequence[Slot]) -> str:
    lists = ["[p]", *(f"[{slot.name}]" for slot in slots)]
    return (
        f"{name}(\n...     {', '.join(lists)}, [tf.constant([0.5, -0.5])],\n"
        f"...     {spec.example[-1]})"
    )
