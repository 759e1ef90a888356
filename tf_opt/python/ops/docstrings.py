"""Parts that the docstrings of the ops' wrappers share."""

from __future__ import annotations

from tf_opt.python.docstrings import with_parts

# For example, `{{step}}` in a wrapper's docstring becomes the part `step`.
with_common_arguments = with_parts(
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
    step="step: Number of this step, an integer counted from 1.",
    decay_rates="""\
beta_1: Decay of the first moment, in [0, 1).
beta_2: Decay of the second moment, in [0, 1).
epsilon: Added to the denominator, >= 0.""",
    direction="""\
weight_decay: One number for all variables, or a list or vector with
    one number for each.
frame: The frame of the step; see `tf_opt.ops.StepFrame`.
lazy_mode: Whether to update only the rows that occur in
    `tf.IndexedSlices`. Otherwise the other rows have a gradient of
    zero.
decoupled_weight_decay: Whether the decay shrinks the variable (as AdamW
    does) or adds to the gradient (L2).
maximize: Whether to ascend instead of descend.""",
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
