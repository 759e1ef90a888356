"""`lazy_mode`: only the rows that occur; PyTorch and Keras beside it."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from registry import RULES, slow
from small_model import assert_close
from trajectory import RUNS

pytestmark = pytest.mark.kernels

ROWS, WIDTH = 10, 3
LAZY = {name: x for name, x in RULES.items() if x.has_lazy_mode}
FEATURES = {
    "nothing": {},
    "measured": {
        "weight_decay": 0.1,
        "clipnorm": 0.5,
        "loss_scale_factor": 4.0,
        "skip_nonfinite": True,
        "track_gradient_norm": True,
    },
    "accumulated": {"gradient_accumulation_steps": 2, "clipvalue": 0.3},
}


def _slices(*rows: int, dtype: str = "float32", seed: int = 0) -> Any:
    values = np.random.default_rng(seed).normal(size=(len(rows), WIDTH))
    return tf.IndexedSlices(
        tf.constant(values, dtype),
        tf.constant(rows, tf.int64, (len(rows),)),
        tf.constant([ROWS, WIDTH]),
    )


def _table(dtype: str = "float32", name: str = "table") -> keras.Variable:
    value = np.random.default_rng(1).normal(size=(ROWS, WIDTH))
    return keras.Variable(value, dtype=dtype, name=name)


@pytest.mark.parametrize(
    ("features", "name"),
    [
        *((features, "Adam") for features in FEATURES),
        *(("accumulated", name) for name in LAZY if name != "Adam"),
    ],
)
def test_rows_that_do_not_occur_are_neither_read_nor_written(
    name, features, implementation
):
    table = _table()
    optimizer = LAZY[name].make(
        0.1,
        lazy_mode=True,
        implementation=implementation,
        **{**LAZY[name].thorough, **FEATURES[features]},
    )
    optimizer.build([table])
    # Who read these would make something of them.
    absent = [0, 3, 9]
    optimizer.apply([_slices(1, 2)], [table])
    variables = [table, *optimizer.variables]
    with_rows = [x for x in variables if x.shape[-2:] == (ROWS, WIDTH)]
    before = []
    for x in with_rows:
        poisoned = x.numpy()
        # An implementation looks in accumulators for what is zero.
        poisoned[..., absent, :] = 0 if "accumulat" in x.path else np.nan
        x.assign(poisoned)
        before.append(poisoned)
    # An odd number of updates: Lion's are all of one size.
    for seed in range(6):
        optimizer.apply([_slices(4, 8, 4, 2, seed=seed)], [table])
    after = [x.numpy() for x in with_rows]
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old[..., absent, :], new[..., absent, :])
    assert np.isfinite(after[0][[1, 2, 4, 8]]).all()
    assert (after[0][[2, 4, 8]] != before[0][[2, 4, 8]]).all()


def test_it_is_what_pytorchs_sparse_adam_does(implementation):
    torch = pytest.importorskip("torch")
    table = _table("float64")
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
        slices = _slices(*rows, dtype="float64", seed=seed)
        ours.apply([slices], [table])
        parameter.grad = torch.sparse_coo_tensor(
            torch.tensor(rows)[None],
            torch.tensor(slices.values.numpy()),
            (ROWS, WIDTH),
        )
        theirs.step()
    expected = parameter.detach().numpy()
    np.testing.assert_allclose(table, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.core
@pytest.mark.needs_library  # Composed steps differ in the last bit if traced.
@pytest.mark.parametrize("lazy_mode", [False, True, {"table": "catch_up"}])
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
        for each in (optimizer, expected):
            each.learning_rate = 0.1 / (1 + len(rows))
        step(slices.values, slices.indices)
        expected.apply([slices], [alone])
        np.testing.assert_array_equal(table.numpy(), alone.numpy())
    assert len(traced) == 1


def _accumulating(**arguments: Any) -> tuple[keras.Variable, Any]:
    table = keras.Variable(np.ones((ROWS, WIDTH)), name="table")
    optimizer = tf_opt.Adam(
        0.125, gradient_accumulation_steps=2, lazy_mode=True, **arguments
    )
    optimizer.build([table, keras.Variable(1.0)])
    return table, optimizer


def _moved(table: keras.Variable) -> list[int]:
    return (table.numpy() != 1).any(axis=1).nonzero()[0].tolist()


def test_what_is_accumulated_loses_nothing(implementation):
    dense = np.zeros((ROWS, WIDTH), "float32")
    dense[6] = 1
    for steps, moved in (
        # A table that is updated twice in a step.
        ([[_slices(1), _slices(2)], [_slices(3), _slices(4)]], [1, 2, 3, 4]),
        # A dense gradient before a sparse one.
        ([[tf.constant(dense)], [_slices(2)]], [2, 6]),
    ):
        table, optimizer = _accumulating(implementation=implementation)
        for gradients in steps:
            optimizer.apply(gradients, [table] * len(gradients))
        assert _moved(table) == moved
        assert not optimizer._accumulated_gradients[0].numpy().any()


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
    # The average of all steps has no lazy mode.
    with pytest.raises(ValueError, match="`lazy_mode` must be False"):
        tf_opt.AveragedSGD(lazy_mode=[]).lazy_mode = True
    with pytest.raises(ValueError, match="`lazy_mode` must be False .*'t'"):
        tf_opt.AveragedSGD(lazy_mode=["t"])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (1, "` must be True, False, .* Received: lazy_mode=1"),
        ("user", r"` must be .* For one pattern, write lazy_mode=\['user'\]"),
        ({"a": "lazy"}, r"\['a'\]` must"),
        ({"(": True}, "` must have regular expressions"),
        (["user", "("], r"` must have regular expressions .* Received: '\('"),
        ([2], "` must have regular expressions as elements. Received: 2"),
    ],
)
def test_what_is_no_lazy_mode_is_refused(wrong, message):
    with pytest.raises(ValueError, match=f"`lazy_mode{message}"):
        tf_opt.Adam().lazy_mode = wrong
    with pytest.raises(ValueError, match=f"`lazy_mode{message}"):
        tf_opt.Adam(lazy_mode=wrong)


@pytest.mark.parametrize("lazy_mode", [slow(False), True])
def test_xla_need_not_know_how_many_rows_there_are(lazy_mode):
    def train(how: str) -> list[np.ndarray]:
        table = _table()
        optimizer = tf_opt.Adam(0.1, lazy_mode=lazy_mode, clipnorm=0.5)
        optimizer.build([table])

        @RUNS[how]
        def step(values, indices):
            # XLA only knows how many there may be.
            chosen = indices > 2
            values = tf.boolean_mask(values, chosen)
            indices = tf.boolean_mask(indices, chosen)
            optimizer.apply([tf.IndexedSlices(values, indices)], [table])

        for seed, rows in enumerate([(7, 1, 7, 3), (1, 2, 2, 1)]):
            slices = _slices(*rows, seed=seed)
            step(slices.values, slices.indices)
        return [x.numpy() for x in [table, *optimizer.variables]]

    # XLA rounds what it fuses less often.
    assert_close(
        train("jit_compile"), train("tf.function"), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize(
    "lazy_mode",
    [True, ["tab"], "catch_up", {"tab": "catch_up", "other|tab": True}],
    ids=str,
)
def test_averages_need_exact_tables(lazy_mode):
    optimizer = tf_opt.Adam(use_ema=True, lazy_mode=lazy_mode)
    variables = [_table(), keras.Variable(1.0)]
    with pytest.raises(ValueError, match="`use_ema` must be False with lazy"):
        optimizer.build(variables)
    optimizer.lazy_mode = False
    optimizer.build(variables)
    with pytest.raises(ValueError, match="`use_ema` must be False with lazy"):
        optimizer.lazy_mode = True
    assert optimizer.lazy_mode is False
    optimizer.use_ema, optimizer.lazy_mode = False, True
    with pytest.raises(ValueError, match="`use_ema` must be False with lazy"):
        optimizer.use_ema = True


def test_replicas_may_say_nothing(strategy):
    with strategy.scope():
        table = keras.Variable(np.ones((ROWS, WIDTH)), dtype="float32")
        optimizer = tf_opt.Adam(0.125, lazy_mode=True)
        optimizer.build([table])

    @tf.function
    def step(counts):
        def replica():
            context = tf.distribute.get_replica_context()
            count = tf.gather(counts, context.replica_id_in_sync_group)
            first = 4 * context.replica_id_in_sync_group
            rows = first + tf.range(count)
            optimizer.apply(
                [tf.IndexedSlices(tf.ones([count, WIDTH]), rows)], [table]
            )

        strategy.run(replica)

    for counts, moved in (
        ((0, 0), []),
        ((0, 2), [4, 5]),
        ((3, 1), [0, 1, 2, 4, 5]),
    ):
        step(tf.constant(counts))
        assert _moved(table) == moved


def test_tables_are_lazy_by_pattern_and_another_may_become_so():
    tables = [_table(name="user"), _table(name="item")]
    optimizer = tf_opt.Adam(0.1, lazy_mode=("user",), **FEATURES["measured"])
    optimizer.apply([_slices(1)] * 2, tables)
    for patterns, lazy in (
        (["user"], [True, False]),
        (["^i"], [False, True]),
        ([], [False, False]),
        (["r", "m"], [True, True]),
    ):
        optimizer.lazy_mode = patterns
        before = [table.numpy()[1] for table in tables]
        optimizer.apply([_slices(2)] * 2, tables)
        after = [table.numpy()[1] for table in tables]
        assert np.equal(before, after).all(axis=1).tolist() == lazy
    with pytest.raises(ValueError, match="'book', which is found in no"):
        optimizer.lazy_mode = ["user", "book"]
    assert optimizer.lazy_mode == ["r", "m"]
