"""AdamW: Adam with a decay by default."""

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
TO_NEAREST = adam.TO_NEAREST
WEIGHT_DECAY = 0.01

step = adam.step
