"""Measures the steps of one optimizer on one workload.

The contenders are TensorFlow, Keras, tf_opt, PyTorch and the memory floors.
"""

import collections
import functools
import importlib.util
import itertools
from collections.abc import Callable, Sequence
from typing import Any

# Before TensorFlow.
import torch_contenders

# isort: split
import keras
import tensorflow as tf
import tf_opt

import gradients
import machine
import measure as turns
import memory_floor
import tf_core
import variants
from gradients import Batch
from measure import Contender
from results import Row, row
from shapes import ALL_WORKLOADS, Shape, Workload
from tf_core import Step
from variants import Variant

# A step, and the variables that it updates.
Family = tuple[Step, list[tf.Variable]]


def _optimizer(
    package: Any, name: str, variant: Variant, **options: Any
) -> keras.optimizers.Optimizer:
    optimizer = getattr(package, name)(**variant.arguments, **options)
    if variant.loss_scaled:
        return package.LossScaleOptimizer(optimizer)
    return optimizer


def _tf_opt_optimizer(
    variant: Variant, implementation: str = "custom_op", **options: Any
) -> keras.optimizers.Optimizer:
    """Makes tf_opt's optimizer, with Keras' formula where Keras has one."""
    options |= {"implementation": implementation, **variant.own_arguments}
    return _optimizer(tf_opt, variant.optimizer, variant, **options)


def _keras_optimizer(variant: Variant) -> keras.optimizers.Optimizer:
    name = "Nadam" if variant.optimizer == "NAdam" else variant.optimizer
    return _optimizer(keras.optimizers, name, variant)


class _Keras2:
    """An optimizer of Keras 2, called as those of Keras 3 are."""

    def __init__(self, variant: Variant) -> None:
        package = importlib.import_module("tf_keras").optimizers
        self._optimizer = _optimizer(package, variant.optimizer, variant)
        self._variables: list[tf.Variable] = []

    def build(self, variables: list[keras.Variable]) -> None:
        self._variables = [variable.value for variable in variables]
        self._optimizer.build(self._variables)

    def apply(self, gradients: list, variables: list[keras.Variable]) -> None:
        pairs = zip(gradients, self._variables, strict=True)
        self._optimizer.apply_gradients(pairs)


# A pattern, since only tables of Keras' Embedding catch up without.
_catch_up_optimizer = functools.partial(
    _tf_opt_optimizer, lazy_mode={".": "catch_up"}
)

# The name of TensorFlow's contenders is one of these, a comma and a mode.
_OPTIMIZERS: dict[str, Callable[[Variant], keras.optimizers.Optimizer]] = {
    "tf_opt": _tf_opt_optimizer,
    "tf_opt lazy": functools.partial(_tf_opt_optimizer, lazy_mode=True),
    "tf_opt lazy with global_clipnorm": functools.partial(
        _tf_opt_optimizer, lazy_mode=True, global_clipnorm=1.0
    ),
    "tf_opt lazy Adam": lambda _: _tf_opt_optimizer(
        variants.VARIANTS["adam"], lazy_mode=True
    ),
    "tf_opt row-wise": functools.partial(_tf_opt_optimizer, row_wise=["."]),
    "tf_opt catch_up": _catch_up_optimizer,
    "tf_opt catch_up before reads": _catch_up_optimizer,
    "tf_opt without it": lambda variant: _tf_opt_optimizer(
        variants.VARIANTS[variant.without]
    ),
    "tf_opt composed": functools.partial(
        _tf_opt_optimizer, implementation="composed"
    ),
    "Keras": _keras_optimizer,
    "tf_keras": _Keras2,
}
_MODES: dict[str, Callable[..., Callable]] = {
    "eager": lambda step, **_: step,
    "tf.function": tf.function,
    "XLA": functools.partial(tf.function, jit_compile=True),
}


class Problem:
    """One optimizer on one model or on some tables, and what contenders share.

    Contenders of one family (tf_opt in a graph and eager, say) share their
    variables and slots, torch's share tf_opt's, all share the gradients, and
    floors share their arrays, so that they fit into memory together with the
    largest model.
    """

    def __init__(self, variant: Variant, workload: Workload) -> None:
        """Draws the gradients."""
        self.variant = variant
        self.workload = workload
        self.batches = gradients.draw_batches(workload, variant.dtype)
        self.floor_gradient: tf.Tensor | None = None
        self._families: dict[str, Family] = {}
        self._optimizers: dict[str, keras.optimizers.Optimizer] = {}
        self._floor_arrays: dict[tuple[Shape, str], list[tf.Variable]] = {}

    def variables(self) -> list[keras.Variable]:
        """Makes new variables."""
        dtype = self.variant.dtype
        with tf.device(self.variant.device):
            return [
                keras.Variable(
                    gradients.random(shape, dtype),
                    dtype=dtype,
                    name=f"variable_{i}",
                )
                for i, shape in enumerate(self.workload.shapes)
            ]

    def family(self, name: str) -> Family:
        """Returns an optimizer's step."""
        if name not in self._families:
            optimizer = _OPTIMIZERS[name](self.variant)
            self._optimizers[name] = optimizer
            reads = name.endswith("before reads")
            step, variables = self.step_of(optimizer, reads)
            if name == "Keras" and self.variant.dtype == "bfloat16":
                # There beta_2 is 1 and the step size is 0: only moments change.
                variables = [slot.value for slot in optimizer.variables[2:]]
            self._families[name] = step, variables
        return self._families[name]

    def arrays(self) -> list[list[tf.Variable]]:
        """Returns each variable of tf_opt's contenders before its slots."""
        _, variables = self.family("tf_opt")
        optimizer = self._optimizers["tf_opt"]
        # A LossScaleOptimizer has one inside.
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        return [
            [variable, *(slot.value for slot in optimizer._state.slots_of(i))]
            for i, variable in enumerate(variables)
        ]

    def step_of(
        self, optimizer: keras.optimizers.Optimizer, reads: bool = False
    ) -> Family:
        """Makes an optimizer's step; with `reads`, rows catch up before it."""
        variables = self.variables()
        optimizer.build(variables)
        sizes = list(map(tf.constant, self.workload.shapes))

        def step(values: list[tf.Tensor], ids: list[tf.Tensor]) -> None:
            if reads:
                optimizer.catch_up(variables, ids)
            if ids:
                values = list(map(tf.IndexedSlices, values, ids, sizes))
            optimizer.apply(values, variables)

        return step, [variable.value for variable in variables]

    def floor_arrays(
        self, shape: Shape, types: Sequence[str]
    ) -> list[tf.Variable]:
        """Returns arrays for a floor, which share memory with other floors'."""
        arrays = []
        for dtype, count in collections.Counter(types).items():
            known = self._floor_arrays.setdefault((shape, dtype), [])
            while len(known) < count:
                known.append(tf.Variable(gradients.random(shape, dtype)))
            arrays += known[:count]
        return arrays

    def contender(
        self,
        family: Family,
        mode: str = "tf.function",
        batches: Sequence[tuple[list[tf.Tensor], list[tf.Tensor]]] = (),
    ) -> Contender:
        """Makes a contender that takes a batch in each step."""
        step, variables = family
        batches = batches or self.batches
        if self.workload.ids:
            # As in training, only the batch knows how many rows there are.
            shapes = self.workload.shapes
            step = _MODES[mode](
                step,
                input_signature=(
                    [tf.TensorSpec([None, width]) for _, width in shapes],
                    [tf.TensorSpec([None], tf.int32) for _ in shapes],
                ),
            )
            batch = itertools.cycle(batches)
            # A step changes the norm of all rows too little to see.
            norms = _norms_of(variables, self.batches[0].rows)
            return Contender(lambda: step(*next(batch)), norms)

        # Gradients are captured, because a list of a thousand arguments costs
        # more than many a step.
        take = _MODES[mode](lambda: step(*batches[0]))
        return Contender(take, _norms_of(variables))


def _norms_of(
    variables: list[tf.Variable], rows: list[tf.Tensor] | None = None
) -> Callable[[], list[float]]:
    def norms() -> list[float]:
        parts = map(tf.gather, variables, rows) if rows else variables
        # In float64: in float32 a small step may not change a norm.
        return [
            2 * float(tf.nn.l2_loss(tf.cast(part, tf.float64)))
            for part in parts
        ]

    return norms


def _step(problem: Problem, family: str, mode: str) -> Contender:
    """A whole step of an optimizer: one call for each micro-step."""
    call = problem.contender(problem.family(family), mode)
    micro_steps = problem.variant.micro_steps
    if micro_steps == 1:
        return call

    def step() -> None:
        for _ in range(micro_steps):
            call.step()

    return Contender(step, call.norms)


# The floor of a dense step moves its arrays in rows of this many elements: a
# few cache lines of one array, then of the next.
_FLOOR_ROW = 64


def _floor(
    problem: Problem,
    types: Sequence[str] = (),
    rows_of_batch: bool = False,
    row_wise: bool = False,
) -> Contender:
    """Moves the bytes of a step, of all rows or of those of a batch.

    With `row_wise`, slots have one number for each row.
    """
    variant, workload = problem.variant, problem.workload
    types = types or ("float32",) * variant.slots + (variant.dtype,)
    tables, batches = workload.shapes, problem.batches
    if not workload.ids:
        tables = [(-(-workload.parameters // _FLOOR_ROW), _FLOOR_ROW)]
        if problem.floor_gradient is None:
            problem.floor_gradient = gradients.random(tables[0], variant.dtype)
        batches = [Batch([problem.floor_gradient], [])]
    # Made here: variables made in the function would belong to it.
    arrays = [problem.floor_arrays(shape, types) for shape in tables]
    if row_wise:
        arrays = [
            problem.floor_arrays(shape, types[-1:])
            + problem.floor_arrays((shape[0], 1), types[:-1])
            for shape in tables
        ]
    all_rows = [tf.zeros([0], tf.int32) for _ in tables]

    def step(values: list[tf.Tensor], rows: list[tf.Tensor]) -> None:
        for gradient, some, updated in zip(values, rows, arrays, strict=True):
            for count in (*variant.passes[:-1], len(updated)):
                memory_floor.move(gradient, some, updated[:count])

    return problem.contender(
        # The last ones: what every micro-step moves, four of them move back.
        (step, [array[-1] for array in arrays]),
        batches=[
            (batch.values, batch.rows if rows_of_batch else all_rows)
            for batch in batches
        ],
    )


def _call(problem: Problem) -> Contender:
    """A tf.function with a step's variables and slots that doesn't use them.

    No optimizer can save the time that TensorFlow takes to call it.
    """
    variables = [
        tf.Variable(tf.zeros(shape))
        for shape in problem.workload.shapes
        for _ in range(1 + problem.variant.slots)
    ]
    calls = tf.Variable(0.0)

    def step(values: list[tf.Tensor], ids: list[tf.Tensor]) -> None:
        calls.assign_add(1.0, read_value=False)
        for variable in variables:
            # So that the function has it among its inputs.
            tf.raw_ops.VarIsInitializedOp(resource=variable.handle)

    return problem.contender((step, [calls]))


def _tf_core(problem: Problem) -> Contender:
    variables = [variable.value for variable in problem.variables()]
    step = tf_core.make_step(problem.variant, variables)
    return problem.contender((step, variables))


def _torch(problem: Problem, implementation: str, dtype: str = "") -> Contender:
    variant, batches = problem.variant, problem.batches
    if problem.workload.ids:
        return torch_contenders.sparse_contender(
            variant, implementation, problem.workload.shapes, batches
        )
    # Contenders of a type of their own are beside several of tf_opt.
    arrays = None if dtype else problem.arrays()
    if dtype not in ("", variant.dtype):
        batches = gradients.draw_batches(problem.workload, dtype)
    return torch_contenders.contender(
        batches[0].values, arrays, variant, implementation
    )


# How to make the contenders that are no optimizers.
_BUILDERS: dict[str, Callable[[Problem], Contender]] = {
    variants.FLOOR: _floor,
    variants.ALL_ROWS_FLOOR: _floor,
    variants.ROW_FLOOR: functools.partial(_floor, rows_of_batch=True),
    variants.ROW_WISE_FLOOR: functools.partial(
        _floor, rows_of_batch=True, row_wise=True
    ),
    variants.FBGEMM: lambda problem: torch_contenders.fbgemm_contender(
        problem.variant, problem.workload.shapes, problem.batches
    ),
    variants.CALL: _call,
    variants.TF_CORE: _tf_core,
    variants.TF_CORE_ROWS: _tf_core,
}


def _build(problem: Problem, name: str) -> Contender:
    variant = problem.variant
    if name in _BUILDERS:
        return _BUILDERS[name](problem)
    if name in variant.floors:
        return _floor(problem, variant.floors[name])
    if name in variant.precisions:
        # Keras' next seed would differ from run to run.
        options = {"seed": 0, **variant.precisions[name]}
        optimizer = _tf_opt_optimizer(variant, **options)
        return problem.contender(problem.step_of(optimizer))
    family, *options = name.split(", ")
    if family == "torch":
        return _torch(problem, *options)
    return _step(problem, family, *options)


def use_all_cores(devices: int) -> None:
    """Gives TensorFlow, with some logical CPUs, and torch as many threads."""
    cores = machine.count_cores()
    tf.config.threading.set_intra_op_parallelism_threads(cores)
    tf.config.threading.set_inter_op_parallelism_threads(cores)
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * devices,
    )
    if torch_contenders.torch is not None:
        torch_contenders.torch.set_num_threads(cores)


def _names(variant: Variant, workload: Workload, quick: bool) -> list[str]:
    """Returns the names of the contenders that can run on this machine."""
    names = variant.contenders
    if workload.ids:
        names = variant.sparse or (
            variants.SPARSE_BY_SIZE if workload.family else variants.SPARSE
        )
    left_out = set()
    if quick:
        left_out.add(variants.KERAS_XLA)  # Compiling would take most of a run.
    if "amsgrad" in variant.arguments:
        left_out.add(variants.TORCH_SPARSE_ADAM)  # It has no AMSGrad.
    if variant.dtype == "bfloat16" and workload.parameters > 10**8:
        left_out.add(variants.KERAS)  # There is no memory left for it.
    # By what the names of their contenders begin with.
    packages = {
        "torch": "torch",
        "tf_keras": "tf_keras",
        "FBGEMM": "fbgemm_gpu",
    }
    for begin, package in packages.items():
        if importlib.util.find_spec(package) is None:
            left_out.update(name for name in names if name.startswith(begin))
    return [name for name in names if name not in left_out]


def measure(variant: str, workload: str, rounds: int, quick: bool) -> list[Row]:
    """Measures a case."""
    optimizer, model = variants.VARIANTS[variant], ALL_WORKLOADS[workload]
    use_all_cores(2 if optimizer.device else 1)
    memory_floor.load()
    problem = Problem(optimizer, model)
    measured = turns.measure(
        {
            name: _build(problem, name)
            for name in _names(optimizer, model, quick)
        },
        rounds,
        seconds=1.5 if quick else 6.0,
        micro_steps=optimizer.micro_steps,
    )
    return [row(workload, variant, *each) for each in measured.items()]
