"""Wrappers of the registered custom ops."""

from tf_opt.python.ops.measure_gradients import measure_gradients
from tf_opt.python.ops.optimizer_ops import resource_apply_adam_amsgrad
from tf_opt.python.ops.optimizer_ops import resource_apply_asgd
from tf_opt.python.ops.optimizer_ops import resource_apply_averaged_sgd
from tf_opt.python.ops.optimizer_ops import resource_apply_nadam
from tf_opt.python.ops.step_frame import StepFrame

__all__ = [
    "StepFrame",
    "measure_gradients",
    "resource_apply_adam_amsgrad",
    "resource_apply_asgd",
    "resource_apply_averaged_sgd",
    "resource_apply_nadam",
]
