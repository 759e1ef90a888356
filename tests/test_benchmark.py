"""The benchmark: every suite runs on tiny models and writes its files."""

from __future__ import annotations

import itertools
import json
import pathlib
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

for needed in ("matplotlib", "rich", "sklearn"):
    pytest.importorskip(needed)

import case
import compiled_fit
import in_cache
import measure
import memory_floor
import optimizer_steps
import results
import run
import shapes
import sparse_contenders
import suites
import terminal
import variants
from results import Results
from results import Row


@pytest.mark.parametrize(
    ("name", "passes"),
    [
        ("averaged-sgd", (2,)),
        ("asgd", (3,)),
        ("adam", (3,)),
        ("adam-amsgrad", (4,)),
        ("adamw-clip", (0, 3)),
        ("adamw-ema", (4,)),
        ("adamw-clip-ema-loss-scale", (0, 4)),
        ("adamw-skip-nonfinite", (0, 3)),
        ("adamw-accumulate", (1, 1, 1, 4)),
    ],
)
def test_floor_moves_what_a_step_must(
    name: str, passes: tuple[int, ...]
) -> None:
    assert variants.VARIANTS[name].passes == passes


def test_variants_without_a_feature_exist_and_lack_only_it() -> None:
    for variant in variants.FEATURES.values():
        without = variants.VARIANTS[variant.without]
        assert without != variant
        assert without.arguments.items() <= variant.arguments.items()


def test_low_precision_contenders_have_floors_of_their_types() -> None:
    for variant in variants.LOW_PRECISION.values():
        for precision in variant.precisions.values():
            assert variant.floors[precision.floor].arrays == precision.arrays
            assert precision.variables == variant.dtype
            assert {precision.floor, precision.tf_opt} <= {*variant.contenders}


def contender(seconds: float = 0, **options) -> measure.Contender:
    """Changes with each step, of which it counts how many there were."""
    steps = []

    def step() -> None:
        steps.append(None)
        time.sleep(seconds)

    return measure.Contender(step, lambda: [float(len(steps))], **options)


def measured(contenders, **options) -> dict[str, measure.Measurement]:
    return measure.measure(
        contenders,
        seconds=60,
        on_progress=lambda doing, part: None,
        **{"rounds": 3, "steps": 1, **options},
    )


def test_sample_of_accumulated_steps_is_the_mean_of_a_micro_step() -> None:
    it = contender(0.02)
    found = measured({"it": it}, rounds=2, micro_steps=4)["it"]
    assert it.norms() == [3]
    assert len(found.samples) == 2
    # Nothing sleeps less than it should; a machine so slow that four times as
    # much passes is no place for tests.
    assert all(5 <= sample < 20 for sample in found.samples)
    assert found.first_call >= 20


def test_contender_chooses_how_many_steps_a_sample_is_the_mean_of() -> None:
    few, others = contender(steps=1), contender()
    measured({"few": few, "others": others}, steps=10)
    # The first call, then in each round the timed ones; and a fifth of several
    # before them.
    assert few.norms() + others.norms() == [1 + 3, 1 + 3 * 12]


@pytest.mark.parametrize("norm", [1.0, np.nan])
def test_measure_refuses_steps_that_mean_nothing(norm: float) -> None:
    with pytest.raises(RuntimeError, match="must change|must stay finite"):
        measured({"it": measure.Contender(lambda: None, lambda: [norm])})


def draw(rows: int, ids: int, zipf: bool) -> np.ndarray:
    workload = shapes.Workload("", [], ids=ids, zipf=zipf)
    drawn = sparse_contenders.draw_ids(rows, workload, np.random.default_rng(0))
    first, second = itertools.islice(drawn, 2)
    assert first.dtype == np.int32
    assert len(first) == len(second) == ids
    assert {*first, *second} <= set(range(rows))
    assert not np.array_equal(first, second)
    return first


def test_uniform_ids_repeat_a_tenth() -> None:
    assert len(set(draw(1000, 100, zipf=False))) == 90
    assert len(set(draw(3, 100, zipf=False))) == 3


def test_zipf_ids_follow_their_law_wherever_the_rows_are() -> None:
    ids = draw(1000, 100_000, zipf=True)
    counts = np.sort(np.bincount(ids))[::-1]
    np.testing.assert_allclose(counts[0] / counts[1], 2**1.1, rtol=0.1)
    np.testing.assert_allclose(counts[0] / counts[9], 10**1.1, rtol=0.1)
    assert np.argmax(np.bincount(ids)) != 0


def row(workload: str, name: str, ms: float, variant: str = "adam") -> Row:
    return Row.of(workload, variant, name, samples=[ms], first_call=9 * ms)


def results_of(*rows: Row) -> Results:
    return Results("a processor", "software 1, other 2", "`make`", [*rows])


def test_results_are_read_as_they_were_written(tmp_path: pathlib.Path) -> None:
    written = results_of(
        row("single", variants.TF_OPT, 1.25),
        row("embeddings of 3,118 words", "Keras", 3.5),
    )
    path = tmp_path / "results.csv"
    path.write_text(written.to_csv())
    assert Results.read(path) == written


def test_tables_have_ratios_gaps_and_first_calls() -> None:
    name = variants.TF_OPT_XLA
    found = results_of(
        row("resnet-50", name, 10, "adam-compiled"),
        row("resnet-50", variants.KERAS_XLA, 500, "adam-compiled"),
        row("single", name, 0.5, "adam-compiled"),
    )
    step, first_call = results.tables(suites.SUITES["compiled"], found)
    assert step.header == ["contender", "ResNet-50", "one of 33.5 M"]
    assert step.lines == [
        [name, "10 (1.00)", "0.5 (1.00)"],
        [variants.KERAS_XLA, "500 (50.00)", ""],
    ]
    assert first_call.title == "Adam under XLA, first call"
    assert first_call.lines[1][1] == "4,500 (50.00)"


def test_sparse_tables_are_by_optimizer_and_by_size() -> None:
    lazy = variants.TF_OPT_LAZY
    tables = results.tables(
        suites.SUITES["sparse"],
        results_of(
            row("table-zipf", lazy, 10),
            row("table-zipf", lazy, 30, "adam-amsgrad"),
            row("100-ids", lazy, 1),
            row("1000-ids", lazy, 2),
        ),
    )
    assert [
        (table.title.split(", 1,")[0], table.header) for table in tables
    ] == [
        ("Adam", ["contender", "1 M x 64, Zipf"]),
        ("Adam, AMSGrad", ["contender", "1 M x 64, Zipf"]),
        ("Adam, by ids in a batch", ["contender", "100 ids", "1,000 ids"]),
    ]


def move(gradient, arrays, passes) -> None:
    for array in arrays[: passes[-1]]:
        array.assign_add(tf.cast(gradient, array.dtype))


def move_rows(gradient, rows, arrays) -> None:
    for array in arrays:
        array.assign(array + 1)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs cases in this process, on small models and for two samples."""

    def run_here(cases, console) -> list[dict]:
        messages = []
        for arguments in cases:
            case.main(
                [x.replace("=5", "=1") for x in arguments],
                lambda **message: messages.append(message),
            )
        return [
            json.loads(json.dumps(each)) for each in messages if "rows" in each
        ]

    for workload in shapes.ALL_WORKLOADS.values():
        small = (
            {"shapes": [(50, 4), (3, 2)], "ids": 8}
            if workload.ids
            else {"shapes": [(5, 4), (3,)]}
        )
        for name, value in (*small.items(), ("steps", 1)):
            monkeypatch.setitem(vars(workload), name, value)
    # Tests don't build the benchmark's programs. Other tests have set up the
    # threads. A fit takes a minute.
    monkeypatch.setattr(compiled_fit, "fit", lambda *_: [5.0, 2.0])
    monkeypatch.setattr(memory_floor, "load", lambda: None)
    monkeypatch.setattr(memory_floor, "move", move)
    monkeypatch.setattr(memory_floor, "move_rows", move_rows)
    monkeypatch.setattr(optimizer_steps, "use_all_cores", lambda: None)
    fake = f'[{{"mode": "float32", "target": "avx2", {IN_CACHE}}}]'
    monkeypatch.setattr(
        in_cache, "PROGRAM", [sys.executable, "-c", f"print('{fake}')"]
    )
    monkeypatch.setattr(terminal, "run", run_here)


IN_CACHE = '"elements_per_second": 4e9, "cycles_per_element": 1.5'


@pytest.mark.parametrize("name", suites.SUITES)
def test_quick_run_writes_a_table_a_csv_and_a_picture(
    name: str, tiny: None, tmp_path: pathlib.Path
) -> None:
    suite = suites.SUITES[name]
    options = [] if name == suites.DEFAULT else [f"--{name}"]
    workloads = {"sparse": ["table-zipf", "100-ids"]}.get(
        name, [suite.cases[-1][1]]
    )
    options.append(f"--output={tmp_path}")
    if name == "features":
        # Tracing these with every feature takes a minute; "results" has them.
        options += ["--without", variants.KERAS, variants.KERAS_EAGER]
        options += [variants.TF_CORE, variants.CALL, variants.TF_OPT_EAGER]
    run.main([*options, "--quick", "--workloads", *workloads])
    written = Results.read(tmp_path / f"{name}.csv")
    measured = {(row.variant, row.workload) for row in written.rows}
    if suite.module == "optimizer_steps":
        quick = suites.cases_of(["adam"])
        cases = quick if name == suites.DEFAULT else suite.cases
        assert measured == {each for each in cases if each[1] in workloads}
    assert suite.reference in {row.contender for row in written.rows} or (
        name in ("in-cache", "low-precision")
    )
    text = (tmp_path / f"{name}.md").read_text()
    for table in results.tables(suite, written):
        assert table.to_markdown() in text
    picture = tmp_path / f"{name}.png"
    assert picture.read_bytes()[1:4] == b"PNG"
    # An earlier run's files can be written again.
    again = tmp_path / "again"
    options.append(f"--output={again}")
    run.main([*options, f"--from={tmp_path / name}.csv"])
    assert (again / f"{name}.md").read_text() == text


def test_unknown_workloads_are_an_error() -> None:
    with pytest.raises(SystemExit, match="no-such-model"):
        run.main(["--sparse", "--workloads", "no-such-model"])
