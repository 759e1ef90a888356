"""AdamW: Adam with a decay by default."""

import functools

from reference import adam

MODES = {
    "plain": {},
    "amsgrad_maximize": {
        "amsgrad": True,
        "beta_2": 0.8,
        "weight_decay": 0.5,
        "maximize": True,
    },
}
THOROUGH = "amsgrad_maximize"
TORCH_DECOUPLES = True
TO_NEAREST = adam.TO_NEAREST
WEIGHT_DECAY = 0.01

torch = functools.partial(adam.torch, weight_decay=WEIGHT_DECAY)
step = adam.step
