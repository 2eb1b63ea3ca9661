"""Composites of any topology, with clauses in any order, equal the expression written by hand."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer as ex
from explorer import layers
from explorer.layers import InConnect, InternalConnect, OutConnect, Sublayer, Topology
from tests.support.refusals import refused

WIDTH = 3
KINDS: dict[str, tuple[type[layers.Layer], Callable[..., Any]]] = {
    "add": (layers.Add, lambda own, left, right: left + right),
    "multiply": (layers.Multiply, lambda own, left, right: left * right),
    "subtract": (layers.Subtract, lambda own, left, right: left - right),
    "tanh": (layers.Tanh, lambda own, x: ex.tanh(x)),
    "sin": (layers.Sin, lambda own, x: ex.sin(x)),
    "weight": (layers.Weight, lambda own, x: x @ own),
    "bias": (layers.Bias, lambda own, x: x + own),
    "source": (layers.ParamSource, lambda own: own),
}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "weight": {"in_features": WIDTH, "out_features": WIDTH},
    "bias": {"features": WIDTH},
    "source": {"shape": (WIDTH,)},
}


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[tuple[str, list[int]]], list[int]]:
    """Draw steps (operation, values read) over the inputs 0 and 1, and the values that are outputs."""
    steps: list[tuple[str, list[int]]] = []
    for index in range(draw(st.integers(1, 10))):
        kind = draw(st.sampled_from(sorted(KINDS)))
        reads = [draw(st.integers(0, index + 1)) for _ in KINDS[kind][0].inputs]
        steps.append((kind, reads))
    read = {value for _, reads in steps for value in reads}
    loose = [index + 2 for index in range(len(steps)) if index + 2 not in read]
    return steps, loose


def clauses(steps: list[tuple[str, list[int]]], outputs: list[int]) -> list[Any]:
    results: list[Any] = []
    for index, (kind, reads) in enumerate(steps):
        name, layer = f"s{index}", KINDS[kind][0]
        results.append(Sublayer(name, layer))
        for port, value in zip(layer.inputs, reads, strict=True):
            if value < 2:
                results.append(InConnect(f"x{value}", name, port))
            else:
                results.append(InternalConnect(f"s{value - 2}", "output", name, port))
    return results + [OutConnect(f"s{value - 2}", "output", f"y{value}") for value in outputs]


def make(topology: Topology, steps: list[tuple[str, list[int]]]) -> layers.Composite:
    class Made(layers.Composite):
        def declare(self) -> Topology:
            return topology

        def arguments(self) -> Mapping[str, Mapping[str, Any]]:
            return {f"s{i}": ARGUMENTS[kind] for i, (kind, _) in enumerate(steps) if kind in ARGUMENTS}

    chosen = [layers.PUpdate, layers.PFeedbackOutput, layers.ParameterPolicy.dtype(np.float64)]
    layer = Made("made", policies=chosen, train=True)
    layer.init(layers.Initializer(filler=layers.Gaussian(0, 0.5)))
    return layer


@pytest.mark.spec("M-L10", "M-L4", headline=True)
@settings(max_examples=40)
@given(program=programs(), seed=st.integers(0, 1000))
def test_shuffled_clauses_equal_the_expression_written_by_hand(
    program: tuple[list[tuple[str, list[int]]], list[int]], seed: int
) -> None:
    """Compose a layer from clauses in any order; values and gradients equal the hand-written expression."""
    steps, outputs = program
    generator, numbers = random.Random(seed), np.random.default_rng(seed)
    written = clauses(steps, outputs)
    generator.shuffle(written)
    layer = make(Topology(*written), steps)
    inputs = {port: ex.tensor(numbers.normal(size=(2, WIDTH))) for port in ("x0", "x1")}
    seeds = {port: numbers.normal(size=(2, WIDTH)) for port in layer.outputs}

    values: list[Any] = [*inputs.values()]
    parameters: dict[str, Any] = {}
    for index, (kind, reads) in enumerate(steps):
        own = None
        if kind in ARGUMENTS:
            name = f"s{index}" if kind == "source" else f"s{index}/parameter"
            own = parameters[f"made/{name}"] = layer.parameters()[name].value
        values.append(KINDS[kind][1](own, *[values[value] for value in reads]))
    expected = {f"y{value}": values[value] for value in outputs}
    # a source has its parameter's shape, and all others have a row for each sample
    seeds = {port: seed_[0] if expected[port].ndim == 1 else seed_ for port, seed_ in seeds.items()}
    loss = sum(((expected[port] * seeds[port]).sum() for port in seeds), start=ex.tensor(0.0))
    slopes = ex.grad(loss, {**inputs, **parameters})

    y = layer({port: inputs[port] for port in layer.inputs})
    result = {layer.outputs[0]: y} if isinstance(y, ex.Expr) else dict(y)
    back = layer.feed_backward(seeds)
    gradients = {layer.inputs[0]: back} if isinstance(back, ex.Expr) else dict(back)
    collector = layers.GradCollector()
    layer.grad_collect(collector)
    layer.neutral_invariant()
    gradients |= {parameter.name: gradient for parameter, gradient in collector}
    assert set(gradients) == {*layer.inputs, *parameters}
    for port in expected:
        np.testing.assert_allclose(*ex.evaluate((result[port], expected[port])), rtol=1e-12, atol=1e-12)
    for name, gradient in gradients.items():
        np.testing.assert_allclose(*ex.evaluate((gradient, slopes[name])), rtol=1e-10, atol=1e-10)


def test_the_order_of_clauses_does_not_distinguish_topologies() -> None:
    """Topologies with the same clauses are equal, and their layers share recorded functions."""
    written = clauses([("tanh", [0]), ("add", [2, 1])], [3])
    first, second = Topology(*written), Topology(*reversed(written))
    assert first == second
    assert hash(first) == hash(second)
    assert first.order == second.order == ("s0", "s1")
    assert eval(repr(first), {**vars(layers)}) == first


@pytest.mark.spec("M-L10")
@pytest.mark.parametrize(
    "wrong",
    [
        InConnect("b", "t", "output"),
        InternalConnect("t", "input", "t", "input"),
        InternalConnect("t", "output", "t", "output"),
        OutConnect("t", "input", "z"),
    ],
)
def test_in_clauses_start_at_an_input_and_out_clauses_end_at_an_output(wrong: Any) -> None:
    """A port of the other side raises an error in the topology, which lists the right ones."""
    parts = [Sublayer("t", layers.Tanh), InConnect("a", "t", "input"), OutConnect("t", "output", "y")]
    with pytest.raises(ex.UnknownNameError, match=r"(input port of Tanh .* 'output')|(output port of Tanh .* 'input')"):
        Topology(*parts, wrong)


def test_a_class_determines_the_order_of_its_ports() -> None:
    """A composite's class declares it, independent of the clauses; other names raise an error."""
    parts = [Sublayer("s", layers.Subtract), OutConnect("s", "output", "output")]
    parts += [InConnect("b", "s", "right"), InConnect("a", "s", "left")]

    class Ordered(layers.Composite):
        inputs = ("a", "b")
        topology = Topology(*parts)

    assert Ordered.inputs == Ordered("o").inputs == ("a", "b")
    assert ex.evaluate(Ordered("o")(np.array(5.0), np.array(3.0))) == 2
    with pytest.raises(ex.DeclarationError, match=r"inputs of the composite Wrong: a, c\n.*topology: b, a"):

        class Wrong(layers.Composite):
            inputs = ("a", "c")
            topology = Topology(*parts)


def test_composites_can_be_nested_with_ports_known_after_construction() -> None:
    """An inner composite may choose its ports when it is constructed, so clauses are checked then."""

    class Chosen(layers.Composite):
        port: str

        def declare(self) -> Topology:
            return Topology(
                Sublayer("t", layers.Tanh), InConnect(self.port, "t", "input"), OutConnect("t", "output", "y")
            )

    class Outer(layers.Composite):
        port: str
        topology = Topology(Sublayer("c", Chosen), InConnect("x", "c", "x"), OutConnect("c", "y", "y"))

        def arguments(self) -> Mapping[str, Mapping[str, Any]]:
            return {"c": {"port": self.port}}

    assert ex.evaluate(Outer("o", "x")(np.array(0.0))) == 0
    with pytest.raises(ex.UnknownNameError, match=r"input port of Chosen\('o/c'\) in InConnect\('x', 'c', 'x'\) 'x'"):
        Outer("o", "z")


def test_a_sublayer_may_have_the_name_of_a_port() -> None:
    """A parameter's path is distinguished from the port."""

    class Scaled(layers.Composite):
        topology = Topology(
            Sublayer("scale", layers.ParamSource),
            Sublayer("product", layers.Multiply),
            InConnect("scale", "product", "left"),
            InternalConnect("scale", "output", "product", "right"),
            OutConnect("product", "output", "output"),
        )

        def arguments(self) -> Mapping[str, Mapping[str, Any]]:
            return {"scale": {"shape": ()}}

    layer = Scaled("s")
    layer.init(layers.Initializer({"s/scale": 3.0}))
    assert ex.evaluate(layer(scale=np.array(2.0))) == 6


def test_invalid_composites_raise_an_error() -> None:
    """Test one without a topology, with a forward, nested in itself, and with wrong arguments."""
    plain = Topology(Sublayer("t", layers.Tanh), InConnect("x", "t", "input"), OutConnect("t", "output", "y"))

    def composite(**body: Any) -> Any:
        return type("Made", (layers.Composite,), body)

    wrong: list[tuple[Callable[[], Any], str]] = [
        (lambda: layers.Composite("c"), "the composite Composite has no topology"),
        (lambda: composite(topology=[plain]), "must be a Topology"),
        (lambda: composite(declare=lambda self: None)("c"), r"declare\(\) of Made\('c'\) returned None"),
        (lambda: composite(topology=plain, forward=lambda self, x: x), "must not define forward"),
        (lambda: composite(topology=plain, arguments=lambda self: None)("c"), "must map names of sublayers"),
        (lambda: composite(topology=plain, arguments=lambda self: {"u": {}})("c"), "in its arguments 'u'"),
        (
            lambda: composite(topology=plain, arguments=lambda self: {"t": {"policies": ()}})("c"),
            r"arguments\(\) of Made\('c'\) with policies for 't'",
        ),
        (lambda: layers.Linear("l", 1, 1)["weight/other"], "sublayer of Weight.* 'other'"),
        (lambda: layers.Linear("l", 1, 1)["weight/parameter/other"], "sublayer of ParamSource.* 'other'"),
    ]
    for make_it, message in wrong:
        with pytest.raises(ex.ExplorerError, match=message):
            make_it()

    class Endless(layers.Composite):
        def declare(self) -> Topology:
            return Topology(Sublayer("e", Endless), InConnect("x", "e", "x"), OutConnect("e", "y", "y"))

    with refused(ex.DeclarationError, "composite"):
        Endless("e")
