"""The benchmark's arithmetic. What it measures is no business of tests."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import time

import numpy as np
import pytest
import tensorflow as tf

import in_cache
import low_precision
import low_precision_contenders
import measure
import memory_floor
import sparse
import sparse_contenders
import step_time
import targets
import variants
from low_precision_variants import LOW_PRECISION
from low_precision_variants import MASTERS
from low_precision_variants import MASTERS_STATE_16
from low_precision_variants import PLAIN
from low_precision_variants import STATE_16
from low_precision_variants import STATE_16_STOCHASTIC
from low_precision_variants import STOCHASTIC
from low_precision_variants import TORCH_BFLOAT16
from low_precision_variants import TORCH_FLOAT32
from low_precision_variants import WITHOUT
from low_precision_variants import WORKLOADS
from low_precision_variants import Precision
from shapes import Workload
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
        "samples_ms": [ms],
        "first_call_ms": ms,
        "ratio_to_floor": ms / 5,
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


def test_in_cache_compares_modes_by_instruction_set() -> None:
    rows = [
        {
            "mode": mode,
            "target": target,
            "elements_per_second": rate * 1e9,
            "cycles_per_element": 2.5,
        }
        for target, rate in (("baseline", 1), ("avx2", 3))
        for mode in ("a", "b")
    ]
    table = in_cache.table(rows)
    assert table.header == ["", "baseline", "avx2"]
    assert table.lines == [
        ["a", "1.00 (2.50)", "3.00 (2.50)"],
        ["b", "1.00 (2.50)", "3.00 (2.50)"],
    ]


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


FLOAT32, BFLOAT16, FLOAT16 = LOW_PRECISION


@pytest.mark.parametrize(
    ("precision", "gradient", "arrays"),
    [
        (Precision("float32"), 4, 24),
        (Precision("float32", "bfloat16"), 4, 16),
        (PLAIN, 2, 20),
        (STOCHASTIC, 2, 20),
        (STATE_16, 2, 12),
        # Two moments and the copy, in and out; the variable, in and out.
        (MASTERS, 2, 24 + 4),
        (MASTERS_STATE_16, 2, 16 + 4),
    ],
)
def test_low_precision_floor_counts_each_byte(
    precision: Precision, gradient: int, arrays: int
) -> None:
    same = [precision]
    if precision.variables == "bfloat16":
        same.append(dataclasses.replace(precision, variables="float16"))
    for one in same:
        assert (one.gradient_bytes, one.array_bytes) == (gradient, arrays)
        assert one.bytes_per_parameter == gradient + arrays


def test_low_precision_floor_moves_the_bytes_of_its_contender() -> None:
    for variant in LOW_PRECISION.values():
        for contender, precision in variant.precisions.items():
            floor = variant.floor_of(contender)
            if floor is None:
                # PyTorch in float32, which has its floor where all are.
                assert contender == TORCH_FLOAT32 and variant.dtype != "float32"
                continue
            assert variant.floor_of(floor) == floor
            assert variant.floors[floor].arrays == precision.arrays


def test_low_precision_leaves_out_who_is_there() -> None:
    for (variant, workload), left_out in WITHOUT.items():
        assert workload in WORKLOADS
        assert set(left_out) <= set(LOW_PRECISION[variant].contenders)


@pytest.mark.parametrize("variant", LOW_PRECISION)
def test_low_precision_contenders_step(
    variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def move(gradient, arrays, passes) -> None:
        assert passes == (len(arrays),)
        for array in arrays:
            array.assign_add(tf.cast(gradient, array.dtype))

    # Its op is the benchmark's own, which tests don't have.
    monkeypatch.setattr(memory_floor, "move", move)
    contenders = low_precision_contenders.make(
        LOW_PRECISION[variant], Workload("tiny", [(50, 4), (3,)]), without=()
    )
    assert {PLAIN.tf_opt, PLAIN.floor} <= set(contenders)
    for contender in contenders.values():
        before = contender.norms()
        contender.step()
        assert all(np.not_equal(contender.norms(), before))
        assert np.all(np.isfinite(contender.norms()))


def test_low_precision_floors_share_their_arrays() -> None:
    problem = low_precision_contenders.Problem(
        LOW_PRECISION[FLOAT16], Workload("tiny", [(5,)])
    )
    masters = dataclasses.replace(MASTERS, variables="float16")
    plain = dataclasses.replace(PLAIN, variables="float16")
    arrays = problem.floor_arrays(masters)
    types = [array.dtype.name for array in arrays]
    assert sorted(types) == ["bfloat16", "float32", "float32", "float32"]
    known = {id(array) for array in arrays}
    assert {id(a) for a in problem.floor_arrays(plain)} < known


# Milliseconds, as of a machine that reaches some targets and misses others.
LOW_PRECISION_ROWS = [
    row(FLOAT32, "floor, float32 state", 27, "single"),
    row(FLOAT32, PLAIN.tf_opt, 28, "single"),
    row(FLOAT32, STATE_16.tf_opt, 20, "single"),
    row(FLOAT32, TORCH_FLOAT32, 30, "single"),
    row(FLOAT32, variants.KERAS, 150, "single"),
    row(BFLOAT16, "floor, bfloat16 state", 10, "single"),
    row(BFLOAT16, PLAIN.tf_opt, 22, "single"),
    row(BFLOAT16, STOCHASTIC.tf_opt, 23, "single"),
    row(BFLOAT16, STATE_16.tf_opt, 14, "single"),
    row(BFLOAT16, STATE_16_STOCHASTIC.tf_opt, 15, "single"),
    row(BFLOAT16, MASTERS.tf_opt, 30, "single"),
    row(BFLOAT16, TORCH_FLOAT32, 30, "single"),
    row(BFLOAT16, TORCH_BFLOAT16, 20, "single"),
    row(BFLOAT16, PLAIN.tf_opt, 22, "bert-base"),
]


def test_low_precision_tables_are_by_model_and_of_random_bits() -> None:
    single, bert, bits = low_precision.tables(LOW_PRECISION_ROWS)
    assert single.title == "one of 33.5 M"
    lines = {line[0]: line[1:] for line in single.lines}
    assert lines[f"{FLOAT32.replace('-', ' ')}: {PLAIN.tf_opt}"] == (
        ["4 + 24", "28", "27", "5.60", "1.07"]
    )
    assert lines[f"bfloat16 variables: {MASTERS.tf_opt}"] == (
        ["2 + 28", "30", "", "6.00", "1.00"]
    )
    # Its floor is that of float32 variables, not this one's.
    assert lines[f"bfloat16 variables: {TORCH_FLOAT32}"][:3] == (
        ["4 + 24", "30", ""]
    )
    assert not any("floor" in name for name in lines)
    # Nobody to compare with.
    assert bert.lines == [
        [
            f"bfloat16 variables: {PLAIN.tf_opt}",
            *("2 + 20", "22", "", "4.40", ""),
        ]
    ]
    assert [(line[0], *line[2:]) for line in bits.lines] == [
        ("bfloat16 variables, float32 state", "22", "23", "1.05"),
        ("bfloat16 variables, bfloat16 state", "14", "15", "1.07"),
    ]


def test_low_precision_targets() -> None:
    table = targets.table(LOW_PRECISION_ROWS)
    assert [(line[0], *line[2:]) for line in table.lines] == [
        (
            f"{STATE_16_STOCHASTIC.tf_opt} / {STATE_16.floor} <= 1.25",
            "1.50 (bfloat16 variables)",
            "MISSED",
        ),
        (
            f"{TORCH_FLOAT32} / {STATE_16_STOCHASTIC.tf_opt} >= 1.8",
            "2.00 (bfloat16 variables)",
            "reached",
        ),
        (
            f"{TORCH_FLOAT32} / {STATE_16.tf_opt} >= 1.25",
            "1.50 (float32 variables)",
            "reached",
        ),
        (
            f"{STOCHASTIC.tf_opt} / {PLAIN.tf_opt} <= 1.10",
            "1.05 (bfloat16 variables)",
            "reached",
        ),
    ]


def test_low_precision_run_writes_its_files(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for needed in ("matplotlib", "rich"):
        pytest.importorskip(needed)
    import run
    import terminal

    started = []
    machine = {
        "cpu": "a processor",
        "cores": 2,
        "memory_gib": 24,
        "versions": {},
        "tf_opt_build_info": {"cpu_kernels": "baseline"},
    }

    def pretend(processes, console) -> list[dict]:
        started.extend(process.command[2:] for process in processes)
        return [{"machine": machine, "rows": LOW_PRECISION_ROWS}]

    monkeypatch.setattr(terminal, "run", pretend)
    monkeypatch.setattr(
        "sys.argv", ["run.py", "--low-precision", f"--output={tmp_path}"]
    )
    run.main()
    assert [command[:2] for command in started] == [
        [FLOAT32, "single"],
        [FLOAT32, "bert-base"],
        [BFLOAT16, "single"],
        [BFLOAT16, "bert-base"],
        [FLOAT16, "single"],
    ]
    assert started[3][-2:] == ["--without", variants.KERAS]
    assert "--without" not in started[2]
    results = json.loads((tmp_path / "low-precision.json").read_text())
    assert results["results"] == LOW_PRECISION_ROWS
    written = (tmp_path / "low-precision.md").read_text()
    assert f"# {low_precision.TITLE}" in written
    assert "## Random bits" in written
    assert (tmp_path / "low-precision.png").read_bytes()[1:4] == b"PNG"
