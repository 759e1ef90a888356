"""What the library under test has for programs that XLA compiles on a CPU."""

from __future__ import annotations

import numpy as np
import pytest
from tf_opt.python import dispatch

from devices import EMULATED_GPU

HAS_XLA_KERNELS = "CPU" in dispatch.compiled_devices()
HAS_SPARSE_XLA_KERNELS = "CPU" in dispatch.compiled_devices(
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
    inside: np.ndarray, outside: np.ndarray, unit: float | None = None
) -> None:
    """Compares what an op did inside XLA with what it does outside.

    Bit for bit where XLA calls the engine. What is in XLA's own operations,
    which on a CPU only tests run, may be rounded a few times less: `unit` is
    the distance of 1 to the next number then; None: of what is compared.
    """
    if not EMULATED_GPU or not np.issubdtype(outside.dtype, np.floating):
        np.testing.assert_array_equal(inside, outside)
        return
    unit = unit or np.finfo(outside.dtype).eps
    np.testing.assert_allclose(inside, outside, rtol=16 * unit, atol=unit)
