"""What `torch.optim` computes, on numbers that any optimizer can repeat."""

import contextlib
from collections.abc import Iterator

import keras
import numpy as np
import tf_opt
from tf_opt.python.conversion.torch_counterparts import COUNTERPARTS

from registry import MODES, OPTIMIZERS, Arguments

# A float32 has it exactly, and so has Keras' variable that holds it.
LEARNING_RATE = 2.0**-10
STEPS = 200
SIZE = 16

State = dict[str, np.ndarray]

# PyTorch's class by the name of ours.
_CLASSES = {x.cls.__name__: name for name, x in COUNTERPARTS.items()}


def in_torch(name: str, mode: str) -> tuple[str, Arguments] | None:
    """PyTorch's class and arguments of a mode; None where it has none."""
    under_test = OPTIMIZERS[name]
    variable = keras.Variable([1.0])
    optimizer = under_test.make(LEARNING_RATE, **under_test.modes[mode])
    optimizer.build([variable])
    try:
        (group,) = tf_opt.to_torch(optimizer, [variable])["param_groups"]
    except (ImportError, ValueError):
        return None
    del group["params"], group["lr"]
    if name == "AdamW":  # It has no other decay.
        del group["decoupled_weight_decay"]
    return _CLASSES[name], group


# The (optimizer, mode) pairs that PyTorch has too.
TORCH_MODES = [x for x in MODES if x[0] in _CLASSES and in_torch(*x)]


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
    torch_name, torch_arguments = in_torch(name, mode)
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
