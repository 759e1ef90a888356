"""What the library under test has for programs that XLA compiles on a CPU."""

from __future__ import annotations

import contextlib
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from tf_opt.python import dispatch

from devices import EMULATED_GPU
from devices import HAS_SPARSE_KERNELS

HAS_XLA_KERNELS = "CPU" in dispatch.compiled_devices()
HAS_SPARSE_XLA_KERNELS = HAS_SPARSE_KERNELS and (
    "CPU" in dispatch.compiled_devices("TfOpt>ResourceSparseApplyAdamAmsgrad")
)

needs_xla_kernels = pytest.mark.skipif(
    not HAS_XLA_KERNELS, reason="this build has no kernels for XLA"
)
needs_sparse_xla_kernels = pytest.mark.skipif(
    not HAS_SPARSE_XLA_KERNELS,
    reason="this build has no kernels for sparse gradients in XLA",
)
# What is in XLA's own operations writes nothing where a number is wrong, and
# can't raise.
needs_errors_under_xla = pytest.mark.skipif(
    EMULATED_GPU, reason="XLA's own operations raise no error"
)


def raises_under_xla(
    message: str,
) -> contextlib.AbstractContextManager[Any]:
    """Where a step that XLA compiled is to find something wrong."""
    if EMULATED_GPU:
        return contextlib.nullcontext()
    return pytest.raises(tf.errors.InvalidArgumentError, match=message)


def assert_same_under_xla(
    inside: np.ndarray,
    outside: np.ndarray,
    unit: float | None = None,
    *,
    tolerance: float = 0,
) -> None:
    """Compares what an op did inside XLA with what it does outside.

    Bit for bit where XLA calls the engine, or within `tolerance`. What is in
    XLA's own operations, which on a CPU only tests run, may be rounded a few
    times less: `unit` is the distance of 1 to the next number then; None: of
    what is compared.
    """
    assert (inside.dtype, inside.shape) == (outside.dtype, outside.shape)
    if not EMULATED_GPU or not tf.as_dtype(outside.dtype).is_floating:
        np.testing.assert_allclose(
            inside.astype("float64"), outside.astype("float64"), rtol=tolerance
        )
        assert tolerance or inside.tobytes() == outside.tobytes()
        return
    unit = unit or float(ml_dtypes.finfo(outside.dtype).eps)
    np.testing.assert_allclose(
        inside.astype("float64"),
        outside.astype("float64"),
        rtol=16 * unit,
        atol=unit,
    )
