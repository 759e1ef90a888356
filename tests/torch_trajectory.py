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
