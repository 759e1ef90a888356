"""All that is measured: models, and embedding tables."""

from __future__ import annotations

from shapes import WORKLOADS
from shapes import Workload
from sparse_workloads import SPARSE_WORKLOADS
from sparse_workloads import SparseWorkload

ALL_WORKLOADS: dict[str, Workload | SparseWorkload] = {
    **WORKLOADS,
    **SPARSE_WORKLOADS,
}
