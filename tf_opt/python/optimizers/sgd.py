"""SGD, with and without momentum, as a Keras optimizer."""

from __future__ import annotations

from typing import Any

import keras
from typing_extensions import Unpack

from tf_opt.python.functional import sgd_rule
from tf_opt.python.functional.arithmetic import is_known
from tf_opt.python.keras_internals import LearningRate, Number
from tf_opt.python.optimizers.base.arguments import CommonArguments
from tf_opt.python.optimizers.base.definition import optimizer
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer


@optimizer(sgd_rule.SPEC, keras.optimizers.SGD)
class SGD(FusedOptimizer):
    r"""Stochastic gradient descent, perhaps with momentum, in one pass.

    For a variable $p$ with gradient $g$ and velocity $b$, with $\mu$ =
    `momentum`:

    $$
    \begin{aligned}
    b &\leftarrow \mu b - \eta g && \text{Keras' momentum} \\
    p &\leftarrow p + b && \text{or, with nesterov, } p + \mu b - \eta g \\
    b &\leftarrow \mu b + (1 - \tau) g
        && \text{PyTorch's; the first step has no dampening } \tau \\
    p &\leftarrow p - \eta b
        && \text{or, with nesterov, } p - \eta (g + \mu b) \\
    p &\leftarrow p - \eta g && \text{without momentum}
    \end{aligned}
    $$

    Results match Keras, whose `keras.optimizers.SGD` has interchangeable
    `variables`; with `torch_momentum=True` (and `decoupled_weight_decay=False`)
    they match PyTorch. docs/formulas.md tells how the two forms differ.
    `dampening` needs `torch_momentum=True` and excludes `nesterov=True`.
    Momentum can be set to 0 and back if the optimizer was built with it.
    Otherwise it stays 0, and there is no velocity.

    Args:
        momentum: $\mu$, the part of the velocity that remains, in [0, 1]; 0 is
            no momentum.
        dampening: $\tau$, the part of a gradient that PyTorch's momentum leaves
            out, except in the first step (in PyTorch, in each parameter's first
            step). The function without `torch_momentum` ignores it.
        nesterov: Whether to apply Nesterov's momentum.
        torch_momentum: Whether momentum has PyTorch's form, whose velocity is a
            sum of gradients without the learning rate, and not Keras'.

    Example:

    >>> import keras, tensorflow as tf, tf_opt
    >>> variable = keras.Variable([1.0, 2.0])
    >>> optimizer = tf_opt.SGD(learning_rate=0.5, momentum=0.5)
    >>> for _ in range(2):
    ...     optimizer.apply([tf.constant([0.5, -0.5])], [variable])
    >>> variable.numpy().tolist()
    [0.375, 2.625]

    References:
        - Polyak, 1964, "Some methods of speeding up the convergence of
          iteration methods"
        - [Sutskever et al.,
          2013](https://proceedings.mlr.press/v28/sutskever13.html) for
          Nesterov's form.
    """

    def __init__(
        self,
        learning_rate: LearningRate = 1e-2,
        momentum: Number = 0.0,
        nesterov: bool = False,
        *,
        dampening: Number = 0.0,
        torch_momentum: bool = False,
        **common: Unpack[CommonArguments],
    ) -> None: ...

    def __setattr__(self, name: str, value: Any) -> None:
        names = ("dampening", "nesterov", "torch_momentum")
        if name in names:
            arguments = {x: getattr(self, x, None) for x in names}
            arguments[name] = value
            # The constructor assigns one after the other.
            if all(x is not None for x in arguments.values()):
                _check_dampening(**arguments)
        super().__setattr__(name, value)


def _check_dampening(
    *, dampening: Number, nesterov: bool, torch_momentum: bool
) -> None:
    if not is_known(dampening, 0) and (nesterov or not torch_momentum):
        raise ValueError(
            "`dampening` must be 0 unless `torch_momentum` is True and "
            f"`nesterov` is False. Received: dampening={dampening!r}, "
            f"nesterov={nesterov}, torch_momentum={torch_momentum}"
        )
