"""Wrappers of the registered custom ops."""

from tf_opt.python.functional import rules as _rules
from tf_opt.python.ops import optimizer_ops as _optimizer_ops
from tf_opt.python.ops.measure_gradients import measure_gradients
from tf_opt.python.ops.step_frame import StepFrame

__all__ = ["StepFrame", "measure_gradients"]

# One for each rule, such as `resource_apply_adam_amsgrad`.
_wrappers = {
    each.__name__: each for each in map(_optimizer_ops.wrapper, _rules.RULES)
}
globals().update(_wrappers)
__all__ += _wrappers


def __dir__() -> list[str]:
    return __all__
