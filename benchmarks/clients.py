"""Trainings as people write them, and the optimizers that they have.

KerasHub, KerasRS, Keras 2 (tf_keras) and gymnasium are imported where they are
needed, because they are optional: see requirements/clients.txt. The texts are
the help topics that come with Python, the images are the digits that come with
scikit-learn.
"""

from __future__ import annotations

import collections
import functools
import importlib
import itertools
import re
from collections.abc import Callable
from pydoc_data.topics import topics
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
import tf_opt
import two_towers

import clients_keras2
from fitting import (
    LOSS,
    Done,
    MakeOptimizer,
    Train,
    batches_of,
    digit_images,
    fit,
)
from gradients import draw_ids
from shapes import SPARSE_WORKLOADS

_LAYERS = keras.layers
# The size of BERT-Mini, which the GPT-2 has, too.
_MINI = {
    "num_layers": 4,
    "num_heads": 4,
    "hidden_dim": 256,
    "intermediate_dim": 1024,
    "max_sequence_length": 64,
}


def _windows(length: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns pieces of the topics in random order, and each one's topic.

    A word is a number from 1 on, by its first occurrence.
    """
    numbers: dict[str, int] = {}
    pieces, labels = [], []
    for label, name in enumerate(sorted(topics)):
        words = re.findall(r"[a-z]+", topics[name].lower())
        text = [numbers.setdefault(word, len(numbers) + 1) for word in words]
        for start in range(0, len(text) - length + 1, length // 4):
            pieces.append(text[start : start + length])
            labels.append(label)
    order = np.random.default_rng(0).permutation(len(pieces))
    return np.array(pieces, np.int32)[order], np.array(labels)[order]


def bert(make: MakeOptimizer, done: Done) -> Train:
    """BERT-Mini tells the topic of a text."""
    import keras_hub

    texts, labels = _windows(64)
    model = keras_hub.models.BertTextClassifier(
        keras_hub.models.BertBackbone(vocabulary_size=30_522, **_MINI),
        num_classes=len(topics),
    )
    inputs = {
        "token_ids": texts,
        "segment_ids": np.zeros_like(texts),
        "padding_mask": np.ones_like(texts),
    }
    return fit(model, batches_of(inputs, labels, size=8), make, done)


def gpt2(make: MakeOptimizer, done: Done) -> Train:
    """A small GPT-2 predicts the next word."""
    import keras_hub

    texts, _ = _windows(65)
    model = keras_hub.models.GPT2CausalLM(
        keras_hub.models.GPT2Backbone(
            vocabulary_size=int(texts.max()) + 1, **_MINI
        )
    )
    inputs = {
        "token_ids": texts[:, :-1],
        "padding_mask": np.ones_like(texts[:, :-1]),
    }
    return fit(model, batches_of(inputs, texts[:, 1:], size=8), make, done)


def _hashed(words: np.ndarray) -> np.ndarray:
    """Hashes words and pairs of words to rows of a table; 0 is padding."""
    pairs = words[:, :-1].astype(np.int64) * 100_003 + words[:, 1:]
    features = np.concatenate([words, pairs], axis=1)
    return (1 + features % (two_towers.ROWS - 1)).astype(np.int32)


def retrieval(make: MakeOptimizer, done: Done) -> Train:
    """Two towers find a text's continuation among those of the batch."""
    texts, _ = _windows(44)
    size = two_towers.BATCH_SIZE

    def label(functions: tf.Tensor, calls: tf.Tensor) -> tuple:
        inputs = {"functions": functions, "calls": calls}
        return inputs | {"log_frequencies": tf.zeros([size])}, tf.range(size)

    data = batches_of(_hashed(texts[:, :32]), _hashed(texts[:, 32:]), size=size)
    return fit(two_towers.TwoTowers(), data.map(label), make, done)


def ratings(make: MakeOptimizer, done: Done) -> Train:
    """Two towers tell how users rate items, in Keras 3 or Keras 2."""
    optimizer = make()
    package = keras
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        package = importlib.import_module("tf_keras")
    layers = package.layers
    workload = SPARSE_WORKLOADS["4096-ids-zipf"]
    rows, width = workload.shapes[0]
    random = np.random.default_rng(0)

    def tower() -> tuple[Any, Any, np.ndarray]:
        ids = layers.Input((), dtype="int32")
        x = layers.Embedding(rows, width)(ids)
        x = layers.Dense(2 * width, "relu")(x)
        drawn = draw_ids(rows, workload, random)
        batches = np.stack(list(itertools.islice(drawn, 64)))
        return ids, layers.Dense(width)(x), batches

    (users, user, user_ids), (items, item, item_ids) = tower(), tower()
    model = package.Model([users, items], layers.Dot(1)([user, item]))
    ratings = random.integers(1, 6, user_ids.shape).astype(np.float32)
    data = tf.data.Dataset.from_tensor_slices(((user_ids, item_ids), ratings))
    return fit(model, data.repeat(), lambda: optimizer, done, "mse", package)


def dlrm(make: MakeOptimizer, done: Done) -> Train:
    """A DLRM tells whether users click, from 13 numbers and 26 categories."""
    import keras_rs

    workload = SPARSE_WORKLOADS["26-tables"]
    random = np.random.default_rng(0)
    batches, size = 32, 1024
    numbers = random.normal(size=(batches, size, 13)).astype(np.float32)
    clicks = random.integers(0, 2, (batches, size, 1)).astype(np.float32)
    categories, inputs, embedded = [], [], []
    for rows, width in workload.shapes:
        drawn = itertools.islice(draw_ids(rows, workload, random), batches)
        categories.append(np.stack([ids[:size] for ids in drawn]))
        inputs.append(keras.Input((), dtype="int32"))
        embedded.append(_LAYERS.Embedding(rows, width)(inputs[-1]))
    dense = keras.Input((13,))
    bottom = _LAYERS.Dense(width)(_LAYERS.Dense(64, "relu")(dense))
    interaction = keras_rs.layers.DotInteraction(skip_gather=True)
    crossed = _LAYERS.Concatenate()([bottom, interaction([bottom, *embedded])])
    logits = _LAYERS.Dense(1)(_LAYERS.Dense(64, "relu")(crossed))
    arrays = (numbers, *categories), clicks
    data = tf.data.Dataset.from_tensor_slices(arrays).repeat()
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    return fit(keras.Model([dense, *inputs], logits), data, make, done, loss)


def dqn(make: MakeOptimizer, done: Done) -> Train:
    """Deep Q-learning balances a pole, in an eager loop."""
    import gymnasium

    def network() -> keras.Model:
        hidden = [_LAYERS.Dense(64, "relu") for _ in range(2)]
        return keras.Sequential([keras.Input((4,)), *hidden, _LAYERS.Dense(2)])

    size, discount = 32, 0.99
    environment = gymnasium.make("CartPole-v1")
    online, target, optimizer = network(), network(), make()
    optimizer.build(online.trainable_variables)
    random = np.random.default_rng(0)
    seen: collections.deque = collections.deque(maxlen=10_000)

    def learn() -> tf.Tensor:
        chosen = (seen[i] for i in random.integers(len(seen), size=size))
        states, actions, rewards, following, ends = map(
            np.array, zip(*chosen, strict=True)
        )
        best = tf.reduce_max(target(following), axis=1)
        goals = rewards + discount * best * (1 - ends)
        with tf.GradientTape() as tape:
            values = tf.gather(online(states), actions, batch_dims=1)
            loss = tf.reduce_mean((values - goals) ** 2)
        variables = online.trainable_variables
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    def train() -> None:
        state, _ = environment.reset(seed=0)
        for step in itertools.count():
            if step % 500 == 0:
                target.set_weights(online.get_weights())
            if step <= size or random.random() < 0.1:
                action = int(random.integers(2))
            else:
                action = int(tf.argmax(online(state[np.newaxis])[0]))
            following, reward, ends, stops, _ = environment.step(action)
            numbers = np.float32(reward), following, np.float32(ends)
            seen.append((state, action, *numbers))
            state = following
            if ends or stops:
                state, _ = environment.reset()
            if step >= size:
                done(learn())

    return train


def efficient_net(make: MakeOptimizer, done: Done) -> Train:
    """EfficientNetB0 tells digits."""
    images, labels = digit_images()
    # 32 x 32 pixels of three colors from 0 to 255.
    images = 255 * images.repeat(4, axis=1).repeat(4, axis=2)
    images = np.stack([images] * 3, axis=-1)
    model = keras.applications.EfficientNetB0(
        weights=None,
        input_shape=images.shape[1:],
        classes=10,
        classifier_activation=None,
    )
    return fit(model, batches_of(images, labels, size=16), make, done)


def gan(make: MakeOptimizer, done: Done) -> Train:
    """A GAN draws digits, in a loop with two optimizers."""
    images = digit_images()[0][..., np.newaxis]
    noise = np.random.default_rng(0).normal(size=(len(images), 64))
    generator = keras.Sequential(
        [
            keras.Input((64,)),
            _LAYERS.Dense(2 * 2 * 128),
            _LAYERS.Reshape((2, 2, 128)),
            _LAYERS.BatchNormalization(),
            _LAYERS.Conv2DTranspose(64, 4, 2, "same", activation="relu"),
            _LAYERS.BatchNormalization(),
            _LAYERS.Conv2DTranspose(1, 4, 2, "same", activation="sigmoid"),
        ]
    )
    critic = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            _LAYERS.Conv2D(64, 4, 2, "same", activation="relu"),
            _LAYERS.Conv2D(128, 4, 2, "same", activation="relu"),
            _LAYERS.Flatten(),
            _LAYERS.Dense(1),
        ]
    )
    optimizers = make(), make()
    trained = [model.trainable_variables for model in (generator, critic)]
    for optimizer, variables in zip(optimizers, trained, strict=True):
        optimizer.build(variables)
    compare = keras.losses.BinaryCrossentropy(from_logits=True)

    @tf.function
    def step(real: tf.Tensor, drawn_from: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape(persistent=True) as tape:
            fakes = critic(generator(drawn_from, training=True), training=True)
            reals = critic(real, training=True)
            right, wrong = tf.ones_like(fakes), tf.zeros_like(fakes)
            losses = [
                compare(right, fakes),
                compare(right, reals) + compare(wrong, fakes),
            ]
        # Both before the first one changes.
        gradients = list(map(tape.gradient, losses, trained))
        for each in zip(optimizers, gradients, trained, strict=True):
            optimizer, gradient, variables = each
            optimizer.apply(gradient, variables)
        return sum(losses)

    def train() -> None:
        for batch in batches_of(images, noise.astype(np.float32), size=64):
            done(step(*batch))

    return train


def _classifier(*layers: keras.Layer) -> keras.Model:
    return keras.Sequential([keras.Input((8, 8)), *layers, _LAYERS.Dense(10)])


def _dense(count: int, width: int) -> keras.Model:
    hidden = [_LAYERS.Dense(width, "relu") for _ in range(count)]
    return _classifier(_LAYERS.Flatten(), *hidden)


def digits(
    make_model: Callable[[], keras.Model], make: MakeOptimizer, done: Done
) -> Train:
    """A model tells digits."""
    return fit(make_model(), batches_of(*digit_images(), size=32), make, done)


def models(make: MakeOptimizer, done: Done) -> Train:
    """Models one after another, as in a search for hyperparameters."""
    images, labels = digit_images()

    def train() -> None:
        while True:
            model = _dense(2, 64)
            model.compile(make(), LOSS, jit_compile=False)
            found = model.fit(images, labels, batch_size=64, verbose=0)
            done(found.history["loss"][0])

    return train


class Client(NamedTuple):
    """A model, and how to train it."""

    title: str
    make: Callable[[MakeOptimizer, Done], Train]
    optimizer: Callable[..., Any]  # Makes Keras'.
    steps: int  # A sample is the mean of so many.
    options: dict[str, Any] = {}  # With which tf_opt converts it.
    # Whether the memory to report is what each step keeps, rather than the
    # most that the training takes.
    keeps: bool = False
    contenders: tuple[str, ...] = ("Keras", "tf_opt")

    def having(self, title: str, **options: Any) -> Client:
        """Returns the client with other options, and so another title."""
        return self._replace(
            title=title, options=options, contenders=("Keras", "tf_opt")
        )


_adam = functools.partial(keras.optimizers.Adam, 1e-4)
_adamw = functools.partial(keras.optimizers.AdamW, 1e-4, weight_decay=0.01)
_adafactor = functools.partial(keras.optimizers.Adafactor, 1e-3)
_averaging = functools.partial(
    keras.optimizers.AdamW, 1e-4, global_clipnorm=1.0, use_ema=True
)


def _adagrad(optimizers: Any = keras.optimizers) -> Any:
    return optimizers.Adagrad(0.1)


def _adam_of(optimizers: Any) -> Any:
    return optimizers.Adam(0.01)


def _of_digits(title: str, optimizer: Any, steps: int, model: Any) -> Client:
    return Client(title, functools.partial(digits, model), optimizer, steps)


_RETRIEVAL = Client("two towers", retrieval, _adam, 3)
_RATINGS = Client(
    *("two towers for ratings, Adagrad", ratings, _adagrad, 3),
    contenders=("Keras", "tf_keras", "tf_opt"),
)
_DLRM = Client("DLRM (KerasRS), Adagrad", dlrm, _adagrad, 3)


def _of_keras_2(
    title: str, make: Any, steps: int, optimizer: Any = _adam_of
) -> Client:
    return Client(
        *(title, make, optimizer, steps),
        contenders=("tf_keras", "tf_keras, legacy", "tf_opt"),
    )


_TFRS_RETRIEVAL = _of_keras_2(
    "TFRS retrieval, Adam", clients_keras2.retrieval, 3
)
# By the workload's name.
CLIENTS: dict[str, Client] = {
    "bert": Client("BERT (KerasHub)", bert, _adamw, 5),
    "bert-adafactor": Client("BERT, Adafactor", bert, _adafactor, 5),
    "gpt2": Client("GPT-2 (KerasHub)", gpt2, _adamw, 5),
    "efficient-net": Client("EfficientNetB0", efficient_net, _adam, 3),
    "gan": Client("GAN, two optimizers", gan, _adam, 20),
    "dense": _of_digits(
        *("31 dense layers, clipping, EMA", _averaging, 3),
        lambda: _dense(30, 880),
    ),
    "small-dense": _of_digits(
        "3 small dense layers", _adam, 50, lambda: _dense(2, 64)
    ),
    "lstm": _of_digits(
        "LSTM", _adam, 20, lambda: _classifier(_LAYERS.LSTM(64))
    ),
    "dqn": Client("DQN, eager loop", dqn, _adam, 20),
    "retrieval": _RETRIEVAL,
    "retrieval-catch-up": _RETRIEVAL.having(
        "two towers, catch_up", lazy_mode="catch_up"
    ),
    "retrieval-lazy": _RETRIEVAL.having("two towers, lazy", lazy_mode=True),
    "ratings": _RATINGS,
    "ratings-row-wise": _RATINGS.having(
        "two towers for ratings, row-wise Adagrad", row_wise=True
    ),
    "dlrm": _DLRM,
    "dlrm-row-wise": _DLRM.having(
        "DLRM (KerasRS), row-wise Adagrad", row_wise=True
    ),
    "dlrm-catch-up": _DLRM._replace(optimizer=_adam).having(
        "DLRM (KerasRS), Adam, catch_up", lazy_mode="catch_up"
    ),
    "tfrs-retrieval": _TFRS_RETRIEVAL,
    "tfrs-retrieval-lazy": _TFRS_RETRIEVAL._replace(
        title="TFRS retrieval, lazy Adam", options={"lazy_mode": True}
    ),
    "tfrs-ranking": _of_keras_2(
        "TFRS ranking, Adagrad", clients_keras2.ranking, 3, _adagrad
    ),
    "tfrs-dlrm": _of_keras_2(
        "TFRS DLRM, two optimizers", clients_keras2.dlrm, 20
    ),
    "tfp": _of_keras_2("VAE (TFP), Adam", clients_keras2.autoencoder, 20),
    "tf-gnn": _of_keras_2("TF-GNN, Adam", clients_keras2.graph, 20),
    "models": Client(
        "one of many models in a process", models, _adam, 3, keeps=True
    ),
}


def make_optimizer(client: Client, contender: str) -> MakeOptimizer:
    """Returns a function that makes Keras' optimizer, or tf_opt's of it."""
    if contender == "Keras":
        return client.optimizer
    if contender == "tf_opt" and "Keras" in client.contenders:
        return lambda: tf_opt.from_keras(client.optimizer(), **client.options)
    optimizers = importlib.import_module("tf_keras").optimizers
    if contender == "tf_opt":
        convert = importlib.import_module("tf_opt.keras2").from_tf_keras
        return lambda: convert(client.optimizer(optimizers), **client.options)
    if contender == "tf_keras, legacy":
        optimizers = optimizers.legacy
    return lambda: client.optimizer(optimizers)
