"""Architectures that models.py exports, in plain PyTorch, with torchvision's names of submodules."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional


class BasicBlock(nn.Module):
    """K. He et al. 2016, figure 2: two 3×3 convolutions with a skip connection."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outer)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outer)
        self.downsample = (
            nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))
            if stride > 1 or inner != outer
            else None
        )

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    """K. He et al. 2016: (N, 3, H, W) → (N, 1000) scores."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(BasicBlock(64, 64, 1), BasicBlock(64, 64, 1))
        self.layer2 = nn.Sequential(BasicBlock(64, 128, 2), BasicBlock(128, 128, 1))
        self.layer3 = nn.Sequential(BasicBlock(128, 256, 2), BasicBlock(256, 256, 1))
        self.layer4 = nn.Sequential(BasicBlock(256, 512, 2), BasicBlock(512, 512, 1))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def conv_norm(inner: int, outer: int, size: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Convolution, batch normalisation, ReLU6."""
    conv = nn.Conv2d(inner, outer, size, stride, (size - 1) // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outer), nn.ReLU6(inplace=True))


class InvertedResidual(nn.Module):
    """M. Sandler et al. 2018, table 1: expansion, depthwise convolution, linear projection."""

    def __init__(self, inner: int, outer: int, stride: int, widen: int) -> None:
        super().__init__()
        wide = inner * widen
        self.carried = stride == 1 and inner == outer
        self.conv = nn.Sequential(
            *([conv_norm(inner, wide, 1)] if widen > 1 else []),
            conv_norm(wide, wide, 3, stride, groups=wide),
            nn.Conv2d(wide, outer, 1, bias=False),
            nn.BatchNorm2d(outer),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.carried else self.conv(x)


class MobileNetV2(nn.Module):
    """M. Sandler et al. 2018, table 2: (N, 3, H, W) → (N, 1000) scores."""

    STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))

    def __init__(self) -> None:
        super().__init__()
        features: list[nn.Module] = [conv_norm(3, 32, 3, 2)]
        channels = 32
        for widen, outer, count, stride in self.STAGES:
            for index in range(count):
                features.append(InvertedResidual(channels, outer, stride if index == 0 else 1, widen))
                channels = outer
        self.features = nn.Sequential(*features, conv_norm(channels, 1280, 1))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, 1000))

    def forward(self, x: Tensor) -> Tensor:
        pooled = functional.adaptive_avg_pool2d(self.features(x), (1, 1))
        return self.classifier(torch.flatten(pooled, 1))


class Attention(nn.Module):
    """Multi-head attention (A. Vaswani et al. 2017, section 3.2.2) in basic operations: (N, T, C) → (N, T, C)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        n, t, c = x.shape
        q, k, v = (f(x).reshape(n, t, self.heads, self.size).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = torch.softmax(q @ k.transpose(-2, -1) / self.size**0.5, -1)
        return self.o((scores @ v).transpose(1, 2).reshape(n, t, c))


class EncoderLayer(nn.Module):
    """Attention and two linear maps, each with normalisation before it and a skip connection."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.at = Attention(width, heads)
        self.f1, self.f2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.at(self.ln1(x))
        return x + self.f2(functional.gelu(self.f1(self.ln2(x))))


class Encoder(nn.Module):
    """Transformer encoder with two layers: (N, 32) tokens below 256 → (N, 10) scores."""

    def __init__(self, width: int = 64, length: int = 32) -> None:
        super().__init__()
        self.emb = nn.Embedding(256, width)
        self.pos = nn.Parameter(torch.randn(1, length, width))
        self.ls = nn.ModuleList(EncoderLayer(width, 4) for _ in range(2))
        self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.emb(ids) + self.pos
        for layer in self.ls:
            x = layer(x)
        return self.head(self.ln(x).mean(1))


class Recurrent(nn.Module):
    """Two LSTM layers: (N, T) tokens below 100 → (N, 5) log probabilities."""

    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(100, 32)
        self.rnn = nn.LSTM(32, 48, 2, batch_first=True)
        self.fc = nn.Linear(48, 5)

    def forward(self, ids: Tensor) -> Tensor:
        return functional.log_softmax(self.fc(self.rnn(self.emb(ids))[0][:, -1]), 1)


class ConvNorm(nn.Module):
    """Convolution, normalisation, squeeze and excitation: (N, 3, 32, 32) → (N, 10) probabilities."""

    def __init__(self) -> None:
        super().__init__()
        self.c, self.b, self.h = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Hardswish()
        self.p, self.se, self.hs = nn.MaxPool2d(2), nn.Conv2d(8, 8, 1), nn.Hardsigmoid()
        self.a, self.fc = nn.AdaptiveAvgPool2d(2), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.p(self.h(self.b(self.c(x))))
        x = x * self.hs(self.se(functional.adaptive_avg_pool2d(x, 1)))
        return torch.softmax(self.fc(torch.flatten(self.a(x), 1)), 1)


class Formula(nn.Module):
    """Module that computes a formula."""

    def __init__(self, formula: Callable[..., Tensor]) -> None:
        super().__init__()
        self.formula = formula

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.formula(*inputs)


def product_of_sum(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return c * (a + b)


def six_inputs(a: Tensor, b: Tensor, c: Tensor, d: Tensor, e: Tensor, f: Tensor) -> Tensor:
    return a * b + c * (a + c + d + e) + f


def binary(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    d = b.abs() + 0.5
    out = (a + b * 2) + (a - c * 0.5) + (1 - a) + 2.5 / d + 3 ** (a * 0.1) + a / d + d**1.5 + d ** (c * 0.1)
    out = out + torch.atan2(a, d) + torch.fmod(a, d) + torch.remainder(a, 0.7)
    out = out + torch.maximum(a, b) + torch.minimum(a, b) + torch.max(a, c) + torch.min(b, c)
    return out + torch.logaddexp(a, b) + torch.floor_divide(a * 3, 2)


def shared(x: Tensor) -> Tensor:
    x = functional.relu(functional.relu(x))
    return torch.sigmoid(x) + functional.relu(x)
