"""Changes of the shapes of inputs: the operands that follow, and the operator that does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer as ex

RANDOM = np.random.default_rng(4)


def opened(path: Any, nodes: list[Any], weights: dict[str, Any], output: list[Any]) -> ex.Net:
    """Return a net with an input x (1, 3, 8, 8) and an output y, and with the inferred shapes of all operands."""
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, output)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    return ex.open(path)


def conv(reads: str = "x") -> Any:
    return helper.make_node("Conv", [reads, "k"], ["c"], "conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1])


KERNEL = {"k": RANDOM.normal(size=(4, 3, 3, 3)).astype("float32")}
FLAT = {**KERNEL, "w": RANDOM.normal(size=(256, 5)).astype("float32")}


@pytest.mark.spec("Q-9", headline=True)
def test_a_fixed_batch_size_is_changed_with_the_shapes_of_all_operands(tmp_path: Any) -> None:
    """Change the batch size or another length of an input that the exporter has fixed, and save the net."""
    nodes = [conv(), helper.make_node("Flatten", ["c"], ["f"]), helper.make_node("MatMul", ["f", "w"], ["y"])]
    net = opened(tmp_path / "a.onnx", nodes, FLAT, [1, 5])
    x = RANDOM.normal(size=(8, 3, 8, 8)).astype("float32")
    rows = [net.run(row[None])[0] for row in x]
    net.resize_inputs(x=(8, 3, 8, 8))
    assert {name: blob.shape for name, blob in net.operands.items()} == {
        "x": (8, 3, 8, 8),
        "c": (8, 4, 8, 8),
        "f": (8, 256),
        "y": (8, 5),
    }
    assert net.check() == []
    net.save(tmp_path / "b.onnx")
    np.testing.assert_allclose(ex.open(tmp_path / "b.onnx").run(x), rows, rtol=1e-5, atol=1e-5)


@pytest.mark.spec("Q-9")
@pytest.mark.parametrize(
    ("middle", "weights", "said"),
    [
        (("Reshape", ["c", "s"]), {"s": np.int64([1, 256])}, "operator 'middle' (Reshape"),
        (("Reshape", ["c", "s"]), {"s": np.int64([1, -1])}, "(Reshape) now returns (1, 2048) in place of (1, 256)"),
        (("Flatten", ["c"]), {}, ""),
        (("Reshape", ["c", "s"]), {"s": np.int64([0, -1])}, ""),
        (("Reshape", ["c", "s"]), {"s": np.int64([-1, 256])}, ""),
    ],
)
def test_the_first_operator_that_does_not_accept_the_batch_is_named(
    middle: Any, weights: dict[str, Any], said: str, tmp_path: Any
) -> None:
    """The product after it would fail, too, but is not to blame; the net is not changed."""
    type, reads = middle
    nodes = [
        conv(),
        helper.make_node(type, reads, ["f"], "middle"),
        helper.make_node("MatMul", ["f", "w"], ["y"], "product"),
    ]
    net = opened(tmp_path / "a.onnx", nodes, {**FLAT, **weights}, [1, 5])
    if not said:
        net.resize_inputs({"x": (8, 3, 8, 8)})
        assert net.outputs["y"].shape == (8, 5)
        return
    before = net.definition
    with pytest.raises(ex.OperandError) as caught:
        net.resize_inputs({"x": (8, 3, 8, 8)})
    assert caught.value.given.startswith("input 'x' of shape (8, 3, 8, 8): ")
    assert said in caught.value.given
    assert net.definition is before


@pytest.mark.spec("Q-9")
def test_an_operator_that_takes_one_sample_of_the_batch_is_named(tmp_path: Any) -> None:
    """It accepts the new shape, but its result has one row."""
    weights = {"a": np.int64([0]), "b": np.int64([1]), "axis": np.int64([0])}
    nodes = [conv(), helper.make_node("Slice", ["c", "a", "b", "axis"], ["y"], "first")]
    net = opened(tmp_path / "a.onnx", nodes, {**KERNEL, **weights}, [1, 4, 8, 8])
    with pytest.raises(ex.OperandError, match=r"operator 'first' \(Slice\) still returns \(1, 4, 8, 8\)") as caught:
        net.resize_inputs(x=(8, 3, 8, 8))
    assert caught.value.rule == "the first axis must have 8 in place of 1, one row for each sample"


@pytest.mark.spec("Q-9")
def test_other_lengths_and_named_lengths_are_changed(tmp_path: Any) -> None:
    """A named length is fixed wherever the file names it; other unknown lengths stay unknown."""
    net = opened(tmp_path / "a.onnx", [conv(), helper.make_node("Relu", ["c"], ["y"])], KERNEL, [1, 4, 8, 8])
    net.resize_inputs(x=(1, 3, 16, 32))
    assert net.outputs["y"].shape == (1, 4, 16, 32)
    with pytest.raises(ex.OperandError, match="must keep its number of axes"):
        net.resize_inputs(x=(1, 3, 16))
    with pytest.raises(ex.OperandError, match=r"at least 1"):
        net.resize_inputs(x=(0, 3, 8, 8))
    with pytest.raises(ex.UnknownNameError, match="unknown input"):
        net.resize_inputs(z=(1, 3, 8, 8))
    with pytest.raises(ex.OperandError, match=r"resize_inputs\(\(8, 3, 8, 8\)\)") as caught:
        net.resize_inputs((8, 3, 8, 8))  # type: ignore[arg-type]
    assert caught.value.rule == "a shape must be given with the name of its input; inputs of this net: 'x'"
    assert caught.value.fix == "net.resize_inputs(x=(8, 3, 8, 8))"
    with pytest.raises(ex.OperandError, match=r"x=\(8, 3, 224, 224\)"):
        net.resize_inputs(8)  # type: ignore[arg-type]
    named = ex.Net("named")
    named.input("a/x", (1, 2))
    named.input("b", (1, 2))
    with pytest.raises(ex.OperandError, match=r"'a/x' and 1 other\n.*'a/x': \(4, 2\)}"):
        named.resize_inputs((4, 2))  # type: ignore[arg-type]
    named = ex.Net("named")
    named.input("x", ("batch", "time", 2))
    named.input("other", ("batch", "time", 2))
    named.output(named.Add(["x", "other"], "y"))
    named.resize_inputs(x=(8, 5, 2))
    assert named.inputs["other"].shape == (8, 5, 2)
