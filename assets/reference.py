"""Write reference.npz: what torch computes, forward and backward, for small cases of the operations of neural networks.

A case ``c`` is stored under ``c/arguments`` (JSON: ``operation`` and its keyword arguments), ``c/input0`` and so on
in torch's order, ``c/output``, ``c/upstream`` (the gradient by the output) and ``c/grad0`` and so on, for those inputs
that have one. All is float64, except for labels, which are int64. The cases are seeded.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

SEED = 11
GRID = 2**7

Normal = Callable[..., Tensor]
"""Draws a float64 tensor of the given sizes from N(0, 1), rounded to multiples of 1 / GRID.

So sums of products are exact in any order, and the file compresses well.
"""


@dataclass(frozen=True)
class Case:
    """One call of an operation: ``function(*inputs, **arguments)``; ``constants`` are inputs without a gradient."""

    name: str
    operation: str
    inputs: tuple[Tensor, ...]
    arguments: dict[str, object] = field(default_factory=dict)
    constants: frozenset[int] = frozenset()

    @property
    def function(self) -> Callable[..., Tensor]:
        elsewhere = {"layer_norm": layer_norm, "logsumexp": torch.logsumexp}
        return elsewhere[self.operation] if self.operation in elsewhere else getattr(functional, self.operation)


def layer_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    normalized_shape: list[int],
    eps: float = 1e-5,
) -> Tensor:
    """torch's layer_norm with the tensors first, as in every other operation."""
    return functional.layer_norm(x, normalized_shape, weight, bias, eps)


def convolutions(normal: Normal) -> Iterator[Case]:
    x, weight, bias = normal(2, 4, 6, 5), normal(3, 4, 3, 3), normal(3)
    yield Case("conv2d_no_bias", "conv2d", (x, weight))
    for stride in (1, 2):
        for padding in (0, 1, 2):
            arguments: dict[str, object] = {"stride": stride, "padding": padding}
            yield Case(f"conv2d_stride{stride}_padding{padding}", "conv2d", (x, weight, bias), arguments)
    yield Case("conv2d_dilation2", "conv2d", (x, weight, bias), {"padding": 2, "dilation": 2})
    yield Case("conv2d_pointwise", "conv2d", (x, normal(2, 4, 1, 1), normal(2)))
    yield Case(
        "conv2d_unequal_sides",
        "conv2d",
        (x, normal(3, 4, 3, 2), bias),
        {"stride": [2, 1], "padding": [1, 2], "dilation": [1, 2]},
    )
    yield Case("conv2d_groups2", "conv2d", (x, normal(6, 2, 3, 3), normal(6)), {"padding": 1, "groups": 2})
    yield Case("conv2d_depthwise", "conv2d", (x, normal(4, 1, 3, 3), normal(4)), {"padding": 1, "groups": 4})
    yield Case(
        "conv2d_depthwise_two_each_no_bias", "conv2d", (x, normal(8, 1, 3, 3)), {"stride": 2, "padding": 1, "groups": 4}
    )


def poolings(normal: Normal) -> Iterator[Case]:
    x = normal(1, 2, 7, 6)
    windows: dict[str, dict[str, object]] = {
        "kernel2": {"kernel_size": 2},
        "kernel3_stride1": {"kernel_size": 3, "stride": 1},
        "kernel3_stride2_padding1": {"kernel_size": 3, "stride": 2, "padding": 1},
        "kernel2_ceil": {"kernel_size": 2, "ceil_mode": True},
        "kernel3_stride2_padding1_ceil": {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
        "unequal_sides": {"kernel_size": [3, 2], "stride": [2, 1], "padding": [1, 0]},
        # A window that would start in the padding beyond the far edge is left out: 4 rows, not 5.
        "ceil_drops_last_window": {"kernel_size": 2, "stride": 2, "padding": 1, "ceil_mode": True},
    }
    for name, window in windows.items():
        yield Case(f"max_pool2d_{name}", "max_pool2d", (x,), window)
    yield Case("max_pool2d_dilation2", "max_pool2d", (x,), {"kernel_size": 2, "stride": 1, "dilation": 2})
    # Padding counts as minus infinity, not as zero.
    yield Case("max_pool2d_negative", "max_pool2d", (x - 10,), {"kernel_size": 3, "stride": 2, "padding": 1})
    for name, window in windows.items():
        for counted in (True, False) if "padding" in window else (True,):
            arguments = {**window, "count_include_pad": counted}
            suffix = "" if counted else "_pad_not_counted"
            yield Case(f"avg_pool2d_{name}{suffix}", "avg_pool2d", (x,), arguments)
    for rows, columns in ((1, 1), (2, 3), (3, 4), (5, 2), (7, 6), (9, 8)):
        name = f"adaptive_avg_pool2d_{rows}x{columns}"
        yield Case(name, "adaptive_avg_pool2d", (x,), {"output_size": [rows, columns]})


def normalisations(normal: Normal) -> Iterator[Case]:
    x, scale, shift = normal(2, 3, 4, 3), normal(3), normal(3)
    mean, variance = normal(3), normal(3).square() + 0.1
    statistics = frozenset({1, 2})
    yield Case("batch_norm", "batch_norm", (x, mean, variance, scale, shift), {"eps": 1e-5}, statistics)
    yield Case("batch_norm_plain", "batch_norm", (x, mean, variance), {"eps": 1e-3}, statistics)
    yield Case("batch_norm_rows", "batch_norm", (normal(5, 3), mean, variance, scale, shift), {}, statistics)
    x = normal(2, 3, 4)
    yield Case("layer_norm_last", "layer_norm", (x,), {"normalized_shape": [4]})
    yield Case("layer_norm_last_two", "layer_norm", (x,), {"normalized_shape": [3, 4], "eps": 1e-3})
    for name, sizes in (("last", [4]), ("last_two", [3, 4])):
        inputs = (x, normal(*sizes), normal(*sizes))
        yield Case(f"layer_norm_{name}_affine", "layer_norm", inputs, {"normalized_shape": sizes})


def linear_maps(normal: Normal) -> Iterator[Case]:
    weight, bias = normal(3, 5), normal(3)
    yield Case("linear", "linear", (normal(4, 5), weight, bias))
    yield Case("linear_no_bias", "linear", (normal(4, 5), weight))
    yield Case("linear_vector", "linear", (normal(5), weight, bias))
    yield Case("linear_three_axes", "linear", (normal(2, 4, 5), weight, bias))


def losses(normal: Normal) -> Iterator[Case]:
    x = normal(4, 5)
    labels, with_ignored = torch.tensor([3, 0, 4, 0]), torch.tensor([3, -1, 4, 0])
    constants = frozenset({1})
    for operation in ("softmax", "log_softmax"):
        for dim in (0, 1, -1):
            yield Case(f"{operation}_dim{dim}", operation, (x,), {"dim": dim})
        yield Case(f"{operation}_three_axes", operation, (normal(2, 3, 4),), {"dim": 1})
        yield Case(f"{operation}_shifted", operation, (x + 1e4,), {"dim": 1})
    log_probability = torch.log_softmax(x, 1)
    for operation, scores in (("nll_loss", log_probability), ("cross_entropy", x)):
        yield Case(operation, operation, (scores, labels), {}, constants)
        yield Case(f"{operation}_ignored", operation, (scores, with_ignored), {"ignore_index": -1}, constants)
    pixels = torch.tensor([[0, 2], [1, 1]])
    yield Case("cross_entropy_pixels", "cross_entropy", (normal(2, 3, 2), pixels), {}, constants)
    yield Case("cross_entropy_large", "cross_entropy", (x * 1e4, labels), {}, constants)
    x = normal(2, 3, 4)
    yield Case("logsumexp_last", "logsumexp", (x,), {"dim": -1})
    yield Case("logsumexp_kept", "logsumexp", (x,), {"dim": 1, "keepdim": True})
    yield Case("logsumexp_two_axes", "logsumexp", (x,), {"dim": [0, 2]})
    yield Case("logsumexp_large", "logsumexp", (x * 1e4,), {"dim": -1})


def activations(normal: Normal) -> Iterator[Case]:
    # Wide enough that both flat sides of the hard functions are met.
    x = 3 * normal(4, 6)
    yield Case("gelu_erf", "gelu", (x,), {"approximate": "none"})
    yield Case("gelu_tanh", "gelu", (x,), {"approximate": "tanh"})
    for operation in ("silu", "hardswish", "hardsigmoid", "softplus"):
        yield Case(operation, operation, (x,))
    yield Case("softplus_beta_threshold", "softplus", (x,), {"beta": 2.0, "threshold": 4.0})
    yield Case("silu_large", "silu", (x * 1e3,))
    yield Case("softplus_large", "softplus", (x * 1e3,))


def compute(case: Case, normal: Normal) -> dict[str, np.ndarray]:
    """The arrays of one case by their names in the file."""
    inputs = [
        value.detach().clone().requires_grad_(index not in case.constants) for index, value in enumerate(case.inputs)
    ]
    output = case.function(*inputs, **case.arguments)
    upstream = normal(*output.shape)
    output.backward(upstream)
    arrays = {
        "arguments": np.array(json.dumps({"operation": case.operation, **case.arguments})),
        "output": output.detach().numpy(),
        "upstream": upstream.numpy(),
    }
    for index, value in enumerate(inputs):
        arrays[f"input{index}"] = value.detach().numpy()
        if value.grad is not None:
            arrays[f"grad{index}"] = value.grad.numpy()
    return {f"{case.name}/{key}": value for key, value in arrays.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("reference.npz"), help="file to write")
    path: Path = parser.parse_args().output

    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(SEED)

    def normal(*sizes: int) -> Tensor:
        return torch.randn(sizes, dtype=torch.float64, generator=generator).mul(GRID).round().div(GRID)

    families = (convolutions, poolings, normalisations, linear_maps, losses, activations)
    arrays: dict[str, np.ndarray] = {}
    cases = list(chain.from_iterable(family(normal) for family in families))
    for case in cases:
        computed = compute(case, normal)
        if arrays.keys() & computed.keys():
            raise ValueError(f"two cases are called {case.name}: give one of them another name")
        arrays |= computed
    np.savez_compressed(path, **arrays)
    print(f"{len(cases)} cases, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
