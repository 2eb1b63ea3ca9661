"""Write torch_quantized.npz: quantised torch programs as ONNX files, with inputs and torch's results.

Cases are single operators of ``quantized_decomposed`` and nets quantised by torchao. A case ``c`` has its file under
``c/file``, inputs under ``c/x0``, … and results under ``c/y0``, …. Requires torch, onnxscript and torchao.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torchao.quantization import Int8DynamicActivationInt8WeightConfig, quantize_
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (
    X86InductorQuantizer,
    get_default_x86_inductor_quantization_config,
)

from explorer.formats import torch_operators

torch_operators.register()
OPS = torch.ops.quantized_decomposed
INT8, UINT8 = torch.int8, torch.uint8


class Function(nn.Module):
    """Module that calls a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *operands: Tensor) -> Any:
        return self.function(*operands)


class Pictures(nn.Module):
    """Convolutions, a sum and a linear map."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3)
        self.scores = nn.Linear(4 * 16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        x = torch.relu(self.second(x + nn.functional.max_pool2d(x, 3, 1, 1)))
        return self.scores(x.flatten(1))


def quantised(module: nn.Module, x: Tensor, dynamic: bool) -> nn.Module:
    """Return a module quantised by torchao, with static or dynamic ranges of activations."""
    config = get_default_x86_inductor_quantization_config(is_dynamic=dynamic)
    prepared = prepare_pt2e(torch.export.export(module, (x,)).module(), X86InductorQuantizer().set_global(config))
    prepared(x)
    return convert_pt2e(prepared)


def cases() -> dict[str, tuple[nn.Module, tuple[Tensor, ...]]]:
    """Return a dict of names, and modules with their inputs."""
    torch.manual_seed(3)
    x, scale, zero = torch.randn(4, 6, 50) * 3, torch.tensor([0.0317], dtype=torch.float64), torch.tensor([-11])
    scales, zeros = torch.rand(6, dtype=torch.float64) / 20 + 0.01, torch.randint(-50, 50, (6,))
    q = torch.randint(-128, 128, (4, 6, 50), dtype=INT8)
    tokens, starts = torch.rand(4, 6, 1, dtype=torch.float64) / 20 + 0.01, torch.randint(-50, 50, (4, 6, 1))
    ends = torch.tensor(-100), torch.tensor(90)
    functions: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
        "quantize": (lambda x: OPS.quantize_per_tensor(x, 0.0317, -11, -128, 127, INT8), (x,)),
        "quantize within limits": (lambda x: OPS.quantize_per_tensor(x, 0.0317, 60, 0, 127, UINT8), (x,)),
        "quantize halves": (lambda x: OPS.quantize_per_tensor(x, 0.0317, -11, -128, 127, INT8), (x.half(),)),
        "quantize tensor": (
            lambda x, s, z: OPS.quantize_per_tensor.tensor(x, s, z, -127, 127, torch.int16),
            (x, scale, zero),
        ),
        "quantize tensor2": (
            lambda x, s, z, a, b: OPS.quantize_per_tensor.tensor2(x, s, z, a, b, INT8),
            (x, scale, zero, *ends),
        ),
        "quantize channels": (
            lambda x, s, z: OPS.quantize_per_channel(x, s, z, 1, -100, 100, INT8),
            (x, scales, zeros),
        ),
        "quantize channels 32": (
            lambda x, s, z: OPS.quantize_per_channel(x, s, z, 1, -128, 127, INT8),
            (x, scales.float(), zeros.int()),
        ),
        "quantize tokens": (
            lambda x, s, z: OPS.quantize_per_token(x, s, z, -128, 127, INT8),
            (x, tokens, starts),
        ),
        "dequantize": (lambda q: OPS.dequantize_per_tensor(q, 0.0317, -11, -128, 127, INT8), (q,)),
        "dequantize halves": (
            lambda q: OPS.dequantize_per_tensor(q, 0.0317, -11, -128, 127, INT8, out_dtype=torch.float16),
            (q,),
        ),
        "dequantize tensor": (
            lambda q, s, z: OPS.dequantize_per_tensor.tensor(q, s, z, -128, 127, INT8),
            (q, scale, zero),
        ),
        "dequantize channels": (
            lambda q, s, z: OPS.dequantize_per_channel(q, s, z, 1, -128, 127, INT8),
            (q, scales, zeros),
        ),
        "dequantize channels without zero points": (
            lambda q, s: OPS.dequantize_per_channel(q, s, None, 1, -128, 127, INT8),
            (q, scales),
        ),
        "dequantize tokens": (
            lambda q, s, z: OPS.dequantize_per_token(q, s, z, -128, 127, INT8, torch.float32),
            (q, tokens, starts),
        ),
        "dequantize groups": (
            lambda q, s, z: OPS.dequantize_per_channel_group(q, s, z, -8, 7, INT8, 10, torch.float32),
            (q[0], tokens[0].float() * torch.arange(1, 6) / 3, starts[0] + torch.arange(5)),
        ),
        "int mm": (
            torch._int_mm,
            (q[0].reshape(20, 15)[:, :8].contiguous().repeat(2, 1), q[1, :, :8].repeat(2, 1)[:8]),
        ),
    }
    far = torch.tensor([[0.5, 3.0], [0.25, 9.0]])
    for name, values in {"": x, " of positive": far, " of negative": -far, " of zeros": torch.zeros(3)}.items():
        for type in ("choose_qparams", "choose_qparams_symmetric"):
            choose = getattr(OPS, type).tensor
            for dtype, low, high in ((INT8, -128, 127), (UINT8, 0, 127)):
                functions[f"{type}{name} {dtype}"] = (
                    lambda x, f=choose, t=dtype, a=low, b=high: f(x, a, b, 1.1920929e-07, t),
                    (values,),
                )
    for name, values in {"": x[0] - 2, " of zeros": torch.zeros(2, 3)}.items():
        for type in ("choose_qparams_per_token", "choose_qparams_per_token_asymmetric"):
            choose = getattr(OPS, type).default
            functions[f"{type}{name}"] = (lambda x, f=choose: f(x, INT8), (values,))
    cases_by_name: dict[str, tuple[nn.Module, tuple[Tensor, ...]]] = {
        name: (Function(function), operands) for name, (function, operands) in functions.items()
    }
    pictures = torch.randn(2, 3, 6, 6)
    layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval()
    rows = torch.randn(20, 16)
    for dynamic in (False, True):
        word = "dynamic" if dynamic else "static"
        cases_by_name[f"pictures {word}"] = quantised(Pictures().eval(), pictures, dynamic), (pictures,)
        cases_by_name[f"layers {word}"] = quantised(layers, rows, dynamic), (rows,)
    quantize_(layers, Int8DynamicActivationInt8WeightConfig())
    cases_by_name["layers of torchao"] = layers, (rows,)
    return cases_by_name


def written(module: nn.Module, operands: tuple[Tensor, ...]) -> bytes:
    """Return the ONNX file of a module as bytes, without metadata."""
    program = torch.onnx.export(
        module,
        operands,
        dynamo=True,
        optimize=False,
        verbose=False,
        custom_translation_table=torch_operators.translations(torch),
    )
    model = program.model_proto
    for node in model.graph.node:
        del node.metadata_props[:]
    del model.metadata_props[:]
    return bytes(model.SerializeToString())


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".npz"), help="file to write")
    path: Path = parser.parse_args().output
    arrays: dict[str, np.ndarray] = {}
    for name, (module, operands) in cases().items():
        with torch.no_grad():
            results = module(*operands)
        results = results if isinstance(results, (tuple, list)) else [results]
        arrays[f"{name}/file"] = np.frombuffer(written(module, operands), np.uint8)
        arrays |= {f"{name}/x{place}": operand.numpy() for place, operand in enumerate(operands)}
        arrays |= {f"{name}/y{place}": result.numpy() for place, result in enumerate(results)}
    np.savez_compressed(path, **arrays)
    print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
