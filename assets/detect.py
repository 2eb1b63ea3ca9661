"""Head of a YOLOv5 network as written by its authors, in the module path that files contain."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Detect(nn.Module):
    """Boxes from feature maps: centre, size and class confidences for each pixel and anchor."""

    def __init__(self, classes: int, anchors: Tensor, strides: Tensor, channels: tuple[int, ...]) -> None:
        super().__init__()
        self.numbers, self.count = classes + 5, anchors.shape[1]
        self.strides, self.anchors = strides, anchors
        self.places: dict[int, tuple[Tensor, Tensor]] = {}
        self.m = nn.ModuleList(nn.Conv2d(size, self.numbers * self.count, 1) for size in channels)

    def forward(self, maps: list[Tensor]) -> Tensor:
        found = []
        for level, x in enumerate(maps):
            y = self.m[level](x)
            n, _, rows, columns = y.shape
            y = y.view(n, self.count, self.numbers, rows, columns).permute(0, 1, 3, 4, 2).contiguous().sigmoid()
            centre, size, sure = y.split((2, 2, self.numbers - 4), 4)
            if level not in self.places:
                self.places[level] = self.place(level, rows, columns)
            grid, anchors = self.places[level]
            y = torch.cat(((centre * 2 + grid) * self.strides[level], (size * 2) ** 2 * anchors, sure), 4)
            found.append(y.view(n, self.count * rows * columns, self.numbers))
        return torch.cat(found, 1)

    def place(self, level: int, rows: int, columns: int) -> tuple[Tensor, Tensor]:
        """Return pixel positions and anchor sizes, which are constant after the first run."""
        vertical, horizontal = torch.meshgrid(torch.arange(rows).float(), torch.arange(columns).float(), indexing="ij")
        shape = (1, self.count, rows, columns, 2)
        grid = torch.stack((horizontal, vertical), 2).expand(shape) - 0.5
        return grid, (self.anchors[level] * self.strides[level]).view(1, self.count, 1, 1, 2).expand(shape)


Detect.__module__ = "models.yolo"


class Detects(nn.Module):
    """Network of three feature maps and the head."""

    def __init__(self) -> None:
        super().__init__()
        self.maps = nn.ModuleList((nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 4, 3, 2, 1), nn.Conv2d(4, 5, 3, 4, 1)))
        anchors = torch.tensor([[[1.2, 1.6], [2, 3.7]], [[1.9, 3.8], [3.8, 2.8]], [[3.6, 2.8], [4.8, 6.1]]])
        self.head = Detect(2, anchors, torch.tensor([2.0, 4.0, 16.0]), (4, 4, 5))

    def forward(self, x: Tensor) -> Tensor:
        found = [x]
        for convolution in self.maps:
            found.append(convolution(found[-1]))
        return self.head(found[1:])
