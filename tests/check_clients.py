"""Every client trains with tf_opt's optimizer as with Keras'.

`make test-clients` runs this, since it needs requirements/clients.txt and
minutes.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import clients


class Enough(Exception):
    """Ends a training."""


def losses(name: str, contender: str) -> list[float]:
    """The losses before, between and after two steps."""
    found = []

    def make() -> keras.optimizers.Optimizer:
        optimizer = clients.make_optimizer(clients.CLIENTS[name], contender)()
        apply = optimizer.apply

        def apply_dense(gradients: list, *variables: Any) -> None:
            # Keras squares repeated rows one by one, tf_opt squares their sum.
            apply(list(map(tf.convert_to_tensor, gradients)), *variables)

        if contender == "Keras":
            optimizer.apply = apply_dense
        return optimizer

    def done(loss: Any) -> None:
        found.append(float(loss))
        if len(found) == 3:
            raise Enough

    keras.utils.set_random_seed(1)
    with pytest.raises(Enough):
        clients.CLIENTS[name].make(make, done)()
    return found


@pytest.mark.parametrize(
    "name",
    # Keras has no row-wise state.
    [k for k, x in clients.CLIENTS.items() if "row_wise" not in x.options],
)
def test_losses_are_those_with_keras_optimizer(name: str) -> None:
    # Rows of lazy tables miss the second step.
    compared = 2 if clients.CLIENTS[name].options else 3
    ours = losses(name, "tf_opt")[:compared]
    assert len(set(ours)) == compared
    np.testing.assert_allclose(
        ours, losses(name, "Keras")[:compared], rtol=1e-5
    )
