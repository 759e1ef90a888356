"""The models that are measured: the shapes of their parameters."""

from __future__ import annotations

import math
from typing import NamedTuple

Shape = tuple[int, ...]


def resnet_50() -> list[Shape]:
    """ResNet-50 for ImageNet: 161 tensors, 25,557,032 parameters."""

    def convolution(size: int, inputs: int, outputs: int) -> list[Shape]:
        # Without a bias: the batch normalization behind it has scale, offset.
        return [(size, size, inputs, outputs), (outputs,), (outputs,)]

    shapes = convolution(7, 3, 64)
    inputs = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        outputs = 4 * width
        for block in range(blocks):
            shapes += convolution(1, inputs, width)
            shapes += convolution(3, width, width)
            shapes += convolution(1, width, outputs)
            if block == 0:  # The shortcut's projection.
                shapes += convolution(1, inputs, outputs)
            inputs = outputs
    return [*shapes, (inputs, 1000), (1000,)]


def bert_base() -> list[Shape]:
    """BERT-base, uncased, with its pooler: 199 tensors, 109,482,240."""
    width = 768

    def dense(inputs: int, outputs: int) -> list[Shape]:
        return [(inputs, outputs), (outputs,)]

    normalization = [(width,), (width,)]
    embeddings = [(30522, width), (512, width), (2, width), *normalization]
    layer = [
        *(4 * dense(width, width)),  # Query, key, value and output.
        *normalization,
        *dense(width, 4 * width),
        *dense(4 * width, width),
        *normalization,
    ]
    return [*embeddings, *(12 * layer), *dense(width, width)]


class Workload(NamedTuple):
    """A model, as an optimizer sees it.

    Attributes:
        title: What people call it.
        shapes: The shape of each trainable variable.
        steps: How many steps are timed together. Small models are trained in
            loops: a single step after somebody else's would be timed with cold
            caches and sleeping threads.
    """

    title: str
    shapes: list[Shape]
    steps: int = 1

    @property
    def parameters(self) -> int:
        """The number of elements of all variables together."""
        return sum(map(math.prod, self.shapes))


def multilayer_perceptron(width: int, layers: int) -> list[Shape]:
    """Layers with a bias, all of one width."""
    return layers * [(width, width), (width,)]


WORKLOADS: dict[str, Workload] = {
    "mlp": Workload("MLP of 64", multilayer_perceptron(64, 3), steps=100),
    "60-tensors": Workload(
        "60 tensors", multilayer_perceptron(128, 30), steps=20
    ),
    "60-layers": Workload(
        "60 layers", multilayer_perceptron(128, 60), steps=20
    ),
    "resnet-50": Workload("ResNet-50", resnet_50()),
    "bert-base": Workload("BERT-base", bert_base()),
    "1000x256": Workload("1,000 x 256", [(256,)] * 1000),
    "single": Workload("one of 33.5 M", [(33_554_432,)]),
}
