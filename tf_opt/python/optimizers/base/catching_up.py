"""Rows of lazy tables that catch up with the steps that they missed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_opt.python.keras_internals import Variable
from tf_opt.python.keras_internals import is_saving_model
from tf_opt.python.keras_internals import tf_variable
from tf_opt.python.optimizers.base.averages import AveragedOptimizer
from tf_opt.python.optimizers.step import replicas
from tf_opt.python.optimizers.step.catch_up import catch_up
from tf_opt.python.optimizers.step.settings import Settings
from tf_opt.python.optimizers.step.transfer import Transfer
from tf_opt.python.optimizers.step.transfer import once_where_state_is
from tf_opt.python.optimizers.step.update_rule import UpdateRule
from tf_opt.python.optimizers.values import gradients
from tf_opt.python.optimizers.values import validation


class CatchingUpOptimizer(AveragedOptimizer):
    """Base class: lets users bring rows up to date."""

    _is_copied = False

    def _rule(self) -> UpdateRule:
        """Returns the rule with the hyperparameters of the next step."""
        raise NotImplementedError

    def _settings(self) -> Settings:
        """Returns the options of the next step."""
        raise NotImplementedError

    def _check_coasts(self) -> None:
        self._spec.check_coasts(
            self._hyperparameters(), len(self._state.slots), self.weight_decay
        )

    def catch_up(
        self,
        variables: Variable | Sequence[Variable] | None = None,
        rows: Any = None,
    ) -> None:
        """Lets rows of tables catch up with the steps that they missed.

        This is for tables with `lazy_mode="catch_up"`; the rows of other tables
        have nothing to catch up with. Rows that are read after it have the
        values of exact training. A step does it for the rows that it updates.
        `fit` does it for all rows at its end, as does `model.save` for the
        `.keras` format. Before the optimizer is built it does nothing, also
        later in a function that was traced before.

        Args:
            variables: A table or a list of tables; by default all tables that
                catch up.
            rows: The indices of rows, in tensors of integers of any shape
                (`tf.RaggedTensor` and `tf.SparseTensor`, too): a list with one
                for each of `variables`, or one for a single table. By default
                all rows. In replicas, those of all replicas.

        Raises:
            ValueError: If the optimizer was built without a variable, or `rows`
                aren't integers or don't fit `variables`.
            TypeError: If `variables` contains anything but variables.
            tf.errors.InvalidArgumentError: If a table doesn't have a row.
        """
        if variables is None and rows is not None:
            raise ValueError(
                "`rows` needs `variables`, the tables that they are of. "
                "Received: variables=None"
            )
        if variables is not None and not isinstance(variables, (list, tuple)):
            variables, rows = [variables], None if rows is None else [rows]
        state = self._state
        if state is None:
            return
        if variables is None:
            variables = state.variables
        validation.check_variables(variables, "variables")
        indices = list(map(self._position_of, variables))
        waiting = [k for k, i in enumerate(indices) if state.waits(i)]
        if rows is not None:
            if not isinstance(rows, (list, tuple)) or len(rows) != len(
                variables
            ):
                raise ValueError(
                    "`rows` must be a list with one tensor for each of the "
                    f"{len(variables)} `variables`. Received: {rows!r}"
                )
            rows = [
                validation.as_rows(f"rows[{k}]", rows[k], variables[k])
                for k in waiting
            ]
        if not waiting:
            return
        self._check_coasts()
        tables = [variables[k] for k in waiting]
        if rows is not None:
            # Replicas must write the same.
            rows = replicas.gather_rows(rows)

        def run() -> None:
            step = (self._rule(), self._settings(), state, tables, rows)
            with Transfer.of_rows(state, tables, rows).around():
                catch_up(*step)

        once_where_state_is(state, run)

    def _position_of(self, variable: Variable) -> int:
        """Returns a variable's position in the list of `build`."""
        for i, own in enumerate(self._state.variables):
            if tf_variable(own) is tf_variable(variable):
                return i
        raise ValueError(
            "`variables` must be variables that the optimizer was built with. "
            f"Received: `{gradients.path_of(variable)}`"
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, serializable."""
        # Keras has no other hook before it saves a model's variables.
        if is_saving_model() and not self._is_copied:
            self._bring_up_to_date()
        return super().get_config()

    def __reduce__(self) -> Any:
        # Keras saves what it copies or pickles. That must not change the model.
        object.__setattr__(self, "_is_copied", True)
        try:
            return super().__reduce__()
        finally:
            object.__setattr__(self, "_is_copied", False)

    def _bring_up_to_date(self) -> None:
        """Lets all rows catch up, if that is possible now."""
        if (
            self._state is not None
            and self._state.since
            and tf.executing_eagerly()
        ):
            self.catch_up()

    def finalize_variable_values(self, var_list: Sequence[Variable]) -> None:
        """Lets all rows catch up; Keras calls this at the end of `fit`.

        Args:
            var_list: The model's trainable variables.
        """
        self._bring_up_to_date()
        super().finalize_variable_values(var_list)
