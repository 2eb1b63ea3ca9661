"""Every operation is written to an ONNX file that computes the same, or raises an error with the reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import explorer as ex
from explorer.core.ir.function import Parameter
from explorer.core.types.tensor_type import TensorType
from explorer.formats.onnx import operators as _  # noqa: F401  # they declare operations of their own
from explorer.formats.onnx.writing import expression_writer, model_file
from explorer.formats.onnx.writing.operations import UNSUPPORTED, WRITERS
from tests.laws.cases import Case, every_case, operations, parameters

CASES = [case for case in every_case() if case.operation.name in WRITERS and case.operation.name != "opaque"]
IMPRECISE = {"erf", "gelu"}
"""operations that the reference evaluator computes in single precision"""


def test_every_operation_is_written_or_raises_an_error_with_the_reason() -> None:
    names = {operation.name for operation in operations()}
    assert not names - {*WRITERS, *UNSUPPORTED}
    assert not {*WRITERS} & {*UNSUPPORTED}
    assert not {*WRITERS, *UNSUPPORTED} - names


@pytest.mark.spec("C-12")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", parameters(CASES))
def test_a_file_computes_the_same_as_the_operation(case: Case, dtype: str, tmp_path: Path) -> None:
    arrays = case.arrays(dtype)
    operands = {f"x{i}": Parameter(TensorType(a.shape, a.dtype), f"x{i}")() for i, a in enumerate(arrays)}
    given = dict(zip(operands, arrays, strict=True))
    expected = case.operation.compute(*arrays)
    whole = expression_writer.model_of("operation", operands, {"y": case.operation(*operands.values())})
    model_file.write_model(*whole, tmp_path / "x.onnx")
    onnx.checker.check_model(tmp_path / "x.onnx", full_check=True)
    results = [ex.open(tmp_path / "x.onnx").run(given)]
    # the reference evaluator supports neither groups in a transposed convolution nor MaxRoiPool
    grouped = getattr(case.operation, "groups", 1) > 1 and case.operation.name == "conv2d_image_gradient"
    if not grouped and case.operation.name != "max_roi_pool":
        results.append(np.asarray(ReferenceEvaluator(str(tmp_path / "x.onnx")).run(None, given)[0]))
    single = expected.dtype == np.float32 or case.operation.name in IMPRECISE
    for result in results:
        assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(result, expected, rtol=1e-5 if single else 1e-9, atol=1e-6 if single else 1e-9)


@pytest.mark.parametrize("operation", ["expm1", "log1p", "remainder", "floor_divide", "arctan2", "hypot", "logaddexp"])
def test_compositions_are_correct_far_from_the_examples(operation: str, tmp_path: Path) -> None:
    x = np.array([-1e30, -88.0, -3.5, -0.49, -1e-7, 0.0, 1e-30, 1e-7, 0.25, 0.51, 2.0, 87.0, 1e30], np.float32)
    function = getattr(ex, operation)
    count = 1 if operation in ("expm1", "log1p") else 2
    rows = [x[x > -1] if operation == "log1p" else x, np.roll(x, 4) + np.float32(0.75)][:count]
    ex.save(function, tmp_path / "x.onnx", {f"x{i}": row.shape for i, row in enumerate(rows)})
    given = {f"x{i}": row for i, row in enumerate(rows)}
    with np.errstate(all="ignore"):  # both branches of a conditional are computed
        (result,) = ReferenceEvaluator(str(tmp_path / "x.onnx")).run(None, given)
        np.testing.assert_allclose(result, ex.evaluate(function(*rows)), rtol=1e-5, atol=1e-30)
