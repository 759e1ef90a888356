"""Training as one differentiable function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tf_opt.python.functional import arithmetic, checks, rule_spec
from tf_opt.python.functional.checks import to_tensor
from tf_opt.python.functional.rules import RULES

# A rule's integers, by iteration. To ASGD, all steps are of the same batch.
_COUNTS = {"step": lambda iteration: iteration + 1, "seen_batches": lambda _: 1}
_STEPS = rule_spec.Number("steps", rule_spec.POSITIVE, is_static=True)


class UnrollResult(NamedTuple):
    """Result of a training.

    Attributes:
        variables: The trained variables.
        losses: The loss before each step, a vector.
        state: `iterations` and the rule's slots by name, to continue from.
    """

    variables: Any
    losses: tf.Tensor
    state: dict[str, Any]


def unroll(
    rule: Callable[..., tuple[Any, ...]],
    loss: Callable[[Any, tf.Tensor], tf.Tensor],
    variables: Any,
    steps: int,
    *,
    state: dict[str, Any] | None = None,
    transform_gradients: Callable[[Any], Any] = lambda x: x,
    while_loop: bool = True,
    **hyperparameters: Any,
) -> UnrollResult:
    """Trains for several steps, as a pure and differentiable function.

    Args:
        rule: A rule of `tf_opt.functional`, or a function with such arguments.
        loss: Returns a real scalar for variables and iteration (int64, from 0).
        variables: The initial values: tensors in any structure.
        steps: The number of steps, at least 1.
        state: The `state` of an earlier result, to continue; None to start.
        transform_gradients: A function that clips the gradients, for example.
        while_loop: False repeats the step's ops in a graph without a loop.
        **hyperparameters: The rule's other arguments. A number may be a scalar,
            a vector with one element per step, or a function of the iteration.
            `initial_accumulator_value` is a slot's first value, by default 0.

    Returns:
        An `UnrollResult`: the new `variables`, the `losses` and the `state`.

    Raises:
        ValueError: If an argument or the loss isn't as described.

    Example:

    >>> import tensorflow as tf
    >>> from tf_opt import functional as f
    >>> lr = tf.Variable(tf.fill([3], 0.25))
    >>> with tf.GradientTape() as tape:
    ...     end = f.unroll(f.asgd, lambda x, i: x * x, 8., 3, learning_rate=lr)
    >>> tape.gradient(end.variables, lr).numpy().tolist()
    [-4.0, -4.0, -4.0]
    """
    steps = _STEPS.check(steps)
    pack = functools.partial(tf.nest.pack_sequence_as, variables)

    def flatten(name: str, given: Any) -> list[tf.Tensor]:
        tf.nest.assert_same_structure(variables, given)
        # The copies are distinct, even if several variables are one tensor.
        return [tf.identity(to_tensor(name, x)) for x in tf.nest.flatten(given)]

    leaves = flatten("variables", variables)
    loss_dtype = arithmetic.widest_real(leaf.dtype for leaf in leaves)
    taken = inspect.getfullargspec(rule)
    spec = next((each for each in RULES if each.function is rule), None)
    if spec and hyperparameters.get(rule_spec.ROW_WISE):
        spec = spec.forms.get(rule_spec.ROW_WISE, spec)
    counts = {k: x for k, x in _COUNTS.items() if k in taken.kwonlyargs}
    spec_slots = spec.slots_of_forms if spec else ()
    first_of_slots = {
        slot.name: hyperparameters.pop(slot.first, 0)
        for slot in spec_slots
        if slot.first
    }
    given = {**counts, **(taken.kwonlydefaults or {}), **hyperparameters}
    numbers = {name: _by_step(value, steps) for name, value in given.items()}

    def first_value(name: str, leaf: tf.Tensor) -> tf.Tensor:
        shape = tf.shape(leaf)
        if name in {slot.name for slot in spec_slots}:
            own = spec.forms[spec.form_of(leaf)].slots
            slot = next((x for x in own if x.name == name), None)
            # Axes can be put together if their number is known.
            if leaf.shape.rank:
                shape = tf.unstack(shape)
            # Without elements where the leaf's form has none.
            shape = [0] if slot is None else slot.shape_of(shape)
        dtype = arithmetic.slot_dtype(leaf.dtype)
        value = arithmetic.as_slot(first_of_slots.get(name, 0), dtype)
        return tf.fill(shape, value)

    if state is None:
        names, first = taken.args[2:], {}
        if spec:
            rate = checks.real("learning_rate", numbers["learning_rate"](0, 0))
            first = {
                shared.name: arithmetic.float64(
                    rate if shared.first is None else shared.first
                )
                for shared in spec.shared
            }
            slots = (
                slot.name
                for slot in spec_slots
                if slot.is_needed(lambda name: hyperparameters.get(name, 0))
            )
            names = [*slots, *first]
        state = {
            k: pack([first.get(k, first_value(k, x)) for x in leaves])
            for k in names
        }
    state = {"iterations": 0, **state}
    start = checks.integer("iterations", state["iterations"])
    slots = {k: flatten(k, state[k]) for k in taken.args if k in state}

    def step(i, leaves, slots, losses):
        iteration = tf.cast(start, tf.int64) + tf.cast(i, tf.int64)
        with tf.GradientTape() as tape:
            tape.watch(leaves)
            value = to_tensor("loss", loss(pack(leaves), iteration))
        value.shape.assert_has_rank(0)
        gradients = tape.gradient(value, leaves)
        if all(gradient is None for gradient in gradients):
            raise ValueError("`loss` must depend on the `variables`")
        gradients = [
            tf.zeros_like(leaf) if each is None else tf.convert_to_tensor(each)
            for leaf, each in zip(leaves, gradients, strict=True)
        ]
        gradients = flatten("gradients", transform_gradients(pack(gradients)))
        now = {name: number(i, iteration) for name, number in numbers.items()}
        columns = zip(leaves, gradients, *slots.values(), strict=True)
        results = [
            rule(leaf, each, **dict(zip(slots, own, strict=True)), **now)
            for leaf, each, *own in columns
        ]
        results = [result._asdict() for result in results]
        kept = [name for name, x in results[0].items() if x is not None][1:]
        if {"iterations", *kept} != state.keys():
            raise ValueError(
                f"`state` must hold {kept}. Received: {list(state)}"
            )
        slots = {name: [each[name] for each in results] for name in kept}
        value = tf.cast(value, loss_dtype)
        losses = losses.write(i, value) if while_loop else [*losses, value]
        return i + 1, [each["variable"] for each in results], slots, losses

    losses = tf.TensorArray(loss_dtype, steps, element_shape=())
    loop = tf.constant(0), leaves, slots, losses if while_loop else []
    if while_loop:
        loop = tf.while_loop(
            lambda i, *_: i < steps, step, loop, maximum_iterations=steps
        )
    else:
        for _ in range(steps):
            loop = step(*loop)
    _, leaves, slots, losses = loop
    losses = losses.stack() if while_loop else tf.stack(losses)
    end = {name: pack(slot) for name, slot in slots.items()}
    end["iterations"] = tf.cast(start, tf.int64) + steps
    return UnrollResult(pack(leaves), losses, end)


def _by_step(value: Any, steps: int) -> Callable[..., Any]:
    """Returns a hyperparameter as a function of step index and iteration."""
    if callable(value):
        return lambda i, iteration: value(iteration)
    if isinstance(value, (list, tuple)):  # TensorFlow would convert to float32.
        value = tf.stack([arithmetic.float64(number) for number in value])
    if tf.TensorShape(getattr(value, "shape", ())).rank != 1:
        return lambda i, iteration: value
    vector = tf.convert_to_tensor(value)
    vector.shape.assert_is_compatible_with([steps])
    return lambda i, iteration: vector[i]
