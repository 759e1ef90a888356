"""Contenders for dense gradients: TensorFlow, Keras, tf_opt and the floors."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from typing import Any

# Before TensorFlow.
import torch_contenders

# isort: split
import keras
import tensorflow as tf
import tf_opt

import memory_floor
import variants
from measure import Contender
from shapes import Shape
from shapes import Workload
from torch_contenders import torch
from variants import Precision
from variants import Variant


def tf_opt_optimizer(
    variant: Variant, **options: Any
) -> keras.optimizers.Optimizer:
    """Makes tf_opt's optimizer, with Keras' formula where Keras has one."""
    optimizer = getattr(tf_opt, variant.optimizer)(
        **variant.arguments,
        **variant.own_arguments,
        **{"implementation": "custom_op", **options},
    )
    return (
        tf_opt.LossScaleOptimizer(optimizer)
        if variant.loss_scaled
        else optimizer
    )


def keras_optimizer(variant: Variant) -> keras.optimizers.Optimizer:
    """Makes Keras' optimizer."""
    name = "Nadam" if variant.optimizer == "NAdam" else variant.optimizer
    optimizer = getattr(keras.optimizers, name)(**variant.arguments)
    return (
        keras.optimizers.LossScaleOptimizer(optimizer)
        if variant.loss_scaled
        else optimizer
    )


class Problem:
    """One optimizer on one model, and what contenders share.

    Contenders of one family (tf_opt in a graph and eager, say) share their
    variables and slots, all share the gradients, and floors share their
    arrays, so that they fit into memory together with the largest model.
    """

    def __init__(
        self,
        variant: Variant,
        workload: Workload,
        gradients: list[tf.Tensor] | None = None,
    ) -> None:
        """Draws the gradients."""
        self.variant = variant
        self.workload = workload
        self.gradients = gradients or [
            self.random(shape) for shape in workload.shapes
        ]
        self._floor_arrays: dict[str, list[tf.Variable]] = {}

    def random(self, shape: Shape, dtype: str = "") -> tf.Tensor:
        """Draws values like a model's; zeros may be faster or slower."""
        values = tf.random.normal(shape, stddev=0.02)
        return tf.cast(values, dtype or self.variant.dtype)

    def variables(self) -> list[keras.Variable]:
        """Makes new variables."""
        return [
            keras.Variable(self.random(shape), dtype=self.variant.dtype)
            for shape in self.workload.shapes
        ]

    @functools.cached_property
    def tf_opt_eager(self) -> Contender:
        """tf_opt's optimizer."""
        return self.eager(tf_opt_optimizer(self.variant))

    @functools.cached_property
    def keras_eager(self) -> Contender:
        """Keras' optimizer."""
        optimizer = keras_optimizer(self.variant)
        contender = self.eager(optimizer)
        if self.variant.dtype != "bfloat16":
            return contender
        # In bfloat16 beta_2 is 1 and the step size is 0: the variables don't
        # change, only the moments do.
        moments = [slot.value for slot in optimizer.variables[2:]]
        return Contender(contender.step, _norms_of(moments))

    def eager(self, optimizer: keras.optimizers.Optimizer) -> Contender:
        """Makes a contender with new variables."""
        variables = self.variables()
        optimizer.build(variables)
        return Contender(
            lambda: optimizer.apply(self.gradients, variables),
            _norms_of([variable.value for variable in variables]),
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

    @functools.cached_property
    def in_float32(self) -> Problem:
        """The same model with float32 variables."""
        if self.variant.dtype == "float32":
            return self
        return Problem(variants.VARIANTS["adam"], self.workload)

    @functools.cached_property
    def floor_gradient(self) -> tf.Tensor:
        """The gradient that the floors read."""
        return self.random(
            (self.workload.parameters,), _stand_in(self.variant.dtype)
        )

    def floor_arrays(self, types: tuple[str, ...]) -> list[tf.Variable]:
        """Returns arrays for a floor, which share memory with other floors'."""
        arrays = []
        for dtype, count in collections.Counter(map(_stand_in, types)).items():
            known = self._floor_arrays.setdefault(dtype, [])
            while len(known) < count:
                size = (self.workload.parameters,)
                known.append(tf.Variable(self.random(size, dtype)))
            arrays += known[:count]
        return arrays


def _stand_in(dtype: str) -> str:
    """Returns a type of the same size that the floors know."""
    return "bfloat16" if dtype == "float16" else dtype


def _norms_of(variables: list[tf.Variable]) -> Callable[[], list[float]]:
    # In float64: in float32 a small step may not change a norm.
    return lambda: [
        2 * float(tf.nn.l2_loss(tf.cast(variable, tf.float64)))
        for variable in variables
    ]


def _in_graph(eager: Contender, **options: Any) -> Contender:
    """Makes a tf.function of a step.

    It has neither arguments nor results: gradients are captured, because a
    list of a thousand arguments costs more than many a step.
    """

    @tf.function(**options)
    def step() -> None:
        eager.step()

    return Contender(step, eager.norms)


# Options of tf.function.
_GRAPH = {"jit_compile": None}
_XLA = {"jit_compile": True}


def _step(
    make: Callable[[Problem], Contender], **options: Any
) -> Callable[[Problem], Contender]:
    """Makes the builder of a whole step: one call for each micro-step."""

    def build(problem: Problem) -> Contender:
        call = make(problem)
        if options:
            call = _in_graph(call, **options)
        micro_steps = problem.variant.micro_steps
        if micro_steps == 1:
            return call

        def step() -> None:
            for _ in range(micro_steps):
                call.step()

        return Contender(step, call.norms)

    return build


def _composed(problem: Problem) -> Contender:
    return problem.eager(
        tf_opt_optimizer(problem.variant, implementation="composed")
    )


def _without(problem: Problem) -> Contender:
    """tf_opt's step without the variant's feature."""
    variant = variants.VARIANTS[problem.variant.without]
    return Problem(variant, problem.workload, problem.gradients).tf_opt_eager


def _floor(problem: Problem, types: tuple[str, ...]) -> Contender:
    # Made here: variables made in the function would belong to it.
    gradient = problem.floor_gradient
    arrays = problem.floor_arrays(types)
    passes = problem.variant.passes

    def step() -> None:
        memory_floor.move(gradient, arrays, (*passes[:-1], len(arrays)))

    return _in_graph(Contender(step, _norms_of(arrays)))


def _memory_floor(problem: Problem) -> Contender:
    slots = ("float32",) * problem.variant.slots
    return _floor(problem, (*slots, problem.variant.dtype))


def _with_precision(problem: Problem, precision: Precision) -> Contender:
    optimizer = tf_opt_optimizer(
        problem.variant,
        master_weights=precision.master_weights,
        stochastic_rounding=precision.stochastic_rounding,
        # Keras' next seed would differ from run to run.
        seed=0,
        state_dtype=precision.state,
    )
    return _in_graph(problem.eager(optimizer))


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

    def step() -> None:
        calls.assign_add(1.0, read_value=False)
        for variable in variables:
            # So that the function has it among its inputs.
            tf.raw_ops.VarIsInitializedOp(resource=variable.handle)

    return _in_graph(Contender(step, _norms_of([calls])))


def _tf_core(problem: Problem) -> Contender:
    variant = problem.variant
    variables = [variable.value for variable in problem.variables()]
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
            if "weight_decay" in variant.arguments:
                # The op has no decay.
                decay = variant.arguments["weight_decay"]
                p.assign_sub(variants.LEARNING_RATE * decay * p)
            moments = {"var": p.handle, "m": m.handle, "v": v.handle}
            if v_max:
                tf.raw_ops.ResourceApplyAdamWithAmsgrad(
                    **moments, vhat=v_max[0].handle, grad=g, **scalars
                )
            else:
                tf.raw_ops.ResourceApplyAdam(**moments, grad=g, **scalars)

    return _in_graph(Contender(step, _norms_of(variables)))


def _torch(
    implementation: str, in_float32: bool = False
) -> Callable[[Problem], Contender]:
    def build(problem: Problem) -> Contender:
        model = (problem.in_float32 if in_float32 else problem).torch_model
        return torch_contenders.contender(
            model, problem.variant, implementation
        )

    return build


# How to make each contender, by its name in the tables.
_BUILDERS: dict[str, Callable[[Problem], Contender]] = {
    variants.FLOOR: _memory_floor,
    variants.CALL: _call,
    variants.TF_OPT: _step(lambda problem: problem.tf_opt_eager, **_GRAPH),
    variants.TF_OPT_EAGER: _step(lambda problem: problem.tf_opt_eager),
    variants.TF_OPT_WITHOUT: _step(_without, **_GRAPH),
    variants.TF_OPT_XLA: _step(
        lambda problem: problem.eager(tf_opt_optimizer(problem.variant)), **_XLA
    ),
    variants.COMPOSED_XLA: _step(_composed, **_XLA),
    variants.COMPOSED_EAGER: _step(_composed),
    variants.KERAS: _step(lambda problem: problem.keras_eager, **_GRAPH),
    variants.KERAS_XLA: _step(lambda problem: problem.keras_eager, **_XLA),
    variants.KERAS_EAGER: _step(lambda problem: problem.keras_eager),
    variants.TF_CORE: _tf_core,
    variants.TORCH_FUSED: _torch("fused"),
    variants.TORCH_FOREACH: _torch("foreach"),
    variants.TORCH_FLOAT32: _torch("fused", in_float32=True),
    variants.TORCH_BFLOAT16: _torch("fused"),
}


def build(problem: Problem, name: str) -> Contender:
    """Makes a contender."""
    variant = problem.variant
    if name in variant.floors:
        return _floor(problem, variant.floors[name].arrays)
    if name in _BUILDERS:
        return _BUILDERS[name](problem)
    return _with_precision(problem, variant.precisions[name])
