"""Loads the library that Bazel just built and takes one step of Adam.

Bazel runs it. Everything else is tested by pytest, with the installed wheel.
"""

import os
import pathlib
import unittest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf

# Bazel puts what a test depends on below the folder that it starts it in.
LIBRARY = pathlib.Path("tf_opt/python/ops/_tf_opt_ops.so").absolute()


class AdamStepTest(unittest.TestCase):
    def test_first_step(self):
        ops = tf.load_op_library(str(LIBRARY))
        variable, m, v = (tf.Variable([x]) for x in (1.0, 0.0, 0.0))
        ops.tf_opt_resource_apply_adam_amsgrad(
            variables=[variable.handle],
            m=[m.handle],
            v=[v.handle],
            v_max=[],
            gradients=[tf.constant([2.0])],
            learning_rate=tf.constant(0.5, tf.float64),
            step=tf.constant(1, tf.int64),
            beta_1=tf.constant(0.5, tf.float64),
            beta_2=tf.constant(0.75, tf.float64),
            epsilon=tf.constant(2.0, tf.float64),
            weight_decay=tf.constant([0.0], tf.float64),
            accumulators=[],
            averages=[],
            master_weights=[],
            variable_numbers=tf.constant(0.0, tf.float64),
            iteration=tf.constant(0, tf.int64),
            learning_rate_factors=tf.constant(1.0, tf.float64),
            gradient_factors=tf.constant(1.0, tf.float64),
            gradient_scale=tf.constant(1.0, tf.float64),
            clip_value=tf.constant(8.0, tf.float64),
            ema_momentum=tf.constant(0.0, tf.float64),
            overwrite_with_average=False,
            enabled=True,
            update=True,
            seed=tf.constant(0, tf.int64),
        )
        self.assertEqual(m.numpy(), 1.0)  # 0.5 * 2
        self.assertEqual(v.numpy(), 1.0)  # 0.25 * 2**2
        # m / 0.5 = 2 and sqrt(v / 0.25) = 2, so that 0.5 * 2 / (2 + 2) goes.
        self.assertEqual(variable.numpy(), 0.75)


if __name__ == "__main__":
    unittest.main()
