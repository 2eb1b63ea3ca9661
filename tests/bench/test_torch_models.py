"""Torch modules opened with ``ex.open(module, inputs)``: the module's values, and the lines of its ``forward``."""

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
    """Return the largest difference between a net and its module, relative to the largest element of each result."""
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


def test_a_torch_module_keeps_its_values_and_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """The net equals the module, and nearly all of its operators have a source line."""
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


def test_a_torch_module_runs_with_onnxruntime(capsys: pytest.CaptureFixture[str]) -> None:
    """onnxruntime computes each module's net, through a written ONNX file, with the net's values."""
    import torch

    from tests.bench.torch_models import cases

    beyond, refused = [], []
    for name, case in cases().items():
        torch.manual_seed(1)
        net = ex.open(case.make().eval(), case.inputs, dynamic_shapes=case.dynamic_shapes)
        inputs = case.inputs if case.other is None else case.other
        given = [*inputs.values()] if isinstance(inputs, dict) else [*inputs] if isinstance(inputs, tuple) else [inputs]
        arrays = [(x.float() if x.dtype == torch.bfloat16 else x).numpy() for x in given]
        try:
            comparison = net.compare("onnxruntime", *arrays, tolerance=1e-3)
            recording = net.recorded_by("onnxruntime", tuple(arrays))
        except ex.ExplorerError as error:
            refused.append(name)
            with capsys.disabled():
                print(f"\n{name:26} {error.given[:160]}", end="")
            continue
        counts = recording.stages[-1].counts
        with capsys.disabled():
            lost = ""
            if "unmatched" in counts:
                lost = f", {counts['unmatched']} of no operator, {counts['unmatched_us']} µs"
            print(
                f"\n{name:26} {len(comparison.rows):4} operands compared, {counts['kernels']:4} kernels{lost}", end=""
            )
        beyond += [name] * (not comparison.equal)
    assert beyond == []
    assert refused == ["bf16"]  # onnxruntime has no bfloat16 kernel of Gemm for CPUs


def test_a_quantized_program_is_read_from_its_file(tmp_path: Path) -> None:
    """A process that has not imported torch's quantization reads it, and equals torch."""
    import torch
    from torch.ao.quantization.fx import _decomposed  # module that defines the operators

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


def test_poolings_and_scattered_elements_equal_torch() -> None:
    """Test divisors of poolings, uneven windows, and sources with more elements than indices."""
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


def test_cumulative_products_equal_torch() -> None:
    """Test all dtypes and axes of any length, including 1."""
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


def test_functions_of_nan_and_of_large_numbers_equal_torch() -> None:
    """A median with NaN is NaN, NaN is after all boundaries, and squared lengths may overflow single precision."""
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


def test_a_module_is_called_with_the_given_arguments() -> None:
    """Test a trailing dict, nested structures, keyword-only arguments, defaults and constants."""
    from collections import OrderedDict, namedtuple

    import torch
    from torch.utils._pytree import tree_leaves

    pair = namedtuple("pair", "a b")
    x, c, d = torch.arange(1.0, 4), torch.full((3,), 5.0), torch.tensor([0.5, 2, 7])

    def optional(self: Any, x: Any, options: Any = None, scale: Any = None) -> Any:
        y = x if options is None else x * options["scale"]
        return y if scale is None else y + scale

    calls: list[tuple[Any, Any]] = [
        (optional, (x, {"scale": c})),
        (optional, (x, {"scale": c}, d)),
        (optional, (x, {"scale": c}, None)),
        (optional, (x, None, d)),
        (optional, {"scale": d, "options": {"scale": c}, "x": x}),
        (lambda self, batch: batch["x"] - 2 * batch["m"], ({"m": c, "x": x},)),
        (lambda self, batch: batch["x"] - 2 * batch["m"], {"batch": {"m": c, "x": x}}),
        (lambda self, x, o: x + len(o), (x, {})),
        (lambda self, x, o: x + o["a"]["b"] * o["c"][0] - o["c"][1][0], (x, {"a": {"b": c}, "c": [d, (c,)]})),
        (lambda self, x, o: x * o[1] - o[0], (x, {1: c, 0: d})),
        (lambda self, x, o: x * o["z"] - o["a"], (x, OrderedDict(z=c, a=d))),
        (lambda self, x, o: (x if o["m"] is None else d) + o["k"], (x, {"m": None, "k": c})),
        (lambda self, x, o, /: x * o["z"], (x, {"z": c})),
        (lambda self, x, o: x * o[0]["z"] - o[1]["z"], (x, [{"z": c}, {"z": d}])),
        (lambda self, x, o: x * o.a - o.b, (x, pair(c, d))),
        (lambda self, o: o[0] - o[1], ([c, d],)),
        (lambda self, x, *r: x * r[0] - r[1]["k"], (x, c, {"k": d})),
        (lambda self, x, *, k, j=None: x - k if j is None else x - k * j, {"j": d, "k": c, "x": x}),
        (lambda self, x, **more: x - more["b"] * more["a"] + more["a"], {"x": x, "b": c, "a": d}),
        (lambda self, x, n, word: x * n if word == "a" else x, (x, 3, "a")),
        (lambda self, x, o: x * float(o["n"]) + torch.as_tensor(o["y"]), (x, {"n": np.float32(2), "y": c.numpy()})),
        (lambda self, x, y: (x, y * 2, {"twice": x}), (x, c)),
    ]
    for forward, inputs in calls:
        module: Any = type("Given", (torch.nn.Module,), {"forward": forward})()
        wanted = module(**inputs) if isinstance(inputs, dict) else module(*inputs)
        arrays = [np.asarray(each) for each in tree_leaves(inputs) if isinstance(each, (torch.Tensor, np.ndarray))]
        net = ex.open(module, inputs)
        given = net.run(*arrays)
        results = [*given.values()] if isinstance(given, dict) else [given]
        for result, reference in zip(results, tree_leaves(wanted), strict=True):
            np.testing.assert_allclose(result, reference, err_msg=str((inputs, net)))


@pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")
def test_torchscript_modules_are_converted() -> None:
    """Test traced, scripted, frozen and loaded ones; the error of one that torch cannot convert has an alternative."""
    import io

    import torch

    class Branches(torch.nn.Module):
        def forward(self, x: torch.Tensor, twice: bool = True) -> torch.Tensor:
            return 2 * x if twice else x if bool(x.sum() > 0) else -x

    class Absent(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
            return x if y is None else x + y

    def again(module: Any) -> Any:
        file = io.BytesIO()
        torch.jit.save(module, file)
        file.seek(0)
        return torch.jit.load(file)

    x = torch.randn(2, 1, 8, 8, generator=torch.Generator().manual_seed(2))
    layers = torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten()
    plain = torch.nn.Sequential(*layers, torch.nn.Linear(144, 3), torch.nn.Dropout()).eval()
    traced, scripted = torch.jit.trace(plain, x), torch.jit.script(plain)
    modules = traced, scripted, torch.jit.freeze(scripted), again(traced), again(scripted), torch.jit.freeze(traced)
    for module in modules:
        assert departure(ex.open(module, x), plain, x) < 1e-6
    (own,) = (each.name for each in scripted.forward.schema.arguments[1:])
    net = ex.open(scripted.train(), x, dynamic_shapes={own: {0: "batch"}})
    assert (net.name, scripted.training, next(iter(net.inputs.values())).shape[0]) == ("Sequential", True, "batch")
    branches = torch.jit.script(Branches())
    for inputs in ((x,), (x, False), (-x, False)):
        np.testing.assert_array_equal(ex.open(branches, inputs).run(inputs[0].numpy()), branches(*inputs))
    with pytest.raises(ex.OperandError, match=r"(?s)convert the TorchScript module Absent.*was created"):
        ex.open(torch.jit.script(Absent()), x)
    with pytest.raises(ex.OperandError, match=r"(?s)Sequential does not run on the example inputs: .*shapes cannot be"):
        ex.open(scripted, x[:, :, :4])
    with pytest.raises(ex.OperandError, match=r"missing a required argument: 'input'"):
        ex.open(scripted, ())


def test_a_module_without_values_is_drawn(tmp_path: Path) -> None:
    """For a module on the meta device, or of fake tensors, runs and saving raise an error that names the missing
    values."""
    import pickle

    import torch
    from torch._subclasses import FakeTensorMode

    def made() -> Any:
        return torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.Flatten(), torch.nn.Linear(144, 3)).eval()

    with torch.device("meta"):
        absent, nowhere = made(), torch.empty(2, 1, 8, 8)
    with FakeTensorMode():
        fake, fake_input = made(), torch.empty(2, 1, 8, 8)
    real = ex.open(made(), torch.empty(2, 1, 8, 8))
    for module, x in ((absent, nowhere), (absent, np.empty((2, 1, 8, 8), np.float32)), (fake, fake_input)):
        net = ex.open(module, x)
        assert net.definition.operators == real.definition.operators
        assert "<svg" in net.explore()._repr_mimebundle_()[0]["image/svg+xml"]
        again = pickle.loads(pickle.dumps(net.definition.weights))
        for ask in (
            lambda net=net: net.run(np.empty((2, 1, 8, 8), np.float32)),
            lambda net=net: net.save(tmp_path / "x.json"),
            lambda again=again: again["0.weight"],
        ):
            with pytest.raises(ex.StateError, match=r"(?s)'0\.weight'.*on the meta device.*load_state_dict"):
                ask()
    with torch.device("meta"):
        shared = torch.nn.Linear(3, 3)
        recurrent = torch.nn.Sequential(shared, torch.nn.ReLU(), shared, torch.nn.LSTM(3, 4, batch_first=True))
    net = ex.open(recurrent, torch.empty(2, 5, 3))
    assert "LSTM" in {operator.type for operator in net.definition.operators}
    net.explore()
    absent.to_empty(device="cpu").load_state_dict(
        dict(zip(absent.state_dict(), made().state_dict().values(), strict=True))
    )
    assert ex.open(absent, torch.zeros(2, 1, 8, 8)).run(np.zeros((2, 1, 8, 8), np.float32)).shape == (2, 3)
    with pytest.raises(ex.OperandError, match=r"module.to\(device\) and x.to\(device\): they are on cpu and meta"):
        ex.open(made(), nowhere)


def test_errors_of_the_exporter_contain_a_fix_for_their_cause() -> None:
    """A type must be registered and a packed sequence padded; only a branch on values needs torch.cond."""
    from dataclasses import dataclass

    import torch
    from torch.nn.utils.rnn import pack_padded_sequence

    @dataclass
    class Pair:
        a: Any
        b: Any

    x = torch.randn(2, 5, 3)
    lstm = torch.nn.LSTM(3, 4, batch_first=True)
    cases: list[tuple[Any, Any, str]] = [
        (lambda self, x: x * 2 if x.sum() > 0 else x, (x,), "torch.cond instead"),
        (lambda self, x: Pair(x, x), (x,), r"register_dataclass\(Pair\)"),
        (lambda self, x, p: p.a * x, (x, Pair(x, x)), r"register_dataclass\(Pair\)"),
        (lambda self, x: (x * 2, 3), (x,), "instead of int"),
        (lambda self, x: {x}, (x,), "instead of set"),
        (lambda self, x, o: o(x), (x, torch.relu), "instead of builtin"),
        (lambda self, x, n: lstm(pack_padded_sequence(x, n, True))[0].data, (x, torch.tensor([5, 3])), "padded batch"),
        (lambda self, x: torch.special.bessel_j0(x), (x,), "pnnx.export"),
    ]
    for forward, inputs, fix in cases:
        with pytest.raises(ex.OperandError, match=fix) as raised:
            ex.open(type("Refused", (torch.nn.Module,), {"forward": forward})(), inputs)
        assert ("torch.cond" in raised.value.fix) == ("torch.cond" in fix)
    torch.export.register_dataclass(Pair)
    module: Any = type("Registered", (torch.nn.Module,), {"forward": lambda self, p: Pair(p.b, p.a * 2)})()
    results = [*ex.open(module, (Pair(x, x + 1),)).run(x.numpy(), x.numpy() + 1).values()]
    np.testing.assert_array_equal(results, [x + 1, x * 2])
