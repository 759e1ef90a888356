"""Rules as data: what checks, state and ops need to know of a rule's function.

The function itself has defaults and documentation, and calls `pure_step`.
`tf_opt/cc/rules/` has the same of the ops. When the library of custom ops is
loaded, the names are compared.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import tensorflow as tf

from tf_opt.python.functional import arithmetic, checks
from tf_opt.python.functional.arithmetic import Scalar, is_known
from tf_opt.python.functional.update import Formula, Update


class Range(NamedTuple):
    """Range of a number.

    Attributes:
        text: The range as an error names it.
        least: The least number, which is included.
        bound: The other bound.
        includes_bound: Whether the bound is included.
    """

    text: str
    least: float = -math.inf
    bound: float = math.inf
    includes_bound: bool = True

    def has(self, number: Scalar) -> Any:
        """Whether a number is in the range; `ANY` has NaNs, too."""
        if self == ANY:
            return True
        if isinstance(number, tf.Tensor):
            number = arithmetic.float64(number)
        compare = operator.le if self.includes_bound else operator.lt
        return (number >= self.least) & compare(number, self.bound)


ANY = Range("a number")
NON_NEGATIVE = Range(">= 0", 0)
GREATER_THAN_0 = Range("> 0", math.ulp(0.0))
NON_POSITIVE = Range("<= 0", bound=0)
POSITIVE = Range(">= 1", 1)
DECAY_RATE = Range("in [0, 1)", 0, 1, includes_bound=False)
FRACTION = Range("in [0, 1]", 0, 1)
FACTOR = Range("in (0, 1]", math.ulp(0.0), 1)


@dataclasses.dataclass(frozen=True)
class Slot:
    """State of a rule for each variable, of the variable's shape or by row.

    Attributes:
        name: The argument's name.
        keras_name: How the names of an optimizer's variables end; empty: with
            the name.
        keras_list: Keras' name for the list of these variables; empty: none.
        needed_by: For a slot that may be left out: the mode or number that
            needs it unless it is 0.
        exact: Whether it must have the arithmetic type.
        rounded_to_nearest: Whether 16-bit values are never rounded at random.
        layers: For a stack of layers, of which a step takes one: the
            optimizer's argument that is their number.
        layer_input: For a stack: the op's input with the layer's number.
        first: The hyperparameter that is its first value; empty: 0.
        starts_as_variable: Whether it is the variable until the first update:
            its average, or what its average is computed from. Only in a rule
            with `shared`.
        shape_of: Returns its shape, for a variable of this shape.
        stays: Whether it stays as it is where the gradient is 0.
        moves: Whether rows that coast move by it.
    """

    name: str
    keras_name: str = ""
    keras_list: str = ""
    needed_by: str | None = None
    exact: bool = False
    rounded_to_nearest: bool = False
    layers: str | None = None
    layer_input: str | None = None
    first: str = ""
    starts_as_variable: bool = False
    shape_of: Callable[[Any], Any] = lambda shape: shape
    stays: bool = False
    moves: bool = False

    def is_needed(self, value_of: Callable[[str], Any]) -> bool:
        """Whether there is such a slot, given the values of arguments."""
        return not (self.needed_by and is_known(value_of(self.needed_by), 0))


@dataclasses.dataclass(frozen=True)
class Number:
    """Number of a rule.

    Attributes:
        name: The argument's name.
        range: The range.
        is_count: Whether it is an integer that only the step knows.
        may_be_infinite: Whether an optimizer takes infinity for it.
        may_be_none: Whether it may be None, which turns something off.
        is_static: Whether it is a Python integer that chooses the computation.
        in_rule: Whether the functional rule takes it.
        in_op: Whether the op takes it.
    """

    name: str
    range: Range = ANY
    is_count: bool = False
    may_be_infinite: bool = False
    may_be_none: bool = False
    is_static: bool = False
    in_rule: bool = True
    in_op: bool = True

    def check(self, value: Any) -> float | int | tf.Tensor | None:
        """Converts and checks a user's number, except for a tensor's range."""
        if value is None and self.may_be_none:
            return None
        convert = checks.integer if self.is_count else checks.real
        if self.is_static:
            convert = checks.fixed_integer
        number = convert(self.name, value)
        # A tensor would have to be read first.
        if not isinstance(number, tf.Tensor):
            is_right = self.range.has(number)
            checks.require(is_right, self.name, number, self.range.text)
        return number


class Shared(NamedTuple):
    """Number that a step returns for the next one; all variables share it.

    Attributes:
        name: The argument's name, and that of the optimizer's variable.
        first: The first step's value; None: its learning rate.
        next: Returns the value after a step; takes the step's numbers by name.
            See `arithmetic.of_scalars`.
        dtype: Its type; None: the widest of the model variables.
        is_rate: Whether multipliers of the learning rate are also its own.
        in_keras: Whether Keras' optimizer has such a variable, if there is one.
    """

    name: str
    first: float | None
    next: Callable[..., float | tf.Tensor]
    dtype: tf.DType | None = None
    is_rate: bool = False
    in_keras: bool = True


STEP = Number("step", POSITIVE, is_count=True)
LEARNING_RATE = Number("learning_rate")
RHO = Number("rho", DECAY_RATE)
EPSILON = Number("epsilon", NON_NEGATIVE)
# Of Adam's family.
ADAM_NUMBERS = (
    STEP,
    LEARNING_RATE,
    Number("beta_1", DECAY_RATE),
    Number("beta_2", DECAY_RATE),
    EPSILON,
)
# A number that neither the functional rule nor the op takes.
of_optimizer = functools.partial(
    Number, range=NON_NEGATIVE, in_rule=False, in_op=False
)
INITIAL_ACCUMULATOR_VALUE = of_optimizer("initial_accumulator_value")
FIRST_MOMENT = Slot("m", "momentum", "_momentums", moves=True)
SECOND_MOMENT = Slot("v", "velocity", "_velocities")

# How a variable is updated: each element by itself, by row, or as a matrix.
Form = Literal["elementwise", "row_wise", "matrix"]
ELEMENTWISE: Form = "elementwise"
ROW_WISE: Form = "row_wise"
MATRIX: Form = "matrix"

# The modes of every rule.
COMMON_MODES = ("decoupled_weight_decay", "maximize")


@dataclasses.dataclass(frozen=True)
class RuleSpec:
    """What there is to know about a rule besides its function.

    Attributes:
        function: The function in `tf_opt.functional`.
        class_name: The optimizer.
        update: Takes a step's numbers, float64 scalars, and the rule's own
            modes, by name. Returns the `Formula`.
        numbers: Its numbers, in the op's order, the learning rate among them.
        slots: Its slots, in the op's order; those that may be left out come
            last, and only in a rule without `shared`.
        op: The op's name, after `TfOpt>ResourceApply`; empty: `class_name`.
            None: there is no op, and the composed implementation runs.
        modes: Its own boolean arguments, which choose the computation.
        shared: What a step returns for the next one.
        average_weight: The hyperparameter b, if the variable is b times its
            average plus 1 - b times the slot that starts as it. Otherwise that
            slot, if there is one, is the average.
        coasts: Whether rows of tables can catch up with the steps that they
            missed; see coasting.py.
        coasts_if_less: Two hyperparameters, of which the first must then be
            less than the second if there are no optional slots.
        other_forms: The rule in other forms than the elementwise one, if it has
            any.
        op_arguments: For an op of another optimizer: its arguments by name,
            each the name of one of this optimizer's or a constant mode.
        layout_of: For a rule that updates matrices of one shape together, as
            the last two axes of a stack: returns what of a shape chooses the
            computation. `bind` takes that as `layout`, or finds it itself.
    """

    function: Callable[..., tuple]
    class_name: str
    update: Callable[..., Formula]
    numbers: Sequence[Number]
    slots: Sequence[Slot]
    op: str | None = ""
    modes: Sequence[str] = ()
    shared: Sequence[Shared] = ()
    average_weight: str = ""
    coasts: bool = False
    coasts_if_less: tuple[str, str] | None = None
    other_forms: Mapping[Form, RuleSpec] = dataclasses.field(
        default_factory=dict
    )
    op_arguments: Mapping[str, str | bool] = dataclasses.field(
        default_factory=dict
    )
    layout_of: Callable[[tf.TensorShape], Any] | None = None

    def __post_init__(self) -> None:
        if self.average is not None and not self.shared:
            raise ValueError(
                f"{self.class_name}: a slot that starts as the variable must "
                "belong to a rule with `shared`, which begins for all variables"
            )
        optional = [slot.needed_by is not None for slot in self.slots]
        if optional != sorted(optional) or (any(optional) and self.shared):
            raise ValueError(
                f"{self.class_name}: slots that may be left out must come "
                "last, in a rule without `shared`"
            )

    @functools.cached_property
    def op_name(self) -> str | None:
        """Name of the op for dense gradients, as it is registered, if any."""
        if self.op is None:
            return None
        return f"TfOpt>ResourceApply{self.op or self.class_name}"

    @functools.cached_property
    def hyperparameters(self) -> tuple[Number, ...]:
        """Numbers that an optimizer keeps, besides the learning rate."""
        return tuple(
            number
            for number in self.numbers
            if not number.is_count and number.name != "learning_rate"
        )

    @functools.cached_property
    def beside_op(self) -> tuple[Number, ...]:
        """Numbers that the op doesn't take, so doesn't check."""
        return tuple(x for x in self.numbers if not x.in_op)

    @functools.cached_property
    def arguments(self) -> tuple[str, ...]:
        """The numbers and modes that an optimizer keeps for its steps."""
        numbers = (number.name for number in self.hyperparameters)
        return (*numbers, *self.all_modes)

    @functools.cached_property
    def average(self) -> int | None:
        """The position of the slot that starts as the variable, if any."""
        starts = [slot.starts_as_variable for slot in self.slots]
        return starts.index(True) if any(starts) else None

    @functools.cached_property
    def optional_slots(self) -> tuple[Slot, ...]:
        """The slots that may be left out."""
        return tuple(slot for slot in self.slots if slot.needed_by)

    @functools.cached_property
    def all_modes(self) -> tuple[str, ...]:
        """The modes of every rule, then its own."""
        return (*COMMON_MODES, *self.modes)

    @functools.cached_property
    def bound(self) -> tuple[str, ...]:
        """Names of the arguments of `bind`."""
        return (
            *(number.name for number in self.numbers if number.in_rule),
            *(shared.name for shared in self.shared),
            *self.all_modes,
        )

    @functools.cached_property
    def forms(self) -> Mapping[Form, RuleSpec]:
        """The rule in each form that it has."""
        return {ELEMENTWISE: self, **self.other_forms}

    def form_of(self, x: Any) -> Form:
        """Returns the form for a tensor or variable, unless it is row-wise."""
        is_matrix = MATRIX in self.forms and arithmetic.may_be_matrix(x)
        return MATRIX if is_matrix else ELEMENTWISE

    @functools.cached_property
    def slots_of_forms(self) -> tuple[Slot, ...]:
        """The slots that the rule has in any form, one of each name."""
        own = {x.name: x for form in self.forms.values() for x in form.slots}
        return tuple((own | {x.name: x for x in self.slots}).values())

    def with_slots(self, present: Callable[[Slot], bool]) -> RuleSpec:
        """Returns the rule with only the slots that there are."""
        slots = tuple(filter(present, self.slots))
        if slots not in self._variants:
            # One for all optimizers, which share the functions of `bind`.
            self._variants[slots] = dataclasses.replace(self, slots=slots)
        return self._variants[slots]

    @functools.cached_property
    def _variants(self) -> dict[tuple[Slot, ...], RuleSpec]:
        return {}

    @functools.cached_property
    def bind(self) -> Callable[..., Update]:
        """Function of numbers of any kind and of all modes, by name."""
        slots = tuple(slot.name for slot in self.slots)

        def bind(
            *, decoupled_weight_decay: bool, maximize: bool, **own: Any
        ) -> Update:
            numbers = {
                name: arithmetic.float64(x)
                for name, x in own.items()
                if not (x is None or name in self.static)
            }
            return Update(
                self.update(**{**own, **numbers}),
                numbers,
                slots,
                decoupled_weight_decay,
                maximize,
            )

        return bind

    @functools.cached_property
    def static(self) -> frozenset[str]:
        """The arguments of `bind` that choose the computation.

        None does so, too, for any argument.
        """
        numbers = (x.name for x in self.numbers if x.is_static)
        return frozenset((*numbers, *self.all_modes, "layout"))

    @property
    def rests(self) -> bool:
        """Whether nothing but decay changes what has a gradient of 0."""
        return all(slot.stays for slot in self.slots)

    @property
    def waits_in_place(self) -> bool:
        """Whether a row that coasts stays, perhaps with other state."""
        return self.coasts and not any(slot.moves for slot in self.slots)

    def check_coasts(
        self, hyperparameters: Mapping[str, Any], weight_decay: Any
    ) -> None:
        """Raises a ValueError if rows can't catch up with missed steps."""
        mode = "`lazy_mode='catch_up'` isn't available"
        if not self.coasts:
            raise ValueError(
                f"{mode} for {self.class_name}, whose missed steps can't be "
                "made up in one. Use True or False"
            )
        if "weight_decay" in self.op_arguments:
            weight_decay = hyperparameters[self.op_arguments["weight_decay"]]
        l2 = not hyperparameters["decoupled_weight_decay"]
        if l2 and not (weight_decay is None or is_known(weight_decay, 0)):
            raise ValueError(
                f"{mode} with L2 decay, whose missed steps can't be made up in "
                "one. Leave out `weight_decay` or use "
                "`decoupled_weight_decay=True`. Received: "
                f"weight_decay={weight_decay}, decoupled_weight_decay=False"
            )
        if self.coasts_if_less and not self.optional_slots:
            less, more = self.coasts_if_less
            values = hyperparameters[less], hyperparameters[more]
            if (
                not isinstance(values[0] < values[1], tf.Tensor)
                and values[0] >= values[1]
            ):
                raise ValueError(
                    f"{mode} unless `{less}` is less than `{more}`, because "
                    "missed steps would grow. Received: "
                    f"{less}={values[0]}, {more}={values[1]}"
                )
