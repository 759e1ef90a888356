"""What a step does around its rule, as the ops take it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import tensorflow as tf

from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.ops.handles import VariableLike


@dataclasses.dataclass(frozen=True)
class StepFrame:
    r"""What a step does around its rule, the same in every optimizer.

    For each variable $p$ with gradient $g$, and where there are any its
    accumulator $a$ and its average $e$:

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

    Where `update` is false a step only accumulates, $a \leftarrow a +
    \text{gradient\_scale} \cdot g$, and averages. All arithmetic is float32
    (float64 for float64 variables). By default nothing is done.

    With `master_weights` $w$ all of this is done to them, in place of $p$.
    First $w \leftarrow p$ where $p$ isn't $w$ rounded to nearest, and in the
    end $p$ is the rounded $w$.

    What is stored in 16 bits is rounded to nearest in variables, but with
    `stochastic_rounding`; at random in moments and averages, which may be
    bfloat16; see docs/formulas.md.

    Args:
        accumulators: Sums of gradients, one for each variable and of its
            shape: float32, or float64 for float64 variables. Empty: nothing
            was accumulated.
        averages: Moving averages of the variables, likewise, or bfloat16.
        master_weights: Copies of float16 or bfloat16 variables in float32.
        learning_rate_factors: What the learning rate is multiplied by: one
            number for all variables, or a list or vector with one for each.
        gradient_factors: What the gradients are multiplied by after what was
            accumulated is added, likewise.
        gradient_scale: What they are multiplied by before that.
        clip_value: The greatest magnitude of a gradient's elements, >= 0.
        ema_momentum: How much of an average stays, in [0, 1].
        overwrite_with_average: Whether the variables become their averages.
        enabled: Whether there is a step at all; otherwise nothing is read or
            written.
        update: Whether it updates, or only accumulates.
        variable_numbers: What besides `seed` and `iteration` the random bits of
            a variable depend on, an integer in [-2**53, 2**53]: one number for
            all variables, or a list or vector with one for each.
        iteration: How many steps there were before, an integer.
        stochastic_rounding: Whether float16 and bfloat16 variables are rounded
            at random.
        seed: The seed of the random bits, Python's integer.

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


# The frame of a step that does nothing around its rule.
BARE = StepFrame()
