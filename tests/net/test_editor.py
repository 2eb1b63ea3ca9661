"""Nets written with operators' names: what a declaration provides, and errors."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Literal

import numpy as np
import pytest

import explorer as ex
from explorer.core.errors import DeclarationError, OperandError, UnknownNameError
from explorer.core.ir.tensor import Tensor
from explorer.net import NetDefinition, NetState, OperatorDefinition, OperatorTable
from explorer.net.definition.definition import BlobType, WeightReference
from explorer.net.editor import own_name_of
from explorer.net.operators.caffe2 import TABLE
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.schema import OperatorSchema, accepts
from tests.support.refusals import refused

rng = np.random.default_rng(0)


def table() -> OperatorTable:
    return OperatorTable("mine", rewrites=True)


@pytest.mark.spec("C-6", headline=True)
def test_one_declaration_gives_constructor_schema_help_and_gradient() -> None:
    """Declare an operator type with one function, which defines its constructor, schema, help and gradient."""
    mine = table()

    @mine.declare(in_place=True)
    def Scale(x: ex.Expr, *, factor: Annotated[float, "what to multiply by"] = 2.0) -> ex.Expr:  # noqa: N802
        """x times a number."""
        return x * factor

    net = ex.Net("n", mine)
    net.input("x", (2,))
    net.Scale("x", "x", factor=3)
    net.output("x")
    assert net.run([1, 2]).tolist() == [3, 6]
    assert list(inspect.signature(net.Scale).parameters) == ["inputs", "outputs", "factor"]
    for words in ("Scale(x, *, factor: float = 2.0) → 1", "x times a number.", "factor", "what to multiply by"):
        assert words in net.Scale.__doc__
    x = ex.tensor(np.ones(2, np.float32))
    assert ex.evaluate(ex.grad(net.build(x).sum(), [x])[0]).tolist() == [3, 3]


@pytest.mark.spec("C-6")
def test_a_type_is_declared_once_and_unknown_ones_list_similar_ones() -> None:
    """A second declaration of a type raises an error, but the same function may be declared again."""
    mine = table()

    def declare(factor: float) -> None:
        @mine.declare("Grow")
        def grow(x: ex.Expr) -> ex.Expr:
            return x * factor

    declare(2)
    declare(5)
    net = ex.Net("n", mine)
    net.input("x", (1,))
    net.output(net.Grow("x"))
    assert net.run([1]).tolist() == [5]
    with pytest.raises(DeclarationError, match=r"second declaration of the operator type 'Grow'\n.*grow declares it"):

        @mine.declare("Grow")
        def other(x: ex.Expr) -> ex.Expr:
            return x

    with pytest.raises(UnknownNameError, match=r"unknown operator type of mine 'Grwo'\n.*Grow"):
        net.add("Grwo", "x")
    with pytest.raises(AttributeError, match=r"^(?!.*near names: .*\b_)"):  # private attributes are no suggestions
        net.lock  # noqa: B018
    with pytest.raises(AttributeError, match=r"no operator type 'Grwo'; near names: Grow$"):
        net.Grwo  # noqa: B018
    with pytest.raises(AttributeError, match=r"no operator type 'xyzzyxyzzy'$"):
        net.xyzzyxyzzy  # noqa: B018
    with pytest.raises(DeclarationError, match="'name'"):

        @mine.declare()
        def Bad(x: ex.Expr, *, name: str) -> ex.Expr:  # noqa: N802
            return x


@pytest.mark.spec("C-7")
def test_a_schema_is_read_from_the_signature() -> None:
    """Test numbers of blobs (fixed, ranges, any, sets), arguments with types, defaults and docs, weights, and
    in-place."""

    def typed(
        a: ex.Expr,
        b: ex.Expr | None = None,
        *more: ex.Expr,
        size: int,
        mode: Literal["near", "far"] = "near",
        values: Tensor | None = None,
    ) -> tuple[ex.Expr, ex.Expr]:
        """Do something."""
        raise NotImplementedError

    schema = OperatorSchema.of("Typed", typed, inputs={1, 3}, in_place=((0, 1),), enforced=((1, 0),))
    assert [number in schema.inputs for number in range(5)] == [False, True, False, True, False]
    assert [number in schema.outputs for number in (1, 2, 3)] == [False, True, False]
    assert (schema.arguments["size"].required, schema.arguments["mode"].default) == (True, "near")
    assert (schema.weights, schema.in_place, schema.enforced) == ({"values": False}, ((0, 1),), ((1, 0),))
    assert str(schema).startswith("Typed(a, b = None, *more, *, values: array = None, size: int, mode: ")
    assert "Do something." in schema.help
    assert str(OperatorSchema.of("S", typed).inputs) == "1 or more"
    split = TABLE.schema("Split")
    fully = TABLE.schema("FC")
    assert split is not None
    assert fully is not None
    assert [number in split.outputs for number in (0, 1, 7)] == [False, True, True]
    assert [number in fully.inputs for number in (1, 2, 3, 4)] == [False, True, True, False]


@pytest.mark.parametrize(
    ("kind", "yes", "no"),
    [
        (int, [1, -3], [True, 1.0, "1", None]),
        (float, [1, 2.5], [False, "x", 1j]),
        (bool, [True], [1, 0]),
        (int | tuple[int, int], [1, (1, 2)], [(1,), (1, 2, 3), (1, 2.0)]),
        (tuple[int, ...] | None, [None, (), (1, 2, 3)], [1, (None,)]),
        (Literal[True, "a"], [True, "a"], [1, "b"]),
        (complex, [1, 1.0, 1j], [True]),
        (str, ["x"], [b"x"]),
    ],
)
def test_arguments_must_have_their_types(kind: object, yes: list[object], no: list[object]) -> None:
    assert all(accepts(kind, value) for value in yes)
    assert not any(accepts(kind, value) for value in no)


def base() -> ex.Net:
    net = ex.Net("n")
    net.input("x", (2, 3))
    net.GivenTensorFill([], "w", values=np.ones((4, 3), np.float32))
    return net


@pytest.mark.spec("C-7")
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda n: n.FC("x", "y"), r"operator 'fc' \(FC\): it reads 1 blob: x\n.*it must read 2 to 3 blobs: FC\(x, w"),
        (lambda n: n.Relu("x", ["y", "z"]), r"it writes 2 blobs: y, z\n.*it must write 1"),
        (lambda n: n.FC(["x", "w"], "x"), r"reads and overwrites 'x'\n.*must not be an input\n.*fix"),
        (lambda n: n.Softmax("x", "y", axes=1), r"unknown argument of Softmax 'axes'\n.*known: axis"),
        (lambda n: n.Softmax("x", "y", axis=1.5), r"axis=1\.5\n.*axis must be of type int"),
        (lambda n: n.Cast("x", "y"), r"the argument 'to' is missing\n.*Cast\(x, \*, to: str\)"),
        (lambda n: n.Dropout("x", "y", is_test=1), r"is_test=1\n.*is_test must be of type bool"),
        (lambda n: n.GivenTensorFill([], "y"), r"the weight 'values' is missing"),
        (lambda n: n.GivenTensorFill([], "y", values=[1.0], weights={"q": [1]}), r"unknown weight .* 'q'"),
        (lambda n: n.Relu("q", "y"), r"reads 'q', which nothing produces"),
        (lambda n: n.Relu("x", "y", name="given_tensor_fill"), r"name 'given_tensor_fill' is used twice"),
        (lambda n: n.Relu(3, "y"), r"given by name"),
        (lambda n: n.Softmax("x", "y", axis=np.ones(2)), r"axis is a tensor\n.*\n.*GivenTensorFill"),
    ],
)  # fmt: skip
def test_an_invalid_operator_raises_an_error_when_it_is_added(wrong: Callable[[ex.Net], object], said: str) -> None:
    """The error has the rule and the fix, and the net is unchanged."""
    net = base()
    before = net.definition
    with pytest.raises((ex.ExplorerError, TypeError), match=said):
        wrong(net)
    assert net.definition == before


@pytest.mark.spec("C-7", headline=True)
def test_schemas_are_verified_when_a_net_is_built() -> None:
    """Verify the schemas of operators when a net is built, before anything is computed."""
    operator = OperatorDefinition("Softmax", "s", ("x",), ("y",), {"axs": 1})
    types = {"x": BlobType((2, 3), "float32")}
    net = ex.Net(NetDefinition.of("n", [operator], ["x"], ["y"], types, dialect="explorer", rewrites=True))
    with pytest.raises(OperandError, match=r"operator 's' \(Softmax\): unknown argument of Softmax 'axs'\n.*axis"):
        net.build()
    assert list(net.problems()) == ["s"]
    assert "axs" in net.check()[0]


def test_in_place_is_enforced_for_types_that_require_it() -> None:
    mine = table()

    @mine.declare("Update", enforced=((0, 0),))
    def update(p: ex.Expr, g: ex.Expr) -> ex.Expr:
        return p - g

    net = ex.Net("n", mine)
    net.input("p", (1,))
    net.input("g", (1,))
    with pytest.raises(OperandError, match=r"reads 'p' and writes 'q'\n.*output 0 must overwrite input 0\n.*'p'"):
        net.Update(["p", "g"], "q")
    net.output(net.Update(["p", "g"], "p"))
    assert net.run([3], [1]).tolist() == [2]


def test_an_output_overwrites_only_the_inputs_that_its_type_allows() -> None:
    """In-place is allowed for pairs: an input that another output may overwrite is not overwritten by this one."""

    def pair(a: ex.Expr, b: ex.Expr) -> tuple[ex.Expr, ex.Expr]:
        raise NotImplementedError

    schema = OperatorSchema.of("Pair", pair, in_place=((0, 1),))
    schema.check(OperatorDefinition("Pair", "n", ("x", "y"), ("p", "x")))
    for outputs in (("x", "p"), ("p", "y"), ("y", "x")):
        with pytest.raises(
            OperandError, match=r"reads and overwrites .*\n.*must not be an input, except input 0 → output 1"
        ):
            schema.check(OperatorDefinition("Pair", "n", ("x", "y"), outputs))


def test_every_required_weight_must_be_given() -> None:
    """One weight does not replace another; an optional one may be missing."""

    def weighted(x: ex.Expr, *, scale: Tensor, shift: Tensor, more: Tensor | None = None) -> ex.Expr:
        raise NotImplementedError

    schema = OperatorSchema.of("Weighted", weighted)
    held = {name: WeightReference(name, (1,), "float32") for name in ("scale", "shift", "more")}
    schema.check(OperatorDefinition("Weighted", "n", ("x",), ("y",), weights={n: held[n] for n in ("scale", "shift")}))
    for missing in ("scale", "shift"):
        given = {name: reference for name, reference in held.items() if name != missing}
        with pytest.raises(OperandError, match=f"the weight '{missing}' is missing"):
            schema.check(OperatorDefinition("Weighted", "n", ("x",), ("y",), weights=given))


@pytest.mark.spec("C-19", headline=True)
def test_every_registered_type_is_a_method_with_completion_help_and_list() -> None:
    """Call every registered operator type as a method of nets, with completion, signature, help and a list."""
    net = ex.Net("n")
    assert net.types() == TABLE.types()
    assert set(net.types()) <= set(dir(net))
    for type in net.types():
        method = getattr(net, type)
        schema = TABLE.schema(type)
        assert schema is not None
        assert schema.doc, type
        assert schema.doc.splitlines()[0] in inspect.getdoc(method)
        assert set(schema.arguments) <= set(inspect.signature(method).parameters)
        assert repr(method) == f"<operator type {schema}>"


def test_outputs_and_operators_get_unique_names() -> None:
    net = base()
    assert net.Relu("x") == "relu"
    assert net.Relu("x") == "relu_1"
    assert net.Split("x", ["a", "b", "c"]) == ("a", "b", "c")
    assert net.SquaredL2Distance(["relu", "relu_1"]) == "squared_l2_distance"
    assert [operator.name for operator in net.definition.operators[-2:]] == ["split", "squared_l2_distance"]


@pytest.mark.parametrize(
    ("type", "name"),
    [
        ("Relu", "relu"),
        ("MatMul", "mat_mul"),
        ("SquaredL2Distance", "squared_l2_distance"),
        ("FC", "fc"),
        ("nn.ReLU", "relu"),
        ("nn.Conv2d", "conv2d"),
        ("torch.nn.MultiheadAttention", "multiheadattention"),
        ("aten::addmm", "addmm"),
    ],
)
def test_a_generated_name_comes_from_the_type(type: str, name: str) -> None:
    """Words in camel case are separated, except for established names of operator families."""
    assert own_name_of(type) == name


def test_operators_record_their_source_line() -> None:
    net = base()
    net.Relu("x", "y")
    operator = net.definition.operator("relu")
    assert operator.file == "test_editor.py"
    assert operator.text == 'net.Relu("x", "y")'
    net.output("y")
    assert 'net.Relu("x", "y")' in [source.text for source in net.preview_plan().recording.sources]


@pytest.mark.soak
def test_thousands_of_operators_are_added_one_by_one() -> None:
    net = ex.Net("long")
    net.input("x", (2,))
    for _ in range(20_000):
        net.Relu("x", "x")
    net.output("x")
    assert net.definition.blob("x").name == "x@20000"


@pytest.mark.spec("C-5", "C-8")
def test_accuracy_must_not_be_differentiated() -> None:
    net = ex.Net("n")
    net.Accuracy([net.input("x", (2, 3)), net.input("label", (2,), "int64")], "share")
    with refused(ex.StateError, "(Accuracy)", "must not be differentiated"):
        net.add_gradient_operators(["share"])


@pytest.mark.spec("C-5")
def test_the_kernel_of_a_convolution_must_match_its_filters() -> None:
    net = ex.Net("n")
    net.Conv([net.input("x", (1, 1, 5, 5)), net.input("w", (1, 1, 3, 3))], "y", kernel=2)
    net.output("y")
    with refused(ex.OperandError, "kernel=2 with filters", "the filters' last two axes"):
        net.run(np.ones((1, 1, 5, 5), "f"), np.ones((1, 1, 3, 3), "f"))


x43 = rng.normal(size=(4, 3)).astype(np.float32)
image = rng.normal(size=(2, 4, 6, 6)).astype(np.float32)
labels = np.array([2, 0, 1, 1])
ranked = np.array([[0, 1, np.inf], [5, 5, 1], [3, 2, 1], [9, -np.inf, 8]], np.float32)
"""the label's score is first, first of two equal ones, second, third"""


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@pytest.mark.spec("C-19")
@pytest.mark.parametrize(
    ("type", "inputs", "arguments", "expected"),
    [
        ("FC", [x43, np.ones((5, 3), np.float32), np.arange(5.0)], {}, lambda x, w, b: x @ w.T + b),
        ("FC", [image, np.ones((2, 144), np.float32)], {}, lambda x, w: x.reshape(2, -1) @ w.T),
        ("Conv", [image, np.ones((2, 2, 1, 1), np.float32)], {"group": 2, "stride": 2},
         lambda x, w: np.stack([x[:, :2, ::2, ::2].sum(1), x[:, 2:, ::2, ::2].sum(1)], 1)),
        ("Conv", [image, np.ones((1, 4, 6, 5), np.float32)], {"kernel": (6, 5)},
         lambda x, w: np.stack([x[..., :5].sum((1, 2, 3)), x[..., 1:].sum((1, 2, 3))], -1)[:, None, None]),
        ("MaxPool", [image], {"kernel": 2, "stride": 2}, lambda x: x.reshape(2, 4, 3, 2, 3, 2).max((3, 5))),
        ("MaxPool", [image], {"global_pooling": True}, lambda x: x.max((2, 3), keepdims=True)),
        ("AveragePool", [image], {"kernel": (3, 2), "stride": (3, 2)},
         lambda x: x.reshape(2, 4, 2, 3, 3, 2).mean((3, 5))),
        ("AveragePool", [image], {"global_pooling": True}, lambda x: x.mean((2, 3), keepdims=True)),
        ("Relu", [x43], {}, lambda x: np.maximum(x, 0)),
        ("Sigmoid", [x43], {}, lambda x: 1 / (1 + np.exp(-x))),
        ("Tanh", [x43], {}, np.tanh),
        ("Softmax", [x43], {}, softmax),
        ("Softmax", [image], {"axis": 2}, lambda x: softmax(x.reshape(8, 36)).reshape(x.shape)),
        ("SpatialBN", [image, *(np.full(4, v, np.float32) for v in (2, 1, 0.5, 4))], {"epsilon": 0.0},
         lambda x, s, b, m, v: (x - 0.5) / 2 * 2 + 1),
        ("Add", [x43, x43[:, :1]], {}, np.add),
        ("Sub", [x43, x43[0]], {}, np.subtract),
        ("Mul", [x43, x43], {}, np.multiply),
        ("Div", [x43, x43 + 9], {}, np.divide),
        ("Sum", [x43, x43, x43], {}, lambda *x: sum(x)),
        ("MatMul", [x43, x43], {"trans_b": True}, lambda a, b: a @ b.T),
        ("BatchMatMul", [image, image], {"trans_a": True}, lambda a, b: a.swapaxes(2, 3) @ b),
        ("BatchMatMul", [image, image[0, 0]], {"trans_b": True, "broadcast": True}, lambda a, b: a @ b.T),
        ("Reshape", [image], {"shape": (0, -1, 6)}, lambda x: x.reshape(2, 24, 6)),
        ("Flatten", [image], {"axis": 2}, lambda x: x.reshape(8, 36)),
        ("Transpose", [image], {"axes": (0, 2, 3, 1)}, lambda x: x.transpose(0, 2, 3, 1)),
        ("Transpose", [x43], {}, np.transpose),
        ("Concat", [image, image[:, :1]], {}, lambda a, b: np.concatenate((a, b), 1)),
        ("Slice", [x43], {"starts": (1, 0), "ends": (-1, 2)}, lambda x: x[1:, :2]),
        ("Slice", [x43], {"starts": (1,), "ends": (-2,)}, lambda x: x[1:3]),
        ("Gather", [x43, labels], {}, lambda x, i: x[i]),
        ("Cast", [x43], {"to": "int64"}, lambda x: x.astype(np.int64)),
        ("Copy", [x43], {}, lambda x: x),
        ("StopGradient", [x43], {}, lambda x: x),
        ("Dropout", [x43], {"ratio": 0.5}, lambda x: x),
        ("ConstantFill", [x43], {"value": 2}, lambda x: np.full_like(x, 2)),
        ("SquaredL2Distance", [x43, x43 * 2], {}, lambda a, b: 0.5 * ((a - b) ** 2).sum(1)),
        ("AveragedLoss", [x43], {}, lambda x: x.mean()),
        ("Accuracy", [ranked, labels], {}, lambda x, n: np.float32(0.5)),
        ("Accuracy", [ranked, labels[:, None]], {"top_k": 2}, lambda x, n: np.float32(0.75)),
        ("LabelCrossEntropy", [softmax(x43), labels[:, None] % 3], {},
         lambda p, n: -np.log(p[np.arange(4), n[:, 0]])),
    ],
)  # fmt: skip
def test_every_type_computes_its_documented_formula(
    type: str, inputs: list[np.ndarray], arguments: dict[str, object], expected: Callable[..., np.ndarray]
) -> None:
    """Each of explorer's own operator types equals its definition in NumPy."""
    net = ex.Net("one")
    names = [net.input(f"i{index}", array.shape, array.dtype) for index, array in enumerate(inputs)]
    net.output(net.add(type, names, "y", **arguments))
    result = net.run(*inputs)
    np.testing.assert_allclose(result, expected(*inputs), rtol=2e-5, atol=1e-6)


def test_every_type_is_tested_above() -> None:
    marks = test_every_type_computes_its_documented_formula.pytestmark  # type: ignore[attr-defined]
    shown = {case[0] for mark in marks if mark.name == "parametrize" for case in mark.args[1]}
    several_outputs_or_none = {"GivenTensorFill", "Split", "SoftmaxWithLoss"}
    fills = {"UniformFill", "GaussianFill", "XavierFill", "MSRAFill", "UniqueUniformFill"}
    updates = {"Iter", "LearningRate", "MomentumSGDUpdate", "Adagrad", "Adam", "RmsProp", "Ftrl", "WeightedSum"}
    collectives = {"Allreduce", "Broadcast", "Allgather", "NCCLAllreduce", "NCCLBroadcast", "CopyToDevice"}
    stored = {"CreateDB", "TensorProtosDBInput", "DBExists", "Save", "Load", "Checkpoint"}
    own = {name for name in TABLE.types() if TABLE.is_own(name)}
    assert own - shown == several_outputs_or_none | fills | updates | collectives | stored


def test_several_outputs_and_constants() -> None:
    net = ex.Net("several")
    net.input("x", (4, 3))
    net.input("n", (4,), "int64")
    net.GivenTensorFill([], "w", values=np.eye(3, dtype=np.float32))
    net.ConstantFill([], "b", shape=(3,), value=1.0)
    net.FC(["x", "w", "b"], "h")
    net.SoftmaxWithLoss(["h", "n"], ["p", "loss"])
    net.Split("h", ["left", "right"], split=(1, 2))
    net.output("p", "loss", "left", "right")
    result = net.run(x43, labels % 3)
    expected = softmax(x43 + 1)
    np.testing.assert_allclose(result["p"], expected, rtol=1e-5)
    np.testing.assert_allclose(result["loss"], -np.log(expected[np.arange(4), labels % 3]).mean(), rtol=1e-5)
    np.testing.assert_array_equal(np.hstack([result["left"], result["right"]]), x43 + 1)


def test_stacks_of_unequal_length_are_multiplied_only_on_request() -> None:
    net = ex.Net("one")
    net.input("a", (2, 4, 3), "float32")
    net.input("b", (3, 5), "float32")
    net.BatchMatMul(["a", "b"], "y")
    net.output("y")
    with pytest.raises(ex.ExplorerError, match=r"(?s)axes before the last two must be equal.*broadcast=True"):
        net.build()


@pytest.mark.parametrize(
    ("type", "arguments", "said"),
    [
        ("Split", {"split": (1, 1)}, r"parts of .*split=\(1, 1\)"),
        ("MaxPool", {}, r"'kernel' is missing"),
        ("AveragePool", {"kernel": 2, "global_pooling": True}, r"kernel=2 with global_pooling=True"),
        ("ConstantFill", {"shape": (2,)}, r"the shape must be given either by shape or by an input blob"),
        ("Slice", {"starts": (0,), "ends": (1, 2)}, r"must have the same length"),
        ("Reshape", {"shape": (0, 0, 0)}, r"0 keeps the axis"),
        ("Cast", {"to": "float31"}, r"float31"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_when_the_net_is_built(
    type: str, arguments: dict[str, object], said: str
) -> None:
    net = ex.Net("one")
    net.input("x", (4, 3))
    outputs = ["a", "b"] if type == "Split" else ["a"]
    net.add(type, "x", outputs, **arguments)
    net.output(*outputs)
    with pytest.raises(OperandError, match=said):
        net.build()


@pytest.mark.spec("I-2")
def test_a_written_net_has_the_states_of_any_net() -> None:
    """Adding operators resets a built net to NeedBuild."""
    net = base()
    net.output(net.Relu("x", "y"))
    net.build()
    assert net.state is NetState.COMPLETE
    net.output(net.Tanh("y", "z"))
    assert net.state is NetState.NEED_BUILD
    assert set(net.run(np.ones((2, 3), np.float32))) == {"y", "z"}
    assert net.state is NetState.COMPLETE


@pytest.mark.spec("I-2")
def test_registering_a_type_resets_a_net() -> None:
    """Earlier checks and builds are repeated with the new builder."""
    mine = table()

    def scaled(factor: float) -> Callable[[OperatorContext], ex.Expr]:
        return lambda op: op.x * factor

    mine.register("my.Scale")(scaled(2))
    net = ex.Net("n", mine)
    net.input("x", (2,))
    net.output(net.add("my.Scale", "x", "y"))
    assert net.run([1, 2]).tolist() == [2, 4]
    assert net.state is NetState.COMPLETE
    mine.register("my.Scale")(scaled(3))
    assert net.state is NetState.NEED_INIT
    assert net.run([1, 2]).tolist() == [3, 6]
    assert net.state is NetState.COMPLETE


@pytest.mark.spec("I-9")
@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize("values", range(5))
def test_a_builder_returns_one_value_for_each_output(values: int, outputs: int) -> None:
    """A tuple has a value for each of several outputs; a single output is returned directly."""
    mine = table()

    @mine.register("my.Several")
    def several(op: OperatorContext) -> tuple[ex.Expr, ...]:
        return tuple(op.x + number for number in range(values))

    net = ex.Net("n", mine)
    net.input("x", (1,))
    names = [f"y{place}" for place in range(outputs)]
    net.add("my.Several", "x", names)
    if outputs == 1:
        assert not net.check()
        return
    net.output(*names)
    if values == outputs:
        assert [value.tolist() for value in net.run([5]).values()] == [[5 + place] for place in range(outputs)]
        return
    with pytest.raises(
        ex.ExplorerError, match=f"returned {values} value{'s' * (values != 1)}\\n.*{outputs} outputs: y0, y1"
    ):
        net.build()


@pytest.mark.spec("C-19", "I-2")
def test_a_written_net_is_planned_run_and_explored() -> None:
    """Blobs written in place and operators with several outputs behave as in any net."""
    net = ex.Net("towers")
    net.input("x", (None, 4))
    net.GivenTensorFill([], "w", values=np.eye(4, dtype=np.float32), name="dense.weight")
    net.FC(["x", "w"], "h", name="dense.apply")
    net.Softmax("h", "h", name="dense.normalize")
    net.Split("h", ["a", "b"], name="split")
    net.Mul(["a", "b"], "a")
    net.output("a", "b", "h")
    x = rng.normal(size=(3, 4)).astype(np.float32)
    h = softmax(x)
    result = net.run(x)
    np.testing.assert_allclose(result["h"], h, rtol=1e-5)
    np.testing.assert_allclose(result["a"], h[:, :2] * h[:, 2:], rtol=1e-5)
    plan = net.plan(x, record="values").eval()
    assert plan.recording.run is not None
    assert plan.recording.run.values
    view = net.explore(x)
    assert view.recording.title == "towers"
    kinds = str(net.preview_plan().recording.scopes)
    for said in ("FC → h@0", "Softmax h@0 → h@1", "Split h@1 → a@0", "Mul a@0 → a@1"):
        assert said in kinds, said


def test_gradients_stop_at_stop_gradient() -> None:
    net = ex.Net("n")
    net.input("x", (2,))
    net.StopGradient("x", "s")
    net.output(net.Mul(["x", "s"], "y"))
    x = ex.tensor(np.array([2, 3], np.float32))
    assert ex.evaluate(ex.grad(net.build(x).sum(), [x])[0]).tolist() == [2, 3]


def test_building_a_net_without_outputs_raises_an_error() -> None:
    net = base()
    net.Relu("x", "y")
    for ask in (net.build, lambda: net.run(np.ones((2, 3), np.float32))):
        with pytest.raises(OperandError, match=r"net 'n' has no outputs\n.*\n.*net\.output"):
            ask()
    assert net.preview_plan().recording.nodes


def test_a_net_without_its_table_raises_an_error() -> None:
    definition = NetDefinition.of("d", [], [], [], dialect="pnnx")
    with pytest.raises(OperandError, match=r"dialect 'pnnx' with no table"):
        ex.Net(definition)
    with pytest.raises(OperandError, match=r"dialect 'pnnx' with the table of 'explorer'"):
        ex.Net(definition, TABLE)
