"""Small torch modules of common kinds with seeded weights, each with its example inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn


def conv(i: int, o: int, k: int = 3, s: int = 1, act: bool = True) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv2d(i, o, k, s, k // 2, bias=False), nn.BatchNorm2d(o)]
    return nn.Sequential(*layers, *[nn.SiLU()] * act)


class Bottleneck(nn.Module):
    def __init__(self, i: int, m: int, s: int = 1) -> None:
        super().__init__()
        self.a, self.b, self.c = conv(i, m, 1), conv(m, m, 3, s), conv(m, 4 * m, 1, act=False)
        self.down = conv(i, 4 * m, 1, s, act=False) if s > 1 or i != 4 * m else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.c(self.b(self.a(x))) + self.down(x))


class ResNet50(nn.Module):
    """The 16 bottlenecks of ResNet-50, at an eighth of its width."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(3, 8, 7, 2), nn.MaxPool2d(3, 2, 1))
        blocks, i = [], 8
        for m, count, s in ((8, 3, 1), (16, 4, 2), (32, 6, 2), (64, 3, 2)):
            for k in range(count):
                blocks.append(Bottleneck(i, m, s if k == 0 else 1))
                i = 4 * m
        self.blocks, self.fc = nn.Sequential(*blocks), nn.Linear(i, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(F.adaptive_avg_pool2d(self.blocks(self.stem(x)), 1).flatten(1))


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.d1, self.d2, self.d3 = conv(3, 8), conv(8, 16), conv(16, 32)
        self.u2, self.c2 = nn.ConvTranspose2d(32, 16, 2, 2), conv(32, 16)
        self.c1, self.out = conv(24, 8), nn.Conv2d(8, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.d3(F.avg_pool2d(b, 2))
        y = self.c2(torch.cat([self.u2(c), b], 1))
        y = F.interpolate(y, scale_factor=2, mode="bilinear", align_corners=False)
        return torch.sigmoid(self.out(self.c1(torch.cat([y, a], 1))))


class Yolo(nn.Module):
    """C2f, SPPF, a neck with upsampling, and a head that decodes boxes over a grid."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.one, self.two = conv(3, 8, 3, 2), conv(8, 16, 3, 2), conv(16, 32, 3, 2)
        self.split, self.inner, self.join = conv(16, 16, 1), conv(8, 8), conv(24, 16, 1)
        self.pool, self.squeeze = nn.MaxPool2d(5, 1, 2), conv(128, 32, 1)
        self.up, self.head = nn.Upsample(scale_factor=2), nn.ModuleList([nn.Conv2d(48, 9, 1), nn.Conv2d(32, 9, 1)])

    def decode(self, y: Tensor, stride: int) -> Tensor:
        h, w = y.shape[2:]
        rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        grid = torch.stack((columns, rows), -1).reshape(1, h * w, 2).to(y.dtype)
        y = y.flatten(2).transpose(1, 2)
        xy, wh, scores = y.split([2, 2, 5], 2)
        return torch.cat(((xy.sigmoid() * 2 - 0.5 + grid) * stride, wh.exp() * stride, scores.sigmoid()), 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.one(self.stem(x))
        a, b = self.split(x).chunk(2, 1)
        x = self.join(torch.cat((a, b, b + self.inner(b)), 1))
        y = self.two(x)
        p = [y]
        for _ in range(3):
            p.append(self.pool(p[-1]))
        y = self.squeeze(torch.cat(p, 1))
        x = torch.cat((self.up(y), x), 1)
        return torch.cat([self.decode(self.head[0](x), 4), self.decode(self.head[1](y), 8)], 1)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.position = nn.Embedding(100, 32), nn.Embedding(64, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu", norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(32, 5)

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.embed(tokens) + self.position(torch.arange(tokens.shape[1]))
        return self.out(self.layers(x, src_key_padding_mask=mask).mean(1))


class RMSNorm(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(size) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class LlamaBlock(nn.Module):
    """RMSNorm, rotary positions, grouped-query attention with a causal mask, SwiGLU."""

    def __init__(self, size: int = 32, heads: int = 4, groups: int = 2) -> None:
        super().__init__()
        self.heads, self.groups, self.width = heads, groups, size // heads
        self.norm1, self.norm2 = RMSNorm(size), nn.RMSNorm(size)
        self.q, self.o = nn.Linear(size, size, bias=False), nn.Linear(size, size, bias=False)
        self.k, self.v = (nn.Linear(size, groups * self.width, bias=False) for _ in range(2))
        self.gate, self.up, self.down = nn.Linear(size, 64), nn.Linear(size, 64), nn.Linear(64, size)

    def rotate(self, x: Tensor) -> Tensor:
        half = self.width // 2
        angles = torch.outer(torch.arange(x.shape[2]).float(), 10000 ** (-torch.arange(half).float() / half))
        cos, sin = angles.cos(), angles.sin()
        a, b = x[..., :half], x[..., half:]
        return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)

    def forward(self, x: Tensor) -> Tensor:
        n, t, d = x.shape
        y = self.norm1(x)
        q = self.rotate(self.q(y).view(n, t, self.heads, self.width).transpose(1, 2))
        k = self.rotate(self.k(y).view(n, t, self.groups, self.width).transpose(1, 2))
        v = self.v(y).view(n, t, self.groups, self.width).transpose(1, 2)
        k, v = (z.repeat_interleave(self.heads // self.groups, 1) for z in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(n, t, d))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase], **options: Any) -> None:
        super().__init__()
        self.rnn = kind(6, 8, batch_first=True, **options)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, h = self.rnn(x)
        return y, h[0] if isinstance(h, tuple) else h


class Choice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: torch.sin(x) + 1, lambda x: x * 3, (x,))


class Keywords(nn.Module):
    def forward(self, x: Tensor, *, scale: Tensor, shift: Tensor | None = None) -> dict[str, Tensor]:
        y = F.layer_norm(x, x.shape[-1:]) * scale
        y = y if shift is None else y + shift
        values, places = y.topk(3, -1)
        return {"y": y.clamp(-1, 1).cumsum(-1), "top": values, "places": places, "where": torch.where(x > 0, y, x)}


class Bag(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.out = nn.Embedding(50, 8, padding_idx=0), nn.Linear(16, 3)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        x = torch.cat([self.table(a).sum(1), self.table(b).amax(1)], 1)
        return F.log_softmax(self.out(x), -1)


class Mixed(nn.Module):
    """Functions that modern code uses besides layers: einsum, gather, scatter, roll, pad, norms, masks, indexing."""

    def forward(self, x: Tensor, i: Tensor) -> tuple[Tensor, ...]:
        n, c, h, w = x.shape
        windows = F.unfold(x, 2, stride=2)
        shuffled = F.pixel_shuffle(x, 2)
        rolled = torch.roll(x, (1, -1), (2, 3))
        padded = F.pad(x, (1, 2, 0, 1), mode="reflect")
        grouped = F.group_norm(x, 2) + F.instance_norm(x)
        product = torch.einsum("nchw,ndhw->ncd", x, x)
        picked = x.flatten(2).gather(2, i.expand(n, c, -1))
        scattered = torch.zeros(n, c, h * w).scatter(2, i.expand(n, c, -1), 1.0)
        masked = x.masked_fill(torch.ones(h, w).tril().bool(), -1.0)
        taken = x[:, [0, 2], 1::2, -1] + x.std((2, 3), keepdim=True).squeeze(-1)[:, :2]
        scores = F.gelu(x, approximate="tanh") + F.hardswish(x) + F.softplus(x) + F.elu(x) + F.mish(x)
        ordered = x.flatten(1).sort(-1, descending=True).values + torch.logsumexp(x.flatten(1), 1, keepdim=True)
        return windows, shuffled, rolled, padded, grouped, product, picked, scattered, masked, taken, scores, ordered


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
        self.decoder = nn.TransformerDecoderLayer(16, 2, 32, batch_first=True)

    def forward(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        y, weights = self.attention(x, memory, memory)
        return self.decoder(y, memory, tgt_mask=nn.Transformer.generate_square_subsequent_mask(x.shape[1])), weights


class Vision(nn.Module):
    """A small vision transformer: patches, a class token, positions resized to the image, attention."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.token = nn.Conv2d(3, 16, 4, 4), nn.Parameter(torch.randn(1, 1, 16))
        self.positions = nn.Parameter(torch.randn(1, 16, 4, 4))
        self.attention, self.norm = nn.MultiheadAttention(16, 2, batch_first=True), nn.LayerNorm(16)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x)
        x = x + F.interpolate(self.positions, x.shape[-2:], mode="bicubic", align_corners=False)
        x = torch.cat([self.token.expand(len(x), -1, -1), x.flatten(2).transpose(1, 2)], 1)
        y = self.norm(x)
        return (x + self.attention(y, y, y, need_weights=False)[0])[:, 0]


class ConvNets(nn.Module):
    """Convolutions of other ranks and kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.three = nn.Conv1d(4, 6, 3, padding="same", dilation=2), nn.Conv3d(1, 2, (1, 3, 3), groups=1)
        self.back, self.act = nn.ConvTranspose1d(6, 4, 4, 2, 1, groups=2), nn.PReLU(6)
        self.pool, self.lp = nn.AdaptiveAvgPool1d(5), nn.AvgPool2d(3, 2, 1, count_include_pad=False, ceil_mode=True)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.act(self.one(x))
        z = self.three(x[:, None, :, :, None].expand(-1, -1, -1, -1, 5))
        return self.back(y), self.pool(self.back(y)), z, self.lp(x)


class Beyond(nn.Module):
    """Functions that torch's own exporter rejects or exports incorrectly."""

    def forward(self, x: Tensor, s: Tensor, i: Tensor) -> tuple[Tensor, ...]:
        whole = (x * 4).long()
        scattered = [
            t.scatter_reduce(1, i, u, how, include_self=own)
            for how in ("sum", "prod", "mean", "amax", "amin")
            for own in (True, False)
            for t, u in ((x, s), (whole, (s * 4).long()))
        ]
        ordered = [*torch.sort(whole, stable=True, descending=True), *torch.kthvalue(x, 2, 1), *x.median(1), x.median()]
        distances = [torch.cdist(x, s[:, : x.shape[1]], p) for p in (0.0, 1.0, 2.0, 3.5, float("inf"))]
        edges = torch.tensor([-0.5, 0.0, 0.5])
        places = [torch.bucketize(x, edges, right=right) for right in (True, False)]
        places.append(torch.searchsorted(x.sort(-1).values, s[: x.shape[0], :2].contiguous(), side="right"))
        chosen = torch.masked_select(x, x[:, :1] > 0)
        rest = torch.cumprod(x, 1), torch.hypot(x, x + 1), F.rrelu(x, 0.1, 0.3)
        return *scattered, *ordered, *distances, *places, chosen, *rest


@dataclass(frozen=True)
class Case:
    make: Callable[[], nn.Module]
    inputs: Any
    dynamic_shapes: Any = None
    other: Any = None
    """inputs with other lengths, for dynamic shapes"""
    tolerance: float = 1e-4


def cases() -> dict[str, Case]:
    """Return the modules by name."""
    torch.manual_seed(0)
    picture, words, series = torch.randn(2, 3, 32, 32), torch.randint(1, 50, (2, 7)), torch.randn(2, 9, 6)
    scale, more = torch.rand(8) + 0.5, torch.randint(1, 50, (2, 5))
    batch = torch.export.Dim("batch", min=1, max=64)
    return {
        "resnet50": Case(ResNet50, picture),
        "unet": Case(UNet, picture),
        "yolo": Case(Yolo, picture),
        "encoder": Case(Encoder, words),
        "encoder masked": Case(Encoder, {"tokens": words, "mask": torch.arange(7).expand(2, 7) > 4}),
        "llama block": Case(LlamaBlock, torch.randn(2, 6, 32)),
        "lstm": Case(lambda: Recurrent(nn.LSTM), series),
        "lstm both ways, 2 layers": Case(lambda: Recurrent(nn.LSTM, bidirectional=True, num_layers=2), series),
        "gru both ways": Case(lambda: Recurrent(nn.GRU, bidirectional=True), series),
        "rnn": Case(lambda: Recurrent(nn.RNN, nonlinearity="relu"), series),
        "cond, true": Case(Choice, torch.rand(3, 4)),
        "cond, false": Case(Choice, -torch.rand(3, 4)),
        "keywords": Case(Keywords, {"x": torch.randn(2, 8), "scale": scale}),
        "keywords, all": Case(Keywords, {"x": torch.randn(2, 8), "scale": scale, "shift": scale * 2}),
        "embeddings": Case(Bag, (words, more)),
        "functions": Case(Mixed, (torch.randn(2, 4, 6, 6), torch.randperm(36)[:6].reshape(1, 1, 6))),
        "attention and decoder": Case(Attention, (torch.randn(2, 5, 16), torch.randn(2, 7, 16))),
        "vision transformer": Case(Vision, torch.randn(2, 3, 24, 32)),
        "convolutions": Case(ConvNets, torch.randn(2, 4, 12)),
        "beyond the exporter": Case(
            Beyond, (torch.randn(3, 4), torch.randn(4, 6), torch.tensor([[0, 1, 3, 0], [3, 3, 0, 1]]))
        ),
        "fp16": Case(lambda: UNet().half(), picture.half(), tolerance=5e-3),
        "bf16": Case(lambda: Bag().bfloat16(), (words, more), tolerance=4e-2),
        "unet, dynamic": Case(
            UNet, picture, {"x": {0: batch, 2: torch.export.Dim.DYNAMIC, 3: torch.export.Dim.DYNAMIC}},
            torch.randn(3, 3, 48, 40),
        ),
        "resnet50, dynamic": Case(ResNet50, picture, {"x": {0: "batch"}}, torch.randn(5, 3, 32, 32)),
        "llama block, dynamic": Case(
            LlamaBlock, torch.randn(2, 6, 32), {"x": {0: batch, 1: "length"}}, torch.randn(3, 11, 32)
        ),
        "encoder, dynamic": Case(
            Encoder, words, {"tokens": {0: batch, 1: "length"}}, torch.randint(1, 50, (3, 12))
        ),
    }  # fmt: skip
