"""Measures the steps of one optimizer on one workload."""

from __future__ import annotations

# First: it imports torch, and some versions crash if TensorFlow came before.
import contenders

# isort: split
from collections.abc import Collection

import tensorflow as tf
import tf_opt

import machine
import measure as turns
import memory_floor
import sparse_contenders
from case import Options
from results import Row
from shapes import ALL_WORKLOADS
from shapes import Workload
from torch_contenders import torch
from variants import ALL_VARIANTS
from variants import TORCH_SPARSE
from variants import Variant


def use_all_cores() -> None:
    """Gives TensorFlow and torch the same number of threads."""
    cores = machine.count_cores()
    tf.config.threading.set_intra_op_parallelism_threads(cores)
    tf.config.threading.set_inter_op_parallelism_threads(cores)
    if torch is not None:
        torch.set_num_threads(cores)


def _check_prerequisites() -> None:
    memory_floor.load()
    info = tf_opt.build_info()
    if info["custom_ops"] != "loaded":
        raise RuntimeError(
            "Expected tf_opt's custom ops to be loaded, but: "
            f"{info['custom_ops']}. Run `make bench`, which installs them."
        )


def contenders_of(
    variant: Variant, workload: Workload, without: Collection[str] = ()
) -> dict[str, turns.Contender]:
    """Makes the contenders that can run on this machine."""
    left_out = set(without)
    if "amsgrad" in variant.arguments:
        left_out.add(TORCH_SPARSE)  # It has no AMSGrad.
    names = [
        name
        for name in workload.contenders or variant.contenders
        if name not in left_out
        and (torch is not None or not name.startswith("torch"))
    ]
    module = sparse_contenders if workload.ids else contenders
    problem = module.Problem(variant, workload)
    return {name: module.build(problem, name) for name in names}


def measure(variant: str, workload: str, options: Options) -> list[Row]:
    """Measures a case."""
    use_all_cores()
    _check_prerequisites()
    optimizer, model = ALL_VARIANTS[variant], ALL_WORKLOADS[workload]
    measured = turns.measure(
        contenders_of(optimizer, model, options.without),
        rounds=options.rounds,
        seconds=1.5 if options.quick else 6.0,
        # The loops of accumulating optimizers are no longer than the others'.
        steps=max(1, model.steps // optimizer.micro_steps),
        on_progress=options.on_progress,
        micro_steps=optimizer.micro_steps,
    )
    return [
        Row.of(
            *(workload, variant, name),
            samples=times.samples,
            first_call=times.first_call,
        )
        for name, times in measured.items()
    ]
