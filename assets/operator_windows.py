"""Models of one operator each, for operators.py: windows in volumes, folds, norms of windows, embedding bags."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from operator_layers import Calls, Case, Holds, normal
from torch import nn
from torch.nn import functional


def volumes() -> Iterator[Case]:
    x = normal(1, 4, 4, 5, 6)
    options: dict[str, Any] = {"stride": (2, 1, 2), "padding": (1, 0, 1)}
    yield Case(
        "nn.ConvTranspose3d",
        Holds(nn.ConvTranspose3d(4, 6, (2, 3, 3), output_padding=(1, 0, 0), groups=2, **options)),
        (x,),
    )
    yield Case("nn.ConvTranspose3d_dilated", Holds(nn.ConvTranspose3d(4, 3, 2, dilation=(1, 2, 3), bias=False)), (x,))
    yield Case(
        "F.conv_transpose3d",
        Calls(lambda x, w, b: functional.conv_transpose3d(x, w, b, stride=2, padding=1)),
        (x, normal(4, 3, 3, 3, 3), normal(3)),
    )
    yield Case("nn.MaxPool3d", Holds(nn.MaxPool3d((2, 3, 3), dilation=(2, 1, 1), **options)), (x,))
    yield Case("nn.MaxPool3d_ceil", Holds(nn.MaxPool3d(2, ceil_mode=True)), (x,))
    yield Case("nn.AvgPool3d", Holds(nn.AvgPool3d((2, 3, 3), **options)), (x,))
    yield Case("nn.AvgPool3d_inside", Holds(nn.AvgPool3d(3, 2, 1, ceil_mode=True, count_include_pad=False)), (x,))
    yield Case("nn.AvgPool3d_counted", Holds(nn.AvgPool3d(3, 2, 1, ceil_mode=True)), (x,))
    yield Case("nn.AvgPool3d_divisor", Holds(nn.AvgPool3d(2, divisor_override=3)), (x,))
    yield Case("nn.AvgPool2d_divisor", Holds(nn.AvgPool2d(3, 2, 1, divisor_override=5)), (normal(2, 3, 6, 7),))
    yield Case("F.avg_pool3d", Calls(lambda x: functional.avg_pool3d(x, 2)), (x,))
    yield Case("F.max_pool3d", Calls(lambda x: functional.max_pool3d(x, (2, 3, 2), 2)), (x,))
    yield Case("nn.AdaptiveAvgPool3d", Holds(nn.AdaptiveAvgPool3d((3, 1, 4))), (x,))
    yield Case("nn.AdaptiveMaxPool3d", Holds(nn.AdaptiveMaxPool3d((2, None, 3))), (x,))
    yield Case("F.adaptive_avg_pool3d", Calls(lambda x: functional.adaptive_avg_pool3d(x, 1)), (x,))


def norms_of_windows() -> Iterator[Case]:
    line, image = normal(2, 3, 9), normal(2, 3, 6, 7)
    yield Case("nn.LPPool1d", Holds(nn.LPPool1d(2, 3, 2)), (line,))
    yield Case("nn.LPPool2d", Holds(nn.LPPool2d(3, (2, 3), (2, 1))), (torch.abs(image),))
    yield Case("nn.LPPool2d_ceil", Holds(nn.LPPool2d(2, 4, ceil_mode=True)), (image,))
    yield Case("F.lp_pool2d", Calls(lambda x: functional.lp_pool2d(x, 2.0, (3, 2))), (image,))


def folds() -> Iterator[Case]:
    image = normal(2, 3, 6, 7)
    options: dict[str, Any] = {"kernel_size": (2, 3), "dilation": (2, 1), "padding": (1, 0), "stride": (1, 2)}
    yield Case("nn.Unfold", Holds(nn.Unfold(**options)), (image,))
    yield Case("nn.Fold", Holds(nn.Fold((6, 7), **options)), (normal(2, 18, 18),))
    yield Case("F.unfold", Calls(lambda x: functional.unfold(x, 3, padding=1)), (image,))
    yield Case("F.fold", Calls(lambda x: functional.fold(x, (4, 6), 2, stride=2)), (normal(2, 12, 6),))
    yield Case("F.pixel_shuffle", Calls(lambda x: functional.pixel_shuffle(x, 2)), (normal(2, 8, 3, 4),))
    yield Case("F.pixel_unshuffle", Calls(lambda x: functional.pixel_unshuffle(x, 2)), (normal(2, 3, 4, 6),))


def bags() -> Iterator[Case]:
    numbers = torch.randint(0, 10, (4, 6))
    for mode in ("sum", "mean", "max"):
        yield Case(f"nn.EmbeddingBag_{mode}", Holds(nn.EmbeddingBag(10, 3, mode=mode)), (numbers,))

    class Cut(nn.Module):
        """Embedding bags with constant offsets."""

        def __init__(self, mode: str) -> None:
            super().__init__()
            self.held = nn.EmbeddingBag(10, 3, mode=mode)
            self.offsets = nn.Buffer(torch.tensor([0, 4, 4, 15]))

        def forward(self, numbers: torch.Tensor) -> torch.Tensor:
            return self.held(numbers, self.offsets)

    for mode in ("sum", "mean", "max"):
        yield Case(f"nn.EmbeddingBag_{mode}_offsets", Cut(mode), (numbers.reshape(-1),))


def projections() -> Iterator[Case]:
    class Projects(nn.Module):
        def __init__(self, **options: Any) -> None:
            super().__init__()
            self.held = nn.LSTM(6, 8, proj_size=3, **options)

        def forward(self, x: torch.Tensor, *states: torch.Tensor) -> Any:
            y, (h, c) = self.held(x, states) if states else self.held(x)
            return torch.cat([part.flatten() for part in (y, h, c)])

    x = normal(5, 2, 6)
    yield Case("nn.LSTM_projected", Projects(), (x,))
    yield Case(
        "nn.LSTM_projected_both", Projects(num_layers=2, bidirectional=True, batch_first=True), (normal(2, 5, 6),)
    )
    yield Case("nn.LSTM_projected_states", Projects(bias=False), (x, normal(1, 2, 3), normal(1, 2, 8)))


WINDOWS = (volumes, norms_of_windows, folds, bags, projections)
