"""Trainings as people write them, and the optimizers that they have."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import keras
import tf_opt

import client_models
from client_models import Done
from client_models import MakeOptimizer
from client_models import Train


class Client(NamedTuple):
    """A model, and how to train it.

    Attributes:
        title: The title in tables.
        make: Makes the model with its data.
        optimizer: Makes Keras' optimizer.
        steps: How many steps a sample is the mean of.
        options: The options with which tf_opt converts it.
        keeps: Whether the memory to report is what each step keeps, rather
            than the most that the training takes.
        contenders: The packages whose optimizers it is trained with.
    """

    title: str
    make: Callable[[MakeOptimizer, Done], Train]
    optimizer: Callable[..., Any]
    steps: int
    options: dict[str, Any] = {}
    keeps: bool = False
    contenders: tuple[str, ...] = ("Keras", "tf_opt")


_adam = functools.partial(keras.optimizers.Adam, 1e-4)
_adamw = functools.partial(keras.optimizers.AdamW, 1e-4, weight_decay=0.01)
_averaging = functools.partial(
    keras.optimizers.AdamW, 1e-4, global_clipnorm=1.0, use_ema=True
)


def _adagrad(package: Any = keras) -> Any:
    return package.optimizers.Adagrad(0.1)


# By the workload's name.
CLIENTS: dict[str, Client] = {
    "bert": Client("BERT (KerasHub)", client_models.bert, _adamw, 5),
    "gpt2": Client("GPT-2 (KerasHub)", client_models.gpt2, _adamw, 5),
    "efficient-net": Client(
        "EfficientNetB0", client_models.efficient_net, _adam, 3
    ),
    "gan": Client("GAN, two optimizers", client_models.gan, _adam, 20),
    "dense": Client(
        "31 dense layers, clipping, EMA", client_models.dense, _averaging, 3
    ),
    "small-dense": Client(
        "3 small dense layers", client_models.small_dense, _adam, 50
    ),
    "lstm": Client("LSTM", client_models.lstm, _adam, 20),
    "dqn": Client("DQN, eager loop", client_models.dqn, _adam, 20),
    "retrieval": Client("two towers", client_models.retrieval, _adam, 3),
    "retrieval-catch-up": Client(
        "two towers, catch_up",
        client_models.retrieval,
        _adam,
        3,
        {"lazy_mode": "catch_up"},
    ),
    "retrieval-lazy": Client(
        "two towers, lazy",
        client_models.retrieval,
        _adam,
        3,
        {"lazy_mode": True},
    ),
    "ratings": Client(
        "two towers for ratings, Adagrad",
        client_models.ratings,
        _adagrad,
        3,
        contenders=("Keras", "tf_keras", "tf_opt"),
    ),
    "ratings-row-wise": Client(
        "two towers for ratings, row-wise Adagrad",
        client_models.ratings,
        _adagrad,
        3,
        {"row_wise": True},
    ),
    "dlrm": Client("DLRM (KerasRS), Adagrad", client_models.dlrm, _adagrad, 3),
    "dlrm-row-wise": Client(
        "DLRM (KerasRS), row-wise Adagrad",
        client_models.dlrm,
        _adagrad,
        3,
        {"row_wise": True},
    ),
    "dlrm-catch-up": Client(
        "DLRM (KerasRS), Adam, catch_up",
        client_models.dlrm,
        _adam,
        3,
        {"lazy_mode": "catch_up"},
    ),
    "models": Client(
        "one of many models in a process",
        client_models.models,
        _adam,
        3,
        keeps=True,
    ),
}


def make_optimizer(client: Client, contender: str) -> MakeOptimizer:
    """Returns a function that makes Keras' optimizer, or tf_opt's of it."""
    if contender == "Keras":
        return client.optimizer
    if contender == "tf_keras":
        return lambda: client.optimizer(importlib.import_module("tf_keras"))
    return lambda: tf_opt.from_keras(client.optimizer(), **client.options)
