"""Operators of TensorFlow Lite files against LiteRT's interpreter (assets/tflite.npz)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from assets.tflite_models import CASES as REAL
from assets.tflite_models import Case, Graph, Input, Node, Tensor, constant, file
from assets.tflite_quantized import CASES as QUANTIZED
from explorer.formats.tflite.operators import TABLE

CASES = REAL | QUANTIZED
CLOSE = 1e-6
REFERENCE = Path(__file__).parents[3] / "assets" / "tflite.npz"


@pytest.fixture(scope="module")
def reference() -> Any:
    return np.load(REFERENCE)


def opened(data: bytes, folder: Path) -> ex.Net:
    path = folder / "m.tflite"
    path.write_bytes(data)
    return ex.open(path)


@pytest.mark.parametrize("name", CASES)
def test_operators_equal_the_interpreter(name: str, reference: Any, tmp_path: Path) -> None:
    """Operators with each of their options give LiteRT's shape, dtype and values."""
    case = CASES[name]
    net = opened(case.file(), tmp_path)
    assert net.check() == []
    results = net.run(*case.inputs())
    values = [*results.values()] if isinstance(results, dict) else [results]
    for place, value in enumerate(values):
        wanted = reference[f"{name}/{place}"]
        assert (value.shape, value.dtype) == (wanted.shape, wanted.dtype)
        if wanted.dtype.kind == "f":
            np.testing.assert_allclose(value, wanted, rtol=0, atol=CLOSE * max(np.abs(wanted).max(initial=0), 1e-9))
        elif case.type == "LOG_SOFTMAX":
            # one element in a thousand may be half-way between two steps
            beside = np.abs(value.astype(int) - wanted)
            assert beside.max() <= 1
            assert np.count_nonzero(beside) <= beside.size / 500
        else:
            np.testing.assert_array_equal(value, wanted)


def test_the_reference_contains_these_cases(reference: Any) -> None:
    assert {name.rpartition("/")[0] for name in reference} == {*CASES}


def test_every_operator_type_has_a_case_or_a_test() -> None:
    """Types without a case occur in tests of graphs, of shapes, and of complete files."""
    assert {*TABLE.types()} - {case.type for case in CASES.values()} == {
        "ATAN2",
        "BITWISE_XOR",
        "CONSTANT",
        "IF",
        "WHILE",
        "STABLEHLO_COMPOSITE",
    }


@pytest.mark.parametrize(("condition", "wanted"), [(True, 3.0), (False, -1.0)])
def test_a_branch_is_a_graph_in_the_file(condition: bool, wanted: float, tmp_path: Path) -> None:
    tensors = {"c": Tensor(dtype="bool", has_rank=True), "x": Tensor((2,)), "y": Tensor((2,))}
    graph = Graph(
        tensors, [Node("IF", ["c", "x"], ["y"], "IfOptions", {"ThenSubgraphIndex": 1, "ElseSubgraphIndex": 2})],
        ["c", "x"], ["y"],
    )  # fmt: skip
    inner = {"a": Tensor((2,)), "b": Tensor((2,)), "two": constant(np.float32(2))}
    bodies = [Graph(inner, [Node(type, ["a", "two"], ["b"])], ["a"], ["b"], type) for type in ("ADD", "SUB")]
    net = opened(file(graph, *bodies), tmp_path)
    assert net.check() == []
    np.testing.assert_array_equal(net.run(np.array(condition), np.ones(2, np.float32)), np.full(2, wanted))


def test_a_loop_is_two_graphs_in_the_file(tmp_path: Path) -> None:
    """WHILE runs the graph body as long as the graph cond returns True."""
    state = {"n": Tensor(dtype="int32", has_rank=True), "x": Tensor((2,))}
    graph = Graph(
        {**state, "m": Tensor(dtype="int32", has_rank=True), "y": Tensor((2,))},
        [Node("WHILE", ["n", "x"], ["m", "y"], "WhileOptions", {"CondSubgraphIndex": 1, "BodySubgraphIndex": 2})],
        ["n", "x"],
        ["y"],
    )
    goes_on = Graph(
        {**state, "five": constant(5, "int32"), "less": Tensor(dtype="bool", has_rank=True)},
        [Node("LESS", ["n", "five"], ["less"])], ["n", "x"], ["less"],
    )  # fmt: skip
    body = Graph(
        {**state, "one": constant(1, "int32"), "next": Tensor(dtype="int32", has_rank=True), "z": Tensor((2,))},
        [Node("ADD", ["n", "one"], ["next"]), Node("ADD", ["x", "x"], ["z"])],
        ["n", "x"],
        ["next", "z"],
    )
    net = opened(file(graph, goes_on, body), tmp_path)
    assert net.check() == []
    np.testing.assert_array_equal(net.run(np.array(2, np.int32), np.ones(2, np.float32)), [8, 8])


def test_elements_of_a_range_are_known(tmp_path: Path) -> None:
    tensors = {"a": constant(2, "int32"), "b": constant(9, "int32"), "c": constant(3, "int32")}
    graph = Graph(
        {**tensors, "x": Tensor((3,), "int32"), "r": Tensor((), "int32"), "y": Tensor((), "int32")},
        [Node("RANGE", ["a", "b", "c"], ["r"]), Node("ADD", ["x", "r"], ["y"])], ["x"], ["y"],
    )  # fmt: skip
    net = opened(file(graph), tmp_path)
    np.testing.assert_array_equal(net.run(np.zeros(3, np.int32)), np.array([2, 5, 8], np.int32), strict=True)


@pytest.mark.parametrize("scales", [(2.0**-6, 2.0**-8), (2.0**-10, 2.0**-10)])
def test_sums_with_power_of_two_scales_need_the_scale_of_an_operand(
    scales: tuple[float, float], tmp_path: Path
) -> None:
    """LiteRT also requires one operand with the result's scale, and none with a coarser one."""
    wide = Tensor((3,), dtype="int16", zero_point=(0,))
    inputs = [Input(replace(wide, scale=(scale,)), np.zeros(3, np.int16)) for scale in scales]
    case = Case("ADD", inputs, "AddOptions", {"PotScaleInt16": True}, [replace(wide, scale=(2.0**-8,), shape=())])
    with pytest.raises(ex.FileError, match="one operand must have the result's scale"):
        opened(case.file(), tmp_path).run(*case.inputs())


WHOLE = Tensor(dtype="int8", scale=(0.05,), zero_point=(3,))
BYTES = Input(replace(WHOLE, shape=(2, 3)), np.zeros((2, 3), np.int8))
WORDS = Input(replace(WHOLE, shape=(2, 3), dtype="int16", zero_point=(0,)), np.zeros((2, 3), np.int16))
REFUSED = {
    "quantised": (
        Case("RELU", [np.zeros(3, np.int8)], results=[Tensor((3,), "int8", scale=(0.5,), zero_point=(0,))]),
        "quantised arithmetic is not supported"),
    "another scale": (
        Case("RESHAPE", [constant(np.zeros(4, np.int8), scale=(1.0, 2.0, 1.0, 1.0)), constant([2, 2], "int32")],
             results=[Tensor((2, 2), "int8", scale=(2.0,))]), "unless they share one scale and zero point"),
    "hybrid": (
        Case("FULLY_CONNECTED", [(2, 4), constant(np.zeros((3, 4), np.int8), scale=(0.5,), zero_point=(0,))]),
        "weights: quantised integers with a scale"),
    "of 16 bits": (
        Case("CONV_2D", [Input(Tensor((1, 2, 2, 1), "int16", scale=(0.5,), zero_point=(0,)),
                               np.ones((1, 2, 2, 1), np.int16)),
                         constant(np.ones((1, 1, 1, 1), np.int16), scale=(0.5,), zero_point=(0,))], "Conv2DOptions",
             {"StrideW": 1, "StrideH": 1}, [Tensor((1, 2, 2, 1), "int16", scale=(1.0,), zero_point=(0,))]),
        "filter of a quantised operator must be int8"),
    "weights off zero": (
        Case("FULLY_CONNECTED", [Input(Tensor((1, 2), "int8", scale=(0.5,), zero_point=(9,)), np.ones((1, 2), np.int8)),
                                 constant(np.ones((1, 2), np.int8), scale=(0.5,), zero_point=(3,))],
             results=[Tensor((1, 1), "int8", scale=(1.0,), zero_point=(0,))]), "zero points must be 0"),
    "activation": (
        Case("CONCATENATION", [Input(Tensor((2,), "int8", scale=(0.5,), zero_point=(9,)), np.ones(2, np.int8))] * 2,
             "ConcatenationOptions", {"FusedActivationFunction": 1},
             [Tensor((4,), "int8", scale=(0.5,), zero_point=(9,))]), "there is no activation"),
    "tiny scale": (
        Case("FULLY_CONNECTED", [Input(Tensor((1, 2), "int8", scale=(0.5,), zero_point=(9,)), np.ones((1, 2), np.int8)),
                                 constant(np.ones((1, 2), np.int8), scale=(0.5,), zero_point=(0,))],
             "FullyConnectedOptions", {"FusedActivationFunction": 3},
             [Tensor((1, 1), "int8", scale=(1e-44,), zero_point=(0,))]), "must be below"),
    "pool": (
        Case("AVERAGE_POOL_2D", [Input(Tensor((1, 2, 2, 1), "int8", scale=(0.5,), zero_point=(9,)),
                                       np.ones((1, 2, 2, 1), np.int8))], "Pool2DOptions",
             {"StrideW": 1, "StrideH": 1, "FilterWidth": 2, "FilterHeight": 2},
             [Tensor((1, 2, 2, 1), "int8", scale=(0.25,), zero_point=(9,))]), "share one scale and zero point"),
    "whole division": (
        Case("DIV", [np.ones(3, np.int32)] * 2, results=[Tensor((3,), "int32")]), "x must have a floating-point dtype"),
    "sign": (
        Case("ADD", [(3,), (3,)], "AddOptions", {"FusedActivationFunction": 5}), "must be NONE or RELU"),
    "layout": (
        Case("FULLY_CONNECTED", [(2, 4), constant(np.zeros((3, 4), np.float32))], "FullyConnectedOptions",
             {"WeightsFormat": 1}), "weights_format must be DEFAULT"),
    "batches": (
        Case("GATHER", [(2, 3), constant([0], "int32")], "GatherOptions", {"BatchDims": 1}), "batch_dims must be 0"),
    "mixed": (
        Case("MUL", [(3,), np.ones(3, np.int32)]), "x, y must have the same dtype"),
    "mixed weights": (
        Case("FULLY_CONNECTED", [(2, 4), constant(np.zeros((3, 4), np.int8))]), "weights must have the same dtype"),
    "mixed list": (
        Case("CONCATENATION", [(3,), np.ones(3, np.int32)]), "inputs.0, inputs.1 must have the same dtype"),
    "three of two": (Case("SUB", [(3,), (3,), (3,)]), "additional operands: input 2"),
    "sines of bytes": (
        Case("SIN", [BYTES], results=[WHOLE]), "quantised arithmetic is not supported"),
    "roots of bytes without a sign": (
        Case("SQRT", [Input(replace(BYTES.tensor, dtype="uint8"), BYTES.array.astype(np.uint8))],
             results=[replace(WHOLE, dtype="uint8")]), "quantised operands and results must be int8 or int16"),
    "another sign off zero": (
        Case("NEG", [BYTES], results=[WHOLE]), "the same scale and the zero point 0"),
    "an order of two scales of 16 bits": (
        Case("LESS", [WORDS, Input(replace(WORDS.tensor, scale=(0.1,)), WORDS.array)], results=[Tensor(dtype="bool")]),
        "int16 operands must have the same scale"),
    "an order of halves": (
        Case("LESS", [Input(replace(WORDS.tensor, dtype="int32"), WORDS.array.astype(np.int32))] * 2,
             results=[Tensor(dtype="bool")]), "operands must be int8, uint8 or int16"),
    "steps of a logarithm": (
        Case("LOG_SOFTMAX", [BYTES], "LogSoftmaxOptions", {}, [WHOLE]), "the scale 1/16 and the zero point 127"),
    "steps of a norm": (
        Case("L2_NORMALIZATION", [BYTES], "L2NormOptions", {}, [WHOLE]), "the scale 1/128 and the zero point 0"),
    "a norm behind an activation": (
        Case("L2_NORMALIZATION", [BYTES], "L2NormOptions", {"FusedActivationFunction": 1},
             [replace(WHOLE, scale=(1 / 128,), zero_point=(0,))]), "fused_activation_function must be 'NONE'"),
    "no factors": (
        Case("REDUCE_PROD", [Input(replace(BYTES.tensor, shape=(2, 0)), np.zeros((2, 0), np.int8)),
                             constant([1], "int32")], "ReducerOptions", {}, [WHOLE]), "at least one factor"),
    "a bias of another scale": (
        Case("FULLY_CONNECTED", [BYTES, constant(np.ones((2, 3), np.int8), scale=(0.5,), zero_point=(0,)),
                                 constant([1, 2], "int32", scale=(1.0,), zero_point=(0,))],
             "FullyConnectedOptions", {}, [WHOLE]), "must be 0.025, the scale of the input"),
    "a bias off zero": (
        Case("CONV_2D", [Input(replace(BYTES.tensor, shape=(1, 1, 1, 1)), np.zeros((1, 1, 1, 1), np.int8)),
                         constant(np.ones((1, 1, 1, 1), np.int8), scale=(0.5,), zero_point=(0,)),
                         constant([1], "int32", scale=(0.025,), zero_point=(5,))],
             "Conv2DOptions", {"StrideW": 1, "StrideH": 1}, [WHOLE]), "the zero point 5"),
    "a zero point of 16 bits": (
        Case("EXP", [Input(replace(BYTES.tensor, dtype="int16", zero_point=(3,)), BYTES.array.astype(np.int16))],
             results=[replace(WHOLE, dtype="int16")]), "int16 tensors must have the zero point 0"),
    "a steep sigmoid of 16 bits": (
        Case("TANH", [Input(replace(BYTES.tensor, dtype="int16", scale=(1e6,), zero_point=(0,)),
                            BYTES.array.astype(np.int16))],
             results=[replace(WHOLE, dtype="int16", zero_point=(0,))]), "of an int16 input must be below 2¹⁶"),
    "steps of a softmax of 16 bits": (
        Case("SOFTMAX", [Input(replace(BYTES.tensor, dtype="int16", zero_point=(0,)), BYTES.array.astype(np.int16))],
             results=[replace(WHOLE, dtype="int16", zero_point=(0,))]), "the scale 1/32768 and the zero point 0"),
    "another scale of words": (
        Case("QUANTIZE", [Input(replace(BYTES.tensor, dtype="int32"), BYTES.array.astype(np.int32))],
             "QuantizeOptions", {}, [WHOLE]), "both must be int8 or uint8 or int16"),
    "a slope of 16 bits": (
        Case("PRELU", [WORDS, WORDS], results=[WORDS.tensor]), "alpha of a quantised operator must be int8"),
    "words": (
        Case("LOGISTIC", [BYTES], results=[replace(WHOLE, dtype="int16")]), "operands and results must be int8"),
    "steps of a softmax": (
        Case("SOFTMAX", [BYTES], results=[WHOLE]), "the result must have the scale 1/256 and the zero point -128"),
    "a falling line": (
        Case("LEAKY_RELU", [BYTES], "LeakyReluOptions", {"Alpha": -0.5}, [WHOLE]), "must not be negative"),
    "an endless slope": (
        Case("LEAKY_RELU", [BYTES], "LeakyReluOptions", {"Alpha": np.inf}, [WHOLE]), "must be below 2³⁰"),
    "a huge mean": (
        Case("MEAN", [Input(replace(BYTES.tensor, scale=(1e30,)), BYTES.array), constant([0], "int32")],
             results=[WHOLE]), "must be below 2³⁰"),
    "a huge product": (
        Case("MUL", [Input(replace(BYTES.tensor, scale=(1e30,)), BYTES.array)] * 2, results=[WHOLE]),
        "must be below 2³⁰"),
    "a huge swish": (
        Case("HARD_SWISH", [Input(replace(BYTES.tensor, scale=(1e38,)), BYTES.array)],
             results=[replace(WHOLE, scale=(1e-9,))]), "must be below 2³⁰"),
    "nothing to average": (
        Case("MEAN", [Input(replace(BYTES.tensor, shape=(2, 0)), np.zeros((2, 0), np.int8)), constant([1], "int32")],
             results=[WHOLE]), "at least one element"),
    "long rows": (
        Case("GATHER_ND", [(2, 3), constant([[0, 0, 0]], "int32")]), "at most one for each axis of the input"),
    "two values": (
        Case("ONE_HOT", [np.array([1], np.int32), constant(4, "int32"), constant(np.ones(2, np.float32)),
                         constant(np.float32(0))], "OneHotOptions", {"Axis": -1}), "on_value and off_value scalars"),
    "images": (
        Case("RESIZE_BILINEAR", [(1, 2, 2, 1), constant([0, 4], "int32")]), "size must be a height and a width"),
    "a zero point beyond 8 bits": (
        Case("ADD", [Input(replace(BYTES.tensor, zero_point=(200,)), BYTES.array), BYTES], "AddOptions", {}, [WHOLE]),
        "with zero points in its range"),
    "the least zero point of 64 bits": (
        Case("ADD", [BYTES, BYTES], "AddOptions", {}, [replace(WHOLE, zero_point=(-(2**63),))]),
        "with zero points in its range"),
    "no scale to quantise by": (
        Case("QUANTIZE", [(3,)], "QuantizeOptions", {}, [replace(WHOLE, scale=(0.0,))]),
        "scales must be positive numbers"),
    "an endless softmax": (
        Case("SOFTMAX", [BYTES], "SoftmaxOptions", {"Beta": np.nan},
             [replace(WHOLE, scale=(1 / 256,), zero_point=(-128,))]), "beta must be a finite number"),
    "an endless softmax of 16 bits": (
        Case("SOFTMAX", [WORDS], "SoftmaxOptions", {"Beta": -np.inf},
             [replace(WORDS.tensor, scale=(1 / 32768,))]), "must be below 2³⁰"),
    "a long softmax of 16 bits": (
        Case("SOFTMAX", [Input(replace(WORDS.tensor, shape=(1, 65537)), np.zeros((1, 65537), np.int16))],
             "SoftmaxOptions", {"Beta": 1.0}, [replace(WORDS.tensor, scale=(1 / 32768,))]),
        "at most 65536 elements"),
    "a huge sum": (
        Case("SUM", [Input(replace(BYTES.tensor, scale=(3e38,)), BYTES.array), constant([1], "int32")],
             "ReducerOptions", {}, [WHOLE]),
        "finite in float32"),
    "a mean of many words": (
        Case("MEAN", [Input(replace(WORDS.tensor, shape=(65537,)), np.zeros(65537, np.int16)), constant([0], "int32")],
             "ReducerOptions", {}, [WORDS.tensor]), "at most 65536 int16 elements"),
    "parts of a tiny scale": (
        Case("CONCATENATION", [Input(replace(BYTES.tensor, dtype="uint8"), np.zeros((2, 3), np.uint8))],
             "ConcatenationOptions", {}, [replace(WHOLE, dtype="uint8", scale=(1e-44,))]),
        "finite in float32"),
    "a steep order": (
        Case("LESS", [Input(replace(BYTES.tensor, scale=(16384.0,)), BYTES.array), BYTES],
             results=[Tensor(dtype="bool")]),
        "must be below 16384"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_an_unsupported_form_of_an_operator_raises_an_error_with_its_name(name: str, tmp_path: Path) -> None:
    """If explorer cannot compute exactly what the interpreter does, the error has type, name and rule."""
    case, rule = REFUSED[name]
    net = opened(case.file(), tmp_path)
    (finding,) = net.check()
    assert "operator 'y0'" in finding
    assert case.type in finding
    assert rule in finding
    with pytest.raises(ex.ExplorerError, match="y0"):
        net.run(*case.inputs())


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("dtype", "ends"), [("int8", (-128, 127)), ("uint8", (0, 255)), ("int16", (-32768, 32767))])
def test_numbers_out_of_range_are_quantized_to_the_limits(dtype: str, ends: tuple[int, int], tmp_path: Path) -> None:
    """Infinities become the limit on their side, and NaN the smallest number, on any processor."""
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 1], np.float32)
    case = Case("QUANTIZE", [x], "QuantizeOptions", {}, [Tensor((), dtype, scale=(0.5,), zero_point=(0,))])
    low, high = ends
    least = 0 if dtype == "uint8" else low
    assert opened(case.file(), tmp_path).run(x).tolist() == [least, high, low, high, low, 2]


def test_rows_may_be_longer_than_8_bit_indices(tmp_path: Path) -> None:
    operands = [np.array([1, 44], np.uint8), constant(300, "int32"), constant(np.float32(1)), constant(np.float32(0))]
    case = Case("ONE_HOT", operands, "OneHotOptions", {"Axis": -1})
    y = opened(case.file(), tmp_path).run(*case.inputs())
    np.testing.assert_array_equal(np.argwhere(y), [[0, 1], [1, 44]])


FACTORS = [2.0**power for power in (12, 20, 26, 29)]


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("type", ["QUANTIZE", "MUL", "ABS", "FULLY_CONNECTED", "SUM"])
def test_numbers_out_of_the_range_of_a_result_become_its_limits(type: str, factor: float, tmp_path: Path) -> None:
    """Factors that overflow 64 bits give the limit on the number's side, and zero stays zero."""
    array = np.array([[-30000, -3, 0, 1, 127, 30000]], np.int16)
    x = Input(Tensor(array.shape, "int16", scale=(factor,), zero_point=(0,)), array)
    ones = Input(Tensor((1,), "int16", scale=(1.0,), zero_point=(0,)), np.ones(1, np.int16))
    weights = constant(np.eye(6), "int8", scale=(1.0,), zero_point=(0,))
    operands = {"MUL": [x, ones], "FULLY_CONNECTED": [x, weights], "SUM": [x, constant([0], "int32")]}.get(type, [x])
    case = Case(type, operands, results=[Tensor((), "int16", scale=(1.0,), zero_point=(0,))])
    least = 32767 if type == "ABS" else -32768
    result = opened(case.file(), tmp_path).run(*case.inputs())
    np.testing.assert_array_equal(result.reshape(-1)[[0, 2, 4, 5]], [least, 0, 32767, 32767])


def test_a_bias_may_have_no_scale(tmp_path: Path) -> None:
    """A quantized bias has the scale of the products of input and weights, even if the file omits it."""
    x = Input(replace(WORDS.tensor, shape=(1, 2), dtype="int8", scale=(1.0,)), np.array([[3, 4]], np.int8))
    weights, bias = constant(np.eye(2), "int8", scale=(1.0,), zero_point=(0,)), constant([10, 20], "int32")
    case = Case("FULLY_CONNECTED", [x, weights, bias], results=[replace(x.tensor, shape=())])
    np.testing.assert_array_equal(opened(case.file(), tmp_path).run(*case.inputs()), [[13, 24]])


def test_a_sum_beyond_64_bits_becomes_the_limit(tmp_path: Path) -> None:
    x = Input(replace(BYTES.tensor, scale=(1e25,)), np.full((2, 3), 100, np.int8))
    case = Case("SUM", [x, constant([1], "int32")], "ReducerOptions", {}, [WHOLE])
    np.testing.assert_array_equal(opened(case.file(), tmp_path).run(*case.inputs()), [127, 127])


def test_a_rounded_step_ends_at_the_last_pixel(tmp_path: Path) -> None:
    """1/1500 of a pixel is 1/1024 in the interpreter's units, so that the last steps are outside the image."""
    image = Input(Tensor((1, 1, 1, 1), "int8", scale=(1.0,), zero_point=(0,)), np.full((1, 1, 1, 1), 5, np.int8))
    case = Case("RESIZE_BILINEAR", [image, constant([1500, 1], "int32")], "ResizeBilinearOptions", {}, [image.tensor])
    assert np.all(opened(case.file(), tmp_path).run(*case.inputs()) == 5)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("type", ["DIV", "EXP"])
def test_tiny_scales_raise_no_warning(type: str, tmp_path: Path) -> None:
    """The smallest result scale gives factors of ∞: they raise an error, or results are limits."""
    dtype = "int8" if type == "DIV" else "int16"
    form = Tensor((3,), dtype, scale=(0.01,), zero_point=(0,))
    operands = [Input(form, np.ones(3, dtype))] * (2 if type == "DIV" else 1)
    case = Case(type, operands, results=[replace(form, scale=(1e-44,))])
    net = opened(case.file(), tmp_path)
    findings = net.check()
    assert len(findings) == (type == "DIV")
    assert all("must be below 2³⁰" in finding for finding in findings)
