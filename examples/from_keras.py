"""Moves the two-tower recommender from Keras' Adam to tf_opt's.

    python examples/from_keras.py [--steps N] [--factors F ...]

Ids repeat in the sparse gradients of the recommender's tables. Keras squares
these gradients one by one, tf_opt squares their sum. So `tf_opt.from_keras`
trains with other steps in the tables, and a factor of the tables' learning rate
makes them larger. All trainings start from the same weights and see the same
batches.
"""

from __future__ import annotations

import argparse
import math
import os

# TensorFlow reads this when it is imported.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import keras
import recommender
import rich.console
import rich.progress
import rich.table
import standard_library
import tf_opt
import two_towers

# Numbers of the tests whose losses are printed.
SHOWN = (1, 2, 5, recommender.TESTS)


def make_optimizers(
    factors: list[float],
) -> dict[str, keras.optimizers.Optimizer]:
    """Makes Keras' Adam, and one converted from it for each factor."""

    def make() -> keras.optimizers.Adam:
        return keras.optimizers.Adam(**recommender.HYPERPARAMETERS)

    return {"keras.optimizers.Adam": make()} | {
        f"from_keras, tables x {factor:g}": tf_opt.from_keras(
            make(), learning_rate_multipliers={"embeddings": factor}
        )
        for factor in factors
    }


def parse_arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        description="Trains a recommender with Keras' Adam and after "
        "tf_opt.from_keras, with factors of the tables' learning rate."
    )
    parser.add_argument(
        "--steps",
        type=int,
        default=300,
        help="how long each training is (default: %(default)s)",
    )
    parser.add_argument(
        "--factors",
        type=float,
        nargs="+",
        default=[1.0, 1.5, 2.0],
        help="factors of the tables' learning rate (default: %(default)s)",
    )
    arguments = parser.parse_args()
    if arguments.steps < recommender.TESTS:
        parser.error(
            f"--steps must be at least {recommender.TESTS}, got "
            f"{arguments.steps}"
        )
    return arguments


def main() -> None:
    """Trains with each optimizer and prints a table of the losses."""
    arguments = parse_arguments()
    data = standard_library.load_data(two_towers.ROWS, recommender.SEED)
    table = rich.table.Table("optimizer", title="Test loss")
    with rich.progress.Progress() as progress:
        for name, optimizer in make_optimizers(arguments.factors).items():
            task = progress.add_task(name, total=arguments.steps)
            recorder = recommender.Recorder(
                data,
                optimizer,
                arguments.steps,
                math.inf,
                lambda task=task: progress.advance(task),
            )
            keras.utils.set_random_seed(recommender.SEED)
            batches = two_towers.make_batches(data, recommender.SEED)
            recommender.train(
                two_towers.TwoTowers(),
                optimizer,
                batches.take(arguments.steps),
                recorder,
            )
            if not table.rows:
                for i in SHOWN:
                    table.add_column(f"{recorder.steps[i]} steps")
            losses = (f"{recorder.scores[i].loss:.2f}" for i in SHOWN)
            table.add_row(name, *losses)
    rich.console.Console().print(table)


if __name__ == "__main__":
    main()
