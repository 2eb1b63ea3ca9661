"""Operator types of PNNX files against torch's results, and user-defined types."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.errors import DeclarationError
from explorer.formats.pnnx.expression_tree import ARITY
from explorer.formats.pnnx.operators import TABLE
from explorer.formats.pnnx.operators.elements.expression import apply
from explorer.net import Net
from explorer.net.definition.definition import NetDefinition, OperatorDefinition, WeightReference
from tests.formats.pnnx.nets import net_of
from tests.support.refusals import refused

reference = np.load(Path(__file__).parents[3] / "assets" / "reference.npz")
CASES = sorted(key.removesuffix("/arguments") for key in reference if key.endswith("/arguments"))
TYPES = {
    "conv2d": "nn.Conv2d",
    "max_pool2d": "nn.MaxPool2d",
    "avg_pool2d": "nn.AvgPool2d",
    "adaptive_avg_pool2d": "nn.AdaptiveAvgPool2d",
    "batch_norm": "nn.BatchNorm2d",
    "layer_norm": "nn.LayerNorm",
    "linear": "nn.Linear",
    "softmax": "F.softmax",
    "log_softmax": "F.log_softmax",
    "gelu": "F.gelu",
    "silu": "F.silu",
    "hardswish": "F.hardswish",
    "hardsigmoid": "F.hardsigmoid",
    "softplus": "F.softplus",
}
WEIGHTS = {
    "batch_norm": ("running_mean", "running_var", "weight", "bias"),
    "conv2d": ("weight", "bias"),
    "linear": ("weight", "bias"),
    "layer_norm": ("weight", "bias"),
}


@pytest.mark.spec("I-6", headline=True)
@pytest.mark.parametrize(
    "case", [c for c in CASES if json.loads(str(reference[f"{c}/arguments"]))["operation"] in TYPES]
)
def test_operators_equal_torch(case: str) -> None:
    """Compute the layers of model files as torch does, with each of their options."""
    arguments = json.loads(str(reference[f"{case}/arguments"]))
    operation = arguments.pop("operation")
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in arguments.items()}
    given = [reference[f"{case}/input{i}"] for i in range(6) if f"{case}/input{i}" in reference]
    weights = dict(zip(WEIGHTS.get(operation, ()), given[1:], strict=False))
    if operation == "conv2d":
        plain |= {"kernel_size": given[1].shape[2:], "bias": "bias" in weights}
    elif operation == "linear":
        plain["bias"] = "bias" in weights
    elif operation == "batch_norm":
        plain["affine"] = "weight" in weights
    result = net_of(TYPES[operation], 1, plain, weights).run(given[0])
    np.testing.assert_allclose(result, reference[f"{case}/output"], rtol=1e-12, atol=1e-12)


@pytest.mark.spec("I-6")
def test_llama_layers_become_pnnx_types() -> None:
    """KuiperInfer's RMSNorm over a whole sample is nn.RMSNorm, its llama matmul (w @ x) torch.matmul with a weight."""
    rng = np.random.default_rng(0)
    sample, scale = rng.normal(size=(2, 3, 8)).astype(np.float32), rng.normal(size=(3, 8)).astype(np.float32)
    norm = net_of("nn.RMSNorm", 1, {"normalized_shape": (3, 8), "eps": 1e-6}, {"weight": scale})
    expected = [scale * (each / np.sqrt(np.mean(each * each) + np.float32(1e-6))) for each in sample]
    np.testing.assert_allclose(norm.run(sample), expected, rtol=1e-6)
    weight = rng.normal(size=(5, 3)).astype(np.float32)
    operators = [
        OperatorDefinition(
            "pnnx.Attribute", "w", (), ("w",), weights={"data": WeightReference("w", (5, 3), "float32")}
        ),
        OperatorDefinition("torch.matmul", "product", ("w", "x"), ("y",)),
    ]
    product = Net(NetDefinition.of("llama", operators, ["x"], ["y"], weights={"w": weight}), TABLE)
    for x in (sample[0], sample[0, :, :1], sample):
        np.testing.assert_allclose(product.run(x), weight @ x, rtol=1e-5)


x = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
image = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
whole = np.array([3, 0, 2])
_ALL = 2**31 - 1
"""pnnx's value for a missing end or index"""
_SELECTS = (_ALL, _ALL, -1)


@pytest.mark.spec("I-6")
@pytest.mark.parametrize(
    ("type", "arguments", "given", "expected"),
    [
        ("nn.ReLU", {}, [x - 12], np.maximum(x - 12, 0)),
        ("nn.ReLU6", {}, [x - 12], np.clip(x - 12, 0, 6)),
        ("nn.Sigmoid", {}, [x - 12], 1 / (1 + np.exp(12 - x))),
        ("nn.LeakyReLU", {"negative_slope": 0.5}, [x - 12], np.where(x > 12, x - 12, (x - 12) / 2)),
        ("torch.clamp", {"min": 2, "max": None}, [x], np.maximum(x, 2)),
        ("F.hardtanh", {"min_val": 1.0, "max_val": 7.0}, [x], np.clip(x, 1, 7)),
        ("torch.flatten", {"start_dim": 1, "end_dim": -1}, [x], x.reshape(2, 12)),
        ("Tensor.reshape", {"shape": (4, -1)}, [x], x.reshape(4, 6)),
        ("Tensor.view", {"shape": 24}, [x], x.reshape(24)),
        ("Tensor.permute", {"dims": (2, 0, 1)}, [x], x.transpose(2, 0, 1)),
        ("torch.transpose", {"dim0": -1, "dim1": 0}, [x], x.swapaxes(-1, 0)),
        ("torch.unsqueeze", {"dim": -1}, [x], x[..., None]),
        ("torch.squeeze", {"dim": 1}, [x[:, :1]], x[:, 0]),
        ("torch.squeeze", {"dim": 1}, [x], x),
        ("Tensor.select", {"dim": 1, "index": -1}, [x], x[:, -1]),
        ("Tensor.slice", {"dim": 2, "start": 1, "end": 99, "step": 2}, [x], x[:, :, 1:99:2]),
        ("Tensor.slice", {"dim": 0, "start": None, "end": -1, "step": 1}, [x], x[:-1]),
        (
            "Tensor.slice",
            {"dims": (0, -1, 1), "starts": (0, 1, 0), "ends": (_ALL, 99, 0), "steps": (1, 2, 1), "selects": _SELECTS},
            [x],
            x[:, -1, 1::2],
        ),
        ("Tensor.expand", {"sizes": (5, -1, 3, 4)}, [x[:, :1, :1]], np.broadcast_to(x[:, :1, :1], (5, 2, 3, 4))),
        ("torch.cat", {"dim": 1}, [x, x + 1], np.concatenate([x, x + 1], 1)),
        ("torch.stack", {"dim": -1}, [x, x + 1], np.stack([x, x + 1], -1)),
        ("torch.matmul", {}, [x, x.swapaxes(1, 2)], x @ x.swapaxes(1, 2)),
        ("torch.addmm", {"alpha": 2, "beta": 3}, [x[0], x[0, :, :3], x[1]], 3 * x[0] + 2 * (x[0, :, :3] @ x[1])),
        ("torch.mean", {"dim": (1, 2), "keepdim": True}, [x], x.mean((1, 2), keepdims=True)),
        ("torch.sum", {"dim": None, "keepdim": False}, [x], x.sum()),
        ("torch.amax", {"dim": -1, "keepdim": False}, [x], x.max(-1)),
        ("torch.gt", {"other": 5}, [x], x > 5),
        ("torch.eq", {}, [x, x], x == x),
        ("nn.Upsample", {"mode": "nearest", "scale_factor": (2.0, 3.0)}, [image], image.repeat(2, 2).repeat(3, 3)),
        ("F.interpolate", {"mode": "nearest", "size": (8, 5)}, [image], image.repeat(2, 2)),
        ("nn.AdaptiveAvgPool2d", {"output_size": (None, 1)}, [image], image.mean(3, keepdims=True)),
        ("nn.MaxPool2d", {"kernel_size": (2, 2), "stride": None}, [image], image[:, :, 1::2, 1:4:2]),
        ("aten::add", {"alpha": 2}, [x, x], 3 * x),
        ("aten::sub", {}, [x, x], 0 * x),
        ("nn.Identity", {}, [x], x),
    ],
)
def test_operators_compute_what_numpy_computes(
    type: str, arguments: dict[str, Any], given: list[Any], expected: Any
) -> None:
    result = net_of(type, len(given), arguments).run(*given)
    assert result.dtype == np.asarray(expected).dtype
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_operators_with_several_outputs() -> None:
    result = net_of("torch.split", 1, {"split_size_or_sections": (1, 3), "dim": 2}, outputs=2).run(x)
    assert [array.shape for array in result.values()] == [(2, 3, 1), (2, 3, 3)]
    result = net_of("torch.chunk", 1, {"chunks": 2, "dim": 1}, outputs=2).run(x)
    np.testing.assert_array_equal(result["y1"], x[:, 2:])
    with pytest.raises(ex.OperandError, match="2 values"):
        net_of("torch.chunk", 1, {"chunks": 2, "dim": 1}, outputs=3).run(x)
    with pytest.raises(ex.OperandError, match="add up to 4"):
        net_of("torch.split", 1, {"split_size_or_sections": (1, 2), "dim": 2}, outputs=2).run(x)


def test_look_up_and_constants() -> None:
    table = x.reshape(6, 4)
    np.testing.assert_array_equal(net_of("nn.Embedding", 1, weights={"weight": table}).run(whole), table[whole])
    np.testing.assert_array_equal(net_of("pnnx.Attribute", 0, weights={"data": x}).run(), x)
    with pytest.raises(ex.RunError, match="row 6 of a table with rows 0 … 5"):
        net_of("nn.Embedding", 1, weights={"weight": table}).run(np.array([6]))


@pytest.mark.spec("I-1")
def test_an_index_with_a_list_of_numbers(tmp_path: Path) -> None:
    """`x[:, [0, -1, 2]]`, a nested list in pnnx, selects these elements of the axis."""
    lines = [
        "7767517",
        "3 2",
        "pnnx.Input i 0 1 0 #0=(2,4,3)f32",
        "Tensor.index at 1 1 0 1 expr=[None,[0,-1,2]] #0=(2,4,3)f32 #1=(2,3,3)f32",
        "pnnx.Output o 1 0 1",
    ]
    (tmp_path / "m.param").write_text("\n".join(lines) + "\n")
    net = ex.open(tmp_path / "m.param")
    x = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    assert net.check() == []
    np.testing.assert_array_equal(net.run(x), x[:, [0, -1, 2]])
    net.save(tmp_path / "again.param")
    np.testing.assert_array_equal(ex.open(tmp_path / "again.param").run(x), x[:, [0, -1, 2]])


def test_padding_that_keeps_the_size() -> None:
    """ "same" pads an even filter more at the end, as in torch."""
    filters = np.zeros((1, 3, 2, 3), np.float32)
    filters[0, 0, 0, 1] = 1
    arguments = {"kernel_size": (2, 3), "padding": "same", "bias": False, "stride": (1, 1)}
    result = net_of("nn.Conv2d", 1, arguments, {"weight": filters}).run(image)
    np.testing.assert_array_equal(result[:, 0], image[:, 0])


@pytest.mark.spec("I-9", headline=True)
@pytest.mark.parametrize(
    ("type", "arguments", "weights", "said"),
    [
        (
            "nn.Conv2d",
            {"padding_mode": "mirror", "kernel_size": 1},
            {},
            r"operator 'op' \(nn.Conv2d\): padding_mode='mirror'",
        ),
        ("nn.Conv2d", {"kernel_size": (1, 1, 1)}, {"weight": x}, "one number, or 2"),
        ("nn.Conv2d", {"kernel_size": 1, "bias": False}, {}, "the input 'weight' is missing; given: 1 unnamed operand"),
        (
            "nn.Conv2d",
            {"kernel_size": 1, "bias": False},
            {"weight": x[None]},
            r"1×2×3×4 float32 with kernel_size=\(1, 1\)",
        ),
        ("nn.Conv2d", {"kernel_size": (3, 4), "bias": False}, {"weight": x[None]}, r"images must have 2 × 1 channels"),
        ("nn.Linear", {"bias": 1}, {"weight": x[0]}, "bias=1\n.*bias must be True or False"),
        ("F.softmax", {}, {}, "the argument 'dim' is missing; given: none"),
        ("F.softmax", {"dim": "one"}, {}, "dim='one'\n.*an integer"),
        ("F.softmax", {"dim": 9}, {}, "axis 9"),
        ("nn.MaxPool2d", {"kernel_size": 2, "return_indices": 2}, {}, "return_indices=2"),
        ("torch.matmul", {}, {}, "the input 'mat2' or 'other' is missing; given: 1 unnamed operand"),
    ],
)
def test_what_an_operator_refuses_names_it(
    type: str, arguments: dict[str, Any], weights: dict[str, Any], said: str
) -> None:
    """Reject invalid input with one family of errors, which give the operator, its type, the value and the rule."""
    with pytest.raises(ex.OperandError, match=said) as caught:
        net_of(type, 1, arguments, weights).build(image)
    assert str(caught.value).startswith("operator 'op' (")


@pytest.mark.spec("I-7")
@pytest.mark.parametrize("name", sorted(set(ARITY) - {"size"}))
def test_functions_of_expressions_on_numbers_and_tensors(name: str) -> None:
    """Every function of pnnx.Expression gives equal values for plain numbers and for tensors."""
    whole_only = name in ("and", "or", "xor", "lshift", "rshift")
    low = 0.5 if name in ("acos", "asin", "atanh") else 2.5
    given: list[Any] = [6, 3][: ARITY[name][0]] if whole_only else [low, 1.5][: ARITY[name][0]]
    plain = apply(name, given)
    recorded = ex.evaluate(apply(name, [ex.tensor(value) for value in given]))
    assert float(plain) == pytest.approx(float(recorded), rel=1e-12)


@pytest.mark.spec("I-7", headline=True)
def test_expressions_become_nodes_in_a_box() -> None:
    """Expand an expression in a file to single nodes in a box with its source; the plan merges equal parts."""
    net = net_of("pnnx.Expression", 2, {"expr": "mul(sub(@0,@1),sub(@0,@1))"})
    y = net.build(x, x + 2)
    assert (y.scope.name, y.scope.type) == ("op", "mul(sub(@0,@1),sub(@0,@1))")
    assert y.operands[0] is not y.operands[1]
    np.testing.assert_array_equal(net.run(x, x + 2), np.full_like(x, 4))
    plan = net.plan(x, x + 2)
    assert [d.code for d in plan.recording.decisions if d.rule == "Dedup" and d.verdict == "applied"] == ["merged"]


@pytest.mark.spec("I-7")
def test_misplaced_brackets_are_read_and_reported() -> None:
    net = net_of("pnnx.Expression", 2, {"expr": "add(add(@1,log10(@0)),log1p),@0)"})
    result = net.run(x + 1, x)
    np.testing.assert_allclose(result, x + np.log10(x + 1) + np.log1p(x + 1), rtol=1e-6)
    assert "read as prefix notation" in str(net.build(x, x).scope)


def test_plain_expressions_make_no_nodes() -> None:
    def of(expr: str) -> Any:
        return TABLE["pnnx.Expression"](_context(expr))

    def _context(expr: str) -> Any:
        from explorer.net import OperatorContext

        operator = OperatorDefinition("pnnx.Expression", "e", ("x",), ("y",), {"expr": expr})
        return OperatorContext(operator, (ex.tensor(x),), lambda name: pytest.fail(name))

    assert of("[2,-1,size(@0,2)]") == (2, -1, 4)
    assert of("floor_divide(mul(size(@0,0),5),3)") == 3
    assert of("div(1,4)") == 0.25
    assert of("sqrt(2.0)") == math.sqrt(2)
    assert of("None") is None
    with pytest.raises(ex.OperandError, match=r"sqrt of -1: .*\n  rule: the numbers must be in"):
        of("sqrt(-1)")
    with pytest.raises(ex.OperandError, match="size of 3"):
        of("size(3,0)")
    with refused(ex.OperandError, "numbers"):
        of("add([1],2)")


def test_dtypes_follow_torch() -> None:
    """Integer tensors with a float become float32, and integers with a floating tensor get its dtype."""
    numbers = ex.tensor(whole)
    assert apply("add", [numbers, 1]).dtype == np.int64
    assert apply("add", [numbers, 0.5]).dtype == np.float32
    assert apply("div", [numbers, 2]).dtype == np.float32
    assert apply("mul", [numbers, ex.tensor(x[0, 0, :3])]).dtype == np.float32
    assert apply("torch.long", [ex.tensor(x)]).dtype == np.int64


@pytest.mark.spec("I-16", headline=True)
def test_users_register_file_types() -> None:
    """Register a layer for a file's operator type in a cell; layer_types lists it, and nets use it afterwards."""
    net = net_of("test.Twice", 1)
    assert [unknown.type for unknown in net.unknown()] == ["test.Twice"]
    with pytest.raises(ex.OperandError, match=r"test\.Twice(.|\n)*file_operator"):
        net.run(x)
    try:

        @TABLE.declare("test.Twice")
        def declared(x: ex.Expr, factor: float = 2.0) -> ex.Expr:
            """x · factor."""
            return x * factor

        assert TABLE.schema("test.Twice") is not None

        @ex.file_operator("test.Twice", "test.Double")
        def twice(op: Any) -> Any:
            return op.x * op.number("factor", 2)

        assert TABLE.schema("test.Twice") is None, "nothing is known of another builder's arguments"
        assert {"test.Twice", "test.Double"} <= set(ex.layer_types())
        np.testing.assert_array_equal(net.run(x), 2 * x)

        @ex.file_operator("test.Twice")
        def thrice(op: Any) -> Any:
            return op.x * 3

        np.testing.assert_array_equal(net.run(x), 3 * x)

        @ex.file_operator("test.Twice")
        def broken(op: Any) -> Any:
            return op.nothing

        with pytest.raises(AttributeError) as caught:
            net.run(x)
        assert "while building operator 'op' (test.Twice)" in caught.value.__notes__[0]
    finally:
        for name in ("test.Twice", "test.Double"):
            TABLE._builders.pop(name, None)
    with pytest.raises(DeclarationError, match="file_operator"):
        ex.file_operator()


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (4, 5)])
def test_an_even_pooling_returns_indices(size: tuple[int, int]) -> None:
    """pnnx records both results of torch's function, even if the second one is not read."""
    picture = np.random.default_rng(4).normal(size=(2, 3, 4, 5)).astype(np.float32)
    definition = net_of("F.adaptive_max_pool2d", 1, {"output_size": size, "return_indices": True}).definition
    (operator,) = definition.operators
    both = replace(operator, outputs=("y", "places"))
    net = Net(NetDefinition.of("pool", [both], definition.inputs, ["y", "places"]), TABLE)
    y, places = net.run(picture).values()
    assert (places.dtype, places.shape) == (np.int64, y.shape)
    np.testing.assert_array_equal(
        np.take_along_axis(picture.reshape(2, 3, 20), places.reshape(2, 3, -1), 2).reshape(y.shape), y
    )


def test_a_padding_mask_is_distinguished_from_an_attention_mask() -> None:
    """pnnx labels the module's key_padding_mask, which has another shape, as its attn_mask."""
    arguments = {"num_heads": 2, "embed_dim": 4, "batch_first": True, "bias": False}
    weights = {"in_proj_weight": np.zeros((12, 4), np.float32), "out_proj.weight": np.zeros((4, 4), np.float32)}
    (operator,) = net_of("nn.MultiheadAttention", 2, arguments, weights).definition.operators
    masked = replace(operator, input_names={"attn_mask": operator.inputs[1]})
    net = Net(NetDefinition.of("m", [masked], operator.inputs, operator.outputs, weights=weights), TABLE)
    with refused(ex.ExplorerError, "attn_mask is 3×5", "must have the shape (5, 5), or (6, 5, 5)"):
        net.run(np.zeros((3, 5, 4), np.float32), np.zeros((3, 5), np.float32))
