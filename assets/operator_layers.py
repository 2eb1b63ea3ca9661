"""Models of one layer each, for operators.py: activations, convolutions, padding, resizing, norms, attention, boxes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from detect import Detects
from torch import Tensor, nn
from torch.nn import functional

Functions = dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]]


class Case(NamedTuple):
    """Model with one operator, and its inputs."""

    name: str
    model: nn.Module
    inputs: tuple[Tensor, ...]


class Calls(nn.Module):
    """Model that calls a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


class Holds(nn.Module):
    """Model that contains one module, so that the module has a name."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.held = module

    def forward(self, *inputs: Tensor) -> Any:
        return self.held(*inputs)


def normal(*sizes: int) -> Tensor:
    return torch.randn(sizes)


def normal_by_seed(*sizes: int, seed: int = 0) -> Tensor:
    """Return random numbers that do not depend on previous cases."""
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed))


def cases(calls: Functions) -> Iterator[Case]:
    """Yield a case for each named function with its inputs."""
    for name, (call, inputs) in calls.items():
        yield Case(name, Calls(call), inputs)


def activations() -> Iterator[Case]:
    x = 3 * normal(2, 4, 5)
    modules = (
        nn.ELU(0.7), nn.SELU(), nn.CELU(1.3), nn.Mish(), nn.Softsign(), nn.Hardtanh(-0.5, 2.0), nn.LogSigmoid(),
        nn.Threshold(0.1, -3.0), nn.PReLU(), nn.PReLU(4), nn.RReLU(), nn.Softmin(1), nn.Softshrink(0.4),
        nn.Hardshrink(0.4), nn.Tanhshrink(), nn.GLU(1), nn.LeakyReLU(0.2), nn.Softplus(2.0, 3.0), nn.GELU("tanh"),
    )  # fmt: skip
    for index, module in enumerate(modules):
        if isinstance(module, nn.PReLU):
            nn.init.uniform_(module.weight, 0.05, 0.5)
        yield Case(f"nn.{type(module).__name__}_{index}", Holds(module), (x,))
    yield Case("nn.Softmax2d", Holds(nn.Softmax2d()), (normal(2, 3, 4, 5),))
    calls: dict[str, Callable[..., Any]] = {
        "elu": lambda x: functional.elu(x, 0.7),
        "selu": functional.selu,
        "celu": lambda x: functional.celu(x, 1.3),
        "mish": functional.mish,
        "softsign": functional.softsign,
        "hardtanh": lambda x: functional.hardtanh(x, -0.5, 2.0),
        "logsigmoid": functional.logsigmoid,
        "threshold": lambda x: functional.threshold(x, 0.1, -3.0),
        "rrelu": functional.rrelu,
        "softmin": lambda x: functional.softmin(x, 1),
        "softshrink": lambda x: functional.softshrink(x, 0.4),
        "hardshrink": lambda x: functional.hardshrink(x, 0.4),
        "tanhshrink": functional.tanhshrink,
        "glu": lambda x: functional.glu(x, 1),
    }
    for name, function in calls.items():
        yield Case(f"F.{name}", Calls(function), (x,))
    yield Case("F.prelu", Calls(functional.prelu), (x, torch.rand(4)))


def convolutions() -> Iterator[Case]:
    line, image, volume = normal(2, 4, 9), normal(2, 4, 7, 6), normal(1, 2, 5, 6, 4)
    options: dict[str, Any] = {"stride": 2, "padding": 1, "groups": 2}
    yield Case("nn.Conv1d", Holds(nn.Conv1d(4, 6, 3, dilation=2, **options)), (line,))
    yield Case("nn.Conv1d_circular", Holds(nn.Conv1d(4, 3, 3, padding=2, padding_mode="circular")), (line,))
    yield Case("nn.Conv2d_reflect", Holds(nn.Conv2d(4, 3, 3, padding=(1, 2), padding_mode="reflect")), (image,))
    yield Case("nn.Conv2d_replicate", Holds(nn.Conv2d(4, 3, 3, padding=1, padding_mode="replicate")), (image,))
    yield Case("nn.Conv3d", Holds(nn.Conv3d(2, 4, (2, 3, 3), **options)), (volume,))
    yield Case("nn.ConvTranspose1d", Holds(nn.ConvTranspose1d(4, 6, 3, output_padding=1, **options)), (line,))
    yield Case("nn.ConvTranspose2d", Holds(nn.ConvTranspose2d(4, 6, 3, output_padding=1, **options)), (image,))
    yield Case(
        "nn.ConvTranspose2d_dilated",
        Holds(nn.ConvTranspose2d(4, 3, (2, 3), stride=(1, 2), padding=(0, 1), dilation=(2, 1), bias=False)),
        (image,),
    )
    yield Case("F.conv1d", Calls(lambda x, w: functional.conv1d(x, w, stride=2)), (line, normal(3, 4, 3)))
    yield Case(
        "F.conv2d", Calls(lambda x, w, b: functional.conv2d(x, w, b, padding=1)), (image, normal(3, 4, 3, 3), normal(3))
    )
    yield Case(
        "F.conv_transpose2d",
        Calls(lambda x, w: functional.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1)),
        (image, normal(4, 3, 3, 3)),
    )
    yield Case("nn.MaxPool1d", Holds(nn.MaxPool1d(3, 2, 1)), (line,))
    yield Case("nn.AvgPool1d", Holds(nn.AvgPool1d(3, 2, 1)), (line,))
    yield Case("nn.AdaptiveAvgPool1d", Holds(nn.AdaptiveAvgPool1d(4)), (line,))
    yield Case("nn.AdaptiveMaxPool2d", Holds(nn.AdaptiveMaxPool2d((1, 1))), (image,))
    yield Case("nn.AdaptiveMaxPool2d_uneven", Holds(nn.AdaptiveMaxPool2d((3, 4))), (image,))


def paddings() -> Iterator[Case]:
    line, image = normal(2, 3, 6), normal(2, 3, 5, 6)
    for module in (
        nn.ZeroPad2d((1, 2, 3, 0)),
        nn.ConstantPad2d((1, 2, 3, 0), 1.5),
        nn.ReflectionPad2d((1, 2, 3, 0)),
        nn.ReplicationPad2d((1, 2, 3, 0)),
    ):
        yield Case(f"nn.{type(module).__name__}", Holds(module), (image,))
    for module in (nn.ConstantPad1d((1, 2), 1.5), nn.ReflectionPad1d((3, 2)), nn.ReplicationPad1d((1, 2))):
        yield Case(f"nn.{type(module).__name__}", Holds(module), (line,))
    for mode in ("reflect", "replicate", "circular"):
        yield Case(f"F.pad_{mode}", Calls(lambda x, mode=mode: functional.pad(x, (2, 1, 1, 3), mode)), (image,))
    yield Case("F.pad_constant", Calls(lambda x: functional.pad(x, (2, 1, -1, 3), value=0.5)), (image,))


def resizings() -> Iterator[Case]:
    image = normal(1, 3, 4, 5)
    for mode in ("nearest", "bilinear", "bicubic"):
        for corners in (None,) if mode == "nearest" else (False, True):
            suffix = f"_{mode}" + "_align_corners" * bool(corners)
            yield Case(
                f"nn.Upsample{suffix}", Holds(nn.Upsample(scale_factor=2.0, mode=mode, align_corners=corners)), (image,)
            )
            yield Case(
                f"F.interpolate{suffix}",
                Calls(lambda x, m=mode, c=corners: functional.interpolate(x, size=(7, 3), mode=m, align_corners=c)),
                (image,),
            )
    yield Case(
        "F.interpolate_scale",
        Calls(lambda x: functional.interpolate(x, scale_factor=(1.7, 0.6), mode="bilinear")),
        (image,),
    )
    yield Case(
        "F.interpolate_linear", Calls(lambda x: functional.interpolate(x, size=9, mode="linear")), (normal(2, 3, 5),)
    )
    yield Case("nn.UpsamplingBilinear2d", Holds(nn.UpsamplingBilinear2d(scale_factor=2)), (image,))
    yield Case("nn.UpsamplingNearest2d", Holds(nn.UpsamplingNearest2d(scale_factor=2)), (image,))
    yield Case("nn.PixelShuffle", Holds(nn.PixelShuffle(2)), (normal(2, 8, 3, 4),))
    yield Case("nn.PixelUnshuffle", Holds(nn.PixelUnshuffle(2)), (normal(2, 3, 4, 6),))
    yield Case("nn.ChannelShuffle", Holds(nn.ChannelShuffle(3)), (normal(2, 6, 3, 4),))


def normalizations() -> Iterator[Case]:
    image, rows = normal(2, 6, 4, 3), normal(2, 3, 8)

    def drawn(module: nn.Module) -> nn.Module:
        for tensor in (*module.parameters(), *module.buffers()):
            if tensor.dtype.is_floating_point:
                nn.init.uniform_(tensor, 0.5, 1.5)
        return Holds(module)

    yield Case("nn.GroupNorm", drawn(nn.GroupNorm(3, 6)), (image,))
    yield Case("nn.GroupNorm_plain", Holds(nn.GroupNorm(2, 6, eps=1e-3, affine=False)), (image,))
    yield Case("nn.InstanceNorm2d", drawn(nn.InstanceNorm2d(6, affine=True)), (image,))
    yield Case(
        "nn.InstanceNorm2d_tracked", drawn(nn.InstanceNorm2d(6, affine=True, track_running_stats=True)), (image,)
    )
    yield Case("nn.RMSNorm", drawn(nn.RMSNorm(8, eps=1e-5)), (rows,))
    yield Case("nn.RMSNorm_default", drawn(nn.RMSNorm((3, 8))), (rows,))
    yield Case("nn.BatchNorm1d", drawn(nn.BatchNorm1d(3)), (rows,))
    yield Case("nn.LocalResponseNorm", Holds(nn.LocalResponseNorm(3, 0.01, 0.6, 1.5)), (image,))
    channels = [torch.rand(6) + 0.5 for _ in range(4)]
    yield Case("F.batch_norm", Calls(lambda x, m, v, w, b: functional.batch_norm(x, m, v, w, b)), (image, *channels))
    yield Case(
        "F.layer_norm", Calls(lambda x, w, b: functional.layer_norm(x, (8,), w, b)), (rows, normal(8), normal(8))
    )
    yield Case("F.group_norm", Calls(lambda x, w, b: functional.group_norm(x, 3, w, b)), (image, *channels[:2]))
    yield Case("F.instance_norm", Calls(lambda x: functional.instance_norm(x)), (image,))
    yield Case("F.rms_norm", Calls(lambda x, w: functional.rms_norm(x, (8,), w)), (rows, normal(8)))
    yield Case("F.normalize", Calls(lambda x: functional.normalize(x, dim=1)), (image,))
    yield Case("F.normalize_1", Calls(lambda x: functional.normalize(x, p=1.0, dim=-1)), (image,))
    yield Case("F.linear", Calls(functional.linear), (rows, normal(5, 8), normal(5)))


def attentions() -> Iterator[Case]:
    q, k, v = normal(2, 4, 5, 8), normal(2, 4, 7, 8), normal(2, 4, 7, 6)
    attend = functional.scaled_dot_product_attention
    yield Case("F.scaled_dot_product_attention", Calls(attend), (q, k, v))
    yield Case(
        "F.scaled_dot_product_attention_causal", Calls(lambda q, k, v: attend(q, k, v, is_causal=True)), (q, k, v)
    )
    yield Case("F.scaled_dot_product_attention_scale", Calls(lambda q, k, v: attend(q, k, v, scale=0.3)), (q, k, v))
    yield Case(
        "F.scaled_dot_product_attention_mask", Calls(lambda q, k, v, m: attend(q, k, v, m)), (q, k, v, normal(5, 7))
    )
    yield Case(
        "F.scaled_dot_product_attention_truths",
        Calls(lambda q, k, v, m: attend(q, k, v, m > -1)),
        (q, k, v, normal(5, 7)),
    )

    class Attends(nn.Module):
        def __init__(self, **options: Any) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2, **options)
            if self.attention.in_proj_bias is not None:
                nn.init.normal_(self.attention.in_proj_bias)

        def forward(self, q: Tensor, k: Tensor, v: Tensor, *mask: Tensor) -> Any:
            return self.attention(q, k, v, need_weights=False, attn_mask=mask[0] if mask else None)[0]

    class AttendsToItself(Attends):
        def forward(self, x: Tensor) -> Any:  # type: ignore[override]
            return self.attention(x, x, x)

    q, k = normal(5, 2, 8), normal(7, 2, 8)
    yield Case("nn.MultiheadAttention", Attends(), (q, k, normal(7, 2, 8)))
    yield Case(
        "nn.MultiheadAttention_first",
        Attends(batch_first=True, bias=False),
        (normal(2, 5, 8), normal(2, 7, 8), normal(2, 7, 8)),
    )
    yield Case("nn.MultiheadAttention_sizes", Attends(kdim=6, vdim=4), (q, normal(7, 2, 6), normal(7, 2, 4)))
    yield Case("nn.MultiheadAttention_mask", Attends(), (q, k, k, normal(5, 7)))
    yield Case("nn.MultiheadAttention_weights", AttendsToItself(), (q,))
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True)
    yield Case("nn.TransformerEncoderLayer", Holds(layer), (normal(2, 5, 8),))


def detections() -> Iterator[Case]:
    yield Case("models.yolo.Detect", Detects(), (normal(1, 3, 16, 16),))


LAYERS = (activations, convolutions, paddings, resizings, normalizations, attentions, detections)
