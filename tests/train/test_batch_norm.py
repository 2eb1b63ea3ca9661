"""Batch normalization in modules: PyTorch's steps and inference, checkpoints, unsupported uses, and workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.support.refusals import refused

T = ex.train
REFERENCE = np.load(Path(__file__).parents[2] / "assets" / "batch_norm.npz")
NAMES = {
    "1.weight": "norm/scale",
    "1.bias": "norm/shift",
    "1.running_mean": "norm/mean",
    "1.running_var": "norm/variance",
}


def rows(samples: str = "first", dtype: str = "float64") -> Any:
    module = T.Module("rows", loss=T.CrossEntropy(), optimizer=T.Momentum(0.2), dtype=dtype, samples=samples)
    module.add_node(T.Linear("first", 5, 4, samples))
    module.add_node(T.BatchNorm("norm", 4, samples=samples))
    module.add_node(ex.relu)
    module.add_node(T.Linear("last", 4, 3, samples))
    module.attach()
    return with_initial_weights(module, "rows", {"0": "first", "3": "last"})


def pictures(dtype: str = "float64") -> Any:
    module = T.Module("pictures", loss=T.CrossEntropy(), optimizer=T.Momentum(0.2), dtype=dtype)
    module.add_node(ex.layers.Conv2d("first", 2, 3, padding=1))
    module.add_node(T.BatchNorm("norm", 3, epsilon=1e-3, momentum=0.7))
    module.add_node(ex.relu)
    module.add_node(T.Linear("last", 48, 3))
    module.attach()
    return with_initial_weights(module, "pictures", {"0": "first", "4": "last"})


def with_initial_weights(module: Any, net: str, layers: dict[str, str]) -> Any:
    """Give a module torch's initial weights."""
    for key, value in expected(net, layers, 0).items():
        module.parameters[key].assign(value)
    return module


def expected(net: str, layers: dict[str, str], step: int) -> dict[str, np.ndarray]:
    """Return torch's weights and statistics after a step, with explorer's names and shapes."""
    values = {ours: REFERENCE[f"{net}/{theirs}"][step] for theirs, ours in NAMES.items()}
    for theirs, ours in layers.items():
        weight = REFERENCE[f"{net}/{theirs}.weight"][step]
        values[f"{ours}/weight"] = weight.T if weight.ndim == 2 else weight
        values[f"{ours}/bias"] = REFERENCE[f"{net}/{theirs}.bias"][step]
    return values


CASES = [(rows, "rows", {"0": "first", "3": "last"}), (pictures, "pictures", {"0": "first", "4": "last"})]


def check_equal_to_torch(module: Any, net: str, layers: dict[str, str], step: int, rtol: float = 1e-9) -> None:
    for key, value in expected(net, layers, step).items():
        np.testing.assert_allclose(module.parameters[key].array, value, rtol=rtol, atol=rtol * 0.1, err_msg=key)


@pytest.mark.spec("T-4", "T-5")
@pytest.mark.parametrize(("make", "net", "layers"), CASES)
@pytest.mark.parametrize("whole", [True, False])
def test_steps_and_statistics_equal_torch(make: Any, net: str, layers: Any, whole: bool) -> None:
    """Compare weights, statistics and losses of each step, in one plan and node by node, and inference afterwards."""
    module, inputs, labels = make(), REFERENCE[f"{net}/inputs"], REFERENCE[f"{net}/labels"]
    for step in range(4):
        if whole:
            loss = module.train_on(inputs[step], labels[step])
        else:
            module.forward(inputs[step])
            loss = module.backward(labels[step])
            module.step()
        assert loss == pytest.approx(REFERENCE[f"{net}/losses"][step], rel=1e-9)
        check_equal_to_torch(module, net, layers, step + 1)
    np.testing.assert_allclose(module.predict(inputs[0]), REFERENCE[f"{net}/inference"], rtol=1e-9)


@pytest.mark.spec("T-5")
@pytest.mark.parametrize(("make", "net", "layers"), CASES)
def test_single_precision_is_close_to_torch(make: Any, net: str, layers: Any) -> None:
    module = make(dtype="float32")
    for x, label in zip(REFERENCE[f"{net}/inputs"], REFERENCE[f"{net}/labels"], strict=True):
        module.train_on(x, label)
    np.testing.assert_allclose(module.predict(REFERENCE[f"{net}/inputs"][0]), REFERENCE[f"{net}/inference"], rtol=2e-3)


@pytest.mark.spec("T-8")
def test_the_batch_axis_may_be_last() -> None:
    module = rows("last")
    for step in range(4):
        module.train_on(REFERENCE["rows/inputs"][step].T, REFERENCE["rows/labels"][step])
    check_equal_to_torch(module, "rows", {"0": "first", "3": "last"}, 4)
    np.testing.assert_allclose(module.predict(REFERENCE["rows/inputs"][0].T), REFERENCE["rows/inference"].T, rtol=1e-9)


@pytest.mark.spec("T-11", "C-17")
def test_statistics_are_saved_in_the_checkpoint(tmp_path: Path) -> None:
    """A restored training continues bit for bit, with equal inference."""
    inputs, labels = REFERENCE["rows/inputs"], REFERENCE["rows/labels"]
    whole, first, second = rows(), rows(), rows()
    for step in range(4):
        whole.train_on(inputs[step], labels[step])
    first.train_on(inputs[0], labels[0])
    first.train_on(inputs[1], labels[1])
    first.save(tmp_path / "m.npz")
    second.restore(tmp_path / "m.npz")
    assert second.predict(inputs[3]).tobytes() == first.predict(inputs[3]).tobytes()
    for step in (2, 3):
        second.train_on(inputs[step], labels[step])
    for name, held in whole.parameters.items():
        assert held.array.tobytes() == second.parameters[name].array.tobytes(), name


@pytest.mark.spec("T-11")
def test_a_checkpoint_with_another_momentum_raises_an_error(tmp_path: Path) -> None:
    def made(momentum: float) -> Any:
        module = T.Module(loss=T.MeanSquaredError(), optimizer=T.SGD(0.1))
        module.add_node(T.BatchNorm("norm", 2, momentum=momentum))
        module.attach()
        return module

    made(0.9).save(tmp_path / "m.npz")
    with refused(ex.FileError, "'momentum': 0.9", "own_settings=True"):
        made(0.5).restore(tmp_path / "m.npz")
    made(0.5).restore(tmp_path / "m.npz", own_settings=True)


def test_a_failed_step_does_not_change_statistics() -> None:
    module, x, label = rows(), REFERENCE["rows/inputs"][0], REFERENCE["rows/labels"][0]
    before = {name: held.array.tobytes() for name, held in module.parameters.items()}
    module.forward(x)
    module.predict(x)
    with refused(ex.OperandError, "a label 7"):
        module.train_on(x, np.full(6, 7))
    assert {name: held.array.tobytes() for name, held in module.parameters.items()} == before
    module.train_on(x, label)
    changed = {name for name, held in module.parameters.items() if held.array.tobytes() != before[name]}
    # A constant added to all samples of a channel is removed again with their mean.
    assert changed >= {*before} - {"first/bias"}


def test_a_frozen_layer_keeps_updating_its_statistics() -> None:
    """As in torch, the optimizer's parameters are only scale and shift."""
    module = T.Module(loss=T.MeanSquaredError(), optimizer=T.SGD(0.1, groups=[T.ParameterGroup("norm", frozen=True)]))
    module.add_node(T.BatchNorm("norm", 2))
    module.add_node(T.Linear("l", 2, 1))
    module.attach()
    assert [*module.optimizer.parameters] == ["l/weight", "l/bias"]
    module.train_on(np.array([[1.0, 2.0], [3.0, 6.0]]), np.ones((2, 1)))
    held = {name: module.parameters[f"norm/{name}"].array.tolist() for name in ("scale", "shift", "mean", "variance")}
    assert (held["scale"], held["shift"]) == ([1.0, 1.0], [0.0, 0.0])
    np.testing.assert_allclose(held["mean"], [0.2, 0.4], rtol=1e-6)
    np.testing.assert_allclose(held["variance"], [1.1, 1.7], rtol=1e-6)


def test_statistics_are_shown_among_the_updates_of_a_step() -> None:
    module = rows()
    plan = module.plan(REFERENCE["rows/inputs"][0], REFERENCE["rows/labels"][0])
    assert "norm" in [scope.name for scope in plan.recording.scopes]
    assert len(plan.recording.roots) == 2 + 2 * 6 + 2, "output, loss, parameters and momenta, mean and variance"


@pytest.mark.spec("C-14")
@pytest.mark.xdist_group("dask")
def test_the_error_about_workers_names_the_layer() -> None:
    with refused(ex.StateError, "BatchNorm", "'norm'", "no layer may mix samples"):
        ex.parallelize(rows(), 2, processes=False)


def test_a_batch_norm_inside_another_layer_raises_an_error() -> None:
    from explorer.layers import Composite, InConnect, OutConnect, Sublayer, Topology

    class Block(Composite):
        topology = Topology(
            Sublayer("norm", T.BatchNorm), InConnect("input", "norm", "input"), OutConnect("norm", "output", "output")
        )

        def arguments(self) -> Any:
            return {"norm": {"channels": 2}}

    module = T.Module(loss=T.MeanSquaredError(), optimizer=T.SGD(0.1))
    with refused(ex.DeclarationError, "the BatchNorm 'norm' inside the Block 'block'", "a separate node"):
        module.add_node(Block("block"))


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: T.BatchNorm("n", 0), "channels must be an integer of 1 or more"),
        (lambda: T.BatchNorm("n", 2, momentum=1.5), "momentum must be a number from 0 to 1"),
        (lambda: T.BatchNorm("n", 2, epsilon=-1e-5), "epsilon must be finite, and 0 or more"),
        (lambda: T.BatchNorm("n", 2, samples="middle"), "samples"),
        (lambda: T.BatchNorm("n"), "channels"),
    ],
)
def test_options_of_a_batch_norm_are_checked(make: Any, rule: str) -> None:
    with refused(ex.ExplorerError, rule):
        make()


def test_mismatching_samples_raise_an_error() -> None:
    module = T.Module(loss=T.MeanSquaredError(), optimizer=T.SGD(0.1))
    module.add_node(T.BatchNorm("norm", 3))
    module.attach()
    for call in (module.predict, module.forward, lambda x: module.train_on(x, x)):
        with refused(ex.OperandError, "a BatchNorm of 3 channels", "BatchNorm(name, 2)"):
            call(np.ones((4, 2)))
    with refused(ex.OperandError, "1 element in a channel", "drop_last=True"):
        module.train_on(np.ones((1, 3)), np.ones((1, 3)))


@pytest.mark.spec("T-5")
def test_options_may_be_numpy_numbers_and_must_be_finite() -> None:
    for number in (np.float64(0.25), np.float32(0.25)):
        layer = T.BatchNorm("norm", 2, epsilon=number, momentum=number)
        module = T.Module(loss=T.MeanSquaredError(), optimizer=T.SGD(0.1))
        module.add_node(layer)
        module.add_node(T.Linear("l", 2, 2))
        module.attach()
        module.train_on(np.arange(6.0).reshape(3, 2), np.ones((3, 2)))
        assert layer.settings() == {"epsilon": 0.25, "momentum": 0.25}
        assert module.last_output.dtype == np.float32
    with refused(ex.DeclarationError, "epsilon=inf", "finite, and 0 or more"):
        T.BatchNorm("norm", 2, epsilon=np.inf)


@pytest.mark.spec("T-5")
def test_a_rejected_batch_does_not_take_over_its_input() -> None:
    """A batch of one sample was rejected after the first node had taken it over."""
    module = T.Module(loss=T.MeanSquaredError(), optimizer=T.SGD(0.1))
    module.add_node(T.Linear("l", 2, 2))
    module.add_node(T.BatchNorm("norm", 2))
    module.attach()
    x = ex.tensor(np.ones((1, 2), np.float32))
    for _ in range(2):
        with refused(ex.OperandError, "BatchNorm 'norm'", "at least two elements"):
            module.forward(x)
    assert module.nodes["l"].forward(x).shape == (1, 2)
