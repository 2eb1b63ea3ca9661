"""Real models in float32 with one and two threads: explorer's ``net.run``, onnxruntime, torch eager and ncnn."""

from __future__ import annotations

import time
import tracemalloc
from collections import defaultdict
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import explorer as ex
from explorer.plan.graph.cost_model import result_bytes
from explorer.plan.schedule.schedule import Kernel
from explorer.run.execution.executors import run_simple
from explorer.run.execution.program import Program
from explorer.run.runtime.timing import Timing
from tests.bench.contest import PAUSE, samples, table
from tests.bench.models import ENCODER, MOBILENET_V2, RESNET18, RESNET18_8, Model

pytestmark = [pytest.mark.bench, pytest.mark.filterwarnings("default")]

MODELS = {"resnet18-1": RESNET18, "resnet18-8": RESNET18_8, "mobilenet_v2": MOBILENET_V2, "encoder": ENCODER}
Run = Callable[[], np.ndarray[Any, Any]]


def by_explorer(model: Model, threads: int) -> Run:
    net, given = ex.open(model.file("pnnx.param")), model.input()
    return lambda: net.run(given)


def by_compiled_kernels(model: Model, threads: int) -> Run:
    net, given = ex.open(model.file("pnnx.param")), model.input()
    return lambda: net.run(given, kernels="native")


def by_onnxruntime(model: Model, threads: int) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(model.file("onnx"), options, providers=["CPUExecutionProvider"])
    given = {session.get_inputs()[0].name: model.input()}
    return lambda: session.run(None, given)[0]


def by_torch(model: Model, threads: int) -> Run:
    import torch

    torch.set_num_threads(threads)
    module, given = model.module(), torch.from_numpy(model.input())

    def run() -> np.ndarray[Any, Any]:
        with torch.inference_mode():
            result: np.ndarray[Any, Any] = module(given).numpy()
        return result

    return run


def by_ncnn(model: Model, threads: int) -> Run:
    """Return a run of ncnn, which runs one image at a time, so that a batch needs several runs; float32 as for all
    others."""
    import ncnn

    net = ncnn.Net()
    options = net.opt
    options.num_threads, options.use_vulkan_compute = threads, False
    options.use_fp16_packed = options.use_fp16_storage = options.use_fp16_arithmetic = options.use_bf16_storage = False
    one = Model(model.name, model.architecture, (1, *model.shape[1:]), model.tokens)
    assert net.load_param(str(one.file("ncnn.param"))) == net.load_model(str(one.file("ncnn.bin"))) == 0
    given = [part.astype(np.int32) if model.tokens else part for part in model.input()]

    def run() -> np.ndarray[Any, Any]:
        results = []
        for part in given:
            with net.create_extractor() as extractor:
                extractor.input("in0", ncnn.Mat(part))
                results.append(np.array(extractor.extract("out0")[1]))
        return np.stack(results)

    return run


CONTESTANTS = {
    "explorer": by_explorer,
    "explorer, native": by_compiled_kernels,
    "onnxruntime": by_onnxruntime,
    "torch": by_torch,
    "ncnn": by_ncnn,
}
PACKAGES = ["numpy", "onnxruntime", "torch", "ncnn", "pnnx"]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_times(name: str, threads: int) -> None:
    """All contestants agree (to 1e-4 of the largest value); print medians in ms and explorer's ratios to each."""
    with threadpool_limits(threads):
        compare(name, threads)


def compare(name: str, threads: int) -> None:
    """Print the times of all contestants."""
    model = MODELS[name]
    runs = {contestant: make(model, threads) for contestant, make in CONTESTANTS.items()}
    results = {contestant: run() for contestant, run in runs.items()}
    expected = results["torch"]
    for contestant, values in results.items():
        assert _apart(values, expected) <= 1e-4, contestant
    times = samples(runs, rounds=3, burst=20 if name == "encoder" else 3)
    middle = {contestant: median(spent) for contestant, spent in times.items()}
    rows = [
        [
            contestant,
            f"{middle[contestant]:.2f}",
            f"{min(spent):.2f}",
            f"{middle['explorer'] / middle[contestant]:.2f}",
            f"{middle['explorer, native'] / middle[contestant]:.2f}",
            f"{_apart(results[contestant], expected):.1e}",
        ]
        for contestant, spent in times.items()
    ]
    header = ["", "ms (median)", "least", "explorer : it", "native : it", "values apart from torch's"]
    title = f"{model.name} {'×'.join(map(str, model.shape))}, {threads} threads"
    print(table(title, header, rows, PACKAGES))
    print(breakdown(model))
    print(memory(model))


def _apart(values: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> float:
    return float(np.abs(values.reshape(expected.shape) - expected).max() / np.abs(expected).max())


def ready(model: Model) -> Callable[[], tuple[Program, Timing]]:
    """Return a function that runs the plan once and returns the program with its kernel times."""
    net = ex.open(model.file("pnnx.param"))
    given = model.input()
    net.run(given)
    build = net.session.build_for(net.session.arrays((given,), {}), net.device)
    program = net.session.program(build)

    def run() -> tuple[Program, Timing]:
        program.bind(dict.fromkeys(build.inputs.values(), given))
        timing = run_simple(program)
        program.take()
        return program, timing

    return run


def breakdown(model: Model, runs: int = 7) -> str:
    """Print explorer's time by kind of kernel: the sum of each kernel's minimum time, and the rate."""
    run = ready(model)
    run()
    spent: list[list[int]] = []
    for _ in range(runs):
        time.sleep(PAUSE)
        run()
        program, timing = run()
        spent.append([ended - began for began, ended in zip(timing.began, timing.ended, strict=True)])
    each = [min(column) / 1e6 for column in zip(*spent, strict=True)]
    kernels = program.planned.schedule.kernels[-len(each) :]
    groups: dict[str, list[tuple[Kernel, float]]] = defaultdict(list)
    for kernel, took in zip(kernels, each, strict=True):
        groups[what(kernel)].append((kernel, took))
    rows = []
    for name, members in sorted(groups.items(), key=lambda item: -sum(took for _, took in item[1])):
        took = sum(took for _, took in members)
        flops = sum(kernel.cost.flops for kernel, _ in members)
        share = f"{100 * took / sum(each):.1f} %"
        rows.append([name, str(len(members)), f"{took:.3f}", share, f"{flops / took / 1e6:.1f}" if took else "–"])
    rows.append(
        ["all", str(len(each)), f"{sum(each):.3f}", "", f"{sum(k.cost.flops for k in kernels) / sum(each) / 1e6:.1f}"]
    )
    return table("where explorer's time goes", ["kernel", "count", "ms", "share", "GFLOP/s"], rows, ["numpy"])


def what(kernel: Kernel) -> str:
    """Return the operations of a kernel, with the window of a convolution."""
    names = []
    for node in kernel.nodes:
        name = node.operation.name
        if "conv" in name and len(node.operands) > 1:
            filters = node.operands[1].tensor_type.shape
            strides = getattr(node.operation, "strides", (1, 1))
            name += f" {'×'.join(map(str, filters[2:]))}" + f"/{strides[0]}" * (strides[0] > 1)
            name += " depthwise" * (getattr(node.operation, "groups", 1) > 1)
        names.append(name)
    return " · ".join(dict.fromkeys(names))


def memory(model: Model) -> str:
    """Print the planned peak, its bounds, and what NumPy allocates in a second run besides the planned memory."""
    run = ready(model)
    program, _ = run()
    schedule = program.planned.schedule
    tracemalloc.start()
    try:
        run()
        allocated = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    results = sum(root.type.nbytes for root in schedule.roots)
    recorded = program.planned.graph.recorded
    workspace = max(kernel.cost.workspace for kernel in schedule.kernels)
    figures = {
        "no reuse, each recorded operation by itself": sum(result_bytes(node) for node in recorded if node.operands),
        "no reuse, each kernel's result": schedule.peak_without_reuse,
        "no reuse, each kernel's result and workspace": sum(k.cost.bytes + k.cost.workspace for k in schedule.kernels),
        "bound: alive at the worst moment": schedule.peak_lower_bound,
        "largest workspace": workspace,
        "planned peak": schedule.peak,
        "arena": schedule.arena,
        "allocated in a second run": allocated,
        "of that results": results,
    }
    rows = [[name, f"{size / 1e6:.3f}", f"{size / schedule.peak_lower_bound:.3f}"] for name, size in figures.items()]
    return table("memory of intermediates", ["", "MB", "× bound"], rows, ["numpy"])
