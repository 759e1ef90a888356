"""The update rules on pure tensors: new tensors out, nothing assigned."""

from tf_opt.python.functional.adam_rule import AdamResult
from tf_opt.python.functional.adam_rule import adam

__all__ = ["AdamResult", "adam"]
