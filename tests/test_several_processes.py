"""Strategies over several processes, and one that is killed."""

import time

import numpy as np
import pytest
import tensorflow as tf

from processes import job, parameter_server, steps, training
from small_model import assert_close, checkpoint_of

pytestmark = pytest.mark.slow

# One test for each strategy: processes take longer to start than to compute.


def test_two_workers_equal_one_process(tmp_path):
    work = steps.work_as_worker
    with job.start(work, {"worker": 2}, tmp_path, tmp_path) as workers:
        workers.wait("worker_0", "worker_1")
    for worker in (0, 1):
        result = np.load(tmp_path / f"{worker}.npz")
        steps.assert_equal_one_process(result, steps.FEATURED)
        steps.assert_equal_one_process(result, steps.ON_HOST)


def test_variables_on_servers_equal_one_process(tmp_path):
    tasks = {"chief": 1, "worker": 1, "ps": 2}
    with job.start(
        parameter_server.work, tasks, tmp_path, tmp_path
    ) as processes:
        processes.wait("chief_0")
    result = np.load(tmp_path / "coordinator.npz")
    for lazy_mode in (False, True):
        alone = parameter_server.train_sharded(
            tf.distribute.get_strategy(),
            lambda step, arguments: step(*arguments),
            lazy_mode,
        )
        np.testing.assert_array_equal(result[f"sharded_{lazy_mode}"], alone)
    steps.assert_equal_one_process(result, steps.FEATURED)
    for key in filter(lambda key: key.endswith("_devices"), result):
        devices = result[key]
        for variable, *slots in devices:
            assert variable.startswith("/job:ps/")
            assert set(slots) == {variable}
        # The embedding is with no other variable of its type.
        assert devices[0, 0] == devices[2, 0] != devices[-1, 0]
        servers = result[key.replace("_devices", "_memory")]
        names = [f"/job:ps/task:{i}/CPU:0" for i in range(2)]
        assert servers[:, 0].tolist() == names
        assert (servers[:, 1].astype(int) > 0).all()


def test_killed_training_goes_on_from_its_last_checkpoint(tmp_path):
    def start(name: str, saves: bool = True):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        return job.start(training.work, {"worker": 1}, folder, folder, saves)

    killed = tmp_path / "killed"
    starts, saved = killed / "starts.txt", killed / "checkpoints/checkpoint"
    random = np.random.default_rng(0)
    with start("undisturbed", saves=False) as undisturbed:
        for kills in (1, 2):
            # Who leaves it kills it, mostly while it saves.
            with start("killed") as training_job:
                while not (
                    saved.exists()
                    and len(starts.read_text().splitlines()) == kills
                ):
                    training_job.check()
                time.sleep(random.uniform(0, 0.6))
        with start("killed") as training_job:
            training_job.wait("worker_0")
        undisturbed.wait("worker_0")
    first, _, last = map(int, starts.read_text().splitlines())
    assert first == 0 < last < training.STEPS
    found = np.load(killed / "final.npz")
    expected = np.load(tmp_path / "undisturbed/final.npz")
    for key in expected:
        np.testing.assert_array_equal(found[key], expected[key], err_msg=key)


@pytest.mark.parametrize(
    ("strategy", "tasks"),
    [
        ("mirrored", {"worker": 2}),
        # With two workers, which wait for no one, no run is like another.
        ("on_servers", {"chief": 1, "worker": 1, "ps": 2}),
    ],
)
def test_fit_of_keras_2_equals_its_own_optimizer(strategy, tasks, tmp_path):
    tf_keras = pytest.importorskip("tf_keras")
    keras2 = pytest.importorskip("processes.keras2")
    work = getattr(keras2, strategy)
    with job.start(work, tasks, tmp_path, tmp_path) as processes:
        processes.wait("worker_0" if "chief" not in tasks else "chief_0")
    names = ("tf_keras", "tf_opt.keras2")
    expected, found = (np.load(tmp_path / f"{x}_0.npz") for x in names)
    for key in expected:
        np.testing.assert_allclose(found[key], expected[key], 1e-5, 1e-5)
    if strategy == "mirrored":
        return
    # One process restores what two servers have written.
    results = []
    for name in names:
        for library in (tf_keras, keras2.tfo):
            model = keras2.train(library)
            status = checkpoint_of(model).read(str(tmp_path / name))
            status.assert_consumed()
            results.append([x.numpy() for x in model.optimizer.variables])
    for result in results[1:]:
        assert_close(result, results[0], rtol=1e-5, atol=1e-5)
