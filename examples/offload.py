"""Trains a bfloat16 transformer with its optimizer's state on the host.

    python examples/offload.py [--steps N]

The text is Python's help topics, byte by byte. The model trains twice. In the
second training `state_device="CPU:0"` keeps Adam's moments and the master
weights in the host's memory. Both trainings start from the same weights and see
the same batches. The script prints the loss of each tenth of both and, by
`optimizer.memory()`, how many bytes are on which device.

On a machine with a GPU, the model is on the GPU, and the script also prints the
most memory that each training takes there. Without one, TensorFlow splits
the CPU into two logical devices: "CPU:0" is the host, "CPU:1" plays the GPU.
That shows what lives where, but saves neither memory nor time. There the losses
must be equal. On a GPU they may differ in their last digits, because only the
first training updates the variables on the GPU.
"""

from __future__ import annotations

import argparse
import os
import pydoc_data.topics

# TensorFlow reads this when it is imported.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import keras
import numpy as np
import rich.console
import rich.table
import tensorflow as tf
import tf_opt

HOST = "CPU:0"
SEED = 0
LENGTH, WIDTH, HEADS, BLOCKS = 64, 256, 4, 4
BATCH_SIZE = 16
# How many losses a training returns.
REPORTS = 10
# The arguments of the optimizer in each training, by its name.
TRAININGS = {"usual": {}, "offloaded": {"state_device": HOST}}
Memory = dict[str, dict[str, int]]


def find_device() -> str:
    """Returns the device to train on; without a GPU, makes a second CPU."""
    if tf.config.list_physical_devices("GPU"):
        return "GPU:0"
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * 2,
    )
    return "CPU:1"


def make_model() -> keras.Model:
    """Makes a language model that reads bytes."""
    layers = keras.layers
    tokens = keras.Input((LENGTH,), dtype="int32")
    x = layers.Embedding(256, WIDTH)(tokens)
    x += layers.Embedding(LENGTH, WIDTH)(keras.ops.arange(LENGTH))
    for _ in range(BLOCKS):
        y = layers.LayerNormalization()(x)
        attention = layers.MultiHeadAttention(HEADS, WIDTH // HEADS)
        x += attention(y, y, use_causal_mask=True)
        y = layers.LayerNormalization()(x)
        x += layers.Dense(WIDTH)(layers.Dense(4 * WIDTH, "gelu")(y))
    x = layers.Dense(256)(layers.LayerNormalization()(x))
    return keras.Model(tokens, layers.Activation("linear", dtype="float32")(x))


def load_data(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns pieces of the text, and the byte that follows each byte."""
    topics = pydoc_data.topics.topics
    text = "\n".join(topics[name] for name in sorted(topics))
    encoded = np.frombuffer(text.encode(), np.uint8).astype(np.int32)
    starts = np.random.default_rng(SEED).integers(
        0, len(encoded) - LENGTH, steps * BATCH_SIZE
    )
    pieces = encoded[starts[:, None] + np.arange(LENGTH + 1)]
    return pieces[:, :-1], pieces[:, 1:]


def train(
    device: str, steps: int, **placement: str
) -> tuple[list[float], Memory]:
    """Trains; returns the loss of each tenth, and the optimizer's memory."""
    keras.utils.set_random_seed(SEED)  # The same weights.
    with tf.device(device):
        model = make_model()
        optimizer = tf_opt.AdamW(
            1e-3, weight_decay=0.01, master_weights=True, **placement
        )
        model.compile(
            optimizer,
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            # A step on two devices can't be inside XLA, which Keras would
            # choose with a GPU.
            jit_compile=False,
        )
        tokens, following = load_data(steps)
        batches = tf.data.Dataset.from_tensor_slices((tokens, following))
        # Each part is an epoch: its loss is the mean of its batches.
        history = model.fit(
            batches.batch(BATCH_SIZE),
            epochs=REPORTS,
            steps_per_epoch=steps // REPORTS,
            verbose=0,
        )
    return history.history["loss"], optimizer.memory()


def loss_table(losses: dict[str, list[float]]) -> rich.table.Table:
    """Makes a table of the losses with all their digits."""
    table = rich.table.Table(title="Loss of each tenth of the training")
    for name in losses:
        table.add_column(name, justify="right")
    for row in zip(*losses.values(), strict=True):
        table.add_row(*map(str, row))
    return table


def memory_table(memories: dict[str, Memory]) -> rich.table.Table:
    """Makes a table of bytes, by kind and device."""
    table = rich.table.Table(title="Bytes on each device: optimizer.memory()")
    table.add_column("kind")
    columns = []
    for name, memory in memories.items():
        for device in sorted(memory, reverse=True):
            table.add_column(f"{name}: {device}", justify="right")
            columns.append(memory[device])
    kinds = dict.fromkeys(kind for column in columns for kind in column)
    for kind in kinds:
        cells = (f"{column.get(kind, 0):,}" for column in columns)
        table.add_row(kind, *cells)
    table.add_section()
    totals = (f"{sum(column.values()):,}" for column in columns)
    table.add_row("all", *totals)
    return table


def main() -> None:
    """Trains in both ways, compares, and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--steps",
        type=int,
        default=100,
        help="how long each training is, a multiple of "
        f"{REPORTS} (default: %(default)s)",
    )
    steps = parser.parse_args().steps
    if steps < REPORTS or steps % REPORTS:
        parser.error(f"--steps must be a multiple of {REPORTS}, got {steps}")
    device = find_device()
    # On a GPU even the same training would differ from run to run.
    tf.config.experimental.enable_op_determinism()
    keras.config.set_dtype_policy("bfloat16")
    console = rich.console.Console()
    losses, memories = {}, {}
    for name, placement in TRAININGS.items():
        losses[name], memories[name] = train(device, steps, **placement)
        if device.startswith("GPU"):
            peak = tf.config.experimental.get_memory_info(device)["peak"]
            console.print(f"{name}: at most {peak:,} bytes on the GPU")
            tf.config.experimental.reset_memory_stats(device)
    console.print(loss_table(losses))
    console.print(memory_table(memories))
    usual, offloaded = losses.values()
    if usual == offloaded:
        console.print("The losses are equal, to the last digit.")
    elif device.startswith("GPU"):
        difference = np.abs(np.subtract(usual, offloaded)).max()
        console.print(f"The losses differ by {difference:.2g} at most.")
    else:
        raise SystemExit("The losses differ, but should be equal.")


if __name__ == "__main__":
    main()
