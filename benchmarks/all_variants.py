"""All optimizers that are measured, those on variables of 16 bits too."""

from __future__ import annotations

from low_precision_variants import LOW_PRECISION
from variants import VARIANTS
from variants import Variant

ALL_VARIANTS: dict[str, Variant] = {**VARIANTS, **LOW_PRECISION}
