"""CUDA C source of fused chains: the statements, and on a GPU the values."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.types.tensor_type import Array
from explorer.run.kernels.device_chain import FUNCTIONS, source_of
from explorer.run.native import library
from tests.support.accelerator import accelerator

RNG = np.random.default_rng(0)
X: Array = np.concatenate([RNG.normal(size=(6, 4)) * 3, [[0.0, -0.0, np.inf, np.nan]]]).astype(np.float32)
WHOLE: Array = RNG.integers(-100, 100, (7, 4)).astype(np.int8)


def _chains(x: ex.Expr, whole: ex.Expr) -> dict[str, ex.Expr]:
    """Return chains of operations with CUDA source, by name."""
    y = ex.absolute(x) + 1
    return {
        "arithmetic": -(x * 2 + 1) / 3 - ex.square(x),
        "exponentials": ex.exp(ex.tanh(x)) + ex.log(y) * ex.log1p(y) - ex.expm1(-y) + ex.sqrt(y) + 1 / y,
        "waves": ex.sin(x) * ex.cos(x) + ex.arctan(x) - ex.sinh(ex.tanh(x)),
        "rounding": ex.floor(x * 2) + ex.ceil(x) - ex.round_half_even(x * 0.5),
        "extremes": ex.maximum(x, ex.minimum(-x, 1.5)) * 2,
        "approximations": ex.gelu(x, approximate=True) + ex.silu(x) - ex.hardswish(x) * ex.leaky_relu(x),
        "signs": ex.sign(x) * ex.softplus(x) - ex.elu(x),
        "limits": ex.clip(x, -np.inf, 2.0) + 1,
        "activations": ex.sigmoid(x) + ex.relu(x) * ex.gelu(x) - ex.erf(x) + ex.clip(x, -0.5, 6.0),
        "choices": ex.where((x > 0.5) & ex.isfinite(x), x * 2, -x),
        "powers": ex.power(y, 1.7) + ex.power(y, -0.5),
        "small integers": (whole + whole) * whole - 5,
        "mixed": whole * x + ex.cast(whole, "float64"),
        "broadcast": (x + x[0]) * x[:, 1:2],
    }


NAMES = sorted(_chains(ex.tensor(X), ex.tensor(WHOLE)))


def _source(root: ex.Expr) -> list[str | None]:
    plan = ex.EvalPlan(without=["simplify", "dedup"])
    plan.register(root)
    plan.prepare()
    planned = plan.planned
    inputs = planned.graph.inputs
    return [
        source_of(kernel.blocks.steps, lambda node: inputs[node.uid], kernel.reads)
        for kernel in planned.schedule.kernels
        if len(kernel.nodes) > 1
    ]


@pytest.mark.spec("C-1")
def test_a_chain_is_one_statement_for_each_operation() -> None:
    x = ex.tensor(X, device=accelerator)
    assert _source(ex.exp(-ex.tanh(x * 2)) / 3) == [
        "const float v0 = (float)((a0) * (a1));\n"
        "const float v1 = (float)(tanh_f32((v0)));\n"
        "const float v2 = (float)(-(v1));\n"
        "const float v3 = (float)(exp_f32((v2)));\n"
        "const float v4 = (float)((v3) / (a2));\n"
        "out = v4;"
    ]


@pytest.mark.spec("C-1")
def test_operands_are_converted_as_in_numpy() -> None:
    whole = ex.tensor(WHOLE, device=accelerator)
    x = ex.tensor(X, device=accelerator)
    (source,) = _source((whole + whole) * x)
    assert source == (
        "const signed char v0 = (signed char)((a0) + (a0));\nconst float v1 = (float)(((float)(v0)) * (a1));\nout = v1;"
    )


@pytest.mark.spec("C-1")
@pytest.mark.parametrize("name", NAMES)
def test_chains_with_cuda_source(name: str) -> None:
    sources = _source(_chains(ex.tensor(X, device=accelerator), ex.tensor(WHOLE, device=accelerator))[name])
    assert sources
    assert None not in sources


@pytest.mark.spec("C-1")
@pytest.mark.parametrize("name", NAMES)
def test_statements_and_functions_are_correct_c(name: str, tmp_path: Path, compiler: None) -> None:
    """Without a GPU, a C compiler checks names, types and syntax."""
    found = library.compiler()
    assert found is not None
    sources = _source(_chains(ex.tensor(X, device=accelerator), ex.tensor(WHOLE, device=accelerator))[name])
    head = "#include <math.h>\n#include <stdbool.h>\n#define __device__ static\n"
    parts = [head, FUNCTIONS]
    for number, source in enumerate(sources):
        assert source is not None
        operands = "".join([f"float {name}, " for name in sorted({*re.findall(r"\ba\d+\b", source)})])
        parts.append(f"void chain{number}({operands}double out) {{\n{source}\n(void)out;\n}}\n")
    code = tmp_path / "chain.c"
    code.write_text("\n".join(parts))
    command = [*found.command, "-fsyntax-only", "-Wall", "-Wno-unused-function", "-Wno-unused-but-set-parameter"]
    checked = subprocess.run([*command, "-Werror", str(code)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.spec("C-1")
@pytest.mark.parametrize(
    "build",
    [
        lambda x: x.astype(np.float16) * 2,
        lambda x: ex.copysign(2.0, x) * 2,
        lambda x: (x * 2).astype(np.int32) + 1,
    ],
)
def test_other_chains_are_computed_one_operation_at_a_time(build: Callable[[Any], ex.Expr]) -> None:
    x = ex.tensor(X[:-1], device=accelerator)
    assert None in _source(build(x))
    np.testing.assert_array_equal(ex.evaluate(build(x)), ex.evaluate(build(ex.tensor(X[:-1]))))


@pytest.mark.gpu
@pytest.mark.spec("C-1")
@pytest.mark.parametrize("name", NAMES)
def test_a_fused_kernel_gives_the_bits_of_separate_kernels(name: str) -> None:
    """The error function and operations that use it are exempt: CUDA has one, while the separate kernel uses a
    quotient."""
    gpu = ex.device("cuda")
    chains = [_chains(ex.tensor(X, device=device), ex.tensor(WHOLE, device=device)) for device in (gpu, gpu, ex.cpu)]
    values = []
    for chain, without in zip(chains, ([], ["fuse"], []), strict=True):
        plan = ex.EvalPlan(without=without)
        handle = plan.register(chain[name])
        plan.eval()
        values.append(handle.data())
    compiled, apart, expected = values
    if name in ("activations", "approximations"):
        np.testing.assert_allclose(compiled, apart, rtol=1e-5, atol=1e-6)
    else:
        np.testing.assert_array_equal(compiled, apart)
    np.testing.assert_allclose(compiled, expected, rtol=1e-5, atol=1e-6)
