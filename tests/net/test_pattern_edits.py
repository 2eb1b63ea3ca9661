"""Patterns found in nets, and replaced with operators of the net's own types."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import explorer as ex

pytestmark = pytest.mark.spec("I-12")

ASSETS = Path(__file__).parents[2] / "assets"
X = np.linspace(-1, 1, 2 * 64, dtype="float32").reshape(2, 1, 8, 8)


def gated() -> ex.Net:
    """Return a net in explorer's types with y = x · sigmoid(x) twice; the first sigmoid has another reader."""
    net = ex.Net("gated")
    net.input("x", (2, 3))
    net.Sigmoid("x", "s", name="gate")
    net.Mul(["x", "s"], "h", name="first")
    net.Sigmoid("h", "t")
    net.Mul(["t", "h"], "y", name="second")
    net.Add(["y", "s"], "z")
    net.output("z")
    return net


@pytest.mark.parametrize(
    ("file", "formula", "operator", "type"),
    [
        ("digits.pnnx.param", "nn.Tanh(x)", "relu1", "nn.Tanh"),
        ("digits.pnnx.param", "nn.Tanh(F.relu(x))", "relu1", "nn.Tanh"),
        ("digits.pnnx.param", "nn.LeakyReLU(x, negative_slope=0.5)", "relu1", "nn.LeakyReLU"),
        ("digits.onnx", "Tanh(x)", "/relu1/Relu", "Tanh"),
        ("digits.onnx", "Relu(Relu(x))", "/relu1/Relu", "Relu"),
    ],
)
@pytest.mark.spec("I-12", headline=True)
def test_a_pattern_is_found_and_replaced_in_a_net(
    file: str, formula: str, operator: str, type: str, tmp_path: Path
) -> None:
    """Find a pattern in a model and replace it with operators of its format; blobs and weights keep their names."""
    net, relu = ex.open(ASSETS / file), ex.pattern("relu(x)")
    before = net.text()
    matches = relu.find(net)
    assert operator in [name for match in matches for name in match.operators]
    edited = relu.replace(net, formula)
    assert net.text() == before
    assert edited[operator].type == type
    assert edited[operator].outputs == net[operator].outputs
    assert list(edited.outputs) == list(net.outputs)
    first = next(iter(net))
    assert dict(edited[first].weights) == dict(net[first].weights)
    function = {"nn.Tanh(x)": "tanh(x)", "Tanh(x)": "tanh(x)", "nn.Tanh(F.relu(x))": "tanh(relu(x))"}.get(formula)
    expected = ex.evaluate(relu.replace(net.build(X), function)) if function else edited.run(X)
    np.testing.assert_array_equal(edited.run(X), expected)
    assert relu.find(edited) == [] or "elu(" in formula.lower()
    path = tmp_path / file.replace("digits", "edited")
    edited.save(path)
    np.testing.assert_array_equal(ex.open(path).run(X), expected)


def test_operators_without_readers_are_removed() -> None:
    """An operator of a match stays if another one reads it."""
    net, silu = gated(), ex.pattern("x * sigmoid(x)")
    assert [match.operators for match in silu.find(net)] == [("gate", "first"), ("sigmoid", "second")]
    edited = silu.replace(net, "Tanh(x)")
    assert list(edited) == ["gate", "first", "second", "add"]
    x = np.ones((2, 3), "float32")
    np.testing.assert_allclose(edited.run(x), np.tanh(np.tanh(x)) + 1 / (1 + np.exp(-x)), rtol=1e-6)


def test_a_rewritten_blob_is_read_in_the_version_of_the_match() -> None:
    """The replacement reads the same version, or an error has the blob's history."""
    net = ex.Net("in place")
    net.input("x", (3,))
    net.Relu("x", "x")
    net.Tanh("x", "h")
    net.Mul(["x", "h"], "y", name="product")
    net.Sigmoid("x", "x")
    net.output("y", "x")
    x = np.array([-1, 0.5, 2], "float32")
    product = ex.pattern("a * tanh(b)")
    edited = product.replace(net, "Add(a, Relu(b))")
    assert edited["product"].inputs == ("x", "product_relu")
    np.testing.assert_array_equal(edited.run(x)["y"], 2 * np.maximum(x, 0))
    assert ex.pattern("sin(x) * y").near_misses(net)[0].operator == "product"
    late = ex.Net("overwritten")
    late.Tanh(late.input("x", (3,)), "h")
    late.Sigmoid("x", "x")
    late.Relu("h", "y", name="late")
    late.output("x", "y")
    with pytest.raises(ex.OperandError, match="'late' reads x@0, which is overwritten by then"):
        ex.pattern("relu(tanh(x))").replace(late, "Relu(x)")


@pytest.mark.parametrize(
    ("pattern", "formula", "message"),
    [
        ("x * sigmoid(x)", "x", "it must be an operator"),
        ("x * sigmoid(x)", "Tahn(x)", "unknown operator type of explorer 'Tahn'"),
        ("x * sigmoid(x)", "Mul(x, 2)", "the operand 2 .*\n.*numbers are arguments"),
        ("x * sigmoid(x)", "Tanh(w)", "variable 'w' of a match at .*it is not in the pattern"),
        ("x * sigmoid(x)", "Transpose(x)", "replaced by"),
        ("x * sigmoid(x)", "FC(x)", "it must read 2 to 3 blobs"),
        ("x * sigmoid(x)", lambda x: x, "must be a string with a formula of the net's operator types"),
    ],
)
def test_an_invalid_replacement_raises_an_error(pattern: str, formula: str, message: str) -> None:
    net = gated()
    before = net.text()
    with pytest.raises(ex.ExplorerError, match=message):
        ex.pattern(pattern).replace(net, formula)
    assert net.text() == before


def test_a_match_within_an_operator_is_found_but_not_replaced() -> None:
    """Part of an operator cannot be replaced in a net: the error names the operator and the value."""
    net = ex.open(ASSETS / "digits.onnx")
    assert ex.pattern("a + b").find(net)[0].operators == ("/conv1/Conv",)
    for pattern, message in (
        ("relu(a + b)", "variable 'a' of a match at /conv1/Conv, /relu1/Relu: it is conv2d within an operator"),
        ("matmul(a, b)", "a match that ends at matmul within operator '/fc1/Gemm'"),
    ):
        with pytest.raises(ex.OperandError, match=message):
            ex.pattern(pattern).replace(net, "Add(a, b)")
