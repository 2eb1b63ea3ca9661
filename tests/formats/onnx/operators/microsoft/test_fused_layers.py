"""Operators of ONNX Runtime's own domain against NumPy formulas that were compared with ONNX Runtime 1.32.0."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer as ex
from tests.formats.onnx.models import FLOAT, opened

pytestmark = pytest.mark.spec("I-5", "I-6", "I-9")

RANDOM = np.random.default_rng(3)


def real(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape).astype(np.float32)


def result(
    folder: Path,
    type: str,
    x: np.ndarray,
    *constants: np.ndarray | None,
    outputs: tuple[str, ...] = ("y",),
    **given: Any,
) -> Any:
    """Return the outputs of a model of one operator; all inputs but the first are initializers, None is omitted."""
    names = ["x", *[f"c{place}" if array is not None else "" for place, array in enumerate(constants)]]
    graph = helper.make_graph(
        [helper.make_node(type, names, list(outputs), domain="com.microsoft", **given)],
        "graph",
        [helper.make_tensor_value_info("x", FLOAT, x.shape)],
        [helper.make_empty_tensor_value_info(name) for name in outputs if name],
        [numpy_helper.from_array(array, name) for name, array in zip(names[1:], constants, strict=True) if name],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    net = opened(helper.make_model(graph, opset_imports=opsets), folder)
    assert net.check() == []
    return net.run(x)


def erf_gelu(x: np.ndarray) -> np.ndarray:
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def tanh_gelu(x: np.ndarray) -> np.ndarray:
    return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


def test_the_family_of_gelu(tmp_path: Path) -> None:
    x, bias = real(2, 3, 8), real(8)
    for type, constants, expected in (
        ("Gelu", (), erf_gelu(x)),
        ("BiasGelu", (bias,), erf_gelu(x + bias)),
        ("FastGelu", (), tanh_gelu(x)),
        ("FastGelu", (bias,), tanh_gelu(x + bias)),
    ):
        np.testing.assert_allclose(result(tmp_path, type, x, *constants), expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(result(tmp_path, "QuickGelu", x, alpha=1.5), x / (1 + np.exp(-1.5 * x)), rtol=1e-5)


def test_a_product_supports_a_factor_and_transposed_operands(tmp_path: Path) -> None:
    a, b = real(2, 8, 3), real(2, 5, 8)
    y = result(tmp_path, "FusedMatMul", a, b, transA=1, transB=1, alpha=0.5)
    np.testing.assert_allclose(y, 0.5 * np.swapaxes(a, 1, 2) @ np.swapaxes(b, 1, 2), rtol=1e-5)


def test_a_residual_is_normalized_and_returned(tmp_path: Path) -> None:
    x, skip, scale, shift, bias = real(2, 3, 8), real(2, 3, 8), real(8), real(8), real(8)
    total = x + skip + bias
    centred = total - total.mean(-1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale + shift
    outputs = ("y", "", "", "s")
    options: dict[str, Any] = {"outputs": outputs, "epsilon": 1e-5}
    y, s = result(tmp_path, "SkipLayerNormalization", x, skip, scale, shift, bias, **options).values()
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(s, total, rtol=1e-6)
    y, s = result(tmp_path, "SkipSimplifiedLayerNormalization", x, skip, scale, bias, **options).values()
    root = np.sqrt((total**2).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, total / root * scale, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zero", ["none", "packed", "real"])
def test_quantized_weights_have_a_scale_and_a_zero_point_for_each_block(tmp_path: Path, bits: int, zero: str) -> None:
    """With three blocks of 4-bit weights, each row's last zero-point byte is half used, and the last block partial."""
    rows, depth, size, blocks = 5, 70, 32, 3
    numbers = RANDOM.integers(0, 1 << bits, (rows, blocks, size))
    points = RANDOM.integers(0, 1 << bits, (rows, blocks))
    scales = np.abs(real(rows * blocks))

    def packed(values: np.ndarray) -> np.ndarray:
        if bits == 8:
            return values.astype(np.uint8)
        even = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, values.shape[-1] % 2)])
        return (even[..., ::2] | even[..., 1::2] << 4).astype(np.uint8)

    given = {"none": None, "packed": packed(points).reshape(-1), "real": points.astype(np.float32).reshape(-1)}[zero]
    middle = points if given is not None else np.full((rows, blocks), 1 << (bits - 1))
    weights = ((numbers - middle[..., None]) * scales.reshape(rows, blocks, 1)).reshape(rows, -1)[:, :depth]
    x = real(3, depth)
    y = result(tmp_path, "MatMulNBits", x, packed(numbers), scales, given, N=rows, K=depth, block_size=size, bits=bits)
    np.testing.assert_allclose(y, x @ weights.T, rtol=1e-4, atol=1e-4 * np.abs(weights).max())


def test_weights_of_other_bit_widths_raise_an_error(tmp_path: Path) -> None:
    with pytest.raises((AssertionError, ex.ExplorerError), match="4-bit or 8-bit"):
        result(
            tmp_path,
            "MatMulNBits",
            real(3, 32),
            np.zeros((5, 1, 8), np.uint8),
            real(5),
            N=5,
            K=32,
            block_size=32,
            bits=2,
        )


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
def test_the_simplified_normalization_of_either_domain(domain: str, tmp_path: Path) -> None:
    """ONNX Runtime writes it in the standard's domain, which has no such operator."""
    x, scale = real(2, 3, 8), real(3, 8)
    graph = helper.make_graph(
        [helper.make_node("SimplifiedLayerNormalization", ["x", "scale"], ["y", "r"], domain=domain, axis=1)],
        "graph",
        [helper.make_tensor_value_info("x", FLOAT, x.shape)],
        [helper.make_empty_tensor_value_info(name) for name in ("y", "r")],
        [numpy_helper.from_array(scale, "scale")],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    values = opened(helper.make_model(graph, opset_imports=opsets), tmp_path).run(x)
    inverse = 1 / np.sqrt((x.astype(np.float64) ** 2).mean((1, 2), keepdims=True) + 1e-5)
    np.testing.assert_allclose(values["r"], inverse, rtol=1e-5)
    np.testing.assert_allclose(values["y"], x * inverse * scale, rtol=1e-5, atol=1e-6)


def test_the_error_of_an_unknown_fused_activation_contains_its_name(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("FusedGemm", ["x", "x"], ["y"], domain="com.microsoft", activation="Swirl")],
        "graph",
        [helper.make_tensor_value_info("x", FLOAT, (2, 2))],
        [helper.make_empty_tensor_value_info("y")],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    (finding,) = opened(helper.make_model(graph, opset_imports=opsets), tmp_path).check()
    assert "activation='Swirl'" in finding
    assert "must be one of Relu, Tanh" in finding


def test_quantized_matrices_with_a_real_result(tmp_path: Path) -> None:
    """Without a result scale, QGemm returns real numbers, using the column scales."""
    a, b = np.arange(6, dtype=np.uint8).reshape(2, 3), np.arange(12, dtype=np.int8).reshape(3, 4) - 6
    scales, bias = np.array([0.1, 0.2, 0.3, 0.4], np.float32), np.arange(4, dtype=np.int32)
    names = ["x", "as", "az", "b", "bs", "bz", "c"]
    constants = [np.float32(0.5), np.uint8(2), b, scales, np.zeros(4, np.int8), bias]
    graph = helper.make_graph(
        [helper.make_node("QGemm", names, ["y"], domain="com.microsoft", alpha=2.0)],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, a.shape)],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in zip(names[1:], constants, strict=True)],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    value = opened(helper.make_model(graph, opset_imports=opsets), tmp_path).run(a)
    np.testing.assert_allclose(value, ((a - 2.0) @ b + bias) * scales, rtol=1e-6)
