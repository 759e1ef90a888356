"""Docstrings of optimizers and rules: what they share.

An optimizer describes its formula and its own arguments, and a rule's function
only its state. The rest is added here.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
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
    `global_clipnorm` always stores it, except in Keras' own step, which
    a subclass may need; see docs/how-to/subclass.md.
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
    kernel; inside XLA; without the compiled library). Results are the
    same. `"custom_op"` and `"composed"` force one of them. If the custom
    op can't run, `"custom_op"` raises an error with the reason.
exclude_from_weight_decay: The exclusions that `get_config` saved: None, or a
    dictionary with the regular expressions `"var_names"`, as in the method of
    this name, and with `"paths"`, the paths of single variables.
by_position: Each variable's options, as `get_config` saves them, for models
    in which loading changes the variables' paths. Leave it out elsewhere."""

_COMMON_ARGUMENTS = f"""\
Args: Of every Keras optimizer
{textwrap.indent(_KERAS_ARGUMENTS, "    ")}
Args: Of every tf_opt optimizer
{textwrap.indent(_OPTIONS, "    ")}

Raises:
    ValueError: If an argument is wrong or excludes another."""

_ABOUT_RULES = """\
`maximize` and weight decay come first. `tf_opt.{}` has the sources. This is a
pure and differentiable function; `tf_opt.functional` describes types and
arithmetic. The state has the variable's shape. It is float32 for a float16,
bfloat16 or float32 variable and has the variable's type for others; bfloat16,
or float32 for float64, will do, too. It is zeros at first, except where
described otherwise."""

# Those that optimizers don't have, or that aren't numbers there.
_RULE_ARGUMENTS = {
    "variable": "variable: The variable $p$, a floating point or complex "
    "tensor of any shape.",
    "gradient": "gradient: Its gradient $g$, of the same shape and type.",
    "step": "step: Number $t$ of this step, an integer counted from 1.",
    "learning_rate": r"learning_rate: Step size $\eta$, a scalar.",
    "weight_decay": "weight_decay: Strength of the weight decay; 0 is none.",
}

_RESULT = """\
Returns:
    The new variable and state (`{}`), with the types of the old ones.

Raises:
    ValueError: If a tensor has the wrong shape or type, a number is out of
        range, or an argument isn't a number as required. The error names the
        argument."""

_ENTRY = re.compile(r"(?m)^    (\w+): .*(?:\n {8}.*)*")
_FORMULA = re.compile(r"(?ms)^For a variable .*?\$\$.*?\$\$")


def complete_class(cls: type) -> None:
    """Adds the arguments that a class inherits or shares with others."""
    _complete(
        cls,
        ["learning_rate", *cls._own_arguments],
        {"learning_rate": _LEARNING_RATE, **_entries(cls.__base__)},
        after=_COMMON_ARGUMENTS,
    )


def complete_rule(function: Callable[..., Any], cls: type) -> None:
    """Adds what a rule's function shares with its optimizer or other rules."""
    signature = inspect.signature(function)
    formula = _FORMULA.findall(_text(cls))
    _complete(
        function,
        signature.parameters,
        {**_entries(cls), **_RULE_ARGUMENTS},
        before="\n\n".join([*formula, _ABOUT_RULES.format(cls.__name__)]),
        after=_RESULT.format(signature.return_annotation),
    )


def _complete(
    documented: Any,
    arguments: Iterable[str],
    entries: Mapping[str, str],
    *,
    before: str = "",
    after: str,
) -> None:
    """Adds entries of `Args`, and text before and after them."""
    # `python -OO` removes docstrings.
    if documented.__doc__ is None:
        return
    entries = {**entries, **_entries(documented)}
    described = "\n".join(entries[name] for name in arguments)
    text, _, example = _text(documented).partition("Example:\n")
    text, _, _ = text.partition("Args:\n")
    args = "Args:\n" + textwrap.indent(described, "    ")
    parts = (text.strip(), before, args, after, f"Example:\n{example}")
    documented.__doc__ = "\n\n".join(filter(None, parts))


def _text(documented: Any) -> str:
    return inspect.getdoc(documented) or ""


def _entries(documented: Any) -> dict[str, str]:
    """Returns the entries of a docstring's `Args`, by name."""
    found = _ENTRY.finditer(_text(documented))
    return {x[1]: textwrap.dedent(x[0]) for x in found}
