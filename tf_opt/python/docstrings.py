"""Parts that several docstrings share."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from typing import TypeVar

_LINE = re.compile(r"^( *)\{\{(\w+)\}\}(?:\n|\Z)", re.MULTILINE)
_INSIDE = re.compile(r"\{\{(\w+)\}\}")

Documented = TypeVar("Documented", bound=Callable)


def filled(text: str, **parts: str) -> str:
    """Fills parts into a text.

    A line `{{name}}` becomes the part of that name, with the line's
    indentation, and goes if the part is empty, with an empty line after it.
    Within a line, `{{name}}` becomes the part.

    Args:
        text: The text.
        **parts: The parts, by name. An unknown name raises a KeyError.
    """

    def line(placeholder: re.Match) -> str:
        indentation, name = placeholder.groups()
        return textwrap.indent(parts[name], indentation) + "\n" * bool(
            parts[name]
        )

    text = _LINE.sub(line, text)
    text = _INSIDE.sub(lambda found: parts[found[1]], text)
    return re.sub(r"\n\n\n+", "\n\n", text)


def with_parts(**parts: str) -> Callable[[Documented], Documented]:
    """Returns a decorator that fills these parts into docstrings."""

    def decorate(documented: Documented) -> Documented:
        # `python -OO` removes docstrings.
        if documented.__doc__ is not None:
            documented.__doc__ = filled(documented.__doc__, **parts)
        return documented

    return decorate


def item(name: str, text: str) -> str:
    """Returns an argument and its description, as lines of a docstring."""
    lines = textwrap.wrap(
        f"{name}: {text}", 72, break_long_words=False, break_on_hyphens=False
    )
    return "\n    ".join(lines)


_MEASURES = r"""For each gradient $g$, with $a$ = its accumulator or 0 and
$s$ = `gradient_scale`:

$$
\begin{aligned}
x &= s g + a \\
\text{sum of squares} &= \sum_i x_i^2 \\
\text{finite} &= \text{no } x_i \text{ is infinite or a NaN}
\end{aligned}
$$"""

# Parts that the docstrings of the functional rules share.
RULE_PARTS = {
    "measures": _MEASURES,
    "use": """\
A pure function: it assigns nothing and returns new tensors. It is
differentiable with respect to every tensor, to any order, and works in
eager mode, in `tf.function` and under XLA. (Where a second moment is 0,
the derivatives of its square root would be infinite and count as 0; see
docs/differentiable.md.)

The arithmetic is float32, or float64 for float64 variables; scalars are
computed in float64. A complex number is treated as two real numbers: its
slots are complex, and their real and imaginary parts are the slots of
the two.

Arguments may be tensors, variables, NumPy arrays or Python numbers. Those
without a TensorFlow type are converted to the required one. Results have
the types of the arguments. Values of 16 bits are rounded to nearest, which
loses small steps (the optimizers can round at random instead).""",
    "variable": "variable: Floating point or complex tensor of any shape.",
    "gradient": "gradient: Tensor of the same shape and type.",
    "direction": "weight_decay: Strength of the weight decay; 0 is none.",
    "raises": """\
ValueError: If a tensor's shape differs from the variable's, a tensor
    has the wrong type, or an argument isn't a number or integer as
    required. The error names the argument.""",
}

# Parts that the docstrings of the ops share.
OP_PARTS = {
    "measures": _MEASURES,
    "use": """\
Numbers may be Python or NumPy numbers, tensors or variables. The op
converts them to float64, and integers to int64. If an argument is
wrong, the op writes nothing.""",
    "variables": """\
variables: Variables of one type (float16, bfloat16, float32 or float64)
    and of any shapes. Each may occur once.""",
    "gradients": """\
gradients: Dense tensors, one for each variable, of its shape and type.
    Lists of numbers and NumPy arrays are converted to that type. Or
    `tf.IndexedSlices` for all variables: repeated rows are summed
    first. Slices need variables on a CPU; an optimizer also updates
    tables on a GPU.""",
    "direction": """\
weight_decay: One number for all variables, or a list or vector with
    one number for each.
frame: The frame of the step; see `tf_opt.ops.StepFrame`.
lazy_mode: Whether to update only the rows that occur in
    `tf.IndexedSlices`. Otherwise the other rows have a gradient of
    zero.""",
    "raises": """\
RuntimeError: If the library of custom ops isn't loaded.
TypeError: If an argument isn't a list, or a list of variables contains
    anything else.
ValueError: If a list is empty or has the wrong length, a gradient has
    another type than the variables, or an argument isn't a number or
    integer as required. In a graph, also if a shape or a variable's
    type is wrong.
tf.errors.InvalidArgumentError: If a shape or a variable's type is
    wrong, or a number is out of range. (On a GPU, the op prints such a
    number and writes nothing.)
tf.errors.FailedPreconditionError: If a variable isn't initialized.""",
}
