"""Runs the measurements that run.sh compiled and prints them in one table.

    python3 measure.py FOLDER [--rounds N]

FOLDER holds the program `speed`. The workloads are those of `make bench`, and
a larger one, and gradients of some rows of a table. Needs only Python; where
its PyTorch sees the GPU, the table has the times of PyTorch's optimizers, too,
and of FBGEMM's (`fbgemm-gpu`).
"""

import argparse
import contextlib
import itertools
import math
import pathlib
import re
import statistics
import subprocess
import sys
from collections.abc import Callable

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "benchmarks"))
import shapes

torch = fbgemm = None
with contextlib.suppress(ImportError, OSError):  # OSError: it lacks a library.
    import torch
    from fbgemm_gpu import split_table_batched_embeddings_ops_training as fbgemm

# Of a workload and case.
Key = tuple[str, str]

# By what speed.cc calls the same.
_OPTIMIZERS = {
    "AdamAmsgrad": ("Adam", {"capturable": True}),
    "AdamAmsgrad, all slots": ("Adam", {"capturable": True, "amsgrad": True}),
    "SGD": ("SGD", {}),
    "SGD, all slots": ("SGD", {"momentum": 0.9}),
}
# PyTorch's, which has none by row, and FBGEMM's.
_ROW_OPTIMIZERS = {
    "AdamAmsgrad, lazy": ("SparseAdam", "ADAM"),
    "Adagrad, lazy": ("Adagrad", "EXACT_ADAGRAD"),
    "Adagrad, row-wise": ("Adagrad", "EXACT_ROWWISE_ADAGRAD"),
    "SGD, lazy": ("SGD", "EXACT_SGD"),
}
_REPETITIONS = 20


def workloads() -> dict[str, list[shapes.Shape]]:
    """The tensors of each workload, by its title."""
    found = {each.title: each.shapes for each in shapes.WORKLOADS.values()}
    # Far larger than any cache.
    found["BERT-base x 8"] = 8 * shapes.WORKLOADS["bert-base"].shapes
    return found


def table(speed: dict[Key, list[str]], *others: dict[Key, float]) -> str:
    """The measurement in Markdown, beside the others' milliseconds."""
    lines = [
        "| workload | optimizer | launches | ms | GB/s | copy, GB/s | share "
        "| PyTorch, ms | FBGEMM, ms |",
        "| :-- | :-- " + "| --: " * 7 + "|",
    ]
    for key, columns in speed.items():
        cells = [*key, *columns[-1:], *4 * ["-"]]  # It had too little memory.
        if len(columns) == 4:
            share = float(columns[2]) / float(columns[3])
            cells = [*key, *columns, f"{share:.0%}"]
        cells += [f"{x[key]:.4f}" if key in x else "-" for x in others]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def milliseconds(tensors: list[shapes.Shape], rounds: int) -> dict[str, float]:
    """Returns each optimizer's median time of a step, without Python's part.

    A step is captured as a CUDA graph, which is replayed.
    """
    parameters = [
        torch.nn.Parameter(torch.rand(x, device="cuda")) for x in tensors
    ]
    for parameter in parameters:
        parameter.grad = torch.rand_like(parameter)
    times = {}
    for case, (name, arguments) in _OPTIMIZERS.items():
        make = getattr(torch.optim, name)
        optimizer = make(parameters, lr=1e-3, fused=True, **arguments)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            optimizer.step()  # Makes the state, which a graph must not.
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            optimizer.step()
        times[case] = _median(graph.replay, rounds)
        del optimizer, graph  # Their memory.
    return times


def row_steps(title: str, case: str) -> list[Callable[[], None]]:
    """Returns PyTorch's step on some rows, as speed.cc calls it, and FBGEMM's.

    PyTorch's waits for the device, so no graph can hold it. FBGEMM's is a
    backward pass, in which it updates its table.
    """
    numbers, kind = re.match(r"(.*\d) (\D+)", title).groups()
    rows, width, count = map(int, re.findall(r"\d+", numbers))
    x = torch.rand(_REPETITIONS, count, device="cuda", dtype=torch.float64)
    ranks = {"uniform": rows * x, "zipf": rows**x - 1}.get(kind, 7 + 0 * x)
    ids = ranks.long() * 6180339 % rows
    next_ids = itertools.cycle(ids)
    values = torch.rand(count, width, device="cuda")
    table = torch.nn.Parameter(torch.rand(rows, width, device="cuda"))
    theirs, of_fbgemm = _ROW_OPTIMIZERS[case]
    optimizer = getattr(torch.optim, theirs)([table], lr=1e-3)

    def step() -> None:
        table.grad = torch.sparse_coo_tensor(
            next(next_ids)[None], values, table.shape, check_invariants=False
        )
        optimizer.step()

    if fbgemm is None:
        return [step]
    place = fbgemm.EmbeddingLocation.DEVICE, fbgemm.ComputeDevice.CUDA
    lookup = fbgemm.SplitTableBatchedEmbeddingBagsCodegen(
        [(rows, width, *place)],
        optimizer=fbgemm.OptimType[of_fbgemm],
        pooling_mode=fbgemm.PoolingMode.NONE,
    )
    offsets = torch.arange(count + 1, device="cuda")
    found = itertools.cycle([lookup(x, offsets) for x in ids])
    return [step, lambda: next(found).backward(values, retain_graph=True)]


def _median(step: Callable[[], None], rounds: int) -> float:
    times = []
    for _ in range(rounds + 1):  # The first one warms up.
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(_REPETITIONS):
            step()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / _REPETITIONS)
    return statistics.median(times[1:])


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    print("==> Against a copy that moves as many bytes", flush=True)
    command = [arguments.folder.resolve() / "speed", str(arguments.rounds)]
    command.append("tables")
    for title, tensors in workloads().items():
        sizes = " ".join(str(math.prod(shape)) for shape in tensors)
        command.append(f"{title}\t{sizes}")
    speed = {}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True
    ) as program:
        for line in program.stdout:
            print(line, end="", flush=True)
            workload, case, *columns = line.rstrip("\n").split("\t")
            speed[workload, case] = columns
    if program.returncode != 0:
        parser.error(f"`speed` failed with status {program.returncode}")
    fused, of_fbgemm = {}, {}
    if torch is not None and torch.cuda.is_available():
        print("==> PyTorch's optimizers, and FBGEMM's", flush=True)
        if fbgemm is None:
            print("FBGEMM is skipped: `import fbgemm_gpu` fails")
        for key in speed:
            steps = row_steps(*key) if key[1] in _ROW_OPTIMIZERS else []
            for times, step in zip((fused, of_fbgemm), steps, strict=False):
                times[key] = _median(step, arguments.rounds)
        for title, tensors in workloads().items():
            try:
                times = milliseconds(tensors, arguments.rounds)
            except RuntimeError as error:  # Out of memory, say.
                print(f"{title}: {error}")
                continue
            fused |= {(title, case): time for case, time in times.items()}
    print(table(speed, fused, of_fbgemm))


if __name__ == "__main__":
    main()
