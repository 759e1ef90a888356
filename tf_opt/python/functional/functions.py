"""Makes a function and its result's type from a rule's specification."""

from __future__ import annotations

import collections
from collections.abc import Callable

import tensorflow as tf

from tf_opt.python import docstrings
from tf_opt.python.functional.rule_spec import RuleSpec
from tf_opt.python.functional.rule_spec import Shared
from tf_opt.python.functional.rule_spec import Slot
from tf_opt.python.functional.signatures import Parameter
from tf_opt.python.functional.signatures import with_signature
from tf_opt.python.functional.update import pure_step

_MODULE = "tf_opt.functional"

_FUNCTION = r"""Computes one step of {{title}} on one tensor.

{{where}}

{{formula}}

{{use}}

Args:
    {{variable}}
    {{gradient}}
    {{slots}}
    {{shared}}
    {{numbers}}
    {{direction}}
    {{modes}}

Returns:
    Named tuple `{{result}}` of the new variable and state.

Raises:
    {{raises}}

Example:

>>> import tensorflow as tf, tf_opt
>>> p, zero = tf.constant([1.0, 2.0]), tf.zeros(2)
>>> new = tf_opt.functional.{{call}}
>>> new.variable.numpy().round(4).tolist()
{{example_result}}

References:
    {{references}}
"""
_RESULT = """Result of a step: the new variable and its new state.

Attributes:
    variable: The updated variable.
    {{slots}}
    {{shared}}
"""


def make(spec: RuleSpec) -> tuple[Callable[..., tuple], type[tuple]]:
    """Returns the public function of a rule, and the type of its results."""
    result = _result_type(spec)
    return _function(spec, result), result


def _result_type(spec: RuleSpec) -> type[tuple]:
    slots = [slot.name for slot in spec.slots]
    shared = [shared.name for shared in spec.shared]
    optional = spec.optional_slots
    result = collections.namedtuple(
        f"{spec.class_name}Result",
        ["variable", *slots, *shared],
        defaults=[None] * len(optional),
        module=_MODULE,
    )
    result.__annotations__ = dict.fromkeys(["variable", *slots], tf.Tensor)
    for slot in optional:
        result.__annotations__[slot.name] = tf.Tensor | None
    result.__annotations__ |= dict.fromkeys(shared, tf.Tensor)
    result.__doc__ = docstrings.filled(
        _RESULT,
        slots="\n".join(
            f"{slot.name}: {slot.doc}"
            + ("; or None." if slot.needed_by else ".")
            for slot in spec.slots
        ),
        shared="\n".join(f"{x.name}: {x.result_doc}" for x in spec.shared),
    )
    return result


def _function(spec: RuleSpec, result: type[tuple]) -> Callable[..., tuple]:
    doc = docstrings.filled(
        _FUNCTION,
        **docstrings.RULE_PARTS,
        title=spec.title or spec.class_name,
        where=spec.where,
        formula=spec.latex(with_decay=True),
        slots="\n".join(_slot_doc(x, spec.slots[0]) for x in spec.slots),
        shared="\n".join(f"{x.name}: {x.doc}" for x in spec.shared),
        numbers="\n".join(
            docstrings.item(x.name, x.doc) for x in spec.numbers if x.in_rule
        ),
        modes="\n".join(docstrings.item(x.name, x.doc) for x in spec.all_modes),
        result=result.__name__,
        call=_example_call(spec),
        example_result=spec.example_result,
        references=spec.references,
    )
    optional = [slot.name for slot in spec.optional_slots]
    required = [slot.name for slot in spec.required_slots]
    numbers = [number for number in spec.numbers if number.in_rule]
    rule = with_signature(
        lambda arguments: result(**pure_step(spec, arguments)),
        name=spec.name,
        module=_MODULE,
        doc=doc,
        positional=[
            *((x, "TensorLike") for x in ("variable", "gradient", *required)),
            *((name, "TensorLike | None", None) for name in optional),
            *(_parameter(shared) for shared in spec.shared),
        ],
        keyword=[
            *((x.name, "Scalar") for x in numbers if x.is_count),
            *((x.name, "Scalar", x.default) for x in numbers if not x.is_count),
            ("weight_decay", "Scalar", 0.0),
            *((mode.name, "bool", mode.default) for mode in spec.all_modes),
        ],
        returns=result,
    )
    rule.spec = spec
    return rule


def _parameter(shared: Shared) -> Parameter:
    optional = " | None" if shared.first is None else ""
    return shared.name, f"Scalar{optional}", shared.first


def _slot_doc(slot: Slot, first: Slot) -> str:
    text = f"{slot.doc}, of the same shape"
    if slot is not first:
        text += f" and of the types of `{first.name}`"
    else:
        text += (
            ": float32 for a float16, bfloat16 or float32 variable, the "
            "variable's type for others"
        )
    text += "; zeros at first."
    if slot is first and not slot.exact:
        text += (
            " The slots of a real variable may also be narrower: bfloat16, or "
            "float32."
        )
    if slot.row_input:
        text += (
            " It may have a narrower type: the gradient is then rounded to it "
            "first."
        )
    if slot.needed_by:
        text += f" None: without `{slot.needed_by}`."
    return docstrings.item(slot.name, text)


def _example_call(spec: RuleSpec) -> str:
    zeros = ["zero" for _ in spec.required_slots]
    tensors = ", ".join(["p", "tf.constant([0.5, -0.5])", *zeros])
    return f"{spec.name}(\n...     {tensors},\n...     {spec.example[0]})"
