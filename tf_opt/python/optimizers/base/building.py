"""Creates the variables of an optimizer's state.

Order and names are as in Keras.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_opt.python import keras_internals
from tf_opt.python.functional import arithmetic, coasting
from tf_opt.python.functional.rule_spec import (
    ELEMENTWISE,
    MATRIX,
    ROW_WISE,
    Form,
    RuleSpec,
    Shared,
    Slot,
)
from tf_opt.python.keras_internals import Optimizer, Variable, path_of
from tf_opt.python.optimizers.state import storage, table_modes
from tf_opt.python.optimizers.state.optimizer_state import PerVariable
from tf_opt.python.optimizers.state.placement import placement_of

Variables = Sequence[keras.Variable]
# Options that complex variables can't have.
_ONLY_REAL = ("use_ema", "gradient_accumulation_steps", "state_dtype")


class StateBuilder:
    """Adds variables to those of an optimizer, where its state is to live."""

    def __init__(
        self, optimizer: Optimizer, spec: RuleSpec, variables: Variables
    ) -> None:
        """Takes an optimizer, its rule and the model variables; checks them."""
        self._optimizer = optimizer
        self._variables = variables
        self._full_spec = spec
        self.spec = self.needed_spec()
        self._check()
        self._placement = placement_of(optimizer, variables)

    def needed_spec(self) -> RuleSpec:
        """Returns the rule with the slots that the options need now."""
        value_of = functools.partial(getattr, self._optimizer)
        return self._full_spec.with_slots(lambda x: x.is_needed(value_of))

    def _check(self) -> None:
        optimizer = self._optimizer
        has_state = (
            self.spec.slots
            or optimizer.use_ema
            or optimizer.gradient_accumulation_steps
            or optimizer.master_weights
        )
        for variable in self._variables:
            shape = tf.TensorShape(variable.shape)
            if has_state and not shape.is_fully_defined():
                raise ValueError(
                    f"`{path_of(variable)}` must have a fully defined shape, "
                    "because the optimizer's state has the same shape. "
                    f"Received: shape={shape}"
                )
            if not tf.dtypes.as_dtype(variable.dtype).is_complex:
                continue
            for name in _ONLY_REAL:
                if value := getattr(optimizer, name):
                    raise ValueError(
                        f"`{name}` is not available for complex variables. "
                        f"Received: {name}={value!r}, and "
                        f"`{path_of(variable)}` of {variable.dtype}"
                    )

    def add(
        self,
        variable: Variable,
        name: str,
        *,
        shape: Sequence[int] | None = None,
        dtype: tf.DType | None = None,
        initializer: Any = "zeros",
    ) -> keras.Variable:
        """Adds a variable where a model variable's state lives.

        Its name ends with `name`. By default it has the shape of the model
        variable and its arithmetic type.
        """
        dtype = dtype or arithmetic.slot_dtype(variable.dtype)
        prefix = path_of(variable).replace("/", "_").replace(":", "_")
        with self._placement.beside(keras_internals.tf_variable(variable)):
            return self._optimizer.add_variable(
                shape=tuple(variable.shape if shape is None else shape),
                initializer=initializer,
                dtype=dtype.name,
                name=f"{prefix}_{name}",
            )

    def forms(
        self,
        row_wise: Sequence[bool],
        input_axes: Sequence[int],
        catch_up: Sequence[bool],
    ) -> tuple[Form, ...]:
        """Returns the form of the rule that updates each variable."""
        if MATRIX not in self.spec.forms:
            return tuple(ROW_WISE if x else ELEMENTWISE for x in row_wise)
        forms = tuple(map(self.spec.form_of, self._variables))
        if input_axes:
            forms = tuple(MATRIX if x else ELEMENTWISE for x in input_axes)
        for x, form, waits in zip(
            self._variables, forms, catch_up, strict=True
        ):
            if form == MATRIX and waits:
                raise ValueError(
                    "`lazy_mode='catch_up'` isn't available for "
                    f"`{path_of(x)}`, which is updated as a matrix. Received: "
                    f"lazy_mode={self._optimizer.lazy_mode!r}"
                )
        return forms

    def slots(self, forms: Sequence[Form]) -> dict[str, PerVariable]:
        """Adds the rule's slots; see `OptimizerState.built_slots`."""
        slots = self.spec.slots_of_forms
        added: dict[str, list[keras.Variable | None]] = {
            slot.name: [None] * len(forms) for slot in slots
        }
        # As in Keras, all that are required come before the optional ones.
        required = [x.name for x in slots if not x.needed_by]
        for group in (required, *([x.name] for x in slots if x.needed_by)):
            for i, form in enumerate(forms):
                for slot in self.spec.forms[form].slots:
                    if slot.name in group:
                        new = self._slot(self._variables[i], slot)
                        added[slot.name][i] = new
        return added

    def _slot(
        self, variable: keras.Variable, slot: Slot
    ) -> keras.Variable | None:
        # Keras overwrites such a variable with its gradient.
        if keras_internals.is_overwritten_by_gradient(variable):
            return None
        optimizer = self._optimizer
        shape = slot.shape_of(tuple(variable.shape))
        if slot.layers:
            shape = (getattr(optimizer, slot.layers), *shape)
        dtype = storage.state_dtype_of(
            variable, None if slot.exact else optimizer.state_dtype
        )
        # A traced step may create a variable, which has no value then.
        starts = (
            slot.starts_as_variable
            and tf.executing_eagerly()
            and keras_internals.tf_variable(variable).is_initialized()
        )

        def first(shape: Sequence[int], dtype: Any) -> tf.Tensor:
            dtype = tf.dtypes.as_dtype(dtype)
            if starts:
                return tf.cast(tf.convert_to_tensor(variable), dtype)
            # Keras' `Constant` would round to float32.
            value = getattr(optimizer, slot.first)
            return tf.fill(shape, arithmetic.as_slot(value, dtype))

        add = functools.partial(self.add, shape=shape, dtype=dtype)
        usual = tuple(variable.shape), arithmetic.slot_dtype(variable.dtype)
        if (shape, dtype) == usual:
            # A subclass may override this method, as in Keras.
            add = optimizer.add_variable_from_reference
        return add(
            variable,
            name=slot.keras_name or slot.name,
            initializer=first if slot.first or starts else "zeros",
        )

    def shared(self, shared: Shared) -> keras.Variable:
        """Adds a variable that all model variables share."""
        dtype = shared.dtype or arithmetic.widest_real(
            variable.dtype for variable in self._variables
        )
        return self._optimizer.add_variable(
            (),
            initializer=keras.initializers.Constant(shared.first or 0),
            dtype=dtype.name,
            name=shared.name,
        )

    def masters(self) -> list[keras.Variable | None]:
        """Adds the master weights.

        They are zeros until the first step: it finds that they don't round to
        the variables, and takes those. Keras may build an optimizer before the
        variables have values, where a traced step builds the model.
        """
        return [
            self.add(x, "master_weight", dtype=tf.float32)
            if storage.has_master(x)
            else None
            for x in self._variables
        ]

    def waiting_rows(
        self, catch_up: Sequence[bool]
    ) -> tuple[PerVariable, PerVariable]:
        """Adds `since` and `coasting`, empty if no table catches up."""
        if not any(catch_up):
            return (), ()
        since: list[keras.Variable | None] = [None] * len(catch_up)
        coasts: list[keras.Variable | None] = [None] * len(catch_up)
        entries = (table_modes.MOST_MISSED_STEPS, coasting.COLUMNS)
        for i, x in enumerate(self._variables):
            if catch_up[i]:
                rows = x.shape[:1]
                # TensorFlow can't scatter int32 on GPUs.
                since[i] = self.add(x, "since", shape=rows, dtype=tf.float32)
                coasts[i] = self.add(
                    x, "coasting", shape=entries, dtype=tf.float64
                )
        return since, coasts

    def working_copies(self) -> list[tf.Variable | None]:
        """Creates the working copies; see `OptimizerState`."""
        copies = [
            None
            if keras_internals.is_overwritten_by_gradient(x)
            else self._placement.working_copy(keras_internals.tf_variable(x))
            for x in self._variables
        ]
        if all(x is None for x in copies):
            # Steps update the variables themselves.
            return []
        keras_internals.take_for(self._optimizer, copies, self._variables)
        return copies
