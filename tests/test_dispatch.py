"""Which implementation runs, and what is said where the custom op can't."""

import json
import re
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt
from tf_opt.python import dispatch, tensorflow_internals
from tf_opt.python.ops import gpu, library

from processes import python

OP = "TfOpt>ResourceApplyAdamAmsgrad"


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (None, None),
        (b"it is old", "on X: it is old; needed are .* driver 580, or later"),
    ],
)
def test_a_gpu_that_the_kernels_are_not_for_runs_the_composed_implementation(
    monkeypatch, problem, message
):
    # TensorFlow finds a GPU, and the wheel has kernels for it.
    device = tf.config.PhysicalDevice("/physical_device:GPU:3", "GPU")
    asked = []

    def ask(number: int) -> bytes | None:
        asked.append(number)
        return problem

    handle = types.SimpleNamespace(TfOptGpuProblem=ask)
    loaded = library.library()._replace(
        cuda="13.0", minimum_driver="580", handle=handle
    )
    for module, name, value in [
        (library, "library", lambda: loaded),
        (tf.config, "get_visible_devices", lambda kind: [device]),
        (
            tf.config.experimental,
            "get_device_details",
            lambda _: {"device_name": "X"},
        ),
        (tf.test, "is_built_with_cuda", lambda: True),
        (
            tensorflow_internals,
            "registered_kernels",
            lambda _: {("GPU", tf.float32)},
        ),
        # Without its cache.
        (gpu, "problem", gpu.problem.__wrapped__),
    ]:
        monkeypatch.setattr(module, name, value)

    def runs(implementation: str) -> bool:
        return dispatch.runs_custom_op(implementation, OP, tf.float32, "GPU:0")

    info = tf_opt.build_info()
    assert info["gpus"] == "X"
    assert asked == [3]
    if message is None:
        assert runs("auto")
        assert runs("custom_op")
        assert info["cuda_kernels"] == "loaded"
        return
    with pytest.warns(RuntimeWarning, match=message):
        assert not runs("auto")
    with pytest.raises(RuntimeError, match=message):
        runs("custom_op")
    assert re.search(message, info["cuda_kernels"])


def ops_of(optimizer, variable, **function_arguments) -> set[str]:
    optimizer.build([variable])

    @tf.function(**function_arguments)
    def step() -> None:
        optimizer.apply([tf.ones_like(variable.value)], [variable])

    graph = step.get_concrete_function().graph
    return {op.type for op in graph.get_operations()}


def test_auto_chooses_the_custom_op_where_there_is_a_kernel():
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        variable = keras.Variable([1.0], dtype=dtype)
        assert OP in ops_of(tf_opt.Adam(), variable)
    assert OP not in ops_of(tf_opt.Adam(implementation="composed"), variable)
    variable = keras.Variable(np.array([1 + 2j], "complex64"))
    assert OP not in ops_of(tf_opt.Adam(), variable)
    with pytest.raises(RuntimeError, match="no CPU kernel for complex64"):
        tf_opt.Adam(implementation="custom_op").apply(
            [tf.constant([1 + 1j])], [variable]
        )


def test_inside_xla_auto_composes_and_custom_op_says_why():
    variable = keras.Variable([1.0])
    assert OP not in ops_of(tf_opt.Adam(), variable, jit_compile=True)
    with pytest.raises(
        RuntimeError,
        match=r'implementation="custom_op" can\'t run .*'
        r"jit_compile=False.*implementation=\"auto\"",
    ):
        ops_of(
            tf_opt.Adam(implementation="custom_op"), variable, jit_compile=True
        )


@pytest.mark.slow
def test_auto_clustering_leaves_our_steps_alone():
    code = """
import tensorflow as tf, tf_opt
table = tf.Variable(tf.ones([5, 2]))
weights = tf.Variable(tf.ones([2, 3]))
optimizer = tf_opt.AdamW(0.1, global_clipnorm=1.0, use_ema=True)
optimizer.build([table, weights])

@tf.function(autograph=False)
def step(rows):
    with tf.GradientTape() as tape:
        found = tf.tanh(tf.gather(table, rows) @ weights)
        loss = tf.reduce_sum(tf.exp(found) * tf.sin(found))
    optimizer.apply(tape.gradient(loss, [table, weights]), [table, weights])

for rows in ([0, 3, 3], [1, 3, 0], [2, 2, 2]):
    step(tf.constant(rows))
trained = tf.concat([tf.reshape(x, [-1]) for x in (table, weights)], 0)
trained = trained.numpy().tolist()
"""
    composed = """
print(optimizer.implementation_in_use, trained)
tf.config.optimizer.set_jit(True)
for state_dtype in None, "bfloat16":
    variable = tf.Variable([1.0, 2.0])
    optimizer = tf_opt.Adam(
        0.5, implementation="composed", state_dtype=state_dtype)
    for _ in range(3):
        optimizer.apply([tf.ones(2)], [variable])
    assert abs(float(variable[0]) + 0.5) < 1e-2, variable
"""
    plain = {}
    exec(code, plain)
    result = python.run_alone(
        *("-c", code + composed),
        TF_XLA_FLAGS="--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit",
        TF_CPP_MIN_LOG_LEVEL="0",
    )
    assert result.returncode == 0, result.stderr
    in_use, clustered = result.stdout.split(maxsplit=1)
    assert in_use == "custom_op"
    # XLA fuses what the gradients are computed by.
    np.testing.assert_allclose(
        json.loads(clustered), plain["trained"], rtol=1e-5
    )
    # That XLA compiled something at all, but nothing of ours.
    assert "Compiled cluster using XLA" in result.stderr
    assert "TfOpt>" not in result.stderr
