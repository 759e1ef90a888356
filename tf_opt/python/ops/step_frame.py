"""Frame of a step, as the ops take it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import tensorflow as tf

from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.ops.inputs import VariableLike


@dataclasses.dataclass(frozen=True)
class StepFrame:
    r"""Frame of a step: scaling, accumulating, clipping, averaging.

    The frame surrounds the rule and is the same for every optimizer. For each
    variable $p$ with gradient $g$ and, if used, accumulator $a$ and average
    $e$:

    $$
    \begin{aligned}
    g &\leftarrow \text{gradient\_scale} \cdot g + a, \quad a \leftarrow 0 \\
    g &\leftarrow \text{clip}(\text{gradient\_factor} \cdot g,
        \pm\text{clip\_value}) \\
    & \text{the rule} \\
    e &\leftarrow \mu e + (1 - \mu) p && \mu = \text{ema\_momentum} \\
    p &\leftarrow e && \text{if overwrite\_with\_average}
    \end{aligned}
    $$

    If `update` is false, a step only accumulates, $a \leftarrow a +
    \text{gradient\_scale} \cdot g$, and averages. All arithmetic is float32
    (float64 for float64 variables). By default a step only applies its rule.

    With `master_weights` $w$, the step updates $w$ instead of $p$. Before the
    step, $w \leftarrow p$ where $p$ isn't $w$ rounded to nearest. After the
    step, $p$ is the rounded $w$.

    16-bit variables are rounded to nearest, or at random with
    `stochastic_rounding`. Moments and averages in bfloat16 are rounded at
    random. See docs/formulas.md.

    Args:
        accumulators: Sums of gradients, one for each variable and of its
            shape: float32, or float64 for float64 variables. Or empty.
        averages: Moving averages of the variables, one for each and of its
            shape: float32, float64 for float64 variables, or bfloat16.
        master_weights: float32 copies of float16 or bfloat16 variables.
        learning_rate_factors: Factors of the learning rate: one number for all
            variables, or a list or vector with one number for each.
        gradient_factors: Factors of the gradients after the accumulators are
            added: one number for all variables, or a list or vector with one
            number for each.
        gradient_scale: Factor of the gradients before the accumulators are
            added.
        clip_value: The greatest magnitude of a gradient's elements, >= 0.
        ema_momentum: Weight of the old value in an average, in [0, 1].
        overwrite_with_average: Whether to assign the averages to the variables.
        enabled: Whether to do the step at all. If false, nothing is read or
            written.
        update: Whether to update. If false, the step only accumulates.
        variable_numbers: Integers in [-2**53, 2**53] on which the random bits
            of a variable depend, besides `seed` and `iteration`: one number for
            all variables, or a list or vector with one number for each.
        iteration: The number of steps before this one, an integer.
        stochastic_rounding: Whether to round float16 and bfloat16 variables at
            random.
        seed: The seed of the random bits, a Python integer.

    Example:

    >>> import tensorflow as tf, tf_opt
    >>> p, m, v = (tf.Variable([1.0, 2.0]) for _ in range(3))
    >>> tf_opt.ops.resource_apply_adam_amsgrad(
    ...     [p], [m], [v], [tf.constant([0.5, -0.5])], step=1,
    ...     frame=tf_opt.ops.StepFrame(enabled=False))
    >>> p.numpy().tolist()
    [1.0, 2.0]
    """

    accumulators: Sequence[VariableLike] = ()
    averages: Sequence[VariableLike] = ()
    master_weights: Sequence[VariableLike] = ()
    learning_rate_factors: Scalar | Sequence[Scalar] = 1.0
    gradient_factors: Scalar | Sequence[Scalar] = 1.0
    gradient_scale: Scalar = 1.0
    clip_value: Scalar = math.inf
    ema_momentum: Scalar = 0.0
    overwrite_with_average: bool | tf.Tensor = False
    enabled: bool | tf.Tensor = True
    update: bool | tf.Tensor = True
    variable_numbers: Scalar | Sequence[Scalar] = 0.0
    iteration: Scalar = 0
    stochastic_rounding: bool = False
    seed: int = 0


# The frame of a step that only applies its rule.
BARE = StepFrame()
