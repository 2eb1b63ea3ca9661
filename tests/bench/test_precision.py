"""int8 MobileNetV2, quantized by onnxruntime, against float32: which operators are compared, and with what ranking."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.net.operand_matching import CONVERSIONS
from tests.support.runtime_models import model

pytestmark = pytest.mark.bench

SHAPE = (1, 3, 96, 96)


def batches(seed: int, count: int) -> Iterator[dict[str, Any]]:
    random = np.random.default_rng(seed)
    return iter([{"x": random.normal(size=SHAPE).astype("float32")} for _ in range(count)])


def quantized(folder: Path) -> tuple[Path, Path]:
    """Return the float32 file and the int8 file, with QuantizeLinear and DequantizeLinear, of MobileNetV2."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.batches = batches(0, 4)

        def get_next(self) -> Any:
            return next(self.batches, None)

    path, _, _ = model("mobilenet_v2", folder)
    before, after = folder / "float32.onnx", folder / "int8.onnx"
    quant_pre_process(str(path), str(before), skip_symbolic_shape=True)
    quantize_static(str(before), str(after), Reader(), quant_format=QuantFormat.QDQ)
    return before, after


def test_operators_of_an_int8_file_are_compared_and_ranked_as_by_onnxruntime(tmp_path: Path) -> None:
    """All operators are compared, alone or with those that they also compute; SQNR is that of `qdq_loss_debug`."""
    from onnxruntime.quantization import qdq_loss_debug as debug

    paths = quantized(tmp_path)
    original, int8 = map(ex.open, paths)
    given = next(batches(1, 1))
    comparisons = {each: int8.compare(original, given, executor=each) for each in ("simple", "onnxruntime")}
    activations = []
    for path in paths:
        with_outputs = path.with_suffix(".debug.onnx")
        debug.modify_model_output_intermediate_tensors(path, with_outputs)
        activations.append(debug.collect_activations(str(with_outputs), batches(1, 1)))
    errors = debug.compute_activation_error(debug.create_activation_matching(activations[1], activations[0]))
    theirs = {name: error["xmodel_err"] for name, error in errors.items()}
    operators = [each for each in int8.operators.values() if each.type not in CONVERSIONS]
    print(f"\n{'executor':12} compared  of  covered  of  both  largest difference from qdq_loss_debug")
    for executor, comparison in comparisons.items():
        rows = {row.counterpart: row for row in comparison.ranked}
        compared = {row.operator for row in comparison.rows if row.type not in CONVERSIONS}
        covered = {name for row in comparison.rows for name, _ in row.origins}
        both = [name for name in theirs if name in rows]
        largest = max(abs(rows[name].sqnr - theirs[name]) for name in both)
        print(f"{executor:12} {len(compared):8} {len(operators):3} {len(covered):8} {len(original.operators):3} "
              f"{len(both):5}  {largest:.2f} dB of {len(theirs)}")  # fmt: skip
        assert compared == {each.name for each in operators}
        assert covered == {*original.operators}
        assert len(both) == len(theirs)
        assert largest < 0.5
        if executor == "onnxruntime":
            assert largest < 1e-3
            assert sorted(both, key=lambda name: rows[name].sqnr) == sorted(both, key=theirs.__getitem__)
    own = [{row.name: row.rank for row in each.ranked} for each in comparisons.values()]
    assert own[0] == pytest.approx(own[1], abs=2)
