"""MetaNN's policies and topologies: rules M-L10 to M-L15."""

from __future__ import annotations

import pickle
import random
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest

import explorer as ex
from explorer import layers
from explorer.core.ir.function import Call
from explorer.core.ir.traversal import reachable
from explorer.layers import (
    GradPolicy,
    InConnect,
    InternalConnect,
    OutConnect,
    PFeedbackOutput,
    PNoUpdate,
    Policies,
    PUpdate,
    Sub,
    Sublayer,
    Topology,
)
from tests.support.refusals import refused

ONES = layers.Initializer(filler=layers.Constant(1.0))


def linear(*policies: Any, train: bool = True) -> layers.Linear:
    layer = layers.Linear("l", 2, 3, policies=policies, train=train)
    layer.init(ONES)
    return layer


def collected(layer: layers.Layer) -> dict[str, Any]:
    collector = layers.GradCollector()
    layer.grad_collect(collector)
    layer.neutral_invariant()
    return {parameter.name: gradient for parameter, gradient in collector}


@pytest.mark.spec("M-L11", headline=True)
def test_policies_have_defaults_and_conflicts_and_any_order() -> None:
    """Select policies by major and minor class, in any order; two values conflict, and unused policies are ignored."""
    defaults = layers.Tanh("t")
    assert (defaults.select(GradPolicy).update, defaults.select(GradPolicy).feedback_output) == (False, False)
    assert defaults.select(layers.ParameterPolicy).dtype == np.float32
    assert defaults.select(layers.ParameterPolicy).device is ex.cpu
    assert defaults.select(layers.PerceptronPolicy).bias_involved is True
    assert defaults.select(layers.DimensionPolicy).keep is False
    assert defaults.select(layers.DimensionPolicy).count == 1
    assert defaults.select(layers.RecurrentPolicy).through_time is True
    scale = layers.VarScale()
    assert (scale.distribution, scale.fan) == ("uniform", "avg")
    with pytest.raises(ex.DeclarationError, match=r"PerceptronPolicy\.activation must have a value"):
        layers.SingleLayerPerceptron("s", 2, 3)
    with pytest.raises(ex.DeclarationError, match=r"GradPolicy\.update = True and GradPolicy\.update = False of 'l'"):
        linear(PUpdate, PNoUpdate)
    with pytest.raises(ex.DeclarationError, match="two Sub"):
        linear(Sub("weight", PUpdate), Sub("weight", PNoUpdate))
    items = [PUpdate, layers.PKeepDim, layers.PDisableBptt, Sub("weight", PNoUpdate), PUpdate]
    generator = random.Random(0)
    for _ in range(5):
        generator.shuffle(items)
        layer = linear(*items)
        assert layer.updates() == {"bias/parameter"}


@pytest.mark.spec("M-L11", "M-L12")
def test_policies_are_selected_as_in_metann() -> None:
    """For {PUpdate, Sub(Tag1, PNoUpdate, Sub(Tag2))}: Tag3 has PUpdate; Tag1 and its Sub Tag2 have PNoUpdate."""
    held = Policies((PUpdate, Sub("Tag1", PNoUpdate, Sub("Tag2"))))
    assert held.of("Tag3").items() == {PUpdate}
    assert held.of("Tag1").items() == {PNoUpdate, Sub("Tag2")}
    assert held.of("Tag1").of("Tag2").items() == {PNoUpdate}


class ScalePolicy(layers.PolicyClass):
    """User-defined policies: a value, a type and a choice."""

    factor = layers.Minor(2.0, kind=float)
    element = layers.Minor(kind=type)
    rounding = layers.Minor("none", among=("none", "down"))


def scaled_by(factor: float) -> layers.Policy:
    """A parametrised policy."""
    return ScalePolicy.factor(factor)


class Scale(layers.Layer):
    """Layer that reads these policies."""

    offset: float = 0.0

    def forward(self, input: ex.Expr) -> ex.Expr:
        """Return factor · input + offset."""
        chosen = self.select(ScalePolicy)
        scaled = input * chosen.factor + self.offset
        return ex.floor(scaled) if chosen.rounding == "down" else scaled


class Twice(layers.Composite):
    """Two sublayers, with a constructor argument for one of them."""

    offset: float
    topology: ClassVar[Topology] = Topology(
        OutConnect("second", "output", "output"),
        InternalConnect("first", "output", "second", "input"),
        InConnect("input", "first", "input"),
        Sublayer("second", Scale),
        Sublayer("first", Scale),
    )

    def arguments(self) -> Mapping[str, Mapping[str, Any]]:
        """Pass the offset to the second sublayer."""
        return {"second": {"offset": self.offset}}


@pytest.mark.spec("M-L15", headline=True)
def test_user_defined_policies_are_values_types_and_choices() -> None:
    """Define custom policies as a value, type, choice or parametrised policy, and read them by major class.

    Constructor arguments of a composite go to chosen sublayers.
    """
    x = np.array([1.2])
    assert ex.evaluate(Scale("s")(x)) == 2.4
    assert ex.evaluate(Scale("s", policies=[scaled_by(10.0)])(x)) == 12
    assert ex.evaluate(Scale("s", 0.5, policies=[scaled_by(10.0), ScalePolicy.rounding("down")])(x)) == 12
    assert Scale("s", policies=[ScalePolicy.element(np.float16)]).select(ScalePolicy).element is np.float16
    assert ex.evaluate(Twice("t", 0.5, policies=[scaled_by(10.0), Sub("first", scaled_by(1.0))])(x)) == 12.5
    for given, message in ((3, "its value must be of type float"), ("x", "its value must be of type float")):
        with pytest.raises(ex.DeclarationError, match=message):
            ScalePolicy.factor(given)
    with pytest.raises(ex.DeclarationError, match="its value must be one of 'none', 'down'"):
        ScalePolicy.rounding("up")
    with pytest.raises(ex.DeclarationError, match=r"the layer 's' without ScalePolicy\.element"):
        _ = Scale("s").select(ScalePolicy).element
    assert layers.PUpdateIs(True) == PUpdate
    assert layers.PUpdateIs(False) == PNoUpdate
    assert PUpdate != PNoUpdate


class Loose(layers.PolicyClass):
    """Policies with any value, and with a class to instantiate."""

    number = layers.Minor(0)
    container = layers.Minor(list, kind=type)


class Held(layers.Layer):
    """Layer that stores its parts in a container chosen by a policy, like MetaNN's class templates."""

    def forward(self, input: ex.Expr) -> ex.Expr:
        """Return the sum of the distinct parts."""
        parts = self.select(Loose).container([1.0, 2.0, 2.0])
        return ex.add_n(*[input * part for part in parts])


@pytest.mark.spec("M-L15")
def test_the_value_of_a_policy_may_be_a_class_that_a_layer_instantiates() -> None:
    """This is MetaNN's third form of policies, whose value is a class template."""
    assert ex.evaluate(Held("h")(np.ones(()))) == 5
    assert ex.evaluate(Held("h", policies=[Loose.container(set)])(np.ones(()))) == 3
    with pytest.raises(ex.DeclarationError, match="its value must be of type type"):
        Loose.container([])


@pytest.mark.spec("M-L11")
@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), (True, 1.0), (0.0, -0.0), (1, "1"), (2, 3)])
def test_values_that_are_equal_in_python_are_different_policies(one: Any, other: Any) -> None:
    """1, True and 1.0 conflict as values of one minor class, and each is returned as given."""
    for pair in ([one, other], [other, one]):
        with refused(ex.DeclarationError):
            Policies([Loose.number(value) for value in pair])
    for value in (one, other):
        assert type(layers.Tanh("t", policies=[Loose.number(value)]).select(Loose).number) is type(value)
    assert Loose.number(one) != Loose.number(other)
    assert len(Policies([Loose.number(one), Loose.number(one)]).given) == 1


class Positive(layers.Parameter):
    """A user-defined parameter type."""

    __slots__ = ()

    def assign(self, array: Any) -> None:
        """Set negative elements to zero."""
        super().assign(np.maximum(array, 0))


@pytest.mark.spec("M-L16", headline=True)
def test_parameters_are_created_as_their_policies_select() -> None:
    """Create parameters with the type, initializer, data type and filler that their policies select."""
    chosen = [
        layers.ParameterPolicy.type(Positive),
        layers.ParameterPolicy.initializer("small"),
        layers.ParameterPolicy.dtype("float64"),
        Sub("bias", layers.ParameterPolicy.initializer("none")),
    ]
    initializer = layers.Initializer(fillers={"small": layers.Constant(0.5), "none": layers.Constant(0.0)})
    layer = layers.Linear("l", 2, 3, policies=chosen)
    buffer: dict[str, Any] = {}
    layer.init(initializer, buffer)
    weight = layer["weight/parameter"].parameters()[""]
    assert type(weight) is Positive
    assert weight.value.dtype == np.float64
    assert (weight.array == 0.5).all()
    assert not layer.save_weights()["l/bias/parameter"].any()
    weight.assign([[-1, 2, 3], [4, 5, -6]])
    assert weight.array.min() == 0
    assert type(pickle.loads(pickle.dumps(weight))) is Positive
    with pytest.raises(ex.UnknownNameError, match=r"filler of the initializer for 'l/bias/parameter' 'none'\n.*small"):
        layers.Linear("l", 2, 3, policies=chosen).init(layers.Initializer(fillers={"small": layers.Constant(0.5)}))
    with refused(ex.DeclarationError, "Parameter"):
        layers.ParamSource("w", (2,), policies=[layers.ParameterPolicy.type(int)]).init(ONES)
    plain = layers.Linear("l", 2, 3, policies=[layers.ParameterPolicy.dtype("float64")])
    plain.init(ONES, dict(buffer))
    assert plain["weight/parameter"].parameters()[""] is weight
    strict = layers.ParamSource("w", (1,), policies=[layers.ParameterPolicy.type(Positive)])
    held = layers.ParamSource("w", (1,))
    shared: dict[str, Any] = {}
    held.init(ONES, shared)
    with pytest.raises(ex.OperandError, match="its type must be Positive"):
        strict.init(ONES, shared)


@pytest.mark.spec("M-L16", "M-L14")
def test_the_distribution_of_varscale_is_chosen_by_policy() -> None:
    """PNormVarScale and PUniformVarScale choose the distribution of a VarScale filler; other fillers are unaffected."""

    def drawn(*policies: Any, filler: Any) -> Any:
        source = layers.ParamSource("w", (200, 300), policies=list(policies))
        source.init(layers.Initializer(filler=filler))
        return source.save_weights()["w"]

    limit = np.sqrt(3 / 250)
    for filler in (layers.VarScale(), layers.VarScale(distribution="normal")):
        assert np.abs(drawn(layers.PUniformVarScale, filler=filler)).max() <= limit
        assert np.abs(drawn(layers.PNormVarScale, filler=filler)).max() > 2 * limit
    assert np.abs(drawn(filler=layers.VarScale())).max() <= limit
    own = layers.ParameterPolicy.filler(layers.VarScale(2.0))
    np.testing.assert_allclose(drawn(own, layers.PNormVarScale, filler=None).var(), 2 / 250, rtol=0.05)
    assert (drawn(layers.PNormVarScale, filler=layers.Constant(2.0)) == 2).all()


@pytest.mark.spec("M-L12", headline=True)
def test_policies_are_inherited_by_sublayers_and_overridden_by_nested_subs() -> None:
    """Inherit a composite's policies at any depth and override them with nested Subs; each records its source."""
    chosen = [PUpdate, Sub("linear", PNoUpdate, Sub("weight", PUpdate, Sub("parameter", PNoUpdate)))]
    chosen.append(layers.PerceptronPolicy.activation(layers.Tanh))
    layer = layers.SingleLayerPerceptron("root", 2, 3, policies=chosen, train=True)
    given = {path: layer[path].policies.given[GradPolicy.update] for path in ("linear", "linear/weight", "linear/bias")}
    given["linear/weight/parameter"] = layer["linear/weight/parameter"].policies.given[GradPolicy.update]
    given["activation"] = layer["activation"].policies.given[GradPolicy.update]
    assert {path: (each.value, each.by) for path, each in given.items()} == {
        "activation": (True, "root"),
        "linear": (False, "root, for linear"),
        "linear/bias": (False, "root, for linear"),
        "linear/weight": (True, "root/linear, for weight"),
        "linear/weight/parameter": (False, "root/linear/weight, for parameter"),
    }
    assert layer.updates() == frozenset()
    for wrong, known in (
        (Sub("wieght", PUpdate), "known: weight"),
        (Sub("weight", Sub("x")), "known: parameter, product"),
    ):
        with pytest.raises(ex.UnknownNameError, match=known):
            linear(wrong)
    for clash, said in (
        (lambda: linear(Sub("weight", PUpdate), Sub("weight", PNoUpdate)), r"two Sub\('weight'"),
        (lambda: linear(PUpdate, PNoUpdate), "must have at most one value"),
        (lambda: linear(Sub("weight", PUpdate, PNoUpdate)), "must have at most one value"),
    ):
        with pytest.raises(ex.DeclarationError, match=said):
            clash()


def gradient_operations(layer: layers.Layer, x: Any) -> list[str]:
    """Return the operations inside the call that feeding backward recorded, at any depth."""
    y = layer(x)
    layer.feed_backward(np.ones(y.shape, y.dtype))
    nodes = reachable([*collected(layer).values()])
    (call,) = {node.operation for node in nodes if node.label == "Linear gradient"}
    results: list[str] = []
    pending = [*call.body.nodes]
    while pending:
        node = pending.pop()
        if isinstance(node.operation, Call):
            pending += node.operation.body.nodes
        else:
            results.append(node.label)
    return results


@pytest.mark.spec("M-L13", headline=True)
def test_feedback_is_inferred_and_unneeded_gradients_are_never_built() -> None:
    """Infer which sublayers are fed backward; a gradient that is not needed is never recorded."""
    inferred = {
        (): {"weight": False, "bias": False},
        (PUpdate,): {"weight": False, "bias": True},
        (PUpdate, Sub("weight", PNoUpdate)): {"weight": False, "bias": False},
        (PFeedbackOutput,): {"weight": True, "bias": True},
        (Sub("weight", PFeedbackOutput),): {"weight": True, "bias": True},
    }
    for policies, expected in inferred.items():
        layer = linear(*policies)
        assert {each.sublayer: each.needed for each in layer.feedback} == expected, policies
        for name, needed in expected.items():
            assert layer[name].feeds_back is needed
    weight, bias = (each.reason for each in linear(PUpdate).feedback)
    assert weight
    assert "weight" in bias  # the sublayer with this input
    (inference,) = {each.reason for each in linear(PUpdate, train=False).feedback}
    assert inference not in ("", weight, bias)
    x = np.ones((4, 2), np.float32)
    assert gradient_operations(linear(PUpdate), x).count("matmul") == 1
    assert gradient_operations(linear(PUpdate, PFeedbackOutput), x).count("matmul") == 2
    assert gradient_operations(linear(PUpdate, Sub("weight", PNoUpdate)), x).count("matmul") == 0
    nothing = linear()
    assert nothing(x).shape == (4, 3)
    before = ex.tensor(0.0).uid
    assert nothing.feed_backward(np.ones((4, 3))) is None
    assert ex.tensor(0.0).uid == before + 2, "nothing but the seed was recorded"


PARTS = {"x": Sublayer("x", layers.Tanh), "y": Sublayer("y", layers.Add)}
IN, OUT = InConnect("a", "x", "input"), OutConnect("x", "output", "out")
TWO = [*PARTS.values(), IN, OUT]
BACK = InternalConnect("x", "output", "x", "input")
WRONG: list[tuple[list[Any], str]] = [
    ([], "without sublayers"),
    ([IN, OUT], "without sublayers"),
    ([PARTS["x"], Sublayer("x", layers.Sin), IN, OUT], r"Sublayer\('x', Sin\): a second sublayer 'x'"),
    ([PARTS["x"], IN, OUT, InConnect("a", "z", "input")], r"sublayer in InConnect\('a', 'z', 'input'\) 'z'"),
    ([PARTS["x"], IN, OUT, OutConnect("z", "output", "b")], r"sublayer in OutConnect\('z', 'output', 'b'\) 'z'"),
    ([PARTS["x"], InConnect("a", "x", "left"), OUT], r"input port of Tanh in InConnect\('a', 'x', 'left'\) 'left'"),
    ([PARTS["x"], IN, OutConnect("x", "y", "b")], r"output port of Tanh in OutConnect\('x', 'y', 'b'\) 'y'"),
    ([PARTS["x"], OUT, InternalConnect("x", "z", "x", "input")], r"in InternalConnect\('x', 'z', 'x', 'input'\) 'z'"),
    ([PARTS["x"], IN, OUT, InConnect("b", "x", "input")], r"InConnect\('b', 'x', 'input'\): .*two sources"),
    ([PARTS["x"], IN, OUT, BACK], r"InternalConnect\('x', 'output', 'x', 'input'\): .* has two sources"),
    ([PARTS["x"], IN, OUT, Sublayer("z", layers.Sin)], r"Sublayer\('z', Sin\) is connected to nothing"),
    ([PARTS["x"], IN, OUT, IN], r"InConnect\('a', 'x', 'input'\): .*two sources"),
    ([PARTS["x"], IN, OUT, OUT], r"OutConnect\('x', 'output', 'out'\): .*'out' has two sources"),
    ([PARTS["x"], IN, OUT, PARTS["x"]], r"a second sublayer 'x'"),
    ([*TWO, InConnect("a", "y", "left")], r"Sublayer\('y', Add\): nothing is connected to its input right"),
    ([PARTS["x"], IN], "without OutConnect"),
    ([*TWO, OutConnect("y", "output", "out")], r"OutConnect\('y', 'output', 'out'\): .*'out' has two sources"),
    ([PARTS["x"], BACK, OUT], r"cycle of sublayers: x → x; in InternalConnect\('x', 'output', 'x', 'input'\)"),
    (
        [
            *PARTS.values(),
            InternalConnect("y", "output", "x", "input"),
            InternalConnect("x", "output", "y", "left"),
            InConnect("a", "y", "right"),
            OUT,
        ],
        r"a cycle .*\('y', 'output', 'x', 'input'\), InternalConnect\('x', 'output', 'y', 'left'\)",
    ),
    ([[PARTS["x"]]], "in a topology"),
    ([Sublayer("x", layers.Tanh("x"))], "must be given as a class"),  # type: ignore[arg-type]
    ([Sublayer("a/b", layers.Tanh)], "without a slash"),
    ([PARTS["x"], InConnect("a b", "x", "input"), OUT], "the port 'a b' of a topology"),
]


@pytest.mark.spec("M-L10")
@pytest.mark.parametrize(("clauses", "message"), WRONG, ids=range(len(WRONG)))
def test_an_invalid_topology_raises_an_error_with_the_clause(clauses: list[Any], message: str) -> None:
    """Test empty, repeated, unknown and unconnected names, two sources, and a cycle, in any order of clauses."""
    with pytest.raises(ex.ExplorerError, match=message):
        Topology(*clauses)


@pytest.mark.spec("M-L14")
def test_fillers_have_their_distribution_and_depend_on_seed_and_name() -> None:
    """The values depend only on the seed and the parameter's name."""
    shape, generator = (400, 600), np.random.default_rng(0)
    uniform = layers.Uniform(-2, 4).fill(shape, generator)
    assert uniform.min() >= -2
    assert uniform.max() < 4
    np.testing.assert_allclose([uniform.mean(), uniform.var()], [1, 3], rtol=0.02)
    normal = layers.Gaussian(3, 2).fill(shape, generator)
    np.testing.assert_allclose([normal.mean(), normal.std()], [3, 2], rtol=0.01)
    assert (layers.Constant(7).fill(shape, generator) == 7).all()
    fans = {"in": 400, "out": 600, "avg": 500}
    for fan, connections in fans.items():
        for distribution in ("uniform", "normal"):
            drawn = layers.VarScale(2.0, distribution, fan).fill(shape, generator)  # type: ignore[arg-type]
            np.testing.assert_allclose(drawn.var(), 2 / connections, rtol=0.02)
            assert abs(drawn.mean()) < 1e-3
            if distribution == "uniform":
                assert np.abs(drawn).max() <= np.sqrt(6 / connections)
    window = layers.VarScale(1.0, "normal", "in").fill((64, 32, 3, 3), generator)
    np.testing.assert_allclose(window.var(), 1 / (32 * 9), rtol=0.03)

    def drawn_by(seed: int, *names: str) -> dict[str, Any]:
        values = [layers.ParamSource(name, (5,)) for name in names]
        initializer = layers.Initializer(filler=layers.Gaussian(), seed=seed)
        for source in values:
            source.init(initializer)
        return {name: source.save_weights()[name].tolist() for name, source in zip(names, values, strict=True)}

    assert drawn_by(0, "a", "b") == drawn_by(0, "b", "a")
    assert drawn_by(0, "a") != drawn_by(1, "a")
    assert drawn_by(0, "a")["a"] != drawn_by(0, "b")["b"]
    for kind, wrong in (
        (layers.Uniform, {"low": 2, "high": 1}),
        (layers.Gaussian, {"deviation": -1}),
        (layers.VarScale, {"scale": 0}),
        (layers.VarScale, {"fan": "both"}),
        (layers.Initializer, {"seed": -1}),
        (layers.Initializer, {"filler": 3}),
    ):
        with pytest.raises(ex.DeclarationError):
            kind(**wrong)


class Ramp(layers.Filler):
    """A user-defined filler."""

    def draw(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Any:
        return np.arange(np.prod(shape, dtype=int)).reshape(shape)


@pytest.mark.spec("M-L14")
def test_a_user_defined_filler_is_a_class_with_draw() -> None:
    """A filler that returns another shape or a non-number raises an error."""
    layer = layers.Linear("l", 2, 2, policies=[layers.ParameterPolicy.filler(Ramp())])
    layer.init()
    np.testing.assert_array_equal(layer.save_weights()["l/weight/parameter"], [[0, 1], [2, 3]])
    wrong = type("Wrong", (layers.Filler,), {"draw": lambda self, generator, shape: np.zeros(7)})
    with pytest.raises(ex.DeclarationError, match=r"drew float64 elements of shape \(7,\)"):
        layers.Bias("b", 2).init(layers.Initializer(filler=wrong()))
    with pytest.raises(ex.DeclarationError, match="the filler Filler without draw"):
        layers.Bias("b", 2).init(layers.Initializer(filler=layers.Filler()))
