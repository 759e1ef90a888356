"""Signatures of functions that are made from a rule's specification."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

# Name and annotation, and perhaps a default.
Parameter = tuple[str, str] | tuple[str, str, Any]


def with_signature(
    function: Callable,
    *,
    name: str,
    module: str,
    doc: str,
    positional: Iterable[Parameter],
    keyword: Iterable[Parameter],
    returns: Any,
) -> Callable:
    """Gives a function a name, a docstring and a signature, which it checks.

    `function` takes a mapping of all arguments by name, defaults included.
    `module` is where users find it, and `returns` the annotation of its
    result.
    """

    def parameter(kind: Any, name: str, annotation: str, *default: Any) -> Any:
        found = inspect.Parameter(name, kind, annotation=annotation)
        return found.replace(default=default[0]) if default else found

    both = inspect.Parameter.POSITIONAL_OR_KEYWORD
    only = inspect.Parameter.KEYWORD_ONLY
    parameters = [parameter(both, *each) for each in positional]
    parameters += [parameter(only, *each) for each in keyword]
    signature = inspect.Signature(parameters, return_annotation=returns)

    def call(*args: Any, **kwargs: Any) -> Any:
        given = bind(name, signature, args, kwargs)
        given.apply_defaults()
        return function(given.arguments)

    call.__module__, call.__doc__ = module, doc
    call.__name__ = call.__qualname__ = name
    call.__signature__ = signature
    call.__annotations__ = {x.name: x.annotation for x in parameters}
    call.__annotations__["return"] = returns
    return call


def bind(
    name: str,
    signature: inspect.Signature,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> inspect.BoundArguments:
    """Binds a call's arguments; errors name the function, as Python's do."""
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{name}() {error}") from None
