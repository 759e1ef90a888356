"""Update rules as pure functions, which return new tensors.

Each rule computes one step of its optimizer on one tensor. It assigns nothing
and is differentiable with respect to every tensor, to any order, in eager mode,
in `tf.function` and under XLA. (Where a second moment is 0, the derivatives of
its square root would be infinite and count as 0; see docs/differentiable.md.)

Arithmetic is float32, or float64 for float64 variables; scalars are computed in
float64. A complex number is treated as two real numbers: its slots are complex,
and their real and imaginary parts are the slots of the two.

Arguments may be tensors, variables, NumPy arrays or Python numbers. Those
without a TensorFlow type are converted to the required one. Variables and
slots keep their types. Values of 16 bits are rounded to nearest, which loses
small steps (the optimizers can round at random instead).
"""

from tf_opt.python.functional.adadelta_rule import AdadeltaResult
from tf_opt.python.functional.adadelta_rule import adadelta
from tf_opt.python.functional.adagrad_rule import AdagradResult
from tf_opt.python.functional.adagrad_rule import adagrad
from tf_opt.python.functional.adam_rule import AdamResult
from tf_opt.python.functional.adam_rule import adam
from tf_opt.python.functional.adamax_rule import AdamaxResult
from tf_opt.python.functional.adamax_rule import adamax
from tf_opt.python.functional.asgd_rule import ASGDResult
from tf_opt.python.functional.asgd_rule import asgd
from tf_opt.python.functional.averaged_sgd_rule import AveragedSGDResult
from tf_opt.python.functional.averaged_sgd_rule import averaged_sgd
from tf_opt.python.functional.ftrl_rule import FtrlResult
from tf_opt.python.functional.ftrl_rule import ftrl
from tf_opt.python.functional.lion_rule import LionResult
from tf_opt.python.functional.lion_rule import lion
from tf_opt.python.functional.measure import GradientMeasures
from tf_opt.python.functional.measure import measure_gradients
from tf_opt.python.functional.nadam_rule import NAdamResult
from tf_opt.python.functional.nadam_rule import nadam
from tf_opt.python.functional.rmsprop_rule import RMSpropResult
from tf_opt.python.functional.rmsprop_rule import rmsprop
from tf_opt.python.functional.sgd_rule import SGDResult
from tf_opt.python.functional.sgd_rule import sgd
from tf_opt.python.functional.unrolling import UnrollResult
from tf_opt.python.functional.unrolling import unroll

__all__ = [
    "ASGDResult",
    "AdadeltaResult",
    "AdagradResult",
    "AdamResult",
    "AdamaxResult",
    "AveragedSGDResult",
    "FtrlResult",
    "GradientMeasures",
    "LionResult",
    "NAdamResult",
    "RMSpropResult",
    "SGDResult",
    "UnrollResult",
    "adadelta",
    "adagrad",
    "adam",
    "adamax",
    "asgd",
    "averaged_sgd",
    "ftrl",
    "lion",
    "measure_gradients",
    "nadam",
    "rmsprop",
    "sgd",
    "unroll",
]


def __dir__() -> list[str]:
    return __all__
