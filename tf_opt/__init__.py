"""Fused optimizers for TensorFlow and Keras 3."""

try:
    import keras as _keras
except ImportError as error:
    raise ImportError(
        "tf_opt needs Keras 3 with its TensorFlow backend, and Keras can't be "
        f"imported ({error}). Install TensorFlow, or set the environment "
        'variable KERAS_BACKEND="tensorflow".'
    ) from error

if _keras.backend.backend() != "tensorflow":
    raise ImportError(
        "tf_opt needs Keras' TensorFlow backend, but Keras runs on "
        f"{_keras.backend.backend()!r}. Set the environment variable "
        'KERAS_BACKEND="tensorflow" before Keras is imported.'
    )

import sys as _sys

from tf_opt.python import callbacks
from tf_opt.python import functional
from tf_opt.python import ops
from tf_opt.python import tensorflow_internals as _tensorflow_internals
from tf_opt.python.build_info import build_info
from tf_opt.python.functional import rules as _rules
from tf_opt.python.ops import library as _library
from tf_opt.python.ops import optimizer_ops as _optimizer_ops
from tf_opt.python.optimizers.adam import Adam
from tf_opt.python.optimizers.adam import AdamW
from tf_opt.python.optimizers.asgd import ASGD
from tf_opt.python.optimizers.averaged_sgd import AveragedSGD
from tf_opt.python.optimizers.from_keras import from_keras
from tf_opt.python.optimizers.layerwise import layerwise_multipliers
from tf_opt.python.optimizers.loss_scale_optimizer import LossScaleOptimizer
from tf_opt.python.optimizers.nadam import NAdam
from tf_opt.version import __version__

_tensorflow_internals.exclude_from_autograph(__name__)

# For `from tf_opt.callbacks import ...`.
for _name in ("callbacks", "functional", "ops"):
    _sys.modules[f"{__name__}.{_name}"] = globals()[_name]

# Load the library on import, not on first use: a saved training function, or a
# step that another process sends to this server, names the ops without calling
# Python.
if _library.library().ops is not None:
    for _rule in _rules.RULES:
        _optimizer_ops.check_fits(_rule)

__all__ = [
    "ASGD",
    "Adam",
    "AdamW",
    "AveragedSGD",
    "LossScaleOptimizer",
    "NAdam",
    "__version__",
    "build_info",
    "callbacks",
    "from_keras",
    "functional",
    "layerwise_multipliers",
    "ops",
]
