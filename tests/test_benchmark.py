"""The benchmark: every suite runs on tiny models and writes its files."""

import csv

import numpy as np
import pytest
import tensorflow as tf

for needed in ("matplotlib", "rich", "sklearn"):
    pytest.importorskip(needed)


import clients
import contenders
import gradients
import measure
import memory_floor
import plots
import results
import run
import shapes
import suites
import variants
from results import Results


@pytest.mark.parametrize(
    ("name", "passes"),
    [
        ("averaged-sgd", (2,)),
        ("adam", (3,)),
        ("adam-amsgrad", (4,)),
        ("adamw-clip-ema-loss-scale", (0, 4)),
        ("adamw-skip-nonfinite", (0, 3)),
        ("adamw-accumulate", (1, 1, 1, 4)),
    ],
)
def test_floor_moves_what_a_step_must(name, passes) -> None:
    assert variants.VARIANTS[name].passes == passes


@pytest.mark.parametrize("norm", [1.0, np.nan])
def test_measure_refuses_steps_that_mean_nothing(norm: float) -> None:
    with pytest.raises(RuntimeError, match="must change|must stay finite"):
        measure.measure(
            {"it": measure.Contender(lambda: None, lambda: [norm])}, *(3, 60)
        )


def test_zipf_ids_follow_their_law_wherever_the_rows_are() -> None:
    workload = shapes.Workload("", [], ids=100_000, zipf=True)
    ids = next(gradients.draw_ids(1000, workload, np.random.default_rng(0)))
    counts = np.sort(np.bincount(ids))[::-1]
    np.testing.assert_allclose(counts[0] / counts[9], 10**1.1, rtol=0.1)
    assert np.argmax(np.bincount(ids)) != 0


def move(gradient, rows, arrays) -> None:
    for array in arrays:
        # Flips the last bit, as the op does: a second move undoes the first.
        bits = tf.bitcast(
            array, tf.uint16 if array.dtype.size == 2 else tf.uint32
        )
        array.assign(tf.bitcast(bits ^ 1, array.dtype))


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs cases in this process, on small models and for two samples."""

    def once(module, variant, workload, rounds, quick) -> list:
        return run.measure_here(module, variant, workload, 1, quick)

    for workload in shapes.ALL_WORKLOADS.values():
        small = (
            {"shapes": [(50, 4), (3, 8)], "ids": 8}
            if workload.ids
            else {"shapes": [(5, 4), (3,)]}
        )
        for name, value in small.items():
            monkeypatch.setitem(vars(workload), name, value)
    # Tests don't build the benchmark's program. Other tests have set up the
    # threads.
    monkeypatch.setattr(memory_floor, "load", lambda: None)
    monkeypatch.setattr(memory_floor, "move", move)
    monkeypatch.setattr(contenders, "use_all_cores", lambda _: None)
    monkeypatch.setattr(run, "measure", once)
    monkeypatch.setattr(measure.gc, "collect", lambda: 0)
    # As many models are one sample: they share nothing.
    client = clients.CLIENTS["models"]._replace(steps=1)
    monkeypatch.setitem(clients.CLIENTS, "models", client)
    # Tracing these with every feature takes a minute; "results" has them.
    slow = {variants.KERAS, variants.KERAS_EAGER, variants.TF_OPT_EAGER}
    for variant in variants.FEATURES.values():
        few = [name for name in variant.contenders if name not in slow]
        monkeypatch.setitem(vars(variant), "contenders", few)


# All contenders, four optimizers on tables, and processes that train.
LONG = "results", "sparse", "clients"


def test_torch_and_tf_opt_update_the_same_arrays(tiny: None) -> None:
    pytest.importorskip("torch")
    workload = shapes.ALL_WORKLOADS["mlp"]
    variant = variants.VARIANTS["adamw-clip-ema-loss-scale"]
    problem = contenders.Problem(variant, workload)
    names = (variants.TF_OPT_EAGER, variants.TORCH_FUSED) * 2
    steps = {name: contenders._build(problem, name).step for name in names}
    arrays = [array for each in problem.arrays() for array in each]
    for name in names:
        before = [array.numpy() for array in arrays]
        steps[name]()
        for array, old in zip(arrays, before, strict=True):
            assert (array.numpy() != old).all(), name


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in LONG))
        for name in suites.SUITES
    ],
)
def test_quick_run_writes_a_table_a_csv_and_a_picture(
    name, tiny, tmp_path, monkeypatch
) -> None:
    suite = suites.SUITES[name]
    # The other cases differ in their arguments alone.
    cases = suite.cases[-2:]
    if name == "sparse":
        names = "adam-amsgrad", "adagrad", "rmsprop", "ftrl"
        cases = tuple((name, "table-zipf") for name in names)
    monkeypatch.setitem(vars(suite), "cases", cases)
    options = [] if name == suites.DEFAULT else [f"--{name}"]
    workloads = [cases[-1][1]]
    options.append(f"--output={tmp_path}")
    run.main([*options, "--quick", "--workloads", *workloads])
    text = (tmp_path / f"{name}.csv").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    rows = list(csv.DictReader(lines))
    if suite.module == "contenders":
        quick = suites.cases_of(["adam"])
        cases = quick if name == suites.DEFAULT else cases
        assert {(row["variant"], row["workload"]) for row in rows} == {
            each for each in cases if each[1] in workloads
        }
    names = {row["contender"] for row in rows}
    # PyTorch may be missing.
    assert suite.reference in names or suite.reference.startswith("torch")
    tables = results.to_markdown(suite, Results.from_csv(text))
    assert all(part in tables for part in (suite.title, *names))
    picture = tmp_path / f"{name}.png"
    picture.unlink()
    table = picture.with_suffix(".csv")
    run.main([*options, f"--redraw={table}"])
    assert picture.read_bytes()[1:4] == b"PNG"
    assert Results.from_csv(text).to_csv() == text


def test_a_run_without_the_optimizer_to_draw_has_a_picture(tmp_path) -> None:
    measured = measure.Measurement([1.0])
    row = results.row("mlp", "sgd", variants.TF_OPT, measured)
    picture = tmp_path / "picture.png"
    suite = suites.SUITES[suites.DEFAULT]
    plots.save(suite, Results("", "", "", [row]), picture)
    assert picture.read_bytes()[1:4] == b"PNG"


def test_unknown_workloads_are_an_error() -> None:
    with pytest.raises(SystemExit, match="no-such-model"):
        run.main(["--sparse", "--workloads", "no-such-model"])
