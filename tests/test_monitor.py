"""`callbacks.Monitor`: what it shows, beside NumPy and a gradient tape."""

import itertools
import pathlib
from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt
from tf_opt.python.keras_internals import unwrapped

from small_model import FIT, X, Y, compiled, multi

Monitor = tf_opt.callbacks.Monitor
KERNELS = ["model/first/kernel", "model/last/kernel"]


class Recorder(keras.callbacks.Callback):
    """Keeps each batch's logs, and all weights before and after it."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after, self.logs = [], [], []

    def _weights(self) -> dict[str, np.ndarray]:
        return {
            # Before a step writes them, master weights are zeros.
            variable.path: (master if np.any(master) else variable).numpy()
            for optimizer in unwrapped(self.model.optimizer)
            for variable, master in itertools.zip_longest(
                self.model.trainable_variables,
                getattr(getattr(optimizer, "_state", None), "masters", ()),
            )
        }

    def on_train_batch_begin(self, batch, logs=None) -> None:
        self.before.append(self._weights())

    def on_train_batch_end(self, batch, logs=None) -> None:
        self.after.append(self._weights())
        self.logs.append(dict(logs))

    def comparison(self, first: int, last: int) -> dict[str, float]:
        found = {}
        for path, old in self.before[first].items():
            new = self.after[last][path]
            dtype = np.result_type(new, np.float64)
            change = np.linalg.norm(new.astype(dtype) - old.astype(dtype))
            size = np.linalg.norm(new.astype(dtype))
            found[f"update_ratio/{path}"] = change / size
            found[f"unmoved/{path}"] = np.mean(old == new)
        return found

    def shown(self, name: str = "") -> dict[int, dict[str, float]]:
        """The entries of each batch that has any, besides the loss."""
        entries = [
            {x: log[x] for x in log if x != "loss" and x.startswith(name)}
            for log in self.logs
        ]
        return {i: entry for i, entry in enumerate(entries) if entry}


def fit(model: keras.Model, monitor: Monitor, **arguments) -> Recorder:
    recorder = Recorder()
    model.fit(X, Y, callbacks=[monitor, recorder], **{**FIT, **arguments})
    return recorder


def scaled(wrapper: type) -> Callable[[], keras.optimizers.Optimizer]:
    return lambda: wrapper(tf_opt.SGD(0.1), 8.0)


def events(folder: pathlib.Path) -> list[tuple[int, str, float]]:
    """Reads what TensorBoard would, in the order of the steps."""
    found = [
        (event.step, value.tag, tf.make_ndarray(value.tensor).item())
        for file in folder.iterdir()
        for event in tf.compat.v1.train.summary_iterator(str(file))
        for value in event.summary.value
        if value.metadata.plugin_data.plugin_name == "scalars"
    ]
    return sorted(found, key=lambda entry: entry[0])


@pytest.mark.core
@pytest.mark.parametrize(
    ("make", "dtype", "run_eagerly"),
    [
        (lambda: tf_opt.Adam(0.01), "float32", False),
        (lambda: keras.optimizers.Adam(0.01), "float32", True),
        (lambda: tf_opt.Adam(0.001), "bfloat16", True),
        (lambda: tf_opt.Adam(0.001, master_weights=True), "bfloat16", True),
        (scaled(tf_opt.LossScaleOptimizer), "float16", True),
        (scaled(keras.optimizers.LossScaleOptimizer), "float16", True),
    ],
)
def test_compares_variables_as_numpy_does(make, dtype, run_eagerly):
    model = compiled(optimizer := make(), dtype, run_eagerly)
    if dtype == "bfloat16":
        optimizer.build(model.trainable_variables)
    recorder = fit(model, Monitor(every_n_batches=1, variables=""), epochs=2)
    shown = recorder.shown("u")
    # The first step builds the other optimizers.
    assert list(shown) == [*range(dtype != "bfloat16", 8)]
    for batch, entries in shown.items():
        expected = recorder.comparison(batch, batch)
        assert entries == pytest.approx(expected, rel=1e-5)
    # Adam's steps are too small for the type of plain bfloat16.
    unmoved = [shown[7][f"unmoved/{path}"] for path in KERNELS]
    is_plain = dtype == "bfloat16" and not optimizer.master_weights
    assert max(unmoved) > 0.5 if is_plain else max(unmoved) < 0.5


def test_compares_complex_variables():
    class Model(keras.Model):
        def build(self, shape):
            self.matrix = self.add_weight((4, 2), "zeros", "complex64")
            random = np.random.default_rng(1).normal(size=(2, 4, 2))
            self.matrix.assign(tf.complex(*tf.constant(random, tf.float32)))

        def call(self, x):
            return tf.abs(tf.cast(x, "complex64") @ self.matrix)

    model = Model()
    model.compile(tf_opt.SGD(0.1), "mse", run_eagerly=True)
    recorder = fit(model, Monitor(variables=""))
    assert recorder.shown("u")[1] == pytest.approx(
        recorder.comparison(1, 1), rel=1e-5
    )


def test_shows_the_norm_of_the_gradients_even_after_a_fit_without():
    model = compiled(tf_opt.SGD(0.1), run_eagerly=False)
    whole = {**FIT, "batch_size": len(X)}
    model.fit(X, Y, **whole)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((Y - model(X)) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    expected = float(tf.linalg.global_norm(gradients))
    history = model.fit(X, Y, callbacks=[Monitor()], **whole).history
    assert history["gradient_norm"] == [pytest.approx(expected)]


def test_shows_every_few_batches_and_the_latest_at_the_end_of_an_epoch():
    model = compiled(keras.optimizers.SGD(lambda: model.optimizer.iterations))
    monitor = Monitor(every_n_batches=3, variables="kernel")
    recorder = fit(model, monitor, epochs=2)
    shown = recorder.shown()
    assert list(shown) == [0, 1, 3, 6]
    assert shown[0] == {"learning_rate": 1}
    assert shown[6]["learning_rate"] == 7
    paths = [name.partition("/")[2] for name in shown[1]]
    assert sorted(set(paths)) == KERNELS
    assert model.history.history["learning_rate"] == [4, 8]
    assert model.history.history["unmoved/model/last/kernel"] == [
        shown[batch]["unmoved/model/last/kernel"] for batch in (3, 6)
    ]


def test_writes_for_tensorboard_at_the_steps_of_the_optimizer(tmp_path):
    model = compiled(tf_opt.SGD(0.1))
    monitor = Monitor(tmp_path, every_n_batches=3, variables="kernel")
    with tf.summary.record_if(False):
        first = fit(model, monitor)
        second = fit(model, monitor, epochs=4, initial_epoch=3)
    written = events(tmp_path)
    names = ["learning_rate", "gradient_norm"]
    names += [
        f"{x}/{path}" for path in KERNELS for x in ("update_ratio", "unmoved")
    ]
    # The first batch's comparison waits for the second, when there is a model.
    steps = {1: names[:2], 2: names[2:], 4: names, 5: names, 8: names}
    assert [x[:2] for x in written] == [
        (step, name) for step in steps for name in steps[step]
    ]
    values = {(step, name): value for step, name, value in written}
    for recorder, start in ((first, 0), (second, 4)):
        for batch, shown in recorder.shown().items():
            # Those of single variables are only written.
            assert list(shown) == names[:2]
            for name, value in shown.items():
                assert values[start + batch + 1, name] == pytest.approx(value)
    assert values[8, names[2]] == pytest.approx(
        second.comparison(3, 3)[names[2]], rel=1e-5
    )


@pytest.mark.parametrize(
    ("accumulates", "per_execution", "expected"),
    [
        # For each comparison the executions that it covers. An update is
        # complete after batches 3, 6, 9, 12 and 15.
        (3, 1, [(0, 2), (3, 5), (6, 8), (9, 11), (12, 14)]),
        (None, 2, [(0, 0), (2, 2), (4, 4), (6, 6)]),
        (3, 2, [(0, 1), (2, 2), (4, 4), (6, 7)]),
    ],
    ids=str,
)
def test_compares_whole_updates_and_executions(
    accumulates, per_execution, expected
):
    optimizer = tf_opt.SGD(0.1, gradient_accumulation_steps=accumulates)
    model = compiled(optimizer)
    model.compile(optimizer, "mse", steps_per_execution=per_execution)
    optimizer.build(model.trainable_variables)
    monitor = Monitor(every_n_batches=3, variables="")
    recorder = fit(model, monitor, batch_size=4, epochs=2)
    shown = recorder.shown("u")
    assert list(shown) == [last for _, last in expected]
    for first, last in expected:
        values = recorder.comparison(first, last)
        assert shown[last] == pytest.approx(values, rel=1e-5)


def test_shows_skipped_steps_and_loss_scale(how):
    optimizer = tf_opt.LossScaleOptimizer(tf_opt.SGD(0.1), 8.0)
    model = compiled(optimizer, run_eagerly=how == "eager")
    recorder = Recorder()
    x = X.copy()
    x[8] = np.inf
    callbacks = [Monitor(every_n_batches=1), recorder]
    model.fit(x, Y, callbacks=callbacks, **FIT)
    shown = list(recorder.shown().values())
    assert [entries["loss_scale"] for entries in shown] == [8, 4, 4, 4]
    assert [entries["skipped_steps"] for entries in shown] == [0, 1, 1, 1]


def test_numbers_the_optimizers_of_a_multi_optimizer():
    parts = [tf_opt.SGD(0.1), keras.optimizers.SGD(0.2), tf_opt.SGD(0.3)]
    others = {"model/first/.*": parts[0], "unused": parts[2]}
    recorder = fit(compiled(multi(parts[1], others)), Monitor())
    assert list(recorder.shown()[0]) == [
        "learning_rate_0",
        "gradient_norm_0",
        "learning_rate_1",
        "learning_rate_2",
    ]


def test_replicas_show_what_one_device_shows(strategy):
    histories = []
    for scope in (tf.device("CPU:0"), strategy.scope()):
        with scope:
            inner = tf_opt.Adam(0.01, shard_state=bool(histories))
            optimizer = tf_opt.LossScaleOptimizer(inner)
            model = compiled(optimizer, run_eagerly=not histories)
        fit(model, Monitor(variables="kernel", every_n_batches=2))
        histories.append(model.history.history)
    alone, replicated = histories
    assert replicated.keys() == alone.keys()
    for name, values in alone.items():
        assert replicated[name] == pytest.approx(values, rel=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"every_n_batches": 0}, "`every_n_batches`.*=0"),
        ({"variables": "("}, r"`variables`.*'\('"),
        ({"variables": ["kernel"]}, r"`variables`.*\['kernel'\]"),
        ({"variables": "karnel"}, "'karnel'.*model/first/kernel"),
        ({}, "optimizer given to `compile`"),
    ],
    ids=str,
)
def test_names_what_is_wrong(arguments, message):
    model = compiled(tf_opt.SGD(0.1))
    if not arguments:
        # As if the model trained with another optimizer.
        model.train_step = lambda data: {"loss": 0.0}
    with pytest.raises(ValueError, match=message):
        fit(model, Monitor(**arguments))
