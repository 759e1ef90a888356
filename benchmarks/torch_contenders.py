"""PyTorch's optimizer steps, and the usual calls around them.

Import it before TensorFlow: some versions of torch crash otherwise.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

try:
    import torch
except ImportError:
    torch = None

from measure import Contender
from variants import Variant

# Lets GradScaler do all its work and leave the gradients as they are: in a loop
# over the same gradients a larger scale would divide them away.
_LOSS_SCALE = 1.0


class Model:
    """Parameters with gradients, for all of torch's contenders."""

    def __init__(self, gradients: Sequence[Any], variant: Variant) -> None:
        """Makes new parameters."""
        # These write into the gradients, which can't be shared then.
        in_place = (
            "global_clipnorm" in variant.arguments
            or variant.loss_scaled
            or variant.micro_steps > 1
        )
        self.gradients = gradients
        # The slots of each parameter.
        self.state: dict[Any, dict[str, Any]] = collections.defaultdict(dict)
        self.parameters = []
        for gradient in gradients:
            values = 0.02 * torch.randn(gradient.shape)
            parameter = torch.nn.Parameter(values.to(gradient.dtype))
            parameter.grad = gradient.clone() if in_place else gradient
            self.parameters.append(parameter)


def _accumulation(model: Model, micro_steps: int) -> Callable[[], None]:
    sums = [parameter.grad for parameter in model.parameters]

    def accumulate() -> None:
        # The first micro-step costs nothing: the backward pass hands over the
        # gradients that it made.
        for _ in range(micro_steps - 1):
            torch._foreach_add_(sums, model.gradients)
        torch._foreach_div_(sums, micro_steps)

    return accumulate


def _clipping(model: Model, norm: float) -> Callable[[], None]:
    def clip() -> None:
        torch.nn.utils.clip_grad_norm_(model.parameters, norm, foreach=True)

    return clip


def _averaging(model: Model, momentum: float) -> Callable[[], None]:
    values = [parameter.detach() for parameter in model.parameters]
    averages = [value.clone() for value in values]

    def average() -> None:
        torch._foreach_lerp_(averages, values, 1 - momentum)

    return average


def _arguments(variant: Variant) -> dict[str, Any]:
    """Translates the arguments of tf_opt's class to torch's."""
    given = variant.arguments | variant.own_arguments
    arguments = {"lr": given["learning_rate"]}
    if "beta_1" in given:
        arguments["betas"] = (given["beta_1"], given["beta_2"])
        arguments["eps"] = given["epsilon"]
    shared = ("amsgrad", "weight_decay", "momentum_decay", "t0")
    return arguments | {name: given[name] for name in shared if name in given}


def contender(model: Model, variant: Variant, implementation: str) -> Contender:
    """Makes a torch optimizer's step, with the calls that the variant needs."""
    name = "ASGD" if variant.optimizer == "AveragedSGD" else variant.optimizer
    optimizer = getattr(torch.optim, name)(
        model.parameters, **_arguments(variant), **{implementation: True}
    )
    optimizer.state = model.state

    parts: list[Callable[[], Any]] = []
    if variant.micro_steps > 1:
        parts.append(_accumulation(model, variant.micro_steps))
    if variant.loss_scaled:
        scaler = torch.amp.GradScaler("cpu", init_scale=_LOSS_SCALE)
        scaler.scale(torch.zeros(()))  # Makes its scale.
        parts.append(lambda: scaler.unscale_(optimizer))
    if "global_clipnorm" in variant.arguments:
        parts.append(_clipping(model, variant.arguments["global_clipnorm"]))
    if variant.loss_scaled:
        parts.append(lambda: scaler.step(optimizer))
        parts.append(scaler.update)
    else:
        parts.append(optimizer.step)
    if "ema_momentum" in variant.arguments:
        parts.append(_averaging(model, variant.arguments["ema_momentum"]))

    def step() -> None:
        for part in parts:
            part()

    return Contender(
        step,
        lambda: [
            float(p.detach().square().sum(dtype=torch.float32))
            for p in model.parameters
        ],
    )
