"""Nets of other formats, layers and expressions written to ONNX files from their recorded operations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import explorer as ex

ASSETS = Path(__file__).parents[4] / "assets"
images = np.load(ASSETS / "digits.npz")["images"]
rng = np.random.default_rng(0)


def _run(path: Path, **inputs: Any) -> list[Any]:
    onnx.checker.check_model(path, full_check=True)
    return ReferenceEvaluator(str(path)).run(None, inputs)  # type: ignore[no-any-return]


@pytest.mark.spec("C-12", "I-13")
@pytest.mark.parametrize("level", ["digits.pnnx.param", "digits_opt1.pnnx.param"])
def test_a_pnnx_net_keeps_its_names_and_its_unknown_batch_size(level: str, tmp_path: Path) -> None:
    net = ex.open(ASSETS / level)
    net.save(tmp_path / "x.onnx")
    (name,) = net.inputs
    for count in (1, 7):
        np.testing.assert_allclose(
            _run(tmp_path / "x.onnx", **{name: images[:count]})[0], net.run(images[:count]), atol=1e-6
        )
    again = ex.open(tmp_path / "x.onnx")
    assert list(again.inputs) == list(net.inputs)
    assert list(again.outputs) == list(net.outputs)
    assert again.inputs[name].shape == (None, 1, 8, 8)
    assert {weight.key for operator in net.definition.operators for weight in operator.weights.values()} <= {
        tensor.name for tensor in onnx.load(tmp_path / "x.onnx").graph.initializer
    }
    np.testing.assert_array_equal(again.run(images), net.run(images))


@pytest.mark.spec("C-12")
def test_a_net_defined_by_names_is_written(tmp_path: Path) -> None:
    net = ex.Net("perceptron")
    x = net.input("x", ("batch", 4))
    net.FC([x, net.input("w", (3, 4)), net.input("b", (3,))], "h")
    net.output(net.Softmax(net.Relu("h", "r"), "y"))
    net.save(tmp_path / "x.onnx")
    arrays = {
        name: rng.standard_normal(shape).astype("f") for name, shape in {"x": (5, 4), "w": (3, 4), "b": (3,)}.items()
    }
    np.testing.assert_allclose(_run(tmp_path / "x.onnx", **arrays)[0], net.run(arrays), rtol=1e-5)
    assert ex.open(tmp_path / "x.onnx").inputs["x"].shape == ("batch", 4)


def test_outputs_that_are_inputs_or_listed_twice_are_written(tmp_path: Path) -> None:
    """An output may be an input, and one value may be two outputs, in nets of any format."""
    net = ex.Net("passing")
    net.input("x", (2,))
    net.Relu("x", "y")
    net.set_outputs(["x", "y", "y", "x"])
    x = np.array([1, -2], np.float32)
    expected = {"x": x, "y": [1, 0], "y_2": [1, 0], "x_2": x}
    net.save(tmp_path / "x.onnx")
    for results in (net.run(x), ex.open(tmp_path / "x.onnx").run(x)):
        np.testing.assert_equal(results, expected)
    np.testing.assert_equal(_run(tmp_path / "x.onnx", x=x), [*expected.values()])


def test_broadcast_lengths_follow_the_input(tmp_path: Path) -> None:
    def rows(x: ex.Expr) -> ex.Expr:
        count, length = x.shape
        whole = ex.broadcast_to(ex.tensor(np.ones((1, 1), "f")), (count, 2))
        return ex.concatenate(
            [whole, x[:, : length - 1], x[:, -1:], ex.reshape(x, (count * length // count, count)).T], 1
        )

    ex.save(rows, tmp_path / "x.onnx", {"x": ("n", "m")})
    for shape in ((1, 4), (3, 2)):
        x = rng.standard_normal(shape).astype("f")
        np.testing.assert_array_equal(_run(tmp_path / "x.onnx", x=x)[0], ex.evaluate(rows(ex.tensor(x))))


def test_a_computed_length_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(ex.OperandError, match="length that is computed from unknown lengths"):
        ex.save(lambda x: x[:1] + ex.ZeroTensor((2 * x.shape[0],), "float32"), tmp_path / "x.onnx", {"x": ("n",)})
    assert not list(tmp_path.iterdir())


def test_control_flow_and_recurrences_are_inner_graphs(tmp_path: Path) -> None:
    weights = ex.tensor(rng.standard_normal((4, 4)).astype("f"), name="weights")

    def steps(x: ex.Expr, go: ex.Expr) -> Any:
        last, sums = ex.scan(lambda state, row: (state + row @ weights, state), ex.ZeroTensor((4,), "float32"), x)
        _, total = ex.while_loop(
            lambda state: state[0] < 5, lambda state: (state[0] + 1, state[1] * 0.5 + last), (ex.tensor(0), last)
        )
        return ex.cond(go, lambda: sums + total, lambda: sums @ weights)

    types = {"x": ("n", 4), "go": ex.TensorType((), "bool")}
    ex.save(steps, tmp_path / "x.onnx", types)
    assert {node.op_type for node in onnx.load(tmp_path / "x.onnx").graph.node} >= {"Scan", "Loop", "If"}
    for count, go in ((3, True), (5, False)):
        x = rng.standard_normal((count, 4)).astype("f")
        expected = ex.evaluate(steps(ex.tensor(x), ex.tensor(go)))
        np.testing.assert_allclose(_run(tmp_path / "x.onnx", x=x, go=np.array(go))[0], expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(
            ex.open(tmp_path / "x.onnx").run(x=x, go=np.array(go)), expected, rtol=1e-4, atol=1e-5
        )


def test_functions_are_inlined_with_their_boxes(tmp_path: Path) -> None:
    @ex.function
    def double(x: ex.Expr) -> ex.Expr:
        return x + x

    x = rng.standard_normal((2, 3)).astype("f")
    ex.save(lambda x: {"y": double(double(x)), "same": x}, tmp_path / "x.onnx", {"x": (2, 3)})
    y, same = _run(tmp_path / "x.onnx", x=x)
    np.testing.assert_array_equal(y, 4 * x)
    np.testing.assert_array_equal(same, x)


def test_only_expressions_can_be_written_and_only_to_onnx(tmp_path: Path) -> None:
    x = ex.tensor(np.ones(3, "f"))
    ex.save(ex.tanh(x), tmp_path / "x.onnx")
    np.testing.assert_allclose(_run(tmp_path / "x.onnx")[0], np.tanh(np.ones(3, "f")))
    with pytest.raises(ex.FileError, match=r"must be written to a file whose name ends with \.onnx"):
        ex.save(ex.tanh(x), tmp_path / "x.json")
    for what in (3, [x, "x"], []):
        with pytest.raises(ex.OperandError, match="only a net, expressions, or a layer"):
            ex.save(what, tmp_path / "y.onnx")
    with pytest.raises(ex.OperandError, match="shapes of its inputs"):
        ex.save(ex.tanh, tmp_path / "y.onnx")
    with pytest.raises(ex.OperandError, match="an input 3"):
        ex.save(ex.tanh, tmp_path / "y.onnx", {"x": 3})  # type: ignore[dict-item]
    with pytest.raises(ex.OperandError, match="inputs= for a net"):
        ex.save(ex.open(ASSETS / "digits.onnx"), tmp_path / "y.onnx", {"x": (1,)})
    assert [path.name for path in tmp_path.iterdir()] == ["x.onnx"]
