"""The benchmark's arithmetic. What it measures is no business of tests."""

from __future__ import annotations

import dataclasses
import time

import numpy as np
import pytest

import measure
import sparse
import sparse_contenders
import step_time
import targets
import variants
from sparse_workloads import COMPARED
from sparse_workloads import SPARSE_WORKLOADS
from sparse_workloads import Ids
from sparse_workloads import Lookup


def row(
    variant: str, contender: str, ms: float, workload: str = "resnet-50"
) -> dict:
    """A result, as case.py reports it."""
    return {
        "workload": workload,
        "variant": variant,
        "contender": contender,
        "median_ms": ms,
        "ratio_to_tf_opt": ms / 10,
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("averaged-sgd", 20),
        ("adam", 28),
        ("adam-amsgrad", 36),
        ("adam-bfloat16", 22),
        ("adamw-clip", 32),
        ("adamw-ema", 36),
        ("adamw-clip-ema", 40),
        ("adamw-clip-ema-loss-scale", 40),
        ("adamw-skip-nonfinite", 32),
        # Three times gradient and sum, in and out, then the update with it.
        ("adamw-accumulate", (3 * 12 + 28 + 8) / 4),
    ],
)
def test_floor_counts_each_byte(name: str, expected: float) -> None:
    assert variants.VARIANTS[name].bytes_per_parameter == expected


def test_variants_without_a_feature_exist_and_lack_only_it() -> None:
    for variant in variants.FEATURES.values():
        without = variants.VARIANTS[variant.without]
        assert without != variant
        assert without.arguments.items() <= variant.arguments.items()
        assert variant.bytes_per_parameter * variant.micro_steps >= (
            without.bytes_per_parameter
        )


def test_sample_of_accumulated_steps_is_the_mean_of_a_micro_step() -> None:
    steps = []

    def step() -> None:
        steps.append(None)
        time.sleep(0.02)

    contender = measure.Contender(step, lambda: [float(len(steps))])
    found = measure.measure(
        {"it": contender},
        rounds=2,
        seconds=60,
        steps=1,
        micro_steps=4,
        on_progress=lambda doing, part: None,
    )["it"]
    assert len(steps) == 3
    assert len(found.samples_ms) == 2
    # Never below, since nothing sleeps less than it says; and a machine that is
    # so slow that four times as much passes is no place for tests.
    assert all(5 <= sample < 20 for sample in found.samples_ms)
    assert found.first_call_ms >= 20


def test_contender_may_say_how_many_steps_a_sample_is_the_mean_of() -> None:
    taken = {"few": 0, "as many as others": 0}

    def contender(name: str, steps: int | None) -> measure.Contender:
        def step() -> None:
            taken[name] += 1

        return measure.Contender(step, lambda: [float(taken[name])], steps)

    measure.measure(
        {
            "few": contender("few", 1),
            "as many as others": contender("as many as others", None),
        },
        rounds=3,
        seconds=60,
        steps=10,
        on_progress=lambda doing, part: None,
    )
    # The first call, then in each round those that are timed, and of several
    # a fifth before them.
    assert taken == {"few": 1 + 3, "as many as others": 1 + 3 * 12}


def test_measure_refuses_a_step_that_changes_nothing() -> None:
    contender = measure.Contender(lambda: None, lambda: [1.0])
    with pytest.raises(RuntimeError, match="must change every variable"):
        measure.measure(
            {"it": contender},
            rounds=1,
            seconds=1,
            steps=1,
            on_progress=lambda doing, part: None,
        )


def test_targets_say_what_was_reached_and_what_was_missed() -> None:
    scaled = "adamw-clip-ema-loss-scale"
    table = targets.table(
        [
            row("adamw-clip-ema", variants.TF_OPT, 10),
            row("adamw-clip-ema", variants.FLOOR, 8.5),
            row("adamw-clip-ema", variants.TORCH_FUSED, 10.5),
            row(scaled, variants.TF_OPT, 12),
            row(scaled, variants.TF_OPT_WITHOUT, 10),
        ]
    )
    results = {(line[0], line[2][:4]): line[3] for line in table.lines}
    assert results == {
        (f"{variants.TF_OPT} / {variants.FLOOR} <= 1.25", "1.18"): "reached",
        (f"{variants.TORCH_FUSED} / {variants.TF_OPT} >= 1.1", "1.05"): (
            "MISSED"
        ),
        (f"{variants.TF_OPT} / {variants.TF_OPT_WITHOUT} <= 1.10", "1.20"): (
            "MISSED"
        ),
    }


def test_table_by_feature_has_a_line_for_each_and_gaps_where_none_was() -> None:
    (table,) = step_time.tables(
        [
            row("adamw", variants.TF_OPT, 10),
            row("adamw", variants.KERAS, 50),
            row("adam", variants.KERAS, 50),  # Not one of them.
            row("adamw-skip-nonfinite", variants.TF_OPT, 12),
        ]
    )
    assert table.title == "ResNet-50"
    assert table.header == ["step", "bytes", variants.TF_OPT, variants.KERAS]
    assert table.lines == [
        ["AdamW", "28", "10 (1.00)", "50 (5.00)"],
        ["AdamW + skip_nonfinite", "32", "12 (1.20)", ""],
    ]


def draw(rows: int, ids: int, zipf: bool) -> Ids:
    drawn = Lookup(rows, ids, zipf, np.random.default_rng(0)).draw()
    assert drawn.all.dtype == drawn.rows.dtype == np.int32
    assert len(drawn.all) == ids
    assert np.all(np.diff(drawn.rows) > 0)
    assert set(drawn.rows) == set(drawn.all) <= set(range(rows))
    return drawn


def test_uniform_ids_repeat_as_many_as_they_say() -> None:
    assert len(draw(1000, 100, zipf=False).rows) == 90
    assert len(draw(3, 100, zipf=False).rows) == 3


def test_zipf_ids_follow_their_law_wherever_the_rows_are() -> None:
    drawn = draw(1000, 100_000, zipf=True)
    counts = np.sort(np.bincount(drawn.all))[::-1]
    np.testing.assert_allclose(counts[0] / counts[1], 2**1.1, rtol=0.1)
    np.testing.assert_allclose(counts[0] / counts[9], 10**1.1, rtol=0.1)
    assert np.argmax(np.bincount(drawn.all)) != 0


def test_each_batch_is_another() -> None:
    lookup = Lookup(1000, 100, False, np.random.default_rng(0))
    assert set(lookup.draw().rows) != set(lookup.draw().rows)


@pytest.mark.parametrize("name", SPARSE_WORKLOADS)
def test_sparse_workloads_name_what_there_is(name: str) -> None:
    workload = SPARSE_WORKLOADS[name]
    assert set(workload.contenders) <= set(sparse_contenders.BUILDERS)
    assert set(workload.optimizers) <= set(sparse.VARIANTS)


@pytest.mark.parametrize("variant", sparse.VARIANTS)
def test_contenders_step_on_the_same_rows(variant: str) -> None:
    workload = dataclasses.replace(
        COMPARED["table-uniform"],
        shapes=((50, 4), (3, 2)),
        ids=8,
    )
    contenders = sparse_contenders.make(
        variants.VARIANTS[variant],
        workload,
        # Their op is the benchmark's own.
        without=(variants.ROW_FLOOR, variants.ALL_ROWS_FLOOR),
    )
    assert (variants.TORCH_SPARSE in contenders) <= (variant == "adam")
    for contender in contenders.values():
        before = contender.norms()
        contender.step()
        assert all(np.not_equal(contender.norms(), before))


def test_sparse_tables_are_by_optimizer_and_by_size() -> None:
    lazy = variants.TF_OPT_LAZY
    tables = sparse.tables(
        [
            row("adam", lazy, 10, "table-zipf"),
            row("adam", variants.KERAS, 500, "table-zipf"),
            row("adam", lazy, 20, "26-tables"),
            row("adam-amsgrad", lazy, 30, "table-zipf"),
            row("adam", lazy, 1, "100-ids"),
            row("adam", lazy, 2, "1000-ids"),
        ]
    )
    assert [(table.title, table.header) for table in tables] == [
        ("Adam", ["contender", "1 M x 64, Zipf", "26 tables"]),
        ("Adam, AMSGrad", ["contender", "1 M x 64, Zipf"]),
        ("Adam, 1,000,000 x 64, by ids", ["contender", "100 ids", "1,000 ids"]),
    ]
    assert tables[0].lines == [
        [lazy, "10 (1.00)", "20 (2.00)"],
        [variants.KERAS, "500 (50.00)", ""],
    ]


def test_sparse_targets_take_the_worst_optimizer() -> None:
    table = targets.table(
        [
            row("adam", variants.TF_OPT_LAZY, 1, "table-zipf"),
            row("adam", variants.KERAS, 300, "table-zipf"),
            row("adam", variants.ROW_FLOOR, 0.8, "table-zipf"),
            row("adam-amsgrad", variants.TF_OPT_LAZY, 2, "table-zipf"),
            row("adam-amsgrad", variants.KERAS, 300, "table-zipf"),
            row("adam-amsgrad", variants.ROW_FLOOR, 1, "table-zipf"),
            row("adam", variants.TF_OPT, 50, "table-zipf"),
        ]
    )
    lazy = variants.TF_OPT_LAZY
    assert [(line[0], *line[2:]) for line in table.lines] == [
        (
            f"{variants.KERAS} / {lazy} >= 200",
            "150.00 (Adam, AMSGrad)",
            "MISSED",
        ),
        (
            f"{lazy} / {variants.ROW_FLOOR} <= 2.00",
            "2.00 (Adam, AMSGrad)",
            "reached",
        ),
        (
            f"{variants.KERAS} / {variants.TF_OPT} >= 8",
            "6.00 (Adam)",
            "MISSED",
        ),
    ]
