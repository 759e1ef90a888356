"""Update rules as pure functions, which return new tensors."""

from tf_opt.python.functional.adam_rule import AdamResult
from tf_opt.python.functional.adam_rule import adam
from tf_opt.python.functional.asgd_rule import ASGDResult
from tf_opt.python.functional.asgd_rule import asgd
from tf_opt.python.functional.averaged_sgd_rule import AveragedSGDResult
from tf_opt.python.functional.averaged_sgd_rule import averaged_sgd
from tf_opt.python.functional.measure import GradientMeasures
from tf_opt.python.functional.measure import measure_gradients
from tf_opt.python.functional.nadam_rule import NAdamResult
from tf_opt.python.functional.nadam_rule import nadam
from tf_opt.python.functional.unrolling import UnrollResult
from tf_opt.python.functional.unrolling import unroll

__all__ = [
    "ASGDResult",
    "AdamResult",
    "AveragedSGDResult",
    "GradientMeasures",
    "NAdamResult",
    "UnrollResult",
    "adam",
    "asgd",
    "averaged_sgd",
    "measure_gradients",
    "nadam",
    "unroll",
]
