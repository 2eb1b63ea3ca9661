"""Toy adapter of a compiler, and a recording without any number that a compiler may omit."""

from __future__ import annotations

from explorer.compilers import Compiled, CompiledKernel, Snapshot, Statement, Value, recording_of
from explorer.record import Kernel, Recording, Run, Schedule, Source, Stage, Step


def toy_compiler() -> Recording:
    """Return the recording of a compiler with two passes: one removes exp(log(x)), the other fuses elementwise."""
    shape = (4, 8)
    given = {
        "x": Value("x", shape=shape, kind="leaf"),
        "log.1": Value("log", ("x",), shape, scope=("block",), source=Source("toy.txt", 1, "a = exp(log(x))")),
        "exp.2": Value("exp", ("log.1",), shape, scope=("block",), source=Source("toy.txt", 1, "a = exp(log(x))")),
        "tanh.3": Value("tanh", ("exp.2",), shape, source=Source("toy.txt", 2, "b = tanh(a)")),
        "mul.4": Value("mul", ("tanh.3", "tanh.3"), shape, source=Source("toy.txt", 3, "c = b * b")),
        "sum.5": Value("sum", ("mul.4",), (), source=Source("toy.txt", 4, "d = sum(c)")),
    }
    simplified = {
        "x": given["x"],
        "tanh.7": Value("tanh", ("x",), shape),
        "mul.8": Value("mul", ("tanh.7", "tanh.7"), shape),
        "sum.9": Value("sum", ("mul.8",)),
    }
    refused = Statement(
        "loops",
        "declined",
        "`{producer}` is not fused into `{reader}`: {why}",
        ("mul.8", "sum.9"),
        code="reduction",
        facts={"producer": "mul.8", "reader": "sum.9", "why": "a reduction reads its operand once"},
        location="toy.cc:12",
    )
    return recording_of(
        "toy",
        [
            Snapshot("given", given, ("sum.5",)),
            Snapshot("simplify", simplified, ("sum.9",), purpose="Removes pairs of inverse functions.", micros=3.0),
            Snapshot("loops", simplified, ("sum.9",), (refused,), {"loop_1": ("tanh.7", "mul.8")}),
        ],
    )


def unknown() -> Recording:
    """Return a recording of two kernels and their times, without any other number."""
    x = Value("x", shape=(4, 8), kind="leaf")
    values = {"x": x, "a": Value("exp", ("x",), (4, 8)), "b": Value("sum", ("a",))}
    recording = recording_of("unknown", [Snapshot("given", values, ("b",))])
    recording.schedule = Schedule((Kernel((1,), bytes=128), Kernel((2,), bytes=4)))
    recording.stages += [Stage("order", "order", 0, 0, {"kernels": 2}), Stage("run", "run", 0, 0, {"steps": 2})]
    recording.run = Run("toy", (Step(0, 0.0, 3.0), Step(1, 3.0, 5.0)), 8.0, warm=True)
    return recording


LOOP = """define void @loop_1(ptr %x, ptr %c) {
  %a = call float @tanhf(float %x.i)
  %b = fmul float %a, %a
  store float %b, ptr %c
}"""


def compiled_toy() -> Recording:
    """Return the recording of a compiler that reports rounds, kernels, code, placement, times and memory.

    Both kernels compute tanh, because a second kernel would otherwise wait for its value.
    """
    shape = (4, 8)
    x = Value("x", shape=shape, kind="leaf")
    line = Source("toy.txt", 2, "b = tanh(a)")
    given = {
        "x": x,
        "tanh": Value("tanh", ("x",), shape, source=line, flops=320),
        "mul": Value("mul", ("tanh", "tanh"), shape, source=Source("toy.txt", 3, "c = b * b"), flops=32),
        "sum": Value("sum", ("tanh",), (), source=Source("toy.txt", 4, "d = sum(b)"), flops=31),
    }
    results = ("mul", "sum")
    passes = [Snapshot("given", given, results)]
    passes += [Snapshot(f"check {number}", given, results) for number in range(9)]
    refused = [
        Statement("loops", "declined", f"Round {number} leaves `{{a}}` apart from `{{b}}`.", ("mul", "sum"),
                  facts={"a": "mul", "b": "sum"}, author="toy's log")
        for number in (1, 2)
    ]  # fmt: skip
    passes += [Snapshot("loops", given, results, (each,), decides="kernels") for each in refused]
    kernels = {"loop_1": ("tanh", "mul"), "loop_2": ("tanh", "sum")}
    passes.append(Snapshot("loops", given, results, kernels=kernels, limits="a loop has one result"))
    one = CompiledKernel(
        ("tanh", "mul"), "loop_1", 3.0, None, 0, 128, "ToyProvider", "cpu:0", "LLVM IR", LOOP,
        {"tanh": (2,), "mul": (3,)},
    )  # fmt: skip
    two = CompiledKernel(("tanh", "sum"), "loop_2", 5.0, provider="OtherProvider")
    return recording_of("compiled toy", passes, Compiled((one, two), "toy 1.0", (128,), 132))


def two_norms(*, is_refused: bool = True) -> Recording:
    """Return two chains of operations that share two kernels, by default with a refused pattern of four operations."""
    given = {name: Value(name, kind="leaf") for name in ("x", "y")}
    for name in ("x", "y"):
        given[f"square {name}"] = Value("square", (name,), scope=("roots",))
        given[f"sqrt {name}"] = Value("sqrt", (f"square {name}",), scope=("roots",))
        given[f"add {name}"] = Value("add", (f"sqrt {name}",), scope=("roots",))
        given[f"div {name}"] = Value("div", (name, f"add {name}"), scope=("quotients",))
    refused = Statement(
        "norm", "declined", "`{add}` is added to the root.", ("add x", "div x", "sqrt x", "square x"),
        facts={"add": "add x"},
    )  # fmt: skip
    results = ("div x", "div y")
    kernels = {"roots": ("square x", "square y", "sqrt x", "sqrt y", "add x", "add y"), "quotients": results}
    passes = [
        Snapshot("given", given, results),
        Snapshot("fusion", given, results, (refused,) * is_refused, kernels, decides="kernels", limits="one loop"),
    ]
    compiled = Compiled(tuple([CompiledKernel(values, name) for name, values in kernels.items()]), "toy 1.0")
    return recording_of("two norms", passes, compiled)
