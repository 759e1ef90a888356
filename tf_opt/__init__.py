"""Fused optimizers for TensorFlow and Keras 3."""

from typing import TYPE_CHECKING

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

from tf_opt import callbacks as callbacks
from tf_opt import functional as functional
from tf_opt import ops as ops
from tf_opt.python import tensorflow_internals as _tensorflow_internals
from tf_opt.python.build_info import build_info as build_info
from tf_opt.python.conversion.from_torch import from_torch as from_torch
from tf_opt.python.conversion.keras_optimizers import from_keras as from_keras
from tf_opt.python.conversion.keras_optimizers import to_keras as to_keras
from tf_opt.python.conversion.to_torch import to_torch as to_torch
from tf_opt.python.conversion.torch_layouts import (
    torch_layouts as torch_layouts,
)
from tf_opt.python.functional import rules as _rules
from tf_opt.python.ops import calls as _calls
from tf_opt.python.ops import library as _library
from tf_opt.python.optimizers.adadelta import Adadelta as Adadelta
from tf_opt.python.optimizers.adafactor import Adafactor as Adafactor
from tf_opt.python.optimizers.adagrad import Adagrad as Adagrad
from tf_opt.python.optimizers.adam import Adam as Adam
from tf_opt.python.optimizers.adam import AdamW as AdamW
from tf_opt.python.optimizers.adamax import Adamax as Adamax
from tf_opt.python.optimizers.asgd import ASGD as ASGD
from tf_opt.python.optimizers.averaged_sgd import AveragedSGD as AveragedSGD
from tf_opt.python.optimizers.ftrl import Ftrl as Ftrl
from tf_opt.python.optimizers.lamb import Lamb as Lamb
from tf_opt.python.optimizers.layerwise import (
    layerwise_multipliers as layerwise_multipliers,
)
from tf_opt.python.optimizers.lion import Lion as Lion
from tf_opt.python.optimizers.loss_scale_optimizer import (
    LossScaleOptimizer as LossScaleOptimizer,
)
from tf_opt.python.optimizers.muon import Muon as Muon
from tf_opt.python.optimizers.nadam import NAdam as NAdam
from tf_opt.python.optimizers.rmsprop import RMSprop as RMSprop
from tf_opt.python.optimizers.schedule_free_adamw import (
    ScheduleFreeAdamW as ScheduleFreeAdamW,
)
from tf_opt.python.optimizers.sgd import SGD as SGD
from tf_opt.version import __version__

_tensorflow_internals.exclude_from_autograph(__name__)

# Load the library on import, not on first use: a saved training function, or a
# step that another process sends to this server, names the ops without calling
# Python.
if _library.library().ops is not None:
    for _rule in _rules.RULES:
        _calls.check_fits(_rule)

__all__ = ["__version__", "callbacks", "functional", "ops"]
__all__ += [x for x in globals() if x[0] != "_" and callable(globals()[x])]


def __dir__() -> list[str]:
    # Python adds `python` and `version`, which are imported above.
    return __all__


# Type checkers would take any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> None:
        """Raises an error that explains names that only Keras has."""
        message = f"module {__name__!r} has no attribute {name!r}"
        if name == "Nadam":
            message += (
                ": it is `tf_opt.NAdam`, whose defaults are PyTorch's. "
                "`tf_opt.NAdam(1e-3, epsilon=1e-7, momentum_decay=1.0)` "
                "computes what `keras.optimizers.Nadam()` does, and "
                "`tf_opt.from_keras(optimizer)` converts any other"
            )
        elif not name.startswith("_") and hasattr(_keras.optimizers, name):
            own = [x for x in __all__ if isinstance(globals()[x], type)]
            message += (
                f": `keras.optimizers.{name}` has no counterpart. tf_opt has "
                f"{', '.join(own)}"
            )
        raise AttributeError(message)
