"""The custom op: what it checks, what it leaves alone, what it shares."""

import threading

import numpy as np
import pytest
import tensorflow as tf
import tf_opt
from tf_opt.python.ops.calls import BARE

from op_cases import OPS, Launch
from small_model import assert_same

pytestmark = pytest.mark.kernels


def test_tf_opt_ops_has_every_op():
    found = {x for x in tf_opt.ops.__all__ if x.startswith("resource_apply_")}
    assert {x.replace("_", "") for x in found} == {
        form.op_name.removeprefix("TfOpt>").lower()
        for op in OPS.values()
        for form in op.spec.forms.values()
    }


def test_generated_function_takes_lists_of_handles():
    found, expected = Launch("lion"), Launch("lion").apply(weight_decay=0.5)
    handles = {k: [x.handle for x in v] for k, v in found.lists.items()}
    numbers = {**BARE, **found.op.reals, "weight_decay": 0.5}
    tf_opt.ops.resource_apply_lion(
        **handles, gradients=found.gradients, **numbers
    )
    assert_same(found.everything(), expected.everything())


def test_many_threads_may_step_variables_that_overlap():
    # Locks in one order: crossing lists of the same variables don't deadlock.
    count = 40
    state = Launch("adam", shapes=((64,),) * count)
    backwards = {name: x[::-1] for name, x in state.lists.items()}

    @tf.function
    def forward_steps() -> None:
        for _ in tf.range(200):
            state.apply()

    @tf.function
    def backward_steps() -> None:
        for _ in tf.range(200):
            state.apply(**backwards)

    threads = [
        threading.Thread(target=step, daemon=True)
        for step in (forward_steps, backward_steps)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
        assert not thread.is_alive(), "deadlock"
    assert np.isfinite(state.lists["variables"][0].numpy()).all()
