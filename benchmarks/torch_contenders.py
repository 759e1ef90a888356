"""PyTorch's optimizer steps, and the usual calls around them.

Import it before TensorFlow: some versions of torch crash otherwise.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from typing import Any

try:
    import torch
except ImportError:
    torch = None

# isort: split
import tensorflow as tf

from gradients import Batch
from measure import Contender
from shapes import Shape
from variants import Variant

# Lets GradScaler do all its work and leave the gradients as they are: in a loop
# over the same gradients a larger scale would divide them away.
_LOSS_SCALE = 1.0


def _shared(tensor: tf.Tensor) -> torch.Tensor:
    """Returns TensorFlow's tensor as torch's, with the same memory."""
    return torch.from_dlpack(tf.experimental.dlpack.to_dlpack(tensor))


def _updated_by_both(variable: tf.Variable) -> torch.Tensor:
    """Returns a variable's memory as torch's, for either to update.

    TensorFlow copies an array before an update if somebody else holds it, so
    the tensor knows only its address.
    """
    array = _shared(variable.value())
    memory = (ctypes.c_byte * array.nbytes).from_address(array.data_ptr())
    return torch.frombuffer(memory, dtype=array.dtype).view(array.shape)


def _use_arrays(
    optimizer: torch.optim.Optimizer,
    parameters: list[torch.nn.Parameter],
    arrays: list[list[tf.Variable]],
) -> None:
    """Puts each parameter and its state into a variable's and its slots'."""
    optimizer.step()  # Makes the state.
    for parameter, updated in zip(parameters, arrays, strict=True):
        parameter.data, *slots = map(_updated_by_both, updated)
        state = optimizer.state[parameter]
        names = [
            name
            for name, value in state.items()
            if torch.is_tensor(value) and value.shape == parameter.shape
        ]
        state.update(zip(names, slots, strict=True))


def _accumulation(
    parameters: list[torch.nn.Parameter],
    gradients: list[torch.Tensor],
    micro_steps: int,
) -> Callable[[], None]:
    sums = [parameter.grad for parameter in parameters]

    def accumulate() -> None:
        # The first micro-step costs nothing: the backward pass hands over the
        # gradients that it made.
        for _ in range(micro_steps - 1):
            torch._foreach_add_(sums, gradients)
        torch._foreach_div_(sums, micro_steps)

    return accumulate


def _arguments(variant: Variant) -> dict[str, Any]:
    """Translates the arguments of tf_opt's class to torch's."""
    given = variant.arguments | variant.own_arguments
    arguments = {"lr": given["learning_rate"]}
    if "beta_1" in given:
        arguments["betas"] = (given["beta_1"], given["beta_2"])
    if "epsilon" in given:
        arguments["eps"] = given["epsilon"]
    shared = ("amsgrad", "weight_decay", "momentum", "momentum_decay", "t0")
    return arguments | {name: given[name] for name in shared if name in given}


def contender(
    tensors: list[tf.Tensor],
    arrays: list[list[tf.Variable]] | None,
    variant: Variant,
    implementation: str,
) -> Contender:
    """Makes a torch optimizer's step, with the calls that the variant needs.

    With `arrays`, a list of each variable and its slots, it updates these: how
    fast memory is depends on where the system puts an array.
    """
    # These write into the gradients, which can't be shared then.
    in_place = (
        "global_clipnorm" in variant.arguments
        or variant.loss_scaled
        or variant.micro_steps > 1
    )
    gradients = list(map(_shared, tensors))
    parameters = []
    for gradient in gradients:
        values = 0.02 * torch.randn(gradient.shape)
        parameter = torch.nn.Parameter(values.to(gradient.dtype))
        parameter.grad = gradient.clone() if in_place else gradient
        parameters.append(parameter)
    name = "ASGD" if variant.optimizer == "AveragedSGD" else variant.optimizer
    optimizer = getattr(torch.optim, name)(
        parameters, **_arguments(variant), **{implementation: True}
    )
    if arrays is not None:
        _use_arrays(optimizer, parameters, arrays)

    parts: list[Callable[[], Any]] = []
    if variant.micro_steps > 1:
        parts.append(_accumulation(parameters, gradients, variant.micro_steps))
    if variant.loss_scaled:
        scaler = torch.amp.GradScaler("cpu", init_scale=_LOSS_SCALE)
        scaler.scale(torch.zeros(()))  # Makes its scale.
        parts.append(lambda: scaler.unscale_(optimizer))
    if norm := variant.arguments.get("global_clipnorm"):
        parts.append(
            lambda: torch.nn.utils.clip_grad_norm_(
                parameters, norm, foreach=True
            )
        )
    if variant.loss_scaled:
        parts.append(lambda: scaler.step(optimizer))
        parts.append(scaler.update)
    else:
        parts.append(optimizer.step)
    if momentum := variant.arguments.get("ema_momentum"):
        weights = [parameter.detach() for parameter in parameters]
        averages = [weight.clone() for weight in weights]
        parts.append(
            lambda: torch._foreach_lerp_(averages, weights, 1 - momentum)
        )

    def step() -> None:
        for part in parts:
            part()

    return Contender(step, _norms_of(parameters))


def sparse_contender(
    variant: Variant, name: str, shapes: list[Shape], batches: Sequence[Batch]
) -> Contender:
    """Makes a step of the torch optimizer of that name."""
    tables = [torch.nn.Parameter(0.02 * torch.randn(shape)) for shape in shapes]

    def gradients(batch: Batch) -> list[torch.Tensor]:
        return [
            torch.sparse_coo_tensor(
                torch.tensor(ids.numpy(), dtype=torch.int64)[None],
                _shared(values),
                table.shape,
                check_invariants=True,
            )
            for values, ids, table in zip(*batch, tables, strict=True)
        ]

    all_gradients = itertools.cycle(list(map(gradients, batches)))
    # Otherwise Adagrad warns that it doesn't check what it makes.
    torch.sparse.check_sparse_tensor_invariants.disable()
    optimizer = getattr(torch.optim, name)(tables, **_arguments(variant))

    def step() -> None:
        for table, gradient in zip(tables, next(all_gradients), strict=True):
            table.grad = gradient
        optimizer.step()

    # A step changes the norm of all rows too little to see.
    first = [torch.tensor(rows.numpy()) for rows in batches[0].rows]
    return Contender(step, _norms_of(tables, first))


def fbgemm_tables(
    shapes: list[Shape], learning_rate: float, epsilon: float
) -> torch.nn.Module:
    """Makes FBGEMM's tables, which the backward pass updates by rows."""
    from fbgemm_gpu import split_table_batched_embeddings_ops_common as common
    from fbgemm_gpu import split_table_batched_embeddings_ops_training as tbe

    host = common.EmbeddingLocation.HOST, tbe.ComputeDevice.CPU
    return tbe.SplitTableBatchedEmbeddingBagsCodegen(
        [(*shape, *host) for shape in shapes],
        optimizer=tbe.OptimType.EXACT_ROWWISE_ADAGRAD,
        learning_rate=learning_rate,
        eps=epsilon,
    )


def fbgemm_contender(
    variant: Variant, shapes: list[Shape], batches: Sequence[Batch]
) -> Contender:
    """Makes the backward pass of FBGEMM's tables."""
    arguments = _arguments(variant)
    tables = fbgemm_tables(shapes, arguments["lr"], arguments.get("eps", 1e-8))
    weights = tables.split_embedding_weights()
    for weight in weights:
        weight.normal_(std=0.02)

    def lookup(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        ids = torch.tensor(tf.concat(batch.ids, 0).numpy(), dtype=torch.int64)
        # A bag is one id.
        rows = tables(ids, torch.arange(len(ids) + 1))
        return rows, torch.cat(list(map(_shared, batch.values)), dim=1)

    lookups = itertools.cycle(list(map(lookup, batches)))

    def step() -> None:
        rows, gradient = next(lookups)
        rows.backward(gradient, retain_graph=True)

    first = [torch.tensor(rows.numpy()) for rows in batches[0].rows]
    return Contender(step, _norms_of(weights, first))


def _norms_of(
    parameters: list[torch.nn.Parameter],
    rows: Sequence[torch.Tensor | slice] = itertools.repeat(slice(None)),
) -> Callable[[], list[float]]:
    return lambda: [
        float(parameter.detach()[some].square().sum(dtype=torch.float32))
        for parameter, some in zip(parameters, rows, strict=False)
    ]
