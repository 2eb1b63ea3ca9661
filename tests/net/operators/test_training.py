"""Operators with a training mode: Dropout, and SpatialBN with batch statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.types.tensor_type import Array
from tests.support.refusals import refused

RNG = np.random.default_rng(5)


def _dropout(ratio: float = 0.4, in_place: bool = False) -> ex.Net:
    net = ex.Net("training")
    net.input("x", (50, 40), "float64")
    net.input("step", (), "int64")
    net.Dropout(["x", "step"], ["x" if in_place else "y", "mask"], ratio=ratio, is_test=False, seed=3)
    return net


@pytest.mark.spec("C-5")
def test_dropout_drops_a_fraction_and_scales_the_rest() -> None:
    """Each step drops other elements, a repeated step the same ones, and two dropouts of one net differ."""
    net = _dropout()
    net.Dropout(["x", "step"], ["z", "z_mask"], ratio=0.4, is_test=False, seed=3)
    net.set_outputs(["y", "mask", "z_mask"])
    x = RNG.normal(size=(50, 40))
    first, again, second = (net.run(x, np.int64(step)) for step in (0, 0, 1))
    np.testing.assert_array_equal(first["mask"], again["mask"])
    assert (first["mask"] != second["mask"]).any()
    assert (first["mask"] != first["z_mask"]).any()
    assert first["mask"].dtype == np.bool_
    assert abs(first["mask"].mean() - 0.6) < 0.05
    np.testing.assert_allclose(first["y"], np.where(first["mask"], x / 0.6, 0), rtol=1e-12)


@pytest.mark.spec("C-5", "C-9")
@pytest.mark.parametrize("in_place", [False, True])
def test_the_gradient_of_dropout_uses_the_same_mask(in_place: bool) -> None:
    """The mask suffices even if the result has overwritten the operand."""
    net = _dropout(in_place=in_place)
    y = "x" if in_place else "y"
    net.AveragedLoss(y, "loss")
    gradients = net.add_gradient_operators(["loss"])
    net.set_outputs([gradients["x"], "mask"])
    results = net.run(RNG.normal(size=(50, 40)), np.int64(7))
    np.testing.assert_allclose(results[gradients["x"]], results["mask"] / (0.6 * 2000), rtol=1e-12)


@pytest.mark.spec("C-5")
def test_errors_of_dropout_contain_the_requirements_of_training() -> None:
    x, step = np.zeros((2, 3)), np.int64(0)

    def run(outputs: Any, *inputs: Any, **arguments: Any) -> None:
        net = ex.Net("wrong")
        names = [net.input(f"x{at}", np.shape(value), np.asarray(value).dtype) for at, value in enumerate(inputs)]
        net.Dropout(names, outputs, **arguments)
        net.set_outputs([outputs] if isinstance(outputs, str) else outputs)
        net.run(*inputs)

    with refused(ex.OperandError, "no step index and 1 output", 'net.Dropout(["x", "iter"]'):
        run("y", x, is_test=False)
    with refused(ex.OperandError, "a mask with is_test=True", "is_test=False"):
        run(["y", "mask"], x)
    with refused(ex.OperandError, "ratio=1.0", "less than 1"):
        run(["y", "mask"], x, step, is_test=False, ratio=1.0)
    with refused(ex.OperandError, "random_uniform_at of scalar float64"):
        run(["y", "mask"], x, 0.5, is_test=False)


def _normalization(**arguments: Any) -> ex.Net:
    net = ex.Net("normalized")
    net.input("x", (4, 3, 2, 5), "float64")
    for name in ("scale", "bias", "mean", "var"):
        net.input(name, (3,), "float64")
    outputs = ["y", "mean", "var", "batch_mean", "inv_std"]
    net.SpatialBN(["x", "scale", "bias", "mean", "var"], outputs, is_test=False, epsilon=1e-3, **arguments)
    return net


def _values() -> list[Array]:
    return [RNG.normal(2, 3, (4, 3, 2, 5)), *RNG.uniform(0.5, 2, (4, 3))]


@pytest.mark.spec("C-5")
def test_spatial_bn_normalizes_by_the_batch_and_updates_the_statistics() -> None:
    net = _normalization(momentum=0.8)
    net.set_outputs(["y", "mean", "var", "batch_mean", "inv_std"])
    x, scale, bias, mean, var = _values()
    results = net.run(x, scale, bias, mean, var)
    axes, column = (0, 2, 3), (1, 3, 1, 1)
    expected, variance = x.mean(axes), x.var(axes)
    inverse = 1 / np.sqrt(variance + 1e-3)
    y = (x - expected.reshape(column)) * (inverse * scale).reshape(column) + bias.reshape(column)
    np.testing.assert_allclose(results["y"], y, rtol=1e-10)
    np.testing.assert_allclose(results["mean"], 0.8 * mean + 0.2 * expected, rtol=1e-10)
    np.testing.assert_allclose(results["var"], 0.8 * var + 0.2 * x.var(axes, ddof=1), rtol=1e-10)
    np.testing.assert_allclose(results["batch_mean"], expected, rtol=1e-10)
    np.testing.assert_allclose(results["inv_std"], inverse, rtol=1e-10)


@pytest.mark.spec("C-5", "C-9")
def test_the_gradient_of_spatial_bn_includes_the_statistics() -> None:
    """It equals differences of the loss, although the stored statistics are overwritten before."""
    net = _normalization()
    net.Mul(["y", "y"], "squares")
    net.Mul(["squares", "y"], "cubes")
    net.AveragedLoss("cubes", "loss")
    gradients = net.add_gradient_operators(["loss"])
    assert set(gradients) >= {"x", "scale", "bias"}
    net.set_outputs(["loss", gradients["x"], gradients["scale"], gradients["bias"]])
    fed = _values()
    results = net.run(*fed)
    for at, name in enumerate(("x", "scale", "bias")):
        for index in np.ndindex(*fed[at].shape[:2]):
            index = (*index, *[1] * (fed[at].ndim - len(index)))
            step = np.zeros_like(fed[at])
            step[index] = 1e-5
            ends = [net.run(*fed[:at], fed[at] + sign * step, *fed[at + 1 :])["loss"] for sign in (1, -1)]
            difference = (ends[0] - ends[1]) / 2e-5
            assert results[gradients[name]][index] == pytest.approx(difference, rel=1e-4, abs=1e-7)


@pytest.mark.spec("C-5")
def test_errors_of_spatial_bn_contain_the_requirements_of_training() -> None:
    net = ex.Net("wrong")
    for name, shape in (("x", (1, 3)), ("scale", (3,)), ("bias", (3,)), ("mean", (3,)), ("var", (3,))):
        net.input(name, shape)
    fed = [np.ones(shape, np.float32) for shape in ((1, 3), *[(3,)] * 4)]
    blobs = ["x", "scale", "bias", "mean", "var"]
    net.SpatialBN(blobs, "y", is_test=False)
    net.set_outputs(["y"])
    with refused(ex.OperandError, "1 output with is_test=False", "five in training"):
        net.run(*fed)
    net = ex.Net("small")
    for name, value in zip(blobs, fed, strict=True):
        net.input(name, value.shape)
    net.SpatialBN(blobs, ["y", "mean", "var", "m", "v"], is_test=False)
    net.set_outputs(["y"])
    with refused(ex.OperandError, "1 element in a channel", "a larger batch"):
        net.run(*fed)


@pytest.mark.spec("C-5")
def test_a_net_with_both_is_trained_and_then_tested() -> None:
    """Inference reads the statistics of training; the step is a blob that Iter counts."""
    workspace = ex.Workspace()
    train = ex.Net("train")
    train.input("x", (64, 3), "float64")
    train.input("step", (), "int64")
    for name in ("scale", "bias", "mean", "var"):
        train.input(name, (3,), "float64")
    train.Iter("step", "step")
    train.SpatialBN(["x", "scale", "bias", "mean", "var"], ["h", "mean", "var", "m", "v"], is_test=False)
    train.Dropout(["h", "step"], ["y", "mask"], is_test=False)
    for name, value in {"x": RNG.normal(4, 2, (64, 3)), "step": np.int64(0), "scale": np.ones(3)}.items():
        workspace.feed_blob(name, value)
    for name, value in {"bias": np.zeros(3), "mean": np.zeros(3), "var": np.ones(3)}.items():
        workspace.feed_blob(name, value)
    workspace.create_net(train)
    workspace.run_net("train", 60)
    assert workspace.fetch_blob("step") == 60
    test = ex.Net("test")
    test.input("x", (64, 3), "float64")
    for name in ("scale", "bias", "mean", "var"):
        test.input(name, (3,), "float64")
    test.SpatialBN(["x", "scale", "bias", "mean", "var"], "h")
    test.Dropout("h", "y")
    workspace.run_net_once(test)
    y = workspace.fetch_blob("y")
    np.testing.assert_allclose([y.mean(0), y.std(0)], [[0] * 3, [1] * 3], atol=0.02)
