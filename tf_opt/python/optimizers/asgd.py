"""ASGD, the stochastic average gradient, as a Keras optimizer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from typing_extensions import Unpack

from tf_opt.python.functional import arithmetic, asgd_rule
from tf_opt.python.functional.checks import require
from tf_opt.python.keras_internals import LearningRate, Variable
from tf_opt.python.optimizers.base.arguments import CommonArguments
from tf_opt.python.optimizers.base.definition import optimizer
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer
from tf_opt.python.optimizers.state.optimizer_state import (
    OptimizerState,
    UnknownValueError,
)
from tf_opt.python.optimizers.step.update_rule import Scalars, UpdateRule
from tf_opt.python.optimizers.values import variables as access

# Stored `batch_index` if the user gave none. -1 would hide a user's mistake.
_UNSET = tf.int64.min


@optimizer(asgd_rule.SPEC)
class ASGD(FusedOptimizer):
    r"""Stochastic average gradient (SAG), in one pass over the model.

    The data must be divided into `batch_num` fixed batches. ASGD stores the
    last gradient of every batch and steps along their mean. A step computes one
    gradient, as in SGD. On strongly convex problems, ASGD converges as fast as
    full gradient descent.

    For a variable $p$ with gradient $g$ on batch $i$, with $y_i$ the last
    gradient of this batch, and $n$ the number of different batches seen so far:

    $$
    \begin{aligned}
    d &\leftarrow d - y_i + g \\
    y_i &\leftarrow g \\
    p &\leftarrow p - \frac{\eta}{n} d
    \end{aligned}
    $$

    Results match Paddle's `ASGD` (with `decoupled_weight_decay=False`).
    PyTorch's `ASGD` is `tf_opt.AveragedSGD`.

    **The same batch must get the same number in every epoch.** By default,
    batches come in order: step $t$ is on batch $(t - 1) \bmod$ `batch_num`.
    So pass `model.fit` exactly `batch_num` batches that are not shuffled
    (`shuffle=False`). For another order use
    `tf_opt.callbacks.ShuffledBatches` in `model.fit`, and in a custom loop set
    `optimizer.batch_index` before each step or `optimizer.batch_order` before
    each epoch. With `gradient_accumulation_steps` = $k$, each update counts as
    one batch, made of $k$ consecutive batches of the data.

    **More batches need a smaller step size**, because the stored gradients are
    up to an epoch old. With $L$ the largest curvature of the whole objective,
    the limit is about $\pi^2 / (2 L \cdot$ `batch_num`$)$.

    **The state takes `batch_num + 1` times the memory of the parameters**, in
    float32 (float64 for float64 variables). A step reads and writes the sum and
    one batch's gradients.

    Args:
        batch_num: The number of updates in an epoch, >= 1. With 1, this is SGD
            (or gradient descent, if the one batch contains all data). Leaving
            it out is a warning.

    Example:

    >>> import keras, tensorflow as tf, tf_opt
    >>> variable = keras.Variable(2.0)
    >>> optimizer = tf_opt.ASGD(learning_rate=0.5, batch_num=3)
    >>> for step in range(30):  # The mean of 0, 1 and 2 has the least squares.
    ...     optimizer.apply([variable - step % 3], [variable])
    >>> round(float(variable), 2)
    1.0

    References:
        - [Schmidt, Le Roux and Bach, 2017](https://arxiv.org/abs/1309.2388);
          weight decay enters where Paddle adds it.
    """

    _if_left_out = {
        "batch_num": "is SGD. Pass the number of batches in an epoch, or "
        "`batch_num=1` for SGD."
    }

    def __init__(
        self,
        learning_rate: LearningRate = 1e-3,
        *,
        batch_num: int = 1,
        **common: Unpack[CommonArguments],
    ) -> None: ...

    def _add_own_state(self) -> None:
        self._batch_order = self.add_variable(
            (self.batch_num,),
            initializer=lambda shape, dtype: tf.range(shape[0], dtype=dtype),
            dtype="int64",
            name="batch_order",
        )
        self._seen = self.add_variable(
            (self.batch_num,), dtype="bool", name="seen"
        )
        self._given_batch = self.add_variable(
            (),
            initializer=lambda shape, dtype: tf.constant(_UNSET, dtype),
            dtype="int64",
            name="said_batch",
        )

    # ---- The batch of a step. ----

    @property
    def batch_index(self) -> tf.Tensor:
        """The number of the next step's batch, an int64 scalar.

        It is in [0, `batch_num`). Set it before a step to an integer or an
        integer tensor, eagerly or in a `tf.function`; it applies to this step
        only. Steps for which it isn't set follow `batch_order`.
        """
        self._check_built("batch_index")
        # A slice would copy the position from a GPU to the host.
        order = tf.convert_to_tensor(self._batch_order.value)
        in_order = tf.gather(order, self._position())
        given = tf.convert_to_tensor(self._given_batch.value)
        return tf.where(tf.equal(given, _UNSET), in_order, given)

    @batch_index.setter
    def batch_index(self, index: int | tf.Tensor) -> None:
        self._check_built("batch_index")
        index = self._check_indices("batch_index", index, rank=0)
        access.assign(self._given_batch, index)

    @property
    def batch_order(self) -> tf.Tensor:
        """The batches of the next `batch_num` steps, in order, an int64 vector.

        Set it, for example before an epoch, to `batch_num` integers in
        [0, `batch_num`). Later epochs keep the order. Initially it is 0, 1, 2,
        ...
        """
        self._check_built("batch_order")
        order = tf.roll(self._batch_order.value, -self._position(), axis=0)
        return tf.concat([self.batch_index[None], order[1:]], axis=0)

    @batch_order.setter
    def batch_order(self, order: Sequence[int] | tf.Tensor) -> None:
        self._check_built("batch_order")
        order = self._check_indices("batch_order", order, rank=1)
        order = tf.roll(order, self._position(), axis=0)
        access.assign(self._batch_order, order)
        access.assign(self._given_batch, _UNSET)

    def _position(self) -> tf.Tensor:
        """Returns the position of the next step in `_batch_order`."""
        micro_steps = self.gradient_accumulation_steps
        return self._state.update_count(micro_steps) % self.batch_num

    def _check_built(self, what: str) -> None:
        if not self.built:
            raise UnknownValueError(
                f"`{what}` is known once the optimizer is built: call "
                "`optimizer.build(variables)` first."
            )

    def _check_indices(self, name: str, indices: Any, rank: int) -> tf.Tensor:
        """Converts indices to int64; checks them in eager mode, like the op."""
        try:
            given = tf.convert_to_tensor(indices)
        except (TypeError, ValueError):
            given = None
        are_integers = given is not None and given.dtype.is_integer
        require(are_integers, name, indices, "made of integers")
        shape = (self.batch_num,) * rank
        expected = "`batch_num` numbers" if rank else "one number"
        expected = f"{expected}, of shape {shape}"
        fits = given.shape.is_compatible_with(shape)
        require(fits, name, indices, expected)
        given = tf.cast(given, tf.int64)
        if not tf.is_symbolic_tensor(given):
            expected = f"in [0, {self.batch_num}), the batches of `batch_num`"
            for index in given.numpy().ravel().tolist():
                require(0 <= index < self.batch_num, name, index, expected)
        return given

    def _rule(self) -> UpdateRule:
        return _ASGDRule(
            **vars(super()._rule()),
            batch_index=lambda: self.batch_index,
            seen=self._seen,
            given_batch=self._given_batch,
        )


@dataclasses.dataclass(frozen=True)
class _ASGDRule(UpdateRule):
    """ASGD's rule with the number of the step's batch."""

    batch_index: Callable[[], tf.Tensor] = None
    seen: keras.Variable = None
    given_batch: keras.Variable = None

    def scalars(
        self, learning_rate: arithmetic.Scalar, updates: int | tf.Tensor
    ) -> Scalars:
        """Returns the learning rate, the batch and the batches seen so far."""
        seen = tf.convert_to_tensor(self.seen)
        batches = np.arange(seen.shape[0])
        batch_index = self.batch_index()
        seen |= tf.equal(batches, batch_index)
        return {
            "learning_rate": access.as_number(learning_rate),
            "batch_index": batch_index,
            "seen": seen,
            "seen_batches": tf.math.count_nonzero(seen),
        }

    def next_shared(
        self,
        scalars: Scalars,
        state: OptimizerState,
        variables: Sequence[tf.Variable],
    ) -> list[tuple[Variable, Any]]:
        """Marks the batch as seen and resets `batch_index`."""
        return [(self.seen, scalars["seen"]), (self.given_batch, _UNSET)]
