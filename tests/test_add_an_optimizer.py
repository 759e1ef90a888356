"""CONTRIBUTING.md's "Add an optimizer", followed in a copy of the sources.

The optimizer is p <- p - lr * g. Its C++ test is built and run, CUDA's compiler
takes it, and it passes the registry's tests with the composed implementation.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]

FILES = {
    "tf_opt/cc/rules/toy.h": """\
#ifndef TF_OPT_CC_RULES_TOY_H_
#define TF_OPT_CC_RULES_TOY_H_

#include "tf_opt/cc/rules/description.h"
#include "tf_opt/cc/rules/rule_parts.h"

namespace tf_opt {

struct Toy;

struct ToyHyperparameters {
  double learning_rate = 1e-3;
  bool maximize = false;
};

template <typename V, bool kL2>
struct ToyRule : RuleBase<Toy, V, ToyHyperparameters, 0> {
  TF_OPT_HOST_DEVICE ToyRule(const ToyHyperparameters& step,
                             const VariableInputs& own)
      : descent(step, own),
        step_size(own.learning_rate_factor * step.learning_rate) {}

  TF_OPT_RULE_INLINE void operator()(V& p, V g) const {
    p = descent.keep * p - step_size * descent.Gradient(g, p);
  }

  Descent<V, kL2> descent;
  V step_size;
};

struct Toy : DescriptionOf<ToyHyperparameters, ToyRule> {
  static constexpr char kOp[] = "Toy";
  static constexpr std::array<Operand, 0> kSlotOperands = {};
  static constexpr ScalarInput<Hyperparameters> kScalars[] = {
      {"learning_rate", &ToyHyperparameters::learning_rate}};
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_TOY_H_
""",
    "tf_opt/cc/rules/toy_test.cc": """\
#include "tf_opt/cc/rules/toy.h"

#include "gtest/gtest.h"

namespace tf_opt {
namespace {

TEST(ToyTest, DescendsByTheRule) {
  ToyHyperparameters h;
  h.learning_rate = 0.25;
  float p = 1;
  RuleOf<Toy, float, 0>(h, {})(p, 2.0f);
  EXPECT_EQ(p, 0.5f);
}

}  // namespace
}  // namespace tf_opt
""",
    "tf_opt/python/functional/toy_rule.py": '''\
"""Toy on pure tensors."""

from typing import NamedTuple

import tensorflow as tf

from tf_opt.python.functional import rule_spec
from tf_opt.python.functional.update import Update
from tf_opt.python.functional.update import pure_step


class ToyResult(NamedTuple):
    """Result of a step."""

    variable: tf.Tensor


def toy(
    variable,
    gradient,
    *,
    learning_rate=1e-3,
    weight_decay=0.0,
    decoupled_weight_decay=True,
    maximize=False,
):
    """Computes a step of Toy.

    Args:
        variable: The variable.
        gradient: Its gradient.
        learning_rate: The step size.
        weight_decay: The decay.
        decoupled_weight_decay: Whether it is decoupled.
        maximize: Whether to ascend.

    Raises:
        ValueError: If an argument is wrong.

    Example:

    >>> import tf_opt
    >>> float(tf_opt.functional.toy(1.0, 0.5, learning_rate=0.5).variable)
    0.75
    """
    return ToyResult(**pure_step(SPEC, locals()))


def toy_update(*, learning_rate, **decay):
    return Update(
        lambda s, p, g: (p - s.learning_rate * g,),
        {"learning_rate": learning_rate},
        learning_rate=learning_rate,
        **decay,
    )


SPEC = rule_spec.RuleSpec(
    function=toy,
    class_name="Toy",
    update=toy_update,
    slots=[],
    numbers=[rule_spec.LEARNING_RATE],
)
''',
    "tf_opt/python/optimizers/toy.py": '''\
"""Toy as a Keras optimizer."""

from tf_opt.python.functional import toy_rule
from tf_opt.python.optimizers.base.definition import optimizer
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer


@optimizer(toy_rule.SPEC)
class Toy(FusedOptimizer):
    """Toy.

    Args:
        learning_rate: The step size.

    {{common_arguments}}

    Raises:
        ValueError: If an argument is out of range.

    Example:

    >>> import tf_opt
    >>> tf_opt.Toy(0.5).learning_rate.numpy().item()
    0.5
    """

    def __init__(self, learning_rate=1e-3, **common):
        super().__init__(learning_rate, **common)
''',
    "tests/reference/toy.py": '''\
"""Toy."""

from reference.decay import decayed

MODES = {"plain": {}, "l2": {"weight_decay": 0.1, "maximize": True}}
THOROUGH = "l2"


def step(state, g, *, t, learning_rate, **decay):
    p, g = decayed(state["variable"], g, learning_rate=learning_rate, **decay)
    return {"variable": p - learning_rate * g}
''',
}
# Files, and in each the line after which new ones come.
LINES = [
    (
        "tf_opt/functional.py",
        "from tf_opt.python.functional.sgd_rule import sgd",
        "from tf_opt.python.functional.toy_rule import ToyResult\n"
        "from tf_opt.python.functional.toy_rule import toy",
    ),
    ("tf_opt/functional.py", '    "sgd",', '    "toy",\n    "ToyResult",'),
    ("tf_opt/optimizers.bzl", '    "nadam": "NAdam",', '    "toy": "Toy",'),
    (
        "tf_opt/__init__.py",
        "from tf_opt.python.optimizers.nadam import NAdam as NAdam",
        "from tf_opt.python.optimizers.toy import Toy as Toy",
    ),
    ("tests/registry.py", '    "NAdam": "nadam",', '    "Toy": "toy",'),
    (
        "benchmarks/variants.py",
        '    "sgd": _like_keras("SGD", 0, *_TORCH),',
        '    "toy": _like_keras("Toy", 0),',
    ),
]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The copy, with the new optimizer."""
    copy = tmp_path_factory.mktemp("sources")
    for name in ("benchmarks", "build_deps", "tests", "tf_opt", "tools"):
        shutil.copytree(
            ROOT / name,
            copy / name,
            ignore=shutil.ignore_patterns("__pycache__", ".*"),
        )
    files = ("WORKSPACE", "BUILD", ".bazelrc", "pyproject.toml")
    for name in (*files, "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, copy / name)
    for name, text in FILES.items():
        assert not (copy / name).exists()
        (copy / name).write_text(text)
    for name, before, line in LINES:
        text = (copy / name).read_text()
        assert text.count(before) == 1, name
        (copy / name).write_text(text.replace(before, f"{before}\n{line}"))
    return copy


def run(*command: str, sources: pathlib.Path, **environment: str) -> str:
    done = subprocess.run(
        command,
        cwd=sources,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def test_its_cpp_test_is_built_and_passes(sources, tmp_path):
    run(
        "bazel",
        "--batch",
        f"--output_user_root={tmp_path}",
        "test",
        "//tf_opt/cc/rules:toy_test",
        sources=sources,
        TF_OPT_PYTHON=sys.executable,
    )


@pytest.mark.skipif(not shutil.which("nvcc"), reason="nvcc was not found")
def test_cudas_compiler_takes_its_rule(sources, tmp_path):
    run(
        *("nvcc", "-I.", "-c", "tf_opt/cc/engines/rule_loops.cc"),
        *("--options-file", "tf_opt/cc/engines/gpu/nvcc.options"),
        "-DTF_OPT_RULE=Toy",
        "-DTF_OPT_RULE_HEADER=tf_opt/cc/rules/toy.h",
        *("-o", str(tmp_path / "toy.o")),
        sources=sources,
    )


def test_it_passes_the_tests_of_the_registry(sources, tmp_path):
    # Not in a folder that looks like the source tree.
    package = tmp_path / "package"
    shutil.copytree(sources / "tf_opt", package / "tf_opt")
    # The copy has no documents, and no library.
    chosen = "(Toy or toy or test_registry) and not written and not keras_cl"
    chosen += " and not custom_op and not resource_apply"
    report = run(
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        *("-k", chosen),
        *("test_registry.py", "test_functional.py", "test_update_rules.py"),
        *("test_signatures.py", "test_unroll.py", "test_documents.py"),
        sources=sources / "tests",
        PYTHONPATH=str(package),
        TF_OPT_DISABLE_CUSTOM_OPS="1",
    )
    assert int(re.search(r"(\d+) passed", report)[1]) > 20
