"""Programs on a GPU in float32: explorer's prepared programs against CuPy and torch eager.

Run ``python -m pytest -m "bench and gpu" -s tests/bench/test_gpu.py`` where CuPy and torch find a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.run.execution.executors import run_simple
from explorer.run.execution.program import Program
from tests.bench.contest import compared, contest
from tests.bench.programs import chain

pytestmark = [pytest.mark.bench, pytest.mark.gpu, pytest.mark.spec("C-1"), pytest.mark.filterwarnings("default")]

PACKAGES = ["cupy-cuda13x", "cupy-cuda12x", "torch"]
RNG = np.random.default_rng(0)
SQUARE = RNG.normal(size=(4096, 4096)).astype(np.float32)
OTHER = RNG.normal(size=(4096, 4096)).astype(np.float32)
IMAGES = RNG.normal(size=(32, 64, 56, 56)).astype(np.float32)
FILTERS = RNG.normal(size=(64, 64, 3, 3)).astype(np.float32) * 0.1
SAMPLES = RNG.normal(size=(256, 784)).astype(np.float32)
WEIGHTS = [RNG.normal(size=shape).astype(np.float32) * 0.05 for shape in ((784, 512), (512, 256), (256, 10))]


def _explorer(build: Callable[..., Any], arrays: Sequence[Any], without: Sequence[str] = ()) -> Callable[[], Any]:
    gpu = ex.device("cuda")
    plan = ex.EvalPlan(without=without)
    roots = build(*[ex.tensor(array, device=gpu) for array in arrays])
    for root in roots if isinstance(roots, (list, tuple)) else [roots]:
        plan.register(root)
    program = Program(plan.prepare().planned)

    def run() -> None:
        run_simple(program)
        program.take()
        gpu.finish()

    return run


def _torch(build: Callable[..., Any], arrays: Sequence[Any], *, differentiated: bool = False) -> Callable[[], Any]:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    tensors = [torch.tensor(array, device="cuda", requires_grad=differentiated) for array in arrays]

    def run() -> None:
        build(*tensors)
        torch.cuda.synchronize()

    return run


def _cupy(build: Callable[..., Any], arrays: Sequence[Any]) -> Callable[[], Any]:
    import cupy

    there = [cupy.asarray(array) for array in arrays]

    def run() -> None:
        build(*there)
        cupy.cuda.Device().synchronize()

    return run


def _mlp(x: Any, *weights: Any) -> Any:
    for weight in weights[:-1]:
        x = ex.relu(x @ weight)
    loss = ((x @ weights[-1]) ** 2).mean()
    return [loss, *ex.grad(loss, list(weights))]


def _torch_mlp(x: Any, *weights: Any) -> Any:
    import torch

    for weight in weights[:-1]:
        x = torch.relu(x @ weight)
    return torch.autograd.grad(((x @ weights[-1]) ** 2).mean(), weights)


def _report(title: str, contestants: dict[str, Callable[[], Any]], ours: int) -> None:
    print(compared(title, contest(contestants, rounds=5, burst=8), PACKAGES, ours))


def test_a_chain_of_ten_operations() -> None:
    arrays = (SQUARE, OTHER)
    _report(
        "ten elementwise operations on 16.8 million elements",
        {
            "explorer": _explorer(chain, arrays),
            "explorer, not fused": _explorer(chain, arrays, ["fuse"]),
            "CuPy": _cupy(chain, arrays),
            "torch eager": _torch(chain, arrays),
        },
        2,
    )


def test_a_softmax_of_rows() -> None:
    import torch

    _report(
        "softmax of the rows of 4096×4096",
        {
            "explorer": _explorer(lambda x: ex.softmax(x, 1), (SQUARE,)),
            "torch eager": _torch(lambda x: torch.softmax(x, 1), (SQUARE,)),
        },
        1,
    )


def test_a_convolution() -> None:
    import torch

    arrays = (IMAGES, FILTERS)
    _report(
        "convolution 3×3 of 32 images, 64×56×56, by 64 filters",
        {
            "explorer": _explorer(lambda x, w: ex.conv2d(x, w, padding=1), arrays),
            "torch eager": _torch(lambda x, w: torch.nn.functional.conv2d(x, w, padding=1), arrays),
        },
        1,
    )


def test_a_step_of_training() -> None:
    arrays = (SAMPLES, *WEIGHTS)
    _report(
        "loss and gradients of three linear layers, 256 samples",
        {"explorer": _explorer(_mlp, arrays), "torch eager": _torch(_torch_mlp, arrays, differentiated=True)},
        1,
    )
