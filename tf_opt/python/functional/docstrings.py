"""The parts of their docstrings that the functional rules share."""

from __future__ import annotations

from tf_opt.python.docstrings import with_parts

# A line `{{gradient}}`, say, in the docstring of a rule becomes that part.
with_common_arguments = with_parts(
    use="""\
Differentiable with respect to every tensor, to any order, and runs in
eager mode, in `tf.function` and under XLA. (Where a second moment is 0
the derivatives of its root are infinite and count as 0; see
docs/differentiable.md.) The arithmetic is in float32, of float64
variables in float64, the scalars in float64. A complex number is two
reals: its slots are complex, their real and imaginary parts the slots
of each.

All may be tensors, variables, NumPy arrays or plain numbers: what has no
TensorFlow type yet gets the one that it must have. What is returned has
the type of what was given; in 16 bits it is rounded to nearest, and small
steps are lost (the optimizers can round at random).""",
    variable="variable: Floating point or complex tensor of any shape.",
    gradient="gradient: Tensor of the same shape and type.",
    moments="""\
m: First moment, of the same shape: float32 for a float16, bfloat16 or
    float32 variable, the variable's type for others. Of a real variable
    it may also be narrower: bfloat16, or float32. Zeros at first.
v: Second moment, likewise.""",
    step="step: Which step this is, an integer counted from 1.",
    decay_rates="""\
beta_1: Decay of the first moment, in [0, 1).
beta_2: Decay of the second moment, in [0, 1).
epsilon: Added to the denominator.""",
    direction="""\
weight_decay: Strength of the weight decay; 0 is none.
decoupled_weight_decay: Whether the decay shrinks the variable (as AdamW
    does) or adds to the gradient (L2).
maximize: Whether to ascend instead of descend.""",
    raises="""\
ValueError: If a tensor has another shape than the variable, or the
    wrong type, or a number isn't one (as an integer, a float isn't).
    The error names the argument.""",
)
