"""Training on several workers: equal weights for any number of them, checks, lost workers, and displayed phases."""

from __future__ import annotations

import os
import signal
from typing import Any

import distributed
import numpy as np
import pytest

import explorer as ex
from explorer.run.workers import workers as workers_module
from tests.support.refusals import refused

T = ex.train
pytestmark = [pytest.mark.xdist_group("dask")]
random = np.random.default_rng(0)
IMAGES, LABELS = random.normal(size=(48, 12)), random.integers(0, 5, 48)


class Deadly(ex.Elementwise):
    """x; if the flag file exists, delete it and kill this process."""

    flag: str
    examples = (ex.Example(ex.real(3), flag=""),)

    def kernel(self, out: Any, x: Any) -> Any:
        if self.flag and os.path.exists(self.flag):
            os.remove(self.flag)
            os.kill(os.getpid(), signal.SIGKILL)
        return np.copyto(out, x)

    def gradient(self, g: ex.Expr, y: ex.Expr, x: ex.Expr) -> tuple[ex.Expr]:
        return (g,)


def built(dtype: str = "float64", flag: str = "", loss: Any = None) -> Any:
    module = T.Module("digits", loss=loss or T.CrossEntropy(), optimizer=T.Adam(0.01), dtype=dtype)
    module.add_node(T.Linear("hidden", 12, 16))
    module.add_node(ex.tanh)
    if flag:
        module.add_node(Deadly(flag), name="deadly")
    module.add_node(T.Linear("scores", 16, 5))
    module.attach()
    return module


def weights(module: Any) -> dict[str, Any]:
    return {name: held.array.copy() for name, held in module.parameters.items()}


def steps(module: Any, count: int, first: int = 0) -> list[float]:
    """Return the losses of some steps, each on other samples."""
    results = []
    for number in range(first, first + count):
        chosen = np.arange(number, number + 30) % 48
        results.append(module.train_on(IMAGES[chosen], LABELS[chosen]))
    return results


@pytest.mark.spec("C-14", headline=True)
@pytest.mark.soak
def test_two_and_four_workers_give_the_weights_of_one() -> None:
    """Train on 1, 2 or 4 workers to bitwise equal weights, within 1e-6 of training in one process."""
    here = built()
    expected = steps(here, 50)
    results = []
    for count in (1, 2, 4):
        module = built()
        with ex.Workers(count, processes=False) as workers, ex.parallelize(module, workers, shards=4):
            losses = steps(module, 50)
        assert losses == pytest.approx(expected, rel=1e-9)
        results.append(weights(module))
        for name, value in weights(here).items():
            np.testing.assert_allclose(results[-1][name], value, rtol=1e-6, atol=1e-12)
    for other in results[1:]:
        assert all(np.array_equal(results[0][name], other[name]) for name in other)


@pytest.mark.spec("C-14")
def test_killing_a_worker_during_training_changes_no_bit(tmp_path: Any) -> None:
    """One of two processes is killed in the middle: the weights are equal, and training continues, also locally."""
    flag = tmp_path / "kill"
    one, other = built(flag=str(flag)), built(flag=str(flag))
    with ex.Workers(2) as workers:
        with ex.parallelize(one, workers):
            steps(one, 12)
        with ex.parallelize(other, workers) as parallel:
            steps(other, 5)
            before = workers.names()
            flag.touch()
            steps(other, 1, first=5)
            assert not flag.exists()
            assert parallel.lost
            assert {*parallel.lost} <= {*before}
            steps(other, 6, first=6)
    assert all(np.array_equal(weights(one)[name], value) for name, value in weights(other).items())
    assert steps(other, 1) == pytest.approx(steps(one, 1))  # local again


@pytest.mark.spec("C-14")
def test_phases_are_boxes_in_the_recording() -> None:
    """Test input, shards, all-reduce, output and update; a run on workers records each kernel's worker and all
    messages."""
    module = built("float32")
    with ex.parallelize(module, 4, processes=False) as parallel:
        assert repr(parallel).startswith("<training of 'digits' in 4 shards on <4 workers at tcp://127.0.0.1:")
        plan = module.plan(IMAGES, LABELS, executor="dask").eval()
    recording = plan.recording
    boxes = {box.name for box in recording.scopes}
    assert boxes >= {"input", "shard 1", "shard 4", "all-reduce", "update"}
    (declined,) = [decision for decision in recording.decisions if decision.code == "kept_whole"][:1]
    assert declined.facts["name"] == "gradients_of_shard"
    assert recording.run is not None
    assert {step.thread for step in recording.run.steps} > {0, 1}
    assert recording.stages[-1].name == "run"
    assert recording.stages[-1].counts["bytes_sent"] > 4 * 4 * 12 * 16


@pytest.mark.spec("C-14")
def test_fit_save_and_restore_continue_training(tmp_path: Any) -> None:
    """A module trained on workers is saved, restored, and trained locally like any other."""
    loader = T.DataLoader(T.ArrayDataset(IMAGES, LABELS), batch_size=24)
    one, other = built(), built()
    with ex.parallelize(one, 2, processes=False):
        one.fit(loader, epochs=2, checkpoint=tmp_path / "state.npz")
    other.restore(tmp_path / "state.npz")
    assert steps(one, 3) == steps(other, 3)


def test_a_loss_that_is_no_mean_raises_an_error_before_anything_changes() -> None:
    class Total(T.Loss):
        def record(self, output: ex.Expr, label: ex.Expr) -> ex.Expr:
            return ((output - label) ** 2).sum()

    module = built(loss=Total())
    before = weights(module)
    targets = np.ones((48, 5))
    with ex.parallelize(module, 2, processes=False):
        with refused(ex.OperandError, "mean of its samples' losses"):
            module.train_on(IMAGES, targets)
        assert all(np.array_equal(before[name], value) for name, value in weights(module).items())
        with refused(ex.OperandError, "1 sample", "each shard must have at least one sample"):
            module.train_on(IMAGES[:1], targets[:1])
    module.train_on(IMAGES, targets)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_weighted_mean_is_not_a_mean_of_shards(dtype: str) -> None:
    """With different weights of samples, the shards' losses nearly add up, but the gradients do not."""

    class ByWeights(T.Loss):
        takes_classes = True

        def record(self, output: ex.Expr, label: ex.Expr) -> ex.Expr:
            return ex.nll_loss(label, output)

    module = T.Module("c", loss=ByWeights(), optimizer=T.SGD(0.1), dtype=dtype)
    module.add_node(T.Linear("l", 12, 5))
    module.add_node(ex.softmax)
    module.attach()
    with ex.parallelize(module, 1, processes=False, shards=2):
        module.train_on(IMAGES, LABELS)
        with refused(ex.OperandError, "mean of its samples' losses"):
            module.train_on(IMAGES * 0.1, np.abs(np.random.default_rng(3).normal(size=(48, 5))))


def test_a_loss_declared_as_no_mean_raises_an_error() -> None:
    """This holds even if the first batch's loss is the mean of its shards."""

    class Own(T.Loss):
        averages_samples = False

    with refused(ex.StateError, "whose loss is Own()", "averages_samples"):
        ex.parallelize(built(loss=Own()), 2, processes=False)


def test_a_user_defined_loss_may_be_a_sum() -> None:
    class Total(T.Loss):
        reduction = "sum"

        def record(self, output: ex.Expr, label: ex.Expr) -> ex.Expr:
            return ((output - label) ** 2).sum()

    targets = np.ones((48, 5))
    here, module = built(loss=Total()), built(loss=Total())
    with ex.parallelize(module, 2, processes=False):
        for _ in range(3):
            assert module.train_on(IMAGES, targets) == pytest.approx(here.train_on(IMAGES, targets), rel=1e-9)


def test_closed_workers_raise_an_error() -> None:
    workers = ex.Workers(1, processes=False)
    workers.close()
    with refused(ex.StateError, "which are closed", "ex.Workers(2)"):
        ex.parallelize(built(), workers)


def test_a_scheduler_without_workers_raises_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """All workers may be lost when training starts: it waits for one, and otherwise names what is missing."""
    monkeypatch.setattr(workers_module, "PATIENCE", 0.5)
    with distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None) as cluster:  # type: ignore[no-untyped-call]
        with ex.Workers(cluster.scheduler_address) as workers, refused(ex.RunError, "which has no workers"):
            ex.parallelize(built(), workers)
        cluster.scale(1)
        with ex.Workers(cluster.scheduler_address) as workers:
            monkeypatch.setattr(workers_module, "PATIENCE", 60.0)
            with ex.parallelize(built(), workers) as parallel:
                assert parallel.shards == 1


def test_modules_that_cannot_be_parallelized_raise_an_error() -> None:
    for wrong in (0, True, 1.5):
        with refused(ex.OperandError, "shards must be an integer of 1 or more"):
            ex.parallelize(built(), 2, shards=wrong)  # type: ignore[arg-type]
    with refused(ex.StateError, "not attached"):
        ex.parallelize(T.Module("empty"), 2)
    with refused(ex.OperandError, "must be a module"):
        ex.parallelize(ex.tensor([1.0]), 2)  # type: ignore[arg-type]


@pytest.mark.spec("C-14")
def test_shards_of_one_sample_with_a_last_batch_axis_train_to_the_same_bits() -> None:
    """Workers received parameters at odd addresses, where transposed products occasionally round differently."""
    reached = set()
    generator = np.random.default_rng(1)
    x, label = generator.normal(size=(3, 3)), generator.normal(size=(4, 3))
    for count in (1, 2):
        with ex.Workers(count) as workers:
            for _ in range(6):
                module = T.Module(loss=T.MeanSquaredError(), optimizer=T.SGD(0.1), dtype="float64", samples="last")
                module.add_node(T.Linear("hidden", 3, 6, samples="last"))
                module.add_node(ex.tanh)
                module.add_node(T.Linear("scores", 6, 4, samples="last"))
                module.attach()
                with ex.parallelize(module, workers, shards=2):
                    losses = [module.train_on(x, label) for _ in range(4)]
                reached.add((*losses, *[held.array.tobytes() for held in module.parameters.values()]))
    assert len(reached) == 1
