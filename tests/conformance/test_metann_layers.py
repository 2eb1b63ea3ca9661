"""MetaNN's layers: its own test cases with their numbers, and the rules M-L1 to M-L9 and M-L14."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer import layers
from explorer.core.types.tensor_type import Array
from tests.support.refusals import refused

RANDOM = np.random.default_rng(1)
FEEDBACK = layers.PFeedbackOutput
ONES = layers.Initializer(filler=layers.Constant(1.0))


def steps(start: float, step: float, *shape: int) -> Array:
    """Return MetaNN's G(start, step, shape): start, start + step, … in row-major order."""
    return start + step * np.arange(float(np.prod(shape))).reshape(shape)


def collected(*held: layers.Layer) -> dict[str, Any]:
    """Return the computed gradients of layers' parameters by name, and check that the layers are neutral."""
    collector = layers.GradCollector()
    for layer in held:
        layer.grad_collect(collector)
        layer.neutral_invariant()
    return {parameter.name: ex.evaluate(gradient) for parameter, gradient in collector}


def check(layer: layers.Layer, inputs: Mapping[str, Array], value: Callable[..., Array], tolerance: float) -> None:
    """Check a training layer's output and input gradients against NumPy's value and its central differences."""
    y = layer(inputs)
    expected = np.asarray(value(*inputs.values()))
    upstream = RANDOM.uniform(0.5, 2, expected.shape)
    gradients = layer.feed_backward(upstream)
    gradients = {layer.inputs[0]: gradients} if isinstance(gradients, ex.Expr) else dict(gradients)
    result, slopes = ex.evaluate((y, gradients))
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)
    layer.neutral_invariant()
    assert slopes.keys() == inputs.keys()
    for port, given in inputs.items():
        assert slopes[port].shape == given.shape
        for index in np.ndindex(given.shape):
            moved = np.zeros_like(given)
            moved[index] = 1e-6
            high, low = (value(*{**inputs, port: given + sign * moved}.values()) for sign in (1, -1))
            slope = ((high - low) * upstream).sum() / 2e-6
            np.testing.assert_allclose(slopes[port][index], slope, rtol=1e-6, atol=1e-7)


def softmax(x: Array, count: int) -> Array:
    e = np.exp(x)
    return np.asarray(e / e.sum(axis=tuple(range(-count, 0)), keepdims=True))


ONE: dict[str, tuple[type[layers.Layer], Callable[..., Array], float, float]] = {
    "Abs": (layers.Absolute, np.abs, -3, 3),
    "Acos": (layers.Arccos, np.arccos, -0.9, 0.9),
    "Acosh": (layers.Arccosh, np.arccosh, 1.1, 4),
    "Asin": (layers.Arcsin, np.arcsin, -0.9, 0.9),
    "Asinh": (layers.Arcsinh, np.arcsinh, -3, 3),
    "Cos": (layers.Cos, np.cos, -3, 3),
    "Sin": (layers.Sin, np.sin, -3, 3),
    "Tan": (layers.Tan, np.tan, -1, 1),
    "Square": (layers.Square, np.square, -3, 3),
    "Sigmoid": (layers.Sigmoid, lambda input: 1 / (1 + np.exp(-input)), -3, 3),
    "Tanh": (layers.Tanh, np.tanh, -3, 3),
    "ReLU": (layers.Relu, lambda input: np.maximum(input, 0), -3, 3),
}


@pytest.mark.spec("M-L1", headline=True)
@pytest.mark.parametrize("name", ONE)
def test_layers_of_one_input(name: str) -> None:
    """Compute every one-input layer of MetaNN, with gradients that match float64 and finite differences."""
    kind, value, low, high = ONE[name]
    layer = kind("layer", policies=[FEEDBACK], train=True)
    for shape in [(), (3,), (2, 3), (2, 1, 3), (0, 2)]:
        drawn = RANDOM.uniform(low, high, shape)
        check(layer, {"input": np.where(np.abs(drawn) < 0.01, 0.5, drawn)}, value, 1e-12)


@pytest.mark.spec("M-L1", "M-L15")
def test_softmax_and_permute_read_dimension_policies() -> None:
    """Softmax and Permute layers read their axes from a policy; the default is the last axis."""
    for count in (1, 2):
        chosen = [FEEDBACK, *[layers.DimensionPolicy.count(2)] * (count == 2)]
        layer: layers.Layer = layers.Softmax("s", policies=chosen, train=True)
        check(layer, {"input": RANDOM.normal(size=(2, 3, 2))}, lambda input, n=count: softmax(input, n), 1e-12)
    layer = layers.Permute("p", policies=[FEEDBACK, layers.DimensionPolicy.axes((2, 0, 1))], train=True)
    check(layer, {"input": steps(0, 1, 3, 2, 5)}, lambda input: input.transpose(2, 0, 1), 0)
    with pytest.raises(ex.DeclarationError, match="without an order of axes"):
        layers.Permute("p")


PAIRS = [((2, 3), (2, 3)), ((2, 3), (3,)), ((3,), (2, 3)), ((), (2, 2)), ((2, 1), (1, 3)), ((2, 1, 2), ())]


@pytest.mark.spec("M-L2", headline=True)
@pytest.mark.parametrize("name", ["Add", "Subtract", "Multiply"])
def test_layers_of_two_inputs_broadcast_both_ways(name: str) -> None:
    """Broadcast either input of a layer with two inputs; each gradient is reduced to its operand's shape."""
    layer = getattr(layers, name)("layer", policies=[FEEDBACK], train=True)
    for left, right in PAIRS:
        inputs = {"left": RANDOM.normal(size=left), "right": RANDOM.normal(size=right)}
        check(layer, inputs, getattr(np, name.lower()), 1e-12)


@pytest.mark.spec("M-L2")
def test_dot_contracts_the_number_of_axes_in_its_policy() -> None:
    """A Dot layer contracts the last axes of left with the first of right, one by default."""
    for count, left, right in ((1, (2, 3), (3, 4)), (1, (3,), (3,)), (1, (2, 2, 3), (3, 2)), (2, (2, 3, 2), (3, 2, 2))):
        layer = layers.Dot("dot", policies=[FEEDBACK, layers.DimensionPolicy.count(count)], train=True)
        inputs = {"left": RANDOM.normal(size=left), "right": RANDOM.normal(size=right)}
        check(layer, inputs, lambda left, right, n=count: np.tensordot(left, right, n), 1e-12)
    layer = layers.Dot("dot", policies=[layers.DimensionPolicy.count(2)])
    result = ex.evaluate(layer(steps(0, 1, 5, 4, 3), steps(0, 1, 4, 3, 2)))
    np.testing.assert_array_equal(result[:2], [[1012, 1078], [2596, 2806]])


@pytest.mark.spec("M-L2")
def test_interpolate_and_nll_loss_layers() -> None:
    """Interpolate gives 7.2 between 3 and 9 at 0.3; the NLLLoss layer gives MetaNN's loss and gradient."""
    between = layers.Interpolate("i", policies=[FEEDBACK], train=True)
    assert between.inputs == ("first", "second", "weight")
    np.testing.assert_allclose(ex.evaluate(layers.Interpolate("i")(np.array(3.0), np.array(9.0), 0.3)), 7.2)
    for shapes in (((2, 3), (2, 3), ()), ((3,), (2, 3), (2, 1))):
        inputs = {port: RANDOM.normal(size=shape) for port, shape in zip(between.inputs, shapes, strict=True)}
        check(between, inputs, lambda first, second, weight: first * weight + second * (1 - weight), 1e-12)
    loss = layers.NLLLoss("loss", policies=[FEEDBACK], train=True)
    given, weight = steps(0.1, 0.05, 3, 4), steps(0.3, 0.1, 3, 4)
    value, gradient = ex.evaluate((loss(given, weight), loss.feed_backward(0.5)["input"]))
    np.testing.assert_allclose(value, -(weight * np.log(given)).sum() / weight.sum())
    np.testing.assert_allclose(gradient, -0.5 * weight / given / weight.sum())
    check(
        loss,
        {"input": given, "weight": weight},
        lambda input, weight: -(weight * np.log(input)).sum() / weight.sum(),
        1e-12,
    )


@pytest.mark.spec("M-L2", "M-L6")
def test_metanns_ports_have_names_here() -> None:
    """LeftOperand and RightOperand are left and right, LayerInput and LayerOutput are input and output."""
    assert (
        layers.Add.inputs == layers.Subtract.inputs == layers.Multiply.inputs == layers.Dot.inputs == ("left", "right")
    )
    assert layers.NLLLoss.inputs == ("input", "weight")
    assert layers.Tanh.inputs == layers.Linear.inputs == ("input",)
    assert layers.Tanh.outputs == layers.Linear.outputs == ("output",)


@pytest.mark.spec("M-L3", headline=True)
@pytest.mark.parametrize("kind", [layers.ParamSource, layers.ValueSource])
def test_sources_are_initialized_from_buffer_value_or_filler_in_this_order(kind: type[layers.ParamSource]) -> None:
    """Initialise parameters and constants from the load buffer, else a named value, else a filler, else raise."""
    initializer = layers.Initializer({"w": [2.0, 2.0]}, filler=layers.Constant(3.0))
    held: dict[str, Any] = {"w": np.ones(2)}
    cases = [
        (held, initializer, 1.0, None),
        ({}, initializer, 2.0, None),
        ({}, layers.Initializer(filler=layers.Constant(3.0)), 3.0, None),
        ({}, layers.Initializer(), 4.0, layers.Constant(4.0)),
        ({}, layers.Initializer(filler=layers.Constant(3.0)), 4.0, layers.Constant(4.0)),
    ]
    for buffer, used, expected, filler in cases:
        source = kind("w", (2,), policies=[layers.ParameterPolicy.filler(filler)])
        source.init(used, buffer)
        np.testing.assert_array_equal(ex.evaluate(source()), [expected, expected])
        assert isinstance(buffer["w"], layers.Parameter)
    with refused(ex.StateError, "filler"):
        kind("w", (2,)).init()
    with pytest.raises(ex.StateError, match="is not initialized"):
        kind("w", (2,))()
    with pytest.raises(ex.OperandError, match=r"\(3,\)"):
        kind("w", (2,)).init(layers.Initializer({"w": [1, 2, 3]}))


@pytest.mark.spec("M-L3", "M-L8")
def test_a_failed_init_changes_nothing() -> None:
    """If one parameter has no initial value, no parameter is assigned and the buffer is unchanged."""
    layer = layers.Linear("l", 2, 3)
    buffer: dict[str, Any] = {}
    with pytest.raises(ex.StateError, match="'l/bias/parameter'"):
        layer.init(layers.Initializer({"l/weight/parameter": np.ones((2, 3))}), buffer)
    assert not buffer
    with pytest.raises(ex.StateError, match="is not initialized"):
        layer["weight"](np.ones(2))


@pytest.mark.spec("M-L5", "M-L7", headline=True)
def test_input_types_construct_a_training_layer() -> None:
    """Create a training layer from the types of its inputs or with train=True; other layers raise when fed backward."""
    type_ = ex.TensorType((2,), np.dtype(np.float32))
    typed = layers.Tanh("t", inputs={"input": type_}, policies=[FEEDBACK])
    assert typed.train
    assert isinstance(typed(np.ones(2, np.float32)), ex.Expr)
    assert isinstance(typed.feed_backward(np.ones(2)), ex.Expr)
    for other in (np.ones(3, np.float32), np.ones(2), np.ones((2, 1), np.float32)):
        with pytest.raises(ex.OperandError, match="was built, 2 float32"):
            typed(other)
    with pytest.raises(ex.OperandError, match=r"port 'right' .* has no value"):
        layers.Add("a", inputs={"left": type_})
    with refused(ex.DeclarationError, "TensorType"):
        layers.Tanh("t", inputs={"input": (2,)})  # type: ignore[dict-item]
    infer = layers.Tanh("t")
    infer(np.ones(2))
    infer.neutral_invariant()
    with refused(ex.StateError, "inference"):
        infer.feed_backward(np.ones(2))


@pytest.mark.spec("M-L6", headline=True)
def test_containers_are_set_in_any_order_and_read_by_name() -> None:
    """Set named containers in any order and read them by key; an unknown, missing or repeated key is an error."""
    empty = layers.Ports(("left", "right"))
    full = empty.set(right=2).set(left=1)
    assert (full["left"], full["right"], dict(full)) == (1, 2, {"left": 1, "right": 2})
    assert (len(empty), "left" in empty, empty.get("left", 7)) == (0, False, 7)
    with pytest.raises(ex.UnknownNameError, match=r"'lft'\n.*left"):
        empty.set(lft=1)
    with pytest.raises(ex.OperandError, match=r"set twice\n.*\n.*left, right"):
        full.set(left=3)
    with pytest.raises(ex.OperandError, match=r"'right' has no value\n.*left, right"):
        empty.set(left=1)["right"]
    for wrong in (lambda: full["lft"], lambda: full.get("lft"), lambda: full.get("lft", 7)):
        with pytest.raises(ex.UnknownNameError, match="'lft'"):
            wrong()
    layer = layers.Subtract("s")
    for given in (
        layer(np.ones(1), np.zeros(1)),
        layer(right=np.zeros(1), left=np.ones(1)),
        layer({"right": np.zeros(1), "left": np.ones(1)}),
    ):
        assert ex.evaluate(given) == 1


@pytest.mark.spec("M-L6")
def test_containers_support_any_keys_and_values() -> None:
    """MetaNN's VarTypeDict of A, B and Weight with true, "abc" and 15.

    Unknown, missing or repeated keys raise an error that lists the keys; a key may be a class, like MetaNN's tags.
    """
    params = layers.Container(("A", "B", "Weight"), "FParams")
    full = params.set(B="abc").set(Weight=15, A=True)
    assert (full["A"], full["B"], full["Weight"], [*full]) == (True, "abc", 15, ["A", "B", "Weight"])

    class Tag:
        """A user-defined key."""

    tags = layers.Container((Tag, 3, ("a", 1)))
    held = tags.set({3: None, Tag: [1, 2]})
    assert held[Tag] == [1, 2]
    assert held[3] is None
    assert isinstance(held.set({("a", 1): {}}), layers.Container)
    assert copy.deepcopy(held)[Tag] == held[Tag]
    wrong: list[tuple[Callable[[], Any], type[ex.ExplorerError], str]] = [
        (lambda: params.set(C=1), ex.UnknownNameError, r"unknown key of FParams 'C'\n.*A, B, Weight"),
        (lambda: full["C"], ex.UnknownNameError, r"'C'\n.*A, B, Weight"),
        (lambda: params["A"], ex.OperandError, r"'A' of FParams has no value\n.*A, B, Weight"),
        (lambda: full.set(A=1), ex.OperandError, r"'A' of FParams set twice\n.*\n.*A, B, Weight"),
        (lambda: params.set({"A": 1}, A=2), ex.OperandError, r"'A' of FParams set twice"),
        (lambda: tags.set({4: 1}), ex.UnknownNameError, r"'4'\n.*\('a', 1\), 3, Tag"),
        (lambda: held[("a", 1)], ex.OperandError, r"\('a', 1\) has no value"),
        (lambda: layers.Container(("A", "A")), ex.DeclarationError, "a tuple of different"),
        (lambda: layers.Container(([],)), ex.DeclarationError, "hashable"),
        (lambda: full.update(A=2), ex.StateError, "must not be changed"),
    ]
    for call, error, message in wrong:
        with pytest.raises(error, match=message):
            call()


@pytest.mark.spec("M-L7", headline=True)
def test_feeding_records_without_computing() -> None:
    """Feed forward and backward without computing; both return expressions in which each layer is one call."""
    bad = np.full((2, 2), np.nan)
    layer = layers.Linear("l", 2, 2, policies=[layers.PUpdate, FEEDBACK], train=True)
    layer.init(layers.Initializer(filler=layers.Constant(1.0)))
    with np.errstate(all="raise"):
        y = layer(bad)
        g = layer.feed_backward(bad)
    assert isinstance(y, ex.Expr)
    assert isinstance(g, ex.Expr)
    assert type(y.operation).__name__ == "Call"
    assert {"input", "weight/parameter", "bias/parameter"} == {p.label for p in y.operation.body.parameters}


@pytest.mark.spec("M-L8", headline=True)
def test_every_layer_has_the_whole_interface() -> None:
    """Provide methods for init, weights, gradients and neutrality in every layer; each may do nothing."""
    layer = layers.Tanh("t", train=True)
    layer.init()
    layer.load_weights({"other": np.ones(1)})
    assert layer.save_weights() == {}
    collector = layers.GradCollector()
    layer.grad_collect(collector)
    assert len(collector) == 0
    layer.neutral_invariant()
    assert layer.parameters() == {}
    assert layer.paths() == ()


@pytest.mark.spec("M-L8")
def test_general_functions_do_nothing_for_an_object_without_the_method() -> None:
    """The seven functions accept any object; without the method they return None or no weights."""
    buffer: dict[str, Any] = {}
    collector = layers.GradCollector()
    for thing in (object(), 3, None, "text", ex.tensor(1.0)):
        assert layers.init(thing, ONES, buffer) is None  # type: ignore[func-returns-value]
        assert layers.load_weights(thing, {}) is None  # type: ignore[func-returns-value]
        assert layers.save_weights(thing) == {}
        assert layers.grad_collect(thing, collector) is None  # type: ignore[func-returns-value]
        assert layers.neutral_invariant(thing) is None  # type: ignore[func-returns-value]
        assert layers.feed_forward(thing, 1, input=2) is None
        assert layers.feed_backward(thing, 1) is None
    assert (buffer, len(collector)) == ({}, 0)

    class Half:
        """Object with one of the seven methods."""

        def feed_forward(self, x: float) -> float:
            return x / 2

    layer = layers.Linear("l", 2, 1, policies=[layers.PUpdate, FEEDBACK], train=True)
    program: list[Any] = [Half(), layer, Half()]
    for part in program:
        layers.init(part, ONES, buffer)
    value: Any = np.array([2.0, 4.0], np.float32)
    for part in program:
        value = layers.feed_forward(part, value)
    assert ex.evaluate(value) == 2
    gradients = [layers.feed_backward(part, np.ones(1)) for part in reversed(program)]
    assert [gradient is None for gradient in gradients] == [True, False, True]
    with pytest.raises(ex.StateError, match="were not collected"):
        layers.neutral_invariant(layer)
    for part in program:
        layers.grad_collect(part, collector)
        layers.neutral_invariant(part)
    assert len(collector) == 2
    saved = {name: array * 0 for part in program for name, array in layers.save_weights(part).items()}
    for part in program:
        layers.load_weights(part, saved)
    assert not layer.save_weights()["l/bias/parameter"].any()
    with refused(ex.DeclarationError):
        layers.init(layers.Linear)


@pytest.mark.spec("M-L8")
def test_weights_are_saved_and_loaded_by_name_all_or_none() -> None:
    """All weights are checked before any is assigned, and recorded expressions keep their values."""
    layer = layers.Linear("l", 2, 1)
    layer.init(layers.Initializer(filler=layers.Constant(1.0)))
    before = layer(np.ones(2))
    saved = layer.save_weights()
    assert {name: array.shape for name, array in saved.items()} == {
        "l/weight/parameter": (2, 1),
        "l/bias/parameter": (1,),
    }
    wrong: list[tuple[Any, str]] = [
        ({"l/weight/parameter": np.zeros((2, 1))}, "unknown weight 'l/bias/parameter'"),
        ({"l/weight/parameter": np.zeros((2, 1)), "l/bias/parameter": np.zeros(3)}, r"\(3,\)"),
        ({"l/weight/parameter": np.zeros((2, 1)), "l/bias/parameter": [1j]}, "is complex128"),
        ({"l/weight/parameter": np.zeros((2, 1)), "l/bias/parameter": [[1], [2, 3]]}, "a regular array"),
    ]
    for weights, message in wrong:
        with pytest.raises(ex.ExplorerError, match=message):
            layer.load_weights(weights)
        assert ex.evaluate(layer(np.ones(2))) == 3
    layer.load_weights({name: array * 2 for name, array in saved.items()})
    assert ex.evaluate((before, layer(np.ones(2)))) == (3, 6)
    assert layer.save_weights()["l/bias/parameter"].dtype == np.float32


@pytest.mark.spec("M-L9", headline=True)
def test_a_layer_fed_forward_several_times_is_fed_backward_in_reverse_order() -> None:
    """Feed a layer forward several times and backward as often, in reverse order; it is neutral afterwards."""
    layer = layers.Square("s", policies=[FEEDBACK], train=True)
    inputs = [RANDOM.normal(size=shape) for shape in ((2,), (2, 3), ())]
    for given in inputs:
        layer(given)
    with pytest.raises(ex.StateError, match="fed forward 3 times more than backward"):
        layer.neutral_invariant()
    with pytest.raises(ex.OperandError, match="output's type, scalar float64"):
        layer.feed_backward(np.ones(2))
    for given in reversed(inputs):
        np.testing.assert_allclose(ex.evaluate(layer.feed_backward(np.ones(given.shape))), 2 * given)
    layer.neutral_invariant()
    with pytest.raises(ex.StateError, match="was not fed forward"):
        layer.feed_backward(1.0)


@pytest.mark.spec("M-L9")
def test_a_layer_is_neutral_only_after_its_gradients_were_collected() -> None:
    """This holds even if it was fed backward as often as forward; the error names the gradients."""
    layer = layers.Linear("l", 2, 1, policies=[layers.PUpdate], train=True)
    layer.init(ONES)
    layer.feed_backward(np.ones_like(ex.evaluate(layer(np.ones((3, 2), np.float32)))))
    waiting = r"gradients of 'l/bias/parameter', 'l/weight/parameter' were not collected"
    with pytest.raises(ex.StateError, match=waiting):
        layer.neutral_invariant()
    assert len(collected(layer)) == 2
    inner = layers.Linear("l", 2, 1, policies=[layers.PUpdate], train=True)
    inner.init(ONES)
    inner["weight"](np.ones((3, 2), np.float32))
    inner["weight"].feed_backward(np.ones((3, 1)))
    with pytest.raises(ex.StateError, match=r"Weight\('l/weight'\) is not neutral: gradients of 'l/weight/parameter'"):
        inner.neutral_invariant()


@pytest.mark.spec("M-L4")
def test_composites_document_their_sublayers() -> None:
    """The documentation of every composite names the sublayers whose policies Sub overrides."""
    chosen = [layers.PerceptronPolicy.activation(layers.Tanh), layers.RecurrentPolicy.step(layers.GRUStep)]
    values: list[layers.Composite] = [
        layers.Weight("l", 2, 3),
        layers.Bias("l", 3),
        layers.Linear("l", 2, 3),
        layers.SingleLayerPerceptron("l", 2, 3, policies=chosen),
        layers.GRUStep("l", 2, 3),
        layers.Recurrent("l", {"in_features": 2, "out_features": 3}, policies=chosen),
    ]
    for layer in values:
        text = " ".join((inspect.getdoc(type(layer)) or "").split()).partition("Sublayers: ")[2].partition(".")[0]
        assert {*re.split("[,;] ", text)} == {*layer.sublayers}, layer


@pytest.mark.spec("M-L11")
def test_row_vector_inputs_are_one_row() -> None:
    """With PRowVecInput a product's left operand is one row: a vector becomes 1×n, more rows raise an error."""
    weight = np.arange(6.0).reshape(2, 3)
    plain, row = layers.Dot("d"), layers.Dot("d", policies=[layers.PRowVecInput, FEEDBACK], train=True)
    x = np.array([1.0, 2.0])
    assert plain(x, weight).shape == (3,)
    y = row(x, weight)
    np.testing.assert_array_equal(ex.evaluate(y), (x @ weight)[None])
    gradient = row.feed_backward(np.ones((1, 3)))["left"]
    np.testing.assert_array_equal(ex.evaluate(gradient), weight.sum(axis=1))
    assert layers.Weight("w", 2, 3, policies=[layers.PRowVecInput])["product"].select(layers.InputPolicy).row_vector
    assert ex.evaluate(layers.Tanh("t", policies=[layers.PRowVecInput])(np.zeros((2, 2)))).shape == (2, 2)
    with refused(ex.OperandError, "row"):
        row(np.ones((2, 2)), weight)


@pytest.mark.spec("M-L14", headline=True)
def test_gradients_of_a_shared_parameter_are_summed() -> None:
    """Share a parameter with a dict of names or a load buffer, and collect the sum of all its gradients."""
    first, second = (layers.Linear(name, 2, 3, policies=[layers.PUpdate], train=True) for name in "ab")
    initializer = layers.Initializer(filler=layers.Uniform(), names={"b/weight/parameter": "a/weight/parameter"})
    buffer: dict[str, Any] = {}
    for layer in (first, second):
        layer.init(initializer, buffer)
    x = RANDOM.normal(size=(3, 2)).astype(np.float32)
    seeds = RANDOM.normal(size=(3, 3, 3)).astype(np.float32)
    for layer in (first, second, first):
        layer(x)
    for layer, seed in zip((first, second, first), (seeds[2], seeds[1], seeds[0]), strict=True):
        layer.feed_backward(seed)
    result = collected(first, second)
    assert set(result) == {"a/weight/parameter", "a/bias/parameter", "b/bias/parameter"}
    np.testing.assert_allclose(result["a/weight/parameter"], x.T @ seeds.sum(axis=0), rtol=1e-5)
    np.testing.assert_allclose(result["a/bias/parameter"], (seeds[0] + seeds[2]).sum(axis=0), rtol=1e-5)
    third = layers.Linear("a", 2, 3)
    third.init(layers.Initializer(), buffer)
    assert third["weight/parameter"].parameters()[""] is first["weight/parameter"].parameters()[""]
    first.load_weights({name: array * 0 for name, array in first.save_weights().items()})
    assert not third.save_weights()["a/weight/parameter"].any()
    narrow = layers.Linear("a", 2, 2)
    with pytest.raises(ex.OperandError, match=r"shares Parameter\('a/weight/parameter', 2×3 float32\)"):
        narrow.init(initializer, buffer)


@pytest.mark.spec("M-L7")
def test_feeding_backward_uses_the_last_unanswered_feeding_forward() -> None:
    layer = layers.Tanh("t", policies=[FEEDBACK], train=True)
    first, second = ex.tensor([0.5]), ex.tensor([2.0])
    layer(first), layer(second)
    for x in (second, first):
        np.testing.assert_allclose(ex.evaluate(layer.feed_backward(np.ones(1))), 1 - np.tanh(x.array) ** 2, rtol=1e-6)
    layer.neutral_invariant()
