"""The embedding tables that are measured, and who looks up which rows."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import numpy as np

import variants
from shapes import Shape

# Of uniformly drawn ids, the part that occurred before in the same batch.
_REPEATED = 0.1
_ZIPF_EXPONENT = 1.1

_ADAM = "adam"
_AMSGRAD = "adam-amsgrad"

# Criteo's click logs (the Kaggle challenge of 2014) have 26 categorical
# features with so many values each. Large ones are hashed into fewer rows.
_CRITEO_VALUES = (
    *(1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683),
    *(8351593, 3194, 27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18),
    *(15, 286181, 105, 142572),
)
_CRITEO_ROWS = 1_000_000


@dataclasses.dataclass(frozen=True)
class SparseWorkload:
    """Embedding tables and batches of ids to look up in them.

    Attributes:
        title: What people call it.
        shapes: The shape of each table.
        ids: How many ids a batch has for each table.
        zipf: Whether few rows are looked up often, by Zipf's law, and not all
            alike.
        steps: How many steps are timed together, of contenders that take time
            for the rows alone.
        contenders: Who takes part.
        optimizers: The variants that are measured.
    """

    title: str
    shapes: tuple[Shape, ...]
    ids: int
    zipf: bool
    steps: int
    contenders: tuple[str, ...]
    optimizers: tuple[str, ...]

    @property
    def parameters(self) -> int:
        """The number of elements of all tables together."""
        return sum(map(math.prod, self.shapes))


class Ids(NamedTuple):
    """What one batch looks up in one table.

    Attributes:
        all: The ids, in the order of the batch.
        rows: The rows among them, sorted and without repeats.
    """

    all: np.ndarray
    rows: np.ndarray


class Lookup:
    """A table's ids, batch after batch."""

    def __init__(
        self, rows: int, ids: int, zipf: bool, generator: np.random.Generator
    ) -> None:
        """States how often each row is looked up.

        Args:
            rows: How many the table has.
            ids: How many a batch has.
            zipf: Whether by Zipf's law.
            generator: Where the ids come from.
        """
        self._rows = rows
        self._ids = ids
        self._zipf = zipf
        self._generator = generator
        if zipf:
            weights = np.arange(1, rows + 1) ** -_ZIPF_EXPONENT
            self._cumulative = np.cumsum(weights / weights.sum())
            # Frequent rows may be anywhere in the table.
            self._row_of_rank = generator.permutation(rows)

    def draw(self) -> Ids:
        """A batch's ids."""
        ids = (self._by_zipf() if self._zipf else self._uniform()).astype(
            np.int32
        )
        return Ids(ids, np.unique(ids))

    def _by_zipf(self) -> np.ndarray:
        places = self._generator.random(self._ids)
        ranks = np.searchsorted(self._cumulative, places)
        # The last sum may round to less than 1.
        return self._row_of_rank[np.minimum(ranks, self._rows - 1)]

    def _uniform(self) -> np.ndarray:
        distinct = min(self._rows, round((1 - _REPEATED) * self._ids))
        rows = self._generator.choice(self._rows, distinct, replace=False)
        repeated = self._generator.choice(rows, self._ids - distinct)
        return self._generator.permutation(np.concatenate([rows, repeated]))


_FLOORS = (variants.ROW_FLOOR, variants.ALL_ROWS_FLOOR)
_LAZY = (
    variants.TF_OPT_LAZY,
    variants.TF_OPT_LAZY_EAGER,
    variants.TF_OPT_MEASURING,
)
_EXACT = (variants.TF_OPT, variants.TF_OPT_EAGER)
_OTHERS = (variants.TORCH_SPARSE, variants.KERAS)


def _table(zipf: bool) -> SparseWorkload:
    return SparseWorkload(
        f"1 M x 64, {'Zipf' if zipf else 'uniform'}",
        ((1_000_000, 64),),
        ids=8192,
        zipf=zipf,
        steps=10,
        contenders=(*_FLOORS, *_LAZY, *_EXACT, *_OTHERS),
        optimizers=(_ADAM, _AMSGRAD),
    )


def _scaling(
    title: str, rows: int, width: int, ids: int, steps: int
) -> SparseWorkload:
    return SparseWorkload(
        title,
        ((rows, width),),
        ids,
        zipf=False,
        steps=steps,
        contenders=(
            variants.ROW_FLOOR,
            variants.TF_OPT_LAZY,
            variants.TF_OPT_MEASURING,
            variants.KERAS,
        ),
        optimizers=(_ADAM,),
    )


COMPARED = {
    "table-uniform": _table(zipf=False),
    "table-zipf": _table(zipf=True),
    "26-tables": SparseWorkload(
        "26 tables",
        tuple((min(rows, _CRITEO_ROWS), 16) for rows in _CRITEO_VALUES),
        ids=2048,
        zipf=True,
        steps=5,
        contenders=(variants.ROW_FLOOR, *_LAZY, *_EXACT, *_OTHERS),
        optimizers=(_ADAM, _AMSGRAD),
    ),
}
BY_IDS = {
    f"{ids}-ids": _scaling(f"{ids:,} ids", 1_000_000, 64, ids, steps)
    for ids, steps in ((100, 50), (1000, 50), (10_000, 10), (100_000, 2))
}
# Narrower, so that the largest fits into memory with Keras' copy of it.
BY_ROWS = {
    f"{rows}-rows": _scaling(f"{rows:,} rows", rows, 16, 8192, steps=10)
    for rows in (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
}
SPARSE_WORKLOADS: dict[str, SparseWorkload] = COMPARED | BY_IDS | BY_ROWS
