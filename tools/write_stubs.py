"""Writes the stubs of the modules whose functions are made from rules.

Type checkers and editors, which run nothing, know these functions from there.
"""

from __future__ import annotations

import dataclasses
import inspect
import pathlib
from collections.abc import Iterator
from types import ModuleType

import tf_opt

_IMPORTS = """
from __future__ import annotations
from collections.abc import Sequence
from typing import NamedTuple
import tensorflow as tf
from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.functional.tensors import TensorLike
from tf_opt.python.ops.inputs import VariableLike
"""


def _stub(module: ModuleType) -> Iterator[str]:
    yield f'"""{module.__doc__}"""'
    yield _IMPORTS
    for name in module.__all__:
        found = getattr(module, name)
        summary = f'    """{inspect.getdoc(found).splitlines()[0]}"""'
        if found.__module__ != module.__name__:
            yield f"from {found.__module__} import {name} as {name}"
        elif isinstance(found, type):
            yield f"class {name}(NamedTuple):\n{summary}"
            for field in found._fields:
                optional = " | None = None" * (field in found._field_defaults)
                yield f"    {field}: tf.Tensor{optional}"
        else:
            signature = inspect.signature(found)
            result = getattr(signature.return_annotation, "__name__", None)
            listed = ", ".join(_parameters(signature))
            yield f"def {name}({listed},) -> {result}:\n{summary}"


def _parameters(signature: inspect.Signature) -> Iterator[str]:
    kinds = []
    for parameter in signature.parameters.values():
        if parameter.kind == parameter.KEYWORD_ONLY not in kinds:
            yield "*"
        kinds.append(parameter.kind)
        default = parameter.default
        text = f"{parameter.name}: {parameter.annotation}"
        if default is parameter.empty:
            yield text
        elif dataclasses.is_dataclass(default):
            yield f"{text} = {type(default).__name__}()"
        else:
            yield f"{text} = {default!r}"


if __name__ == "__main__":
    for written in (tf_opt.functional, tf_opt.ops):
        path = pathlib.Path(written.__file__).with_suffix(".pyi")
        path.write_text("\n".join(_stub(written)) + "\n")
