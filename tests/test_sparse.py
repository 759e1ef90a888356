"""Embedding tables: which rows a step changes, readers beside it, no copies."""

import threading

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from processes import python
from registry import MODES, OPTIMIZERS


@pytest.mark.parametrize(("name", "mode"), MODES)
def test_a_rule_says_whether_anything_changes_without_a_gradient(name, mode):
    under_test = OPTIMIZERS[name]
    arguments = {**under_test.modes[mode], "weight_decay": 0.0}
    for implementation in ("custom_op", "composed"):
        optimizer = under_test.make(
            0.25, **arguments, implementation=implementation
        )
        variable = keras.Variable(
            np.linspace(-1, 1, 12).reshape(4, 3), dtype="float32"
        )
        optimizer.build([variable])
        slots = [x for slot in optimizer._state.slots for x in slot]
        stays, moved = True, False
        for gradient in (0.0, 1.0, 0.0):
            before = [x.numpy() for x in (variable, *slots)]
            optimizer.apply([tf.fill((4, 3), gradient)])
            after = [x.numpy() for x in (variable, *slots)]
            if not gradient:
                stays &= all(map(np.array_equal, before, after))
                moved |= not np.array_equal(before[0], after[0])
        spec = optimizer._state.spec
        assert moved == (not spec.waits_in_place) or not spec.coasts
        assert stays == spec.rests, implementation


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weight_decay": 0.1},
        {"use_ema": True},
        {"gradient_accumulation_steps": 2},
    ],
    ids=str,
)
def test_only_what_moves_other_rows_makes_a_pass_over_the_table(options):
    table = keras.Variable(np.ones((9, 2)), dtype="float32")
    optimizer = tf_opt.Adagrad(0.25, **{**options, "weight_decay": None})
    slices = tf.IndexedSlices(tf.ones((3, 2)), tf.constant([0, 2, 0]))
    # The step before has made a plan.
    for decay in (None, options.get("weight_decay")):
        optimizer.weight_decay = decay
        optimizer.apply([slices], [table])
    *_, kept = optimizer._plans._plans.values()
    assert kept.plan.buckets[0].rows_only == (not options)
    assert (table.numpy()[3:] != 1).all() == ("weight_decay" in options)


@pytest.mark.parametrize(
    ("clipping", "theirs", "ours"),
    [
        ({}, 1.0, 1.0),
        ({"clipnorm": 1.0}, 1.0 / np.sqrt(2.0), 0.5),
        ({"global_clipnorm": 1.0}, 1.0 / np.sqrt(2.0), 0.5),
        ({"clipvalue": 0.25}, 0.25, 0.125),
    ],
)
def test_repeated_rows_are_clipped_as_a_sum_and_by_keras_before(
    clipping, theirs, ours
):
    # What is left of each of two slices of 1.
    slices = tf.IndexedSlices(tf.ones((2, 1)), tf.constant([0, 0]), [3, 1])
    for module, left in ((keras.optimizers, theirs), (tf_opt, ours)):
        table = tf.Variable(tf.zeros((3, 1)))
        module.SGD(1.0, **clipping).apply([slices], [table])
        assert table.numpy()[0, 0] == pytest.approx(-2 * left)


@pytest.mark.kernels
def test_a_gather_beside_steps_never_sees_half_of_one():
    # All elements stay equal from step to step.
    table = tf.Variable(tf.zeros([4096, 16]))
    optimizer = tf_opt.Adam(0.01, lazy_mode=True)
    optimizer.build([table])
    rows = tf.range(4096)
    slices = tf.IndexedSlices(tf.ones([4096, 16]), rows)
    stop = threading.Event()
    wrong = []
    seen = set()

    def gather() -> None:
        while not stop.is_set():
            values = tf.gather(table, rows).numpy()
            seen.add(float(values[0, 0]))
            if (values != values[0, 0]).any():
                wrong.append(values)

    threads = [threading.Thread(target=gather) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        optimizer.apply([slices], [table])
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(seen) > 3


@pytest.mark.kernels
@pytest.mark.parametrize("sparse", [False, True])
def test_the_table_is_not_copied_where_it_is_gathered_from(sparse):
    # A copy touches each page of new memory for the first time; a process that
    # has run other tests may have old memory for it.
    python.run(
        f"""
        import resource
        import tensorflow as tf
        import tf_opt

        shape = 2**20, 16
        pages = 2**24 * 4 // resource.getpagesize()
        table = tf.Variable(tf.ones(shape))
        gradient = tf.ones(shape)
        if {sparse}:
            gradient = tf.IndexedSlices(tf.ones((3, 16)), [1, 2, 1], shape)
        optimizer = tf_opt.Adam(0.1, lazy_mode={sparse})

        def page_faults():  # Of a step.
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            optimizer.apply([gradient], [table])
            return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

        page_faults()  # Buffers that were shared at the start are copied here.
        # So that the count is known to see a copy: now one is needed.
        read = table.read_value()
        before = read.numpy().copy()
        assert page_faults() > pages / 2
        assert (read.numpy() == before).all()
        assert (table[1].numpy() != before[1]).all()
        tf.gather(table, [1, 2, 3])
        tf.raw_ops.ResourceGather(
            resource=table.handle, indices=[1], dtype=tf.float32
        )
        assert page_faults() < pages / 4
        """,
        CUDA_VISIBLE_DEVICES="-1",
    )
