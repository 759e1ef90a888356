"""Whether the library under test has kernels for XLA, on the CPU."""

from __future__ import annotations

import pytest
from tf_opt.python import dispatch

HAS_XLA_KERNELS = "CPU" in dispatch.compiled_devices()

needs_xla_kernels = pytest.mark.skipif(
    not HAS_XLA_KERNELS, reason="this build has no kernels for XLA"
)
