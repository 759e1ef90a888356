"""ASGD, the stochastic average gradient, as a Keras optimizer."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_opt.python import dispatch
from tf_opt.python.functional import arithmetic
from tf_opt.python.functional import asgd_rule
from tf_opt.python.ops import asgd as asgd_op
from tf_opt.python.optimizers import local_state
from tf_opt.python.optimizers import rounding
from tf_opt.python.optimizers import running_fit
from tf_opt.python.optimizers import state_size
from tf_opt.python.optimizers import validation
from tf_opt.python.optimizers.arguments import common_arguments
from tf_opt.python.optimizers.docstrings import with_common_arguments
from tf_opt.python.optimizers.fused_optimizer import FusedOptimizer
from tf_opt.python.optimizers.fused_optimizer import LearningRate
from tf_opt.python.optimizers.fused_optimizer import WeightDecay
from tf_opt.python.optimizers.gradients import GradientLike
from tf_opt.python.optimizers.rule_function import Update

# No `batch_index` was said for the next step. Not -1: who says that gets an
# error.
_NOT_SAID = tf.int64.min


@keras.saving.register_keras_serializable("tf_opt")
@with_common_arguments
class ASGD(FusedOptimizer):
    r"""The stochastic average gradient (SAG): the whole model in one pass.

    For data in `batch_num` fixed batches. Of each batch $i$ the last gradient
    $y_i$ is kept, and a step follows the mean of all of them: it costs as much
    as a step of SGD, and on strongly convex problems converges as fast as full
    gradient descent. For a variable $p$ with gradient $g$ on batch $i$, with
    $n$ the number of different batches seen so far:

    $$
    \begin{aligned}
    d &\leftarrow d - y_i + g, \quad y_i \leftarrow g \\
    p &\leftarrow p - \frac{\eta}{n} d
    \end{aligned}
    $$

    These are the numbers of Paddle's `ASGD` (with
    `decoupled_weight_decay=False`); PyTorch's `ASGD` is `tf_opt.AveragedSGD`.

    **The same batch must get the same number in every epoch.** By default
    batches come in order: step $t$ is on batch $(t - 1) \bmod$ `batch_num`, so
    give `model.fit` batches that are not shuffled (`shuffle=False`) and whose
    number is `batch_num`. `fit` warns where Keras shuffles arrays or their
    number is another; what a `tf.data.Dataset` shuffles itself nobody can see.
    Who visits the batches in another order says so:

    - in `model.fit`, with `tf_opt.callbacks.ShuffledBatches`;
    - in a loop of one's own, before each step: `optimizer.batch_index = i`;
    - for a whole epoch at once: `optimizer.batch_order = order`.

    With `gradient_accumulation_steps` = $k$ a batch is what one update takes,
    $k$ batches of the data after each other: `batch_num` counts the updates of
    an epoch.

    **The step size must be smaller the more batches there are**: visited once
    an epoch, gradients are up to an epoch old. With $L$ the largest curvature
    of the whole objective, about $\pi^2 / (2 L \cdot$ `batch_num`$)$ is the
    limit.

    **The state is `batch_num + 1` times the parameters**, in float32 (float64
    for float64 variables). `build` warns from 1 GiB on, and refuses what is
    larger than the machine's memory. Only one row of it is touched in a step.

    Args:
        {{learning_rate}}
        batch_num: The number of batches in an epoch, >= 1. With 1 this is SGD
            (or, if that one batch is all the data, gradient descent).
        {{common_arguments}}

    Raises:
        ValueError: If an argument is out of range; names it and its value.

    Example:

    >>> import keras, tensorflow as tf, tf_opt
    >>> variable = keras.Variable(2.0)
    >>> optimizer = tf_opt.ASGD(learning_rate=0.5, batch_num=3)
    >>> for step in range(30):  # The mean of 0, 1 and 2 has the least squares.
    ...     optimizer.apply([variable - step % 3], [variable])
    >>> round(float(variable), 2)
    1.0

    References:
        - [Schmidt, Le Roux and Bach, 2017](https://arxiv.org/abs/1309.2388).
    """

    _op = asgd_op.OP
    # The table: a gradient replaces another, and doesn't move it.
    _slots_rounded_to_nearest = frozenset({1})
    _fixed_by_build = FusedOptimizer._fixed_by_build | {"batch_num"}
    _has_warned = False

    def __init__(
        self,
        learning_rate: LearningRate = 1e-3,
        *,
        batch_num: int = 1,
        weight_decay: WeightDecay | None = None,
        clipnorm: float | None = None,
        clipvalue: float | None = None,
        global_clipnorm: float | None = None,
        use_ema: bool = False,
        ema_momentum: float = 0.99,
        ema_overwrite_frequency: int | None = None,
        loss_scale_factor: float | None = None,
        gradient_accumulation_steps: int | None = None,
        name: str | None = None,
        decoupled_weight_decay: bool = True,
        maximize: bool = False,
        learning_rate_multipliers: Mapping[str, float] | None = None,
        weight_decay_multipliers: Mapping[str, float] | None = None,
        skip_nonfinite: bool = False,
        track_gradient_norm: bool = False,
        lazy_mode: bool = False,
        master_weights: bool = False,
        stochastic_rounding: bool = False,
        seed: int | None = None,
        state_dtype: str | tf.DType | None = None,
        implementation: str = dispatch.AUTO,
    ) -> None:
        validation.check_positive_integer("batch_num", batch_num)
        super().__init__(**common_arguments(locals()))
        self.batch_num = int(batch_num)

    def build(self, var_list: Sequence[keras.Variable]) -> None:
        """Creates the state, zero.

        Args:
            var_list: The model variables that will be updated.

        Raises:
            ValueError: If the state is larger than the machine's memory.
        """
        if not self.built:
            state_size.check(
                f"ASGD(batch_num={self.batch_num})",
                var_list,
                copies=self.batch_num,
                dtype_of=functools.partial(rounding.state_dtype_of, self),
                advice="fewer and larger batches",
            )
        super().build(var_list)

    def _add_state(self, variables: Sequence[keras.Variable]) -> None:
        self._gradient_sums, self._gradients = self._add_slots(
            variables,
            ["gradient_sum", "gradients"],
            rows={"gradients": self.batch_num},
            # What is rounded there would never leave the sum.
            exact={"gradient_sum"},
        )
        self._batch_order = self.add_variable(
            (self.batch_num,),
            initializer=lambda shape, dtype: tf.range(shape[0], dtype=dtype),
            dtype="int64",
            name="batch_order",
        )
        self._seen = self.add_variable(
            (self.batch_num,), dtype="bool", name="seen"
        )
        self._said_batch = self.add_variable(
            (),
            initializer=lambda shape, dtype: tf.constant(_NOT_SAID, dtype),
            dtype="int64",
            name="said_batch",
        )

    # ---- Which batch a step is on. ----

    @property
    def batch_index(self) -> tf.Tensor:
        """Which batch the next step's gradients are of, an int64 scalar.

        In [0, `batch_num`). May be set before each step, in eager mode and in
        a `tf.function`, to a number or an integer tensor. It holds for the one
        step; where it isn't set, the batches follow each other in
        `batch_order`.
        """
        self._check_built("batch_index")
        # Not sliced: that would take the position from a GPU to the host.
        order = tf.convert_to_tensor(self._batch_order.value)
        in_order = tf.gather(order, self._position())
        said = tf.convert_to_tensor(self._said_batch.value)
        return tf.where(said == _NOT_SAID, in_order, said)

    @batch_index.setter
    def batch_index(self, index: int | tf.Tensor) -> None:
        self._check_built("batch_index")
        index = self._check_indices("batch_index", index, rank=0)
        local_state.assign(self._said_batch, index)

    @property
    def batch_order(self) -> tf.Tensor:
        """The batches of the next `batch_num` steps, in order, int64.

        May be set, before an epoch say, to as many numbers in
        [0, `batch_num`); the epochs after it go on in the same order. At first
        it is 0, 1, 2, ...
        """
        self._check_built("batch_order")
        order = tf.roll(self._batch_order.value, -self._position(), axis=0)
        return tf.concat([self.batch_index[None], order[1:]], axis=0)

    @batch_order.setter
    def batch_order(self, order: Sequence[int] | tf.Tensor) -> None:
        self._check_built("batch_order")
        order = self._check_indices("batch_order", order, rank=1)
        order = tf.roll(order, self._position(), axis=0)
        local_state.assign(self._batch_order, order)
        local_state.assign(self._said_batch, _NOT_SAID)

    def _position(self) -> tf.Tensor:
        """The place of the next step in `_batch_order`."""
        return self._update_count() % self.batch_num

    def _check_built(self, what: str) -> None:
        if not self.built:
            raise ValueError(
                f"`{what}` is known once the optimizer is built: call "
                "`optimizer.build(variables)` first."
            )

    def _check_indices(self, name: str, indices: Any, rank: int) -> tf.Tensor:
        """`indices` as int64; in eager mode checked, in graphs by the op."""
        try:
            given = tf.convert_to_tensor(indices)
        except (TypeError, ValueError):
            given = None
        if given is None or not given.dtype.is_integer:
            raise ValueError(
                f"`{name}` must be made of integers. Received: "
                f"{name}={indices!r}"
            )
        expected = [self.batch_num] * rank
        if not given.shape.is_compatible_with(expected):
            raise ValueError(
                f"`{name}` must be "
                + ("`batch_num` numbers, " if rank else "one number, ")
                + f"of shape {tuple(expected)}. Received: shape {given.shape}"
            )
        given = tf.cast(given, tf.int64)
        if isinstance(given, tf.__internal__.EagerTensor):
            for index in given.numpy().ravel():
                if not 0 <= index < self.batch_num:
                    raise ValueError(
                        f"`{name}` must be in [0, {self.batch_num}), the "
                        f"batches of `batch_num`. Received: {index}"
                    )
        return given

    # ---- Whether `fit` goes through the batches that this counts. ----

    def apply(
        self,
        grads: Sequence[GradientLike | None],
        trainable_variables: Sequence[keras.Variable | tf.Variable]
        | None = None,
    ) -> None:
        """Updates the variables: a step on the batch `batch_index`.

        Args:
            grads: As in every optimizer.
            trainable_variables: Likewise.
        """
        if not tf.executing_eagerly():
            # As early as can be: when Keras traces the first step of `fit`.
            self._warn_of_other_batches()
        super().apply(grads, trainable_variables)

    def finalize_variable_values(
        self, var_list: Sequence[keras.Variable | tf.Variable]
    ) -> None:
        """What Keras calls at the end of every `fit`.

        Args:
            var_list: The model's trainable variables.
        """
        self._warn_of_other_batches()
        super().finalize_variable_values(var_list)

    def _warn_of_other_batches(self) -> None:
        """Warns, once, if `fit` doesn't visit `batch_num` fixed batches."""
        fit = running_fit.of(self)
        if fit is None or self.batch_num == 1 or self._has_warned:
            return
        expected = self.batch_num * (self.gradient_accumulation_steps or 1)
        if fit.shuffles:
            problem = (
                "`fit` was called with `shuffle=True`: then the batches are "
                "others in every epoch, and the gradients that ASGD keeps "
                "belong to none. Pass `shuffle=False`, or batches of "
                "`tf_opt.callbacks.ShuffledBatches`."
            )
        elif fit.num_batches not in (None, expected):
            problem = (
                f"`fit` goes through {fit.num_batches} batches, but ASGD "
                f"counts {expected} (batch_num={self.batch_num}): the "
                "gradients that it keeps belong to other batches. Make "
                "`batch_num` the number of batches."
            )
        else:
            return
        self._has_warned = True
        warnings.warn(problem, UserWarning, stacklevel=3)

    # ---- A step. ----

    def _slots(self, index: int) -> list[keras.Variable]:
        return [self._gradient_sums[index], self._gradients[index]]

    def _scalars(
        self, learning_rate: arithmetic.Scalar, updates: int | tf.Tensor
    ) -> dict[str, Any]:
        batch_index = self.batch_index
        this = tf.range(self.batch_num, dtype=tf.int64) == batch_index
        seen = tf.convert_to_tensor(self._seen) | this
        return {
            "learning_rate": local_state.number(learning_rate),
            "batch_index": batch_index,
            "seen": seen,
            "seen_batches": tf.math.count_nonzero(seen),
        }

    def _next_shared(
        self, *, seen: tf.Tensor, **scalars: tf.Tensor
    ) -> Sequence[tuple[keras.Variable, tf.Tensor]]:
        return [(self._seen, seen), (self._said_batch, _NOT_SAID)]

    def _numbers(
        self, *, batch_index: tf.Tensor, seen: tf.Tensor, **scalars: Any
    ) -> dict[str, Any]:
        return super()._numbers(**scalars)

    @staticmethod
    def _rule(**numbers: Any) -> Update:
        step = asgd_rule.asgd_step(**numbers)
        return functools.partial(asgd_rule.apply_asgd_step, step)

    # Of the table of gradients it takes one batch's.
    _takes_whole_slots = False

    def _read_slots(
        self,
        slots: Sequence[keras.Variable],
        rows: tf.Tensor | None = None,
        *,
        batch_index: tf.Tensor,
        **scalars: tf.Tensor,
    ) -> list[tf.Tensor]:
        d, y = slots
        # Of the table what is needed: reading all would copy it.
        if rows is None:
            row = tf.gather(y.value, batch_index)
            return [local_state.value_of(d), row]
        return [
            tf.gather(d.value, rows),
            local_state.read_at(y, _places(batch_index, rows)),
        ]

    def _write_slots(
        self,
        slots: Sequence[keras.Variable],
        values: Sequence[tf.Tensor],
        rows: tf.Tensor | None = None,
        *,
        batch_index: tf.Tensor,
        **scalars: tf.Tensor,
    ) -> None:
        (d, y), (new_d, new_row) = slots, values
        if rows is None:
            local_state.assign(d, new_d)
            local_state.assign_rows(y, batch_index[None], new_row[None])
        else:
            local_state.assign_rows(d, rows, new_d)
            local_state.assign_at(y, _places(batch_index, rows), new_row)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, serializable."""
        config = super().get_config()
        config["batch_num"] = self.batch_num
        return config


def _places(batch_index: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Where some rows of a batch's gradients stand."""
    rows = tf.cast(rows, batch_index.dtype)
    return tf.stack([tf.broadcast_to(batch_index, tf.shape(rows)), rows], 1)
