"""`update_step` is Keras' documented extension point: it is used."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from counterparts import COUNTERPARTS
from low_precision_cases import masters_of
from small_model import assert_close, assert_same
from trajectory import RUNS


def slower_bias(cls: type) -> type:
    def update_step(self, gradient, variable, learning_rate):
        if len(variable.shape) == 1:
            learning_rate = learning_rate * 0.5
        cls.update_step(self, gradient, variable, learning_rate)

    return type("SlowerBias", (cls,), {"update_step": update_step})


def plain_descent(cls: type) -> type:
    def update_step(self, gradient, variable, learning_rate):
        rate = tf.cast(learning_rate, variable.dtype)
        self.assign_sub(variable, rate * gradient)

    return type("PlainDescent", (cls,), {"update_step": update_step})


def summed_gradients(cls: type) -> type:
    """A subclass that adds variables before it builds the others."""

    class Summed(cls):
        def build(self, variables):
            if not self.built:
                self.sums = [
                    self.add_variable_from_reference(v, "sum")
                    for v in variables
                ]
            super().build(variables)

        def update_step(self, gradient, variable, learning_rate):
            own = self.sums[self._get_variable_index(variable)]
            self.assign_add(own, gradient)
            super().update_step(tf.identity(own), variable, learning_rate)

    return Summed


def train(optimizer, how: str) -> list[np.ndarray]:
    variables = [
        keras.Variable([[1.0, 2.0], [3.0, 4.0]]),
        keras.Variable([1.0, -1.0]),
    ]
    optimizer.build(variables)
    step = RUNS[how](
        lambda: optimizer.apply([v * 0.5 + 1.0 for v in variables], variables)
    )
    for _ in range(3):
        step()
    assert int(optimizer.iterations.numpy()) == 3
    return [variable.numpy() for variable in variables]


@pytest.mark.core
@pytest.mark.parametrize("name", ["AdamW", "NAdam"])
@pytest.mark.parametrize(
    "override", [slower_bias, plain_descent, summed_gradients]
)
def test_an_overridden_update_step_is_used(name, override, how):
    pair = COUNTERPARTS[name]
    ours, theirs = pair.ours(), pair.keras()
    results = []
    for optimizer in (ours, theirs):
        cls = override(type(optimizer))
        results.append(train(cls.from_config(optimizer.get_config()), how))
    assert_close(*results, rtol=2e-6)
    # It does make a difference.
    assert (results[0][1] != train(pair.ours(), how)[1]).all()


def same(cls: type) -> type:
    """A subclass that leaves the rule to ours."""

    def update_step(self, *arguments):
        cls.update_step(self, *arguments)

    return type("Same", (cls,), {"update_step": update_step})


class Mixed(tf_opt.Adam):
    """Leaves matrices, or vectors, to the rule and updates the others."""

    rank = 2

    def update_step(self, gradient, variable, learning_rate):
        if len(variable.shape) == self.rank:
            super().update_step(gradient, variable, learning_rate)


def test_what_ran_is_known_where_update_step_updates_some_variables(how):
    for cls, in_use in {
        same(tf_opt.Adam): "custom_op",
        Mixed: "custom_op and composed",
        type("Vectors", (Mixed,), {"rank": 1}): "custom_op and composed",
        plain_descent(tf_opt.Adam): "composed",
    }.items():
        optimizer = cls(0.1)
        train(optimizer, how)
        assert optimizer.implementation_in_use == in_use


@pytest.mark.parametrize(
    ("name", "decoupled"),
    [("Adam", False), ("Lamb", True), ("ScheduleFreeAdamW", True)],
)
def test_the_decay_stays_in_the_rule(name, decoupled):
    cls = getattr(tf_opt, name)
    arguments = {"weight_decay": 0.1, "decoupled_weight_decay": decoupled}
    assert_same(
        train(same(cls)(0.1, **arguments), "eager"),
        train(cls(0.1, **arguments), "eager"),
    )


@pytest.mark.core
def test_a_subclass_that_calls_ours_trains_in_replicas(strategy):
    with strategy.scope():
        variable = keras.Variable([1.0, 2.0], dtype="bfloat16")
        optimizer = same(tf_opt.Adam)(0.01, master_weights=True)
        optimizer.build([variable])

    gradient = tf.constant([0.5, -0.5], tf.bfloat16)
    tf.function(strategy.run)(lambda: optimizer.apply([gradient], [variable]))
    (master,) = masters_of(optimizer)
    np.testing.assert_allclose(master.numpy(), [0.99, 2.01], rtol=1e-5)


def test_an_infinite_learning_rate_without_decay_is_no_nan():
    optimizer = plain_descent(tf_opt.SGD)(
        lambda: tf.constant(np.inf), weight_decay=tf.Variable(0.0)
    )
    variable = keras.Variable([1.0])
    optimizer.apply([tf.constant([2.0])], [variable])
    assert variable.numpy().tolist() == [-np.inf]


def test_a_function_put_in_its_place_is_used():
    variable, seen = keras.Variable([1.0]), []
    optimizer = tf_opt.Adam(0.1)
    optimizer.update_step = lambda *arguments: seen.append(arguments)
    optimizer.apply([tf.ones(1)], [variable])
    assert len(seen) == 1
    assert variable.numpy() == [1.0]


def test_an_overridden_apply_is_used_inside_of_a_loss_scale():
    class Halved(tf_opt.SGD):
        def apply(self, grads, trainable_variables=None):
            super().apply([x / 2 for x in grads], trainable_variables)

    variable = keras.Variable([1.0])
    optimizer = tf_opt.LossScaleOptimizer(Halved(1.0), initial_scale=4.0)
    optimizer.apply([tf.constant([4.0])], [variable])
    assert variable.numpy() == [0.5]


@pytest.mark.core
@pytest.mark.parametrize("name", ["_clip_gradients", "_use_weight_decay"])
def test_a_method_that_would_not_be_called_is_refused(name):
    with pytest.raises(TypeError, match=f"`Mine.{name}` would never be called"):
        type("Mine", (tf_opt.SGD,), {name: lambda self, x: x})


@pytest.mark.core
@pytest.mark.parametrize(
    "jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)]
)
def test_an_overridden_update_step_accumulates_rows_of_two_tables(jit_compile):
    def train(cls: type) -> list[np.ndarray]:
        tables = [keras.Variable(np.ones((4, 2), "float32")) for _ in range(2)]
        optimizer = cls(0.1, lazy_mode=True, gradient_accumulation_steps=2)
        optimizer.build(tables)

        @tf.function(jit_compile=jit_compile)
        def step(values: tf.Tensor) -> None:
            rows = [0, 2], [1, 1]
            slices = [tf.IndexedSlices(values, tf.constant(x)) for x in rows]
            optimizer.apply(slices, tables)

        for i in range(4):
            step(tf.fill([2, 2], i + 1.0))
        return [table.numpy() for table in tables]

    ours = train(slower_bias(tf_opt.Adam))
    assert_close(ours, train(tf_opt.Adam), rtol=1e-6)
    np.testing.assert_array_equal(ours[1][[0, 2, 3]], 1)
