"""Measures what `state_device="CPU:0"` saves and costs on a GPU.

    python benchmarks/offload_on_gpu.py [--dry-run] [--timeline FILE]

It trains dense layers without the option, with it, and with `global_clipnorm`
too, each in a process of its own, and prints a table: the peak of the device's
memory, the time of a step, and from a profiler's trace how much of the copies
and of the host's work runs beside the device's kernels. Needs an installed
tf_opt and TensorFlow. With --dry-run two logical CPUs play host and device,
which only shows that the script works and in which order a step's parts run.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent import futures
from typing import Any
from typing import NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
import tf_opt
from tensorflow.tsl.profiler.protobuf import xplane_pb2

HOST = "CPU:0"
OFFLOADED = {"state_device": HOST}
CASES: dict[str, dict[str, Any]] = {
    "usual": {},
    "state_device": OFFLOADED,
    "state_device, global_clipnorm": {**OFFLOADED, "global_clipnorm": 1.0},
}
LAYERS = 8
# The lanes of a timeline.
KERNELS, COPIES, MEASURES, UPDATES = LANES = (
    "forward and backward\npass, device",
    "copies",
    "norms, host",
    "updates, host,\nby portion",
)
# As in examples/pictures.py.
COLORS = {
    KERNELS: "#7f7f7f",
    COPIES: "#000000",
    MEASURES: "#9dc3d4",
    UPDATES: "#0b4f6c",
}
# Starts and ends in milliseconds since the step began.
Spans = list[tuple[float, float]]


class Found(NamedTuple):
    """What was measured of a case.

    Attributes:
        peak_mib: The peak of the device's memory; 0 if it isn't known.
        step_ms: The median time of a step.
        lanes: When the parts of a step ran.
        kinds: The memory that copies go from and to, as CUDA names it.
    """

    peak_mib: float
    step_ms: float
    lanes: dict[str, Spans]
    kinds: list[str]


def make_step(
    options: dict[str, Any], arguments: argparse.Namespace, device: str
) -> Callable[[], tf.Tensor]:
    """Makes a train step of dense layers."""
    shape = arguments.width, arguments.width
    with tf.device(device):
        layers = [
            keras.Variable(
                tf.random.normal(shape, stddev=shape[0] ** -0.5),
                dtype=arguments.dtype,
            )
            for _ in range(LAYERS)
        ]
        x = tf.random.normal((arguments.batch, shape[0]), dtype=arguments.dtype)
    optimizer = tf_opt.Adam(1e-4, master_weights=True, **options)
    optimizer.build(layers)

    @tf.function(autograph=False)
    def step() -> tf.Tensor:
        with tf.device(device):
            with tf.GradientTape() as tape:
                y = x
                for layer in layers:
                    y = tf.tanh(y @ layer)
                loss = tf.reduce_mean(tf.square(y))
            gradients = tape.gradient(loss, layers)
        optimizer.apply(gradients, layers)
        return loss

    return step


def _lane(plane: str, line: str, name: str) -> str | None:
    """Returns the lane of an event, None if it isn't shown."""
    if plane.startswith("/device:GPU"):
        if "Stream" not in line:
            return None
        copies = "MemcpyH2D", "MemcpyD2H"
        return COPIES if name.startswith(copies) else KERNELS
    # An op's event is named "path:Op".
    path, _, op = name.partition(":")
    if not line.startswith("tf_") or not op or op.startswith(":"):
        return None
    if "MeasureGradients" in op:
        return MEASURES
    if "ResourceApply" in op:
        return UPDATES
    if tf.config.list_physical_devices("GPU") or op.startswith("_"):
        # The names of the CPU's matrix products begin with "_Mkl".
        return KERNELS if "MatMul" in op else None
    if path.startswith("adam/"):
        return COPIES if op == "AssignVariableOp" else None
    return KERNELS


def trace(step: Callable[[], Any]) -> tuple[dict[str, Spans], list[str]]:
    """Runs a step under the profiler; returns its lanes and kinds of copies."""
    lanes: dict[str, Spans] = {lane: [] for lane in LANES}
    kinds = set()
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        step()
        tf.test.experimental.sync_devices()
        tf.profiler.experimental.stop()
        (file,) = pathlib.Path(folder).rglob("*.xplane.pb")
        planes = xplane_pb2.XSpace.FromString(file.read_bytes()).planes
    for plane in planes:
        for line in plane.lines:
            for event in line.events:
                name = plane.event_metadata[event.metadata_id].name
                lane = _lane(plane.name, line.name, name)
                if lane is None:
                    continue
                start = line.timestamp_ns / 1e6 + event.offset_ps / 1e9
                lanes[lane].append((start, start + event.duration_ps / 1e9))
                for stat in event.stats:
                    key = plane.stat_metadata[stat.metadata_id].name
                    if key == "memcpy_details":
                        text = stat.str_value or (
                            plane.stat_metadata[stat.ref_value].name
                        )
                        kinds.add(" ".join(text.split()[:2]))
    first = min(span[0] for spans in lanes.values() for span in spans)
    return {
        lane: sorted((start - first, end - first) for start, end in spans)
        for lane, spans in lanes.items()
    }, sorted(kinds)


def measure(options: dict[str, Any], arguments: argparse.Namespace) -> Found:
    """Measures a case in this process."""
    device = "GPU:0"
    if arguments.dry_run:
        tf.config.set_visible_devices([], "GPU")
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            [tf.config.LogicalDeviceConfiguration()] * 2,
        )
        device = "CPU:1"
    step = make_step(options, arguments, device)
    for _ in range(3):  # The first traces, the next ones fill caches.
        step()
    tf.test.experimental.sync_devices()
    if not arguments.dry_run:
        tf.config.experimental.reset_memory_stats(device)
    times = []
    for _ in range(arguments.steps):
        start = time.perf_counter()
        loss = step()
        tf.test.experimental.sync_devices()
        times.append(1e3 * (time.perf_counter() - start))
    if not np.isfinite(float(loss)):
        raise RuntimeError("The loss must stay finite.")
    peak = 0
    if not arguments.dry_run:
        peak = tf.config.experimental.get_memory_info(device)["peak"]
    return Found(peak / 2**20, statistics.median(times), *trace(step))


def _united(spans: Spans) -> Spans:
    """Unites spans that touch or overlap."""
    found: Spans = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def beside(spans: Spans, others: Spans) -> tuple[float, float]:
    """Returns how long spans are, and how much of that is beside others."""
    spans, others = _united(spans), _united(others)
    common = sum(
        max(0.0, min(end, other_end) - max(start, other_start))
        for start, end in spans
        for other_start, other_end in others
    )
    return sum(end - start for start, end in spans), common


def table(found: dict[str, Found]) -> str:
    """Formats what was measured in Markdown."""
    lines = [
        "| | peak, MiB | step, ms | copies, ms | beside kernels | host, ms "
        "| beside kernels | after the last kernel, ms | copies from, to |",
        f"| :-- {'| --: ' * 7}| :-- |",
    ]
    for name, each in found.items():
        kernels = each.lanes[KERNELS]
        peak = f"{each.peak_mib:,.0f}" if each.peak_mib else "-"
        cells = [name, peak, f"{each.step_ms:.1f}"]
        host = each.lanes[MEASURES] + each.lanes[UPDATES]
        for spans in (each.lanes[COPIES], host):
            total, common = beside(spans, kernels)
            share = f"{common / total:.0%}" if total else "-"
            cells += [f"{total:.1f}", share]
        last = max(end for spans in each.lanes.values() for _, end in spans)
        cells.append(f"{last - max(end for _, end in kernels):.1f}")
        cells.append("; ".join(each.kinds) or "-")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(found: dict[str, Found], path: pathlib.Path) -> None:
    """Draws the timeline of a step of each case that is offloaded."""
    from matplotlib.figure import Figure

    cases = {name: each for name, each in found.items() if name != "usual"}
    figure = Figure(figsize=(9, 2.4 * len(cases)), layout="constrained")
    panels = figure.subplots(len(cases), sharex=True)
    for axes, (name, each) in zip(panels, cases.items(), strict=True):
        shown = [lane for lane in LANES if each.lanes[lane]]
        for y, lane in enumerate(shown):
            spans = [(start, end - start) for start, end in each.lanes[lane]]
            # Lines in their own color keep the shortest visible.
            axes.broken_barh(
                *(spans, (y - 0.35, 0.7)),
                facecolor=COLORS[lane],
                edgecolor=COLORS[lane] if lane == COPIES else "white",
                linewidth=1.2 if lane == COPIES else 0.4,
            )
        end = max(end for _, end in each.lanes[KERNELS])
        axes.axvline(end, color="#404040", lw=0.8, ls=":")
        axes.set_yticks(range(len(shown)), shown, fontsize=8)
        axes.invert_yaxis()
        axes.set_title(name, loc="left", fontsize=9, fontweight="bold")
        axes.grid(alpha=0.3, axis="x")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    panels[-1].set_xlabel("ms of a step (dotted: the backward pass ends)")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Measures all cases, prints the table and draws the timeline."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dry-run", action="store_true", help="needs no GPU")
    parser.add_argument("--timeline", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--batch", type=int, default=16384)
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    if not (arguments.dry_run or tf.config.list_physical_devices("GPU")):
        raise SystemExit("TensorFlow finds no GPU. See --dry-run.")
    found = {}
    for name, options in CASES.items():
        # The peak of one must not include what another one left.
        processes = multiprocessing.get_context("spawn")
        with futures.ProcessPoolExecutor(1, processes) as executor:
            measured = executor.submit(measure, options, arguments)
            found[name] = measured.result()
    print(table(found))
    if arguments.timeline:
        draw(found, arguments.timeline)


if __name__ == "__main__":
    main()
