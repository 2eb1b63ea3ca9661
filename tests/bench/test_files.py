"""Inspection of model files: seconds and peak memory beyond the imports, each in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save
from safetensors.numpy import save_file

from tests.bench.contest import table

pytestmark = pytest.mark.bench

MATRICES, SIDE = 30, 2048
"""weights of 503 MB"""
OPERATORS = 10_000
_PROGRAM = """
import json, sys, time
import explorer as ex
import explorer.formats.onnx.operators, explorer.formats.onnx.reader
from explorer.view.export.html_page import html

def held():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) / 1024

before, figures, value = held(), [], sys.argv[1]
for step in (ex.open, lambda net: net.preview_plan().recording, html):
    started = time.process_time()
    value = step(value)
    figures += [time.process_time() - started, held() - before]
print(json.dumps(figures))
"""


def onnx_file(path: Path, nodes: list[Any], last: str, weights: list[Any], shape: list[int]) -> Path:
    """Write a model of x with these nodes."""
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)] for name in ("x", last)]
    graph = helper.make_graph(nodes, "graph", *ends, weights)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def heavy(folder: Path) -> Path:
    """Write thirty products with weights of 16 MB each, stored in the model file."""
    names = ["x", *[f"y{number}" for number in range(MATRICES)]]
    nodes = [helper.make_node("MatMul", [names[i], f"w{i}"], [names[i + 1]], name=f"m{i}") for i in range(MATRICES)]
    weights = [numpy_helper.from_array(np.full((SIDE, SIDE), i, np.float32), f"w{i}") for i in range(MATRICES)]
    return onnx_file(folder / "heavy.onnx", nodes, names[-1], weights, [1, SIDE])


def long(folder: Path) -> Path:
    """Write ten thousand elementwise operators in a chain, ten in each box."""
    names = ["x", *[f"y{number}" for number in range(OPERATORS)]]
    nodes = []
    for number in range(OPERATORS):
        type = ("Relu", "Add", "Sigmoid", "Mul", "Tanh")[number % 5]
        reads = [names[number]] * (2 if type in ("Add", "Mul") else 1)
        nodes.append(helper.make_node(type, reads, [names[number + 1]], name=f"/layer{number // 10}/{type}{number}"))
    return onnx_file(folder / "long.onnx", nodes, names[-1], [], [4, 8])


def decoder(folder: Path) -> Path:
    """Write ten thousand operators of a language model: layers of attention and a gated product, in boxes."""
    nodes: list[Any] = []
    weights: list[Any] = []
    width, x, layer = 8, "x", 0

    def weight(name: str, *shape: int) -> str:
        weights.append(numpy_helper.from_array(np.ones(shape, np.float32), f"layers.{layer}.{name}.weight"))
        return f"layers.{layer}.{name}.weight"

    def node(type: str, name: str, *reads: str, **attributes: Any) -> str:
        path = f"/layers.{layer}/{name}/{type}"
        nodes.append(helper.make_node(type, reads, [f"{path}_output_0"], name=path, **attributes))
        return f"{path}_output_0"

    while len(nodes) < OPERATORS:
        q, k, v = (node("MatMul", f"attn/{part}", x, weight(f"attn.{part}", width, width)) for part in "qkv")
        scores = node("MatMul", "attn/scores", q, node("Transpose", "attn/turn", k, perm=[0, 2, 1]))
        mixed = node("MatMul", "attn/mix", node("Softmax", "attn/soft", scores, axis=-1), v)
        x = node("Add", "residual", x, node("MatMul", "attn/o", mixed, weight("attn.o", width, width)))
        gate = node("MatMul", "mlp/gate", x, weight("mlp.gate", width, 2 * width))
        gate = node("Mul", "mlp/act", gate, node("Sigmoid", "mlp/act", gate))
        up = node("Mul", "mlp/mul", gate, node("MatMul", "mlp/up", x, weight("mlp.up", width, 2 * width)))
        x = node("Add", "mlp/residual", x, node("MatMul", "mlp/down", up, weight("mlp.down", 2 * width, width)))
        layer += 1
    return onnx_file(folder / "decoder.onnx", nodes, x, weights, [1, 4, width])


def tensors(folder: Path) -> Path:
    """Write only the thirty weights."""
    save_file(
        {f"layer{i}.weight": np.full((SIDE, SIDE), i, np.float32) for i in range(MATRICES)}, folder / "w.safetensors"
    )
    return folder / "w.safetensors"


def test_looking_at_files(tmp_path: Path) -> None:
    """Target: 150 MB above the imports to show 503 MB of weights, and 1 s to open 10,000 operators."""
    rows = []
    for make in (heavy, tensors, long, decoder):
        path = make(tmp_path)
        done = subprocess.run([sys.executable, "-c", _PROGRAM, str(path)], capture_output=True, text=True, check=True)
        figures = json.loads(done.stdout)
        steps = [f"{seconds:,.2f}" for seconds in figures[::2]]
        rows.append([path.name, f"{path.stat().st_size / 1e6:,.0f}", *steps, f"{figures[-1]:,.0f}"])
        path.unlink()
    header = ["file", "MB", "open, s", "plan, s", "page, s", "peak above import, MB"]
    title = f"files looked at, processor time (load {os.getloadavg()[0]:.1f})"
    print(table(title, header, rows, ["onnx", "numpy"]))
