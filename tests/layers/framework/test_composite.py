"""Composites in extreme cases: stability, width, depth, and user-defined element types and devices."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest

import explorer as ex
from explorer import layers
from explorer.layers import InConnect, InternalConnect, OutConnect, Sublayer, Topology
from tests.support.refusals import refused

BOTH = [layers.PUpdate, layers.PFeedbackOutput]


class CrossEntropy(layers.Composite):
    """Softmax followed by the loss, as declared by a user without a stable variant."""

    topology: ClassVar[Topology] = Topology(
        Sublayer("probability", layers.Softmax),
        Sublayer("loss", layers.NLLLoss),
        InConnect("input", "probability", "input"),
        InConnect("truth", "loss", "weight"),
        InternalConnect("probability", "output", "loss", "input"),
        OutConnect("loss", "output", "output"),
    )


@pytest.mark.spec("P-12", headline=True)
@pytest.mark.spec("M-E7", "M-L2")
def test_layers_are_as_stable_as_plain_functions() -> None:
    """Compose softmax and loss from layers; values and gradients stay finite and correct at ±10⁴."""
    x, truth = np.array([[1e4, -1e4, 0.0], [5.0, 5.0, -1e4]]), np.eye(3)[[1, 0]]
    expected = np.array([[0.5, -0.5, 0.0], [-0.25, 0.25, 0.0]])
    whole = CrossEntropy("c", policies=BOTH, train=True)
    value, gradient = ex.evaluate((whole(x, truth), whole.feed_backward(1.0)["input"]))
    np.testing.assert_allclose(value, (2e4 + np.log(2)) / 2)
    np.testing.assert_allclose(gradient, expected, atol=1e-12)
    first, second = layers.Softmax("p", policies=BOTH, train=True), layers.NLLLoss("l", policies=BOTH, train=True)
    loss = second(first(x), truth)
    value, gradient = ex.evaluate((loss, first.feed_backward(second.feed_backward(1.0)["input"])))
    np.testing.assert_allclose(value, (2e4 + np.log(2)) / 2)
    np.testing.assert_allclose(gradient, expected, atol=1e-12)


def chain(length: int) -> layers.Composite:
    """Return a chain of biases of 1."""
    clauses: list[Any] = [InConnect("input", "s0", "input"), OutConnect(f"s{length - 1}", "output", "output")]
    clauses += [Sublayer(f"s{index}", layers.Bias) for index in range(length)]
    clauses += [InternalConnect(f"s{index}", "output", f"s{index + 1}", "input") for index in range(length - 1)]

    class Chain(layers.Composite):
        topology = Topology(*clauses)

        def arguments(self) -> Mapping[str, Mapping[str, Any]]:
            return {f"s{index}": {"features": 2} for index in range(length)}

    return Chain("chain", policies=BOTH, train=True)


@pytest.mark.spec("M-L13")
@pytest.mark.parametrize("before", [(), ("s0",), ("s1",), ("s2",), ("s0", "s2"), ("s0", "s1", "s2", "s3")])
def test_gradients_reach_every_updating_sublayer(before: tuple[str, ...]) -> None:
    """Any of four sublayers may update; each one after the first of them feeds back, even without parameters."""
    kinds = (layers.Bias, layers.Tanh, layers.Bias, layers.Sigmoid)
    names = ("s0", "s1", "s2", "s3")

    class Mixed(layers.Composite):
        topology = Topology(
            InConnect("input", "s0", "input"),
            *[Sublayer(name, kind) for name, kind in zip(names, kinds, strict=True)],
            *[InternalConnect(one, "output", two, "input") for one, two in itertools.pairwise(names)],
            OutConnect("s3", "output", "output"),
        )

        def arguments(self) -> Mapping[str, Mapping[str, Any]]:
            return {"s0": {"features": 2}, "s2": {"features": 2}}

    chosen = [layers.Sub(name, layers.PUpdate) for name in before]
    layer = Mixed("m", policies=[*chosen, layers.ParameterPolicy.dtype(np.float64)], train=True)
    layer.init(layers.Initializer(filler=layers.Uniform(-1.0, 1.0), seed=1))
    updating = [name for name in ("s0", "s2") if name in before]
    first = names.index(updating[0]) if updating else len(names)
    assert [each.sublayer for each in layer.feedback if each.needed] == list(names[first + 1 :])
    x = np.array([0.3, -0.7])
    layer(x)
    layer.feed_backward(np.ones(2))
    collector = layers.GradCollector()
    layer.grad_collect(collector)
    results = {parameter.name: ex.evaluate(gradient) for parameter, gradient in collector}
    held = layer.save_weights()
    assert list(results) == [f"m/{name}/parameter" for name in updating]
    inner = np.tanh(x + held["m/s0/parameter"])
    y = 1 / (1 + np.exp(-(inner + held["m/s2/parameter"])))
    expected = {"m/s2/parameter": y * (1 - y), "m/s0/parameter": y * (1 - y) * (1 - inner**2)}
    for name, gradient in results.items():
        np.testing.assert_allclose(gradient, expected[name], rtol=1e-12)


def nested(depth: int) -> layers.Composite:
    """Return one bias of 1 nested in many composites."""
    kind: type[layers.Layer] = layers.Bias
    given: dict[str, Any] = {"features": 2}
    for _ in range(depth):
        clauses = Sublayer("k", kind), InConnect("input", "k", "input"), OutConnect("k", "output", "output")
        body = {"topology": Topology(*clauses), "arguments": lambda self, held=given: {"k": held}}
        kind, given = type("Nested", (layers.Composite,), body), {}
    value = kind("nested", policies=BOTH, train=True)
    assert isinstance(value, layers.Composite)
    return value


@pytest.mark.parametrize(("make", "size", "added"), [(chain, 1000, 1000), (nested, 60, 1)])
def test_composites_may_be_wide_and_deep(make: Any, size: int, added: int) -> None:
    """A composite of 1000 sublayers, and one nested sixty times, is created, fed forward and backward, and
    evaluated."""
    layer = make(size)
    layer.init(layers.Initializer(filler=layers.Constant(1.0)))
    y = layer(np.zeros(2, np.float32))
    gradient = layer.feed_backward(np.ones(2))
    collector = layers.GradCollector()
    layer.grad_collect(collector)
    value, slope, *slopes = ex.evaluate([y, gradient, *[each for _, each in collector]])
    assert value.tolist() == [added, added]
    assert slope.tolist() == [1, 1]
    assert len(slopes) == added
    assert all(each.tolist() == [1, 1] for each in slopes)


class Eighths(ex.ElementType):
    """Numbers in steps of 1/8."""

    storage = np.int16

    def decode(self, stored: Any) -> Any:
        return stored / 8

    def encode(self, numbers: Any) -> Any:
        return np.round(numbers * 8)


@pytest.mark.spec("M-L14", "M-D10")
def test_parameters_may_have_any_element_type_and_device() -> None:
    """A policy selects them: NumPy dtypes under any name, or user-defined types."""
    eighths = Eighths("layers_eighths")
    layer = layers.Linear("l", 2, 1, policies=[*BOTH, layers.ParameterPolicy.dtype(eighths.dtype)], train=True)
    layer.init(layers.Initializer(filler=layers.Constant(0.3)))
    y = layer(ex.tensor(eighths.array([1.0, 2.0])))
    assert y.dtype == eighths.dtype
    result, slope = ex.evaluate((y, layer.feed_backward([1.0])))
    assert eighths.read(result).tolist() == [1.0]
    assert eighths.read(slope).tolist() == [0.25, 0.25]
    layer.load_weights({name: np.ones(array.shape) for name, array in layer.save_weights().items()})
    assert eighths.read(layer.save_weights()["l/bias/parameter"]).tolist() == [1.0]
    layer.load_weights(layer.save_weights())
    for name in (np.float64, "float64", np.dtype(np.float64)):
        double = layers.Bias("b", 2, policies=[layers.ParameterPolicy.dtype(name)])
        double.init(layers.Initializer(filler=layers.Constant(0.3)))
        assert double(np.ones(2)).dtype == np.float64
    with pytest.raises(ex.DeclarationError, match="'floot' not understood"):
        layers.ParameterPolicy.dtype("floot")
    toy = ex.Device("layers_toy")
    placed = layers.Bias("b", 2, policies=[layers.ParameterPolicy.device(toy)])
    placed.init(layers.Initializer(filler=layers.Constant(0.5)))
    assert placed["parameter"]().device is toy
    assert placed.save_weights()["b/parameter"].tolist() == [0.5, 0.5]
    with refused(ex.OperandError, "device"):
        placed(np.ones(2, np.float32))
