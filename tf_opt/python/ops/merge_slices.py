"""The op TfOpt>MergeSlices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tf_opt.python.ops import library
from tf_opt.python.ops.inputs import slices_as_inputs


def merge_slices(
    slices: Sequence[tf.IndexedSlices],
    table_rows: Sequence[int | tf.Tensor],
    accumulated_rows: Sequence[tf.Tensor] = (),
    *,
    tables: Sequence[str] = (),
) -> list[tf.IndexedSlices]:
    """Sums the repeated rows of gradients of one type, in one launch.

    Args:
        slices: The gradients.
        table_rows: The number of rows of each variable.
        accumulated_rows: For each variable, indices of more rows that occur,
            with a gradient of zero. Or empty.
        tables: The variables' names in errors. Empty: their positions.

    Returns:
        For each gradient its rows, sorted, each once.
    """
    if any(map(tf.is_tensor, table_rows)):
        table_rows = tf.stack([tf.cast(x, tf.int64) for x in table_rows])
    else:
        # TensorFlow converts a list more slowly.
        table_rows = np.array(table_rows, np.int64)
    merged = library.run_op(
        "TfOpt>MergeSlices",
        **slices_as_inputs(slices, accumulated_rows),
        table_rows=table_rows,
        tables=list(tables),
    )
    return [
        tf.IndexedSlices(values, indices)
        for indices, values in zip(merged.rows, merged.sums, strict=True)
    ]
