"""Update rules as pure functions, which return new tensors."""

from tf_opt.python.functional import functions as _functions
from tf_opt.python.functional import rules as _rules
from tf_opt.python.functional.measure import GradientMeasures
from tf_opt.python.functional.measure import measure_gradients
from tf_opt.python.functional.unrolling import UnrollResult
from tf_opt.python.functional.unrolling import unroll

__all__ = ["GradientMeasures", "UnrollResult", "measure_gradients", "unroll"]

# A function and the type of its results for each rule: `adam`, `AdamResult`.
_made = {
    each.__name__: each
    for pair in map(_functions.make, _rules.RULES)
    for each in pair
}
globals().update(_made)
__all__ += _made


def __dir__() -> list[str]:
    return __all__
