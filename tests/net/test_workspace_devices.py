"""Workspaces with blobs on devices: nets that read them run there, and store their results there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.support.accelerator import accelerator
from tests.support.refusals import refused

DEVICES = [accelerator.name, pytest.param("cuda", marks=pytest.mark.gpu)]
X = np.arange(-3, 3, dtype=np.float32).reshape(2, 3)


def copies() -> list[str]:
    """Return the copies to and from the accelerator since the last call."""
    entries = [entry for entry in accelerator.log if entry.startswith(("write", "read"))]
    accelerator.log.clear()
    return entries


def squashed() -> Any:
    """Return a net of two operators, from x to y to z."""
    net = ex.Net("squashed")
    net.input("x", (2, 3), "float32")
    net.Relu("x", "y")
    net.Tanh("y", "z")
    return net


@pytest.mark.spec("C-1", "C-11")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("way", ["fed there", "a tensor", "a net there"])
def test_nets_run_on_the_device_of_their_blobs_and_store_results_there(way: str, device: str) -> None:
    workspace, net = ex.Workspace(), squashed()
    if way == "fed there":
        workspace.feed_blob("x", X, device=device)
    else:
        workspace.feed_blob("x", ex.tensor(X, device=device) if way == "a tensor" else X)
    if way == "a net there":
        net.to_device(device)
    workspace.create_net(net)
    workspace.run_net("squashed", times=2)
    for name, expected in (("x", X), ("y", np.maximum(X, 0)), ("z", np.tanh(np.maximum(X, 0)))):
        value = workspace.blob(name).value()
        if name != "x" or way != "a net there":
            assert value.device is ex.device(device)
        assert isinstance(workspace.fetch_blob(name), np.ndarray)
        np.testing.assert_allclose(workspace.fetch_blob(name), expected, rtol=1e-6)
        np.testing.assert_array_equal(workspace.blob(name).get(np.ndarray), workspace.fetch_blob(name))


@pytest.mark.spec("C-1", "C-11")
def test_blobs_pass_between_nets_without_a_copy() -> None:
    """Only the input and fetched results are copied; single operators stay on the device, too."""
    workspace = ex.Workspace()
    copies()
    workspace.feed_blob("x", X, device="accelerator")
    after = ex.Net("after")
    after.input("z", (2, 3), "float32")
    after.Sigmoid("z", "u")
    assert copies() == [f"write {X.nbytes}"]
    workspace.run_net_once(squashed())
    workspace.run_net_once(after)
    workspace.run_operator_once("Tanh", "u", "v")
    assert copies() == []
    np.testing.assert_allclose(
        workspace.fetch_blob("v"), np.tanh(1 / (1 + np.exp(-np.tanh(np.maximum(X, 0))))), rtol=1e-6
    )
    assert copies() == [f"read {X.nbytes}"]


@pytest.mark.spec("C-1", "C-5", "C-9", "C-11")
@pytest.mark.parametrize("device", DEVICES)
def test_parameters_in_a_workspace_are_trained_on_a_device(device: str) -> None:
    """Forward, named gradients and update are one net, which overwrites the parameter; batches come from the CPU."""
    results = {}
    for place in ("cpu", device):
        workspace, net = ex.Workspace(), ex.Net("step")
        net.input("x", (2, 3), "float32")
        net.input("target", (2, 2), "float32")
        net.input("w", (3, 2), "float32")
        net.AveragedLoss(net.SquaredL2Distance((net.MatMul(("x", "w"), "y"), "target"), "distance"), "loss")
        gradient = net.add_gradient_operators(["loss"])["w"]
        net.ConstantFill([], "one", shape=(1,), value=1.0)
        net.ConstantFill([], "rate", shape=(1,), value=-0.1)
        net.WeightedSum(["w", "one", gradient, "rate"], "w")
        workspace.feed_blob("w", np.ones((3, 2), np.float32), device=place)
        workspace.feed_blob("x", X)
        workspace.feed_blob("target", X[:, :2])
        workspace.create_net(net)
        workspace.run_net("step", times=3)
        results[place] = workspace.fetch_blob("w"), workspace.fetch_blob("loss")
        assert place == "cpu" or workspace.blob("w").value().device is ex.device(device)
    for here, there in zip(*results.values(), strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-5)
    assert np.abs(results["cpu"][0] - 1).max() > 0.1


@pytest.mark.spec("C-1", "C-5")
def test_blobs_on_a_device_are_saved_and_loaded(tmp_path: Path) -> None:
    """Operators on blobs receive NumPy arrays, and loaded blobs are on the CPU."""
    workspace = ex.Workspace()
    workspace.feed_blob("x", X, device="accelerator")
    net = ex.Net("store")
    net.input("x", (2, 3), "float32")
    net.Relu("x", "y")
    net.Save(["y"], [], db=str(tmp_path / "blobs.npz"))
    workspace.run_net_once(net)
    other = ex.Workspace()
    other.run_operator_once("Load", [], ["y"], db=str(tmp_path / "blobs.npz"))
    np.testing.assert_array_equal(other.fetch_blob("y"), np.maximum(X, 0))


@pytest.mark.spec("C-11")
def test_an_invalid_device_raises_an_error_before_the_blob_changes() -> None:
    workspace = ex.Workspace()
    workspace.feed_blob("x", X)
    with pytest.raises(ex.UnknownNameError, match="accelerater"):
        workspace.feed_blob("x", X * 2, device="accelerater")
    with pytest.raises(ex.UnknownNameError, match="accelerater"):
        workspace.feed_blob("new", X, device="accelerater")
    assert workspace.blobs() == ["x"]
    with refused(ex.OperandError, "device must be a device or its name", "feed_blob('x') with 3"):
        workspace.feed_blob("x", X * 2, device=3)  # type: ignore[arg-type]
    np.testing.assert_array_equal(workspace.fetch_blob("x"), X)
    workspace.feed_blob("x", ex.tensor(X * 2))
    np.testing.assert_array_equal(workspace.fetch_blob("x"), X * 2)
