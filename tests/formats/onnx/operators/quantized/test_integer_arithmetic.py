"""Quantized models: single operators against NumPy integers, and a network of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.formats.onnx.models import FLOAT, model, node, opened, result

pytestmark = pytest.mark.spec("I-5", "I-6", "I-9")

RANDOM = np.random.default_rng(14)


def whole(*shape: int, dtype: Any = np.uint8) -> np.ndarray:
    limits = np.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
def test_numbers_are_rounded_half_to_even_and_clipped(tmp_path: Path, dtype: Any) -> None:
    x = np.float32([0.5, 1.5, 2.5, -0.5, 1e6, -1e6, 3.49])
    limits, zero = np.iinfo(dtype), np.array(3, dtype)
    y = result(tmp_path, node("QuantizeLinear", ["x", "s", "z"], ["y"]), x, np.float32(1), zero)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, np.clip(np.rint(x) + 3, limits.min, limits.max))


@pytest.mark.parametrize("real", [np.float32, np.float16])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
def test_nan_becomes_the_lower_limit_as_in_onnx_runtime(tmp_path: Path, dtype: Any, real: Any) -> None:
    """float16 cannot represent 16-bit limits, or sums with the zero point."""
    x = np.array([np.nan, -np.nan, np.inf, -np.inf, 2.5, 2049.0 - 3] * 11, real)
    limits, zero = np.iinfo(dtype), np.array(3, dtype)
    y = result(tmp_path, node("QuantizeLinear", ["x", "s", "z"], ["y"]), x, real(1), zero, opset=21)
    expected = [limits.min, limits.min, limits.max, limits.min, 5, min(2049, limits.max)]
    np.testing.assert_array_equal(y, np.array(expected * 11, dtype))


def test_scales_per_axis_and_per_block(tmp_path: Path) -> None:
    x = whole(3, 5, dtype=np.int8)
    scale, zero = np.float32([1, 0.5, 0.25, 2, 4]), np.arange(5, dtype=np.int8)
    operator = node("DequantizeLinear", ["x", "s", "z"], ["y"], axis=1)
    np.testing.assert_array_equal(result(tmp_path, operator, x, scale, zero), (x.astype(np.float32) - zero) * scale)
    # blocks of two columns; the last block has one column
    blocks = np.float32([[1, 2, 4]] * 3) * np.float32([[1], [3], [5]])
    operator = node("DequantizeLinear", ["x", "s"], ["y"], axis=1, block_size=2)
    expected = x * np.repeat(blocks, 2, axis=1)[:, :5]
    np.testing.assert_array_equal(result(tmp_path, operator, x, blocks, opset=21), expected)


def test_a_mismatching_scale_raises_an_error(tmp_path: Path) -> None:
    proto = model(
        [node("DequantizeLinear", ["x", "s"], ["y"])], {"x": (3, [3, 5])}, ["y"], {"s": np.ones(4, np.float32)}
    )
    (finding,) = opened(proto, tmp_path).check()
    assert "one per index of the axis" in finding


@pytest.mark.parametrize("depth", [7, 5000])
def test_integer_products_are_exact_at_any_depth(tmp_path: Path, depth: int) -> None:
    """float32 cannot represent sums above 2²⁴."""
    a, b = whole(4, depth), whole(depth, 3, dtype=np.int8)
    a[0], b[:, 0] = 255, -128
    a_zero, b_zero = np.uint8([0, 1, 2, 3]), np.int8([127, 0, -5])
    operator = node("MatMulInteger", ["a", "b", "c", "d"], ["y"])
    expected = (a.astype(np.int64) - a_zero[:, None]) @ (b.astype(np.int64) - b_zero)
    y = result(tmp_path, operator, a, b, a_zero, b_zero)
    assert y.dtype == np.int32
    np.testing.assert_array_equal(y, expected)
    assert (np.abs(expected).max() > 1 << 24) == (depth == 5000)


def test_filters_have_separate_scales_and_zero_points(tmp_path: Path) -> None:
    """Padding equals the zero point, and is 0 after its subtraction."""
    x, filters, bias = whole(1, 2, 5, 4), whole(3, 2, 3, 3, dtype=np.int8), np.int32([100, -200, 7])
    w_scale, w_zero = np.float32([0.01, 0.02, 0.005]), np.int8([0, 3, -4])
    scales = np.float32(0.1), np.float32(0.5)
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "B"]
    operator = node("QLinearConv", names, ["y"], pads=[1, 1, 1, 1], strides=[2, 1])
    zeros = np.uint8(120), np.uint8(128)
    y = result(tmp_path, operator, x, scales[0], zeros[0], filters, w_scale, w_zero, scales[1], zeros[1], bias)
    padded = np.pad(x.astype(np.int64) - 120, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))[:, :, ::2]
    total = np.einsum("nchwij,ocij->nohw", windows, filters.astype(np.int64) - w_zero[:, None, None, None])
    total += bias[:, None, None]
    factor = scales[0] * w_scale[:, None, None] / scales[1]
    assert y.dtype == np.uint8
    np.testing.assert_array_equal(y, np.clip(np.rint(total.astype(np.float32) * factor) + 128, 0, 255))


@pytest.mark.parametrize("type", ["QLinearConv", "QLinearMatMul"])
def test_a_sum_half_way_between_two_steps_is_rounded_in_single_precision(type: str, tmp_path: Path) -> None:
    """The exact sum is scaled once, as in ONNX Runtime; scaled weights would round each product."""
    random = np.random.default_rng(0)
    x, w = random.integers(0, 256, (64, 9)).astype(np.uint8), random.integers(-9, 10, (9, 16)).astype(np.int8)
    total = (x.astype(np.int64) - 128) @ w
    assert (total % 10 == 5).mean() > 0.05  # a tenth of them are half-way
    expected = np.clip(np.rint(total.astype(np.float32) * np.float32(0.1)) + 128, 0, 255)
    scales = [np.float32(0.1), np.uint8(128), None, np.float32(1), np.int8(0), np.float32(1), np.uint8(128)]
    scales[2] = w if type == "QLinearMatMul" else np.ascontiguousarray(w.T).reshape(16, 9, 1, 1)
    order = [0, 1, 2, 3, 4, 5, 6]
    names = ["x", *[f"i{place}" for place in order]]
    images = x if type == "QLinearMatMul" else np.ascontiguousarray(x.T).reshape(1, 9, 8, 8)
    outcome = result(tmp_path, node(type, names, ["y"]), images, *scales)
    rows = outcome if type == "QLinearMatMul" else outcome.reshape(16, 64).T
    np.testing.assert_array_equal(rows, expected)


def test_a_quantized_network_becomes_visible_arithmetic(tmp_path: Path) -> None:
    """Rounding, clipping and the product of a QDQ layer are nodes; weights are dequantized once for all runs."""
    weights, bias = whole(8, 4, dtype=np.int8), np.zeros(4, np.float32)
    scale, zero = np.float32(0.02), np.uint8(100)
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["a"]),
        node("DequantizeLinear", ["w", "s"], ["b"]),
        node("MatMul", ["a", "b"], ["m"]),
        node("Add", ["m", "bias"], ["n"]),
        node("Relu", ["n"], ["y"]),
    ]
    constants = {"s": scale, "z": zero, "w": weights, "bias": bias}
    net = opened(model(nodes, {"x": (FLOAT, ["n", 8])}, ["y"], constants), tmp_path)
    assert net.check() == []
    x = RANDOM.normal(size=(3, 8)).astype(np.float32)
    steps = (np.clip(np.rint(x / scale) + 100, 0, 255) - 100) * scale
    expected = np.maximum(steps @ (weights * scale), 0)
    np.testing.assert_allclose(net.run(x), expected, rtol=1e-5, atol=1e-5)
    recording = net.plan(x).eval().recording
    labels = set(recording.nodes.label)
    assert {"round_half_even", "clip", "matmul", "subtract"} <= labels
    assert {"chain", "computed_once"} <= {decision.code for decision in recording.decisions}


@pytest.mark.parametrize("type", ["MatMulInteger", "ConvInteger"])
def test_real_numbers_are_rejected_as_quantized_operands(tmp_path: Path, type: str) -> None:
    proto = model([node(type, ["x", "x"], ["y"])], {"x": (FLOAT, [3, 3, 3])}, ["y"])
    (finding,) = opened(proto, tmp_path).check()
    assert "quantised operands must be integers" in finding
