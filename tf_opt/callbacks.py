"""Keras callbacks that some optimizers need during `fit`."""

from tf_opt.python.callbacks.catch_up import CatchUp
from tf_opt.python.callbacks.shuffled_batches import ShuffledBatches
from tf_opt.python.callbacks.swap_averaged_weights import SwapAveragedWeights

__all__ = ["CatchUp", "ShuffledBatches", "SwapAveragedWeights"]
