"""Every list of optimizers in the project has the ones of `registry.py`."""

import dataclasses
import inspect
import pathlib
import re

import keras
import pytest
import tf_opt
from tf_opt.python.functional.rule_spec import SECOND_MOMENT
from tf_opt.python.functional.rules import RULES
from tf_opt.python.ops.calls import check_fits
from tf_opt.python.optimizers.base.definition import COUNTERPARTS
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer
from tf_opt.python.optimizers.state.table_modes import check_not_lazy

import variants
from counterparts import KERAS
from registry import ALL, OPTIMIZERS

ROOT = pathlib.Path(__file__).parents[1]


def section(path: str, heading: str) -> str:
    """The text of a document from a heading to the next one."""
    text = (ROOT / path).read_text()
    assert heading in text, f"{path} has no {heading!r}"
    return re.split(r"\n#+ ", text.split(heading, 1)[1])[0]


def classes(text: str, pattern: str) -> list[str]:
    """The names in what a pattern finds, which may be several."""
    return re.findall(r"\b[A-Z]\w+", " ".join(re.findall(pattern, text)))


def subclasses(cls: type) -> list[type]:
    direct = cls.__subclasses__()
    return [*direct, *(x for each in direct for x in subclasses(each))]


@pytest.mark.parametrize("name", ALL)
def test_constructor_has_the_arguments_of_its_rule(name):
    under_test = ALL[name]
    parameters = inspect.signature(under_test.make).parameters
    taken = inspect.signature(under_test.reference.step).parameters
    for argument in parameters.keys() & taken.keys() - {"learning_rate"}:
        assert parameters[argument].default == taken[argument].default
    spec = under_test.spec
    counts = {x.name for x in spec.numbers if x.is_count}
    defaults = spec.function.__kwdefaults__
    assert counts.isdisjoint(defaults)
    for argument in {*spec.bound} - counts - {x.name for x in spec.shared}:
        assert parameters[argument].default == defaults[argument], argument


@pytest.mark.core
def test_what_keras_has_is_a_counterpart():
    names = {name.lower() for name in ALL}
    assert {cls.__name__ for cls in COUNTERPARTS} == {
        x
        for x in dir(keras.optimizers)
        if x.lower() in names
        # Earlier ones have no `rms_rate`.
        and (x != "Muon" or "Muon" in KERAS)
    }
    for ours, arguments in COUNTERPARTS.values():
        assert arguments.keys() <= inspect.signature(ours).parameters.keys()


FIRST_CELL = r"(?m)^\| ((?:\*\*\w+\*\*(?:, )?)+) \|"
PLACES = {
    "The package": lambda: [
        cls.__name__
        for cls in subclasses(FusedOptimizer)
        if cls.__module__.startswith("tf_opt.") and "_spec" in vars(cls)
    ],
    "tf_opt.__all__": lambda: [
        name
        for name in tf_opt.__all__
        if inspect.isclass(cls := getattr(tf_opt, name))
        and issubclass(cls, FusedOptimizer)
    ],
    "README.md": lambda: classes(
        section("README.md", "# tf_opt\n").split(" work wherever")[0], r"`\w+`"
    ),
    "docs/formulas.md": lambda: classes(
        section("docs/formulas.md", "## The rules\n"), r"(?m)^\*\*(.+?)\*\*"
    ),
    "docs/formulas-sparse.md": lambda: classes(
        section("docs/formulas-sparse.md", "## In lazy mode\n"), FIRST_CELL
    ),
    "docs/frameworks.md": lambda: [
        name
        for name in classes(
            section("docs/frameworks.md", "| | tf_opt equals |"), FIRST_CELL
        )
        if name != "AMSGrad"
    ],
    "docs/migrate.md": lambda: re.findall(
        r"(?m)^\| .*?\| `tf_opt\.([A-Z]\w+)\(",
        (ROOT / "docs/migrate.md").read_text(),
    ),
    "benchmarks/variants.py": lambda: [
        variant.optimizer
        for variant in (variants.OPTIMIZERS | variants.MATRICES).values()
    ],
}


@pytest.mark.parametrize("place", PLACES)
def test_every_list_has_every_optimizer(place):
    assert {*PLACES[place]()} == {*ALL}


def test_every_rule_has_its_function():
    functions = {x for x in tf_opt.functional.__all__ if x.islower()}
    rules = {spec.function.__name__ for spec in RULES}
    assert functions == {*rules, "measure_gradients", "unroll"}


def test_keras_classes_are_where_users_look_for_them():
    text = section("docs/migrate.md", "## Keras\n")
    found = re.findall(r"(?m)^\| `keras\.optimizers\.(\w+)", text)
    assert {*found} == {cls.__name__ for cls in COUNTERPARTS}


def test_a_rule_that_its_op_does_not_fit_is_an_error():
    for spec in (under_test.spec for under_test in OPTIMIZERS.values()):
        for changes in (
            {"slots": spec.slots[1:] or [SECOND_MOMENT]},
            {"numbers": spec.numbers[1:]},
            {"modes": [*spec.modes, "other"]},
            {"op": "NoSuchOp"},
        ):
            wrong = dataclasses.replace(spec, **changes)
            with pytest.raises(ImportError, match="Install tf_opt again"):
                check_fits(wrong)


def test_a_slot_that_starts_as_the_variable_needs_shared_numbers():
    spec = OPTIMIZERS["AveragedSGD"].spec
    with pytest.raises(ValueError, match="starts as the variable .*`shared`"):
        dataclasses.replace(spec, shared=[])


def test_a_rule_without_an_op_has_no_lazy_tables():
    # Elementwise, so only the op is missing.
    spec = dataclasses.replace(OPTIMIZERS["Lion"].spec, op=None)
    with pytest.raises(ValueError, match="for Lion: without an op, "):
        check_not_lazy(spec, "lazy_mode", True)
