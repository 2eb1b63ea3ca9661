"""Torch modules opened by ``ex.open(module, inputs)``: the values of the module, and the lines of its ``forward``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex

pytestmark = pytest.mark.bench


def results(value: Any) -> list[np.ndarray]:
    """Return the tensors of a module's result, in order."""
    values = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else [value]
    return [tensor.detach().float().numpy() for tensor in values]


def departure(net: ex.Net, module: Any, inputs: Any) -> float:
    """Return the largest difference of a net and its module, relative to the largest element of each result."""
    import torch

    with torch.no_grad():
        if isinstance(inputs, dict):
            wanted = results(module(**inputs))
            arrays = [*inputs.values()]
        else:
            arrays = [*inputs] if isinstance(inputs, tuple) else [inputs]
            wanted = results(module(*arrays))
    plain = [(x.float() if x.dtype == torch.bfloat16 else x).numpy() for x in arrays]
    given = net.run(*plain)
    result = [*given.values()] if isinstance(given, dict) else [given]
    assert [x.shape for x in result] == [x.shape for x in wanted]
    return max(
        float(np.max(np.abs(x.astype(np.float64) - y), initial=0) / max(np.max(np.abs(y), initial=0), 1e-12))
        for x, y in zip(result, wanted, strict=True)
    )


def test_a_torch_module_has_its_values(capsys: pytest.CaptureFixture[str]) -> None:
    """A module that was opened gives its module's values, and nearly all of its operators have a line of a program."""
    import torch

    from tests.bench.torch_models import cases

    beyond, without_lines = [], []
    for name, case in cases().items():
        torch.manual_seed(1)
        module = case.make().eval()
        for part in module.modules():
            if isinstance(part, torch.nn.BatchNorm2d):
                part.running_mean.uniform_(-0.2, 0.2), part.running_var.uniform_(0.5, 1.5)
        net = ex.open(module, case.inputs, dynamic_shapes=case.dynamic_shapes)
        worst = departure(net, module, case.inputs if case.other is None else case.other)
        lines = [operator.code is not None for operator in net.definition.operators]
        with capsys.disabled():
            print(f"\n{name:26} {len(lines):4} operators, {sum(lines):4} with a line, {worst:.1e}", end="")
        beyond += [name] * (worst > case.tolerance)
        without_lines += [name] * (sum(lines) < 0.9 * len(lines))
    assert (beyond, without_lines) == ([], [])


def test_a_quantised_program_is_read_from_its_file(tmp_path: Path) -> None:
    """A process that has imported nothing of torch's quantisation reads it, and computes what torch does."""
    import torch
    from torch.ao.quantization.fx import _decomposed  # the operators' home

    class Quantised(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            space = getattr(torch.ops, _decomposed.quantized_decomposed_lib.ns)
            q = space.quantize_per_tensor(x, 0.03, 5, 0, 127, torch.uint8)
            return space.dequantize_per_tensor(q, 0.03, 5, 0, 127, torch.uint8)

    x = torch.randn(3, 50) * 3
    torch.export.save(torch.export.export(Quantised(), (x,)), tmp_path / "q.pt2")
    np.save(tmp_path / "x.npy", x.numpy())
    program = (
        "import sys, numpy, explorer; numpy.save(sys.argv[3], explorer.open(sys.argv[1]).run(numpy.load(sys.argv[2])))"
    )
    paths = [str(tmp_path / name) for name in ("q.pt2", "x.npy", "y.npy")]
    subprocess.run([sys.executable, "-c", program, *paths], check=True)
    np.testing.assert_array_equal(np.load(paths[2]), Quantised()(x).numpy())


def test_poolings_and_scattered_elements_are_torchs() -> None:
    """Divisors of poolings, windows that cover an image unevenly, and sources with more elements than places."""
    import torch
    from torch.nn import functional as f

    class Poolings(torch.nn.Module):
        def forward(self, x: Any, index: Any, source: Any) -> Any:
            means = [
                f.avg_pool2d(x, 2, divisor_override=3),
                f.avg_pool2d(x[0], (2, 3), 2, 1),
                f.avg_pool2d(x, 3, 2, 1, True),
            ]
            volume = x[:, None]
            solid = [f.avg_pool3d(volume, 2, divisor_override=5), f.adaptive_avg_pool3d(volume, (3, 2, 4))]
            largest = [*f.adaptive_max_pool2d(x, (4, 3), return_indices=True), f.adaptive_max_pool2d(x, 1)]
            largest += [f.adaptive_max_pool1d(x[:, :, 0], 4), f.adaptive_max_pool3d(volume, (3, 2, 4))]
            return (*means, *solid, *largest, x.scatter(1, index, source), x.scatter_add(1, index, source))

    drawn = torch.Generator().manual_seed(3)
    x, source = (torch.randn(2, 4, 9, 7, generator=drawn) for _ in range(2))
    inputs = x, torch.stack([torch.randperm(4, generator=drawn)[:3] for _ in range(35)], 1).view(1, 3, 5, 7), source
    assert departure(ex.open(Poolings(), inputs), Poolings(), inputs) < 1e-6


def test_running_products_are_torchs() -> None:
    """Products of all elements up to each one, in any dtype, along axes of any length; the least takes no step."""
    import torch

    class Products(torch.nn.Module):
        def forward(self, x: Any, n: Any) -> Any:
            scalar, none = torch.cumprod(x[0, 0, 0], 0), torch.cumprod(x[:, :0], 1)
            wide = [torch.cumprod(x, -1, dtype=torch.float64), torch.cumprod(n, 0), torch.cumprod(n > 1, 0)]
            return torch.cumprod(x, 0), torch.cumprod(x, 1), torch.cumprod(x, 2), scalar, none, *wide

    x = 1 + torch.randn(1, 5, 64, generator=torch.Generator().manual_seed(4)) / 8
    x[0, 3, 20] = torch.nan
    inputs = x, torch.arange(1, 8, dtype=torch.int32)
    expected = Products()(*inputs)
    results = ex.open(Products(), inputs).run(x.numpy(), inputs[1].numpy()).values()
    for result, reference in zip(results, expected, strict=True):
        assert result.dtype == reference.numpy().dtype
        np.testing.assert_allclose(result, reference.numpy(), rtol=1e-5)


def test_functions_of_nan_and_of_large_numbers_are_torchs() -> None:
    """NaN is a row's median and lies behind all boundaries; squares of a length may be beyond single precision."""
    import torch

    class Edges(torch.nn.Module):
        def forward(self, x: Any, bounds: Any) -> Any:
            places = [torch.bucketize(x, bounds), torch.searchsorted(bounds, x, right=True)]
            lengths = [torch.hypot(x * 1e30, x.flip(1) * 1e25), torch.hypot(x * 0, x * 0)]
            medians = [*x.median(1), *x.median(0, keepdim=True), x.median(), *x[1:].median(1), x[1:].median()]
            return (*places, *lengths, *medians)

    x = torch.randn(4, 7, generator=torch.Generator().manual_seed(2))
    x[0, 3] = x[0, 5] = float("nan")
    inputs = x, torch.tensor([-1.0, 0.0, 0.5, 1.0])
    results = [*ex.open(Edges(), inputs).run(*[each.numpy() for each in inputs]).values()]
    for value, wanted in zip(results, Edges()(*inputs), strict=True):
        np.testing.assert_allclose(value, wanted.numpy(), rtol=1e-6)
