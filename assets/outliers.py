"""Write the digits network with outliers in one layer, and two versions of it in 8 bits, as ONNX files.

``outliers.onnx`` computes what ``digits.onnx`` computes, but one channel of its first convolution is 500 times as
large, and the weights that read it are as much smaller. ``outliers_int8.onnx`` is this network, quantised by ONNX
Runtime's tool with ranges measured on handwritten digits. In ``outliers_mixed.onnx``, the tool skips the operators that
``explorer compare outliers.onnx outliers_int8.onnx --keep-in-float 1`` names. Needs onnxruntime.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

import explorer as ex

HERE = Path(__file__).parent
FACTOR, CHANNEL, MEASURED = np.float32(500), 2, 200


class Images(CalibrationDataReader):
    """Handwritten digits, one per run."""

    def __init__(self) -> None:
        images = np.load(HERE / "handwriting.npz")["images"][:MEASURED].reshape(-1, 1, 1, 8, 8)
        self.images = iter((images / 16).astype("float32"))

    def get_next(self) -> Any:
        """Return the inputs of the next run, or None."""
        image = next(self.images, None)
        return None if image is None else {"image": image}


def scaled() -> onnx.ModelProto:
    """Return the digits network with outliers in one channel of its first convolution."""
    model = onnx.load(HERE / "digits.onnx")
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    first, second = [node for node in model.graph.node if node.op_type == "Conv"][:2]
    for name, at, factor in [
        (first.input[1], np.s_[CHANNEL], FACTOR),
        (first.input[2], np.s_[CHANNEL], FACTOR),
        (second.input[1], np.s_[:, CHANNEL], 1 / FACTOR),
    ]:
        array = numpy_helper.to_array(weights[name]).copy()
        array[at] *= factor
        weights[name].CopyFrom(numpy_helper.from_array(array, name))
    return model


def quantize(source: Path, target: Path, exclude: Sequence[str] = ()) -> None:
    """Quantise a file to 8 bits, except for the named operators."""
    quantize_static(
        str(source),
        str(target),
        Images(),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        nodes_to_exclude=[*exclude],
    )


def main() -> None:
    """Write the three files."""
    paths = [HERE / f"{name}.onnx" for name in ("outliers", "outliers_int8", "outliers_mixed")]
    onnx.save(scaled(), paths[0])
    quantize(paths[0], paths[1])
    images = np.load(HERE / "digits.npz")["images"]
    names = ex.open(paths[1]).compare(ex.open(paths[0]), images).keep_in_float(1)
    quantize(paths[0], paths[2], names)
    print(names)


if __name__ == "__main__":
    main()
