"""The benchmark's arithmetic. What it measures is no business of tests."""

from __future__ import annotations

import time

import pytest

import measure
import step_time
import targets
import variants


def row(variant: str, contender: str, ms: float) -> dict:
    """A result on ResNet-50, as case.py reports it."""
    return {
        "workload": "resnet-50",
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
