"""Dropout in modules: masks from seed, name and step, gradients, inference, checkpoints, workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.support.refusals import refused

T = ex.train
GENERATOR = np.random.default_rng(0)
X, LABELS = GENERATOR.normal(size=(24, 12)), GENERATOR.integers(0, 5, 24)


def built(ratio: float = 0.4, samples: str = "first", optimizer: Any = None, seed: int = 0) -> Any:
    module = T.Module("m", loss=T.CrossEntropy(), optimizer=optimizer or T.Adam(0.01), dtype="float64", samples=samples)
    module.add_node(T.Linear("hidden", 12, 16, samples))
    module.add_node(ex.tanh)
    module.add_node(T.Dropout("drop", ratio, seed))
    module.add_node(T.Linear("scores", 16, 5, samples))
    module.attach()
    return module


def alone(ratio: float, seed: int = 0, name: str = "drop") -> Any:
    """Return a module whose only node is a dropout layer."""
    module = T.Module(loss=T.MeanSquaredError(), optimizer=T.SGD(0.1), dtype="float64")
    module.add_node(T.Dropout(name, ratio, seed))
    module.attach()
    return module


def weights(module: Any) -> dict[str, bytes]:
    return {name: held.array.tobytes() for name, held in module.parameters.items()}


@pytest.mark.spec("T-5")
def test_elements_are_dropped_at_random_and_the_others_scaled() -> None:
    """The fraction of zeros is the ratio, kept elements are divided by 1 − ratio, and inference drops nothing."""
    module, ones = alone(0.25), np.ones((200, 100))
    output = module.forward(ones)
    assert np.unique(output).tolist() == pytest.approx([0, 1 / 0.75])
    assert (output == 0).mean() == pytest.approx(0.25, abs=0.01)
    # No row or column has more dropped elements than others.
    for axis in (0, 1):
        assert (output == 0).mean(axis).std() < 0.05
    assert module.predict(ones).tobytes() == ones.tobytes()


@pytest.mark.spec("T-6")
def test_gradients_pass_through_kept_elements() -> None:
    """Forward and backward drop the same elements, for each forward call."""
    module, ones = alone(0.5), np.ones((6, 8))
    for _ in range(3):
        output = module.forward(ones)
        node = module.nodes["drop"]
        np.testing.assert_array_equal(node.backward(np.full((6, 8), 3.0)), output * 3)
        module.backward(ones)
        module.step()


@pytest.mark.spec("T-5")
def test_masks_depend_on_seed_name_and_step() -> None:
    ones = np.ones((8, 16))
    first = alone(0.5).forward(ones)
    assert alone(0.5).forward(ones).tobytes() == first.tobytes()
    assert alone(0.5, seed=1).forward(ones).tobytes() != first.tobytes()
    assert alone(0.5, name="other").forward(ones).tobytes() != first.tobytes()
    module = alone(0.5)
    outputs = []
    for step in range(3):
        module.optimizer.load_state({}, step)
        outputs.append(module.forward(ones).tobytes())
    assert outputs[0] == first.tobytes()
    assert len({*outputs}) == 3


@pytest.mark.spec("T-1")
@pytest.mark.parametrize("samples", ["first", "last"])
def test_one_plan_trains_like_node_by_node(samples: str) -> None:
    whole, apart = built(samples=samples), built(samples=samples)
    x = X if samples == "first" else X.T
    for _ in range(4):
        loss = whole.train_on(x, LABELS)
        apart.forward(x)
        assert apart.backward(LABELS) == pytest.approx(loss, rel=1e-12)
        apart.step()
    for name, held in whole.parameters.items():
        np.testing.assert_allclose(apart.parameters[name].array, held.array, rtol=1e-9)


@pytest.mark.spec("T-5")
def test_a_step_equals_a_net_with_the_mask_as_a_product() -> None:
    """Loss and gradients are compared."""
    module = built(0.3, optimizer=T.SGD(1.0))
    start = {name: held.array.copy() for name, held in module.parameters.items()}
    module.forward(X)
    mask = (module.nodes["drop"].last_output != 0) / 0.7
    held = {name: ex.tensor(value) for name, value in start.items()}
    hidden = ex.tanh(ex.tensor(X) @ held["hidden/weight"] + held["hidden/bias"]) * mask
    scores = hidden @ held["scores/weight"] + held["scores/bias"]
    loss = T.CrossEntropy().checked(scores, ex.tensor(LABELS))
    slopes = ex.evaluate(ex.grad(loss, [*held.values()]))
    assert module.train_on(X, LABELS) == pytest.approx(float(ex.evaluate(loss)), rel=1e-12)
    for (name, value), slope in zip(start.items(), slopes, strict=True):
        np.testing.assert_allclose(module.parameters[name].array, value - slope, rtol=1e-9, atol=1e-12)


@pytest.mark.spec("T-11", "C-17")
def test_restored_training_drops_the_same_elements(tmp_path: Path) -> None:
    """It continues bit for bit from the batch at which it was stopped."""
    whole, first, second = built(), built(), built()
    losses = [whole.train_on(X, LABELS) for _ in range(6)]
    for _ in range(3):
        first.train_on(X, LABELS)
    first.save(tmp_path / "m.npz")
    second.restore(tmp_path / "m.npz")
    assert [second.train_on(X, LABELS) for _ in range(3)] == losses[3:]
    assert weights(second) == weights(whole)
    for other in (built(0.5), built(seed=1)):
        with refused(ex.FileError, "the options of the layer drop", "own_settings=True"):
            other.restore(tmp_path / "m.npz")


@pytest.mark.spec("C-14")
@pytest.mark.xdist_group("dask")
@pytest.mark.parametrize("samples", ["first", "last"])
def test_workers_drop_the_same_elements(samples: str) -> None:
    """Two workers reach the weights of one, bit for bit, and those of local training within rounding."""
    x = X if samples == "first" else X.T
    here = built(samples=samples)
    losses = [here.train_on(x, LABELS) for _ in range(5)]
    bits = []
    for count in (1, 2):
        module = built(samples=samples)
        with ex.parallelize(module, count, processes=False, shards=3):
            assert [module.train_on(x, LABELS) for _ in range(5)] == pytest.approx(losses, rel=1e-10)
        bits.append(weights(module))
        for name, held in here.parameters.items():
            np.testing.assert_allclose(module.parameters[name].array, held.array, rtol=1e-8, atol=1e-12)
    assert bits[0] == bits[1]


@pytest.mark.spec("C-5")
def test_a_net_and_a_module_drop_the_same_elements() -> None:
    """The operator of nets has the same mask if its blob has the layer's name."""
    net = ex.Net("n")
    net.input("x", (4, 6), "float64")
    net.input("step", (), "int64")
    net.Dropout(["x", "step"], ["drop", "mask"], ratio=0.4, is_test=False, seed=3)
    net.set_outputs(["drop"])
    module, ones = alone(0.4, 3), np.ones((4, 6))
    for step in range(3):
        module.optimizer.load_state({}, step)
        assert module.forward(ones).tobytes() == net.run(ones, np.int64(step)).tobytes()


def test_a_ratio_of_zero_drops_nothing() -> None:
    module, plain = built(0.0), built(0.0)
    assert module.train_on(X, LABELS) == plain.train_on(X, LABELS)
    assert alone(0.0).forward(X).tobytes() == X.tobytes()


def test_a_mask_is_part_of_the_plan_of_a_step() -> None:
    """The random numbers are in the layer's box, and their counter is the step number."""
    recording = built().plan(X, LABELS).recording
    assert "drop" in [scope.name for scope in recording.scopes]
    assert "random_uniform_at" in recording.operations


@pytest.mark.parametrize("wrong", [{"ratio": 1.0}, {"ratio": -0.1}, {"ratio": True}, {"seed": -1}, {"seed": 0.5}])
def test_options_of_a_dropout_are_checked(wrong: dict[str, Any]) -> None:
    rule = "seed must be an integer of 0 or more" if "seed" in wrong else "ratio must be at least 0 and less than 1"
    with refused(ex.DeclarationError, rule):
        T.Dropout("drop", **wrong)


def test_a_dropout_inside_another_layer_raises_an_error() -> None:
    from explorer.layers import Composite, InConnect, OutConnect, Sublayer, Topology

    class Block(Composite):
        topology = Topology(
            Sublayer("drop", T.Dropout), InConnect("input", "drop", "input"), OutConnect("drop", "output", "output")
        )

    module = T.Module(loss=T.MeanSquaredError(), optimizer=T.SGD(0.1))
    with refused(ex.DeclarationError, "the Dropout 'drop' inside the Block 'block'", "a separate node"):
        module.add_node(Block("block"))


@pytest.mark.spec("T-5")
def test_a_ratio_may_be_a_numpy_number() -> None:
    """A float64 ratio made the output float64, which was rejected with an error about the input."""
    for ratio in (np.float64(0.5), np.float32(0.5)):
        layer = T.Dropout("drop", ratio)
        assert type(layer.ratio) is float
        module = T.Module(loss=T.MeanSquaredError(), optimizer=T.SGD(0.1))
        module.add_node(T.Linear("l", 2, 2))
        module.add_node(layer)
        module.attach()
        module.train_on(np.ones((3, 2)), np.ones((3, 2)))
        assert module.last_output.dtype == np.float32
