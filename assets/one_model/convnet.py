"""Residual blocks of convolutions with batch normalisation, and a classifier."""

import torch
from torch import Tensor, nn


class Block(nn.Module):
    """Two convolutions, and a residual connection around them."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.bn1(self.conv1(x)))
        h = self.bn2(self.conv2(h))
        return torch.relu(h + x)


class ConvNet(nn.Module):
    """Stem, two blocks, and a linear classifier of the channels' means."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(16)
        self.layer1, self.layer2 = Block(16), Block(16)
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.bn(self.stem(x)))
        x = self.layer2(self.layer1(x))
        return torch.softmax(self.head(x.mean((2, 3))), -1)


torch.manual_seed(0)
program, inputs = ConvNet().eval(), (torch.randn(2, 3, 32, 32),)
for norm in program.modules():
    if isinstance(norm, nn.BatchNorm2d):
        norm.running_mean.uniform_(-0.2, 0.2), norm.running_var.uniform_(0.5, 1.5)
