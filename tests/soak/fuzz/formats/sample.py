"""A recording with a row in every table."""

from __future__ import annotations

from explorer.record import (
    Body,
    Decision,
    Group,
    Kernel,
    Nodes,
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


def sample() -> Recording:
    """tanh(a + 2) twice over: merged, fused, planned and run, so that every table has a row."""
    nodes = Nodes(
        operation=[0, 1, 2, 3, 3, 4],
        kind=["leaf", "constant", "operation", "operation", "operation", "operation"],
        label=["a", "2", "add", "tanh", "tanh", "fused"],
        type=[0, 1, 0, 0, 0, 0],
        operands=[(), (), (0, 1), (2,), (2,), (0,)],
        scope=[0, 0, 1, 1, 1, 1],
        source=[0, -1, 0, 0, 0, -1],
        flops=[0, 0, 6, 6, 6, 12],
        bytes=[24, 4, 24, 24, 24, 24],
        born=[-1, -1, -1, -1, -1, 1],
        gone=[-1, -1, 1, 1, 0, -1],
        body=[0] * 6,
        callee=[-1] * 6,
        attributes={3: {"axis": "0"}},
    )
    merged = Decision(
        1, "SameNumber", "applied", "same", "{node} is {other}", {"node": {"node": 4}, "other": {"node": 3}}, (4,), (3,)
    )
    fused = Decision(
        2,
        "ElementwiseChain",
        "applied",
        "chain",
        "{members} run as one: {saved_bytes} saved in {time_us}, {count} readers",
        {"members": [{"node": 2}, {"node": 3}], "saved_bytes": 24, "time_us": 1.5, "count": 1},
        (2, 3),
        (5,),
        1,
        "fuse.py:10",
    )
    kernel = Kernel((2, 3), 1, 0, 12, 24, 0, 1.5, 0, False, (5,), 1, "the only one", (0,), 24)
    value = Summary((2, 3), "float32", -1.0, 1.0, 0.0, 0.5, 0, 0, (1, 2, 3), ((0, 128, 255),), "[0.0]")
    return Recording(
        title="tanh twice",
        fingerprint="0f",
        options={"costs": "reference", "seed": 1},
        operations=["Source", "Constant", "Add", "Tanh", "Fused"],
        types=[Type((2, 3), "float32", "cpu"), Type((), "float32", "cpu"), Type((), "tuple", "cpu", (0, 1))],
        scopes=[Scope("", "top", -1), Scope("mlp", "layer", 0)],
        sources=[Source("In[1]", 1, "tanh(a + 2)")],
        bodies=[Body("", (0,), (3, 4))],
        nodes=nodes,
        stages=[
            Stage("record", "record", 0, 0, {"nodes": 5}),
            Stage("dedup", "rewrite", 0, 1, {"nodes": 4}, "once is enough", 3.5),
            Stage("fuse", "rewrite", 1, 2, {"nodes": 3}),
        ],
        decisions=[merged, fused],
        substitutions=[(0, 4, 3), (1, 3, 5)],
        groups=[Group(1, "kernel", "fused", (2, 3))],
        schedule=Schedule((kernel,), (24,), 24, 48),
        run=Run("simple", (Step(0, 0.0, 1.5, 24),), 2.0, {5: value}),
    )
