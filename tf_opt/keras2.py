"""tf_opt's optimizers for Keras 2, the package tf_keras.

They are optimizers of tf_keras with the arguments of tf_opt's. Import this
module by name: `import tf_opt.keras2 as tfo`. docs/keras2.md describes it.
"""

from typing import TYPE_CHECKING, Any

import tf_opt as _tf_opt
from tf_opt.python.keras2 import adapter as _adapter
from tf_opt.python.keras2 import callbacks as callbacks
from tf_opt.python.keras2.conversion import from_tf_keras as from_tf_keras
from tf_opt.python.keras2.conversion import to_tf_keras as to_tf_keras

_OPTIMIZERS = {
    name: _adapter.adapted(cls)
    for name, cls in vars(_tf_opt).items()
    if isinstance(cls, type) and issubclass(cls, _adapter.FusedOptimizer)
}
globals().update(_OPTIMIZERS)
__all__ = ["callbacks", "from_tf_keras", "to_tf_keras", *_OPTIMIZERS]


def __dir__() -> list[str]:
    return __all__


# They find only what is assigned here.
if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
