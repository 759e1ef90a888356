"""The parts of their docstrings that optimizers share."""

from __future__ import annotations

from tf_opt.python.docstrings import with_parts

_PARTS = {
    "learning_rate": """\
learning_rate: The step size $\\eta$, >= 0: a float, a
    `keras.optimizers.schedules.LearningRateSchedule`, or a callable
    without arguments.""",
    "moments": """\
beta_1: Decay of the first moment, in [0, 1).
beta_2: Decay of the second moment, in [0, 1).
epsilon: Added to the denominator, >= 0.""",
    "common_arguments": """\
weight_decay: Strength of the weight decay, >= 0, or None. Of a
    `tf.Variable` or `keras.Variable` every step takes the value it has;
    a number is read when a step is traced, as in Keras. Variables named
    in `exclude_from_weight_decay()` are left out, also after saving and
    loading.
clipnorm, clipvalue, global_clipnorm, use_ema, ema_momentum,
    ema_overwrite_frequency, loss_scale_factor,
    gradient_accumulation_steps, name: As in Keras' optimizers.
decoupled_weight_decay: Whether the decay shrinks the variable,
    `p -= learning_rate * weight_decay * p` (Keras, AdamW), or adds to
    the gradient, `g += weight_decay * p` (L2: PyTorch's and Paddle's
    way in every optimizer but AdamW).
maximize: Whether to ascend instead of descend.
learning_rate_multipliers, weight_decay_multipliers: Factors for single
    variables: a dictionary of regular expressions, looked for in the
    variables' paths, and numbers >= 0; the first that is found counts,
    1 where none is. `build` raises an error if one is found nowhere,
    except for a whole path, `^...$`, which may be that of a frozen
    variable. See `tf_opt.layerwise_multipliers`.
skip_nonfinite: Whether a step whose gradients hold an infinity or NaN
    leaves everything as it was; `optimizer.skipped_steps` counts them.
track_gradient_norm: Whether `optimizer.gradient_norm` tells the norm of
    the last update's gradients, before clipping. With `global_clipnorm`
    it does in any case.
lazy_mode: How `tf.IndexedSlices`, the gradients of embedding tables,
    are applied. False: as the dense gradients that they mean, with the
    same numbers. True: only the rows that occur are read and written,
    with their moments, decay and averages, at a cost that doesn't grow
    with the table; the numbers are others, as a moment or decay waits
    until its row occurs. Rows that occur more than once are summed
    first in both.
master_weights: Whether of variables of float16 or bfloat16 a copy in
    float32 is kept and updated, and the variable is the rounded copy:
    then no step is too small for the variable. What sets a variable
    otherwise (`assign`, `load_weights`, ...) counts: the copy follows.
    The copies are the last of `optimizer.variables`.
stochastic_rounding: Whether such variables, instead, are rounded up or
    down at random, so that the mean of what is stored is right: small
    steps are taken now and then. A function of the seed, the step, the
    variable and the element alone, the same on every device.
seed: The seed of these random bits (and of those of `state_dtype`), an
    integer; None takes Keras' next one.
state_dtype: In which type moments and averages are stored: None is
    float32 (float64 for float64 variables). `"bfloat16"` halves their
    memory; they are rounded at random, as plain rounding would lose
    what `beta_2` changes. `"float32"` is for float64 variables. The
    arithmetic stays as it is, and so do accumulated gradients.
implementation: `"auto"` runs the custom op where it can and the
    composed implementation elsewhere (on devices and types without a
    kernel, as for tables on a GPU with `lazy_mode`, inside XLA on a TPU,
    without the compiled library), with the same numbers. `"custom_op"`
    and `"composed"` force one;
    `"custom_op"` where it can't run is a `RuntimeError` that says why.""",
}

# A line `{{moments}}`, say, in the docstring of a class becomes that part.
with_common_arguments = with_parts(**_PARTS)
