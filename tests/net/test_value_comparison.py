"""Comparison of a net's values with a reference: the first different operator, by how much, and in a view."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest

import explorer as ex
from explorer.net import Net
from explorer.net.definition.definition import NetDefinition, OperatorDefinition
from explorer.net.operand_matching import Operands, in_terms_of, matched, origins_of
from explorer.net.value_comparison import ValueComparison
from explorer.view.tree.scopes import NodesByName
from tests.support.precision_files import SMALL, small_files
from tests.support.tflite_files import small_tflite_files

ASSETS = Path(__file__).parents[2] / "assets"
digits = np.load(ASSETS / "digits.npz")
images = digits["images"]


def opened(name: str = "digits.onnx") -> Net:
    return ex.open(ASSETS / name)


def changed() -> Net:
    """Return the digits net with the weights of the first layer after the residual block increased by 1 %."""
    net = opened()
    net["/fc1/Gemm"].weights["B"] = ex.evaluate(net["/fc1/Gemm"].weights["B"]) * np.float32(1.01)
    return net


@pytest.mark.spec("I-20", headline=True)
def test_the_first_operator_that_differs_is_named_with_both_values() -> None:
    """Compare a net's values with a reference, and name the first operator that differs, with both values."""
    comparison = changed().compare(opened(), images)
    first = comparison.first
    assert isinstance(comparison, ValueComparison)
    assert first is not None
    assert (first.operator, first.type) == ("/fc1/Gemm", "Gemm")
    assert first.error == pytest.approx(0.01, rel=0.2)
    assert first.reference.mean is not None
    assert first.value.mean == pytest.approx(first.reference.mean * 1.01, rel=0.1)
    names = [row.name for row in comparison.rows]
    assert [row.name for row in comparison.rows if row.problem] == names[names.index(first.name) :]
    text = str(comparison)
    assert "the first that differs is '/fc1/Gemm_output_0' of operator '/fc1/Gemm' (Gemm): relative error 0.0" in text
    assert "reference" in text.splitlines()[2]
    assert f"{names.index(first.name)} operands before it agree" in text
    assert "after it differ: /relu3/Relu_output_0" in text


@pytest.mark.spec("I-20")
def test_a_quantized_net_can_be_compared_repeatedly() -> None:
    """Each comparison runs a separate program, so that freed constants are included, too."""
    net = opened("digits_int8.onnx")
    for _ in range(2):
        comparison = net.compare("onnx.reference", images)
        assert comparison.equal
        assert "fc1.weight_DequantizeLinear_Output" in [row.name for row in comparison.rows]


@pytest.mark.spec("I-20")
@pytest.mark.parametrize("executor", ["simple", "dag", "async"])
def test_a_net_equals_the_reference_evaluator(executor: str) -> None:
    """`net.compare("onnx.reference", x)` runs the net's file step by step in the onnx package's evaluator."""
    comparison = opened().compare("onnx.reference", images, executor=executor)
    assert comparison.equal
    assert len(comparison.rows) == 14
    assert comparison.absent == ("/relu2/Relu_output_0",)  # the plan moves the maximum before the relu
    assert max(row.error for row in comparison.rows) < 1e-6
    assert "14 operands compared, all agree" in str(comparison)


@pytest.mark.spec("I-20")
def test_a_dict_of_arrays_is_a_reference() -> None:
    """It maps names of operands to arrays, as hooks of another framework collect them, and includes the inputs."""
    kept = {key.removeprefix("activation/"): digits[key] for key in digits if key.startswith("activation/")}
    net = opened("digits.pnnx.param")
    assert net.compare(kept, images[:3]).equal
    assert net.compare({"0": images[:3], **kept}).equal
    assert net.compare({**kept, "15": kept["15"] + 1e-3}, images[:3]).first.name == "15"
    assert net.compare({**kept, "15": kept["15"] + 1e-3}, images[:3], tolerance=0.01).equal


@pytest.mark.spec("I-20")
def test_outputs_of_a_net_in_another_format_are_compared_in_order() -> None:
    """Different formats name operands differently, so only outputs are compared."""
    comparison = opened("digits.pnnx.param").compare(opened(), images)
    assert [row.operator for row in comparison.rows] == ["softmax"]
    assert comparison.equal
    assert str(comparison).endswith("not compared: 14 other operands, because no values with their names are in digits")


@pytest.mark.spec("I-20")
def test_a_net_with_other_inputs_raises_an_error() -> None:
    other = ex.Net("other")
    other.output(other.Relu(other.input("x", (2,), "int64"), "y"))
    with pytest.raises(ex.OperandError, match="'other' as a reference of net 'digits'") as caught:
        opened().compare(other, images)
    assert caught.value.rule.startswith("a reference must accept the inputs of the net; ")
    assert "astype" not in caught.value.fix


class Session(SimpleNamespace):
    """Session with the two methods of onnxruntime sessions that are used."""

    def get_outputs(self) -> list[Any]:
        return [SimpleNamespace(name="probability")]

    def run(self, names: list[str], inputs: dict[str, Any]) -> list[Any]:
        assert names == ["probability"]
        return [self.net.run(inputs) * 2]


@pytest.mark.spec("I-20")
def test_outputs_of_a_session_are_compared() -> None:
    """An InferenceSession has only outputs, and none of its private attributes is read."""
    comparison = opened().compare(Session(net=opened()), images)
    assert [row.name for row in comparison.rows] == ["probability"]
    assert comparison.rows[0].error == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("value", "reference", "words"),
    [
        ([1.0, np.nan], [1.0, 2.0], "NaN or infinite"),
        ([1.0, np.inf], [1.0, -np.inf], "NaN or infinite"),
        ([1.0, 2.0], [[1.0, 2.0]], "its shape is (2,), the reference's (1, 2)"),
        ([1.0, np.nan], [1.0, np.nan], ""),
        ([0.0, 0.0], [0.0, 1e-3], "relative error 1"),
    ],
)
def test_values_differ_by_shape_special_elements_or_size(value: Any, reference: Any, words: str) -> None:
    net = ex.Net("positive")
    net.output(net.Copy(net.input("x", (2,)), "y"))
    x = np.array(value, "float32")
    first = net.compare({"y": np.array(reference, "float32")}, x).first
    assert (first.problem if first else "")[: len(words)] == words


def test_integers_must_be_equal_without_a_tolerance() -> None:
    net = ex.Net("same")
    net.output(net.Copy(net.input("x", (2,), dtype="int64"), "y"))
    x = np.array([1, 10**6])
    assert net.compare({"y": x}, x).equal
    other = np.array([1, 10**6 + 1])
    assert not net.compare({"y": other}, x).equal
    assert net.compare({"y": other}, x, tolerance=1e-3).equal
    assert "dtype" in net.compare({"y": x.astype(float)}, x).first.problem


@pytest.mark.spec("I-20")
def test_the_view_of_a_comparison_selects_the_first_different_operator() -> None:
    """`comparison.explore()` colours the graph by relative error."""
    view = changed().compare(opened(), images).explore()
    assert view.selected_scope == "fc1 / Gemm"
    (metric,) = view.state.overlays
    assert metric.name == "relative error"
    assert metric.of is not None
    assert view.payload["options"]["heat"] == "relative error"
    nodes = NodesByName(view.recording)
    assert metric.of(view.recording, nodes["/conv1/Conv"][-1]) == 0
    assert metric.of(view.recording, nodes["/fc1/Gemm"][-1]) == pytest.approx(0.01, rel=0.2)


def test_an_operator_is_found_by_its_name_in_the_file() -> None:
    view = opened().explore()
    view.focus("/fc1/Gemm")
    assert view.selected_scope == "fc1 / Gemm"


def test_an_invalid_reference_raises_an_error() -> None:
    net = opened()
    with pytest.raises(
        ex.OperandError, match=r"must be a net, 'onnxruntime', 'onnx\.reference', 'litert', an InferenceSession"
    ):
        net.compare(5, images)
    with pytest.raises(ex.OperandError, match="must have values of operands"):
        net.compare({"nothing": np.ones(3)}, images)
    with pytest.raises(ex.OperandError, match=r"(?s)without inputs.*a reference also needs inputs"):
        net.compare("onnx.reference")


@pytest.mark.spec("Q-6", headline=True)
def test_a_quantized_file_is_compared_with_the_float_file_and_ranked_by_sqnr(tmp_path: Path) -> None:
    """Compare an int8 or float16 file with its float32 original, and rank operators by SQNR."""
    files = {name: ex.open(path) for name, path in small_files(tmp_path).items()}
    comparison = files["int8"].compare(files["float32"], SMALL)
    assert {row.counterpart: row.name for row in comparison.ranked} == {
        "x": "x_DequantizeLinear_Output",
        "r": "r_DequantizeLinear_Output",
        "f": "f_DequantizeLinear_Output",
        "g": "g_DequantizeLinear_Output",
        "y": "y",
    }
    assert {row.operator for row in comparison.ranked} == {"x_DequantizeLinear", "conv", "flatten", "matmul", "sigmoid"}
    ranks = [row.own.sqnr for row in comparison.ranked if row.own is not None]
    assert ranks == sorted(ranks)
    assert 10 < ranks[0] < ranks[-1] < 60
    row = next(row for row in comparison.ranked if row.name == "y")
    ours, other = (np.asarray(files[name].run(SMALL), "float64") for name in ("int8", "float32"))
    assert row.sqnr == pytest.approx(10 * np.log10((other**2).sum() / ((ours - other) ** 2).sum()))
    assert row.cosine == pytest.approx((ours * other).sum() / np.sqrt((ours**2).sum() * (other**2).sum()))
    assert row.max_error == pytest.approx(np.abs(ours - other).max())
    assert row.mean_error == pytest.approx(np.abs(ours - other).mean())
    worst = [row.operator for row in comparison.ranked if row.type != "DequantizeLinear"]
    assert comparison.keep_in_float(3) == worst[:3]
    assert "lowest own SQNR, on the operands of float32" in str(comparison)
    with pytest.raises(ex.OperandError, match="at least 1"):
        comparison.keep_in_float(0)
    backwards = files["float32"].compare(files["int8"], SMALL)
    assert {row.name: row.counterpart for row in backwards.rows} == {
        "r": "r_DequantizeLinear_Output",
        "f": "f_DequantizeLinear_Output",
        "g": "g_DequantizeLinear_Output",
        "y": "y",
    }
    assert backwards.is_converted


@pytest.mark.spec("Q-6")
def test_floating_inputs_are_cast_to_the_precision_of_each_net(tmp_path: Path) -> None:
    """The result states the casts; integers are not cast."""
    files = {name: ex.open(path) for name, path in small_files(tmp_path).items()}
    half = files["float16"].compare(files["float32"], SMALL, tolerance=0.05)
    assert [row.name for row in half.rows] == ["c", "r", "f", "g", "y"][-len(half.rows) :]
    assert half.equal
    assert half.casts == (
        "input 'x' of net 'float16', float32 to float16",
        "input 'x' of net 'float32', float16 to float32",
    )
    assert "cast: input 'x' of net 'float16', float32 to float16" in str(half)
    assert half.first is None
    assert files["float32"].compare(files["float16"], SMALL).casts == half.casts[:1]
    ends = files["casts"].compare(files["float32"], SMALL, tolerance=0.05)
    assert ends.casts == ()
    assert {"f", "g", "y"} <= {row.counterpart for row in ends.rows}
    assert {row.operator for row in ends.rows if row.counterpart == "y"} == {"sigmoid"}
    with pytest.raises(ex.OperandError, match="int64"):
        files["float32"].compare(files["float16"], SMALL.astype("int64"))


@pytest.mark.spec("Q-6")
def test_an_operators_own_error_is_computed_from_the_operands_of_the_reference(tmp_path: Path) -> None:
    """It includes the quantization of operands, weights and the result, and no error of earlier operators."""
    files = {name: ex.open(path) for name, path in small_files(tmp_path).items()}
    exact = {name: files["float32"].cut(outputs=[name]).run(SMALL) for name in ("r", "f", "g", "y")}
    rows = {row.counterpart: row for row in files["int8"].compare(files["float32"], SMALL).ranked}
    for read, result in [("r", "f_DequantizeLinear_Output"), ("f", "g_DequantizeLinear_Output"), ("g", "y")]:
        ours = files["int8"].cut(inputs=[read], outputs=[result]).run(exact[read]).astype("float64")
        other = exact[result.partition("_")[0]].astype("float64")
        own = rows[result.partition("_")[0]].own
        assert own is not None
        assert own.sqnr == pytest.approx(10 * np.log10((other**2).sum() / ((ours - other) ** 2).sum()), rel=1e-3)
        assert own.max_error == pytest.approx(np.abs(ours - other).max(), rel=1e-3)
    assert rows["r"].own == pytest.approx(rows["r"][8:12])  # nothing comes before the convolution
    assert rows["y"].own is not None
    assert rows["y"].own.sqnr > rows["y"].sqnr + 10  # the sigmoid reads a wrong operand, and is exact itself
    sides = [files["casts"].compare(files["float32"], SMALL, executor=each) for each in ("simple", "onnx.reference")]
    ours, other = ({row.name: row.own.max_error for row in each.rows if row.own} for each in sides)
    assert {name: other[name] for name in ours} == pytest.approx(ours, rel=0.5)  # float16 sigmoids differ
    assert all(row.own is None for row in files["float32"].compare("onnx.reference", SMALL).rows)


@pytest.mark.spec("Q-6")
def test_outliers_are_traced_to_the_operators_that_a_quantizer_must_skip() -> None:
    """A channel with outliers makes the next operator wrong, since it reads a coarsely quantized operand.

    The files are made by onnxruntime's quantizer; for the last one, it skipped the operators of the list.
    """
    original, int8, mixed = (opened(f"outliers{end}.onnx") for end in ("", "_int8", "_mixed"))
    comparison = int8.compare(original, images)
    worst = comparison.ranked[0]
    assert worst.operator == "/conv2/Conv"
    assert worst.own is not None
    assert worst.own.sqnr < 3
    assert worst.operand_share is not None
    assert worst.operand_share > 0.5
    assert [row.rank > 30 for row in comparison.ranked[1:]] == [True] * (len(comparison.ranked) - 1)
    assert min(comparison.ranked, key=lambda row: row.sqnr).operator != "/conv2/Conv"  # later errors are larger
    assert comparison.keep_in_float(1) == ["/conv2/Conv", "/conv1/Conv"]
    assert comparison.explore().selected_scope == "conv2 / Conv"  # not residual / conv2 / Conv
    answers = [net.run(images).argmax(axis=1) for net in (original, int8, mixed)]
    assert (answers[0] == answers[2]).all()
    assert (answers[0] == answers[1]).mean() < 0.3
    assert min(row.rank for row in mixed.compare(original, images).ranked) > 30


@pytest.mark.spec("Q-6")
def test_fused_and_renamed_operators_are_matched_by_the_graph(tmp_path: Path) -> None:
    """In the int8 file, the convolution also computes the Relu, and no name is the name of the float32 file."""
    paths = small_files(tmp_path)
    model = onnx.load(paths["int8"])
    for node in model.graph.node:
        node.name = f"renamed_{node.name}"
        for names in (node.input, node.output):
            names[:] = [f"v_{name}" for name in names]
    for each in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        each.name = f"v_{each.name}"
    onnx.save(model, paths["int8"].with_name("renamed.onnx"))
    original = ex.open(paths["float32"])
    named = ex.open(paths["int8"]).compare(original, SMALL)
    renamed = ex.open(tmp_path / "renamed.onnx").compare(original, SMALL)
    expected = {row.counterpart: (row.sqnr, row.own) for row in named.ranked if row.counterpart != "x"}
    assert {row.counterpart: (row.sqnr, row.own) for row in renamed.ranked} == expected
    (row,) = [row for row in renamed.ranked if row.counterpart == "r"]
    assert row.origins == (("conv", "Conv"), ("relu", "Relu"))
    assert "  conv + relu became renamed_conv" in str(renamed)
    assert renamed.keep_in_float(2) == ["matmul", "conv"]


@pytest.mark.spec("Q-6")
def test_integers_of_qoperator_files_are_compared_as_real_numbers(tmp_path: Path) -> None:
    """The numbers equal those of the same net with QuantizeLinear and DequantizeLinear; names do not show the Relu."""
    files = {name: ex.open(path) for name, path in small_files(tmp_path).items()}
    comparison = files["integers"].compare(files["float32"], SMALL)
    rows = {row.counterpart: row for row in comparison.ranked}
    assert {name: row.operator for name, row in rows.items()} == {
        "x": "x_QuantizeLinear",
        "r": "conv_quant",
        "f": "flatten",
        "g": "matmul_quant",
        "y": "sigmoid_quant",
    }
    others = {row.counterpart: row for row in files["int8"].compare(files["float32"], SMALL).ranked}
    for name, row in rows.items():
        assert row.own is not None
        assert row.sqnr == pytest.approx(others[name].sqnr, abs=0.5)
        assert row.own.sqnr == pytest.approx(others[name].own.sqnr, abs=0.5)
    assert rows["r"].origins == (("conv", "Conv"), ("relu", "Relu"))
    assert rows["r"].operand_share is None  # an integer operator has no result without quantization
    assert (rows["r"].value.dtype, rows["r"].reference.dtype) == ("uint8", "float32")
    assert rows["r"].value.max == pytest.approx(rows["r"].reference.max, rel=0.2)
    assert comparison.keep_in_float(2) == ["matmul", "conv"]
    assert comparison.unmatched == 0
    backwards = files["float32"].compare(files["integers"], SMALL)
    assert {row.name: row.counterpart for row in backwards.rows} == {
        "r": "c_quantized",
        "f": "f_quantized",
        "g": "g_quantized",
        "y": "y",
    }
    assert files["integers"].compare(files["integers"], SMALL).equal


@pytest.mark.spec("Q-6")
def test_a_quantized_tflite_file_is_compared_with_the_float_file(tmp_path: Path) -> None:
    """Its inputs, results and outputs are integers; scales and zero points in the file give the real numbers."""
    files = {name: ex.open(path) for name, path in small_tflite_files(tmp_path).items()}
    x = SMALL.reshape(2, 8, 8, 1)
    comparison = files["int8"].compare(files["float32"], x)
    assert comparison.casts == ("input 'x' of net 'int8', float32 quantized to int8",)
    rows = {row.counterpart: row for row in comparison.ranked}
    assert {*rows} == {"c", "f", "g", "y"}
    assert all(20 < row.own.sqnr < 60 or row.type == "RESHAPE" for row in rows.values())
    assert rows["f"].own is not None
    assert rows["f"].own.sqnr > rows["f"].sqnr
    output = (files["int8"].run(files["int8"].session.cast_arrays((x,), {}, [])) + 128.0) / 256
    expected = files["float32"].run(x)
    assert rows["y"].max_error == pytest.approx(np.abs(output - expected).max(), rel=0.2)
    assert comparison.equal
    assert "tolerance: a relative error of 0.1, for int8 against float32" in str(comparison)
    backwards = files["float32"].compare(files["int8"], x)
    assert {row.counterpart for row in backwards.rows} == {"c", "f", "g", "y"}
    assert backwards.casts == comparison.casts


@pytest.mark.spec("Q-6")
def test_an_operator_with_inner_graphs_has_its_own_error(tmp_path: Path) -> None:
    """Its graphs read the reference's operand, so that an exact branch has no own error."""
    helper = onnx.helper

    def branch(type: str) -> onnx.GraphProto:
        ends = [helper.make_tensor_value_info(f"{type} result", 1, None)]
        return helper.make_graph([helper.make_node(type, ["r"], [ends[0].name])], type, [], ends)

    def write(name: str, nodes: list[onnx.NodeProto], read: str) -> Net:
        branches = {"then_branch": branch("Exp"), "else_branch": branch("Neg")}
        nodes = [
            *nodes,
            helper.make_node("Relu", [read], ["r"]),
            helper.make_node("If", ["c"], ["y"], "if", **branches),
        ]
        ends = [helper.make_tensor_value_info("x", 1, [16]), helper.make_tensor_value_info("c", 9, [])]
        step = onnx.numpy_helper.from_array(np.float32(0.25), "step")
        made = helper.make_graph(nodes, name, ends, [helper.make_tensor_value_info("y", 1, [16])], [step])
        onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / name)
        return ex.open(tmp_path / name)

    quantized = [
        helper.make_node("QuantizeLinear", ["x", "step"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "step"], ["d"]),
    ]
    x = {"x": np.linspace(0, 2, 16, dtype="float32"), "c": np.array(True)}
    rows = {row.name: row for row in write("int8.onnx", quantized, "d").compare(write("float.onnx", [], "x"), x).rows}
    assert rows["y"].sqnr < 40
    assert rows["y"].own is not None
    assert rows["y"].own.sqnr > 120


@pytest.mark.spec("Q-6")
def test_the_default_tolerance_fits_the_lower_precision(tmp_path: Path) -> None:
    """It is stated, applies to the value that the next operators read, and gives way to an explicit one."""
    files = {name: ex.open(path) for name, path in small_files(tmp_path).items()}
    for name in ("float16", "casts"):
        comparison = files[name].compare(files["float32"], SMALL)
        assert comparison.equal
        assert "tolerance: a relative error of 0.01, for float16 against float32" in str(comparison)
    coarse = files["int8"].compare(files["float32"], SMALL)
    assert coarse.first is not None
    assert coarse.first.problem.endswith("where 0.1 is allowed")
    assert {row.name for row in coarse.rows if row.problem} <= {row.name for row in coarse.ranked}
    assert "tolerance: a relative error of 0.1, for int8 against float32" in str(coarse)
    exact = files["int8"].compare(files["float32"], SMALL, tolerance=1e-4)
    assert not exact.equal
    assert "tolerance:" not in str(exact)
    assert "tolerance:" not in str(files["float32"].compare(files["float32"], SMALL))


def test_long_nets_are_matched_without_recursion() -> None:
    """Neither the depth of a net nor operators that have no counterpart make the matching slow."""
    length = 20_000

    def chain(prefix: str, types: tuple[str, ...]) -> NetDefinition:
        operators = [
            OperatorDefinition(types[at % len(types)], f"{prefix}{at}", (f"{prefix}_{at}",), (f"{prefix}_{at + 1}",))
            for at in range(length)
        ]
        return NetDefinition.of(prefix, operators, [f"{prefix}_0"], [f"{prefix}_{length}"])

    ours, theirs = chain("a", ("Relu", "Tanh")), chain("b", ("Relu", "Tanh"))
    values = {f"b_{at}": np.zeros(1, "float32") for at in range(1, length + 1)}
    reference = in_terms_of(ours, theirs, values)
    assert len(matched(Operands(ours), reference.values)) == length
    assert reference.origins["a_7"] == "b_7"
    (group,) = origins_of(Operands(theirs), [f"b_{length}"]).values()
    assert [operator.name for operator in group] == [f"b{at}" for at in range(length)]


@pytest.mark.spec("Q-6")
def test_the_view_between_precisions_is_coloured_by_noise(tmp_path: Path) -> None:
    """A box has the largest noise in it, since a sum of percentages means nothing."""
    files = small_files(tmp_path)
    comparison = ex.open(files["int8"]).compare(ex.open(files["float32"]), SMALL)
    view = comparison.explore()
    assert view.payload["options"]["heat"] == "own noise"
    assert [row["name"] for row in view.payload["heat"] if row["boxes"] == "max"] == [
        "relative error",
        "noise",
        "own noise",
    ]
    assert view.selected_scope == comparison.ranked[0].operator


@pytest.mark.spec("Q-6")
@pytest.mark.parametrize(
    ("dtype", "value", "reference", "agrees"),
    [
        ("float32", [1e-5, 2e-5], [1e-5, 2e-5 + 4e-7], True),
        ("float32", [1e-5, 2e-5], [1e-5, 2e-5 + 6e-7], False),
        ("float32", [1e-5, 2.0], [1e-5, 2.0 + 1e-3], False),
        ("float64", [1e-5, 2e-5], [1e-5, 2e-5 + 4e-7], False),
    ],
)
def test_an_error_of_four_ulp_of_one_is_no_difference(dtype: str, value: Any, reference: Any, agrees: bool) -> None:
    """It applies to references in [-1, 1], and to the default tolerance only."""
    net = ex.Net("same")
    net.output(net.Copy(net.input("x", (2,), dtype=dtype), "y"))
    x, y = np.array(value, dtype), np.array(reference, dtype)
    assert net.compare({"y": y}, x).equal == agrees
    assert not net.compare({"y": y}, x, tolerance=1e-4).equal
