"""How many ops the composed implementation is: each takes time to trace."""

from __future__ import annotations

import collections

import keras
import pytest
import tensorflow as tf
import tf_opt

# What hands over a variable and its slots, and no implementation is without.
HANDLES = {"Placeholder", "ReadVariableOp", "AssignVariableOp"}


def ops_for_each_variable(make) -> collections.Counter:
    """What is in a traced step ten times where there are ten variables more."""

    def types(count):
        variables = [tf.Variable(tf.zeros([3])) for _ in range(count)]
        optimizer = make()
        optimizer.build(variables)
        gradients = [tf.ones([3])] * count
        step = tf.function(lambda: optimizer.apply(gradients, variables))
        graph = step.get_concrete_function().graph
        return collections.Counter(op.type for op in graph.get_operations())

    more = types(20) - types(10)
    return collections.Counter({type_: n / 10 for type_, n in more.items()})


@pytest.mark.parametrize(
    ("name", "modes", "limit"),
    [
        ("Adam", {}, 13),
        ("AdamW", {}, 14),
        ("AdamW", {"amsgrad": True, "weight_decay": 0.1}, 16),
        ("NAdam", {}, 15),
        ("ASGD", {}, 26),
        ("AveragedSGD", {}, 13),
    ],
)
def test_a_variable_takes_few_ops(name, modes, limit):
    found = ops_for_each_variable(
        lambda: getattr(tf_opt, name)(implementation="composed", **modes)
    )
    computed = {t: n for t, n in found.items() if t not in HANDLES}
    assert sum(computed.values()) <= limit, computed
    # What is a step's, not a variable's, is rounded once.
    assert "Cast" not in computed


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
def test_adam_is_fewer_ops_than_keras(name):
    ours = ops_for_each_variable(
        lambda: getattr(tf_opt, name)(implementation="composed")
    )
    kerass = ops_for_each_variable(getattr(keras.optimizers, name))
    assert ours.total() <= 0.6 * kerass.total()
