"""`repr(optimizer)`: the class, and the arguments that aren't defaults."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

DECAY = keras.optimizers.schedules.CosineDecay
CASES = [
    (lambda: tf_opt.AdamW(), "AdamW()"),
    (lambda: tf_opt.NAdam(2e-3, name="mine"), "NAdam(name='mine')"),
    (
        lambda: tf_opt.Adam(maximize=True, amsgrad=True, learning_rate=0.1),
        "Adam(learning_rate=0.1, amsgrad=True, maximize=True)",
    ),
    (
        lambda: tf_opt.SGD(DECAY(0.1, 100), np.float32(0.9)),
        "SGD(learning_rate=CosineDecay(initial_learning_rate=0.1, "
        "decay_steps=100), momentum=0.9)",
    ),
    (
        lambda: tf_opt.Lion(weight_decay=tf.Variable(0.25), lazy_mode=["a"]),
        "Lion(weight_decay=0.25, lazy_mode=['a'])",
    ),
    (
        lambda: tf_opt.LossScaleOptimizer(tf_opt.Adam(clipnorm=1.0), 4.0),
        "LossScaleOptimizer(inner_optimizer=Adam(clipnorm=1.0), "
        "initial_scale=4.0)",
    ),
]


@pytest.mark.parametrize(("make", "expected"), CASES)
def test_it_is_the_call_in_the_order_of_the_signature(make, expected):
    optimizer = make()
    assert repr(optimizer) == str(optimizer) == expected


def test_it_shows_what_was_assigned_also_where_a_step_is_traced():
    optimizer = tf_opt.Adam()
    optimizer.build([tf.Variable([1.0])])
    optimizer.learning_rate = 0.25
    shown = tf.function(lambda: repr(optimizer))()
    assert shown.numpy() == b"Adam(learning_rate=0.25)"


def test_it_never_fails():
    class Schedule(keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step):
            return 0.1

    class Mine(tf_opt.Adam):
        def __init__(self, own):
            assert repr(self) == "Mine()"
            super().__init__(Schedule(), epsilon=own)

    assert repr(Mine(0.5)) == "Mine(learning_rate=<Schedule>, epsilon=0.5)"
    for cls in (tf_opt.Adam, tf_opt.LossScaleOptimizer):
        assert repr(cls.__new__(cls)) == f"{cls.__name__}()"
    with tf.Graph().as_default():
        # A variable that only a session can read.
        assert repr(tf_opt.SGD(0.1)) == "SGD(learning_rate=<Variable>)"
