"""Base class of the Adam family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer
from tf_opt.python.optimizers.state.optimizer_state import PerVariable
from tf_opt.python.optimizers.values import validation


class MomentsOptimizer(FusedOptimizer):
    """Base class: keeps the first and second moment of every gradient."""

    def __init__(
        self,
        *,
        beta_1: float,
        beta_2: float,
        epsilon: float,
        **common_arguments: Any,
    ) -> None:
        validation.check_in_unit_interval("beta_1", beta_1)
        validation.check_in_unit_interval("beta_2", beta_2)
        validation.check_not_negative("epsilon", epsilon)
        super().__init__(**common_arguments)
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon

    def _add_state(self, variables: Sequence[keras.Variable]) -> None:
        self._momentums, self._velocities = self._add_slots(
            variables, ["momentum", "velocity"]
        )

    def _slots(self) -> list[PerVariable]:
        return [self._momentums, self._velocities]

    def _hyperparameters(self) -> dict[str, Any]:
        return {
            **super()._hyperparameters(),
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
        }

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, serializable."""
        config = super().get_config()
        config.update(
            {
                "beta_1": self.beta_1,
                "beta_2": self.beta_2,
                "epsilon": self.epsilon,
            }
        )
        return config
