"""Parts that the docstrings of the functional rules share."""

from __future__ import annotations

from tf_opt.python.docstrings import with_parts

# For example, `{{gradient}}` in a rule's docstring becomes the part `gradient`.
with_common_arguments = with_parts(
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
    step="step: Number of this step, an integer counted from 1.",
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
ValueError: If a tensor's shape differs from the variable's, a tensor
    has the wrong type, or an argument isn't a number or integer as
    required. The error names the argument.""",
)
