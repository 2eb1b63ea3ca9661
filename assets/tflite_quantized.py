"""Cases of quantised operators in TensorFlow Lite files: int8, uint8 and int16."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tflite

from assets.tflite_models import SAME, VALID, Array, Case, Input, Tensor, constant

_ZERO = {"int8": (3, -9), "uint8": (131, 119), "int16": (0, 0)}
"""dtype → zero points of operands and results"""
_PAIRS = {
    "ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions", "DIV": "DivOptions", "SQUARED_DIFFERENCE": "",
}  # fmt: skip
_ORDERS = ("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL")
_TABLES = {
    "int8": ("ABS", "EXP", "LOG", "RSQRT", "SQRT", "ELU", "GELU", "GELU by tanh", "RELU_0_TO_1"),
    "uint8": ("GELU", "GELU by tanh", "RELU_0_TO_1"),
    "int16": ("ABS", "EXP", "SQRT", "GELU", "GELU by tanh", "LOGISTIC", "TANH", "RELU", "RELU6"),
}
_MINIMUM = {"LOG": 1, "RSQRT": 1, "SQRT": 0}
"""function → minimum of an input minus its zero point"""


class _Random:
    """Seeded operands of one dtype; scales of int16 are 256 times finer."""

    def __init__(self, dtype: str, seed: int) -> None:
        self.dtype, self.info, self.zeros = dtype, np.iinfo(dtype), _ZERO[dtype]
        self.unit = 1 / 256 if dtype == "int16" else 1.0
        self.random = np.random.default_rng(seed)

    def tensor(self, scale: float, second: bool = False, shape: Sequence[int] = ()) -> Tensor:
        """Return a tensor with a scale and the first or second zero point."""
        return Tensor(shape, self.dtype, scale=(scale * self.unit,), zero_point=(self.zeros[second],))

    def array(self, *shape: int) -> Array:
        """Return random numbers of the dtype."""
        return self.random.integers(self.info.min, self.info.max + 1, shape).astype(self.dtype)

    def input(self, scale: float, *shape: int, second: bool = False) -> Input:
        """Return an input with random numbers."""
        return Input(self.tensor(scale, second, shape), self.array(*shape))

    def every(self, scale: float, minimum: int | None = None) -> Input:
        """Return an input with all 8-bit or many 16-bit numbers that are at least the zero point plus ``minimum``."""
        numbers = self.array(1024) if self.dtype == "int16" else np.arange(self.info.min, self.info.max + 1)
        if minimum is not None:
            numbers = np.maximum(numbers, self.zeros[0] + minimum)
        array = numbers.astype(self.dtype).reshape(16, -1)
        return Input(self.tensor(scale, shape=array.shape), array)


def _activation(word: str) -> dict[str, Any]:
    return {"FusedActivationFunction": getattr(tflite.ActivationFunctionType, word)}


def _pairs(drawn: _Random) -> dict[str, Case]:
    """Add cases of arithmetic and comparisons with broadcast operands."""
    dtype, cases = drawn.dtype, {}
    types = [type for type in _PAIRS if dtype == "int8" or type != "SQUARED_DIFFERENCE"]
    for type in types:
        for word in ("NONE", "RELU6") if _PAIRS[type] else ("NONE",):
            x, y = drawn.input(0.047, 16, 1, 16), drawn.input(0.0213, 8, 16, second=True)
            if type == "DIV":
                # the interpreter shifts by too many bits for small dividends, and rejects a divisor of zero
                small_dividends = np.abs(x.array.astype(int) - drawn.zeros[0]) < 8
                x.array[small_dividends] = drawn.zeros[0] + 9
                y.array[y.array == drawn.zeros[1]] += 1
            cases[f"{type} {dtype} {word}"] = Case(
                type, [x, y], _PAIRS[type], _activation(word) if _PAIRS[type] else {}, [drawn.tensor(0.061, True)]
            )
    own = _Random(dtype, 77)
    for type in ("ADD", "SUB") if dtype == "int16" else ():
        # scales that are powers of two: only the finer operand is rounded, or without the option only the sum
        for bits, other, is_shifted in ((8, 10, True), (12, 8, True), (8, 8, True), (8, 10, False)):
            pair = [own.input(2.0 ** (8 - bits), 64, 16), own.input(2.0 ** (8 - other), 64, 16, second=True)]
            values = {"PotScaleInt16": is_shifted, **_activation("RELU6" if bits == other else "NONE")}
            name = f"{type} int16 {bits} {other}{'' if is_shifted else ' unshifted'}"
            cases[name] = Case(type, pair, _PAIRS[type], values, [own.tensor(1)])
    for type in ("MAXIMUM", "MINIMUM"):
        pair = [drawn.input(0.047, 16, 1, 16), drawn.input(0.047, 8, 16)]
        cases[f"{type} {dtype}"] = Case(type, pair, results=[drawn.tensor(0.047)])
    for type in _ORDERS:
        # 16-bit numbers are compared as stored, without scales
        other = drawn.input(0.047 if dtype == "int16" else 0.0213, 8, 16, second=True)
        pair = [drawn.input(0.047, 16, 1, 16), other]
        if dtype == "int16":
            pair[1].array[:, 0] = pair[0].array[0, 0, 0]
        cases[f"{type} {dtype}"] = Case(type, pair, results=[Tensor(dtype="bool")])
    return cases


def _functions(drawn: _Random) -> dict[str, Case]:
    """Add cases of elementwise functions, softmax, and changes of scale."""
    dtype, cases = drawn.dtype, {}
    for name in _TABLES[dtype]:
        type, _, by_tanh = name.partition(" ")
        for scale, own in ((0.05, 0.05), (0.013, 0.071), (0.11, 0.021)):
            own = {"LOGISTIC": 1 / 128, "TANH": 1 / 128}.get(type, own)
            result = drawn.tensor(own, second=True)
            cases[f"{name} {dtype} {scale}"] = Case(
                type,
                [drawn.every(scale, _MINIMUM.get(type))],
                "GeluOptions" if type == "GELU" else "",
                {"Approximate": bool(by_tanh)} if type == "GELU" else {},
                [result],
            )
    for name in ("int8", "uint8", "int16"):
        if (dtype, name) != ("int16", "uint8"):
            result = Tensor((), name, scale=(0.07 * (1 / 256 if name == "int16" else 1),), zero_point=(_ZERO[name][1],))
            cases[f"QUANTIZE {dtype} {name}"] = Case("QUANTIZE", [drawn.every(0.05)], "QuantizeOptions", {}, [result])
    cases[f"CAST {dtype}"] = Case("CAST", [drawn.every(0.05)], "CastOptions", {}, [Tensor()])
    if dtype == "int16":
        for beta in (1.0, 0.3):
            cases[f"SOFTMAX int16 {beta}"] = Case(
                "SOFTMAX", [drawn.input(0.1, 30, 10)], "SoftmaxOptions", {"Beta": beta}, [drawn.tensor(1 / 128)]
            )
        leaky = {"Alpha": 0.2}
        cases["LEAKY_RELU int16"] = Case(
            "LEAKY_RELU", [drawn.every(0.05)], "LeakyReluOptions", leaky, [drawn.tensor(0.07)]
        )
    else:
        steps = Tensor((), dtype, scale=(1 / 16,), zero_point=(int(drawn.info.max),))
        parts = Tensor((), dtype, scale=(1 / 128,), zero_point=(128 if dtype == "uint8" else 0,))
        for scale in (0.1, 0.007):
            cases[f"LOG_SOFTMAX {dtype} {scale}"] = Case(
                "LOG_SOFTMAX", [drawn.input(scale, 60, 10)], "LogSoftmaxOptions", {}, [steps]
            )
        for length in (1, 3, 40):
            rows = drawn.input(0.05, 90, length)
            rows.array[0] = drawn.zeros[0]
            cases[f"L2_NORMALIZATION {dtype} {length}"] = Case("L2_NORMALIZATION", [rows], "L2NormOptions", {}, [parts])
    # with an int16 input, slopes are int8
    slopes = _Random("int8", 7).input(0.01, 16, second=True) if dtype == "int16" else drawn.input(0.01, 16, second=True)
    if dtype == "int16":
        slopes = Input(replace(slopes.tensor, zero_point=(0,)), slopes.array)
    cases[f"PRELU {dtype}"] = Case(
        "PRELU", [drawn.input(0.05, 4, 5, 6, 16), slopes], results=[drawn.tensor(0.06, True)]
    )
    if dtype != "uint8":
        numbers = drawn.every(0.05)
        numbers = Input(replace(numbers.tensor, zero_point=(0,)), numbers.array)
        cases[f"NEG {dtype}"] = Case("NEG", [numbers], results=[replace(numbers.tensor, shape=())])
    return cases


def _reductions(drawn: _Random) -> dict[str, Case]:
    """Add cases of sums, means, and extremes with their indices."""
    dtype, cases, image = drawn.dtype, {}, drawn.input(0.047, 4, 7, 6, 5)
    for type in ("SUM", "MEAN") if dtype == "int16" else ("SUM",):
        for axes, keep in (((1, 2), True), ((3,), False)):
            for scale in (0.047, 0.248):
                cases[f"{type} {dtype} {axes} {scale}"] = Case(
                    type, [image, constant(axes, "int32")], "ReducerOptions", {"KeepDims": keep},
                    [drawn.tensor(scale, True)],
                )  # fmt: skip
    for type in ("REDUCE_MAX", "REDUCE_MIN"):
        cases[f"{type} {dtype}"] = Case(
            type, [image, constant([1, 2], "int32")], "ReducerOptions", {}, [drawn.tensor(0.047)]
        )
    if dtype != "uint8":
        for axes, keep, scale in (((3, 1), True, 0.3), ((2,), False, 0.013), ((1, 2, 3), False, 0.02)):
            cases[f"REDUCE_PROD {dtype} {axes}"] = Case(
                "REDUCE_PROD", [drawn.input(0.02, 4, 5, 3, 2), constant(axes, "int32")], "ReducerOptions",
                {"KeepDims": keep}, [drawn.tensor(scale, True)],
            )  # fmt: skip
    whole = Tensor(dtype="int32")
    if dtype != "int16":
        for type, options in (("ARG_MAX", "ArgMaxOptions"), ("ARG_MIN", "ArgMinOptions")):
            operands = [image, constant(-1, "int32")]
            cases[f"{type} {dtype}"] = Case(type, operands, options, {"OutputType": tflite.TensorType.INT32}, [whole])
    cases[f"TOPK_V2 {dtype}"] = Case("TOPK_V2", [image, constant(2, "int32")], results=[drawn.tensor(0.047), whole])
    return cases


def _images(drawn: _Random) -> dict[str, Case]:
    """Add cases of image resizing, pooling with activations, blocks, and parts with different scales."""
    dtype, cases, image = drawn.dtype, {}, drawn.input(0.047, 4, 7, 6, 5)
    same = [drawn.tensor(0.047)]
    for size in ((9, 13), (3, 4), (1, 1)):
        for align, half in ((False, False), (True, False), (False, True)):
            values = {"AlignCorners": align, "HalfPixelCenters": half}
            cases[f"RESIZE_BILINEAR {dtype} {size} {'align' * align}{'half' * half}"] = Case(
                "RESIZE_BILINEAR", [image, constant(size, "int32")], "ResizeBilinearOptions", values, same
            )
    pool = {"StrideW": 2, "StrideH": 2, "FilterWidth": 3, "FilterHeight": 3, "Padding": SAME}
    for type in ("MAX_POOL_2D", "AVERAGE_POOL_2D"):
        for word in ("NONE", "RELU", "RELU6"):
            options = {**pool, **_activation(word)}
            cases[f"{type} {dtype} {word}"] = Case(type, [image], "Pool2DOptions", options, same)
    blocks = [drawn.input(0.047, 2, 5, 6, 3), constant([2, 3], "int32"), constant([[1, 0], [0, 0]], "int32")]
    cases[f"SPACE_TO_BATCH_ND {dtype}"] = Case("SPACE_TO_BATCH_ND", blocks, results=same)
    if dtype == "uint8":
        parts = [image, drawn.input(0.031, 4, 7, 6, 2, second=True)]
        cases["CONCATENATION uint8"] = Case("CONCATENATION", parts, "ConcatenationOptions", {"Axis": 3}, same)
    return cases


def _products(drawn: _Random) -> dict[str, Case]:
    """Add convolutions, transposed convolutions and matrix products; int16 inputs have int8 weights, int64 biases."""
    dtype, cases, random = drawn.dtype, {}, drawn.random
    result = [drawn.tensor(0.083, True)]
    kind = "uint8" if dtype == "uint8" else "int8"
    form: dict[str, Any] = {"scale": (0.0213,), "zero_point": (117,)} if kind == "uint8" else {
        "scale": (0.0031, 0.0007, 0.0113, 0.0042), "zero_point": (0,) * 4,
    }  # fmt: skip

    def weights(*shape: int, axis: int = 0) -> Tensor:
        limits = np.iinfo(kind)
        return constant(random.integers(limits.min, limits.max + 1, shape), kind, axis=axis, **form)

    limit, wide = (900000, "int64") if dtype == "int16" else (900, "int32")
    bias = constant(random.integers(-limit, limit, 4), wide, scale=(0.001,), zero_point=(0,))
    for padding in (SAME, VALID):
        count = 4 if padding == SAME else 3
        for name, own in (("", [bias]), (" without bias", [])):
            operands = [
                constant([1, 7, 7, 4], "int32"), weights(4, 3, 3, 2), drawn.input(0.047, 1, count, count, 2), *own,
            ]  # fmt: skip
            options = {"Padding": padding, "StrideW": 2, "StrideH": 2}
            cases[f"TRANSPOSE_CONV {dtype} {padding}{name}"] = Case(
                "TRANSPOSE_CONV", operands, "TransposeConvOptions", options, result
            )
    if dtype != "uint8":
        pair = [drawn.input(0.047, 2, 30, 4), drawn.input(0.0213, 2, 4, 50, second=True)]
        cases[f"BATCH_MATMUL {dtype}"] = Case("BATCH_MATMUL", pair, "BatchMatMulOptions", {}, result)
    if dtype != "int16":
        return cases
    for word in ("NONE", "RELU6"):
        stride = {"StrideW": 2, "StrideH": 1, "Padding": SAME, **_activation(word)}
        operands = [drawn.input(0.047, 8, 7, 6, 3), weights(4, 3, 2, 3), bias]
        cases[f"CONV_2D int16 {word}"] = Case("CONV_2D", operands, "Conv2DOptions", stride, result)
        operands = [drawn.input(0.047, 8, 7, 6, 2), weights(1, 3, 3, 4, axis=3), bias]
        deep = {**stride, "StrideH": 2, "DepthMultiplier": 2}
        cases[f"DEPTHWISE_CONV_2D int16 {word}"] = Case(
            "DEPTHWISE_CONV_2D", operands, "DepthwiseConv2DOptions", deep, result
        )
        operands = [drawn.input(0.047, 256, 9), weights(4, 9), bias]
        cases[f"FULLY_CONNECTED int16 {word}"] = Case(
            "FULLY_CONNECTED", operands, "FullyConnectedOptions", _activation(word), result
        )
    return cases


CASES: dict[str, Case] = {
    name: case
    for seed, dtype in enumerate(_ZERO)
    for part in (_pairs, _functions, _reductions, _images, _products)
    for name, case in part(_Random(dtype, seed + 40)).items()
}
"""name → case"""
