"""The callbacks that complete what an optimizer does, for Keras 2."""

from __future__ import annotations

import keras
import tf_keras

from tf_opt import callbacks

__all__ = ["CatchUp", "SwapAveragedWeights"]


def _adapted(cls: type[keras.callbacks.Callback]) -> type:
    """Returns a callback's class that Keras 2 takes, too."""
    attributes = {
        "__doc__": cls.__doc__,
        "__module__": "tf_opt.keras2.callbacks",
        "_embedding_class": tf_keras.layers.Embedding,
        # What the constructor of Keras 2 would assign.
        "_chief_worker_only": None,
        # They use no logs, which parameter servers don't have in each batch.
        "_supports_tf_logs": True,
    }
    return type(cls.__name__, (cls, tf_keras.callbacks.Callback), attributes)


CatchUp = _adapted(callbacks.CatchUp)
SwapAveragedWeights = _adapted(callbacks.SwapAveragedWeights)
