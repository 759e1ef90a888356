"""What `torch.optim` computes, on numbers that any optimizer can repeat."""

import contextlib
from collections.abc import Iterator

import numpy as np
from tf_opt.python.conversion.torch_counterparts import COUNTERPARTS

from registry import MODES, OPTIMIZERS, Arguments

# A float32 has it exactly, and so has Keras' variable that holds it.
LEARNING_RATE = 2.0**-10
STEPS = 200
SIZE = 16

State = dict[str, np.ndarray]

# The (optimizer, mode) pairs that PyTorch has too.
TORCH_MODES = [
    (name, mode)
    for name, mode in MODES
    if OPTIMIZERS[name].torch(OPTIMIZERS[name].modes[mode])
]


def initial_value(dtype: str) -> np.ndarray:
    """Both signs, and far from 0: the step is far smaller."""
    generator = np.random.default_rng(1)
    signs = generator.choice([-1.0, 1.0], SIZE)
    return (signs * generator.uniform(1, 2, SIZE)).astype(dtype)


def gradients(dtype: str, arguments: Arguments) -> np.ndarray:
    """A row for each step. It shrinks for nine steps, then is large again.

    Each element pulls its variable towards 0, also where the mode's arguments
    say `maximize`: then it has the sign of the L2 decay, no sum cancels, and
    every element of variable and slots can be held to a relative error.
    """
    magnitudes = 10 ** np.random.default_rng(2).uniform(-1, 1, (STEPS, SIZE))
    magnitudes *= 0.5 ** (np.arange(1, STEPS + 1) % 9)[:, np.newaxis]
    sign = -1 if arguments.get("maximize") else 1
    return (sign * np.sign(initial_value(dtype)) * magnitudes).astype(dtype)


@contextlib.contextmanager
def float64_scalars() -> Iterator[None]:
    """PyTorch keeps a step's scalars in its default type."""
    import torch

    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(default)


def torch_states(name: str, mode: str, dtype: str) -> State:
    """The variable and slots of PyTorch's own optimizer, a row for each step.

    Names are ours.
    """
    import torch

    under_test = OPTIMIZERS[name]
    arguments = under_test.modes[mode]
    torch_name, torch_arguments = under_test.torch(arguments)
    parameter = torch.nn.Parameter(torch.tensor(initial_value(dtype)))
    optimizer = getattr(torch.optim, torch_name)(
        [parameter], lr=LEARNING_RATE, foreach=False, **torch_arguments
    )
    slots, names = under_test.slots(arguments), COUNTERPARTS[torch_name].slots
    states = {key: [] for key in ("variable", *slots)}
    for gradient in gradients(dtype, arguments):
        parameter.grad = torch.tensor(gradient)
        with float64_scalars():
            optimizer.step()
        states["variable"].append(parameter.detach().numpy().copy())
        for slot in slots:
            kept = optimizer.state[parameter][names[slot]]
            states[slot].append(kept.numpy().copy())
    return {key: np.array(rows) for key, rows in states.items()}
