"""The part that the optimizers' docstrings share."""

from __future__ import annotations

import textwrap

_KERAS_ARGUMENTS = """\
weight_decay: Strength of the weight decay, >= 0, or None. Variables
    passed to `exclude_from_weight_decay()` don't decay, also after
    saving and loading. `weight_decay`, the bounds for clipping and the
    rule's numbers may be a `tf.Variable` or `keras.Variable`, which every
    step reads; a plain number is read when a step is traced, as in Keras.
clipnorm: The greatest norm of each variable's gradient, or None. At most
    one of `clipnorm`, `clipvalue` and `global_clipnorm` may be given.
clipvalue: The greatest magnitude of a gradient's elements, or None.
global_clipnorm: The greatest norm of all gradients together, or None.
use_ema: Whether to keep moving averages of the variables. See
    `averaged_weights` and `tf_opt.callbacks.SwapAveragedWeights`.
ema_momentum: The weight of the old value in an average, in [0, 1].
ema_overwrite_frequency: Every so many updates, the averages are assigned
    to the variables. None: only at the end of `fit` and by
    `finalize_variable_values`.
loss_scale_factor: A number > 0 by which `fit` multiplies the loss and a
    step divides the gradients; or None.
gradient_accumulation_steps: The number of steps whose gradients are
    averaged for one update, >= 2; or None.
name: The optimizer's name. None: a name made from that of the class.
"""

_OPTIONS = """\
decoupled_weight_decay: Whether the decay shrinks the variable,
    `p -= learning_rate * weight_decay * p` (as in Keras and AdamW), or
    adds to the gradient, `g += weight_decay * p` (L2 decay, as in all
    optimizers of PyTorch and Paddle except AdamW).
maximize: Whether to ascend instead of descend.
schedule_by: What a `LearningRateSchedule` counts with
    `gradient_accumulation_steps`: `"steps"`, every step, as in
    Keras; or `"updates"`, only steps that update, so that accumulation
    equals training with the larger batch.
learning_rate_multipliers: Factors of the learning rate of single
    variables: a dictionary that maps regular expressions to numbers
    >= 0. The first expression found in a variable's path gives its
    factor; without a match, the factor is 1. `build` raises an error if
    an expression matches nothing. Only expressions for a whole path,
    `^...$`, may match nothing: the variable may be frozen. See
    `tf_opt.layerwise_multipliers`.
weight_decay_multipliers: Factors of the weight decay of single
    variables, in the same form.
skip_nonfinite: Whether to skip steps whose gradients contain an
    infinity or NaN. `optimizer.skipped_steps` counts them.
track_gradient_norm: Whether to store the norm of the last update's
    gradients, before clipping, in `optimizer.gradient_norm`.
    `global_clipnorm` always stores it.
lazy_mode: How to apply `tf.IndexedSlices`, the gradients of embedding
    tables. False (exact): like the corresponding dense gradients, with
    the same results. True (lazy): a step only updates the rows that
    occur, with their moments and decay, so its cost doesn't depend on
    the size of the table. Results differ, because a row's moments and
    decay wait until the row occurs. `"catch_up"`: lazy, but a row first
    makes up for the steps that it missed, with the results of exact
    training, in `fit` with the callback `tf_opt.callbacks.CatchUp`; see
    `catch_up`. This is for Keras' `Embedding` layers. Lazy tables exclude
    `use_ema`. Repeated rows are summed first in all modes.
    A dictionary, such as `{"user_table": "catch_up", "tags": True}`: a
    variable has the mode of the first regular expression that is found
    in its path, and is exact otherwise. A list of expressions is for
    lazy variables.
    As for the multipliers, `build` raises an error if an expression
    matches nothing. An assignment to `optimizer.lazy_mode` takes effect
    in eager steps and in functions traced afterwards, and can't change
    which tables catch up.
master_weights: Whether to keep and update float32 copies (master
    weights) of float16 and bfloat16 variables. The variables are the
    rounded copies, so small steps aren't lost. If other code sets a
    variable (`assign`, `load_weights`, ...), its copy follows.
stochastic_rounding: Whether to round float16 and bfloat16 variables up
    or down at random, so that their mean is right and small steps
    aren't lost. An alternative to `master_weights` without copies.
    The random bits depend only on seed, step, variable and element;
    they are the same on every device.
seed: The seed of the random bits for `stochastic_rounding` and
    `state_dtype`, an integer. None: the next seed of Keras.
state_dtype: The type of moments and averages. None: that of the
    arithmetic, float32 (float64 for float64 variables). `"bfloat16"`
    halves their memory; they are rounded at random, because rounding to
    nearest would lose the small changes by `beta_2`. `"float32"` is for
    float64 variables. The type of arithmetic and of accumulated
    gradients doesn't change.
state_device: The device on which the state lives and steps run; the
    variables stay where they are. None: beside each variable.
    `"CPU:0"` keeps moments, averages, accumulators and master weights
    out of a GPU's memory: a step fetches the variables' values,
    updates them on the host beside the backward pass, and sends them
    back. Results are the same. Steps can't be inside XLA: compile the
    model with `jit_compile=False`.
shard_state: Whether the replicas of a `MirroredStrategy` share the
    state (ZeRO, stage 1). Each variable has an owner, the replica that
    alone has its state, updates it and sends the value to the others.
    Results and checkpoints are the same. Not inside XLA, either.
implementation: `"auto"` runs the custom op where it can, and the
    composed implementation elsewhere (on devices and types without a
    kernel, such as tables on a GPU with `lazy_mode`; inside XLA;
    without the compiled library). Results are the same.
    `"custom_op"` and `"composed"` force one of them. If the custom op
    can't run, `"custom_op"` raises an error with the reason.
exclude_from_weight_decay: The exclusions that `get_config` saved: None, or a
    dictionary with the regular expressions `"var_names"`, as in the method of
    this name, and with `"paths"`, the paths of single variables.
by_position: Each variable's options, as `get_config` saves them, for models
    in which loading changes the variables' paths. Leave it out elsewhere."""

COMMON_ARGUMENTS = "\n\n".join(
    f"Args: {title}\n{textwrap.indent(arguments.strip(), '    ')}"
    for title, arguments in (
        ("Of every Keras optimizer", _KERAS_ARGUMENTS),
        ("Of every tf_opt optimizer", _OPTIONS),
    )
)
