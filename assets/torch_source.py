"""Export a small torch module as ONNX with the exporter's metadata: the source line and module of each node.

Writes ``residual_notes.onnx``, which tests open without torch. Paths are shortened to file names.
README.md in this folder explains how to install the imported packages.
"""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch import Tensor, nn

KEPT = ("pkg.torch.onnx.stack_trace", "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy")
"""kept metadata keys"""
TARGET = Path(__file__).parent / "residual_notes.onnx"


class Block(nn.Module):
    """Convolution, normalization and a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3, padding=1)
        self.bn = nn.BatchNorm2d(2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn(self.conv(x))
        return torch.relu(y) + x


class Residual(nn.Module):
    """Two blocks and a linear map."""

    def __init__(self) -> None:
        super().__init__()
        self.layer1 = nn.Sequential(Block(), Block())
        self.fc = nn.Linear(2, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer1(x)
        x = x.mean((2, 3))
        return self.fc(x)


def main() -> None:
    torch.manual_seed(0)
    module = Residual().eval()
    program = torch.onnx.export(
        module,
        (torch.randn(1, 2, 4, 4),),
        dynamo=True,
        optimize=False,
        verbose=False,
        dynamic_shapes={"x": {0: "batch"}},
    )
    model = program.model_proto
    for node in model.graph.node:
        notes = {entry.key: entry.value for entry in node.metadata_props if entry.key in KEPT}
        del node.metadata_props[:]
        for key, value in notes.items():
            # torch's own folders stay, because they distinguish its lines from the user's
            short = re.sub(r'File "[^"]*?((?:site-packages/torch/[^"]*)|[^"/]*)"', r'File "/\1"', value)
            node.metadata_props.add(key=key, value=short)
    for value in (
        *model.graph.value_info,
        *model.graph.input,
        *model.graph.output,
        *model.graph.initializer,
        model.graph,
        model,
    ):
        del value.metadata_props[:]
    TARGET.write_bytes(model.SerializeToString(deterministic=True))


if __name__ == "__main__":
    main()
