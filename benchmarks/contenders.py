"""Everyone whose optimizer step is timed, one entry each."""

from __future__ import annotations

import functools
from collections.abc import Callable
from collections.abc import Collection
from typing import Any

# Before TensorFlow: some versions of torch crash when they are imported second.
from optional_torch import torch

# isort: split
import keras
import tensorflow as tf
import tf_opt

import memory_floor
import torch_contenders
import variants
from measure import Contender
from shapes import Shape
from shapes import Workload
from variants import Variant


def use_cores(cores: int) -> None:
    """Gives TensorFlow and torch the same number of threads.

    Args:
        cores: That number. TensorFlow must not have run anything yet.
    """
    tf.config.threading.set_intra_op_parallelism_threads(cores)
    tf.config.threading.set_inter_op_parallelism_threads(cores)
    if torch is not None:
        torch.set_num_threads(cores)


def check_prerequisites() -> None:
    """Raises if a contender that is always there can't run."""
    memory_floor.load()
    info = tf_opt.build_info()
    if info["custom_ops"] != "loaded":
        raise RuntimeError(
            "Expected tf_opt's custom ops to be loaded, but: "
            f"{info['custom_ops']}. Run `make bench`, which installs them."
        )


class Problem:
    """One optimizer on one model: what contenders share.

    Contenders of one family (tf_opt in a graph and eager, say) share their
    variables and slots, and all share the gradients, so that everybody fits
    into memory together, also with the largest model.
    """

    def __init__(
        self,
        variant: Variant,
        workload: Workload,
        gradients: list[tf.Tensor] | None = None,
    ) -> None:
        """States the problem.

        Args:
            variant: The optimizer.
            workload: The model.
            gradients: Another problem's, to share them.
        """
        self.variant = variant
        self.workload = workload
        self.gradients = gradients or [
            self.random(shape) for shape in workload.shapes
        ]

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
        return self.tf_opt("custom_op")

    def tf_opt(self, implementation: str) -> Contender:
        """The same.

        Args:
            implementation: Which one.
        """
        optimizer_class = getattr(tf_opt, self.variant.optimizer)
        optimizer = optimizer_class(
            **self.variant.arguments,
            **self.variant.own_arguments,
            implementation=implementation,
        )
        if self.variant.loss_scaled:
            optimizer = tf_opt.LossScaleOptimizer(optimizer)
        return self.eager(optimizer)

    @functools.cached_property
    def keras_eager(self) -> Contender:
        """Keras' optimizer."""
        optimizer_class = getattr(
            keras.optimizers, self.variant.keras_optimizer
        )
        optimizer = optimizer_class(**self.variant.arguments)
        if self.variant.loss_scaled:
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
        return self.eager(optimizer)

    def eager(self, optimizer: keras.optimizers.Optimizer) -> Contender:
        """An optimizer's step on new variables.

        Args:
            optimizer: One that isn't built yet.

        Returns:
            The contender.
        """
        variables = self.keras_variables()
        optimizer.build(variables)
        return Contender(
            lambda: optimizer.apply(self.gradients, variables),
            norms_of([variable.value for variable in variables]),
        )

    @functools.cached_property
    def torch_model(self) -> torch_contenders.Model:
        """Parameters of torch's; their gradients are TensorFlow's tensors."""
        # DLPack shares the memory.
        return torch_contenders.Model(
            [
                torch.from_dlpack(tf.experimental.dlpack.to_dlpack(gradient))
                for gradient in self.gradients
            ],
            self.variant,
        )


def norms_of(variables: list[tf.Variable]) -> Callable[[], list[float]]:
    """Their squared norms, at any time."""
    # In float64: in float32 a small step may leave one as it was.
    return lambda: [
        2 * float(tf.nn.l2_loss(tf.cast(variable, tf.float64)))
        for variable in variables
    ]


def in_graph(eager: Contender, **options: Any) -> Contender:
    """The same step as a tf.function.

    It has neither arguments nor results: gradients are captured, because a
    list of a thousand arguments costs more than many a step.

    Args:
        eager: The step.
        **options: Those of `tf.function`.

    Returns:
        The contender.
    """

    @tf.function(**options)
    def step() -> None:
        eager.step()

    return Contender(step, eager.norms)


def _step(problem: Problem, call: Contender) -> Contender:
    """A whole step, of one call of Keras' `apply` for each micro-step."""
    micro_steps = problem.variant.micro_steps
    if micro_steps == 1:
        return call

    def step() -> None:
        for _ in range(micro_steps):
            call.step()

    return Contender(step, call.norms)


def _without(problem: Problem) -> Contender:
    """tf_opt's step without what the variant is about."""
    other = Problem(
        variants.VARIANTS[problem.variant.without],
        problem.workload,
        problem.gradients,
    )
    return _step(problem, in_graph(other.tf_opt_eager))


def _memory_floor(problem: Problem) -> Contender:
    size = problem.workload.parameters
    passes = problem.variant.passes
    gradient = problem.random((size,))
    variable = tf.Variable(problem.random((size,)))
    slots = [
        tf.Variable(tf.random.normal([size]))
        for _ in range(problem.variant.slots)
    ]

    def step() -> None:
        memory_floor.move(gradient, [*slots, variable], passes)

    return in_graph(Contender(step, norms_of([variable])))


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

    return in_graph(Contender(step, norms_of([calls])))


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

    return in_graph(Contender(step, norms_of(variables)))


def _torch(problem: Problem, implementation: str) -> Contender:
    return torch_contenders.contender(
        problem.torch_model, problem.variant, implementation
    )


# How to make each contender, by its name in the tables.
BUILDERS: dict[str, Callable[[Problem], Contender]] = {
    variants.FLOOR: _memory_floor,
    variants.CALL: _call,
    variants.TF_OPT: lambda problem: _step(
        problem, in_graph(problem.tf_opt_eager)
    ),
    variants.TF_OPT_EAGER: lambda problem: _step(problem, problem.tf_opt_eager),
    variants.TF_OPT_WITHOUT: _without,
    variants.KERAS: lambda problem: _step(
        problem, in_graph(problem.keras_eager)
    ),
    variants.KERAS_XLA: lambda problem: _step(
        problem, in_graph(problem.keras_eager, jit_compile=True)
    ),
    variants.KERAS_EAGER: lambda problem: _step(problem, problem.keras_eager),
    variants.TF_OPT_XLA: lambda problem: _step(
        problem, in_graph(problem.tf_opt("custom_op"), jit_compile=True)
    ),
    variants.COMPOSED_XLA: lambda problem: _step(
        problem, in_graph(problem.tf_opt("composed"), jit_compile=True)
    ),
    variants.COMPOSED_EAGER: lambda problem: _step(
        problem, problem.tf_opt("composed")
    ),
    variants.TF_CORE: _tf_core,
    variants.TORCH_FUSED: functools.partial(_torch, implementation="fused"),
    variants.TORCH_FOREACH: functools.partial(_torch, implementation="foreach"),
}


def make(
    variant: Variant, workload: Workload, without: Collection[str]
) -> dict[str, Contender]:
    """Makes the contenders that can run on this machine.

    Args:
        variant: The optimizer.
        workload: The model.
        without: The names of those to leave out.

    Returns:
        The contenders, by name.
    """
    problem = Problem(variant, workload)
    return {
        name: BUILDERS[name](problem)
        for name in variant.contenders
        if name not in without
        and (torch is not None or not name.startswith("torch"))
    }
