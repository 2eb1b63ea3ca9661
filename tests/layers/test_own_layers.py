"""User-defined layers in a notebook: what they read, share and change, errors, copies and threads."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

import explorer as ex
from explorer import layers
from tests.support.refusals import refused

FACTOR: Any = 2.0
ONE = np.ones(2, np.float32)
ONES = layers.Initializer(filler=layers.Constant(1.0))


class Scaled(layers.Layer):
    """Return input · FACTOR, a global variable, from a method."""

    power: int = 1

    def factor(self) -> Any:
        return FACTOR

    def forward(self, input: ex.Expr) -> ex.Expr:
        return input * self.factor() ** self.power


def value(node: Any) -> Any:
    return np.asarray(ex.evaluate(node)).tolist()


@pytest.mark.spec("M-L15")
def test_variables_that_forward_reads_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """forward is traced again after a global that it reads, or one of its class's methods, was rebound."""
    layer, square = Scaled("s"), Scaled("q", power=2)
    assert (value(layer(ONE)), value(square(ONE))) == ([2, 2], [4, 4])
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    assert (value(layer(ONE)), value(square(ONE)), value(Scaled("t")(ONE))) == ([3, 3], [9, 9], [3, 3])
    monkeypatch.setattr(Scaled, "factor", lambda self: 5.0)
    assert value(layer(ONE)) == [5, 5]
    monkeypatch.setattr(Scaled, "forward", lambda self, input: input * 7)
    assert (value(layer(ONE)), value(Scaled("u")(ONE))) == ([7, 7], [7, 7])


def test_layers_share_a_function_only_if_they_are_equal() -> None:
    """Class, arguments and derived attributes must be equal; 2 and 2.0 are different."""

    class Made(layers.Layer):
        factor: float
        sizes: tuple[int, ...] = ()

        def prepare(self) -> None:
            super().prepare()
            self.window = np.full(2, self.factor * len(self.name), np.float32)
            self.table = {"factor": self.factor}

        def forward(self, input: ex.Expr) -> ex.Expr:
            return input * self.window * self.table["factor"]

    assert value(Made("a", 2.0)(ONE)) == [4, 4]
    assert value(Made("bb", 2.0)(ONE)) == [8, 8]
    assert value(Made("a", 3.0)(ONE)) == [9, 9]
    assert Scaled("a").function is Scaled("b").function is Scaled("c", train=True, policies=[layers.PUpdate]).function
    assert Scaled("a").function is not Scaled("a", 2).function
    assert Scaled("a", 1).function is not Scaled("a", 1.0).function
    for name, attribute in (("name", "x"), ("train", True), ("factor", 3.0), ("power", 3), ("anything", 1)):
        with pytest.raises((ex.StateError, AttributeError), match=name):
            setattr(Scaled("a"), name, attribute)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((1, 2), (3, 4)),
        ([1, 2], [2, 2]),
        ([1, [2, 2]], [1, [2, 3]]),
        ({"a": 1}, {"a": 2}),
        ({"a": [1]}, {"a": [2]}),
        (np.array([1.0]), np.array([2.0])),
        (1, 1.0),
    ],
)
def test_layers_with_different_derived_attributes_are_distinguished(one: Any, other: Any) -> None:
    """Attributes set in prepare() are compared through lists and tables; an array equals only itself."""

    class Kept(layers.Layer):
        def prepare(self) -> None:
            super().prepare()
            self.kept = {"one": one, "other": other}[self.name]

        def forward(self, input: ex.Expr) -> ex.Expr:
            return input

    assert Kept("one").function is not Kept("other").function
    assert Kept("one").function is Kept("one").function
    assert Kept("one").blueprint != Kept("other").blueprint
    assert Kept("one").blueprint == Kept("one").blueprint


def test_a_layer_class_declared_again_is_another_class() -> None:
    """Layers constructed before a cell ran again keep their recorded functions."""

    def declare(factor: int) -> type[layers.Layer]:
        return type("Again", (layers.Layer,), {"forward": lambda self, input: input * factor})

    first, second = declare(2)("a"), declare(3)("a")
    assert (value(first(ONE)), value(second(ONE)), value(first(ONE))) == ([2, 2], [3, 3], [2, 2])


def returning(made: Callable[[ex.Expr], Any], outputs: tuple[str, ...] = ("output",)) -> layers.Layer:
    body = {"outputs": outputs, "forward": lambda self, input: made(input)}
    kind: type[layers.Layer] = type("Made", (layers.Layer,), body)
    return kind("made")


@pytest.mark.parametrize(
    ("made", "outputs", "message"),
    [
        (lambda x: 3, ("output",), "forward of Made.* returned int"),
        (lambda x: None, ("output",), "returned NoneType"),
        (lambda x: np.ones(2), ("output",), "returned ndarray"),
        (lambda x: (x, x), ("a", "b"), r"returned tuple\n.*ports a, b, by name"),
        (lambda x: x, ("a", "b"), r"ports a, b, by name"),
        (lambda x: {"a": x}, ("a", "b"), "returned a mapping of 'a'"),
        (lambda x: {"a": x, "b": x, "c": x}, ("a", "b"), "returned a mapping of 'a', 'b', 'c'"),
        (lambda x: {"a": x, "b": 3.0}, ("a", "b"), "returned a float for the port 'b'"),
        (lambda x: x if x.sum() > 0 else -x, ("output",), "ex.where by element"),
    ],
)
def test_an_invalid_result_of_forward_raises_an_error(made: Any, outputs: Any, message: str) -> None:
    """forward must return one expression for each output port; the error contains the result."""
    layer = returning(made, outputs)
    with pytest.raises(ex.ExplorerError, match=message):
        layer(ONE)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"forward": lambda self, x: x}, r"takes \(x\)\n.*input \(the default\)\n.*inputs = \('x',\)"),
        ({"inputs": ("a", "b"), "forward": lambda self, a: a}, r"takes \(a\)\n.*by name: a, b"),
        ({"inputs": "input"}, "ports must be a tuple"),
        ({"inputs": ("a", "a")}, "ports must be a tuple"),
        ({"inputs": ("a b",)}, "the port 'a b'"),
        ({"inputs": ("self",)}, "the port 'self'"),
        ({"outputs": ("lambda",)}, "the port 'lambda'"),
        ({"__annotations__": {"name": str}}, r"the argument 'name' .*\n.*attribute of all layers"),
        ({"__annotations__": {"forward_records": int}}, "the argument 'forward_records'"),
        ({"__annotations__": {"forward": int}}, "the argument 'forward'"),
        ({"__annotations__": {"a": int, "b": int}, "a": 1}, r"'b' .* has no default\n.*follow 'a'"),
        ({"__init__": lambda self: None}, "annotate the arguments"),
    ],
)
def test_an_invalid_layer_class_raises_an_error_at_its_declaration(body: dict[str, Any], message: str) -> None:
    """Ports, arguments and forward are checked."""
    with pytest.raises(ex.DeclarationError, match=message):
        type("Made", (layers.Layer,), body)


class Reader(layers.Layer):
    """Layer that reads its own attributes, which differ between layers with a shared function."""

    what: str

    def forward(self, input: ex.Expr) -> ex.Expr:
        result = {
            "name": lambda: self.name,
            "train": lambda: self.train,
            "GradPolicy.update": lambda: self.select(layers.GradPolicy).update,
            "ParameterPolicy.dtype": lambda: self.select(layers.ParameterPolicy).dtype,
        }[self.what]()
        return input * len(str(result))


@pytest.mark.parametrize("what", ["name", "train", "GradPolicy.update", "ParameterPolicy.dtype"])
def test_forward_cannot_read_attributes_outside_the_shared_key(what: str) -> None:
    """Reading the layer's name, training or gradients raises an error, because layers that share the function differ in
    them."""
    with pytest.raises(ex.DeclarationError, match=f"forward of Reader.'r'. reads its .*{what}"):
        Reader("r", what)(ONE)
    assert (Reader("r", what).name, Reader("r", what).train) == ("r", False)


def test_arguments_are_checked_when_a_layer_is_constructed() -> None:
    """Missing, extra, unknown or mutable arguments raise an error with the complete signature."""

    class Listed(layers.Layer):
        sizes: Any

        def forward(self, input: ex.Expr) -> ex.Expr:
            return input

    wrong: list[tuple[Callable[[], Any], str]] = [
        (lambda: layers.Linear("l", 2), r"missing .*'out_features'\n.*\(in_features, out_features\), and policies"),
        (lambda: layers.Linear("l", 2, 3, 4), "too many positional arguments"),
        (lambda: layers.Linear("l", 2, 3, bias=True), "unexpected keyword argument 'bias'"),
        (lambda: layers.Linear("l", 2.5, 3), r"the shape \(2.5, 3\)"),
        (lambda: layers.Linear("l", -1, 3), r"the shape \(-1, 3\)"),
        (lambda: layers.Linear("", 2, 3), "named ''"),
        (lambda: Listed("l", [1]), "the argument 'sizes' .* is a list\n.*\n.*pass a tuple"),
        (lambda: Listed("l", np.ones(2)), "the argument 'sizes' .* is a ndarray"),
        (lambda: layers.Tanh("t", policies=layers.PUpdate), "policies must be a list"),  # type: ignore[arg-type]
        (lambda: layers.Tanh("t", policies=["PUpdate"]), "'PUpdate' among the policies"),  # type: ignore[list-item]
        (lambda: layers.Tanh("t", policies=[layers.GradPolicy.update]), "call it with a value"),  # type: ignore[list-item]
        (lambda: layers.Layer("l")(ONE), "the layer class Layer without forward"),
        (lambda: layers.Elementwise("l")(ONE), "Elementwise without an operation"),
    ]
    for make, message in wrong:
        with pytest.raises(ex.DeclarationError, match=message):
            make()


def test_errors_of_invalid_inputs_contain_the_port_and_the_sublayer() -> None:
    """The operation rejects the operand, and notes name the sublayers or the port."""
    layer = layers.Linear("lin", 2, 3)
    layer.init(ONES)
    with pytest.raises(ex.OperandError, match=r"matmul of 4 float64, 2×3 float32") as caught:
        layer(np.ones(4))
    assert caught.value.__notes__ == [
        "in 'product', its Dot",
        "in 'weight', its Weight",
        "while Linear('lin') was fed input 4 float64",
    ]
    with pytest.raises(ex.OperandError, match=r"ex\.tensor of a str") as caught:
        layer("text")
    assert caught.value.__notes__ == ["passed to the port 'input' of Linear('lin')"]
    for call, message in (
        (lambda: layer(ONE, ONE), "2 inputs for Linear"),
        (lambda: layer(inptu=ONE), "unknown port of .* 'inptu'"),
        (lambda: layer(ONE, input=ONE), "set twice"),
        (lambda: layer(), "has no value"),
    ):
        with pytest.raises(ex.ExplorerError, match=message):
            call()


def test_one_expression_at_two_ports_and_integers() -> None:
    """Integers have no gradient, and a seed for them must be integral."""
    product = layers.Multiply("m", policies=[layers.PFeedbackOutput], train=True)
    x = ex.tensor([2.0, 3.0])
    product(x, x)
    assert [value(each) for each in product.feed_backward([1.0, 1.0]).values()] == [[2, 3], [2, 3]]
    add = layers.Add("a", policies=[layers.PFeedbackOutput], train=True)
    add(np.arange(2), np.ones(2))
    gradients = add.feed_backward(np.ones(2))
    assert gradients["left"] is None
    assert value(gradients["right"]) == [1, 1]
    add(np.arange(2), 1)
    with refused(ex.OperandError, "gradient"):
        add.feed_backward(np.ones(2))
    with pytest.raises(ex.OperandError, match="without any gradient"):
        add.feed_backward(None)


class Two(layers.Layer):
    """Two outputs."""

    outputs: ClassVar[tuple[str, ...]] = ("a", "b")

    def forward(self, input: ex.Expr) -> dict[str, ex.Expr]:
        return {"b": input * 3, "a": ex.square(input)}


def test_an_output_may_have_no_gradient() -> None:
    """Each of several outputs needs a gradient or None; omitting one raises an error."""
    layer = Two("t", policies=[layers.PFeedbackOutput], train=True)
    x = np.array(5.0)
    for given, expected in (({"a": 1.0, "b": 1.0}, 13), ({"a": None, "b": 2.0}, 6), ({"b": None, "a": 1.0}, 10)):
        y = layer(x)
        assert list(y) == ["a", "b"]
        assert value(layer.feed_backward(given)) == expected
    layer(x)
    with pytest.raises(ex.OperandError, match=r"the port 'b' .* has no value"):
        layer.feed_backward(a=1.0)


def test_layers_inside_functions() -> None:
    """A function that uses a layer reads its parameters' new values; a training layer must stay inside one body."""
    layer = layers.Linear("l", 2, 1, policies=[layers.PUpdate], train=True)
    held = [layer]  # not a variable that could be watched
    layer.init(ONES)

    @ex.function
    def infer(x: ex.Expr) -> ex.Expr:
        return copy.copy(held[0]).feed_forward(x) * 2

    @ex.function
    def outer(x: ex.Expr) -> ex.Expr:
        return infer(x) + 1

    assert (value(infer(ONE)), value(outer(ONE))) == ([6], [7])
    layer.load_weights({name: 2 * array for name, array in layer.save_weights().items()})
    assert (value(infer(ONE)), value(outer(ONE))) == ([12], [13])
    layer.init(layers.Initializer(filler=layers.Constant(0.0)))
    assert (value(infer(ONE)), value(outer(ONE))) == ([0], [1])
    layer.init(ONES)

    @ex.function
    def train(x: ex.Expr) -> list[ex.Expr]:
        y = layer(x)
        layer.feed_backward(y)
        collector = layers.GradCollector()
        layer.grad_collect(collector)
        return [gradient for _, gradient in collector]

    for _ in range(2):
        assert [value(gradient) for gradient in train(ONE)] == [[[3], [3]], [3]]
    layer.neutral_invariant()
    leaky = ex.function(lambda x: layer(x))
    leaky(ONE)
    with pytest.raises(ex.StateError, match="in another function's body"):
        layer.feed_backward([1.0])
    with pytest.raises(ex.StateError, match="is not neutral"):
        layer.neutral_invariant()


def test_values_fed_in_one_body_stay_in_that_body() -> None:
    """Layers fed outside a function cannot be fed back inside, and gradients of two bodies cannot be collected."""
    layer = layers.Linear("l", 2, 1, policies=[layers.PUpdate], train=True)
    held = [layer]  # not a variable that could be watched
    layer.init(ONES)
    y = layer(ONE)
    with pytest.raises(ex.StateError, match=r"feed_backward of .* in another function's body"):
        ex.function(lambda x: (held[0].feed_backward([1.0]), x)[1])(ONE)
    layer.feed_backward(np.ones(y.shape, np.float32))

    @ex.function
    def waits(x: ex.Expr) -> ex.Expr:
        out = held[0](x)
        held[0].feed_backward(out)
        return out

    waits(ONE)
    collector = layers.GradCollector()
    with pytest.raises(ex.StateError, match=r"collecting the gradients of .* in another function's body"):
        layer.grad_collect(collector)
    assert len(collector) == 0


def test_copies_and_pickles_of_layers() -> None:
    """A copy shares parameters but not stacks; a deep or pickled copy has its own parameters, too."""
    chosen = [layers.PUpdate, layers.PFeedbackOutput, layers.Sub("bias", layers.PNoUpdate)]
    layer = layers.Linear("l", 2, 1, policies=chosen, train=True)
    layer.init(ONES)
    layer(ONE)
    shallow, deep = copy.copy(layer), copy.deepcopy(layer)
    assert value(deep.feed_backward([1.0])) == value(shallow.feed_backward([1.0])) == [1, 1]
    for copied in (deep, shallow):
        copied.grad_collect(layers.GradCollector())
        copied.neutral_invariant()
    with pytest.raises(ex.StateError, match="is not neutral"):
        layer.neutral_invariant()
    with pytest.raises(ex.StateError, match="pickling"):
        pickle.dumps(layer)
    layer.feed_backward([1.0])
    layer.grad_collect(layers.GradCollector())
    stored = pickle.loads(pickle.dumps(layer))
    layer.load_weights({name: 0 * array for name, array in layer.save_weights().items()})
    assert [value(each(ONE)) for each in (layer, shallow, deep, stored)] == [[0], [0], [3], [3]]
    for each in (shallow, deep, stored):
        assert each.updates() == {"weight/parameter"}
        assert each.function is layer.function


def test_layers_run_in_several_threads() -> None:
    """Inference layers may be fed in many threads: each shape is recorded at most a few times, without interference."""
    layer = layers.Linear("l", 2, 3)
    layer.init(ONES)
    results: list[Any] = []

    def run(size: int) -> None:
        results.extend((size, layer(np.ones((size, 2), np.float32))) for _ in range(20))

    threads = [threading.Thread(target=run, args=(size,)) for size in (1, 2, 3, 1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 120
    for size, node in results:
        assert node.shape == (size, 3)
    assert (ex.evaluate(results[-1][1]) == 3).all()


def test_a_policy_class_declared_again_is_the_same_policy() -> None:
    """Policies constructed before a cell ran again still apply to layers that read the class."""
    kinds = [type("Again", (layers.PolicyClass,), {"factor": layers.Minor(1.0)}) for _ in range(2)]

    class Reads(layers.Layer):
        def forward(self, input: ex.Expr) -> ex.Expr:
            return input * self.select(kinds[1]).factor

    assert value(Reads("r", policies=[kinds[0].factor(4.0)])(ONE)) == [4, 4]
    with refused(ex.DeclarationError):
        Reads("r", policies=[kinds[0].factor(4.0), kinds[1].factor(5.0)])
    with refused(ex.DeclarationError, "class"):
        Reads("r").select(kinds[1].factor)


def test_a_shared_function_does_not_keep_the_values_of_a_layer() -> None:
    """The first layer provides a skeleton for the shared function, without the values that it was fed."""

    class Doubles(layers.Layer):
        def forward(self, input: ex.Expr) -> ex.Expr:
            return input * 2

    first, second = Doubles("first", train=True), Doubles("second", train=True)
    for layer in (first, second):
        layer(ONE)
    assert first.function is second.function
    output = weakref.ref(first.forward_records[0].outputs["output"])
    del first, layer
    gc.collect()
    assert output() is None


def test_a_layer_may_be_freed_while_others_share_its_function() -> None:
    """The function keeps neither a layer's parameters nor fed values."""
    first, second = (layers.Linear(name, 2, 3, train=True) for name in ("dropped", "kept"))
    for layer in (first, second):
        layer.init(ONES)
        layer(ONE)
    assert first.function is second.function
    held = [
        weakref.ref(first),
        weakref.ref(first["weight/parameter"]),
        weakref.ref(first.forward_records[0].outputs["output"]),
    ]
    del first, layer
    gc.collect()
    assert [each() for each in held] == [None, None, None]
    assert second(np.ones((5, 2), np.float32)).shape == (5, 3)


def test_the_signature_of_a_layer_class_has_its_fields() -> None:
    """Help, completion and the reference show the fields, in place of any arguments."""
    signature = inspect.signature(ex.train.GRU)
    assert list(signature.parameters) == ["name", "features", "hidden", "last", "policies", "train", "inputs"]
    assert signature.parameters["last"].default is False
    assert signature.parameters["policies"].kind is inspect.Parameter.KEYWORD_ONLY
