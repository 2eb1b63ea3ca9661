"""Recordings for tests of views: plans of models, and small, large and hostile recordings written by hand."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

import explorer as ex
from explorer.core.ir.function import Parameter
from explorer.core.types.tensor_type import TensorType
from explorer.record import (
    Body,
    Decision,
    Group,
    Kernel,
    Kind,
    Recording,
    Run,
    Schedule,
    Scope,
    Source,
    Stage,
    Step,
    Summary,
    Type,
)
from tests.support.cells import MODELS

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    '"];evil[label="',
    "</script><script>alert(1)</script>",
    "a\x00\x1b[31m\nb\u202ec",
)


class Builder:
    """Builder of a recording, row by row."""

    def __init__(self, title: str = "", fingerprint: str = "") -> None:
        self.recording = Recording(title=title, fingerprint=fingerprint, bodies=[Body("", (), ())])
        self.lines: dict[tuple[str, int], int] = {}

    def type(self, *shape: int, dtype: str = "float32", parts: tuple[int, ...] = ()) -> int:
        row = Type(shape, dtype, "cpu", parts)
        if row not in self.recording.types:
            self.recording.types.append(row)
        return self.recording.types.index(row)

    def scope(self, name: str, kind: str = "scope", parent: int = 0, type: str = "") -> int:
        self.recording.scopes.append(Scope(name, kind, parent, type))
        return len(self.recording.scopes) - 1

    def line(self, where: str, line: int, text: str) -> int:
        if (where, line) not in self.lines:
            self.lines[where, line] = len(self.recording.sources)
            self.recording.sources.append(Source(where, line, text))
        return self.lines[where, line]

    def node(
        self,
        operation: str,
        *operands: int,
        kind: Kind = "operation",
        label: str = "",
        type: int = 0,
        scope: int = 0,
        source: int = -1,
        flops: int = 0,
        bytes: int = 0,
        born: int = -1,
        body: int = 0,
        callee: int = -1,
    ) -> int:
        recording, nodes = self.recording, self.recording.nodes
        if operation not in recording.operations:
            recording.operations.append(operation)
        row = {
            "operation": recording.operations.index(operation),
            "kind": kind,
            "label": label or operation,
            "type": type,
            "operands": operands,
            "scope": scope,
            "source": source,
            "flops": flops,
            "bytes": bytes,
            "born": born,
            "gone": -1,
            "body": body,
            "callee": callee,
        }
        for column, value in row.items():
            getattr(nodes, column).append(value)
        return len(nodes) - 1

    def leaf(self, name: str, type: int = 0, **more: Any) -> int:
        return self.node("tensor", kind="leaf", label=name, type=type, **more)

    def number(self, value: str, **more: Any) -> int:
        return self.node("number", kind="constant", label=value, **more)

    def stage(self, name: str, kind: str, purpose: str = "", **counts: int) -> None:
        """Begin a stage, to which the following decisions belong."""
        start = len(self.recording.decisions)
        self.recording.stages.append(Stage(name, kind, start, start, counts, purpose))

    def decide(
        self,
        rule: str,
        code: str,
        reason: str,
        subjects: Sequence[int],
        produced: Sequence[int] = (),
        *,
        applied: bool = True,
        replace: Sequence[tuple[int, int]] = (),
        gone: Sequence[int] = (),
        group: tuple[str, str] | None = None,
        chain: int = 0,
        location: str = "",
        **facts: Any,
    ) -> int:
        recording = self.recording
        number, stage = len(recording.decisions), recording.stages[-1]
        verdict = "applied" if applied else "declined"
        where = location or f"passes/{stage.name}.py:{20 + 7 * chain}"
        recording.decisions.append(
            Decision(
                len(recording.stages) - 1,
                rule,
                verdict,
                code,
                reason,
                facts,
                tuple(subjects),
                tuple(produced),
                chain,
                where,
            )
        )
        recording.stages[-1] = Stage(
            stage.name, stage.kind, stage.first, number + 1, stage.counts, stage.purpose, stage.micros
        )
        for old, new in replace:
            recording.substitutions.append((number, old, new))
        for node in (*gone, *(old for old, _ in replace)):
            recording.nodes.gone[node] = number
        if group is not None:
            recording.groups.append(Group(number, *group, tuple(subjects)))
        return number

    def next_decision(self) -> int:
        return len(self.recording.decisions)

    def roots(self, *nodes: int) -> Recording:
        self.recording.bodies[0] = Body("", (), nodes)
        return self.recording


def mlp() -> Recording:
    """Return a small plan: two equal matmuls merge, bias and tanh fuse, log(softmax) becomes stable."""
    make = Builder("loss", "7f3a90c2e1b45d68")
    wide, weight, bias, out, scalar = (
        make.type(32, 64), make.type(64, 48), make.type(48), make.type(32, 48), make.type(),
    )  # fmt: skip
    first = make.line("In[3]", 1, "h = ex.tanh(x @ W + b)")
    second = make.line("In[3]", 2, "h = h + 2 * (x @ W) * 1")
    third = make.line("In[3]", 3, "loss = ex.nll(ex.log(ex.softmax(h)), t)")
    x = make.leaf("x", wide, bytes=8192)
    w = make.leaf("W", weight, bytes=12288)
    b = make.leaf("b", bias, bytes=192)
    t = make.leaf("t", out, bytes=6144)
    mine = {"type": out, "bytes": 6144}
    product = make.node("matmul", x, w, source=first, flops=196608, **mine)
    biased = make.node("add", product, b, source=first, flops=1536, **mine)
    active = make.node("tanh", biased, source=first, flops=15360, **mine)
    again = make.node("matmul", x, w, source=second, flops=196608, **mine)
    two, one = make.number("2", type=scalar), make.number("1", type=scalar)
    doubled = make.node("multiply", again, two, source=second, flops=1536, **mine)
    same = make.node("multiply", doubled, one, source=second, flops=1536, **mine)
    joined = make.node("add", active, same, source=second, flops=1536, **mine)
    soft = make.node("softmax", joined, source=third, flops=20000, **mine)
    log = make.node("log", soft, source=third, flops=15360, **mine)
    loss = make.node("nll", log, t, source=third, flops=3072, type=scalar, bytes=4)

    make.stage("recorded", "record", "what the program wrote", nodes=14, operations=10, flops=453_000, bytes=55_300)
    make.stage("simplify", "rewrite", "less or safer work", nodes=12, operations=8, flops=450_000, bytes=43_000)
    make.decide(
        "MultiplyByOne",
        "identity",
        "{node} is its operand: multiplying by 1 changes nothing",
        (same,),
        replace=[(same, doubled)],
        node={"node": same},
        saved_bytes=6144,
    )
    make.decide(
        "ScaleIntoMatmul",
        "not-free",
        "scaling {weight} would copy it: {copy_bytes} more, for {saved_flops} less",
        (doubled,),
        applied=False,
        weight={"node": w},
        copy_bytes=12288,
        saved_flops=1536,
        chain=1,
    )
    stable = make.node("log-softmax", joined, source=third, flops=23000, born=make.next_decision(), **mine)
    make.decide(
        "LogOfSoftmax",
        "stable",
        "{outer} of {inner} overflows at large inputs; {new} does not",
        (log, soft),
        (stable,),
        replace=[(log, stable)],
        gone=[soft],
        chain=2,
        outer={"node": log},
        inner={"node": soft},
        new={"node": stable},
        saved_bytes=6144,
    )
    make.stage("dedup", "rewrite", "merge what is computed twice", nodes=11, operations=7, flops=250_000, bytes=37_000)
    make.decide(
        "Dedup",
        "same-value",
        "{other} computes what {node} does: same operation, same operands",
        (again,),
        replace=[(again, product)],
        node={"node": product},
        other={"node": again},
        saved_flops=196608,
        saved_bytes=6144,
    )
    make.stage(
        "fuse",
        "rewrite",
        "run neighbours as one kernel",
        nodes=11,
        operations=7,
        kernels=4,
        flops=250_000,
        bytes=24_600,
    )
    make.decide(
        "MatmulEpilogue",
        "many-consumers",
        "{node} has {consumers} consumers: {readers}",
        (product, biased),
        applied=False,
        node={"node": product},
        consumers=2,
        readers=[{"node": biased}, {"node": doubled}],
    )
    make.decide(
        "ElementwiseChain",
        "one-consumer",
        "{first} and {second} run as one kernel: one consumer, equal shape {shape}; "
        "a {temporary_bytes} temporary is never written",
        (biased, active),
        group=("kernel", "2 operations · −6 KB"),
        chain=1,
        first={"node": biased},
        second={"node": active},
        shape="32×48",
        temporary_bytes=6144,
    )
    make.decide(
        "ElementwiseChain",
        "joins-two",
        "{node} joins two chains; it would compute {twice} twice ({cost_us} more)",
        (joined,),
        applied=False,
        node={"node": joined},
        twice={"node": active},
        cost_us=1.1,
        chain=1,
    )
    make.decide(
        "LossEpilogue",
        "one-consumer",
        "{nodes} run as one kernel: rows of {row} stay in cache",
        (joined, stable, loss),
        group=("kernel", "log-softmax + nll · −12 KB"),
        chain=2,
        nodes=[{"node": joined}, {"node": stable}, {"node": loss}],
        row=48,
    )
    make.stage("order", "order", "choose what runs next", kernels=4)
    make.stage("buffers", "memory", "share memory between values that never meet", peak=18432, buffers=3)
    make.stage("run", "run", "measured", steps=4)
    make.recording.schedule = Schedule(
        (
            Kernel((product,), 1, 0, 196608, 6144, 0, 21.0, 0, False, (product,), 1, "only", (), 6144),
            Kernel((biased, active), 2, 0, 16896, 6144, 0, 1.9, 1, False, (active, doubled), 2, "earliest", (), 12288),
            Kernel((doubled,), 2, 1, 1536, 6144, 0, 1.2, 0, True, (doubled,), 1, "only", (product,), 12288),
            Kernel(
                (joined, stable, loss),
                3,
                0,
                27608,
                4,
                6144,
                9.1,
                2,
                False,
                (loss,),
                1,
                "only",
                (active, doubled),
                18436,
            ),
        ),
        (6144, 6144, 4),
        18436,
        31000,
    )
    histogram = (
        1,
        2,
        3,
        5,
        8,
        12,
        18,
        26,
        35,
        45,
        55,
        64,
        72,
        78,
        82,
        84,
        84,
        82,
        78,
        72,
        64,
        55,
        45,
        35,
        26,
        18,
        12,
        8,
        5,
        3,
        2,
        1,
    )
    heat = tuple(tuple((7 * row * row + 13 * column) % 256 for column in range(12)) for row in range(8))
    values = {
        node: Summary((32, 48), "float32", -0.998, 0.997, 0.01, 0.62, 0, 0, histogram, heat)
        for node in (product, biased, active, doubled, joined, stable)
    }
    values[loss] = Summary((), "float32", 2.73, 2.73, 2.73, 0.0, 0, 0, elements="2.73")
    steps = (Step(0, 0.0, 22.4, 6144), Step(1, 23.0, 2.0, 12288), Step(2, 25.5, 1.4, 12288), Step(3, 27.2, 13.8, 18436))
    make.recording.run = Run("simple", steps, 41.0, values)
    return make.roots(loss)


def chain(length: int = 100_000) -> Recording:
    """Return one leaf and a long chain of tanh."""
    make = Builder("chain", "c4a1")
    kind = make.type(8)
    last = make.leaf("x", kind)
    for _ in range(length):
        last = make.node("tanh", last, type=kind, flops=80, bytes=32)
    make.stage("recorded", "record", nodes=length + 1)
    return make.roots(last)


def dag(count: int = 10_000, window: int = 100, seed: int = 7) -> Recording:
    """Return a random graph without scopes, in which every node reads two of the ``window`` nodes before it."""
    make = Builder("dag", "da60")
    kind, pick = make.type(16, 16), random.Random(seed)
    names = ("add", "multiply", "matmul", "maximum")
    for node in range(count):
        if node < 4:
            make.leaf(f"x{node}", kind)
        else:
            operands = [pick.randrange(max(0, node - window), node) for _ in range(2)]
            make.node(pick.choice(names), *operands, type=kind, flops=256, bytes=1024)
    make.stage("recorded", "record", nodes=count)
    return make.roots(count - 1)


def transformer(blocks: int = 12) -> Recording:
    """Return repeated blocks in nested scopes, each with attention, a feed-forward layer and residual sums."""
    make = Builder("transformer", "7ea5f0")
    kind, square = make.type(16, 64), make.type(64, 64)
    model = make.scope("model", "layer")
    value = make.leaf("tokens", kind)
    for block in range(blocks):
        scope = make.scope(f"block{block}", "layer", model)
        attention, feed = make.scope("attention", "layer", scope), make.scope("feed", "layer", scope)
        parts = [
            make.node(
                "matmul",
                value,
                make.leaf(name, square, scope=attention),
                type=kind,
                scope=attention,
                flops=131072,
                bytes=4096,
            )
            for name in ("Wq", "Wk", "Wv")
        ]
        score = make.node("matmul", parts[0], parts[1], type=kind, scope=attention, flops=131072, bytes=4096)
        soft = make.node("softmax", score, type=kind, scope=attention, flops=9000, bytes=4096)
        mixed = make.node("matmul", soft, parts[2], type=kind, scope=attention, flops=131072, bytes=4096)
        value = make.node("add", value, mixed, type=kind, scope=scope, flops=1024, bytes=4096)
        hidden = make.node(
            "matmul", value, make.leaf("W1", square, scope=feed), type=kind, scope=feed, flops=131072, bytes=4096
        )
        active = make.node("gelu", hidden, type=kind, scope=feed, flops=9000, bytes=4096)
        out = make.node(
            "matmul", active, make.leaf("W2", square, scope=feed), type=kind, scope=feed, flops=131072, bytes=4096
        )
        value = make.node("add", value, out, type=kind, scope=scope, flops=1024, bytes=4096)
    make.stage("recorded", "record", nodes=len(make.recording.nodes))
    return make.roots(value)


def scopes(groups: int, layers: int) -> Recording:
    """Return a chain in nested scopes, no two of which are equal, so that each has its own box."""
    make = Builder("scopes", "5c09e5")
    kind = make.type(4)
    value = make.leaf("x", kind)
    for group in range(groups):
        outer = make.scope(f"group{group}")
        for layer in range(layers):
            inner = make.scope(f"layer{group}.{layer}", parent=outer)
            for place in range(2):
                value = make.node(f"operation {group} {layer} {place}", value, type=kind, scope=inner)
    make.stage("recorded", "record", nodes=len(make.recording.nodes))
    return make.roots(value)


def hostile() -> Recording:
    """Return a recording with names that inject code into HTML, DOT, XML and terminals."""
    make = Builder(HOSTILE[0], HOSTILE[2])
    kind = make.type(2, 2)
    scope = make.scope(HOSTILE[1], "layer")
    line = make.line(HOSTILE[0], 1, HOSTILE[2])
    leaves = [make.leaf(name, kind, source=line) for name in HOSTILE]
    last = leaves[0]
    for name, leaf in zip(HOSTILE, leaves, strict=True):
        last = make.node(name, last, leaf, type=kind, scope=scope, source=line)
    make.stage(HOSTILE[1], "record", HOSTILE[2], nodes=len(make.recording.nodes))
    make.stage("simplify", "rewrite", nodes=7)
    make.decide(HOSTILE[0], "x", "{node} " + HOSTILE[2], (last,), applied=False, node={"node": last})
    return make.roots(last)


def weighted(run: bool = True) -> Recording:
    """A program that multiplies its input with a function of a weight, which is computed once, in another box."""
    x = Parameter(TensorType((64, 64), "float32"), "x")()
    w = ex.tensor(np.full((64, 64), 0.5, np.float32), name="w")
    with ex.scope("weight"):
        square = ex.exp(w @ w)
    with ex.scope("product"):
        y = ex.tanh(x @ square) @ w
    plan = ex.EvalPlan()
    plan.register(y)
    if run:
        plan.eval({x: np.ones((64, 64), np.float32)})
    return plan.prepare().recording if not run else plan.recording


def resnet() -> Recording:
    """Return the plan of ResNet-18 from a model file, without a run."""
    return ex.open(MODELS / "resnet18.pnnx.param").preview_plan().recording


def network(layers: int = 2) -> Recording:
    """Return the plan of a model file whose convolutions have boxes with weights, and one kernel with their relu."""
    make = Builder("network", "0f1e2d3c4b5a6978")
    image, weights, bias = make.type(1, 8, 8, 8), make.type(8, 8, 3, 3), make.type(8)
    x = make.leaf("x", image)
    kernels = []
    for number in range(1, layers + 1):
        own = make.scope(f"conv{number}", "file", type="nn.Conv2d")
        w = make.leaf(f"conv{number}.weight", weights, scope=own)
        b = make.leaf(f"conv{number}.bias", bias, scope=own)
        flat = make.node("reshape", b, type=bias, scope=own)
        product = make.node("conv2d", x, w, type=image, scope=own, flops=73728, bytes=2048)
        moved = make.node("add", product, flat, type=image, scope=own, flops=512, bytes=2048)
        after = make.scope(f"relu{number}", "file", type="nn.ReLU")
        x = make.node("relu", moved, type=image, scope=after, flops=512, bytes=2048)
        kernels.append((product, moved, x))
    make.stage("recorded", "record", nodes=len(make.recording.nodes))
    make.stage("fuse", "rewrite", "neighbours as one kernel", nodes=len(make.recording.nodes))
    for members in kernels:
        make.decide("Epilogue", "epilogue", "one kernel", members, group=("kernel", "conv2d · add · relu"))
    return make.roots(x)
