"""Contenders for sparse gradients of embedding tables."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from collections.abc import Iterator
from typing import NamedTuple

# Before TensorFlow.
from torch_contenders import torch

# isort: split
import keras
import numpy as np
import tensorflow as tf
import tf_opt

import contenders
import memory_floor
import variants
from measure import Contender
from shapes import Shape
from shapes import Workload
from variants import Variant

# A part of uniformly drawn ids repeats others of its batch.
_REPEATED = 0.1
_ZIPF_EXPONENT = 1.1

# All batches together have this many ids for each table, within bounds, so that
# a row has left the caches when its batch comes again.
_IDS_OF_ALL_BATCHES = 2**18
_MOST_BATCHES = 256
_FEWEST_BATCHES = 8


class Batch(NamedTuple):
    """The gradients of one step, an entry for each table.

    Attributes:
        values: A row for each id.
        ids: The ids, as a batch has them.
        rows: The rows among them, sorted and without repeats.
    """

    values: list[tf.Tensor]
    ids: list[tf.Tensor]
    rows: list[tf.Tensor]


# A step takes values, and ids or rows.
Step = Callable[[list[tf.Tensor], list[tf.Tensor]], object]


def draw_ids(
    rows: int, workload: Workload, generator: np.random.Generator
) -> Iterator[np.ndarray]:
    """Draws the ids that one batch after the other looks up in a table."""
    if workload.zipf:
        weights = np.arange(1, rows + 1) ** -_ZIPF_EXPONENT
        cumulative = np.cumsum(weights / weights.sum())
        # Frequent rows may be anywhere in the table.
        row_of_rank = generator.permutation(rows)
        while True:
            places = generator.random(workload.ids)
            ranks = np.searchsorted(cumulative, places)
            # The last sum may round to less than 1.
            ids = row_of_rank[np.minimum(ranks, rows - 1)]
            yield ids.astype(np.int32)
    distinct = min(rows, round((1 - _REPEATED) * workload.ids))
    while True:
        chosen = generator.choice(rows, distinct, replace=False)
        repeated = generator.choice(chosen, workload.ids - distinct)
        ids = generator.permutation(np.concatenate([chosen, repeated]))
        yield ids.astype(np.int32)


class Problem:
    """One optimizer on some tables, and what contenders share.

    As in `contenders.Problem`, contenders of one family share their variables
    and slots, and all share the gradients.
    """

    def __init__(self, variant: Variant, workload: Workload) -> None:
        """Draws the batches."""
        self.variant = variant
        self.workload = workload
        generator = np.random.default_rng(0)
        drawn = [
            draw_ids(rows, workload, generator) for rows, _ in workload.shapes
        ]
        count = _IDS_OF_ALL_BATCHES // workload.ids
        count = max(_FEWEST_BATCHES, min(count, _MOST_BATCHES))
        self.batches = [
            self._batch(list(map(next, drawn))) for _ in range(count)
        ]

    def _batch(self, ids: list[np.ndarray]) -> Batch:
        values = [
            _random((self.workload.ids, width))
            for _, width in self.workload.shapes
        ]
        rows = list(map(tf.constant, map(np.unique, ids)))
        return Batch(values, list(map(tf.constant, ids)), rows)

    @functools.cached_property
    def lazy(self) -> tuple[Step, list[tf.Variable]]:
        """A step of tf_opt's that updates the rows that occur."""
        return self._step_of(
            contenders.tf_opt_optimizer(self.variant, lazy_mode=True)
        )

    @functools.cached_property
    def exact(self) -> tuple[Step, list[tf.Variable]]:
        """A step of tf_opt's that updates all rows."""
        return self._step_of(contenders.tf_opt_optimizer(self.variant))

    @functools.cached_property
    def keras(self) -> tuple[Step, list[tf.Variable]]:
        """A step of Keras'."""
        return self._step_of(contenders.keras_optimizer(self.variant))

    def _step_of(
        self, optimizer: keras.optimizers.Optimizer
    ) -> tuple[Step, list[tf.Variable]]:
        shapes = self.workload.shapes
        variables = [keras.Variable(_random(shape)) for shape in shapes]
        optimizer.build(variables)
        sizes = list(map(tf.constant, shapes))

        def step(values: list[tf.Tensor], ids: list[tf.Tensor]) -> None:
            gradients = list(map(tf.IndexedSlices, values, ids, sizes))
            optimizer.apply(gradients, variables)

        return step, [variable.value for variable in variables]

    @functools.cached_property
    def floor_arrays(self) -> list[list[tf.Variable]]:
        """The arrays of each table that the floors move."""
        return [
            [tf.Variable(_random(shape)) for _ in range(1 + self.variant.slots)]
            for shape in self.workload.shapes
        ]

    def function(self, step: Step) -> Step:
        """Makes a tf.function that doesn't know how many rows there are.

        As in training, where only the batch knows it.
        """
        shapes = self.workload.shapes
        return tf.function(
            step,
            input_signature=(
                [tf.TensorSpec([None, width]) for _, width in shapes],
                [tf.TensorSpec([None], tf.int32) for _ in shapes],
            ),
        )

    def contender(
        self,
        step: Step,
        variables: list[tf.Variable],
        rows: list[tf.Tensor] | str = "ids",
        **options: int,
    ) -> Contender:
        """Makes a contender that takes a batch in each step."""
        batches = itertools.cycle(self.batches)
        first = self.batches[0].rows

        def take() -> None:
            batch = next(batches)
            step(
                batch.values,
                getattr(batch, rows) if isinstance(rows, str) else rows,
            )

        # A step changes the norm of all rows too little to see.
        return Contender(
            take,
            lambda: [
                2 * float(tf.nn.l2_loss(tf.gather(variable, some)))
                for variable, some in zip(variables, first, strict=True)
            ],
            **options,
        )


def _random(shape: Shape) -> tf.Tensor:
    return tf.random.normal(shape, stddev=0.02)


def _measuring(problem: Problem) -> Contender:
    rows = [rows for rows, _ in problem.workload.shapes]

    def measure(values: list[tf.Tensor], ids: list[tf.Tensor]) -> tf.Tensor:
        gradients = list(map(tf.IndexedSlices, values, ids))
        return tf_opt.ops.measure_gradients(
            gradients, rows=rows, lazy_mode=True
        ).sums_of_squares

    function = problem.function(measure)
    # It updates nothing: its results have to change instead.
    measured = tf.zeros(len(rows))

    def step(values: list[tf.Tensor], ids: list[tf.Tensor]) -> None:
        nonlocal measured
        measured = function(values, ids)

    taking = problem.contender(step, problem.lazy[1])
    return Contender(taking.step, lambda: measured.numpy().tolist())


def _move(
    problem: Problem,
) -> tuple[Step, list[tf.Variable]]:
    """A step that only moves the bytes of some rows."""
    arrays = problem.floor_arrays

    def step(values: list[tf.Tensor], rows: list[tf.Tensor]) -> None:
        for gradient, some, updated in zip(values, rows, arrays, strict=True):
            memory_floor.move_rows(gradient, some, updated)

    return step, [array[0] for array in arrays]


def _row_floor(problem: Problem) -> Contender:
    step, variables = _move(problem)
    return problem.contender(problem.function(step), variables, "rows")


def _all_rows_floor(problem: Problem) -> Contender:
    all_rows = [tf.range(rows) for rows, _ in problem.workload.shapes]
    return problem.contender(*_move(problem), all_rows, steps=1)


def _torch(problem: Problem) -> Contender:
    tables = [
        torch.nn.Parameter(0.02 * torch.randn(shape))
        for shape in problem.workload.shapes
    ]

    def gradients(batch: Batch) -> list[torch.Tensor]:
        # DLPack shares the memory.
        return [
            torch.sparse_coo_tensor(
                torch.tensor(ids.numpy(), dtype=torch.int64)[None],
                torch.from_dlpack(tf.experimental.dlpack.to_dlpack(values)),
                table.shape,
                check_invariants=True,
            )
            for values, ids, table in zip(
                batch.values, batch.ids, tables, strict=True
            )
        ]

    all_gradients = itertools.cycle(list(map(gradients, problem.batches)))
    optimizer = torch.optim.SparseAdam(
        tables,
        lr=variants.LEARNING_RATE,
        betas=(variants.BETA_1, variants.BETA_2),
        eps=variants.EPSILON,
    )

    def step() -> None:
        for table, gradient in zip(tables, next(all_gradients), strict=True):
            table.grad = gradient
        optimizer.step()

    first = [torch.tensor(rows.numpy()) for rows in problem.batches[0].rows]
    return Contender(
        step,
        lambda: [
            float(table.detach()[rows].square().sum())
            for table, rows in zip(tables, first, strict=True)
        ],
    )


def _in_graph(
    problem: Problem, family: tuple[Step, list[tf.Variable]], **options: int
) -> Contender:
    step, variables = family
    return problem.contender(problem.function(step), variables, **options)


# How to make each contender, by its name in the tables. Contenders that take
# time for all rows do one step at a time.
_BUILDERS: dict[str, Callable[[Problem], Contender]] = {
    variants.ROW_FLOOR: _row_floor,
    variants.ALL_ROWS_FLOOR: _all_rows_floor,
    variants.TF_OPT_LAZY: lambda problem: _in_graph(problem, problem.lazy),
    variants.TF_OPT_LAZY_EAGER: lambda problem: problem.contender(
        *problem.lazy
    ),
    variants.TF_OPT_MEASURING: _measuring,
    variants.TF_OPT: lambda problem: _in_graph(problem, problem.exact, steps=1),
    variants.TF_OPT_EAGER: lambda problem: problem.contender(
        *problem.exact, steps=1
    ),
    variants.TORCH_SPARSE: _torch,
    variants.KERAS: lambda problem: _in_graph(problem, problem.keras, steps=1),
}


def build(problem: Problem, name: str) -> Contender:
    """Makes a contender."""
    return _BUILDERS[name](problem)
