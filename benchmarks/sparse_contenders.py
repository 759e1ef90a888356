"""Everyone whose step with sparse gradients is timed, one entry each."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from collections.abc import Collection
from typing import NamedTuple

# Before TensorFlow: some versions of torch crash when they are imported second.
from optional_torch import torch

# isort: split
import keras
import numpy as np
import tensorflow as tf
import tf_opt

import memory_floor
import variants
from measure import Contender
from sparse_workloads import Lookup
from sparse_workloads import SparseWorkload
from variants import Variant

# Together, batches have so many ids for each table, that none of their rows is
# still in a cache when its batch comes again; within bounds.
_IDS_OF_ALL_BATCHES = 2**18
_MOST_BATCHES = 256
_FEWEST_BATCHES = 8


class Batch(NamedTuple):
    """The gradients of one step, an entry for each table.

    Attributes:
        values: A row for each id.
        ids: The ids.
        rows: The rows among them, sorted and without repeats.
    """

    values: list[tf.Tensor]
    ids: list[tf.Tensor]
    rows: list[tf.Tensor]


class Problem:
    """One optimizer on some tables: what contenders share.

    As in `contenders.Problem`, contenders of one family share their variables
    and slots, and all share the gradients.
    """

    def __init__(self, variant: Variant, workload: SparseWorkload) -> None:
        """States the problem.

        Args:
            variant: The optimizer.
            workload: The tables.
        """
        self.variant = variant
        self.workload = workload
        generator = np.random.default_rng(0)
        lookups = [
            Lookup(rows, workload.ids, workload.zipf, generator)
            for rows, _ in workload.shapes
        ]
        count = _IDS_OF_ALL_BATCHES // workload.ids
        count = max(_FEWEST_BATCHES, min(count, _MOST_BATCHES))
        self.batches = [self._batch(lookups) for _ in range(count)]

    def _batch(self, lookups: list[Lookup]) -> Batch:
        drawn = [lookup.draw() for lookup in lookups]
        return Batch(
            [
                tf.random.normal([self.workload.ids, width], stddev=0.02)
                for _, width in self.workload.shapes
            ],
            [tf.constant(ids.all) for ids in drawn],
            [tf.constant(ids.rows) for ids in drawn],
        )

    def next_batch(self) -> Callable[[], Batch]:
        """Batch after batch, from the first on."""
        return functools.partial(next, itertools.cycle(self.batches))

    def variables(self) -> list[keras.Variable]:
        """New tables."""
        return [
            keras.Variable(tf.random.normal(shape, stddev=0.02))
            for shape in self.workload.shapes
        ]

    @functools.cached_property
    def tf_opt_lazy(self) -> Model:
        """tf_opt's optimizer that leaves other rows alone."""
        return Model(self, self._tf_opt(lazy_mode=True))

    @functools.cached_property
    def tf_opt_exact(self) -> Model:
        """tf_opt's optimizer, which updates all rows."""
        return Model(self, self._tf_opt(lazy_mode=False))

    def _tf_opt(self, lazy_mode: bool) -> keras.optimizers.Optimizer:
        optimizer_class = getattr(tf_opt, self.variant.optimizer)
        return optimizer_class(
            **self.variant.arguments,
            **self.variant.own_arguments,
            lazy_mode=lazy_mode,
            implementation="custom_op",
        )

    @functools.cached_property
    def keras(self) -> Model:
        """Keras' optimizer."""
        optimizer_class = getattr(
            keras.optimizers, self.variant.keras_optimizer
        )
        return Model(self, optimizer_class(**self.variant.arguments))

    @functools.cached_property
    def floor_arrays(self) -> list[list[tf.Variable]]:
        """Of each table, what the floors move."""
        return [
            [
                tf.Variable(tf.random.normal(shape, stddev=0.02))
                for _ in range(1 + self.variant.slots)
            ]
            for shape in self.workload.shapes
        ]

    def norms_of(
        self, variables: list[tf.Variable]
    ) -> Callable[[], list[float]]:
        """Norms of the first batch's rows: of all, a step changes too little.

        Args:
            variables: One for each table.

        Returns:
            Their squared norms, at any time.
        """
        rows = self.batches[0].rows
        return lambda: [
            2 * float(tf.nn.l2_loss(tf.gather(variable, some)))
            for variable, some in zip(variables, rows, strict=True)
        ]


class Model:
    """Tables and the optimizer that updates them."""

    def __init__(
        self, problem: Problem, optimizer: keras.optimizers.Optimizer
    ) -> None:
        """Makes the tables.

        Args:
            problem: What tables.
            optimizer: What updates them.
        """
        self._problem = problem
        self._optimizer = optimizer
        self._variables = problem.variables()
        optimizer.build(self._variables)
        self._shapes = [tf.constant(s) for s in problem.workload.shapes]

    def _apply(self, values: list[tf.Tensor], ids: list[tf.Tensor]) -> None:
        gradients = list(map(tf.IndexedSlices, values, ids, self._shapes))
        self._optimizer.apply(gradients, self._variables)

    def contender(self, in_graph: bool, steps: int | None = None) -> Contender:
        """The optimizer's step.

        Args:
            in_graph: Whether as a tf.function. It takes batches of any size.
            steps: How many are timed together, unless the workload says.

        Returns:
            The contender.
        """
        apply = self._apply
        if in_graph:
            apply = _function_of_rows(self._problem.workload, apply)
        next_batch = self._problem.next_batch()

        def step() -> None:
            batch = next_batch()
            apply(batch.values, batch.ids)

        variables = [variable.value for variable in self._variables]
        return Contender(step, self._problem.norms_of(variables), steps)


def _function_of_rows(
    workload: SparseWorkload,
    step: Callable[[list[tf.Tensor], list[tf.Tensor]], tf.Tensor | None],
) -> tf.types.experimental.PolymorphicFunction:
    """A tf.function of values and of rows or ids, of which it sees no number.

    As in training, where only the batch knows it.
    """
    return tf.function(
        step,
        input_signature=(
            [tf.TensorSpec([None, width]) for _, width in workload.shapes],
            [tf.TensorSpec([None], tf.int32) for _ in workload.shapes],
        ),
    )


def _measuring(problem: Problem) -> Contender:
    rows = [rows for rows, _ in problem.workload.shapes]

    def measure(values: list[tf.Tensor], ids: list[tf.Tensor]) -> tf.Tensor:
        gradients = list(map(tf.IndexedSlices, values, ids))
        return tf_opt.ops.measure_gradients(
            gradients, rows=rows, lazy_mode=True
        ).sums_of_squares

    function = _function_of_rows(problem.workload, measure)
    next_batch = problem.next_batch()
    # It updates nothing: what it returns is to change instead.
    measured = tf.zeros(len(rows))

    def step() -> None:
        nonlocal measured
        batch = next_batch()
        measured = function(batch.values, batch.ids)

    return Contender(step, lambda: measured.numpy().tolist())


def _row_floor(problem: Problem) -> Contender:
    arrays = problem.floor_arrays

    def move(values: list[tf.Tensor], rows: list[tf.Tensor]) -> None:
        for gradient, some, updated in zip(values, rows, arrays, strict=True):
            memory_floor.move_rows(gradient, some, updated)

    function = _function_of_rows(problem.workload, move)
    next_batch = problem.next_batch()

    def step() -> None:
        batch = next_batch()
        function(batch.values, batch.rows)

    return Contender(step, problem.norms_of([array[0] for array in arrays]))


def _all_rows_floor(problem: Problem) -> Contender:
    arrays = problem.floor_arrays
    all_rows = [tf.range(rows) for rows, _ in problem.workload.shapes]
    next_batch = problem.next_batch()

    def step() -> None:
        for gradient, rows, updated in zip(
            next_batch().values, all_rows, arrays, strict=True
        ):
            memory_floor.move_rows(gradient, rows, updated)

    return Contender(
        step, problem.norms_of([array[0] for array in arrays]), steps=1
    )


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


# How to make each contender, by its name in the tables. Those that take time
# for all rows do a step at a time.
BUILDERS: dict[str, Callable[[Problem], Contender]] = {
    variants.ROW_FLOOR: _row_floor,
    variants.ALL_ROWS_FLOOR: _all_rows_floor,
    variants.TF_OPT_LAZY: lambda problem: problem.tf_opt_lazy.contender(
        in_graph=True
    ),
    variants.TF_OPT_LAZY_EAGER: lambda problem: problem.tf_opt_lazy.contender(
        in_graph=False
    ),
    variants.TF_OPT_MEASURING: _measuring,
    variants.TF_OPT: lambda problem: problem.tf_opt_exact.contender(
        in_graph=True, steps=1
    ),
    variants.TF_OPT_EAGER: lambda problem: problem.tf_opt_exact.contender(
        in_graph=False, steps=1
    ),
    variants.TORCH_SPARSE: _torch,
    variants.KERAS: lambda problem: problem.keras.contender(
        in_graph=True, steps=1
    ),
}


def make(
    variant: Variant, workload: SparseWorkload, without: Collection[str]
) -> dict[str, Contender]:
    """Makes the contenders that can run on this machine.

    Args:
        variant: The optimizer.
        workload: The tables.
        without: The names of those to leave out.

    Returns:
        The contenders, by name.
    """
    problem = Problem(variant, workload)
    # SparseAdam has no AMSGrad.
    has_torch = torch is not None and not variant.amsgrad
    return {
        name: BUILDERS[name](problem)
        for name in workload.contenders
        if name not in without and (has_torch or name != variants.TORCH_SPARSE)
    }
