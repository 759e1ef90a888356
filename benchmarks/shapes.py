"""The models and the embedding tables that are measured."""

import dataclasses
import math

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


def bert_base(heads: Shape = (768,)) -> list[Shape]:
    """BERT-base, uncased, with its pooler: 199 tensors, 109,482,240.

    With `heads` 12 and 64, attention has variables as Keras' layers have them.
    """
    width = 768

    def dense(inputs: int, outputs: int) -> list[Shape]:
        return [(inputs, outputs), (outputs,)]

    normalization = [(width,), (width,)]
    embeddings = [(30522, width), (512, width), (2, width), *normalization]
    layer = [
        *(3 * [(width, *heads), heads]),  # Query, key and value.
        *((*heads, width), (width,)),  # Output.
        *normalization,
        *dense(width, 4 * width),
        *dense(4 * width, width),
        *normalization,
    ]
    return [*embeddings, *(12 * layer), *dense(width, width)]


@dataclasses.dataclass(frozen=True)
class Workload:
    """A model or embedding tables, as an optimizer sees them."""

    title: str
    shapes: list[Shape]
    # How many rows of each table a batch looks up; 0 if the variables are no
    # tables, and gradients are dense.
    ids: int = 0
    # Whether few rows are looked up often, instead of uniformly.
    zipf: bool = False
    # The workloads that differ in one size only; empty for none.
    family: str = ""

    @property
    def parameters(self) -> int:
        """The number of elements of all variables together."""
        return sum(map(math.prod, self.shapes))


def multilayer_perceptron(width: int, layers: int) -> list[Shape]:
    """Layers with a bias, all of one width."""
    return layers * [(width, width), (width,)]


WORKLOADS: dict[str, Workload] = {
    "mlp": Workload("MLP of 64", multilayer_perceptron(64, 3)),
    "60-tensors": Workload("60 tensors", multilayer_perceptron(128, 30)),
    "60-layers": Workload("60 layers", multilayer_perceptron(128, 60)),
    "resnet-50": Workload("ResNet-50", resnet_50()),
    "bert-base": Workload("BERT-base", bert_base()),
    "1000x256": Workload("1,000 x 256", [(256,)] * 1000),
    "single": Workload("one of 33.5 M", [(33_554_432,)]),
}

# Criteo's click logs (the Kaggle challenge of 2014) have 26 categorical
# features with this many values. Large ones are hashed into fewer rows.
_CRITEO_VALUES = (
    *(1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683),
    *(8351593, 3194, 27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18),
    *(15, 286181, 105, 142572),
)
_CRITEO_ROWS = 1_000_000

SPARSE_WORKLOADS: dict[str, Workload] = {
    "table-uniform": Workload("1 M x 64, uniform", [(1_000_000, 64)], ids=8192),
    "table-zipf": Workload(
        "1 M x 64, Zipf", [(1_000_000, 64)], ids=8192, zipf=True
    ),
    "table-128": Workload("1 M x 128, uniform", [(1_000_000, 128)], ids=8192),
    "26-tables": Workload(
        "26 tables",
        [(min(rows, _CRITEO_ROWS), 16) for rows in _CRITEO_VALUES],
        ids=2048,
        zipf=True,
    ),
    **{
        f"{ids}-ids{'-zipf' * zipf}": Workload(
            f"{ids:,} ids{', Zipf' * zipf}",
            [(1_000_000, 64)],
            ids=ids,
            zipf=zipf,
            family="by ids in a batch, 1,000,000 x 64",
        )
        for ids, zipf in (
            *((100, False), (1000, False), (4096, False), (4096, True)),
            *((10_000, False), (100_000, False)),
        )
    },
    **{
        f"{rows}-rows": Workload(
            f"{rows:,} rows",
            # Narrow, so that the largest fits into memory with Keras' copy.
            [(rows, 16)],
            ids=8192,
            family="by rows of the table, of width 16, 8,192 ids in a batch",
        )
        for rows in (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
    },
}
# For optimizers to which axes matter.
_HEADS = {"bert-heads": Workload("BERT-base, 12 heads", bert_base((12, 64)))}
ALL_WORKLOADS = WORKLOADS | _HEADS | SPARSE_WORKLOADS
