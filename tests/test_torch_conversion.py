"""`from_torch` and `to_torch` go on with PyTorch's own numbers."""

import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt
from tf_opt.python.conversion.torch_counterparts import COUNTERPARTS

from small_model import assert_close, look_up
from torch_trajectory import TORCH_MODES, in_torch

torch = pytest.importorskip("torch")

STEPS = 4
SHAPES = [(3, 2, 1, 2), (3,)]
GRADIENTS = [
    [np.random.default_rng([i, n]).normal(size=s) for n, s in enumerate(SHAPES)]
    for i in range(2 * STEPS)
]
# PyTorch keeps a step's scalars in float32.
TOLERANCE = 2e-6
# Those of a Conv2D. Its inverse is another one.
LAYOUTS = {"kernel": (2, 3, 1, 0), "bias": (0,)}


def as_ours(values) -> list[np.ndarray]:
    return list(map(np.transpose, values, LAYOUTS.values()))


def as_theirs(values) -> list[np.ndarray]:
    return list(map(np.transpose, values, map(np.argsort, LAYOUTS.values())))


def torch_run(make, start, gradients):
    """PyTorch's optimizer after some steps, and its parameters."""
    parameters = [torch.nn.Parameter(torch.tensor(value)) for value in start]
    optimizer = make(parameters)
    return optimizer, torch_steps(optimizer, gradients)


def torch_steps(optimizer, gradients) -> list[np.ndarray]:
    parameters = [p for g in optimizer.param_groups for p in g["params"]]
    for step in gradients:
        for parameter, gradient in zip(parameters, step, strict=True):
            parameter.grad = torch.tensor(gradient)
        optimizer.step()
    return [p.detach().numpy().copy() for p in parameters]


def keras_variables(values) -> list[keras.Variable]:
    return [
        keras.Variable(value, dtype="float64", name=name)
        for value, name in zip(as_ours(values), LAYOUTS, strict=True)
    ]


def our_steps(optimizer, variables, gradients) -> list[np.ndarray]:
    """Does them and returns the variables in PyTorch's layout."""
    for step in gradients:
        optimizer.apply(list(map(tf.constant, as_ours(step))), variables)
    return as_theirs([variable.numpy() for variable in variables])


def grouped(name: str, **arguments):
    """Makes an optimizer with a group for each parameter."""

    def make(parameters) -> torch.optim.Optimizer:
        kernel, bias = parameters
        # The step size of an ASGD isn't proportional to its learning rate.
        if name == "ASGD":
            return torch.optim.ASGD(parameters, lr=2.0**-6, **arguments)
        second = {"params": [bias], "lr": 2.0**-5}
        if arguments.get("weight_decay"):
            second["weight_decay"] = 0.0
        return getattr(torch.optim, name)(
            [{"params": [kernel]}, second], lr=2.0**-6, **arguments
        )

    return make


START = [np.random.default_rng(9).normal(size=shape) + 2.0 for shape in SHAPES]


@pytest.mark.parametrize(("name", "mode"), TORCH_MODES)
def test_goes_on_there_and_back(name, mode):
    torch_name, arguments = in_torch(name, mode)
    make = grouped(torch_name, **arguments)
    theirs, halfway = torch_run(make, START, GRADIENTS[:STEPS])
    expected = torch_steps(theirs, GRADIENTS[STEPS:])

    theirs, _ = torch_run(make, START, GRADIENTS[:STEPS])
    variables = keras_variables(halfway)
    ours = tf_opt.from_torch(theirs, variables, LAYOUTS)
    cls = tf_opt.AveragedSGD if torch_name == "ASGD" else None
    assert type(ours) is (cls or getattr(tf_opt, torch_name))
    found = our_steps(ours, variables, GRADIENTS[STEPS:])
    assert_close(found, expected, rtol=TOLERANCE)

    variables = keras_variables(START)
    theirs, _ = torch_run(make, START, [])
    ours = tf_opt.from_torch(theirs, variables, LAYOUTS)
    halfway = our_steps(ours, variables, GRADIENTS[:STEPS])
    state_dict = tf_opt.to_torch(ours, variables, LAYOUTS)
    theirs, _ = torch_run(make, halfway, [])
    theirs.load_state_dict(state_dict)
    found = torch_steps(theirs, GRADIENTS[STEPS:])
    assert_close(found, expected, rtol=TOLERANCE)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "NAdam", "ASGD", "SGD"])
def test_settings_that_are_missing_are_pytorchs_defaults(name):
    theirs = getattr(torch.optim, name)([torch.nn.Parameter(torch.ones(1))])
    variables = [keras.Variable([1.0])]
    complete = tf_opt.from_torch(theirs, variables).get_config()
    lr = theirs.param_groups[0]["lr"]
    group = {"params": [0], "lr": torch.tensor(lr, dtype=torch.float64)}
    given = {"state": {0: None}, "param_groups": [group]}
    optimizer = tf_opt.from_torch((name, given), variables)
    config = optimizer.get_config()
    assert config == {**complete, "name": config["name"]}
    assert int(optimizer.iterations) == 0


def converted(name: str, **options):
    """PyTorch's optimizer after some steps, the variables and ours."""
    theirs, halfway = torch_run(grouped(name), START, GRADIENTS[:STEPS])
    variables = keras_variables(halfway)
    ours = tf_opt.from_torch(theirs, variables, LAYOUTS, **options)
    return theirs, variables, ours


@pytest.mark.parametrize("name", ["AdamW", "NAdam", "ASGD"])
def test_the_result_may_accumulate(name):
    theirs, variables, ours = converted(name, gradient_accumulation_steps=2)
    assert ours.iterations == STEPS
    expected = torch_steps(theirs, GRADIENTS[STEPS:])
    twice = [step for step in GRADIENTS[STEPS:] for _ in range(2)]
    assert_close(our_steps(ours, variables, twice), expected, rtol=TOLERANCE)
    back = tf_opt.to_torch(ours, variables, LAYOUTS)
    assert [x["step"] for x in back["state"].values()] == [2 * STEPS] * 2


@pytest.mark.parametrize("name", ["AdamW", "ASGD"])
def test_moving_averages_begin_as_the_weights(name):
    _, variables, ours = converted(name, use_ema=True, ema_momentum=0.75)
    before = as_theirs([variable.numpy() for variable in variables])
    after = our_steps(ours, variables, GRADIENTS[STEPS : STEPS + 1])
    expected = [0.75 * a + 0.25 * b for a, b in zip(before, after, strict=True)]
    found = as_theirs([average.numpy() for average in ours._state.averages])
    assert_close(found, expected, rtol=1e-12)


def test_names_choose_the_order_and_none_leaves_out():
    parameters = {
        name: torch.nn.Parameter(torch.ones(size))
        for name, size in (("a", 2), ("frozen", 3), ("c", 4))
    }
    theirs = torch.optim.AdamW(parameters.items(), lr=0.5)
    parameters["a"].grad, parameters["c"].grad = torch.ones(2), torch.ones(4)
    theirs.step()
    variables = {
        "c": keras.Variable(np.ones(4), name="c"),
        "a": keras.Variable(np.ones(2), name="a"),
        "frozen": None,
    }
    ours = tf_opt.from_torch(theirs, variables)
    moments = [x.numpy() for x in ours.variables[2:]]
    assert [x.size for x in moments] == [4, 4, 2, 2]
    np.testing.assert_allclose(moments[0], 0.1, rtol=1e-6)
    back = tf_opt.to_torch(ours, {x: variables[x] for x in parameters})
    assert list(back["state"]) == [0, 2]
    theirs.load_state_dict(back)
    assert theirs.state[parameters["frozen"]] == {}
    assert theirs.state[parameters["c"]]["step"] == 1
    with pytest.raises(ValueError, match="`step` must be the same"):
        tf_opt.from_torch(
            theirs, {**variables, "frozen": keras.Variable(np.ones(3))}
        )
    with pytest.raises(ValueError, match="names of the parameters as keys"):
        tf_opt.from_torch(theirs, {"a": variables["a"]})


def test_a_table_that_catches_up_goes_on_in_pytorch():
    results = []
    for lazy_mode in (False, "catch_up"):
        table = keras.Variable(np.ones((4, 2)), name="embeddings")
        optimizer = tf_opt.Adam(0.125, lazy_mode=lazy_mode)
        look_up(optimizer, table, 0, 1, 3, 1)
        moments = tf_opt.to_torch(optimizer, [table], None)["state"][0]
        results.append([table.numpy(), *moments.values()])
    assert_close(*results, rtol=1e-5)


def test_a_schedule_that_cannot_be_serialized():
    class Halves(keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step):
            return 0.5 ** tf.cast(step, tf.float32)

    variable, optimizer = keras.Variable(np.ones(2)), tf_opt.Adam(Halves())
    for _ in range(3):
        optimizer.apply([tf.ones(2)], [variable])
    (group,) = tf_opt.to_torch(optimizer, [variable])["param_groups"]
    assert group["lr"] == 0.125


def test_in_a_strategys_scope(strategy):
    with strategy.scope():
        theirs, variables, ours = converted("NAdam")
    back = tf_opt.to_torch(ours, variables, LAYOUTS)
    assert [g["lr"] for g in back["param_groups"]] == [2.0**-6, 2.0**-5]
    assert_same_state(back, theirs)


def assert_same_state(found: dict, optimizer: torch.optim.Optimizer) -> None:
    expected = optimizer.state_dict()["state"]
    for index, state in expected.items():
        for key, value in state.items():
            got = found["state"][index][key]
            torch.testing.assert_close(got.to(value.dtype), value)


IMAGES = (2, 6, 5, 4)
GROUPED = torch.nn.Conv2d(4, 6, 2, groups=2)
TRANSPOSED = torch.nn.ConvTranspose2d(4, 3, 2)
DEPTHWISE = torch.nn.Conv2d(4, 4, 2, groups=4)
LAYERS = [
    (keras.layers.Dense(3), torch.nn.Linear(4, 3), (5, 4)),
    (keras.layers.Conv3D(3, 2), torch.nn.Conv3d(4, 3, 2), (2, 3, 4, 5, 4)),
    (keras.layers.Conv2D(6, 2, groups=2), GROUPED, IMAGES),
    (keras.layers.Conv2DTranspose(3, 2), TRANSPOSED, IMAGES),
    (keras.layers.DepthwiseConv2D(2), DEPTHWISE, IMAGES),
]


@pytest.mark.parametrize(
    ("layer", "module", "shape"),
    LAYERS,
    ids=lambda x: type(x).__name__ if callable(x) else "",
)
def test_layouts_are_those_of_pytorchs_layers(layer, module, shape):
    model = keras.Sequential([keras.Input(shape[1:]), layer])
    layouts = tf_opt.torch_layouts(model)
    values = [x.detach().numpy() for x in module.parameters()]
    for variable, value in zip(model.weights, values, strict=True):
        layout = layouts.get(variable.path, range(value.ndim))
        variable.assign(np.transpose(value, tuple(layout)))
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    channels_first = (0, len(shape) - 1, *range(1, len(shape) - 1))
    x_torch = torch.tensor(np.transpose(x, channels_first))
    expected = module(x_torch).detach().numpy()
    got = np.transpose(model(x).numpy(), channels_first)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_layouts_of_layers_inside_of_layers():
    class Block(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.inner = keras.layers.Dense(2)
            self.own = self.add_weight(shape=(2, 2), name="own")

        def call(self, x: tf.Tensor) -> tf.Tensor:
            return self.inner(x) @ self.own

    model = keras.Sequential(
        [keras.layers.Embedding(5, 2), keras.layers.Flatten(), Block()]
    )
    model(np.zeros((1, 3)))
    layouts = tf_opt.torch_layouts(model)
    table, kernel = model.weights[0], model.layers[-1].inner.kernel
    assert layouts == {table.path: (0, 1), kernel.path: (1, 0)}
    # The layer's own matrix could be either way round.
    theirs = torch.optim.Adam(
        torch.nn.Parameter(torch.zeros(*v.shape)) for v in model.weights
    )
    with pytest.raises(ValueError, match="`layouts` must have a permutation"):
        tf_opt.from_torch(theirs, model.weights, layouts)


@pytest.mark.parametrize("dtype", ["bfloat16", "float64", "complex64"])
def test_other_types(dtype):
    start = torch.tensor([1.0, -2.0]).to(getattr(torch, dtype))
    parameter = torch.nn.Parameter(start)
    theirs = torch.optim.Adam([parameter], lr=0.5, weight_decay=0.25)
    parameter.grad = torch.ones(2).to(start.dtype)
    theirs.step()
    variable = tf.Variable(tf.ones(2, tf.dtypes.as_dtype(dtype)), name="v")
    ours = tf_opt.from_torch(theirs, [variable])
    assert_same_state(tf_opt.to_torch(ours, [variable]), theirs)


def subclassed() -> torch.optim.Optimizer:
    cls = type("MyAdam", (torch.optim.Adam,), {})
    return cls([torch.nn.Parameter(torch.ones(1))])


def state_dict(**changed: object) -> tuple[str, dict]:
    groups = [{"params": [0], "lr": 0.5}]
    return "Adam", {"state": {}, "param_groups": groups, **changed}


# By the key that the error names.
WRONG_STATE_DICTS = [
    ("state", state_dict(state=None)),
    ("param_groups", state_dict(param_groups=1)),
    ("params", state_dict(param_groups=[None])),
    ("lr", state_dict(param_groups=[{"params": [0]}])),
    ("params", state_dict(param_groups=[{"params": None, "lr": 0.5}])),
    ("lr", state_dict(param_groups=[{"params": [0], "lr": None}])),
]


def two_groups(name: str, **second) -> torch.optim.Optimizer:
    own = [torch.nn.Parameter(torch.tensor(value)) for value in START]
    groups = [{"params": own[:1]}, {"params": own[1:], **second}]
    return getattr(torch.optim, name)(groups)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"optimizer": "adam"}, TypeError, "an optimizer of torch.optim"),
        ({"optimizer": ("Rprop", {})}, TypeError, "one of Adam, AdamW"),
        ({"optimizer": subclassed}, TypeError, "an optimizer of torch.optim"),
        (
            {"optimizer": lambda: two_groups("Adam", eps=0.5)},
            *(ValueError, "`eps` must be the same"),
        ),
        (
            {"optimizer": lambda: two_groups("ASGD", lr=0.5)},
            *(ValueError, "`lr` must be the same for all"),
        ),
        ({"variables": []}, ValueError, "Expected: 2. Received: 0"),
        ({"variables": [None, None]}, ValueError, "must have a variable"),
        ({"layouts": None}, ValueError, "must have the shapes"),
        ({"layouts": {}}, ValueError, "must have a permutation"),
        ({"layouts": {"kernel": (1, 1)}}, ValueError, "Received: .1, 1."),
        *(
            ({"optimizer": given}, ValueError, f"`optimizer` must.*'{key}'")
            for key, given in WRONG_STATE_DICTS
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_what_from_torch_refuses(changed, error, message):
    theirs, _ = torch_run(grouped("Adam"), START, GRADIENTS[:1])
    arguments = {
        "optimizer": theirs,
        "variables": keras_variables(START),
        "layouts": LAYOUTS,
        # The first one of PyTorch's imports its compiler, for seconds.
        **{k: x() if callable(x) else x for k, x in changed.items()},
    }
    with pytest.raises(error, match=message):
        tf_opt.from_torch(**arguments)


@pytest.mark.parametrize(
    ("optimizer", "error", "message"),
    [
        (tf_opt.Lion(), TypeError, "PyTorch has no other"),
        (tf_opt.AdamW(global_clipnorm=1.0), ValueError, "`global_clipnorm`"),
        (tf_opt.AdamW(epsilon_hat=True), ValueError, "`epsilon_hat`"),
        (tf_opt.SGD(momentum=0.5), ValueError, "`torch_momentum` must be True"),
        (tf_opt.SGD(weight_decay=0.5), ValueError, "`decoupled_weight_decay`"),
        (tf_opt.AdamW(use_ema=True), ValueError, "`use_ema`"),
        (
            tf_opt.Adagrad(
                row_wise=True, torch_epsilon=True, decoupled_weight_decay=False
            ),
            *(ValueError, "`row_wise` must be False"),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_to_torch_refuses(optimizer, error, message):
    variable = keras.Variable([1.0])
    optimizer.build([variable])
    with pytest.raises(error, match=message):
        tf_opt.to_torch(optimizer, [variable])


@pytest.mark.parametrize(
    "wrong",
    [
        keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)]),
        [np.ones(1)],
        {"a": "b"},
    ],
    ids=["model", "array", "name"],
)
def test_what_holds_no_variables_is_named(wrong):
    optimizer = tf_opt.SGD()
    optimizer.build([keras.Variable([1.0])])
    state = {"state": {}, "param_groups": [{"lr": 1.0, "params": [0]}]}
    for convert in (
        lambda: tf_opt.to_torch(optimizer, wrong),
        lambda: tf_opt.from_torch(("SGD", state), wrong),
    ):
        with pytest.raises(TypeError, match="`variables` must hold variables"):
            convert()


def test_to_torch_needs_all_variables_and_modes_that_pytorch_knows(monkeypatch):
    variables = [keras.Variable([1.0], name=name) for name in "ab"]
    optimizer = tf_opt.Adam(epsilon_hat=False)
    with pytest.raises(ValueError, match="`optimizer` must be built"):
        tf_opt.to_torch(optimizer, variables)
    optimizer.build(variables)
    with pytest.raises(ValueError, match=r"Expected: \['a', 'b'\]"):
        tf_opt.to_torch(optimizer, variables[:1])
    counterpart = COUNTERPARTS["Adam"]._replace(fixed={})
    monkeypatch.setitem(COUNTERPARTS, "Adam", counterpart)
    assert tf_opt.to_torch(optimizer, iter(variables))["param_groups"]
    optimizer.epsilon_hat = True
    with pytest.raises(ValueError, match="`epsilon_hat` must be False"):
        tf_opt.to_torch(optimizer, variables)


@pytest.mark.parametrize("name", COUNTERPARTS)
def test_pytorch_has_each_mode_or_one_value_of_it(name: str) -> None:
    counterpart = COUNTERPARTS[name]
    taken = inspect.signature(getattr(torch.optim, name)).parameters
    modes = set(counterpart.cls._spec.modes)
    assert modes <= {*taken, *counterpart.fixed}


def test_no_mode_is_left_out_because_to_torch_refuses_it():
    assert len(TORCH_MODES) == 27
