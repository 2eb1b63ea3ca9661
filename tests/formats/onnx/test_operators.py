"""ONNX operators against NumPy: attributes, operands and opsets."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto

import explorer as ex
from tests.formats.onnx.models import FLOAT, model, node, opened, result

Array = np.ndarray[Any, Any]
random = np.random.default_rng(7)
x = random.standard_normal((2, 3, 4)).astype(np.float32)
y = random.standard_normal((3, 1)).astype(np.float32)
image = random.standard_normal((2, 4, 6, 5)).astype(np.float32)
whole = np.array([[-7, 5, 4], [9, -2, 3]])


def softmax(a: Array, axis: int = -1) -> Array:
    e = np.exp(a - a.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def normal(a: Array, axes: tuple[int, ...], epsilon: float = 1e-5) -> Array:
    return (a - a.mean(axes, keepdims=True)) / np.sqrt(a.var(axes, keepdims=True) + epsilon)


def one(type: str, *operands: str, **attributes: Any) -> NodeProto:
    return node(type, ["x", *operands], ["out"], **attributes)


erf = np.vectorize(math.erf)
CASES: list[tuple[NodeProto, tuple[Array, ...], Array]] = [
    (one("Erf"), (x,), erf(x)),
    (one("Div", "b"), (whole, np.array(4)), np.trunc(whole / 4)),
    (one("Mod", "b"), (whole, np.array([[4], [-4]])), whole % [[4], [-4]]),
    (one("Mod", "b", fmod=1), (whole, np.array([[4], [-4]])), np.fmod(whole, [[4], [-4]])),
    (one("Pow", "b"), (whole.astype(np.int32), np.array(2.0, np.float32)), whole.astype(np.int32) ** 2),
    (one("Max", "b", "c"), (x, y, -y), np.maximum(np.maximum(x, y), -y)),
    (one("Mean", "b"), (x, y), (x + y) / 2),
    (one("Xor", "b"), (whole > 0, whole > 4), (whole > 0) ^ (whole > 4)),
    (one("BitwiseNot"), (whole,), ~whole),
    (one("Cast", to=7), (np.array([1.7, -1.7], np.float32),), np.array([1, -1])),
    (one("Where", "a", "b"), (x > 0, x, y), np.where(x > 0, x, y)),
    (one("Clip", "low", "high"), (x, np.float32(-0.5), np.float32(0.25)), np.clip(x, -0.5, 0.25)),
    (one("Clip", "", "high"), (x, np.float32(0.25)), np.minimum(x, 0.25)),
    (one("Elu", alpha=2.0), (x,), np.where(x > 0, x, 2 * (np.exp(x) - 1))),
    (one("HardSigmoid", alpha=0.3, beta=0.4), (x,), np.clip(0.3 * x + 0.4, 0, 1)),
    (one("HardSigmoid", alpha=1 / 6, beta=0.5), (x,), np.clip(x / 6 + 0.5, 0, 1)),
    (one("PRelu", "slope"), (x, y), np.where(x < 0, x * y, x)),
    (one("Gelu"), (x,), x * (1 + erf(x / math.sqrt(2))) / 2),
    (one("Shrink", lambd=0.5, bias=0.1), (x,), np.where(x > 0.5, x - 0.1, np.where(x < -0.5, x + 0.1, 0))),
    (one("Softmax", axis=1), (x,), softmax(x, 1)),
    (one("Hardmax", axis=1), (x,), (x == x.max(1, keepdims=True)).astype(np.float32)),
    (
        one("Gemm", "b", "c", transA=1, alpha=0.5, beta=2.0),
        (x[0], x[0, :, :2], y[0]),
        0.5 * x[0].T @ x[0, :, :2] + 2 * y[0],
    ),
    # a factor of 0 omits C, whatever it contains, as in BLAS
    (one("Gemm", "b", "c", beta=0.0), (x[0], x[0].T, np.full(3, np.inf, np.float32)), x[0] @ x[0].T),
    (one("ReduceSum", "axes", keepdims=0), (x, np.array([-1, 0])), x.sum((0, 2))),
    (one("ReduceSum", "axes", noop_with_empty_axes=1), (x, np.array([], np.int64)), x),
    (one("ReduceMean"), (x,), x.mean(keepdims=True)),
    (one("ReduceL2", "axes"), (x, np.array([1])), np.sqrt((x * x).sum(1, keepdims=True))),
    (one("ReduceSum"), (whole.astype(np.int32),), whole.astype(np.int32).sum(keepdims=True, dtype=np.int32)),
    (one("ArgMax", axis=1, select_last_index=1), (np.array([[3, 5, 5]]),), np.array([[2]])),
    (one("CumSum", "axis", exclusive=1, reverse=1), (whole, np.array(1)), np.array([[9, 4, 0], [1, 3, 0]])),
    (one("Concat", "b", axis=-1), (x, x[..., :1]), np.concatenate([x, x[..., :1]], -1)),
    (
        one("Slice", "s", "e", "a", "t"),
        (x, np.array([10, -1]), np.array([-100, 3]), np.array([2, 0]), np.array([-2, 1])),
        x[1:, :, ::-2],
    ),
    (one("Slice", "s", "e"), (x, np.array([0, 1]), np.array([1, 1 << 60])), x[:1, 1:]),
    (one("Gather", "i", axis=1), (x, np.array([[0, -1], [2, 0]])), x[:, [[0, 2], [2, 0]]]),
    (one("Gather", "i", axis=2), (x, np.array(-2)), x[:, :, 2]),
    (one("GatherElements", "i", axis=1), (whole, np.array([[0, -1], [1, 1]])), np.array([[-7, 4], [-2, -2]])),
    (one("GatherND", "i"), (x, np.array([[0, 1], [1, -1]])), x[[0, 1], [1, 2]]),
    (one("Reshape", "s"), (x, np.array([0, -1, 2])), x.reshape(2, 6, 2)),
    (one("Reshape", "s", allowzero=1), (x[:0], np.array([3, 0])), x[:0].reshape(3, 0)),
    (one("Flatten", axis=-1), (x,), x.reshape(6, 4)),
    (one("Flatten", axis=0), (x,), x.reshape(1, 24)),
    (one("Squeeze", "a"), (x[:1, :, :1], np.array([-1])), x[:1, :, 0]),
    (one("Squeeze"), (x[:1, :, :1],), x[0, :, 0]),
    (one("Unsqueeze", "a"), (x, np.array([-1, 0])), x[None, ..., None]),
    (one("Expand", "s"), (y, np.array([2, 1, 4])), np.broadcast_to(y, (2, 3, 4))),
    (one("Tile", "r"), (whole, np.array([2, 3])), np.tile(whole, (2, 3))),
    (
        one("Pad", "p", "v"),
        (x, np.array([0, 1, 0, 0, 0, -2]), np.float32(3)),
        np.pad(x, ((0, 0), (1, 0), (0, 0)), constant_values=3)[..., :2],
    ),
    (one("Pad", "p", mode="reflect"), (whole, np.array([0, 2, 1, 0])), np.pad(whole, ((0, 1), (2, 0)), "reflect")),
    (
        one("Pad", "p", "", "a", mode="edge"),
        (whole, np.array([1, 2]), np.array([-1])),
        np.pad(whole, ((0, 0), (1, 2)), "edge"),
    ),
    (one("Transpose"), (x,), x.T),
    (one("Trilu", "k", upper=0), (whole, np.array(-1)), np.tril(whole, -1)),
    (
        one("OneHot", "d", "v", axis=0),
        (np.array([1, -1, 9]), np.array(3), np.array([2, 5])),
        np.array([[2, 2, 2], [5, 2, 2], [2, 5, 2]]),
    ),
    (one("LayerNormalization", "g", axis=1), (x, np.float32(2) * np.ones((3, 4), np.float32)), 2 * normal(x, (1, 2))),
    (one("InstanceNormalization", "g", "b"), (x, y[:, 0], y[:, 0]), normal(x, (2,)) * y + y),
    (
        one("GroupNormalization", "g", "b", num_groups=2),
        (image, np.ones(4, np.float32), np.zeros(4, np.float32)),
        normal(image.reshape(2, 2, -1), (2,)).reshape(image.shape),
    ),
    (one("GlobalMaxPool"), (image,), image.max((2, 3), keepdims=True)),
    (
        one("DepthToSpace", blocksize=2),
        (image,),
        image.reshape(2, 2, 2, 1, 6, 5).transpose(0, 3, 4, 1, 5, 2).reshape(2, 1, 12, 10),
    ),
    (
        one("SpaceToDepth", blocksize=2),
        (image[..., :4],),
        image[..., :4].reshape(2, 4, 3, 2, 2, 2).transpose(0, 3, 5, 1, 2, 4).reshape(2, 16, 3, 2),
    ),
    (
        one("Einsum", "b", equation="...ij,jk->...ik"),
        (x, x[1, :, :2].repeat(2, 0)[:4]),
        x @ x[1, :, :2].repeat(2, 0)[:4],
    ),
    (one("IsInf", detect_negative=0), (np.array([np.inf, -np.inf, 1], np.float32),), np.array([True, False, False])),
]


@pytest.mark.parametrize(("made", "operands", "expected"), CASES, ids=[case[0].op_type for case in CASES])
def test_an_operator_equals_numpy(
    tmp_path: Path, made: NodeProto, operands: tuple[Array, ...], expected: Array
) -> None:
    """Test ONNX's attributes, negative axes, dtypes and missing operands."""
    outcome = result(tmp_path, made, *map(np.asarray, operands))
    assert outcome.shape == expected.shape
    assert outcome.dtype == (operands[0].dtype if expected.dtype == np.float64 else expected.dtype)
    np.testing.assert_allclose(outcome, expected, rtol=1e-5, atol=1e-6)


def convolved(a: Array, w: Array, strides: tuple[int, int], pads: tuple[tuple[int, int], tuple[int, int]]) -> Array:
    a = np.pad(a, ((0, 0), (0, 0), *pads))
    windows = np.lib.stride_tricks.sliding_window_view(a, w.shape[2:], (2, 3))[:, :, :: strides[0], :: strides[1]]
    return np.einsum("nchwij,ocij->nohw", windows, w)


@pytest.mark.parametrize(
    ("attributes", "pads"),
    [
        ({"pads": [1, 0, 2, 1]}, ((1, 2), (0, 1))),
        ({"auto_pad": "SAME_UPPER"}, ((0, 1), (0, 1))),
        ({"auto_pad": "SAME_LOWER"}, ((1, 0), (1, 0))),
        ({"auto_pad": "VALID"}, ((0, 0), (0, 0))),
    ],
)
def test_convolution(tmp_path: Path, attributes: dict[str, Any], pads: Any) -> None:
    """Padding is given for each side, or derived from both lengths; a signal is an image of one row."""
    w = random.standard_normal((3, 4, 3, 2)).astype(np.float32)
    outcome = result(tmp_path, one("Conv", "w", strides=[2, 2], **attributes), image, w)
    np.testing.assert_allclose(outcome, convolved(image, w, (2, 2), pads), rtol=1e-4, atol=1e-5)
    if "pads" in attributes:
        signal = result(tmp_path, one("Conv", "w", strides=[2], pads=[1, 2]), image[:, :, 0], w[:, :, 0])
        expected = convolved(image[:, :, :1], w[:, :, :1], (1, 2), ((0, 0), (1, 2)))[:, :, 0]
        np.testing.assert_allclose(signal, expected, rtol=1e-4, atol=1e-5)


def test_transposed_convolution_is_the_adjoint(tmp_path: Path) -> None:
    """⟨conv(a), b⟩ = ⟨a, transposed(b)⟩, also with an explicit output size."""
    w = random.standard_normal((3, 4, 2, 3)).astype(np.float32)
    small = convolved(image, w, (2, 2), ((0, 0), (0, 0)))
    other = random.standard_normal(small.shape).astype(np.float32)
    operator = one("ConvTranspose", "w", strides=[2, 2], output_shape=[6, 5])
    back = result(tmp_path, operator, other, w)
    assert back.shape == image.shape
    np.testing.assert_allclose((small * other).sum(), (image * back).sum(), rtol=1e-3)


def test_pooling(tmp_path: Path) -> None:
    """Windows may be mostly in the padding, which counts in a mean or not."""
    padded = np.pad(image, ((0, 0), (0, 0), (2, 2), (2, 2)), constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    options: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [2, 2, 2, 2]}
    outcome = result(tmp_path, one("MaxPool", **options), image)
    np.testing.assert_array_equal(outcome, np.nanmax(windows, (4, 5)))
    np.testing.assert_allclose(
        result(tmp_path, one("AveragePool", **options), image), np.nanmean(windows, (4, 5)), 1e-4, 1e-6
    )
    counted = result(tmp_path, one("AveragePool", count_include_pad=1, **options), image)
    np.testing.assert_allclose(counted, np.nansum(windows, (4, 5)) / 9, rtol=1e-4, atol=1e-6)


def test_older_opsets_keep_their_meaning(tmp_path: Path) -> None:
    """Before opset 13 softmax flattens all axes from axis 1 on, and axes are attributes of reductions."""
    flat = softmax(x.reshape(2, 12)).reshape(x.shape)
    np.testing.assert_allclose(result(tmp_path, one("Softmax"), x, opset=11), flat, rtol=1e-5)
    np.testing.assert_allclose(result(tmp_path, one("Softmax"), x, opset=13), softmax(x), rtol=1e-5)
    np.testing.assert_allclose(result(tmp_path, one("ReduceSum", axes=[1]), x, opset=11), x.sum(1, keepdims=True), 1e-5)
    np.testing.assert_array_equal(result(tmp_path, one("Unsqueeze", axes=[0]), x, opset=11), x[None])
    first, second = result(tmp_path, node("Split", ["x"], ["a", "b"], split=[1, 2], axis=1), x, opset=11).values()
    np.testing.assert_array_equal(np.concatenate([first, second], 1), x)


@pytest.mark.parametrize("opened_batch", [2, 3])
def test_shapes_are_computed_when_the_net_is_built(tmp_path: Path, opened_batch: int) -> None:
    """Shape → Gather → Mul → Unsqueeze → Concat → Reshape, Range and ConstantOfShape are constants of the net."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Gather", ["s", "two"], ["w"]),
        node("Mul", ["n", "w"], ["nw"]),
        node("Unsqueeze", ["nw", "first"], ["nw1"]),
        node("Concat", ["nw1", "minus"], ["t"], axis=0),
        node("Reshape", ["x", "t"], ["r"]),
        node("Size", ["x"], ["size"]),
        node("Range", ["zero", "nw", "one"], ["counted"]),
        node("Cast", ["counted"], ["real"], to=FLOAT),
        node("Unsqueeze", ["real", "last"], ["column"]),
        node("Add", ["r", "column"], ["y"]),
        node("ConstantOfShape", ["t2"], ["filled"]),
        node("Shape", ["filled"], ["z"], start=1),
    ]
    constants: dict[str, Any] = {"zero": np.array(0), "one": np.array(1), "two": np.array(2), "t2": np.array([2, 5])}
    constants |= {"first": np.array([0]), "last": np.array([1]), "minus": np.array([-1])}
    net = opened(model(nodes, {"x": (FLOAT, ["n", 3, 4])}, ["y", "size", "z"], constants), tmp_path)
    given = random.standard_normal((opened_batch, 3, 4)).astype(np.float32)
    result = net.run(given)
    rows = opened_batch * 4
    np.testing.assert_array_equal(result["y"], given.reshape(rows, 3) + np.arange(rows, dtype=np.float32)[:, None])
    assert result["size"] == given.size
    np.testing.assert_array_equal(result["z"], [5])
    names = {net.operand(name, given).operation.label for name in ("t", "nw", "counted", "z")}
    assert names == {"tensor"}


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (one("Flatten", axis=4), r"axis=4 .*\n.*axis must be in -3 … 3"),
        (one("Gelu", approximate="wrong"), r"approximate='wrong'\n.*none or tanh"),
        (one("Slice", "s", "s"), "axis 3 of a tensor of rank 3"),
        (one("ConvTranspose", "w", output_shape=[6, 5]), r"output_shape \(6, 5\)\n.*one number for each axis"),
        (
            one("ConvTranspose", "w", output_shape=[6]),
            r"output_shape=\(6,\)\n.*must not exceed \(5,\), the size that the filters reach",
        ),
    ],
)
def test_unsupported_forms_raise_an_error(tmp_path: Path, made: NodeProto, said: str) -> None:
    """The error has operator, given value and rule, and precedes any computation."""
    inputs: Callable[[str], Any] = {"s": np.array([9, 9, 9, 9]), "w": np.ones((3, 4, 2), np.float32)}.get
    constants = {name: inputs(name) for name in made.input if inputs(name) is not None}
    net = opened(model([made], {"x": (FLOAT, [2, 3, 4])}, ["out"], constants), tmp_path)
    with pytest.raises(ex.FileError, match=said):
        net.run(x)


@pytest.mark.parametrize("index", [-4, 3])
@pytest.mark.parametrize("type", ["Gather", "GatherElements"])
def test_an_index_out_of_range_is_an_error_at_run_time(tmp_path: Path, type: str, index: int) -> None:
    """Both ends are checked if only the run determines the index; −1 is the last element."""
    operator = one(type, "i", axis=1)
    assert result(tmp_path, operator, whole, np.full((2, 1), -1), known=False).flat[0] == whole[0, -1]
    with pytest.raises(ex.RunError, match=f"row {index} of a table with rows 0 … 2"):
        result(tmp_path, operator, whole, np.full((2, 1), index), known=False)
