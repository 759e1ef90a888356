"""Parts that several docstrings share."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from typing import TypeVar

_PLACEHOLDER = re.compile(r"^( *)\{\{(\w+)\}\}$", re.MULTILINE)

Documented = TypeVar("Documented", bound=Callable)


def with_parts(**parts: str) -> Callable[[Documented], Documented]:
    """Returns a decorator that fills these parts into docstrings.

    It replaces a line `{{name}}` by the part of that name, with the line's
    indentation.

    Args:
        **parts: The parts, by name.

    Returns:
        The decorator. An unknown name raises a KeyError.
    """

    def part(placeholder: re.Match) -> str:
        indentation, name = placeholder.groups()
        return textwrap.indent(parts[name], indentation)

    def decorate(documented: Documented) -> Documented:
        # `python -OO` removes docstrings.
        if documented.__doc__ is not None:
            documented.__doc__ = _PLACEHOLDER.sub(part, documented.__doc__)
        return documented

    return decorate


# Parts that the docstrings of rules and ops share.
_COMMON = {
    "step": "step: Number of this step, an integer counted from 1.",
    "decay_rates": """\
beta_1: Decay of the first moment, in [0, 1).
beta_2: Decay of the second moment, in [0, 1).
epsilon: Added to the denominator, >= 0.""",
    "measures": r"""For each gradient $g$, with $a$ = its accumulator or 0 and
$s$ = `gradient_scale`:

$$
\begin{aligned}
x &= s g + a \\
\text{sum of squares} &= \sum_i x_i^2 \\
\text{finite} &= \text{no } x_i \text{ is infinite or a NaN}
\end{aligned}
$$""",
}
_MODES = """
decoupled_weight_decay: Whether the decay shrinks the variable (as AdamW
    does) or adds to the gradient (L2).
maximize: Whether to ascend instead of descend."""

# For example, `{{gradient}}` in a rule's docstring becomes the part `gradient`.
for_rule = with_parts(
    **_COMMON,
    use="""\
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
    variable="variable: Floating point or complex tensor of any shape.",
    gradient="gradient: Tensor of the same shape and type.",
    moments="""\
m: First moment, of the same shape: float32 for a float16, bfloat16 or
    float32 variable, the variable's type for others. Moments of real
    variables may also be narrower: bfloat16, or float32. Zeros at first.
v: Second moment, of the same types and shape.""",
    direction="""\
weight_decay: Strength of the weight decay; 0 is none."""
    + _MODES,
    raises="""\
ValueError: If a tensor's shape differs from the variable's, a tensor
    has the wrong type, or an argument isn't a number or integer as
    required. The error names the argument.""",
)

for_op = with_parts(
    **_COMMON,
    use="""\
Numbers may be Python or NumPy numbers, tensors or variables. The op
converts them to float64, and integers to int64. If an argument is
wrong, the op writes nothing.""",
    variables="""\
variables: Variables of one type (float16, bfloat16, float32 or float64)
    and of any shapes. Each may occur once.""",
    moments="""\
m: First moments, one for each variable and of its shape: float32, or
    float64 for float64 variables. They may be narrower: bfloat16, which
    is rounded at random, or float32 for float64 variables.
v: Second moments, of the same types and shapes.""",
    gradients="""\
gradients: Dense tensors, one for each variable, of its shape and type.
    Lists of numbers and NumPy arrays are converted to that type. Or
    `tf.IndexedSlices` for all variables: repeated rows are summed
    first. Slices need variables on a CPU; an optimizer also updates
    tables on a GPU.""",
    direction="""\
weight_decay: One number for all variables, or a list or vector with
    one number for each.
frame: The frame of the step; see `tf_opt.ops.StepFrame`.
lazy_mode: Whether to update only the rows that occur in
    `tf.IndexedSlices`. Otherwise the other rows have a gradient of
    zero."""
    + _MODES,
    raises="""\
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
)
