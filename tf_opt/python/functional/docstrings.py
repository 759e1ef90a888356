"""The parts that docstrings share."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Mapping
from typing import Any

# Of the rules' functions.
RULE_PARTS = {
    "formula": """\
The formula is that of `tf_opt.{class_name}`, after `maximize` and weight decay.
A pure and differentiable function; `tf_opt.functional` describes types and
arithmetic.""",
    "variable and gradient": """\
variable: The variable $p$, a floating point or complex tensor of any
    shape.
gradient: Its gradient $g$, of the same shape and type.""",
    "weight decay": """\
weight_decay: Strength of the weight decay; 0 is none.
decoupled_weight_decay: Whether the decay shrinks the variable (as
    AdamW does) or adds to the gradient (L2).
maximize: Whether to ascend instead of descend.""",
    "raises": """\
Raises:
    ValueError: If a tensor has the wrong shape or type, a number is out of
        range, or an argument isn't a number as required. The error names
        the argument.""",
}


def fill_in(documented: Any, parts: Mapping[str, str]) -> None:
    """Puts shared parts into a docstring that names them, as Keras does."""
    # `python -OO` removes docstrings.
    if documented.__doc__ is not None:
        documented.__doc__ = re.sub(
            r"(?m)^( *)\{\{(.+)\}\}$",
            lambda x: textwrap.indent(parts[x[2]], x[1]),
            inspect.cleandoc(documented.__doc__),
        )
