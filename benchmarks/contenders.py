"""Everyone whose optimizer step is timed, one entry each."""

from __future__ import annotations

import collections
import dataclasses
import functools
import os
import pathlib
import types
from collections.abc import Callable
from typing import Any

# Before TensorFlow: some versions of torch crash when they are imported second.
try:
    import torch
except ImportError:
    torch = None

import keras
import tensorflow as tf
import tf_opt

import variants
from shapes import Shape
from shapes import Workload
from variants import Variant

_FLOOR_LIBRARY = (
    pathlib.Path(__file__).parents[1]
    / "bazel-bin"
    / "benchmarks"
    / "_memory_floor.so"
)


@dataclasses.dataclass(frozen=True)
class Contender:
    """Somebody's optimizer, ready to step.

    Attributes:
        step: One whole optimizer step.
        norms: The squared norm of each variable that `step` updates: enough
            to see whether they changed and are finite.
    """

    step: Callable[[], None]
    norms: Callable[[], list[float]]


def use_cores(cores: int) -> None:
    """Gives TensorFlow and torch the same number of threads.

    Args:
        cores: That number. TensorFlow must not have run anything yet.
    """
    tf.config.threading.set_intra_op_parallelism_threads(cores)
    tf.config.threading.set_inter_op_parallelism_threads(cores)
    if torch is not None:
        torch.set_num_threads(cores)


@functools.cache
def _floor_ops() -> types.ModuleType:
    if not _FLOOR_LIBRARY.exists():
        raise FileNotFoundError(
            f"Expected the memory floor's op in {_FLOOR_LIBRARY}, which is "
            "not there. Run `make bench`: it builds the op first."
        )
    return tf.load_op_library(os.fspath(_FLOOR_LIBRARY))


def check_prerequisites() -> None:
    """Raises if a contender that is always there can't run."""
    _floor_ops()
    info = tf_opt.build_info()
    if info["custom_ops"] != "loaded":
        raise RuntimeError(
            "Expected tf_opt's custom ops to be loaded, but: "
            f"{info['custom_ops']}. Run `make bench`, which installs them."
        )


def available(variant: Variant) -> list[str]:
    """The contenders of a variant that can run on this machine."""
    return [
        name
        for name in variant.contenders
        if torch is not None or not name.startswith("torch")
    ]


class Problem:
    """One optimizer on one model: what contenders share.

    Contenders of one family (tf_opt in a graph and eager, say) share their
    variables and slots, and all share the gradients, so that everybody fits
    into memory together, also with the largest model.
    """

    def __init__(self, variant: Variant, workload: Workload) -> None:
        self.variant = variant
        self.workload = workload
        # Of each torch parameter, its slots.
        self.torch_state: dict[Any, dict[str, Any]] = collections.defaultdict(
            dict
        )
        self.gradients = [self.random(shape) for shape in workload.shapes]

    def random(self, shape: Shape) -> tf.Tensor:
        """Values like a model's; not zeros, whose speed may be another."""
        values = tf.random.normal(shape, stddev=0.02)
        return tf.cast(values, self.variant.dtype)

    def keras_variables(self) -> list[keras.Variable]:
        """New variables."""
        return [
            keras.Variable(self.random(shape), dtype=self.variant.dtype)
            for shape in self.workload.shapes
        ]

    @functools.cached_property
    def tf_opt_eager(self) -> Contender:
        """tf_opt's optimizer, with Keras' formula where Keras has one."""
        optimizer_class = getattr(tf_opt, self.variant.optimizer)
        return self._eager(
            optimizer_class(
                **self.variant.arguments,
                **self.variant.own_arguments,
                implementation="custom_op",
            )
        )

    @functools.cached_property
    def keras_eager(self) -> Contender:
        """Keras' optimizer."""
        optimizer_class = getattr(
            keras.optimizers, self.variant.keras_optimizer
        )
        return self._eager(optimizer_class(**self.variant.arguments))

    def _eager(self, optimizer: keras.optimizers.Optimizer) -> Contender:
        variables = self.keras_variables()
        optimizer.build(variables)
        return Contender(
            lambda: optimizer.apply(self.gradients, variables),
            _norms_of([variable.value for variable in variables]),
        )

    @functools.cached_property
    def torch_parameters(self) -> list[Any]:
        """New torch parameters; their gradients are TensorFlow's tensors."""
        parameters = []
        for gradient in self.gradients:
            # DLPack shares the memory.
            shared = torch.from_dlpack(
                tf.experimental.dlpack.to_dlpack(gradient)
            )
            parameter = torch.nn.Parameter(0.02 * torch.randn(shared.shape))
            parameter.grad = shared
            parameters.append(parameter)
        return parameters


def _norms_of(variables: list[tf.Variable]) -> Callable[[], list[float]]:
    return lambda: [
        2 * float(tf.nn.l2_loss(tf.cast(variable, tf.float32)))
        for variable in variables
    ]


def _in_graph(eager: Contender, **options: Any) -> Contender:
    """The same step as a tf.function.

    It has neither arguments nor results: gradients are captured, because a
    list of a thousand arguments costs more than many a step.
    """

    @tf.function(**options)
    def step() -> None:
        eager.step()

    return Contender(step, eager.norms)


def _memory_floor(problem: Problem) -> Contender:
    ops = _floor_ops()
    size = problem.workload.parameters
    gradient = problem.random((size,))
    variable = tf.Variable(problem.random((size,)))
    slots = [
        tf.Variable(tf.random.normal([size]))
        for _ in range(problem.variant.slots)
    ]

    def step() -> None:
        ops.tf_opt_memory_floor(
            variable.handle, gradient, [slot.handle for slot in slots]
        )

    return _in_graph(Contender(step, _norms_of([variable])))


def _call(problem: Problem) -> Contender:
    """A tf.function with a step's variables and slots that leaves them alone.

    What TensorFlow takes for calling it, no optimizer can save.
    """
    variables = [
        tf.Variable(tf.zeros(shape))
        for shape in problem.workload.shapes
        for _ in range(1 + problem.variant.slots)
    ]
    calls = tf.Variable(0.0)

    def step() -> None:
        calls.assign_add(1.0, read_value=False)
        for variable in variables:
            # So that the function has it among its inputs.
            tf.raw_ops.VarIsInitializedOp(resource=variable.handle)

    return _in_graph(Contender(step, _norms_of([calls])))


def _tf_core(problem: Problem) -> Contender:
    variant = problem.variant
    variables = [variable.value for variable in problem.keras_variables()]
    slots = [
        [tf.Variable(tf.zeros(shape)) for _ in range(variant.slots)]
        for shape in problem.workload.shapes
    ]
    step_count = tf.Variable(0, dtype=tf.int64)

    def step() -> None:
        t = tf.cast(step_count.assign_add(1), tf.float32)
        scalars = {
            "beta1_power": tf.pow(variants.BETA_1, t),
            "beta2_power": tf.pow(variants.BETA_2, t),
            "lr": variants.LEARNING_RATE,
            "beta1": variants.BETA_1,
            "beta2": variants.BETA_2,
            "epsilon": variants.EPSILON,
        }
        for p, (m, v, *v_max), g in zip(
            variables, slots, problem.gradients, strict=True
        ):
            if variant.weight_decay is not None:
                # The op has no decay: this is how one adds it.
                decay = variants.LEARNING_RATE * variant.weight_decay
                p.assign_sub(decay * p)
            moments = {"var": p.handle, "m": m.handle, "v": v.handle}
            if v_max:
                tf.raw_ops.ResourceApplyAdamWithAmsgrad(
                    **moments, vhat=v_max[0].handle, grad=g, **scalars
                )
            else:
                tf.raw_ops.ResourceApplyAdam(**moments, grad=g, **scalars)

    return _in_graph(Contender(step, _norms_of(variables)))


def _torch(problem: Problem, implementation: str) -> Contender:
    parameters = problem.torch_parameters
    optimizer = getattr(torch.optim, problem.variant.torch_optimizer)(
        parameters, **problem.variant.torch_arguments, **{implementation: True}
    )
    optimizer.state = problem.torch_state
    return Contender(
        optimizer.step,
        lambda: [float(p.detach().square().sum()) for p in parameters],
    )


# How to make each contender, by its name in the tables.
BUILDERS: dict[str, Callable[[Problem], Contender]] = {
    variants.FLOOR: _memory_floor,
    variants.CALL: _call,
    variants.TF_OPT: lambda problem: _in_graph(problem.tf_opt_eager),
    variants.TF_OPT_EAGER: lambda problem: problem.tf_opt_eager,
    variants.KERAS: lambda problem: _in_graph(problem.keras_eager),
    variants.KERAS_XLA: lambda problem: _in_graph(
        problem.keras_eager, jit_compile=True
    ),
    variants.KERAS_EAGER: lambda problem: problem.keras_eager,
    variants.TF_CORE: _tf_core,
    variants.TORCH_FUSED: functools.partial(_torch, implementation="fused"),
    variants.TORCH_FOREACH: functools.partial(_torch, implementation="foreach"),
}
