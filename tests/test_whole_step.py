"""Steps beside NumPy in float64 (reference/whole_step.py).

Each mode of each optimizer in each type, the same bits by both implementations,
and every pair of features, ways to run and optimizers.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

import trajectory
from beside_numpy import Slices, Trained, tensor
from registry import (
    ALL,
    COMPOSED,
    COMPOSED_MODES,
    MODES,
    ROW_WISE_MODES,
    THOROUGH_MODES,
    TWO_MODES,
    pairwise,
    slow,
)

pytestmark = pytest.mark.kernels

STEPS = 16
# Before this step somebody sets a part of a variable.
SET_BEFORE = 7
# Of these steps one gradient is no number. The last would update by three.
NONFINITE = {4: np.inf, 5: np.nan, 13: -np.inf}
SHAPES = ((7, 5), (70,), ())
# Of the first variable's gradient, if it is sparse.
ROWS = 4

FEATURES: dict[str, dict[str, dict[str, Any]]] = {
    "clipping": {
        "none": {},
        "norm": {"clipnorm": 1.5},
        "global": {"global_clipnorm": 2.0},
        "value": {"clipvalue": 0.4},
    },
    "averaging": {
        "none": {},
        "average": {"use_ema": True, "ema_momentum": 0.75},
        "overwrite": {
            "use_ema": True,
            "ema_momentum": 0.5,
            "ema_overwrite_frequency": 2,
        },
        # Averages need exact tables.
        "lazy": {"lazy_mode": True},
    },
    "scaling": {
        "none": {},
        "factor": {"loss_scale_factor": 3.0},
        "dynamic": {"dynamic_growth_steps": 3},
    },
    "accumulation": {"none": {}, "three": {"gradient_accumulation_steps": 3}},
    "skipping": {"none": {}, "skip": {"skip_nonfinite": True}},
    "multipliers": {
        "none": {},
        "some": {
            "learning_rate_multipliers": {"a$": 0.5, ".": 2.0},
            "weight_decay_multipliers": {"[bc]": 3.0},
        },
    },
    "norm": {"none": {}, "track": {"track_gradient_norm": True}},
    "weights": {
        "none": {},
        "masters": {"master_weights": True},
        "stochastic": {"stochastic_rounding": True, "seed": -6},
    },
    "state": {"none": {}, "bfloat16": {"state_dtype": "bfloat16", "seed": 4}},
    "slices": {"none": {}, "some": {}},
    # TensorFlow 1's `==`, which is still an option, compares identities.
    "equality": {"of numbers": {}, "of tensors": {}},
}
# Around the rules that are compared bit by bit.
FRAME = {
    "clipvalue": 0.5,
    "loss_scale_factor": 3.0,
    "use_ema": True,
    "ema_momentum": 0.9,
    "ema_overwrite_frequency": 2,
    "gradient_accumulation_steps": 2,
}
# Where both have the same new pairs AllPairs takes the second, which is faster.
IMPLEMENTATIONS = ("composed", "custom_op")
# "shards" are replicas that share the state.
RUNS = (*trajectory.RUNS, "replicas", "shards")
# Where the state is, beside the variables or not.
PLACES = ("beside", "host")
DTYPES = ("float32", "bfloat16", "mixed", "float64", "float16")
# The first and the last of each.
_TWO_COMPOSED = [
    (name, mode)
    for name, x in COMPOSED.items()
    for mode in ("plain", x.thorough_mode)
]


def _cases() -> list[Any]:
    names = [*FEATURES]
    choices = [list(options) for options in FEATURES.values()]
    cases = pairwise(
        [*TWO_MODES, ROW_WISE_MODES[0], *_TWO_COMPOSED],
        RUNS,
        PLACES,
        IMPLEMENTATIONS,
        DTYPES,
        *choices,
        filter_func=lambda case: (
            case[1:3] not in (["jit_compile", "host"], ["shards", "host"])
        ),
    )
    return [
        pytest.param(
            *case.values[:6],
            dict(zip(names, case.values[6:], strict=True)),
            id="-".join(case.values),
            marks=case.marks,
        )
        for case in cases
    ]


def _modes() -> list[Any]:
    """Modes in every type, quickly in one; those with the most in a frame."""
    return [
        (pytest.param if k == i % 4 else slow)(*mode, dtype, frame)
        for modes, frame in (
            ([*MODES, *ROW_WISE_MODES, *COMPOSED_MODES], {}),
            ([*THOROUGH_MODES, *_TWO_COMPOSED[1::2]], FRAME),
        )
        for i, mode in enumerate(modes)
        for k, dtype in enumerate(("float16", "bfloat16", "float32", "float64"))
    ]


def _dtypes(dtype: str) -> list[str]:
    if dtype == "mixed":
        return ["float32", "float64", "float32"]
    if "16" in dtype:
        return [dtype, dtype, "float32"]
    return [dtype] * len(SHAPES)


def _gradients(
    shapes: Sequence[tuple[int, ...]],
    step: int,
    wrong: bool = False,
    sparse: bool = False,
) -> list[np.ndarray | Slices]:
    random = np.random.default_rng(step)
    # With few digits, so that they, and sums of some, are numbers in 16 bits.
    # They shrink for a while, so that second moments fall below their maximum.
    gradients = [
        np.asarray(np.round(random.normal(size=shape) * 8) / 8)
        * 0.5 ** (step % 4)
        for shape in shapes
    ]
    if wrong and step in NONFINITE:
        gradients[1][7] = NONFINITE[step]
    if sparse:
        # As many as there are, but now and then none; few rows, and others in
        # every step.
        count = 0 if step == 9 else ROWS
        indices = random.integers(0, 3, count) + step % 5
        gradients[0] = Slices(gradients[0][:count], indices, len(gradients[0]))
    return gradients


def _stepper(
    how: str,
    optimizer: keras.optimizers.Optimizer,
    variables: list[keras.Variable],
    strategy: tf.distribute.Strategy,
    steps_outside: int,
    sparse: bool,
) -> Callable[[list[tf.Tensor | tf.IndexedSlices]], None]:

    def step(gradients: list[tf.Tensor]) -> None:
        optimizer.apply(gradients, variables)

    def replica(gradients: list[tf.Tensor]) -> None:
        # A quarter of the gradient in one, the rest in the other, which alone
        # has what isn't finite.
        context = tf.distribute.get_replica_context()
        number = context.replica_id_in_sync_group

        def part(g: tf.Tensor | tf.IndexedSlices) -> Any:
            g = tf.math.scalar_mul(tf.cast((2 * number + 1) / 4, g.dtype), g)
            if isinstance(g, tf.IndexedSlices):
                return g
            return tf.where((number > 0) | tf.math.is_finite(g), g, 0)

        step(list(map(part, gradients)))

    if how == "replicas":
        specs = [tf.TensorSpec(v.shape, v.dtype) for v in variables]
        if sparse:
            # Any number of rows, in one graph.
            specs[0] = tf.IndexedSlicesSpec(
                *(specs[0].shape, specs[0].dtype, "int64", "int32", [None])
            )
        inside = tf.function(
            lambda values: strategy.run(replica, (values,)),
            input_signature=[specs],
        )
        outside, number = tf.function(step), itertools.count()
        return lambda values: (
            outside if next(number) < steps_outside else inside
        )(values)
    run = trajectory.RUNS[how](step)

    def run_on_cpu(gradients: list[tf.Tensor | tf.IndexedSlices]) -> None:
        # Where the state is; XLA would look for it on a GPU.
        with tf.device("CPU:0"):
            run(gradients)

    return run_on_cpu


def _special(gradients: list[np.ndarray]) -> list[np.ndarray]:
    """Puts infinities and zeros into gradients."""
    for gradient in gradients:
        for i, special in enumerate([np.inf, -np.inf, 0.0, -0.0]):
            gradient.flat[i::9] = special
    return gradients


def _bits(numbers: np.ndarray) -> bytes:
    # The ops choose one NaN; TensorFlow leaves the choice to the processor.
    return np.where(np.isnan(numbers), np.nan, numbers).tobytes()


@pytest.mark.parametrize(("name", "mode", "dtype", "frame"), _modes())
def test_each_mode_in_each_type(name, mode, dtype, frame, device):
    arguments = ALL[name].modes[mode]
    # The large one is for several threads.
    large = frame and name == "Adam"
    shapes = ((17, 241), (100_001,) if large else (70,), (0,), ())
    has_op = (
        tf_opt.build_info()["custom_ops"] == "loaded" and name not in COMPOSED
    )
    bits = []
    for implementation in ("custom_op" if has_op else "auto", "composed"):
        trained = Trained(
            *(name, arguments, frame, shapes, [dtype] * len(shapes)),
            implementation=implementation,
        )
        variables = trained.variables
        for i in range(8):
            trained.step(trained.apply, _gradients(shapes, i))
        trained.assert_equal(1e-12 if dtype == "float64" else 2e-5)
        for after in (_special(_gradients(shapes, 8)), _gradients(shapes, 9)):
            trained.apply(list(map(tensor, after, variables)))
        everything = [*variables, *trained.optimizer.variables]
        bits.append([(x.name, _bits(x.numpy())) for x in everything])
    # On a GPU, TensorFlow's square roots and powers have other last bits.
    if device == "CPU:0":
        assert [x for x, y in zip(*bits, strict=True) if x != y] == []


@pytest.mark.parametrize(
    ("name", "mode", "how", "where", "implementation", "dtype", "chosen"),
    _cases(),
)
def test_all_features_together(
    name, mode, how, where, implementation, dtype, chosen, strategy, request
):
    if chosen["equality"] == "of tensors":
        tf.compat.v1.disable_tensor_equality()
        request.addfinalizer(tf.compat.v1.enable_tensor_equality)
    features = {}
    for feature, choice in chosen.items():
        features.update(FEATURES[feature][choice])
    skips = "dynamic_growth_steps" in features or "skip_nonfinite" in features
    under_test = ALL[name]
    if not under_test.has_lazy_mode:
        features.pop("lazy_mode", None)
    if name in COMPOSED or how == "jit_compile":
        # The op where there is one, and else the composed one.
        implementation = implementation.replace("custom_op", "auto")
    placement = {"state_device": "CPU:0"} if where == "host" else {}
    if how == "shards":
        how, placement = "replicas", {"shard_state": True}
    arguments = {
        **dict.fromkeys(under_test.decays, 0.1),
        **under_test.modes[mode],
        **under_test.proportional,
    }
    scope = strategy if how == "replicas" else tf.distribute.get_strategy()
    on_device = how != "replicas" and where == "host"
    with scope.scope(), tf.device("CPU:1" if on_device else "CPU:0"):
        trained = Trained(
            *(name, arguments, features, SHAPES, _dtypes(dtype)),
            implementation=implementation,
            **placement,
        )
    accumulates = "gradient_accumulation_steps" in features
    slices, lazy = chosen["slices"] != "none", "lazy_mode" in features
    refused = (
        how == "replicas" and not placement and lazy and slices and accumulates
    )
    # Whole updates, of up to three steps.
    outside = 0 if placement or refused else 8 if skips else 9
    step = _stepper(
        *(how, trained.optimizer, trained.variables, strategy, outside, slices)
    )
    if refused:
        gradients = _gradients(SHAPES, 0, skips, slices)
        with pytest.raises(ValueError, match="`lazy_mode` must be False"):
            step(list(map(tensor, gradients, trained.variables)))
        return

    for i in range(STEPS):
        if i == SET_BEFORE:
            with scope.scope():
                trained.set_a_part(1)
        trained.step(step, _gradients(SHAPES, i, skips, slices), lazy)
    reference = trained.reference
    assert reference.updates > 3
    assert bool(reference.skipped) == skips
    trained.assert_equal(1e-12 if dtype == "float64" else 2e-5)
    if how == "replicas":
        # Those that train alike have copies that do.
        for variable in trained.variables:
            copies = strategy.experimental_local_results(variable.value)
            np.testing.assert_array_equal(copies[0], copies[1])
