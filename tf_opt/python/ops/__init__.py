"""Thin wrappers of the registered custom ops."""

from tf_opt.python.ops.adam import resource_apply_adam_amsgrad

__all__ = ["resource_apply_adam_amsgrad"]
