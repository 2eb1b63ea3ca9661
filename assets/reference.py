"""Write reference.npz: torch's results and gradients for small cases of neural network operations.

A case ``c`` is stored under ``c/arguments`` (JSON: ``operation`` and its keyword arguments), ``c/input0`` and so on
in torch's order, ``c/output``, ``c/upstream`` (the gradient with respect to the output), and ``c/grad0`` and so on for
differentiable inputs. All arrays are float64, except int64 labels and indices. The cases are seeded.
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
"""function that returns a float64 tensor of the given sizes from N(0, 1), rounded to multiples of 1 / GRID

Sums of products are then exact in any order, and the file compresses well.
"""


@dataclass(frozen=True)
class Case:
    """Call of an operation, ``function(*inputs, **arguments)``; ``constants`` are inputs without gradients."""

    name: str
    operation: str
    inputs: tuple[Tensor, ...]
    arguments: dict[str, object] = field(default_factory=dict)
    constants: frozenset[int] = frozenset()

    @property
    def function(self) -> Callable[..., Tensor]:
        elsewhere = {
            "layer_norm": layer_norm,
            "rms_norm": rms_norm,
            "group_norm": group_norm,
            "gather": lambda x, index, dim: torch.gather(x, dim, index),
            "index_select": lambda x, index, dim: torch.index_select(x, dim, index),
            "attention": functional.scaled_dot_product_attention,
        }
        if self.operation in elsewhere:
            return elsewhere[self.operation]
        return getattr(functional if hasattr(functional, self.operation) else torch, self.operation)


def layer_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    normalized_shape: list[int],
    eps: float = 1e-5,
) -> Tensor:
    """Call torch's layer_norm with tensors as the first arguments, as in other operations."""
    return functional.layer_norm(x, normalized_shape, weight, bias, eps)


def rms_norm(x: Tensor, weight: Tensor, *, normalized_shape: list[int], eps: float | None = None) -> Tensor:
    """Call torch's rms_norm with tensors as the first arguments, as in other operations."""
    return functional.rms_norm(x, normalized_shape, weight, eps)


def group_norm(x: Tensor, weight: Tensor, bias: Tensor, *, num_groups: int) -> Tensor:
    """Call torch's group_norm with tensors as the first arguments, as in other operations."""
    return functional.group_norm(x, num_groups, weight, bias)


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
        # A window that would start in the padding after the last row is omitted, so there are 4 rows instead of 5.
        "ceil_drops_last_window": {"kernel_size": 2, "stride": 2, "padding": 1, "ceil_mode": True},
    }
    for name, window in windows.items():
        yield Case(f"max_pool2d_{name}", "max_pool2d", (x,), window)
    yield Case("max_pool2d_dilation2", "max_pool2d", (x,), {"kernel_size": 2, "stride": 1, "dilation": 2})
    # Padding counts as minus infinity instead of zero.
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
    # Wide enough to reach both constant parts of the hard functions.
    x = 3 * normal(4, 6)
    yield Case("gelu_erf", "gelu", (x,), {"approximate": "none"})
    yield Case("gelu_tanh", "gelu", (x,), {"approximate": "tanh"})
    for operation in ("silu", "hardswish", "hardsigmoid", "softplus"):
        yield Case(operation, operation, (x,))
    yield Case("softplus_beta_threshold", "softplus", (x,), {"beta": 2.0, "threshold": 4.0})
    yield Case("silu_large", "silu", (x * 1e3,))
    yield Case("softplus_large", "softplus", (x * 1e3,))


def other_convolutions(normal: Normal) -> Iterator[Case]:
    x, weight, bias = normal(2, 4, 4, 3), normal(4, 3, 3, 2), normal(3)
    yield Case("conv_transpose2d", "conv_transpose2d", (x, weight, bias))
    options: dict[str, object] = {"stride": [2, 3], "padding": [1, 0], "output_padding": [1, 2], "dilation": [1, 2]}
    yield Case("conv_transpose2d_options", "conv_transpose2d", (x, weight, bias), options)
    options = {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2}
    yield Case("conv_transpose2d_groups2", "conv_transpose2d", (x, weight), options)
    line = normal(2, 4, 7)
    options = {"stride": 2, "padding": 2, "dilation": 2, "groups": 2}
    yield Case("conv1d", "conv1d", (line, normal(6, 2, 3), normal(6)), options)
    yield Case("conv_transpose1d", "conv_transpose1d", (line, normal(4, 2, 3), normal(2)), {"stride": 2, "padding": 1})
    options = {"stride": [2, 1, 1], "padding": [1, 0, 1], "dilation": [1, 1, 2]}
    yield Case("conv3d", "conv3d", (normal(1, 2, 4, 3, 4), normal(3, 2, 2, 2, 2), normal(3)), options)


def resizings(normal: Normal) -> Iterator[Case]:
    x = normal(1, 2, 4, 5)
    for mode in ("bilinear", "bicubic"):
        for corners in (False, True):
            suffix = f"{mode}" + "_align_corners" * corners
            for name, size in (("larger", [9, 7]), ("smaller", [3, 2]), ("mixed", [1, 11])):
                options: dict[str, object] = {"size": size, "mode": mode, "align_corners": corners}
                yield Case(f"interpolate_{suffix}_{name}", "interpolate", (x,), options)
    yield Case("interpolate_nearest", "interpolate", (x,), {"size": [7, 3], "mode": "nearest"})
    yield Case("interpolate_nearest_exact", "interpolate", (x,), {"size": [7, 3], "mode": "nearest-exact"})
    options = {"scale_factor": [1.7, 0.6], "mode": "bilinear", "align_corners": False}
    yield Case("interpolate_scale", "interpolate", (x,), options)
    for mode, widths in (("constant", [1, 2, 3, 0]), ("reflect", [2, 1, 3, 0]), ("replicate", [2, 1, 0, 4])):
        yield Case(f"pad_{mode}", "pad", (x,), {"pad": widths, "mode": mode})
    yield Case("pad_circular", "pad", (x,), {"pad": [5, 1, 0, 4], "mode": "circular"})
    yield Case("pad_negative", "pad", (x,), {"pad": [-1, 2, 1, -2], "mode": "constant"})
    yield Case("pixel_shuffle", "pixel_shuffle", (normal(1, 8, 2, 3),), {"upscale_factor": 2})


def other_normalisations(normal: Normal) -> Iterator[Case]:
    x, scale, shift = normal(2, 4, 3, 2), normal(4), normal(4)
    yield Case("group_norm", "group_norm", (x, scale, shift), {"num_groups": 2})
    yield Case("instance_norm", "instance_norm", (x,))
    yield Case("rms_norm", "rms_norm", (normal(3, 4), scale), {"normalized_shape": [4]})
    yield Case("normalize", "normalize", (x,), {"dim": 1})
    yield Case("local_response_norm", "local_response_norm", (x,), {"size": 3, "alpha": 0.1})
    q, k, v = normal(2, 3, 4), normal(2, 5, 4), normal(2, 5, 3)
    yield Case("attention", "attention", (q, k, v))
    yield Case("attention_mask", "attention", (q, k, v, normal(3, 5)), {"scale": 0.7})
    yield Case("attention_causal", "attention", (q, k, v), {"is_causal": True})
    options: dict[str, object] = {"enable_gqa": True}
    yield Case("attention_shared", "attention", (normal(1, 4, 3, 2), normal(1, 2, 3, 2), normal(1, 2, 3, 2)), options)


def rectifiers(normal: Normal) -> Iterator[Case]:
    # Multiples of 1/128 include boundaries of piecewise functions, where torch selects one of several gradients.
    x = torch.cat((3 * normal(5, 4), torch.tensor([[0.0, 0.5, -0.5, 1.0]], dtype=torch.float64)))
    for operation in ("elu", "celu"):  # torch computes 1 / alpha of celu in single precision
        yield Case(operation, operation, (x,), {"alpha": 0.5})
    for operation in ("selu", "mish", "softsign", "logsigmoid", "tanhshrink", "softshrink", "hardshrink"):
        yield Case(operation, operation, (x,))
    yield Case("elu_large", "elu", (x * 1e3,))
    yield Case("threshold", "threshold", (x,), {"threshold": 0.5, "value": 2.0})
    yield Case("glu", "glu", (x,), {"dim": 0})
    yield Case("prelu", "prelu", (x, normal(4)))
    yield Case("prelu_one", "prelu", (x, normal(1)))


def choices(normal: Normal) -> Iterator[Case]:
    x = normal(3, 4, 5)
    numbers = torch.tensor([[[3, 0, 3], [1, 1, 2]]])
    yield Case("gather", "gather", (x, numbers), {"dim": 1}, frozenset({1}))
    yield Case("index_select", "index_select", (x, torch.tensor([2, 2, 0])), {"dim": 0}, frozenset({1}))
    for dim in (0, -1):
        yield Case(f"cumsum_dim{dim}", "cumsum", (x,), {"dim": dim})
        yield Case(f"var_dim{dim}", "var", (x,), {"dim": dim})
    yield Case("std", "std", (x,), {"dim": [0, 2], "keepdim": True})
    yield Case("prod", "prod", (x,), {"dim": 1})
    one, two = x.clone(), x.clone()
    one[0, 1], two[0, 1], two[0, 2] = 0, 0, 0
    yield Case("prod_with_a_zero", "prod", (one,), {"dim": 1})
    yield Case("prod_with_two_zeros", "prod", (two,), {"dim": 1})
    for p in (1, 2, 3, float("inf")):
        yield Case(f"norm_{p}", "norm", (x,), {"p": p, "dim": [1, 2]})
    yield Case("roll", "roll", (x,), {"shifts": [1, -2], "dims": [0, 2]})
    yield Case("tril", "tril", (x,), {"diagonal": 1})


def samplings(normal: Normal) -> Iterator[Case]:
    """Cases with points inside and far outside images and a volume."""
    x, grid = normal(2, 2, 3, 4), normal(2, 5, 3, 2).mul(1.5)
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            corners = padding == "border"
            options: dict[str, object] = {"mode": mode, "padding_mode": padding, "align_corners": corners}
            constant = frozenset({1}) if mode == "nearest" else frozenset()
            yield Case(f"grid_sample_{mode}_{padding}", "grid_sample", (x, grid), options, constant)
    options = {"mode": "bilinear", "padding_mode": "reflection", "align_corners": True}
    yield Case("grid_sample_corners", "grid_sample", (x, grid), options)
    yield Case("grid_sample_volume", "grid_sample", (normal(1, 2, 3, 2, 4), normal(1, 2, 2, 3, 3)), options)


def compute(case: Case, normal: Normal) -> dict[str, np.ndarray]:
    """Return the arrays of one case as a dict with their names in the file."""
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

    families = (
        convolutions, poolings, normalisations, linear_maps, losses, activations, other_convolutions, resizings,
        other_normalisations, rectifiers, choices, samplings,
    )  # fmt: skip
    arrays: dict[str, np.ndarray] = {}
    cases = list(chain.from_iterable(family(normal) for family in families))
    for case in cases:
        computed = compute(case, normal)
        if arrays.keys() & computed.keys():
            raise ValueError(f"two cases are named {case.name}: rename one of them")
        arrays |= computed
    np.savez_compressed(path, **arrays)
    print(f"{len(cases)} cases, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
