"""The onnx package's own backend test cases, and their outcomes in explorer."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import ModelProto, OptionalProto, SequenceProto, TensorProto, ValueInfoProto, numpy_helper
from onnx.backend.test.loader import load_model_tests

import explorer as ex
from explorer.net.definition.operator_definition import NARROW

HALVES = {
    "test_causal_conv_with_state_silu_fp16_expanded",
    # rounded once, at most 1.1 ulps from the exact values; the case, rounded at each step, is 1.4 off
    "test_attention_4d_causal_fp16",
    "test_attention_4d_causal_fp16_expanded",
}
"""cases whose half-precision sums may be two ulps from the expected values"""
DISPUTED = {
    f"test_resize_downsample_scales_{kind}_align_corners": (
        "the case takes a length of 2.4 elements; the standard's text, torch and ONNX Runtime that of the result"
    )
    for kind in ("linear", "cubic")
}


class Case(NamedTuple):
    """One data set of a case."""

    name: str
    model: ModelProto
    inputs: list[Any]
    outputs: list[Any]
    rtol: float
    atol: float


KINDS = ("simple", "pytorch-converted", "pytorch-operator")
"""kinds of cases stored as files of the package; cases of single nodes are generated"""


def file_cases() -> Iterator[Case]:
    """Yield the cases of whole models, most of them in opset 6, as torch wrote them."""
    for kind in KINDS:
        for case in load_model_tests(kind=kind):
            folder = Path(case.model_dir)
            model = onnx.load(folder / "model.onnx")
            for data in sorted(folder.glob("test_data_set_*")):
                values = [
                    [_stored(path, value) for path, value in zip(_files(data, side), values, strict=False)]
                    for side, values in (("input", model.graph.input), ("output", model.graph.output))
                ]
                yield Case(f"{kind}: {case.name}", model, *values, case.rtol, case.atol)


def _files(folder: Path, side: str) -> list[Path]:
    return sorted(folder.glob(f"{side}_*.pb"), key=lambda path: int(path.stem.rpartition("_")[2]))


def _stored(path: Path, value: ValueInfoProto) -> Any:
    """Return the value in a file of a case's data."""
    match value.type.WhichOneof("value"):
        case "sequence_type":
            return numpy_helper.to_list(SequenceProto.FromString(path.read_bytes()))
        case "optional_type":
            return numpy_helper.to_optional(OptionalProto.FromString(path.read_bytes()))
    return _array(TensorProto.FromString(path.read_bytes()))


def cases(module: str = "") -> Iterator[Case]:
    """Yield the cases of single nodes, or those in one module; generating all takes ten seconds."""
    from onnx.backend.test.case import node

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # generating the cases raises NumPy warnings
        if module:
            importlib.import_module(f"{node.__name__}.{module}")
        instance = node._NodeTestCases if module else node.collect_testcases()
    for case in instance:
        if not case.name.startswith(f"test_{module}"):
            continue
        for inputs, outputs in case.data_sets or []:
            given, expected = ([_array(value) for value in values] for values in (inputs, outputs))
            yield Case(case.name, case.model, given, expected, case.rtol, case.atol)


def _array(value: Any) -> Any:
    """Return the array of a tensor in a case's data."""
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def with_constants(case: Case, count: int) -> tuple[ModelProto, dict[str, Any]]:
    """Return the model with all inputs after the first ``count`` as initializers, and the remaining inputs."""
    proto = ModelProto()
    proto.CopyFrom(case.model)
    given = {}
    for index, (value, array) in enumerate(zip(proto.graph.input, case.inputs, strict=False)):
        if index < count or isinstance(array, (list, ModelProto)) or not hasattr(array, "dtype"):
            given[value.name] = array
        else:
            proto.graph.initializer.append(numpy_helper.from_array(np.asarray(array), value.name))
    return proto, given


def widened(array: Any) -> Any:
    """Convert an array for comparison, because explorer computes bfloat16 as float32."""
    result = np.asarray(array)
    return result.astype(np.float32) if result.dtype.name == "bfloat16" else result


def differs(found: Any, expected: Any, case: Case) -> str:
    """Return how a value differs from the expected one, or ""."""
    if isinstance(expected, list):
        if not isinstance(found, tuple) or len(found) != len(expected):
            return f"{found!r} where {len(expected)} members are right"
        return next(filter(None, (differs(*pair, case) for pair in zip(found, expected, strict=True))), "")
    if found is None or expected is None:
        return "" if found is expected else f"{found!r} where {expected!r} is right"
    wanted = widened(expected)
    if wanted.dtype.kind in "OU":
        same = found.shape == wanted.shape and found.dtype.kind == "U" and found.tolist() == wanted.tolist()
        return "" if same else f"{found!r} where {wanted!r} is right"
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return f"{found.dtype}{found.shape} where {wanted.dtype}{wanted.shape} is right"
    rtol, atol = (2e-3, 2e-3) if case.name in HALVES else (case.rtol, case.atol)
    if np.asarray(expected).dtype.name == "bfloat16":
        rtol = max(rtol, 2**-6)  # expected values are rounded to 8 bits, some of them after each operation
    if found.dtype.name in NARROW:
        found, wanted = found.astype(np.float32), wanted.astype(np.float32)
    try:
        np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol)
    except AssertionError as error:
        return str(error)
    return ""


def outcome(case: Case, path: Path) -> tuple[str, str]:
    """Return right, unknown, refused or wrong, and the reason.

    Explorer needs shapes when a net is built, so inputs that determine shapes are passed as constants.
    """
    reason = ""
    for count in (len(case.inputs), 1, 0):
        proto, given = with_constants(case, count)
        path.write_bytes(proto.SerializeToString())
        try:
            net = ex.open(path)
            result = net.run(given)
        except ex.ExplorerError as error:
            reason = str(error)
            if "unknown operator type" in reason:
                return "unknown", reason.split("\n")[1].split(":")[0].strip()
            continue
        results = list(result.values()) if len(net.outputs) > 1 else [result]
        compared = [differs(*pair, case) for pair in zip(results, case.outputs, strict=True)]
        wrong = [text for text in compared if text]
        return ("wrong", wrong[0]) if wrong else ("right", "")
    return "refused", reason
