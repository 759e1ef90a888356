"""Which kernels the library under test has for programs compiled by XLA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tf_opt.python import dispatch

from devices import HAS_SPARSE_KERNELS

HAS_XLA_KERNELS = dispatch.has_xla_kernels()
HAS_SPARSE_XLA_KERNELS = HAS_SPARSE_KERNELS and dispatch.has_xla_kernels(
    "TfOpt>ResourceSparseApplyAdamAmsgrad"
)

needs_xla_kernels = pytest.mark.skipif(
    not HAS_XLA_KERNELS, reason="this build has no kernels for XLA"
)
needs_sparse_xla_kernels = pytest.mark.skipif(
    not HAS_SPARSE_XLA_KERNELS,
    reason="this build has no kernels for sparse gradients in XLA",
)


def assert_same_under_xla(
    inside: np.ndarray, outside: np.ndarray, *, tolerance: float = 0
) -> None:
    """Compares the results of an op inside and outside of XLA.

    They must be equal bit for bit, or within the relative `tolerance`.
    """
    assert (inside.dtype, inside.shape) == (outside.dtype, outside.shape)
    np.testing.assert_allclose(
        inside.astype("float64"), outside.astype("float64"), rtol=tolerance
    )
    assert tolerance or inside.tobytes() == outside.tobytes()


def assert_measures_same_under_xla(
    measure: Callable[..., Any], *arguments: Any
) -> None:
    """Compares a measure, whose last argument says if it is enabled."""
    traced = tf.function(measure)
    for enabled in (tf.constant(True), tf.constant(False)):
        expected = traced(*arguments, enabled)
        # Traced here, and traced before.
        for called in (measure, traced):
            compiled = tf.function(called, jit_compile=True)
            found = compiled(*arguments, enabled)
            for inside, outside in zip(found, expected, strict=True):
                assert_same_under_xla(inside.numpy(), outside.numpy())
