"""Single torch operators on one thread: ``net.run`` by NumPy and by C, against torch eager, after comparing values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from time import process_time
from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.bench.contest import samples, table
from tests.bench.programs import one_thread

pytestmark = [pytest.mark.bench, pytest.mark.filterwarnings("default")]

Operator = tuple[str, Any, tuple[Any, ...]]


def operators() -> Iterator[Operator]:
    """Return names, modules and operands: about a million numbers for elementwise operators, images of 64 channels."""
    import torch
    from torch import nn
    from torch.nn import functional

    torch.manual_seed(0)
    random = np.random.default_rng(0)

    def real(*shape: int) -> Any:
        return random.standard_normal(shape).astype(np.float32)

    class Calls(nn.Module):
        """A function as a module."""

        def __init__(self, function: Callable[..., Any]) -> None:
            super().__init__()
            self.function = function

        def forward(self, *operands: Any) -> Any:
            return self.function(*operands)

    rows, above, images, image = (
        real(1024, 1024),
        np.abs(real(1024, 1024)) + 0.1,
        real(8, 64, 56, 56),
        real(1, 64, 56, 56),
    )
    for name in ("exp", "log1p", "sqrt", "rsqrt", "sin", "tanh", "sigmoid", "erf", "relu", "trunc", "reciprocal"):
        yield name, Calls(getattr(torch, name)), (above,)
    for name in (
        "silu",
        "gelu",
        "softplus",
        "elu",
        "hardswish",
        "leaky_relu",
        "mish",
        "softshrink",
        "log_softmax",
        "softmax",
    ):
        options = {"dim": 1} if "softmax" in name else {}
        yield name, Calls(partial(getattr(functional, name), **options)), (rows,)
    yield "gelu, tanh", Calls(lambda x: functional.gelu(x, approximate="tanh")), (rows,)
    yield "x³", Calls(lambda x: x**3), (rows,)
    yield "xʸ", Calls(torch.pow), (above, rows)
    for name in ("sum", "mean", "amax", "logsumexp", "std", "argmax", "cumsum"):
        for axis in (0, 1):
            yield f"{name}, axis {axis}", Calls(partial(getattr(torch, name), dim=axis)), (rows,)
    yield "topk of 1,024", Calls(lambda x: torch.topk(x, 5)[0]), (rows,)
    yield "sort", Calls(lambda x: torch.sort(x)[0]), (rows[:256],)
    yield "layer_norm", nn.LayerNorm(1024), (rows,)
    yield "group_norm", nn.GroupNorm(8, 64), (images,)
    yield "batch_norm", nn.BatchNorm2d(64), (images,)
    for name, pooling in {"3×3/2": nn.MaxPool2d(3, 2, 1), "means 3×3": nn.AvgPool2d(3, 1, 1)}.items():
        yield f"pooling {name}", pooling, (images,)
    yield "pooling of signals 3/2", nn.MaxPool1d(3, 2), (real(8, 64, 4096),)
    for mode in ("nearest", "bilinear", "bicubic"):
        yield f"resize ×2, {mode}", Calls(partial(functional.interpolate, scale_factor=2, mode=mode)), (image,)
    grid = np.clip(real(1, 56, 56, 2), -1, 1)
    yield "grid_sample", Calls(lambda x, g: functional.grid_sample(x, g, align_corners=False)), (image, grid)
    yield "unfold", nn.Unfold(3, padding=1), (image,)
    yield "fold", nn.Fold((56, 56), 3, padding=1), (real(1, 576, 3136),)
    yield "pad, reflected", Calls(lambda x: functional.pad(x, (1, 1, 1, 1), mode="reflect")), (images,)
    yield "concatenation", Calls(lambda x, y: torch.cat([x, y], 1)), (images, images)
    numbers = random.integers(0, 1024, (1024, 1024))
    yield "gather", Calls(lambda x, i: x.gather(1, i)), (rows, numbers)
    yield "scatter_add", Calls(lambda x, i, s: x.scatter_add(1, i, s)), (rows, numbers, above)
    yield "embedding", nn.Embedding(5000, 256), (random.integers(0, 5000, (32, 128)),)
    convolutions = {
        "1×1": nn.Conv2d(64, 64, 1), "3×3": nn.Conv2d(64, 64, 3, padding=1), "3×3/2": nn.Conv2d(64, 128, 3, 2, 1),
        "5×5": nn.Conv2d(64, 64, 5, padding=2), "3×3 depthwise": nn.Conv2d(64, 64, 3, padding=1, groups=64),
        "3×3, 4 groups": nn.Conv2d(64, 64, 3, padding=1, groups=4),
        "transposed 4×4/2": nn.ConvTranspose2d(64, 32, 4, 2, 1),
    }  # fmt: skip
    for name, convolution in convolutions.items():
        yield f"convolution {name}", convolution, (image,)
    yield "linear", nn.Linear(1024, 1024), (rows,)
    whole = random.integers(-9, 9, (256, 256))
    yield "product of whole numbers", Calls(torch.matmul), (whole, whole)
    heads = [real(4, 8, 128, 64) for _ in range(3)]
    yield "attention", Calls(functional.scaled_dot_product_attention), tuple(heads)
    yield "LSTM, 8 × 64, 100 steps", nn.LSTM(64, 64, batch_first=True), (real(8, 100, 64),)


@pytest.mark.spec("K-7")
def test_operators() -> None:
    """Target: compiled, at most 1.5 times torch's time; NumPy's functions are the lower bound of most other rows."""
    import torch

    rows = []
    with one_thread(), torch.inference_mode():
        for name, module, arrays in operators():
            operands = tuple([torch.from_numpy(array) for array in arrays])
            net = ex.open(module.eval(), operands)
            expected = module(*operands)
            expected = expected[0] if isinstance(expected, tuple) else expected
            runs = {"numpy": partial(net.run, *arrays), "compiled": partial(net.run, *arrays, kernels="native")}
            for run in runs.values():
                result = run()
                result = next(iter(result.values())) if isinstance(result, dict) else result
                np.testing.assert_allclose(result, expected.numpy(), rtol=1e-4, atol=1e-4, err_msg=name)
            runs["torch"] = partial(module, *operands)
            spent = {key: min(times) for key, times in samples(runs, 5, 3, process_time).items()}
            rows.append((spent["compiled"] / spent["torch"], name, spent))
    print(
        table(
            "operators beside torch eager, 1 thread, least processor time",
            ["", "NumPy kernels, ms", "compiled, ms", "torch, ms", "compiled : torch"],
            [
                [name, *(f"{spent[key]:.3f}" for key in ("numpy", "compiled", "torch")), f"{ratio:.1f}"]
                for ratio, name, spent in sorted(rows, reverse=True, key=lambda row: row[0])
            ],
            ["numpy", "torch"],
        )
    )
    assert rows
