"""ONNX files as definitions: names, boxes, constants, types, functions, inner graphs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer as ex
from explorer.formats.onnx.function_inlining import ExpandedNode
from explorer.formats.onnx.operator_names import Names
from explorer.formats.onnx.operators import TABLE
from explorer.net import OperatorContext
from explorer.net.definition.scope_inference import box_paths
from explorer.view.export.text import text
from tests.formats.onnx.models import FLOAT, INT64, model, node, opened

ASSETS = Path(__file__).parents[3] / "assets"
x23 = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_the_digits_model_equals_the_one_in_pnnx_format() -> None:
    """The ONNX file opens, is drawn, checked, run for any batch size, cut and planned."""
    net, other = ex.open(ASSETS / "digits.onnx"), ex.open(ASSETS / "digits.pnnx.param")
    images = np.random.default_rng(0).random((5, 1, 8, 8)).astype(np.float32)
    assert net.check() == []
    assert net.definition.dialect == "onnx"
    np.testing.assert_allclose(net.run(images), other.run(images), rtol=1e-5, atol=1e-6)
    cut = net.cut(outputs=[net["/residual/Add"].outputs[0]])
    assert len(cut.definition.operators) < len(net.definition.operators)
    assert cut.run(images).shape[0] == 5
    assert net.plan(images).eval().recording.schedule is not None
    assert "/residual/Add" in net
    assert "conv2d" in text(net.preview_plan().recording)


def test_weights_have_the_names_of_operator_inputs(tmp_path: Path) -> None:
    """Initializers get ONNX's input names; short integer arrays become arguments."""
    proto = model(
        [node("Gemm", ["x", "w", "b"], ["y"], "fc", transB=1), node("Reshape", ["y", "s"], ["z"], "shape")],
        {"x": (FLOAT, ["batch", 3])},
        ["z"],
        {"w": np.ones((4, 3), np.float32), "b": np.ones(4, np.float32), "s": np.array([-1, 2, 2])},
    )
    net = opened(proto, tmp_path)
    assert dict(net["fc"].definition.weights) == {
        name: reference for name, reference in net["fc"].definition.weights.items() if name in "BC"
    }
    assert net["fc"].B.shape == (4, 3)
    assert net["shape"].arguments["shape"] == (-1, 2, 2)
    assert net.inputs["x"].shape == ("batch", 3)
    np.testing.assert_array_equal(net.run(x23), (x23.sum(1, keepdims=True) + 1).repeat(4, 1).reshape(2, 2, 2))
    net["fc"].C = np.zeros(4, np.float32)
    np.testing.assert_array_equal(net.run(x23)[0, 0], [3, 3])


def test_initializers_among_the_inputs_are_no_inputs(tmp_path: Path) -> None:
    """Older files list initializers among the graph's inputs, but they are constants."""
    proto = model(
        [node("Add", ["x", "w"], ["y"])], {"x": (FLOAT, [2, 3]), "w": (FLOAT, [3])}, ["y"], {"w": x23[1]}, opset=11
    )
    net = opened(proto, tmp_path)
    assert list(net.inputs) == ["x"]
    np.testing.assert_array_equal(net.run(x23), x23 + x23[1])


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"value": numpy_helper.from_array(np.array([1.5, 2, 3], np.float32))}, [1.5, 2, 3]),
        ({"value_float": 2.5}, 2.5),
        ({"value_floats": [1.0, 2.0, 4.0]}, [1, 2, 4]),
    ],
)
def test_constants_are_no_operators(tmp_path: Path, attributes: dict[str, object], expected: object) -> None:
    """Constant nodes, also renamed ones, become weights or arguments of their readers; only operators make outputs."""
    proto = model(
        [node("Constant", [], ["c"], **attributes), node("Identity", ["c"], ["d"]), node("Mul", ["x", "d"], ["y"])],
        {"x": (FLOAT, [2, 3])},
        ["y", "c"],
    )
    net = opened(proto, tmp_path)
    result = net.run(x23)
    np.testing.assert_array_equal(result["y"], x23 * np.float32(expected))
    np.testing.assert_array_equal(result["c"], np.float32(expected))
    assert [operator.type for operator in net.definition.operators] == ["Mul", "Constant"]


@pytest.mark.parametrize(
    ("outputs", "names"),
    [
        (["y", "y"], ["y", "y_2"]),
        (["y", "x", "y", "x", "y"], ["y", "x", "y_2", "x_2", "y_3"]),
        (["w", "w", "y"], ["w", "w_2", "y"]),
        (["x", "x"], ["x", "x_2"]),
        (["y", "y", "y_2"], ["y", "y_3", "y_2"]),
        (["y", "y_2", "y", "y_2"], ["y", "y_2", "y_3", "y_2_2"]),
        (["y_2", "y", "y"], ["y_2", "y", "y_3"]),
        (["i", "y", "i"], ["i", "y", "i_2"]),
        (["k", "y", "k"], ["k", "y", "k_2"]),
        (["v", "u", "v"], ["v", "u", "v_2"]),
    ],
)
def test_an_output_that_is_listed_twice_is_returned_twice(tmp_path: Path, outputs: list[str], names: list[str]) -> None:
    """Test operator results, inputs, initializers and renamed values; saved files list them unchanged."""
    w = np.array([5, 7, 9], np.float32)
    nodes = [
        node("Neg", ["x"], ["y"]),
        node("Add", ["x", "w"], ["y_2"]),
        node("Identity", ["x"], ["i"]),
        node("Identity", ["w"], ["k"]),
        node("Split", ["x"], ["u", "v"], axis=0, num_outputs=2),
    ]
    net = opened(model(nodes, {"x": (FLOAT, [2, 3])}, outputs, {"w": w}), tmp_path)
    values = {"x": x23, "w": w, "y": -x23, "y_2": x23 + w, "i": x23, "k": w, "u": x23[:1], "v": x23[1:]}
    for path in ("again.onnx", "again.json", "again.onnx"):
        results = net.run(x23)
        assert list(results) == list(net.outputs) == names
        for result, output in zip(results.values(), outputs, strict=True):
            np.testing.assert_array_equal(result, values[output])
        assert list(net.build()) == names
        net.explore()
        net.save(tmp_path / path)
        net = ex.open(tmp_path / path)
        assert net.definition.outputs == tuple(outputs)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "int16", "int32", "uint8", "uint16", "uint32", "bool"])
@pytest.mark.parametrize("raw", [True, False])
def test_elements_of_all_dtypes(tmp_path: Path, dtype: str, raw: bool) -> None:
    """Weights are raw bytes or typed numbers, in every dtype that NumPy has."""
    values = np.array([0, 1, 1, 0, 1], dtype)
    kind = helper.np_dtype_to_tensor_dtype(values.dtype)
    stored = helper.make_tensor("w", kind, [5], values.tobytes() if raw else values.tolist(), raw=raw)
    proto = model([node("Identity", ["w"], ["y"])], {}, ["y"])
    proto.graph.initializer.append(stored)
    result = opened(proto, tmp_path).run()
    assert result.dtype == values.dtype
    np.testing.assert_array_equal(result, values)


@pytest.mark.parametrize("raw", [True, False])
def test_bfloat16_is_widened(tmp_path: Path, raw: bool) -> None:
    """NumPy has no bfloat16, so such weights are converted exactly to float32."""
    bits = np.array([0x3F80, 0xC020], np.uint16)
    stored = TensorProto(name="w", data_type=TensorProto.BFLOAT16, dims=[2])
    if raw:
        stored.raw_data = bits.tobytes()
    else:
        stored.int32_data.extend(bits.tolist())
    proto = model([node("Mul", ["x", "w"], ["y"])], {"x": (FLOAT, [2])}, ["y"])
    proto.graph.initializer.append(stored)
    np.testing.assert_array_equal(opened(proto, tmp_path).run(np.ones(2, np.float32)), [1, -2.5])


@pytest.mark.spec("I-9")
def test_unsupported_dtypes_raise_an_error_when_they_are_needed(tmp_path: Path) -> None:
    """The file opens and is drawn."""
    proto = model([node("Cast", ["w"], ["y"], "widen", to=FLOAT)], {}, ["y"])
    proto.graph.initializer.append(TensorProto(name="w", data_type=27, dims=[1], raw_data=b"a"))
    net = opened(proto, tmp_path)
    with pytest.raises(
        ex.FileError, match=r"'widen' \(Cast\): input is 'a tensor of float6e2m3, which explorer does not support'"
    ):
        net.run()
    assert len(net.check()) == 1


def test_unnamed_operators_get_names(tmp_path: Path) -> None:
    """Nodes without a name, or with a duplicate one, get deterministic names."""
    nodes = [node("Relu", ["x"], ["a"]), node("Neg", ["a"], ["b"], "n"), node("Abs", ["b"], ["y"], "n")]
    proto = model(nodes, {"x": (FLOAT, [2, 3])}, ["y"])
    names = [operator.name for operator in opened(proto, tmp_path).definition.operators]
    assert names == ["Relu_1", "n", "n (2)"]
    assert names == [operator.name for operator in opened(proto, tmp_path).definition.operators]


def test_boxes_come_from_paths_metadata_and_weights(tmp_path: Path) -> None:
    """Name paths are boxes, as is torch's module metadata, and otherwise the names of weights."""
    nodes = [
        node("Relu", ["x"], ["a"], "/layer1/layer1.0/relu/Relu"),
        node("MatMul", ["a", "val_1"], ["b"], "node_MatMul_3"),
        node("Add", ["b", "enc.0.fc.bias"], ["c"], "node_linear"),
        node("Neg", ["c"], ["y"], "node_neg"),
    ]
    note = nodes[3].metadata_props.add()
    note.key, note.value = "pkg.torch.onnx.name_scopes", "['', 'head', 'head.final', 'neg']"
    constants = {"val_1": np.eye(3, dtype=np.float32), "enc.0.fc.bias": x23[0]}
    net = opened(model(nodes, {"x": (FLOAT, [2, 3])}, ["y"], constants), tmp_path)
    paths = ["/".join(path) for path in box_paths(net.definition).values()]
    assert paths == [
        "layer1/0/relu/Relu",
        "enc/0/fc/node_MatMul_3",
        "enc/0/fc/node_linear",
        "head/final/node_neg",
    ]


@pytest.mark.parametrize("prefix", ["", "p2o."])
def test_generated_names_with_dots_are_no_boxes(tmp_path: Path, prefix: str) -> None:
    """`Add.1` and the weight `helper.constant.3` by paddle2onnx name no modules; the operator `encoder.1` is in one."""
    nodes = [
        node("Mul", ["x", "helper.constant.3"], ["a"], f"{prefix}Mul.0"),
        node("Add", ["a", "p2o.reshape.7.0"], ["b"], f"{prefix}Add.1"),
        node("Conv", ["b", "conv2d_1.w_0"], ["c"], f"{prefix}Conv.2"),
        node("Neg", ["c"], ["y"], "encoder.1"),
    ]
    constants = {name: np.full((3, 1, 1), 0.5, np.float32) for name in ("helper.constant.3", "p2o.reshape.7.0")}
    constants["conv2d_1.w_0"] = np.ones((3, 3, 1, 1), np.float32)
    net = opened(model(nodes, {"x": (FLOAT, [1, 3, 4, 4])}, ["y"], constants), tmp_path)
    boxes = {name: path[:-1] for name, path in box_paths(net.definition).items()}
    assert boxes == {
        f"{prefix}Mul.0": (), f"{prefix}Add.1": (), f"{prefix}Conv.2": ("conv2d_1",), "encoder.1": ("encoder",),
    }  # fmt: skip


@pytest.mark.spec("V-7")
def test_the_box_of_a_sliced_weight_contains_its_slices_and_the_nodes_between(tmp_path: Path) -> None:
    """A recurrent layer with sliced gates is not part of the preceding embedding; a shared weight determines no box."""
    names = ("start 0", "end 2", "start 2", "end 4")
    ends = {name: np.array([int(name[-1])]) for name in names}
    nodes = [
        node("Gather", ["emb.weight", "x"], ["a"], "node_embedding"),
        node("Slice", ["rnn.weight", "start 0", "end 2"], ["b"], "node_Slice_1"),
        node("MatMul", ["a", "b"], ["c"], "node_rnn_2"),
        node("Slice", ["rnn.weight", "start 2", "end 4"], ["d"], "node_Slice_3"),
        node("MatMul", ["c", "d"], ["e"], "node_rnn_4"),
        node("MatMul", ["e", "tied.weight"], ["f"], "node_linear_5"),
        node("Add", ["f", "fc.bias"], ["g"], "node_linear_6"),
        node("MatMul", ["g", "tied.weight"], ["y"], "node_linear_7"),
    ]
    square = np.eye(2, dtype=np.float32)
    constants = {"emb.weight": np.ones((3, 2), np.float32), "rnn.weight": np.concatenate([square, square])}
    constants |= {"tied.weight": square, "fc.bias": square[0], **ends}
    net = opened(model(nodes, {"x": (INT64, [2])}, ["y"], constants), tmp_path)
    boxes = {name: "/".join(path[:-1]) for name, path in box_paths(net.definition).items()}
    assert boxes["node_embedding"] == "emb"
    assert {boxes[name] for name in ("node_Slice_1", "node_rnn_2", "node_Slice_3")} == {"rnn"}
    assert boxes["node_rnn_4"] == "rnn"
    assert boxes["node_linear_6"] == "fc"
    assert "tied" not in boxes.values()


@pytest.mark.spec("V-7")
def test_operators_that_quantize_a_value_are_in_the_box_of_its_producer(tmp_path: Path) -> None:
    """Quantizers insert pairs of operators without modules, which would split the modules around two layers."""
    nodes = [
        node("DequantizeLinear", ["w", "scale"], ["dequantized"], "w_DequantizeLinear"),
        node("QuantizeLinear", ["x", "scale", "zero"], ["x_q"], "x_QuantizeLinear"),
        node("DequantizeLinear", ["x_q", "scale", "zero"], ["x_dq"], "x_DequantizeLinear"),
        node("MatMul", ["x_dq", "dequantized"], ["a"], "node_linear_1"),
        node("QuantizeLinear", ["a", "scale", "zero"], ["a_q"], "a_QuantizeLinear"),
        node("DequantizeLinear", ["a_q", "scale", "zero"], ["a_dq"], "a_DequantizeLinear"),
        node("Neg", ["a_dq"], ["y"], "node_neg_2"),
    ]
    for placed, module in ((nodes[3], "net.first"), (nodes[6], "net.second")):
        note = placed.metadata_props.add()
        note.key, note.value = "pkg.torch.onnx.name_scopes", f"['', 'net', {module!r}, 'last']"
    constants = {"w": np.eye(3, dtype=np.int8), "scale": np.float32(0.5), "zero": np.int8(0)}
    arrays = {name: np.asarray(value) for name, value in constants.items()}
    net = opened(model(nodes, {"x": (FLOAT, [2, 3])}, ["y"], arrays), tmp_path)
    boxes = {name: "/".join(path[:-1]) for name, path in box_paths(net.definition).items()}
    assert boxes == {
        "w_DequantizeLinear": "net/first",
        "x_QuantizeLinear": "",
        "x_DequantizeLinear": "",
        "node_linear_1": "net/first",
        "a_QuantizeLinear": "net/first",
        "a_DequantizeLinear": "net/first",
        "node_neg_2": "net/second",
    }


def test_unused_and_missing_operands(tmp_path: Path) -> None:
    """Omitted inputs are absent even in the middle; omitted outputs get a name."""
    x = np.random.default_rng(1).standard_normal((3, 1, 2)).astype(np.float32)
    weights = {"w": np.ones((1, 16, 2), np.float32), "r": np.zeros((1, 16, 4), np.float32)}
    weights["h"] = np.zeros((1, 1, 4), np.float32)
    lstm = node("LSTM", ["x", "w", "r", "", "", "h"], ["", "", "c"], "lstm", hidden_size=4)
    net = opened(model([lstm], {"x": (FLOAT, [3, 1, 2])}, ["c"], weights), tmp_path)
    assert net["lstm"].outputs == ("lstm:Y", "lstm:Y_h", "c")
    assert net.run(x).shape == (1, 1, 4)


def test_local_functions_are_boxes(tmp_path: Path) -> None:
    """Calls of a model's own functions are expanded in a box with their name, with the call's attributes."""
    leaky = node("LeakyRelu", ["a"], ["t"])
    alpha = leaky.attribute.add()
    alpha.name, alpha.ref_attr_name, alpha.type = "alpha", "slope", 1
    body = [leaky, node("Add", ["t", "b"], ["out"], "plus")]
    twice = helper.make_function("own", "Twice", ["a", "b"], ["out"], body, [helper.make_opsetid("", 20)], ["slope"])
    calls = [
        node("Twice", ["x", "x"], ["m"], "first", domain="own", slope=0.5),
        node("Twice", ["m", "x"], ["y"], "second", domain="own", slope=0.25),
    ]
    proto = model(calls, {"x": (FLOAT, [2])}, ["y"], functions=[twice])
    proto.opset_import.append(helper.make_opsetid("own", 1))
    net = opened(proto, tmp_path)
    assert list(net.operators) == ["first/LeakyRelu_1", "first/plus", "second/LeakyRelu_3", "second/plus"]
    np.testing.assert_array_equal(net.run(np.array([-2, 2], np.float32)), [-0.75 - 2, 6])
    assert [path[0] for path in box_paths(net.definition).values()] == ["first", "first", "second", "second"]


def test_a_function_has_its_own_scope(tmp_path: Path) -> None:
    """A function's inner graph may reuse a name of the caller, as in KNNImputer's files."""
    inner = helper.make_graph(
        [node("Neg", ["a"], ["x"]), node("Add", ["x", "one"], ["h"])],
        "own names",
        [],
        [helper.make_empty_tensor_value_info("h")],
        [helper.make_tensor("one", FLOAT, [], [1.0])],
    )
    plain = helper.make_graph([node("Identity", ["a"], ["x"])], "plain", [], [helper.make_empty_tensor_value_info("x")])
    body = [node("If", ["c"], ["z"], then_branch=inner, else_branch=plain)]
    choose = helper.make_function("own", "Choose", ["a", "c"], ["z"], body, [helper.make_opsetid("", 20)])
    nodes = [
        node("Relu", ["x"], ["h"]),
        node("Choose", ["h", "c"], ["m"], "first", domain="own"),
        node("Choose", ["m", "c"], ["n"], "second", domain="own"),
        node("Sub", ["n", "x"], ["y"]),
    ]
    proto = model(nodes, {"x": (FLOAT, [2]), "c": (TensorProto.BOOL, [])}, ["y"], functions=[choose])
    proto.opset_import.append(helper.make_opsetid("own", 1))
    net = opened(proto, tmp_path)
    assert net.check() == []
    x = np.float32([-2, 3])
    np.testing.assert_array_equal(net.run(x, np.array(True)), np.maximum(x, 0) - x)
    np.testing.assert_array_equal(net.run(x, np.array(False)), np.maximum(x, 0) - x)


@pytest.mark.spec("I-5")
def test_inner_graphs_are_one_operator(tmp_path: Path) -> None:
    """If, Loop and Scan are drawn as one operator that reads the inputs of its inner graphs."""
    inner = helper.make_graph([node("Neg", ["h"], ["z"])], "then", [], [helper.make_empty_tensor_value_info("z")])
    nodes = [
        node("Relu", ["x"], ["h"]),
        node("If", ["c"], ["y"], "choice", then_branch=inner, else_branch=inner),
    ]
    net = opened(model(nodes, {"x": (FLOAT, [2]), "c": (TensorProto.BOOL, [])}, ["y"]), tmp_path)
    assert net["choice"].inputs == ("c", "h")
    assert net["choice"].arguments["then_branch"] == "a graph of 1 node"
    assert sorted(net["choice"].definition.bodies) == ["else_branch", "then_branch"]
    assert net.check() == []
    np.testing.assert_array_equal(net.run(np.ones(2, np.float32), np.array(True)), [-1, -1])
    assert "choice, node " in text(net.preview_plan().recording)


@pytest.mark.spec("I-5")
def test_unsupported_opsets_and_domains_are_reported(tmp_path: Path) -> None:
    """An operator that cannot be upgraded, or of an unknown domain, is named; the file still opens."""
    nodes = [
        node("Add", ["x", "c"], ["a"], "old", broadcast=1, axis=1),
        node("Relu", ["a"], ["b"], "same"),
        node("Gelu", ["b"], ["y"], "theirs", domain="com.example"),
    ]
    proto = model(nodes, {"x": (FLOAT, [2, 3, 4]), "c": (FLOAT, [3])}, ["y"], opset=6)
    proto.opset_import.append(helper.make_opsetid("com.example", 1))
    text = "\n".join(opened(proto, tmp_path).check())
    assert "Add (opset 6): 'old' (line 1)" in text
    assert "this model has opset 6" in text
    assert "near known types: Add" not in text
    assert "com.example.Gelu: 'theirs' (line 3); near known types: " in text
    assert "'same'" not in text


@pytest.mark.spec("I-16")
def test_users_register_operator_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell registers a type for ONNX files; types are listed separately for each format."""
    monkeypatch.setattr(TABLE, "_builders", dict(TABLE._builders))
    proto = model([node("Fancy", ["x"], ["y"], "f", domain="own")], {"x": (FLOAT, [2])}, ["y"])
    proto.opset_import.append(helper.make_opsetid("own", 1))
    net = opened(proto, tmp_path)
    (problem,) = net.problems().values()
    assert problem.fix == 'register it: @ex.file_operator("own.Fancy", format="onnx")'

    @ex.file_operator("own.Fancy", format="onnx")
    def fancy(op: OperatorContext) -> ex.Expr:
        return op.x * 2

    np.testing.assert_array_equal(net.run(np.ones(2, np.float32)), [2, 2])
    assert "own.Fancy" in ex.layer_types("onnx")
    assert "own.Fancy" not in ex.layer_types()
    with pytest.raises(ex.UnknownNameError, match="known: onnx"):
        ex.layer_types("onxx")


def test_an_unsorted_graph_runs_in_topological_order(tmp_path: Path) -> None:
    nodes = [node("Neg", ["a"], ["y"]), node("Relu", ["x"], ["a"])]
    net = opened(model(nodes, {"x": (FLOAT, [2])}, ["y"]), tmp_path)
    np.testing.assert_array_equal(net.run(np.array([-1, 2], np.float32)), [0, -2])


def test_metadata_of_a_file_is_kept(tmp_path: Path) -> None:
    """A written file keeps the descriptions and metadata of a model, but not its producer and versions."""
    proto = model([node("Neg", ["x"], ["y"])], {"x": (FLOAT, [2])}, ["y"], producer_name="us", doc_string="tells")
    proto.graph.node[0].doc_string = "inverts"
    helper.set_model_props(proto, {"author": "me"})
    net = opened(proto, tmp_path)
    assert net.definition.doc == "tells"
    assert net.definition.metadata == (
        ("producer", "us"), ("opsets", "ONNX 20"), ("IR version", str(onnx.IR_VERSION)), ("author", "me"),
    )  # fmt: skip
    net.save(tmp_path / "again.onnx")
    again = ex.open(tmp_path / "again.onnx").definition
    assert (again.doc, again.operators[0].doc) == ("tells", "inverts")
    assert dict(again.metadata) | {"producer": "explorer", "author": "me"} == dict(again.metadata)
    net.save(tmp_path / "again.json")
    assert ex.open(tmp_path / "again.json").definition.metadata == net.definition.metadata


def test_a_weight_of_several_operators_is_read_once(tmp_path: Path) -> None:
    nodes = [node("Gather", ["w", "x"], ["e"], "in"), node("MatMul", ["e", "w"], ["y"], "out")]
    net = opened(model(nodes, {"x": (INT64, [4])}, ["y"], {"w": np.eye(8, dtype=np.float32)}), tmp_path)
    assert net["in"].data.storage is net["out"].B.storage
    assert net["in"].data.name == "w"
    np.testing.assert_array_equal(net.run(np.arange(4)), np.eye(8)[:4])


def test_operators_that_the_standard_defines_with_others_are_expanded(tmp_path: Path) -> None:
    """An unsupported operator with a standard function body is expanded in a box with its name."""
    proto = model([node("MeanVarianceNormalization", ["x"], ["y"], "mvn", axes=[1])], {"x": (FLOAT, [2, 3])}, ["y"])
    net = opened(proto, tmp_path)
    assert net.check() == []
    assert {path[0] for path in box_paths(net.definition).values()} == {"mvn"}
    expected = (x23 - x23.mean(1, keepdims=True)) / x23.std(1, keepdims=True)
    np.testing.assert_allclose(net.run(x23), expected, rtol=1e-5)


def test_a_net_with_unknown_lengths_gets_matching_example_lengths(tmp_path: Path) -> None:
    """An image that is halved and doubled again needs even sides, so an image size is assumed."""
    nodes = [
        node("MaxPool", ["x"], ["h"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Resize", ["h", "", "s"], ["d"]),
        node("Add", ["x", "d"], ["y"]),
    ]
    proto = model(nodes, {"x": (FLOAT, [1, 1, "h", "w"])}, ["y"], {"s": np.array([1, 1, 2, 2], np.float32)})
    net = opened(proto, tmp_path)
    assert net.check() == []
    assert net.example_shapes() == {"x": (1, 1, 224, 224)}
    assert "(h = 224, w = 224)" in text(net.preview_plan().recording)


def test_many_nodes_with_one_name_get_unique_names() -> None:
    """Numbering continues after the last suffix, so 50,000 nodes take linear time."""
    names = Names()
    placed = ExpandedNode(node("Relu", ["x"], ["y"], "same"), (), {})
    results = [names.name(placed, number) for number in range(50_000)]
    assert len(set(results)) == len(results)
    assert results[-1] == "same (50000)"


@pytest.mark.spec("I-5")
def test_an_input_of_an_unsupported_dtype_accepts_no_other_dtype(tmp_path: Path) -> None:
    net = opened(model([node("Identity", ["x"], ["y"], "same")], {"x": (27, [2])}, ["y"]), tmp_path)
    (finding,) = net.check()
    assert "Identity (of a tensor of float6e2m3): 'same'" in finding
    with pytest.raises(ex.FileError, match="of a tensor of float6e2m3"):
        net.run(np.float32([1.5, 2]))
