"""Write a quantised and a recurrent network for the digits of ``digits.py`` as ONNX files.

``digits_int8.onnx`` is ``digits.onnx``, quantised by ONNX Runtime's tool with ranges measured on training digits.
``digits_rows.onnx`` is a GRU that reads a digit row by row. README.md in this folder explains how to install the
imported packages.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from digits import SEED, Digits, load
from onnx import version_converter
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from torch import Tensor, nn

HERE = Path(__file__).parent
EPOCHS, UNITS, MEASURED = 40, 24, 200


class Rows(nn.Module):
    """Gated recurrent unit over the rows of an image, and a linear map from its last state to ten probabilities."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(8, UNITS, batch_first=True)
        self.fc = nn.Linear(UNITS, 10)

    def forward(self, image: Tensor) -> Tensor:
        """Return probabilities: (N, 1, 8, 8) → (N, 10)."""
        states, _ = self.gru(image.reshape(-1, 8, 8))
        return torch.softmax(self.fc(states[:, -1]), dim=1)


class Pictures(CalibrationDataReader):
    """Digits with which the quantiser measures ranges, one at a time."""

    def __init__(self, images: Any) -> None:
        self._waiting: Iterator[Any] = iter(images)

    def get_next(self) -> Any:
        """Return the next input, or None."""
        image = next(self._waiting, None)
        return None if image is None else {"image": image[None]}


def quantise(images: Any) -> None:
    """Write ``digits.onnx`` in 8 bits, with a pair of QuantizeLinear and DequantizeLinear for each value."""
    newer = version_converter.convert_version(onnx.load(HERE / "digits.onnx"), 21)  # the first opset with 4-bit types
    quantize_static(
        newer,
        HERE / "digits_int8.onnx",
        Pictures(images),
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        per_channel=True,
    )


def train(digits: Digits) -> nn.Module:
    """Return the trained recurrent network."""
    torch.manual_seed(SEED)
    module = Rows()
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    for _ in range(EPOCHS):
        for index in torch.randperm(len(digits)).split(64):
            batch = digits[index]
            optimizer.zero_grad()
            nn.functional.nll_loss(torch.log(module(batch.images)), batch.labels).backward()
            optimizer.step()
    return module.eval()


def export(module: nn.Module) -> None:
    """Write the recurrent network with a dynamic batch size."""
    torch.onnx.export(
        module,
        (torch.zeros(1, 1, 8, 8),),
        HERE / "digits_rows.onnx",
        dynamo=False,
        opset_version=17,
        input_names=["image"],
        output_names=["probability"],
        dynamic_axes={"image": {0: "batch"}, "probability": {0: "batch"}},
    )


def main() -> None:
    """Write both files, and print their accuracy on the held-out digits."""
    torch.set_num_threads(1)
    trained_on, held_out = load()
    quantise(trained_on.images[:MEASURED].numpy())
    export(train(trained_on))
    for name in ("digits_int8.onnx", "digits_rows.onnx"):
        path = HERE / name
        model = onnx.load(path)
        model.producer_version = ""
        onnx.save(model, path)
        (answer,) = onnxruntime.InferenceSession(path).run(None, {"image": held_out.images.numpy()})
        right = float(np.mean(answer.argmax(axis=1) == held_out.labels.numpy()))
        sys.stdout.write(f"{name}: {right:.4f} of the held-out digits, {path.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main()
