"""Several steps of a rule in a row, as one differentiable function."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional import scalars
from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.functional.asgd_rule import asgd
from tf_opt.python.functional.tensors import to_tensor
from tf_opt.python.functional.unrolled_hyperparameters import Hyperparameter
from tf_opt.python.functional.unrolled_hyperparameters import Hyperparameters
from tf_opt.python.functional.unrolled_state import Kept
from tf_opt.python.functional.unrolled_state import State
from tf_opt.python.functional.unrolled_state import Structure
from tf_opt.python.functional.unrolled_state import first_state
from tf_opt.python.functional.unrolled_state import flatten_like
from tf_opt.python.functional.unrolled_state import given_state
from tf_opt.python.functional.unrolled_state import kept_by


class UnrollResult(NamedTuple):
    """What `unroll` returns.

    Attributes:
        variables: The updated variables, in their structure.
        losses: The loss before each step, a vector in float32, or in float64 if
            a variable is of float64 or complex128.
        state: What the steps after these need: `iterations`, how many there
            were, the slots by name, each in the variables' structure, and the
            scalar that the variables share, if the rule has one.
    """

    variables: Structure
    losses: tf.Tensor
    state: dict[str, Structure]


def unroll(
    rule: Callable[..., tuple],
    loss: Callable[[Structure, tf.Tensor], tf.Tensor],
    variables: Structure,
    steps: int,
    *,
    state: Mapping[str, Structure] | None = None,
    transform_gradients: Callable[[Structure], Structure] | None = None,
    amsgrad: bool = False,
    batch_num: int = 1,
    while_loop: bool = True,
    **hyperparameters: Hyperparameter | bool,
) -> UnrollResult:
    """Trains for some steps; assigns nothing, and is differentiable.

    Each step takes the loss's gradient and applies the rule to it. What comes
    out can be differentiated with respect to the first values of the variables,
    to the hyperparameters, and to whatever else the loss is computed from: by a
    `tf.GradientTape` around the call, and again by one around that.

    In eager mode a step runs after the other. In a `tf.function`, compiled by
    XLA or not, they are a `tf.while_loop`: one step is traced, however many
    there are. For the gradient all that each step computed is kept in memory.

    Args:
        rule: `tf_opt.functional.adam`, `nadam`, `asgd` or `averaged_sgd`.
        loss: A function of the variables, in their structure, and the
            iteration, an int64 scalar that counts from 0 as Keras does. Returns
            a real scalar. (In a `tf.function`, one with Python's `if` or `for`
            over tensors has to be a `tf.function` itself.)
        variables: What is trained, as it is at first: a floating point or
            complex tensor, or lists, tuples and dictionaries of such. Of a
            variable the value is read.
        steps: How many steps there are, >= 1.
        state: The `state` that another call returned, to go on from there; None
            to begin. Two calls then do what one does with the steps of both.
        transform_gradients: A function of the gradients, in the structure of
            the variables, that returns what the rule takes instead: clipped,
            say. With `tf.stop_gradient` of each the derivatives are of first
            order (as in first-order MAML). None: the gradients themselves.
        amsgrad: Of `adam` only: whether it keeps the maximum of `v`.
        batch_num: Of `asgd` only: how many batches there are; iteration i is on
            batch i modulo that. With 1 it is gradient descent.
        while_loop: Whether in a `tf.function` the steps are such a loop or, if
            False, copies of a step. These take longer to trace, and TensorFlow
            differentiates them in forward mode (`tf.autodiff`) to any order,
            also under XLA, a loop only to the first and without.
        **hyperparameters: What else the rule takes: `learning_rate`,
            `weight_decay`, `maximize` and so on. A number may be a scalar, a
            vector of one for each of these steps, or a function of the
            iteration, as Keras' schedules are.

    Returns:
        An `UnrollResult`: the new `variables`, the `losses` and the `state`.

    Raises:
        TypeError: If the rule has no such hyperparameter.
        ValueError: If an argument isn't as described, or the loss depends on
            none of the variables. (If it doesn't on one, its gradient is zero.)
            The error names the argument.

    Example:

    >>> import tensorflow as tf, tf_opt
    >>> rates = tf.fill([3], 0.5)
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(rates)
    ...     end = tf_opt.functional.unroll(
    ...         tf_opt.functional.asgd, lambda x, iteration: x**2 / 2,
    ...         tf.constant(8.0), steps=3, learning_rate=rates)
    >>> end.losses.numpy().tolist(), float(end.variables)
    ([32.0, 8.0, 2.0], 1.0)
    >>> tape.gradient(end.variables, rates).numpy().tolist()
    [-2.0, -2.0, -2.0]
    """
    kept = kept_by(rule, amsgrad, batch_num)
    steps = scalars.fixed_integer("steps", steps)
    if steps < 1:
        raise ValueError(f"`steps` must be >= 1, got {steps}")
    while_loop = scalars.booleans(while_loop=while_loop)["while_loop"]
    numbers = Hyperparameters(rule, hyperparameters, steps)
    first = [_to_variable(leaf) for leaf in tf.nest.flatten(variables)]
    if not first:
        raise ValueError(f"`variables` must hold a tensor, got {variables!r}")
    if state is None:
        at_first = first_state(kept, first, batch_num, numbers)
    else:
        at_first = given_state(kept, variables, first, batch_num, state)

    def in_structure(leaves: Sequence[tf.Tensor]) -> Structure:
        return tf.nest.pack_sequence_as(variables, leaves)

    dtype = arithmetic.widest_real(leaf.dtype for leaf in first)

    def step(i, leaves, state):
        iteration = state["iterations"]
        with tf.GradientTape() as tape:
            tape.watch(leaves)
            value = _to_loss(loss(in_structure(leaves), iteration))
        gradients = _connected(tape.gradient(value, leaves), leaves)
        if transform_gradients is not None:
            transformed = transform_gradients(in_structure(gradients))
            gradients = flatten_like(
                variables, "What `transform_gradients` returns", transformed
            )
        leaves, state = _apply(
            rule,
            kept,
            leaves,
            gradients,
            state,
            batch_num,
            numbers.at(i, iteration),
        )
        return leaves, state, tf.cast(value, dtype)

    if while_loop and not tf.executing_eagerly():
        leaves, state, losses = _loop(step, steps, first, at_first, dtype)
    else:
        leaves, state, losses = first, at_first, []
        for i in range(steps):
            leaves, state, value = step(i, leaves, state)
            losses.append(value)
        losses = tf.stack(losses)
    return UnrollResult(
        in_structure(leaves),
        losses,
        {
            name: in_structure(value) if name in kept.slots else value
            for name, value in state.items()
        },
    )


def _loop(
    step: Callable[..., tuple[list[tf.Tensor], State, tf.Tensor]],
    steps: int,
    leaves: list[tf.Tensor],
    state: State,
    dtype: tf.DType,
) -> tuple[list[tf.Tensor], State, tf.Tensor]:
    """The steps as one loop; the losses are of that type."""

    def body(i, leaves, state, losses):
        leaves, state, value = step(i, leaves, state)
        return i + 1, leaves, state, losses.write(i, value)

    losses = tf.TensorArray(dtype, steps, element_shape=())
    _, leaves, state, losses = tf.while_loop(
        lambda i, *_: i < steps,
        body,
        (tf.constant(0), leaves, state, losses),
        # XLA can't differentiate a loop whose length it doesn't know.
        maximum_iterations=steps,
    )
    return leaves, state, losses.stack()


def _to_variable(leaf: Any) -> tf.Tensor:
    tensor = to_tensor("variables", leaf)
    if not (tensor.dtype.is_floating or tensor.dtype.is_complex):
        raise ValueError(
            "`variables` must be floating point or complex. Received: "
            f"{tensor.dtype.name}"
        )
    # One tensor may be given for several variables, each with a gradient.
    return tf.identity(tensor)


def _to_loss(value: Any) -> tf.Tensor:
    value = to_tensor("loss", value)
    if value.shape.rank not in (0, None) or not value.dtype.is_floating:
        raise ValueError(
            "`loss` must return a real scalar. Received: shape "
            f"{value.shape}, {value.dtype.name}"
        )
    return value


def _connected(
    gradients: Sequence[tf.Tensor | tf.IndexedSlices | None],
    variables: Sequence[tf.Tensor],
) -> list[tf.Tensor]:
    """Dense gradients; zero where the loss doesn't depend on the variable."""
    if all(gradient is None for gradient in gradients):
        raise ValueError("`loss` must depend on the `variables` it is given")
    return [
        tf.zeros_like(variable)
        if gradient is None
        else tf.convert_to_tensor(gradient)
        for gradient, variable in zip(gradients, variables, strict=True)
    ]


def _apply(
    rule: Callable[..., tuple],
    kept: Kept,
    variables: Sequence[tf.Tensor],
    gradients: Sequence[tf.Tensor],
    state: State,
    batch_num: int,
    hyperparameters: Mapping[str, Scalar],
) -> tuple[list[tf.Tensor], State]:
    """One step of all variables: their new values, and the new state."""
    iteration = state["iterations"]
    count = {"step": iteration + 1}
    if rule is asgd:
        row = iteration % batch_num
        count = {"seen_batches": tf.minimum(iteration + 1, batch_num)}
    shared = [] if kept.shared is None else [state[kept.shared]]

    updated = []
    new_state: State = {"iterations": iteration + 1}
    new_state.update((name, []) for name in kept.slots)
    for i, (variable, gradient) in enumerate(
        zip(variables, gradients, strict=True)
    ):
        slots = {name: state[name][i] for name in kept.slots}
        if rule is asgd:
            table, slots["y"] = slots["y"], slots["y"][row]
        result = rule(
            variable,
            gradient,
            *slots.values(),
            *shared,
            **count,
            **hyperparameters,
        )._asdict()
        if rule is asgd:
            # Not a scatter, which TensorFlow can't differentiate forward.
            is_row = tf.equal(tf.range(batch_num, dtype=row.dtype), row)
            ones = tf.ones_like(tf.shape(variable))
            is_row = tf.reshape(is_row, tf.concat([[-1], ones], 0))
            result["y"] = tf.where(is_row, result["y"], table)
        updated.append(result["variable"])
        for name in kept.slots:
            new_state[name].append(result[name])
        if kept.shared is not None:
            # The same of each variable.
            new_state[kept.shared] = result[kept.shared]
    return updated, new_state
