"""Sparse gradients on a device whose kernels are for dense ones only: a GPU.

With the emulated kernels, or on a GPU, that is how it is. Elsewhere the kernels
for sparse gradients are hidden.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt
from tf_opt.python import tensorflow_internals

from devices import EMULATED_GPU
from small_model import assert_close
from trajectory import RUNS

pytestmark = pytest.mark.kernels

SPARSE_OP = "TfOpt>ResourceSparseApplyAdamAmsgrad"


@pytest.fixture(autouse=True)
def hidden_kernels(monkeypatch, device):
    """Hides what a GPU doesn't have, where that is there."""
    if EMULATED_GPU or device.startswith("GPU"):
        return
    registered = tensorflow_internals.registered_kernels
    monkeypatch.setattr(
        tensorflow_internals,
        "registered_kernels",
        lambda op: frozenset() if "Sparse" in op else registered(op),
    )


def _slices(*rows: int, seed: int = 0) -> tf.IndexedSlices:
    values = np.random.default_rng(seed).normal(size=(len(rows), 3))
    return tf.IndexedSlices(
        tf.constant(values, "float32"), tf.constant(rows), tf.constant([10, 3])
    )


def _steps(
    how: str = "eager", **arguments: Any
) -> tuple[Any, list[np.ndarray]]:
    """Steps of a table and a dense variable: the optimizer, all numbers."""
    random = np.random.default_rng(1)
    table, dense = (
        keras.Variable(random.normal(size=shape), dtype="float32")
        for shape in ((10, 3), (5,))
    )
    optimizer = tf_opt.Adam(0.1, **arguments)
    optimizer.build([table, dense])
    step = RUNS[how](
        lambda slices: optimizer.apply(
            [slices, dense.value * 0.5], [table, dense]
        )
    )
    for seed, rows in enumerate([(1, 4, 1), (4, 7, 2), (9, 9, 9), (3, 0, 0)]):
        step(_slices(*rows, seed=seed))
    return optimizer, [x.numpy() for x in (table, dense, *optimizer.variables)]


@pytest.mark.parametrize("lazy_mode", [False, True])
def test_the_op_gets_the_dense_gradient_or_lazily_none(lazy_mode, how):
    features = {"lazy_mode": lazy_mode, "global_clipnorm": 0.5}
    found, expected = (
        _steps(how, implementation=implementation, **features)
        for implementation in (
            "auto" if lazy_mode else "custom_op",
            "composed",
        )
    )
    assert found[0].implementation_in_use == (
        "custom_op and composed" if lazy_mode else "custom_op"
    )
    assert_close(found[1], expected[1], rtol=1e-5, atol=1e-6)


def test_lazily_custom_op_is_an_error_that_says_what_to_do(how):
    with pytest.raises(
        RuntimeError,
        match=f"can't run {SPARSE_OP}: it has no .PU kernel for float32. "
        'Use implementation="auto" or "composed"',
    ):
        _steps(how, lazy_mode=True, implementation="custom_op")
