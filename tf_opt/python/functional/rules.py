"""All rules: every module of this package whose name ends in `_rule`."""

from __future__ import annotations

import importlib
import pathlib

from tf_opt.python.functional.docstrings import RULE_PARTS
from tf_opt.python.functional.docstrings import fill_in
from tf_opt.python.functional.rule_spec import RuleSpec

RULES: tuple[RuleSpec, ...] = tuple(
    importlib.import_module(f"{__package__}.{module.stem}").SPEC
    for module in sorted(pathlib.Path(__file__).parent.glob("*_rule.py"))
)

for _rule in RULES:
    _formula = RULE_PARTS["formula"].format(class_name=_rule.class_name)
    fill_in(_rule.function, {**RULE_PARTS, "formula": _formula})
