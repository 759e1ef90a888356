"""Data set of the functions of Python's standard library and their calls.

It is parsed from the source files that come with Python.
"""

from __future__ import annotations

import ast
import collections
import itertools
import pathlib
import re
import sysconfig
import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import rich.progress

# Folders with code that isn't part of the library itself.
_LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idle_test"}
# A model can't learn a call that only one function makes.
_FEWEST_FUNCTIONS = 2
_TEST_SHARE = 0.1
# The table row for padding.
_PADDING = 0
FUNCTION_FEATURES = 64
CALL_FEATURES = 24


class Function(NamedTuple):
    """A function of the library.

    Attributes:
        module: The function's module, such as "json/decoder".
        words: The words of its name and its arguments' names.
        calls: The names that it calls, each once; ".name" for a method.
    """

    module: str
    words: list[str]
    calls: list[str]


class Pairs(NamedTuple):
    """Functions with one missing call, and the missing calls.

    Attributes:
        functions: The features of each function, (pairs, FUNCTION_FEATURES).
        calls: The number of each missing call in the catalogue.
    """

    functions: np.ndarray
    calls: np.ndarray


class Data(NamedTuple):
    """Data for training and testing.

    Attributes:
        catalogue: The features of all calls, (calls, CALL_FEATURES).
        train: The pairs for training.
        test: The pairs for testing, made of other functions.
    """

    catalogue: np.ndarray
    train: Pairs
    test: Pairs


def _words(name: str) -> list[str]:
    """Splits a snake_case or CamelCase name into lower-case words."""
    found = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)
    return [word.lower() for word in found]


def _unique(items: Iterable[str]) -> list[str]:
    """Removes repetitions and keeps the order."""
    return list(dict.fromkeys(items))


def _calls(function: ast.AST) -> Iterator[str]:
    """Yields the names that a function calls."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                yield f".{node.func.attr}"
            elif isinstance(node.func, ast.Name):
                yield node.func.id


def _functions(module: str, source: bytes) -> Iterator[Function]:
    """Yields the functions and methods of a module."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return  # Some files have errors on purpose.
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [node.name, *(each.arg for each in node.args.args)]
            words = (word for name in names for word in _words(name))
            yield Function(module, _unique(words), _unique(_calls(node)))


def load_modules() -> dict[pathlib.Path, bytes]:
    """Returns the source of each module of the library, by its path."""
    root = pathlib.Path(sysconfig.get_path("stdlib"))
    modules = {path.relative_to(root): path for path in root.rglob("*.py")}
    return {
        module: path.read_bytes()
        for module, path in sorted(modules.items())
        if not _LEFT_OUT & set(module.parts)
    }


def _parse() -> list[Function]:
    """Returns all functions of the library, in order of their modules."""
    return [
        function
        for module, source in rich.progress.track(
            load_modules().items(), "Parsing Python's standard library"
        )
        for function in _functions(module.with_suffix("").as_posix(), source)
    ]


def _function_features(function: Function, missing: str) -> Iterator[str]:
    """Yields the features of a function without one call; pairs come last."""
    calls = [f"call {call}" for call in function.calls if call != missing]
    words = [f"word {word}" for word in function.words]
    yield f"module {function.module}"
    yield from words
    yield from calls
    for each in (*words, *calls):
        yield f"{function.module}, {each}"
    for word in words:
        for call in calls:
            yield f"{word}, {call}"


def _call_features(name: str) -> list[str]:
    """Returns a call's name, words and trigrams."""
    framed = f"<{name}>"
    trigrams = (framed[i : i + 3] for i in range(len(framed) - 2))
    words = (f"word {word}" for word in _words(name))
    return _unique([f"name {name}", *words, *trigrams])


def _rows(features: Iterable[str], table: int, length: int) -> list[int]:
    """Hashes features to table rows, padded or cut to `length`."""
    # Python's hash() gives different results in every process.
    rows = [
        1 + zlib.crc32(feature.encode()) % (table - 1)
        for feature in itertools.islice(features, length)
    ]
    return rows + [_PADDING] * (length - len(rows))


def _make_pairs(
    functions: list[Function], numbers: dict[str, int], table: int
) -> Pairs:
    """Makes a pair for each call of a function that is in the catalogue."""
    pairs = [
        (
            _rows(_function_features(function, call), table, FUNCTION_FEATURES),
            numbers[call],
        )
        for function in functions
        for call in function.calls
        if call in numbers
    ]
    rows, calls = zip(*pairs, strict=True)
    return Pairs(np.array(rows, np.int32), np.array(calls, np.int32))


def load_data(table: int, seed: int) -> Data:
    """Parses the library, showing progress, and makes the data set.

    Args:
        table: The number of rows of an embedding table, into which features
            are hashed.
        seed: The seed that chooses the functions for testing.
    """
    functions = _parse()
    np.random.default_rng(seed).shuffle(functions)
    tested = int(_TEST_SHARE * len(functions))
    test, train = functions[:tested], functions[tested:]
    counts = collections.Counter(
        call for function in train for call in function.calls
    )
    catalogue = sorted(
        call for call, count in counts.items() if count >= _FEWEST_FUNCTIONS
    )
    numbers = {call: number for number, call in enumerate(catalogue)}
    return Data(
        np.array(
            [
                _rows(_call_features(call), table, CALL_FEATURES)
                for call in catalogue
            ],
            np.int32,
        ),
        _make_pairs(train, numbers, table),
        _make_pairs(test, numbers, table),
    )
