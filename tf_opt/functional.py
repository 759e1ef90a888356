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

from tf_opt.python.functional.adadelta_rule import (
    AdadeltaResult as AdadeltaResult,
)
from tf_opt.python.functional.adadelta_rule import adadelta as adadelta
from tf_opt.python.functional.adafactor_rule import (
    AdafactorResult as AdafactorResult,
)
from tf_opt.python.functional.adafactor_rule import adafactor as adafactor
from tf_opt.python.functional.adagrad_rule import AdagradResult as AdagradResult
from tf_opt.python.functional.adagrad_rule import adagrad as adagrad
from tf_opt.python.functional.adam_rule import AdamResult as AdamResult
from tf_opt.python.functional.adam_rule import adam as adam
from tf_opt.python.functional.adamax_rule import AdamaxResult as AdamaxResult
from tf_opt.python.functional.adamax_rule import adamax as adamax
from tf_opt.python.functional.asgd_rule import ASGDResult as ASGDResult
from tf_opt.python.functional.asgd_rule import asgd as asgd
from tf_opt.python.functional.averaged_sgd_rule import (
    AveragedSGDResult as AveragedSGDResult,
)
from tf_opt.python.functional.averaged_sgd_rule import (
    averaged_sgd as averaged_sgd,
)
from tf_opt.python.functional.ftrl_rule import FtrlResult as FtrlResult
from tf_opt.python.functional.ftrl_rule import ftrl as ftrl
from tf_opt.python.functional.lamb_rule import LambResult as LambResult
from tf_opt.python.functional.lamb_rule import lamb as lamb
from tf_opt.python.functional.lion_rule import LionResult as LionResult
from tf_opt.python.functional.lion_rule import lion as lion
from tf_opt.python.functional.measure import (
    GradientMeasures as GradientMeasures,
)
from tf_opt.python.functional.measure import (
    measure_gradients as measure_gradients,
)
from tf_opt.python.functional.muon_rule import MuonResult as MuonResult
from tf_opt.python.functional.muon_rule import muon as muon
from tf_opt.python.functional.nadam_rule import NAdamResult as NAdamResult
from tf_opt.python.functional.nadam_rule import nadam as nadam
from tf_opt.python.functional.rmsprop_rule import RMSpropResult as RMSpropResult
from tf_opt.python.functional.rmsprop_rule import rmsprop as rmsprop
from tf_opt.python.functional.schedule_free_adamw_rule import (
    ScheduleFreeAdamWResult as ScheduleFreeAdamWResult,
)
from tf_opt.python.functional.schedule_free_adamw_rule import (
    schedule_free_adamw as schedule_free_adamw,
)
from tf_opt.python.functional.sgd_rule import SGDResult as SGDResult
from tf_opt.python.functional.sgd_rule import sgd as sgd
from tf_opt.python.functional.unrolling import UnrollResult as UnrollResult
from tf_opt.python.functional.unrolling import unroll as unroll

__all__ = sorted(name for name in globals() if name[0] != "_")


def __dir__() -> list[str]:
    return __all__
