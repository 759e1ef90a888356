"""All rules: every module of this package whose name ends in `_rule`."""

from __future__ import annotations

import importlib
import pathlib

from tf_opt.python.functional.rule_spec import RuleSpec

RULES: tuple[RuleSpec, ...] = tuple(
    importlib.import_module(f"{__package__}.{module.stem}").SPEC
    for module in sorted(pathlib.Path(__file__).parent.glob("*_rule.py"))
)
