"""Muon as a Keras optimizer."""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import Unpack

from tf_opt.python.functional import arithmetic, muon_rule
from tf_opt.python.functional.arithmetic import Scalar, is_known
from tf_opt.python.functional.checks import mode as check_mode
from tf_opt.python.functional.checks import require
from tf_opt.python.functional.rule_spec import MATRIX
from tf_opt.python.keras_internals import (
    LearningRate,
    Number,
    Variable,
    path_of,
)
from tf_opt.python.optimizers.base.arguments import CommonArguments
from tf_opt.python.optimizers.base.choices import Choices
from tf_opt.python.optimizers.base.definition import optimizer
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer
from tf_opt.python.optimizers.base.keras_optimizer import choice
from tf_opt.python.optimizers.state import patterns
from tf_opt.python.optimizers.step.update_rule import UpdateRule
from tf_opt.python.optimizers.values import variables as access

# By path, the number of axes that are inputs; if negative, of those that are
# outputs. The names are those of Keras' layers.
_KNOWN = {
    # Of attention: [heads, size].
    2: {r"bias[^/]*$": 0},
    # Of attention: [inputs, heads, size] and [heads, size, outputs].
    3: {
        r"(^|/)(query|key|value)/kernel": 1,
        r"(^|/)attention_output/kernel": -1,
        r"depthwise[^/]*(/kernel|_kernel)": 0,
        r"conv[^/]*/(pointwise_)?kernel": -1,
    },
    # Of convolutions. What slides over one channel has one input.
    4: {r"depthwise[^/]*(/kernel|_kernel)": 0, r"kernel[^/]*$": -1},
}


def _check_layers(name: str, value: Any) -> list[str] | None:
    """Returns a copy; raises a ValueError unless it is what `Muon` takes."""
    if value is None:
        return None
    return patterns.as_list(
        name, value, "None or a list of regular expressions"
    )


def _check_matrix_axes(name: str, value: Any) -> dict[str, int] | None:
    """Returns a copy; raises a ValueError unless it is what `Muon` takes."""
    if value is None:
        return None
    is_right = isinstance(value, Mapping) and all(
        isinstance(x, int) and not isinstance(x, bool) for x in value.values()
    )
    allowed = "None or a dictionary of regular expressions and integers"
    require(is_right, name, value, allowed)
    patterns.check(name, value, "keys")
    return dict(value)


def _input_axes(
    choices: Choices, variables: Sequence[keras.Variable]
) -> Sequence[int]:
    """Returns how many axes of each variable are inputs; 0: it is no matrix."""
    layers, embeddings, given = map(
        choices.values.get,
        ("exclude_layers", "exclude_embeddings", "matrix_axes"),
    )
    excluded = map(operator.or_, layers, embeddings)
    return [
        _input_axes_of(x, given and given[i], given is None)
        if arithmetic.may_be_matrix(x) and not is_excluded
        else 0
        for i, (x, is_excluded) in enumerate(
            zip(variables, excluded, strict=True)
        )
    ]


def _input_axes_of(
    variable: keras.Variable, given: int | None, are_known: bool
) -> int:
    """Returns these axes of one variable, given `matrix_axes` for it."""
    path, rank = path_of(variable), len(variable.shape)
    if given is None:
        known = _KNOWN.get(min(rank, 4), {}).items() if are_known else ()
        found = (axes for name, axes in known if re.search(name, path, re.I))
        given = next(found, 1 if rank == 2 else 0)
    if not abs(given) < rank:
        raise ValueError(
            f"`matrix_axes` must be less than the number of axes of `{path}`, "
            f"of shape {tuple(variable.shape)}. Received: {given}"
        )
    return given % rank


# Without `rms_rate`, as before Keras 3.13, steps have another length.
_KERAS = keras.optimizers.Muon
if "rms_rate" not in inspect.signature(_KERAS).parameters:
    _KERAS = None


@optimizer(muon_rule.SPEC, _KERAS, matrix_axes={})
class Muon(FusedOptimizer):
    r"""Muon: orthogonalized momentum for matrices, AdamW for all else.

    For a matrix $p$ of $n$ rows and $m$ columns with gradient $g$, with $\mu$ =
    `momentum`:

    $$
    \begin{aligned}
    b &\leftarrow \mu b + g \\
    X &= (g + \mu b) / \lVert g + \mu b \rVert \\
    X &\leftarrow (a I + b A + c A^2) X \quad\text{with } A = X X^T,
        \text{ \textit{ns\_steps} times} \\
    p &\leftarrow p - \eta \cdot \text{rms\_rate} \cdot \sqrt{\max(n, m)} \, X
    \end{aligned}
    $$

    The iteration moves all singular values of $X$ near 1. With
    `rms_rate=0.2` a step is about as long as AdamW's, so that rates and weight
    decay of AdamW fit.

    A variable is a matrix if it has two axes, or if it is a kernel of attention
    or of a convolution, or named in `matrix_axes`. Biases, depthwise kernels,
    tables of embeddings and `exclude_layers` aren't. All that isn't a matrix
    gets AdamW with Keras' `epsilon` (see `epsilon_hat` of `tf_opt.AdamW`), by
    its custom op. For matrices there is no op. Those of one shape are
    multiplied together.

    `tf_opt.from_keras` gives the numbers of `keras.optimizers.Muon`, to which
    only variables of two axes are matrices.

    Args:
        adam_beta_1: Decay of AdamW's first moment, in [0, 1).
        adam_beta_2: Decay of AdamW's second moment, in [0, 1).
        adam_weight_decay: AdamW's weight decay, or None. As in Keras,
            `adam_lr_ratio` doesn't scale it.
        epsilon: Added to AdamW's denominator, >= 0.
        exclude_layers: Regular expressions for paths of variables that get
            AdamW. The last layer should be among them.
        exclude_embeddings: Whether variables with "embedding" in their path get
            AdamW.
        muon_a: $a$ of the iteration.
        muon_b: $b$ of the iteration.
        muon_c: $c$ of the iteration.
        adam_lr_ratio: Factor of the learning rate for AdamW, >= 0.
        momentum: $\mu$, in [0, 1).
        ns_steps: Number of iterations, a Python integer >= 1.
        nesterov: Whether $X$ begins with $g + \mu b$, or with $b$.
        rms_rate: Factor of the step, >= 0. None: the step is $\eta X$.
        matrix_axes: For variables with more than two axes, how many of the
            first ones are the matrix' rows, by regular expression for their
            paths: `{"my_einsum/kernel": 1}`. A negative number counts the
            columns' axes, and 0 means AdamW. None knows the layers of Keras'
            attention and convolutions; a dictionary knows nothing else.
        ns_bfloat16: Whether to multiply matrices in bfloat16, as the paper's
            authors do: faster where the processor has instructions for it.

    Example:

    >>> import keras, tensorflow as tf, tf_opt
    >>> variable = keras.Variable([[3.0, 4.0]])
    >>> optimizer = tf_opt.Muon(learning_rate=0.1, weight_decay=None)
    >>> optimizer.apply([tf.constant([[0.5, 0.5]])], [variable])
    >>> print(variable.numpy().round(4))
    [[2.9861 3.9861]]

    References:
        - [Jordan et al., 2024](https://kellerjordan.github.io/posts/muon/)
        - `rms_rate`: [Liu et al., 2025](https://arxiv.org/abs/2502.16982)
    """

    _own_checks = {"exclude_embeddings": check_mode}

    def __init__(
        self,
        learning_rate: LearningRate = 1e-3,
        adam_beta_1: Number = 0.9,
        adam_beta_2: Number = 0.999,
        adam_weight_decay: Number | None = 0.004,
        epsilon: Number = 1e-7,
        weight_decay: Number | None = 0.004,
        clipnorm: Number | None = None,
        clipvalue: Number | None = None,
        global_clipnorm: Number | None = None,
        use_ema: bool = False,
        ema_momentum: Number = 0.99,
        ema_overwrite_frequency: int | None = None,
        loss_scale_factor: Number | None = None,
        gradient_accumulation_steps: int | None = None,
        name: str | None = None,
        exclude_layers: Sequence[str] | None = None,
        exclude_embeddings: bool = True,
        muon_a: Number = 3.4445,
        muon_b: Number = -4.7750,
        muon_c: Number = 2.0315,
        adam_lr_ratio: Number = 1.0,
        momentum: Number = 0.95,
        ns_steps: int = 5,
        nesterov: bool = True,
        rms_rate: Number | None = 0.2,
        *,
        matrix_axes: Mapping[str, int] | None = None,
        ns_bfloat16: bool = False,
        **common: Unpack[CommonArguments],
    ) -> None: ...

    exclude_layers: Sequence[str] | None = choice(
        "exclude_layers",
        _check_layers,
        "Regular expressions for paths of variables that get AdamW, or None.",
    )
    exclude_embeddings: bool = choice(
        "exclude_embeddings",
        lambda _, value: value,
        'Whether variables with "embedding" in their path get AdamW.',
    )
    matrix_axes: Mapping[str, int] | None = choice(
        "matrix_axes",
        _check_matrix_axes,
        "How many axes are the matrix' rows, by regular expression, or None.",
    )

    def _input_axes(self, variables: Sequence[keras.Variable]) -> Sequence[int]:
        return _input_axes(self._choices, variables)

    def _has_matrices_of_keras(self) -> bool:
        """Whether Keras' Muon would take the same variables for matrices."""
        variables = self._state.variables
        # By the present paths, which may differ from those of a saved choice.
        choices = Choices({**self._choices.chosen, "matrix_axes": {}})
        choices = choices.resolve(self, variables)
        return self._state.input_axes == _input_axes(choices, variables)

    def _apply_weight_decay(self, variables: Sequence[Variable]) -> None:
        # Keras' own step calls it.
        rate = access.as_number(self.learning_rate)
        for variable in filter(self._use_weight_decay, variables):
            index = self._get_variable_index(variable)
            is_matrix = self._state.forms[index] == MATRIX
            decay = self.weight_decay if is_matrix else self.adam_weight_decay
            if decay is not None:
                value = access.value_of(variable)
                kept = arithmetic.kept_part(rate, access.as_number(decay))
                access.assign(variable, tf.cast(kept, value.dtype) * value)

    def _rule(self) -> UpdateRule:
        return _MuonRule(**vars(super()._rule()))


# Of a ratio of 0, no decay would be a multiple. A step by this one rounds to 0,
# in float64 unless the variable is 0.
_LEAST_RATIO = 2.0**-900


class _MuonRule(UpdateRule):
    """Muon's rule, whose AdamW has another rate and decay."""

    def decay_and_rate(
        self, decay: Number | None
    ) -> tuple[Number | None, Scalar | None]:
        """Returns AdamW's own decay, which its rate doesn't scale, and rate."""
        if self.spec.layout_of is not None:
            return decay, None
        own = self.hyperparameters["adam_weight_decay"]
        ratio = self.hyperparameters["adam_lr_ratio"]
        if is_known(ratio, 1):
            return own, None
        is_decoupled = self.hyperparameters["decoupled_weight_decay"]
        if not is_decoupled or own is None or is_known(own, 0):
            return own, ratio
        ratio = tf.maximum(arithmetic.float64(ratio), _LEAST_RATIO)
        return arithmetic.float64(own) / ratio, ratio
