"""`lazy_mode=True`: only the rows that occur; PyTorch and Keras beside it."""

from __future__ import annotations

import re
import resource
import threading
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from devices import HAS_SPARSE_KERNELS
from devices import needs_sparse_kernels
from devices import page_faults
from devices import reads_numbers_on_device
from devices import refusal
from xla_kernels import HAS_SPARSE_XLA_KERNELS
from xla_kernels import assert_same_under_xla
from xla_kernels import needs_sparse_xla_kernels

pytestmark = pytest.mark.kernels

ROWS, WIDTH = 10, 3
LAZY = {
    "Adam": (tf_opt.Adam, {}),
    "AMSGrad": (tf_opt.AdamW, {"amsgrad": True}),
    "NAdam": (tf_opt.NAdam, {}),
    "ASGD": (tf_opt.ASGD, {"batch_num": 2}),
}
FEATURES = {
    "nothing": {},
    "decay": {"weight_decay": 0.1},
    "norm": {"clipnorm": 0.5, "track_gradient_norm": True},
    "global norm and average": {
        "global_clipnorm": 0.5,
        "use_ema": True,
        "ema_overwrite_frequency": 2,
    },
    "scale and skip": {"loss_scale_factor": 4.0, "skip_nonfinite": True},
    "accumulate": {"gradient_accumulation_steps": 2},
    "accumulate and average": {
        "gradient_accumulation_steps": 2,
        "use_ema": True,
        "clipvalue": 0.3,
    },
}
implementations = pytest.mark.parametrize(
    "implementation",
    [pytest.param("custom_op", marks=needs_sparse_kernels), "composed"],
)
WAYS = {
    "eager": lambda step: step,
    "tf.function": tf.function,
    "jit_compile": tf.function(jit_compile=True),
}
ways = pytest.mark.parametrize(
    "how",
    [
        "eager",
        "tf.function",
        pytest.param("jit_compile", marks=needs_sparse_xla_kernels),
    ],
)


def _slices(*rows: int, dtype: str = "float32", seed: int = 0) -> Any:
    values = np.random.default_rng(seed).normal(size=(len(rows), WIDTH))
    return tf.IndexedSlices(
        tf.constant(values, dtype),
        tf.constant(rows, tf.int64, (len(rows),)),
        tf.constant([ROWS, WIDTH]),
    )


def _table(dtype: str = "float32") -> keras.Variable:
    value = np.random.default_rng(1).normal(size=(ROWS, WIDTH))
    return keras.Variable(value, dtype=dtype, name="table")


def _all_state(optimizer: Any, table: keras.Variable) -> list[np.ndarray]:
    """All that has the table's rows, with these as the last axis but one."""
    return [
        x.numpy()
        for x in [table, *optimizer.variables]
        if x.shape[-2:] == (ROWS, WIDTH)
    ]


@implementations
@pytest.mark.parametrize(
    ("features", "name"),
    [
        *((features, "Adam") for features in FEATURES),
        *(("accumulate and average", name) for name in LAZY if name != "Adam"),
    ],
)
def test_rows_that_do_not_occur_are_neither_read_nor_written(
    name, features, implementation
):
    make, arguments = LAZY[name]
    table = _table()
    optimizer = make(
        0.1,
        lazy_mode=True,
        implementation=implementation,
        **arguments,
        **FEATURES[features],
    )
    optimizer.build([table])
    # Who read these would make something of them.
    absent = [0, 3, 9]
    optimizer.apply([_slices(1, 2)], [table])
    before = []
    for x in [table, *optimizer.variables]:
        if x.shape[-2:] == (ROWS, WIDTH):
            poisoned = x.numpy()
            poisoned[..., absent, :] = np.nan
            # What an implementation looks at to see whether it is zero.
            if "accumulat" in x.path:
                poisoned[..., absent, :] = 0
            x.assign(poisoned)
            before.append(poisoned)
    for seed in range(4):
        optimizer.apply([_slices(4, 8, 4, 2, seed=seed)], [table])
    after = _all_state(optimizer, table)
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old[..., absent, :], new[..., absent, :])
    assert np.isfinite(after[0][[1, 2, 4, 8]]).all()
    assert (after[0][[2, 4, 8]] != before[0][[2, 4, 8]]).all()


@implementations
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_it_is_what_pytorchs_sparse_adam_does(dtype, implementation):
    torch = pytest.importorskip("torch")
    table = _table(dtype)
    parameter = torch.nn.Parameter(torch.tensor(table.numpy()))
    theirs = torch.optim.SparseAdam([parameter], lr=0.125, eps=1e-3)
    # Theirs adds epsilon to the root before its correction.
    ours = tf_opt.Adam(
        0.125,
        epsilon=1e-3,
        epsilon_hat=True,
        lazy_mode=True,
        implementation=implementation,
    )
    for seed in range(20):
        rows = np.random.default_rng(seed).integers(0, ROWS, 5)
        slices = _slices(*rows, dtype=dtype, seed=seed)
        ours.apply([slices], [table])
        parameter.grad = torch.sparse_coo_tensor(
            torch.tensor(rows)[None],
            torch.tensor(slices.values.numpy()),
            (ROWS, WIDTH),
        )
        theirs.step()
    tolerance = 1e-12 if dtype == "float64" else 2e-6
    np.testing.assert_allclose(
        table.numpy(),
        parameter.detach().numpy(),
        rtol=tolerance,
        atol=tolerance,
    )


def test_a_table_without_rows_is_nothing_to_do():
    table = keras.Variable(np.ones((0, WIDTH)), dtype="float32")
    for lazy_mode in (False, True):
        optimizer = tf_opt.Adam(0.1, lazy_mode=lazy_mode)
        optimizer.apply([_slices()], [table])


@implementations
@ways
@pytest.mark.parametrize("lazy_mode", [False, True])
@pytest.mark.parametrize(
    ("features", "row"),
    [
        ({}, -1),
        ({"clipnorm": 1.0}, ROWS),
        ({"gradient_accumulation_steps": 2}, 2**40),
    ],
)
def test_a_row_out_of_range_names_the_table_and_nothing_is_written(
    row, features, lazy_mode, how, implementation, device, capfd
):
    compiled = how == "jit_compile"
    if compiled and implementation == "composed":
        pytest.skip("TensorFlow's ops check no index inside XLA")
    variables = [
        keras.Variable(np.ones(4), dtype="float64"),
        _table(),
        keras.Variable(np.ones((2, 2)), dtype="float32"),
    ]
    optimizer = tf_opt.Adam(
        0.1, lazy_mode=lazy_mode, implementation=implementation, **features
    )
    optimizer.build(variables)

    def step():
        optimizer.apply(
            [tf.ones(4, tf.float64), _slices(2, row), tf.ones((2, 2))],
            variables,
        )

    kept = [*variables, *optimizer.variables]
    if compiled:
        # XLA may have used the count's memory for something else by then.
        kept = [x for x in kept if x is not optimizer.iterations]
    before = [x.numpy() for x in kept]
    bounds = rf"must be in \[0, {ROWS}\), .*"
    message = rf"`indices\[0\]` \(of table\) {bounds} got {row} at 1"
    if implementation == "composed" or reads_numbers_on_device(device):
        # The check is TensorFlow's there.
        message = f"indices of the gradient of .*table.* {bounds}"
    with (
        pytest.raises(tf.errors.InvalidArgumentError, match=message)
        if compiled
        else refusal(device, message, capfd, is_of_a_number=False)
    ):
        WAYS[how](step)()
    for variable, old in zip(kept, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), old)


WRONG = {
    "more values": (np.ones((2, WIDTH)), [1], "one row of it for each"),
    "other width": (np.ones((1, WIDTH + 1)), [1], "one row of it for each"),
    "a matrix of indices": (np.ones((1, WIDTH)), [[1]], "one row of it"),
    "real indices": (np.ones((1, WIDTH)), [1.0], "must be integers"),
}


@pytest.mark.parametrize("lazy_mode", [False, True])
@pytest.mark.parametrize("case", WRONG)
def test_slices_that_do_not_fit_name_the_table(case, lazy_mode):
    values, indices, message = WRONG[case]
    table = _table()
    before = table.numpy()
    slices = tf.IndexedSlices(
        tf.constant(values, tf.float32), tf.constant(indices)
    )
    with pytest.raises(ValueError, match=f"`table`.*{message}"):
        tf_opt.Adam(0.1, lazy_mode=lazy_mode).apply([slices], [table])
    np.testing.assert_array_equal(table.numpy(), before)


@pytest.mark.parametrize(
    "jit_compile", [False, pytest.param(True, marks=needs_sparse_xla_kernels)]
)
def test_a_length_that_is_known_late_names_the_table(jit_compile):
    table = _table()
    optimizer = tf_opt.Adam(0.1, lazy_mode=True)
    optimizer.build([table])

    @tf.function(
        jit_compile=jit_compile,
        input_signature=[
            tf.TensorSpec([None, WIDTH]),
            tf.TensorSpec([None], tf.int32),
        ],
    )
    def step(values, indices):
        optimizer.apply([tf.IndexedSlices(values, indices)], [table])

    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"of table\)? must have one row",
    ):
        step(tf.ones((2, WIDTH)), tf.constant([1]))


def test_a_number_has_no_rows():
    number = keras.Variable(1.0)
    slices = tf.IndexedSlices(tf.ones([1]), tf.constant([0]))
    with pytest.raises(ValueError, match="has no rows"):
        tf_opt.Adam(0.1, lazy_mode=True).apply([slices], [number])


@pytest.mark.parametrize("lazy_mode", [False, True])
def test_any_number_of_rows_is_traced_once(lazy_mode):
    table = _table()
    optimizer = tf_opt.Adam(0.1, lazy_mode=lazy_mode, global_clipnorm=1.0)
    optimizer.build([table])
    traced = []

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, WIDTH]),
            tf.TensorSpec([None], tf.int64),
        ]
    )
    def step(values, indices):
        traced.append(1)
        optimizer.apply([tf.IndexedSlices(values, indices)], [table])

    alone = _table()
    expected = tf_opt.Adam(0.1, lazy_mode=lazy_mode, global_clipnorm=1.0)
    for rows in ([1, 2, 1], [], [5], list(range(ROWS)) * 3):
        slices = _slices(*rows)
        step(slices.values, slices.indices)
        expected.apply([slices], [alone])
        # TensorFlow's optimizer of graphs may reorder what is composed.
        np.testing.assert_allclose(
            table.numpy(), alone.numpy(), rtol=0 if HAS_SPARSE_KERNELS else 1e-6
        )
    assert len(traced) == 1


@needs_sparse_kernels
def test_a_gather_beside_steps_never_sees_half_of_one():
    # All elements stay equal from step to step.
    table = tf.Variable(tf.zeros([4096, 16]))
    optimizer = tf_opt.Adam(0.01, lazy_mode=True)
    optimizer.build([table])
    rows = tf.range(4096)
    slices = tf.IndexedSlices(tf.ones([4096, 16]), rows)
    stop = threading.Event()
    wrong = []
    seen = set()

    def gather() -> None:
        while not stop.is_set():
            values = tf.gather(table, rows).numpy()
            seen.add(float(values[0, 0]))
            if (values != values[0, 0]).any():
                wrong.append(values)

    threads = [threading.Thread(target=gather) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        optimizer.apply([slices], [table])
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(seen) > 3


def test_the_table_is_not_copied_where_it_is_gathered_from():
    rows, width = 2**20, 16
    table_pages = rows * width * 4 // resource.getpagesize()
    table = tf.Variable(tf.ones([rows, width]))
    optimizer = tf_opt.Adam(0.1, lazy_mode=True)
    optimizer.build([table])

    def step() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, [1, 2, 1]))
        optimizer.apply(tape.gradient(loss, [table]), [table])

    step()
    # A copy would touch each of its pages for the first time.
    assert page_faults(step) < table_pages / 4
    assert (table.numpy()[[1, 2]] < 1).all()


def test_who_has_read_the_table_does_not_see_the_next_step():
    table = tf.Variable(tf.ones([ROWS, WIDTH]))
    optimizer = tf_opt.Adam(0.1, lazy_mode=True)
    read = tf.convert_to_tensor(table)
    optimizer.apply([_slices(1)], [table])
    np.testing.assert_array_equal(read.numpy(), 1)
    assert (table.numpy()[1] != 1).all()


def test_averages_begin_as_the_table():
    table = _table()
    start = table.numpy()
    optimizer = tf_opt.Adam(0.1, use_ema=True, lazy_mode=True)
    optimizer.apply([_slices(2)], [table])
    optimizer.finalize_variable_values([table])
    after = table.numpy()
    np.testing.assert_array_equal(
        np.delete(after, 2, 0), np.delete(start, 2, 0)
    )
    assert (after[2] != start[2]).all()


def test_the_average_of_all_steps_has_no_lazy_mode():
    with pytest.raises(ValueError, match="`lazy_mode` must be False"):
        tf_opt.AveragedSGD(lazy_mode=True)
    with pytest.raises(ValueError, match="lazy_mode"):
        tf_opt.Adam(lazy_mode="yes")


# ---- What happens between micro-steps. ----


def _accumulating(**arguments: Any) -> tuple[keras.Variable, Any]:
    table = keras.Variable(np.ones((ROWS, WIDTH)), name="table")
    optimizer = tf_opt.Adam(
        0.125, gradient_accumulation_steps=2, lazy_mode=True, **arguments
    )
    optimizer.build([table, keras.Variable(1.0)])
    return table, optimizer


def _moved(table: keras.Variable) -> list[int]:
    return (table.numpy() != 1).any(axis=1).nonzero()[0].tolist()


@implementations
def test_a_table_that_is_updated_twice_loses_nothing(implementation):
    table, optimizer = _accumulating(implementation=implementation)
    for rows in ((1, 2), (3, 4)):
        slices = [_slices(row, seed=row) for row in rows]
        optimizer.apply(slices, [table, table])
    assert _moved(table) == [1, 2, 3, 4]
    assert not optimizer._accumulated_gradients[0].numpy().any()


@implementations
def test_dense_gradients_between_sparse_ones_are_accumulated(implementation):
    table, optimizer = _accumulating(implementation=implementation)
    dense = np.zeros((ROWS, WIDTH), "float32")
    dense[6] = 1
    optimizer.apply([tf.constant(dense)], [table])
    optimizer.apply([_slices(2)], [table])
    assert _moved(table) == [2, 6]


def test_lazy_mode_may_be_set_later():
    table, optimizer = _accumulating()
    optimizer.lazy_mode = False
    optimizer.apply([_slices(1)], [table])
    optimizer.lazy_mode = True
    optimizer.apply([_slices(2)], [table])
    assert _moved(table) == [1, 2]
    from_keras = keras.optimizers.Adam(0.1, gradient_accumulation_steps=2)
    from_keras.build([table])
    converted = tf_opt.from_keras(from_keras)
    converted.lazy_mode = True
    converted.apply([_slices(1)], [table])
    with pytest.raises(ValueError, match="lazy_mode"):
        converted.lazy_mode = 1
    with pytest.raises(ValueError, match="`lazy_mode` must be False"):
        tf_opt.AveragedSGD().lazy_mode = True


# How many rows there are is the result of an op: XLA only knows how many there
# may be.
COUNTED_LATE = {
    "some": lambda values, indices: (
        tf.boolean_mask(values, indices > 2),
        tf.boolean_mask(indices, indices > 2),
    ),
    "some, in more room": lambda values, indices: (
        tf.boolean_mask(
            tf.concat([values, values], 0),
            tf.concat([indices > 2, indices < 0], 0),
        ),
        tf.boolean_mask(indices, indices > 2),
    ),
    "some, in less room": lambda values, indices: (
        tf.boolean_mask(values, indices > 2),
        tf.boolean_mask(
            tf.concat([indices, indices], 0),
            tf.concat([indices > 2, indices < 0], 0),
        ),
    ),
    "each once": lambda values, indices: (
        tf.math.unsorted_segment_sum(
            values, tf.unique(indices).idx, tf.size(tf.unique(indices).y)
        ),
        tf.unique(indices).y,
    ),
}


def _counted_late(
    how: str, count: Callable, **arguments: Any
) -> tuple[list[np.ndarray], Callable[[tf.IndexedSlices], None]]:
    """State, and a step that counts its rows."""
    table = _table()
    optimizer = tf_opt.Adam(0.1, **arguments)
    optimizer.build([table])

    @WAYS[how]
    def step(values, indices):
        optimizer.apply([tf.IndexedSlices(*count(values, indices))], [table])

    return (
        [table, *optimizer.variables],
        lambda slices: step(slices.values, slices.indices),
    )


@pytest.mark.parametrize(
    "implementation",
    [pytest.param("custom_op", marks=needs_sparse_xla_kernels), "composed"],
)
@pytest.mark.parametrize("lazy_mode", [False, True])
@pytest.mark.parametrize("case", COUNTED_LATE)
def test_xla_need_not_know_how_many_rows_there_are(
    case, lazy_mode, implementation
):
    if "room" in case and (lazy_mode, implementation) == (False, "composed"):
        pytest.skip("TensorFlow's sums want as much room for both, and say so")
    found = []
    for how in ("tf.function", "jit_compile"):
        state, step = _counted_late(
            how,
            COUNTED_LATE[case],
            lazy_mode=lazy_mode,
            clipnorm=0.5,
            implementation=implementation,
        )
        for seed, rows in enumerate([(7, 1, 7, 3), (1, 2, 2, 1)]):
            step(_slices(*rows, seed=seed))
        found.append([x.numpy() for x in state])
    for outside, inside in zip(*found, strict=True):
        if implementation == "custom_op":
            assert_same_under_xla(inside, outside)
        else:
            # XLA rounds what it fuses less often.
            np.testing.assert_allclose(inside, outside, rtol=1e-6, atol=1e-6)


@needs_sparse_xla_kernels
@pytest.mark.parametrize(
    "name", ['a "b"', "\\", "\u00e9\n", "a\\00", "}, x = 1", ""]
)
def test_errors_under_xla_call_a_table_by_any_name(name):
    @WAYS["jit_compile"]
    def measure(indices):
        # A table before it, that has a name too.
        slices = [tf.IndexedSlices(tf.ones((1, 2)), x) for x in ([0], indices)]
        return tf_opt.ops.measure_gradients(
            slices, rows=[1, 4], tables=["first", name]
        )

    assert measure(tf.constant([3])).sums_of_squares.numpy().tolist() == [2, 2]
    expected = f"`indices[1]` (of {name}) must be in [0, 4)"
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=re.escape(expected)
    ):
        measure(tf.constant([4]))


@implementations
def test_an_average_waits_while_its_table_has_no_gradient(implementation):
    table, other = _table(), keras.Variable(1.0)
    optimizer = tf_opt.Adam(
        0.1, use_ema=True, lazy_mode=True, implementation=implementation
    )
    optimizer.build([table, other])
    optimizer.apply([_slices(1, 2), tf.constant(1.0)], [table, other])
    average = optimizer._model_variables_moving_average[0]
    optimizer.apply([_slices(1), tf.constant(1.0)], [table, other])
    before = average.numpy()
    optimizer.apply([None, tf.constant(1.0)], [table, other])
    np.testing.assert_array_equal(average.numpy(), before)


@pytest.mark.parametrize("counts", [(0, 0), (0, 2), (3, 1)])
def test_replicas_may_say_nothing(strategy, counts):
    with strategy.scope():
        table = keras.Variable(np.ones((ROWS, WIDTH)), dtype="float32")
        optimizer = tf_opt.Adam(0.125, lazy_mode=True)
        optimizer.build([table])

    @tf.function
    def step():
        def replica():
            context = tf.distribute.get_replica_context()
            count = tf.gather(counts, context.replica_id_in_sync_group)
            first = 4 * context.replica_id_in_sync_group
            rows = first + tf.range(count)
            optimizer.apply(
                [tf.IndexedSlices(tf.ones([count, WIDTH]), rows)], [table]
            )

        strategy.run(replica)

    for _ in range(2):
        step()
    expected = [*range(counts[0]), *range(4, 4 + counts[1])]
    assert _moved(table) == expected


def test_several_replicas_do_not_accumulate_rows(strategy):
    with strategy.scope():
        table = keras.Variable(np.ones((ROWS, WIDTH)), dtype="float32")
        optimizer = tf_opt.Adam(lazy_mode=True, gradient_accumulation_steps=2)
        optimizer.build([table])

    @tf.function
    def step():
        strategy.run(lambda: optimizer.apply([_slices(1)], [table]))

    with pytest.raises(ValueError, match="`gradient_accumulation_steps`"):
        step()


@implementations
@pytest.mark.parametrize("name", LAZY)
def test_where_all_rows_occur_it_is_the_dense_step(name, implementation):
    make, arguments = LAZY[name]
    states = []
    for lazy_mode in (True, False):
        table = _table()
        optimizer = make(
            0.1,
            weight_decay=0.1,
            use_ema=True,
            clipnorm=1.0,
            lazy_mode=lazy_mode,
            implementation=implementation,
            **arguments,
        )
        for seed in range(3):
            rows = np.random.default_rng(seed).permutation(2 * ROWS) % ROWS
            optimizer.apply([_slices(*rows, seed=seed)], [table])
        states.append(_all_state(optimizer, table))
    for lazy, dense in zip(*states, strict=True):
        np.testing.assert_allclose(lazy, dense, rtol=1e-6, atol=1e-8)


def test_a_row_that_occurs_twice_counts_once_with_its_sum():
    tables = [_table(), _table()]
    twice, once = tf_opt.Adam(0.1, lazy_mode=True), tf_opt.Adam(0.1)
    value = tf.constant([[1.0, 2.0, 3.0]])
    twice.apply(
        [tf.IndexedSlices(tf.repeat(value, 2, 0), tf.constant([4, 4]))],
        [tables[0]],
    )
    once.apply([tf.IndexedSlices(2 * value, tf.constant([4]))], [tables[1]])
    np.testing.assert_array_equal(tables[0].numpy(), tables[1].numpy())


@pytest.mark.parametrize("in_graph", [False, True])
def test_no_row_at_all_changes_nothing_but_the_count(in_graph):
    table = _table()
    before = table.numpy()
    optimizer = tf_opt.Adam(0.1, lazy_mode=True, global_clipnorm=1.0)
    optimizer.build([table])

    def step():
        optimizer.apply([_slices()], [table])

    step = tf.function(step) if in_graph else step
    step()
    np.testing.assert_array_equal(table.numpy(), before)
    assert int(optimizer.iterations.numpy()) == 1


@implementations
def test_what_was_accumulated_is_found_after_a_checkpoint(
    tmp_path, implementation
):
    def make() -> tuple[keras.Variable, Any]:
        table = _table()
        optimizer = tf_opt.Adam(
            0.1,
            lazy_mode=True,
            gradient_accumulation_steps=3,
            implementation=implementation,
        )
        optimizer.build([table])
        return table, optimizer

    steps = [_slices(1, 2), _slices(2, 5, 2), _slices(7), _slices(3)]
    table, optimizer = make()
    for slices in steps[:2]:
        optimizer.apply([slices], [table])
    checkpoint = tf.train.Checkpoint(
        variables=[table.value, *(x.value for x in optimizer.variables)]
    )
    path = checkpoint.save(tmp_path / "checkpoint")
    other, restored = make()
    # It has rows of its own in mind.
    restored.apply([_slices(9)], [other])
    tf.train.Checkpoint(
        variables=[other.value, *(x.value for x in restored.variables)]
    ).restore(path).assert_consumed()
    for slices in steps[2:]:
        optimizer.apply([slices], [table])
        restored.apply([slices], [other])
    for a, b in zip(
        [table, *optimizer.variables], [other, *restored.variables], strict=True
    ):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    changed = (table.numpy() != _table().numpy()).any(axis=1)
    assert changed.nonzero()[0].tolist() == [1, 2, 5, 7]


def test_tables_of_several_types_and_dense_variables_in_one_step():
    tables = [
        _table("float32"),
        _table("float64"),
        _table("bfloat16"),
        keras.Variable(np.ones((2, 2)), dtype="float32"),
    ]
    optimizer = tf_opt.Adam(0.1, lazy_mode=True, global_clipnorm=1.0)
    before = [np.array(x.numpy(), "float64") for x in tables]
    gradients = [
        _slices(1, 1),
        _slices(2, dtype="float64"),
        _slices(3, dtype="bfloat16"),
        tf.ones((2, 2)),
    ]
    optimizer.apply(gradients, tables)
    after = [np.array(x.numpy(), "float64") for x in tables]
    for i, row in enumerate([1, 2, 3]):
        changed = (before[i] != after[i]).any(axis=1)
        assert changed.nonzero()[0].tolist() == [row]
    assert (before[3] != after[3]).all()
    assert optimizer.implementation_in_use == (
        "custom_op" if HAS_SPARSE_KERNELS else "custom_op and composed"
    )


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("lazy_mode", [False, True])
def test_an_embedding_in_fit_equals_a_loop(lazy_mode, jit_compile):
    tokens = np.random.default_rng(2).integers(0, 50, (64, 4))
    targets = tokens.sum(axis=1, keepdims=True) / 100

    def make() -> keras.Model:
        keras.utils.set_random_seed(4)
        return keras.Sequential(
            [
                keras.layers.Input((4,)),
                keras.layers.Embedding(50, 8),
                keras.layers.GlobalAveragePooling1D(),
                keras.layers.Dense(1),
            ]
        )

    fitted, looped = make(), make()
    fitted.compile(
        tf_opt.Adam(0.01, lazy_mode=lazy_mode), "mse", jit_compile=jit_compile
    )
    fitted.fit(
        tokens, targets, batch_size=8, epochs=2, shuffle=False, verbose=0
    )
    optimizer = tf_opt.Adam(0.01, lazy_mode=lazy_mode)
    for _ in range(2):
        for i in range(0, 64, 8):
            with tf.GradientTape() as tape:
                errors = looped(tokens[i : i + 8]) - targets[i : i + 8]
                loss = tf.reduce_mean(errors**2)
            variables = looped.trainable_variables
            optimizer.apply(
                tape.gradient(loss, [x.value for x in variables]), variables
            )
    for a, b in zip(fitted.get_weights(), looped.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-5)
    if HAS_SPARSE_XLA_KERNELS:
        assert fitted.optimizer.implementation_in_use == "custom_op"
