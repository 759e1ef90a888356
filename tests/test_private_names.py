"""Versions of Keras and TensorFlow that lack a private name."""

import json
import pathlib
import re

import pytest
import tf_opt
from tf_opt.version import TESTED_VERSIONS

from processes import python

PACKAGE = pathlib.Path(tf_opt.__file__).parent
TESTED = f"but with {TESTED_VERSIONS}"

# Hides each name while tf_opt is imported. Prints which features that disables.
SCRIPT = """
import json, pkgutil, sys, warnings
import keras
import numpy as np
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2,
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
one = tf.constant([1.0])

def step(gradients=(one,), is_float8=False, **options):
    variables = [keras.Variable([1.0]) for _ in gradients]
    variables[-1].overwrite_with_gradient = is_float8
    tf_opt.Adam(0.5, **options).apply(gradients, variables)

def lazy():
    optimizer = tf_opt.Adam(0.5, lazy_mode="catch_up")
    optimizer.build([keras.Variable([[1.0]], name="embeddings")])
    return optimizer

def in_replicas(**options):
    with strategy.scope():
        variable = keras.Variable([1.0])
        optimizer = tf_opt.Adam(0.5, **options)
        optimizer.build([variable])
    strategy.run(lambda: optimizer.apply([one], [variable]))

FEATURES = {
    "custom_op": lambda: step(implementation="custom_op"),
    "catch_up": lambda: lazy().catch_up(),
    "save": lambda: lazy().get_config(),
    "layouts": lambda: tf_opt.torch_layouts(
        keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    ),
    "None": lambda: step((one, None)),
    "float8": lambda: step((one, one), is_float8=True),
    "state_device": lambda: in_replicas(state_device="CPU:0"),
    "accumulate": lambda: in_replicas(gradient_accumulation_steps=2),
}
resolve = pkgutil.resolve_name

def disabled_without(hidden):
    global tf_opt
    for name in list(sys.modules):
        if name.split(".")[0] == "tf_opt":
            del sys.modules[name]
    looked_up = []

    def resolve_others(place):
        looked_up.append(place)
        if place == hidden:
            raise AttributeError(place)
        return resolve(place)

    pkgutil.resolve_name = resolve_others
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        import tf_opt
    assert sorted(looked_up) == sorted(PLACES), looked_up
    found = ["import"] if any(TESTED in str(x.message) for x in warned) else []
    for name, use in FEATURES.items():
        try:
            use()
        except RuntimeError as error:
            assert TESTED in str(error), error
            found.append(name)
    # A plain step always runs.
    for run in (lambda x: x, tf.function):
        variable, optimizer = keras.Variable([1.0]), tf_opt.Adam(0.5)
        optimizer.build([variable])
        run(lambda: optimizer.apply([one], [variable]))()
        np.testing.assert_allclose(variable.numpy(), [0.5], rtol=1e-6)
    return found

warnings.simplefilter("ignore")
"""

# What each one's absence disables.
PLACES = {
    "keras.src.backend.common.variables.AutocastScope": ["catch_up"],
    "keras.src.backend.common.global_state.get_global_attribute": ["save"],
    "keras:Model._flatten_layers": ["layouts"],
    "keras.optimizers:Optimizer._filter_empty_gradients": ["None"],
    "keras.optimizers:Optimizer._overwrite_variables_directly_with_gradients": [
        "float8"
    ],
    "tensorflow.python.autograph.core:config": ["import"],
    "tensorflow.python.autograph.core:config.DoNotConvert": ["import"],
    "tensorflow.python.autograph.core:config.CONVERSION_RULES": ["import"],
    "tensorflow.python.framework.kernels.get_registered_kernels_for_op": [
        "custom_op"
    ],
    "tensorflow.python.framework.op_callbacks.should_invoke_op_callbacks": [
        "custom_op"
    ],
    "tensorflow.python.framework.op_def_registry.get": ["custom_op"],
    "tensorflow.python.ops.control_flow_util.GraphOrParentsInXlaContext": [
        "custom_op"
    ],
    "tensorflow.python.ops.resource_variable_ops.ResourceVariable": [
        "state_device"
    ],
    "tensorflow:__internal__.distribute.strategy_supports_no_merge_call": [
        "accumulate"
    ],
}


@pytest.mark.core
@pytest.mark.needs_library
@pytest.mark.parametrize(
    "hidden",
    [
        ["keras:Model._flatten_layers"],
        pytest.param(list(PLACES), marks=pytest.mark.slow),
    ],
    ids=len,
)
def test_a_missing_private_name_disables_one_feature(hidden):
    names = f"PLACES, TESTED = {list(PLACES)!r}, {TESTED!r}\n"
    show = f"print(json.dumps([*map(disabled_without, {hidden!r})]))"
    output = python.run(names + SCRIPT + show)
    found = json.loads(output.splitlines()[-1])
    assert found == [PLACES[place] for place in hidden]


def test_private_names_are_found_in_one_way():
    private = r"(from|import) (keras\.src|tensorflow\.python)|tf\.__internal__"
    for path in PACKAGE.rglob("*.py"):
        assert not re.search(private, path.read_text()), path
