"""Nets of ONNX operator types, written and read again without building them or losing anything."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser
from onnx.reference import ReferenceEvaluator

import explorer as ex
from explorer.formats.onnx.writing import model_file

ASSETS = Path(__file__).parents[4] / "assets"
images = np.load(ASSETS / "digits.npz")["images"]


def _opened(text: str, path: Path) -> ex.Net:
    onnx.save(parser.parse_model(text), path)
    return ex.open(path)


def _again(net: ex.Net, path: Path) -> ex.Net:
    net.save(path)
    onnx.checker.check_model(path, full_check=True)
    return ex.open(path)


@pytest.mark.parametrize(
    ("type", "attribute", "value", "expected"),
    [
        ("Softmax", "axis", "a", "an integer"),
        ("Softmax", "axis", 1.5, "an integer"),
        ("Softmax", "axis", (1,), "an integer"),
        ("MaxPool", "kernel_shape", "a", "a list of integers"),
        ("MaxPool", "kernel_shape", 3, "a list of integers"),
        ("MaxPool", "kernel_shape", (3.5, 3.5), "a list of integers"),
        ("MaxPool", "auto_pad", 1, "a string"),
        ("LeakyRelu", "alpha", "a", "a number"),
        ("LeakyRelu", "alpha", (0.5,), "a number"),
        ("LeakyRelu", "alpha", ("a", "b"), "a number"),
        ("my.Own", "k", [], "a number, a string, or a list"),
    ],
)
def test_the_error_of_an_attribute_of_the_wrong_type_contains_its_name(
    tmp_path: Path, type: str, attribute: str, value: object, expected: str
) -> None:
    """A file with such an attribute opens and is drawn, but is not written with another type."""
    domain, _, name = type.rpartition(".")
    made = helper.make_node(name, ["x"], ["y"], name="n", domain=domain)
    made.attribute.append(
        onnx.AttributeProto(name=attribute, type=onnx.AttributeProto.INTS)
        if value == []
        else helper.make_attribute(attribute, value)
    )
    graph = helper.make_graph([made], "g", [_image("x")], [_image("y")])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("my", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), tmp_path / "x.onnx")
    net = ex.open(tmp_path / "x.onnx")
    with pytest.raises(ex.OperandError) as caught:
        net.save(tmp_path / "y.onnx")
    given = "()" if value == [] else repr(value)
    assert (
        caught.value.given
        == f"operator 'n' ({type}) cannot be written to an ONNX file: its attribute {attribute} is {given}"
    )
    assert caught.value.rule.startswith(f"{attribute} must be {expected}")
    assert not (tmp_path / "y.onnx").exists()


def _image(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, 4, 4])


@pytest.mark.parametrize("to", [-(2**63), 99, 2**40, 0])
def test_a_number_of_an_unknown_dtype_is_written_unchanged(tmp_path: Path, to: int) -> None:
    """The standard's type inference raises for it, as for a model with an invalid opset."""
    made = helper.make_node("Cast", ["x"], ["y"], name="n", to=to)
    model = helper.make_model(helper.make_graph([made], "g", [_image("x")], [_image("y")]))
    (tmp_path / "x.onnx").write_bytes(model.SerializeToString())
    ex.open(tmp_path / "x.onnx").save(tmp_path / "y.onnx")
    assert onnx.load(tmp_path / "y.onnx").graph.node[0].attribute == model.graph.node[0].attribute


@pytest.mark.parametrize("value", [3, 0.5, "a", (1, -2), (0.5, 2.0), ("a", "b")])
def test_an_attribute_of_a_custom_operator_is_written_unchanged(tmp_path: Path, value: object) -> None:
    made = helper.make_node("Own", ["x"], ["y"], name="n", domain="my", k=value)
    model = helper.make_model(
        helper.make_graph([made], "g", [_image("x")], [_image("y")]),
        opset_imports=[helper.make_opsetid("my", 1), helper.make_opsetid("", 18)],
    )
    onnx.save(model, tmp_path / "x.onnx")
    ex.open(tmp_path / "x.onnx").save(tmp_path / "y.onnx")
    assert onnx.load(tmp_path / "y.onnx").graph.node[0].attribute == model.graph.node[0].attribute


@pytest.mark.spec("C-12")
def test_a_file_is_written_unchanged(tmp_path: Path) -> None:
    net = ex.open(ASSETS / "digits.onnx")
    again = _again(net, tmp_path / "digits.onnx")
    assert again.definition.operators == net.definition.operators
    assert again.definition.blobs == net.definition.blobs
    np.testing.assert_array_equal(again.run(images), net.run(images))
    net["/fc2/Gemm"].weights["C"] = np.arange(10, dtype=np.float32)
    replaced = _again(net, tmp_path / "digits.onnx")
    np.testing.assert_array_equal(replaced.run(images), net.run(images))
    assert [path.name for path in tmp_path.iterdir()] == ["digits.onnx"]


CONTROL = """<ir_version: 10, opset_import: ["" : 21]>
net (float[n, 3] x, bool go) => (float[n, 3] y, float[n, 3] last, float[k, 3] rows) {
    y = If (go) <
        then_branch = then () => (float[n, 3] a) { a = Add(x, x) },
        else_branch = other () => (float[n, 3] b) { two = Constant<value = float {2.0}>() b = Mul(x, two) }
    >
    count = Constant<value = int64 {3}>()
    always = Constant<value = bool {1}>()
    last = Loop (count, always, y) <
        body = turn (int64 i, bool again, float[n, 3] state) => (bool on, float[n, 3] next) {
            on = Identity(again)
            next = Add(state, x)
        }
    >
    zero = Constant<value = float[3] {0.0, 0.0, 0.0}>()
    total, rows = Scan (zero, x) <
        num_scan_inputs = 1,
        body = step (float[3] sum, float[3] row) => (float[3] after, float[3] out) {
            after = Add(sum, row)
            out = Identity(after)
        }
    >
}"""


def test_types_inside_branches_and_bodies_are_kept(tmp_path: Path) -> None:
    """ONNX Runtime rejects a nested Scan whose outputs have no shape; names of dimensions are not kept."""
    _again(_opened(CONTROL, tmp_path / "net.onnx"), tmp_path / "again.onnx")
    bodies = [a.g for node in onnx.load(tmp_path / "again.onnx").graph.node for a in node.attribute if a.HasField("g")]
    assert len(bodies) == 4
    shapes = [[each.dim_value for each in v.type.tensor_type.shape.dim] for body in bodies for v in body.output]
    assert all(v.type.HasField("tensor_type") for body in bodies for v in (*body.input, *body.output))
    assert sorted(shapes) == [[], [0, 3], [0, 3], [0, 3], [3], [3]]
    assert not any(each.dim_param for body in bodies for v in body.output for each in v.type.tensor_type.shape.dim)


def test_types_of_values_inside_bodies_are_kept(tmp_path: Path) -> None:
    """ONNX Runtime needs the shapes of this Scan's inputs and outputs inside the branch."""
    net = _opened(
        """<ir_version: 10, opset_import: ["" : 21]> net (float[3] x, float[4, 3] rows, bool go) => (float[3] y) {
            axis = Constant<value = int64[1] {0}>()
            count = Constant<value = int64 {2}>()
            y = Loop (count, , x) <
                body = turn (int64 i, bool again, float[] state) => (bool on, float[] next) {
                    on = Identity(again)
                    next = If (go) <
                        then_branch = then () => (float[] a) <float[3] start, float[3] last, float[4, 3] sums> {
                            start = Neg(state)
                            last, sums = Scan (start, rows) <
                                num_scan_inputs = 1,
                                body = step (float[] so_far, float[] row) => (float[] total, float[] kept) {
                                    total = Add(so_far, row)
                                    kept = Identity(total)
                                }
                            >
                            a = ReduceSum<keepdims = 0>(sums, axis)
                        },
                        else_branch = other () => (float[] b) { b = Neg(state) }
                    >
                }
            >
        }""",
        tmp_path / "a.onnx",
    )
    again = _again(net, tmp_path / "b.onnx")
    saved = onnx.load(tmp_path / "b.onnx")
    onnx.shape_inference.infer_shapes(saved, check_type=True, strict_mode=True)
    (loop,) = [node for node in saved.graph.node if node.op_type == "Loop"]
    (choice,) = [node for node in loop.attribute[0].g.node if node.op_type == "If"]
    (then,) = [each.g for each in choice.attribute if each.name == "then_branch"]
    noted = {info.name: [size.dim_value for size in info.type.tensor_type.shape.dim] for info in then.value_info}
    assert noted == {"start": [3], "last": [3], "sums": [4, 3]}
    x, rows = np.ones(3, np.float32), np.arange(12, dtype=np.float32).reshape(4, 3)
    for go in (True, False):
        np.testing.assert_array_equal(again.run(x, rows, go), net.run(x, rows, go))


def test_iteration_number_and_condition_have_types(tmp_path: Path) -> None:
    """ONNX Runtime rejects a loop in which they have no shapes."""
    net = _opened(CONTROL.replace("turn (int64 i, bool again, float", "turn (i, again, float"), tmp_path / "a.onnx")
    net.save(tmp_path / "b.onnx")
    (loop,) = [node for node in onnx.load(tmp_path / "b.onnx").graph.node if node.op_type == "Loop"]
    turn, again, _ = loop.attribute[0].g.input
    for value, code in ((turn, TensorProto.INT64), (again, TensorProto.BOOL)):
        assert value.type.tensor_type == helper.make_tensor_type_proto(code, ()).tensor_type


def test_sampling_modes_have_the_names_of_the_newest_opset(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 16]>
        net (float[1, 1, 2, 2] x, float[1, 3, 3, 2] g) => (y) { y = GridSample<mode = "bilinear">(x, g) }"""
    net = _opened(text, tmp_path / "a.onnx")
    again = _again(net, tmp_path / "b.onnx")
    (node,) = onnx.load(tmp_path / "b.onnx").graph.node
    assert [attribute.s for attribute in node.attribute if attribute.name == "mode"] == [b"linear"]
    x, grid = np.ones((1, 1, 2, 2), np.float32), np.zeros((1, 3, 3, 2), np.float32)
    np.testing.assert_array_equal(again.run(x, grid), net.run(x, grid))


def test_control_flow_keeps_its_inner_graphs(tmp_path: Path) -> None:
    net = _opened(CONTROL, tmp_path / "a.onnx")
    again = _again(net, tmp_path / "b.onnx")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for go in (True, False):
        expected = ReferenceEvaluator(str(tmp_path / "a.onnx")).run(None, {"x": x, "go": np.array(go)})
        results = again.run(x=x, go=np.array(go))
        for name, value in zip(("y", "last", "rows"), expected, strict=True):
            np.testing.assert_allclose(results[name], value)
            np.testing.assert_allclose(
                ReferenceEvaluator(str(tmp_path / "b.onnx")).run([name], {"x": x, "go": np.array(go)})[0], value
            )


@pytest.mark.parametrize(
    "made",
    [
        "y = Loop (m, c0, x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t) "
        "{ d = Identity (c) t = Add (s, x) }>",
        "y = Loop (m, c0, x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t) "
        "{ d = Identity (c0) t = Mul (s, x) }>",
        "y, z = Scan (x, w) <num_scan_inputs = 1, body = b (float[2] s, float[2] r) => (float[2] t, float[2] u) "
        "{ t = Add (s, r) u = Add (x, r) }>",
        "y = If (c0) <then_branch = a () => (float[2] t) { t = Neg (x) }, "
        "else_branch = e () => (float[2] u) { u = Abs (x) }>",
    ],
)
def test_a_body_may_capture_a_value_that_is_also_its_input(tmp_path: Path, made: str) -> None:
    """A captured value is no input of the inner graph, even if the operator passes the same value."""
    text = f"""<ir_version: 9, opset_import: ["" : 20]>
    net (float[2] x, int64 m, bool c0, float[3, 2] w) => (float[2] y) {{ {made} }}"""
    inputs = {"x": np.float32([2, -3]), "m": np.array(3), "c0": np.array(True), "w": np.ones((3, 2), np.float32)}
    again = _again(_opened(text, tmp_path / "a.onnx"), tmp_path / "b.onnx")  # this checks the file
    for path in ("a.onnx", "b.onnx"):
        (expected,) = ReferenceEvaluator(str(tmp_path / path)).run(["y"], inputs)
        np.testing.assert_allclose(again.run(inputs), expected)


def test_values_of_a_call_in_a_branch_get_names_unlike_the_outer_ones(tmp_path: Path) -> None:
    """Unnamed calls are named by their index in their graph, which may coincide in a branch and outside."""
    text = """<ir_version: 10, opset_import: ["" : 20, "own" : 1]>
    net (float[2] x, bool go) => (float[2] y, float[2] z) {
        y = own.Opposite (x)
        z = If (go) <
            then_branch = then () => (float[2] a) { a = own.Opposite (x) },
            else_branch = other () => (float[2] b) { b = own.Opposite (y) }
        >
    }
    <domain: "own", opset_import: ["" : 20]>
    Opposite (x) => (y) { square = Mul (x, x) y = Neg (square) }
    """
    again = _again(_opened(text, tmp_path / "a.onnx"), tmp_path / "b.onnx")  # this checks the file
    x = np.float32([2, 3])
    np.testing.assert_array_equal(again.run(x, np.array(True))["z"], -x * x)
    np.testing.assert_array_equal(again.run(x, np.array(False))["z"], -(x**4))


def test_unknown_operators_and_unknown_lengths_are_kept(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21, "my" : 1]>
    net (float[batch, 3] x) => (float[batch, 3] y) { a = my.Strange<size = 3, word = "w">(x, x) y = Relu(a) }"""
    net = _opened(text, tmp_path / "a.onnx")
    net.save(tmp_path / "b.onnx")
    again = ex.open(tmp_path / "b.onnx")
    assert again.definition.operators == net.definition.operators
    assert again.inputs["x"].shape == ("batch", 3)
    assert [unknown.type for unknown in again.unknown()] == ["my.Strange"]


def test_a_softmax_of_an_older_opset_is_written_for_rows(tmp_path: Path) -> None:
    text = """<ir_version: 7, opset_import: ["" : 11]>
    net (float[2, 3, 4] x) => (float[2, 3, 4] y) { y = Softmax<axis = 1>(x) }"""
    net = _opened(text, tmp_path / "a.onnx")
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    net.save(tmp_path / "b.onnx")
    (result,) = ReferenceEvaluator(str(tmp_path / "b.onnx")).run(None, {"x": x})
    np.testing.assert_allclose(result, net.run(x), rtol=1e-6)


def test_bfloat16_stays_bfloat16(tmp_path: Path) -> None:
    weight = helper.make_tensor("w", TensorProto.BFLOAT16, [2], [1.5, -2.0])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    nodes = [helper.make_node("Cast", ["w"], ["c"], to=1), helper.make_node("Add", ["x", "c"], ["y"])]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [x], [y], [weight])), tmp_path / "a.onnx")
    again = _again(ex.open(tmp_path / "a.onnx"), tmp_path / "b.onnx")
    (kept,) = [each for each in onnx.load(tmp_path / "b.onnx").graph.initializer if each.name == "w"]
    assert kept.data_type == TensorProto.BFLOAT16
    np.testing.assert_array_equal(again.run(np.zeros(2, np.float32)), [1.5, -2.0])
    assert numpy_helper.to_array(kept).shape == (2,)


def test_large_weights_are_written_to_an_external_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_file, "LARGEST", 1000)
    net = ex.open(ASSETS / "digits.onnx")
    again = _again(net, tmp_path / "x.onnx")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.onnx", "x.onnx.data"]
    assert (tmp_path / "x.onnx").stat().st_size < 10_000
    np.testing.assert_array_equal(again.run(images), net.run(images))
    np.testing.assert_allclose(
        ReferenceEvaluator(str(tmp_path / "x.onnx")).run(None, {next(iter(net.inputs)): images})[0],
        net.run(images),
        atol=1e-5,
    )


def test_a_net_that_cannot_be_written_raises_an_error_before_writing(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    net (float[2] x) => (float[2] y) { y = Identity(x) }"""
    model = parser.parse_model(text)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = 27  # a 6-bit float
    onnx.save(model, tmp_path / "a.onnx")
    net = ex.open(tmp_path / "a.onnx")
    (tmp_path / "b.onnx").write_bytes(b"before")
    with pytest.raises(ex.OperandError, match="input 'x' cannot be written to an ONNX file: its dtype is not known"):
        net.save(tmp_path / "b.onnx")
    assert (tmp_path / "b.onnx").read_bytes() == b"before"
