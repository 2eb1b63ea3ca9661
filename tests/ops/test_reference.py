"""Operations against PyTorch: outputs and gradients stored in assets/reference.npz, in float64."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import explorer as ex
from explorer.core.types.tensor_type import Array

REFERENCE = np.load(Path(__file__).parents[2] / "assets" / "reference.npz")
NAMES = [key.removesuffix("/arguments") for key in REFERENCE.files if key.endswith("/arguments")]
Make = Callable[..., ex.Expr]
MAKERS: dict[str, Make] = {}
GRADIENT = defaultdict(lambda: 1e-10, hardsigmoid=4e-8)
"""relative tolerance of gradients; PyTorch multiplies hardsigmoid's by a sixth in single precision"""


class Case(NamedTuple):
    """One case in the file."""

    operation: str
    arguments: dict[str, Any]
    inputs: list[Array]
    output: Array
    upstream: Array
    gradients: dict[int, Array]


def read(name: str) -> Case:
    arguments = json.loads(str(REFERENCE[f"{name}/arguments"]))
    inputs = []
    while f"{name}/input{len(inputs)}" in REFERENCE:
        inputs.append(REFERENCE[f"{name}/input{len(inputs)}"])
    results = {i: REFERENCE[f"{name}/grad{i}"] for i in range(len(inputs)) if f"{name}/grad{i}" in REFERENCE}
    output, upstream = REFERENCE[f"{name}/output"], REFERENCE[f"{name}/upstream"]
    return Case(arguments.pop("operation"), arguments, inputs, output, upstream, results)


def maker(make: Make) -> Make:
    MAKERS[make.__name__] = make
    return make


def two(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@maker
def conv2d(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> ex.Expr:
    return ex.conv2d(x, weight, bias, strides=two(stride), padding=two(padding), dilation=two(dilation), groups=groups)


@maker
def max_pool2d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> ex.Expr:
    return ex.max_pool2d(x, two(kernel_size), two(stride), two(padding), two(dilation), ceil_mode)


@maker
def avg_pool2d(
    x: Any, kernel_size: Any, count_include_pad: bool, stride: Any = None, padding: Any = 0, ceil_mode: bool = False
) -> ex.Expr:
    return ex.avg_pool2d(x, two(kernel_size), two(stride), two(padding), ceil_mode, count_include_pad)


@maker
def adaptive_avg_pool2d(x: Any, output_size: Any) -> ex.Expr:
    return ex.adaptive_avg_pool2d(x, two(output_size))


@maker
def batch_norm(x: Any, mean: Any, variance: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> ex.Expr:
    return ex.batch_norm(x, mean, variance, weight, bias, epsilon=eps)


@maker
def layer_norm(x: Any, weight: Any = None, bias: Any = None, *, normalized_shape: Any, eps: float = 1e-5) -> ex.Expr:
    axes = tuple(range(-len(normalized_shape), 0))
    centred = x - x.mean(axes, keepdims=True)
    y = centred / np.sqrt(np.square(centred).mean(axes, keepdims=True) + eps)
    return y if weight is None else y * weight + bias


@maker
def linear(x: Any, weight: Any, bias: Any = None) -> ex.Expr:
    y = x @ weight.T
    return y if bias is None else y + bias


@maker
def softmax(x: Any, dim: int) -> ex.Expr:
    return ex.softmax(x, axis=dim)


@maker
def log_softmax(x: Any, dim: int) -> ex.Expr:
    return ex.log_softmax(x, axis=dim)


@maker
def nll_loss(logarithms: Any, labels: Any, ignore_index: int = -100) -> ex.Expr:
    """Return the mean of −logarithm at the labels without ignored ones; classes are axis 1."""
    known = labels != ignore_index
    chosen = ex.one_hot(ex.where(known, labels, 0), logarithms.shape[1], np.float64)
    chosen = chosen * known.astype(np.float64).reshape(*labels.shape, 1)
    chosen = chosen.transpose(0, labels.ndim, *range(1, labels.ndim))
    return -(chosen * logarithms).sum() / known.astype(np.float64).sum()


@maker
def cross_entropy(scores: Any, labels: Any, ignore_index: int = -100) -> ex.Expr:
    return nll_loss(ex.log_softmax(scores, axis=1), labels, ignore_index)


@maker
def logsumexp(x: Any, dim: Any, keepdim: bool = False) -> ex.Expr:
    return ex.logsumexp(x, two(dim), keepdim)


@maker
def silu(x: Any) -> ex.Expr:
    return x * ex.sigmoid(x)


@maker
def hardsigmoid(x: Any) -> ex.Expr:
    return np.minimum(np.maximum(x + 3, 0), 6) / 6


@maker
def hardswish(x: Any) -> ex.Expr:
    return x * hardsigmoid(x)


@maker
def gelu(x: Any, approximate: str) -> ex.Expr:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + ex.erf(x / np.sqrt(2)))


@maker
def softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> ex.Expr:
    """Return softplus, which in PyTorch is x above the threshold."""
    scaled = x * beta
    return ex.where(scaled > threshold, x, ex.softplus(scaled) / beta)


@maker
def conv_transpose2d(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> ex.Expr:  # fmt: skip
    return ex.conv_transpose2d(
        x,
        weight,
        bias,
        strides=two(stride),
        padding=two(padding),
        output_padding=two(output_padding),
        dilation=two(dilation),
        groups=groups,
    )


@maker
def conv1d(x: Any, weight: Any, bias: Any, stride: int, **options: Any) -> ex.Expr:
    return ex.conv1d(x, weight, bias, strides=stride, **options)


@maker
def conv_transpose1d(x: Any, weight: Any, bias: Any, stride: int, **options: Any) -> ex.Expr:
    return ex.conv_transpose1d(x, weight, bias, strides=stride, **options)


@maker
def conv3d(x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any) -> ex.Expr:
    return ex.conv3d(x, weight, bias, strides=two(stride), padding=two(padding), dilation=two(dilation))


@maker
def interpolate(
    x: Any, mode: str, size: Any = None, scale_factor: Any = None, align_corners: bool | None = None
) -> ex.Expr:
    sizes = size or [int(length * scale) for length, scale in zip(x.shape[2:], scale_factor, strict=True)]
    return ex.resize(
        x,
        sizes,
        method={"nearest": "floor", "nearest-exact": "round_prefer_ceil", "bicubic": "cubic"}.get(mode, "linear"),
        coordinates="asymmetric" if mode == "nearest" else "align_corners" if align_corners else "half_pixel",
        steps=None if size else [1 / scale for scale in scale_factor],
    )


@maker
def pad(x: Any, pad: Any, mode: str) -> ex.Expr:
    widths = ((0, 0), (0, 0), tuple(pad[2:]), tuple(pad[:2]))
    return ex.pad(x, widths, {"replicate": "edge", "circular": "wrap"}.get(mode, mode))


@maker
def grid_sample(x: Any, grid: Any, mode: str, padding_mode: str, align_corners: bool) -> ex.Expr:
    method = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    return ex.grid_sample(x, grid, method, padding_mode, align_corners)


@maker
def pixel_shuffle(x: Any, upscale_factor: int) -> ex.Expr:
    return ex.pixel_shuffle(x, upscale_factor)


@maker
def group_norm(x: Any, weight: Any, bias: Any, num_groups: int) -> ex.Expr:
    return ex.group_norm(x, num_groups, weight, bias)


@maker
def instance_norm(x: Any) -> ex.Expr:
    return ex.instance_norm(x)


@maker
def rms_norm(x: Any, weight: Any, normalized_shape: Any) -> ex.Expr:
    return ex.rms_norm(x, weight, axes=len(normalized_shape))


@maker
def normalize(x: Any, dim: int) -> ex.Expr:
    return ex.normalize(x, axis=dim)


@maker
def local_response_norm(x: Any, size: int, alpha: float) -> ex.Expr:
    return ex.local_response_norm(x, size, alpha)


@maker
def attention(
    q: Any, k: Any, v: Any, mask: Any = None, is_causal: bool = False, scale: Any = None, enable_gqa: bool = False
) -> ex.Expr:
    return ex.attention(q, k, v, mask, causal=is_causal, scale=scale)


@maker
def logsigmoid(x: Any) -> ex.Expr:
    return ex.log_sigmoid(x)


def _plain(name: str) -> None:
    """Return the maker of a case whose arguments have explorer's own names and order."""
    function = getattr(ex, name)

    def make(x: Any, *others: Any, **arguments: Any) -> ex.Expr:
        return function(x, *others, **arguments)

    make.__name__ = name
    maker(make)


for _name in ("elu", "celu", "selu", "mish", "softsign", "tanhshrink", "softshrink", "hardshrink", "prelu"):
    _plain(_name)


@maker
def threshold(x: Any, threshold: float, value: float) -> ex.Expr:
    return ex.threshold(x, threshold, value)


@maker
def glu(x: Any, dim: int) -> ex.Expr:
    return ex.glu(x, dim)


@maker
def gather(x: Any, index: Any, dim: int) -> ex.Expr:
    kept = tuple(slice(None) if axis == dim else slice(size) for axis, size in enumerate(index.shape))
    return ex.take_along_axis(x[kept], index, dim)


@maker
def index_select(x: Any, index: Any, dim: int) -> ex.Expr:
    return ex.take(x, index, dim)


@maker
def cumsum(x: Any, dim: int) -> ex.Expr:
    return ex.cumsum(x, dim)


@maker
def var(x: Any, dim: int) -> ex.Expr:
    return ex.var(x, dim, ddof=1)


@maker
def std(x: Any, dim: Any, keepdim: bool) -> ex.Expr:
    return ex.std(x, two(dim), ddof=1, keepdims=keepdim)


@maker
def prod(x: Any, dim: int) -> ex.Expr:
    return ex.prod(x, dim)


@maker
def norm(x: Any, p: float, dim: Any) -> ex.Expr:
    return ex.vector_norm(x, p, two(dim))


@maker
def roll(x: Any, shifts: Any, dims: Any) -> ex.Expr:
    return ex.roll(x, two(shifts), two(dims))


@maker
def tril(x: Any, diagonal: int) -> ex.Expr:
    return ex.tril(x, diagonal)


@pytest.mark.spec("C-18", "M-O4")
@pytest.mark.parametrize("name", NAMES)
def test_values_and_gradients_equal_pytorch(name: str) -> None:
    """They are planned and evaluated as users do, and equal PyTorch's in float64 to ten digits."""
    case = read(name)
    inputs = [ex.tensor(array) for array in case.inputs]
    y = MAKERS[case.operation](*inputs, **case.arguments)
    asked = [inputs[place] for place in case.gradients]
    value, gradients = ex.evaluate((y, ex.grad(y, asked, seed=case.upstream)))
    assert value.shape == case.output.shape
    scale = float(np.abs(case.output).max())
    np.testing.assert_allclose(value, case.output, rtol=1e-10, atol=1e-13 * max(scale, 1))
    for place, result in zip(case.gradients, gradients, strict=True):
        expected = case.gradients[place]
        scale = max(1, float(np.abs(expected).max()))
        np.testing.assert_allclose(result, expected, rtol=GRADIENT[case.operation], atol=1e-13 * scale)


def test_every_stored_case_is_tested() -> None:
    """None is omitted because an operation is missing."""
    counts = Counter(read(name).operation for name in NAMES)
    assert set(counts) == set(MAKERS)
    assert sum(counts.values()) == len(NAMES) == 156


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("silu", lambda x: ex.silu(x)),
        ("silu_large", lambda x: ex.silu(x)),
        ("hardswish", lambda x: ex.hardswish(x)),
        ("hardsigmoid", lambda x: ex.hardsigmoid(x)),
        ("gelu_erf", lambda x: ex.gelu(x)),
        ("softplus_large", lambda x: ex.softplus(x)),
    ],
)
def test_activations_with_their_own_operation_equal_the_compositions(name: str, make: Make) -> None:
    """Values and gradients equal PyTorch's, too."""
    case = read(name)
    x = ex.tensor(case.inputs[0])
    y = make(x)
    value, gradient = ex.evaluate((y, ex.grad(y, x, seed=case.upstream)))
    np.testing.assert_allclose(value, case.output, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(gradient, case.gradients[0], rtol=GRADIENT[case.operation], atol=1e-13)
