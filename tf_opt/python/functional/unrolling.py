"""Several steps of a rule in a row, as one differentiable function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional import scalars
from tf_opt.python.functional.adam_rule import adam
from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.functional.asgd_rule import asgd
from tf_opt.python.functional.averaged_sgd_rule import averaged_sgd
from tf_opt.python.functional.nadam_rule import nadam
from tf_opt.python.functional.tensors import to_tensor

# A tensor, or lists, tuples and dictionaries of tensors, one in another.
Structure = Any

# One for all steps, one for each, or a function of the iteration.
Hyperparameter = Scalar | Sequence[Scalar] | Callable[[tf.Tensor], Scalar]

# What a loop hands from step to step: of each slot a list, one tensor for each
# variable; of what the variables share a scalar.
_State = dict[str, list[tf.Tensor] | tf.Tensor]


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


class _Kept(NamedTuple):
    """What a rule keeps, in the order in which it takes and returns that.

    Attributes:
        slots: What it keeps of each variable, zeros at first.
        shared: A scalar that the variables share, if there is one.
        first: What that is at first; None: the learning rate.
    """

    slots: tuple[str, ...]
    shared: str | None = None
    first: float | None = None


_KEPT = {
    adam: _Kept(("m", "v")),
    nadam: _Kept(("m", "v"), "momentum_product", 1.0),
    asgd: _Kept(("d", "y")),
    averaged_sgd: _Kept(("ax",), "eta"),
}


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
            differentiates them in forward mode (`tf.autodiff`) too, a loop only
            in reverse mode.
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
    kept = _kept_by(rule, amsgrad, batch_num)
    steps = scalars.fixed_integer("steps", steps)
    if steps < 1:
        raise ValueError(f"`steps` must be >= 1, got {steps}")
    while_loop = scalars.booleans(while_loop=while_loop)["while_loop"]
    numbers = _Hyperparameters(rule, hyperparameters, steps)
    first = [_to_variable(leaf) for leaf in tf.nest.flatten(variables)]
    if not first:
        raise ValueError(f"`variables` must hold a tensor, got {variables!r}")
    if state is None:
        first_state = _first_state(kept, first, batch_num, numbers)
    else:
        first_state = _given_state(kept, variables, first, batch_num, state)

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
            gradients = _flatten_like(
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
        leaves, state, losses = _loop(step, steps, first, first_state, dtype)
    else:
        leaves, state, losses = first, first_state, []
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
    step: Callable[..., tuple[list[tf.Tensor], _State, tf.Tensor]],
    steps: int,
    leaves: list[tf.Tensor],
    state: _State,
    dtype: tf.DType,
) -> tuple[list[tf.Tensor], _State, tf.Tensor]:
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


class _Hyperparameters:
    """Those of each step, checked as far as the rule doesn't."""

    def __init__(
        self,
        rule: Callable[..., tuple],
        given: Mapping[str, Hyperparameter | bool],
        steps: int,
    ) -> None:
        """Takes what the user gave, and the rule's defaults."""
        self._values = {
            name: parameter.default
            for name, parameter in inspect.signature(rule).parameters.items()
            if parameter.kind == inspect.Parameter.KEYWORD_ONLY
            and parameter.default is not inspect.Parameter.empty
        }
        for name, value in given.items():
            if name not in self._values:
                raise TypeError(
                    f"{rule.__name__} has no hyperparameter `{name}`; it has "
                    + ", ".join(self._values)
                )
            self._values[name] = self._checked(name, value, steps)

    @staticmethod
    def _checked(
        name: str, value: Hyperparameter | bool, steps: int
    ) -> float | bool | tf.Tensor | Callable[[tf.Tensor], Scalar]:
        if callable(value) or isinstance(value, (bool, np.bool_)):
            return value
        if isinstance(value, (list, tuple)):
            # Each by itself: TensorFlow makes float32 of a list of numbers.
            value = tf.stack(
                [arithmetic.float64(scalars.real(name, x)) for x in value]
            )
        number = scalars.real(name, value, may_be_vector=True)
        if tf.is_tensor(number) and not number.shape.is_compatible_with(
            [] if number.shape.rank == 0 else [steps]
        ):
            raise ValueError(
                f"`{name}` must be a scalar, a vector of one for each of the "
                f"{steps} steps, or a function of the iteration. Received "
                f"shape {number.shape}"
            )
        return number

    def at(self, i: int | tf.Tensor, iteration: tf.Tensor) -> dict[str, Scalar]:
        """Those of the i-th step here, which is that iteration of all."""

        def of_step(value: Any) -> Scalar:
            if callable(value):
                return value(iteration)
            is_vector = tf.is_tensor(value) and value.shape.rank == 1
            return value[i] if is_vector else value

        return {name: of_step(value) for name, value in self._values.items()}


def _kept_by(
    rule: Callable[..., tuple], amsgrad: bool, batch_num: int
) -> _Kept:
    # A rule is compared, not looked up: what it is may have no hash.
    kept = next((kept for known, kept in _KEPT.items() if known is rule), None)
    if kept is None:
        names = ", ".join(known.__name__ for known in _KEPT)
        raise ValueError(
            f"`rule` must be one of tf_opt.functional's {names}. Received: "
            f"{rule!r}"
        )
    amsgrad = scalars.booleans(amsgrad=amsgrad)["amsgrad"]
    batch_num = scalars.fixed_integer("batch_num", batch_num)
    if batch_num < 1:
        raise ValueError(f"`batch_num` must be >= 1, got {batch_num}")
    if amsgrad and rule is not adam:
        raise ValueError(f"`amsgrad` must be False for {rule.__name__}")
    if batch_num > 1 and rule is not asgd:
        raise ValueError(f"`batch_num` must be 1 for {rule.__name__}")
    return kept._replace(slots=(*kept.slots, "v_max")) if amsgrad else kept


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


def _flatten_like(
    variables: Structure, name: str, given: Structure
) -> list[Any]:
    try:
        tf.nest.assert_same_structure(variables, given)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must have the structure of `variables`. Received: {given}"
        ) from error
    return tf.nest.flatten(given)


def _first_state(
    kept: _Kept,
    variables: Sequence[tf.Tensor],
    batch_num: int,
    hyperparameters: _Hyperparameters,
) -> _State:
    zeros = [
        tf.zeros_like(variable, arithmetic.slot_dtype(variable.dtype))
        for variable in variables
    ]
    state: _State = {"iterations": tf.constant(0, tf.int64)}
    state.update((name, zeros) for name in kept.slots)
    if "y" in state:
        # A row for each batch.
        state["y"] = [tf.stack([zero] * batch_num) for zero in zeros]
    if kept.shared is not None:
        first = kept.first
        if first is None:
            now = hyperparameters.at(0, state["iterations"])
            first = scalars.real("learning_rate", now["learning_rate"])
        state[kept.shared] = arithmetic.float64(first)
    return state


def _given_state(
    kept: _Kept,
    structure: Structure,
    variables: Sequence[tf.Tensor],
    batch_num: int,
    given: Mapping[str, Structure],
) -> _State:
    """That of a user, checked as far as the rule doesn't."""
    shared = [] if kept.shared is None else [kept.shared]
    names = ["iterations", *kept.slots, *shared]
    if not isinstance(given, Mapping) or sorted(given) != sorted(names):
        received = list(given) if isinstance(given, Mapping) else repr(given)
        raise ValueError(
            f"`state` must hold {', '.join(names)}: what unroll returned for "
            f"this rule. Received: {received}"
        )
    state: _State = {}
    for name, value in given.items():
        where = f"state[{name!r}]"
        if name == "iterations":
            value = scalars.integer(where, value)
            state[name] = tf.convert_to_tensor(value, tf.int64)
        elif name in shared:
            state[name] = arithmetic.float64(scalars.real(where, value))
        else:
            leaves = _flatten_like(structure, f"`{where}`", value)
            state[name] = [
                to_tensor(where, leaf, arithmetic.slot_dtype(variable.dtype))
                for leaf, variable in zip(leaves, variables, strict=True)
            ]
    for table in state.get("y", ()):
        if not table.shape[:1].is_compatible_with([batch_num]):
            raise ValueError(
                f"`state['y']` must have `batch_num`, {batch_num}, rows. "
                f"Received shape {table.shape}"
            )
    return state


def _apply(
    rule: Callable[..., tuple],
    kept: _Kept,
    variables: Sequence[tf.Tensor],
    gradients: Sequence[tf.Tensor],
    state: _State,
    batch_num: int,
    hyperparameters: Mapping[str, Scalar],
) -> tuple[list[tf.Tensor], _State]:
    """One step of all variables: their new values, and the new state."""
    iteration = state["iterations"]
    count = {"step": iteration + 1}
    if rule is asgd:
        row = iteration % batch_num
        count = {"seen_batches": tf.minimum(iteration + 1, batch_num)}
    shared = [] if kept.shared is None else [state[kept.shared]]

    updated = []
    new_state: _State = {"iterations": iteration + 1}
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
