"""The parts of their docstrings that the ops' wrappers share."""

from __future__ import annotations

from tf_opt.python.docstrings import with_parts

# A line `{{gradients}}`, say, in the docstring of a wrapper becomes that part.
with_common_arguments = with_parts(
    use="""\
Numbers may be Python's, NumPy's, tensors or variables; they are used in
float64, integers in int64. If an argument is wrong nothing is written.""",
    variables="""\
variables: Variables of one type: float16, bfloat16, float32 or
    float64, of any shapes. Each may occur once.""",
    moments="""\
m: First moments, one for each variable and of its shape: float32, or
    float64 for float64 variables. May be shorter: bfloat16, which is
    rounded at random, or float32 of float64 variables.
v: Second moments, likewise.""",
    gradients="""\
gradients: Dense tensors, one for each variable, of its shape and type.
    Lists of numbers and NumPy arrays are converted to that type. Or,
    all of them, `tf.IndexedSlices`: rows of the variables' shapes, of
    which those with the same index are summed first. These are for
    variables on a CPU; an optimizer also updates tables on a GPU.""",
    step="step: Which step this is, an integer counted from 1.",
    decay_rates="""\
beta_1: Decay of the first moment, in [0, 1).
beta_2: Decay of the second moment, in [0, 1).
epsilon: Added to the denominator, >= 0.""",
    direction="""\
weight_decay: One number for all variables, or a list or vector with
    one for each.
frame: What is done around the rule: see `tf_opt.ops.StepFrame`.
lazy_mode: Whether of `tf.IndexedSlices` only the rows that occur are
    read and written; otherwise the others have a gradient of zero.
decoupled_weight_decay: Whether the decay shrinks the variable (as AdamW
    does) or adds to the gradient (L2).
maximize: Whether to ascend instead of descend.""",
    raises="""\
RuntimeError: If the library of custom ops isn't loaded.
TypeError: If a list isn't one, or holds something else than variables.
ValueError: If a list is empty or of another length, a gradient isn't of
    the variables' type, or a number isn't one (as an integer, a float
    isn't). In a graph, also if a shape or a variable's type is wrong.
tf.errors.InvalidArgumentError: If a shape, a variable's type or a
    number's range is wrong. (On a GPU a number out of its range is
    printed, and nothing is written.)
tf.errors.FailedPreconditionError: If a variable isn't initialized.""",
)
