"""Keras callbacks that show or complete what an optimizer does in `fit`."""

from tf_opt.python.callbacks.catch_up import CatchUp
from tf_opt.python.callbacks.monitor import Monitor
from tf_opt.python.callbacks.shuffled_batches import ShuffledBatches
from tf_opt.python.callbacks.swap_averaged_weights import SwapAveragedWeights

__all__ = ["CatchUp", "Monitor", "ShuffledBatches", "SwapAveragedWeights"]


def __dir__() -> list[str]:
    return __all__
