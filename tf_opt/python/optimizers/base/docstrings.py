"""Docstrings of optimizers and of their rules: the parts that they share.

A docstring names a part as Keras does, `{{part}}`.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

_LEARNING_RATE = r"""learning_rate: Step size $\eta$, >= 0: a float, a Keras
    `LearningRateSchedule`, or a callable without arguments."""

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
    tables; see docs/sparse.md. False (exact): like the corresponding dense
    gradients, with the same results. True (lazy): a step only updates the
    rows that occur, at their cost. Results differ, because a row's moments
    and decay wait until it occurs. `"catch_up"`: lazy, but a row first makes
    up for the steps that it missed, with the results of exact training, in
    `fit` with the callback `tf_opt.callbacks.CatchUp`; see `catch_up`. Lazy
    tables exclude `use_ema`. Repeated rows are summed first in all modes.
    For single tables: a dictionary such as
    `{"user_table": "catch_up", "tags": True}`, whose regular expressions
    are searched for as those of the multipliers; other variables are exact.
    Or a list of expressions, for lazy variables. An assignment takes effect
    in eager steps and in functions traced afterwards, and can't change
    which tables catch up.
master_weights: Whether to keep and update float32 copies (master
    weights) of float16 and bfloat16 variables. The variables are the
    rounded copies, so small steps aren't lost. If other code sets a
    variable (`assign`, `load_weights`, ...), its copy follows.
stochastic_rounding: Whether to round float16 and bfloat16 variables up
    or down at random, so that their mean is right and small steps
    aren't lost. An alternative to `master_weights` without copies. The
    random bits depend only on seed, step, variable and element.
seed: The seed of the random bits for `stochastic_rounding` and
    `state_dtype`, an integer. None: the next seed of Keras.
state_dtype: The type of moments and averages. None: that of the
    arithmetic, float32 (float64 for float64 variables). `"bfloat16"`
    halves their memory; they are rounded at random, because rounding to
    nearest would lose the small changes by `beta_2`. `"float32"` is for
    float64 variables. The type of arithmetic and of accumulated
    gradients doesn't change.
state_device: The device on which the state lives and steps run; the
    variables stay where they are. None: beside each variable. `"CPU:0"`
    keeps the state out of a GPU's memory, with the same results; see
    docs/offload.md. Steps can't be inside XLA: compile the model with
    `jit_compile=False`.
shard_state: Whether the replicas of a `MirroredStrategy` share the
    state (ZeRO, stage 1), each of them the state of some variables.
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

_COMMON_ARGUMENTS = "\n\n".join(
    f"{title}\n{textwrap.indent(entries.strip(), '    ')}"
    for title, entries in (
        ("Args: Of every Keras optimizer", _KERAS_ARGUMENTS),
        ("Args: Of every tf_opt optimizer", _OPTIONS),
        (
            "Raises:",
            "ValueError: If an argument is wrong or excludes another.",
        ),
    )
)

_FORMULA = """\
{formula}

`maximize` and weight decay come first. A pure and differentiable function;
`tf_opt.functional` describes types and arithmetic. The state has the variable's
shape. It is float32 for a float16, bfloat16 or float32 variable and has the
variable's type for others; bfloat16, or float32 for float64, will do, too. It
is zeros at first, except where described otherwise."""

_TENSORS = """\
variable: The variable $p$, a floating point or complex tensor of any shape.
gradient: Its gradient $g$, of the same shape and type."""

# Arguments of rules that optimizers don't have, or that aren't numbers there.
_NUMBERS = {
    "step": "step: Number $t$ of this step, an integer counted from 1.",
    "learning_rate": r"learning_rate: Step size $\eta$, a scalar.",
    "weight_decay": "weight_decay: Strength of the weight decay; 0 is none.",
}

_RESULT = """\
Returns:
    The new variable and state (`{result}`), with the types of the old ones.

Raises:
    ValueError: If a tensor has the wrong shape or type, a number is out of
        range, or an argument isn't a number as required. The error names the
        argument."""


def complete(cls: type, rule: Callable[..., Any]) -> None:
    """Completes the docstrings of an optimizer and of its rule's function.

    The class describes formula and arguments. From it, the function gets what
    its own docstring doesn't describe, and so does a subclass such as AdamW.
    """
    # `python -OO` removes docstrings.
    if cls.__doc__ is None:
        return
    inherited = _entries(cls.__base__)
    own = [inherited[x] for x in cls._own_arguments if x in inherited]
    _fill_in(
        cls,
        {
            "learning_rate": _LEARNING_RATE,
            "inherited arguments": "\n".join([_LEARNING_RATE, *own]),
            "common arguments": _COMMON_ARGUMENTS,
        },
    )
    formula = re.findall(r"(?s)For a variable .*?\$\$.*?\$\$", cls.__doc__)
    described = {"variable", "gradient", *_entries(rule)}
    entries = {**_entries(cls), **_NUMBERS}
    taken = inspect.signature(rule)
    _fill_in(
        rule,
        {
            "formula": _FORMULA.format(formula="".join(formula[:1])),
            "variable and gradient": _TENSORS,
            "numbers": "\n".join(
                entries[x] for x in taken.parameters if x not in described
            ),
            "result": _RESULT.format(result=taken.return_annotation),
        },
    )


def _entries(documented: Any) -> dict[str, str]:
    """Returns what a docstring says of each argument."""
    found = re.finditer(
        r"(?m)^    (\w+): .*(?:\n {8}.*)*", inspect.getdoc(documented)
    )
    return {x[1]: textwrap.dedent(x[0]) for x in found}


def _fill_in(documented: Any, parts: Mapping[str, str]) -> None:
    documented.__doc__ = re.sub(
        r"(?m)^( *)\{\{(.+)\}\}$",
        lambda x: textwrap.indent(parts[x[2]], x[1]),
        inspect.cleandoc(documented.__doc__),
    )
