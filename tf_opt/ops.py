"""The custom ops, as the Python functions that TensorFlow generates for them.

`resource_apply_adam_amsgrad` is the op `TfOpt>ResourceApplyAdamAmsgrad`, and so
on. An op takes lists of variables' handles, so one launch updates many
variables, and no input has a default. docs/api/ops.md describes them.
"""

from collections.abc import Callable
from typing import Any

from tf_opt.python.ops import library as _library

_functions = _library.functions()
globals().update(_functions)
__all__ = [*_functions]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Callable[..., Any]:
    """Raises an error that says why there are no ops, if so."""
    message = f"module {__name__!r} has no attribute {name!r}"
    if not _functions and not name.startswith("_"):
        message += f": {_library.explain_problem()}"
    raise AttributeError(message)
