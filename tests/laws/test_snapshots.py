"""Law of snapshots: at the end of each stage, the recording's graph is the compiler's, for any passes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.compilers import Snapshot, Value, recording_of
from explorer.record.json_form.codec import from_json, to_json
from explorer.record.recording import Recording

Graph = dict[str, Value]


@st.composite
def programs(draw: st.DrawFn) -> list[Snapshot]:
    """Random snapshots: passes rename, replace, merge, split, compute again and drop random values."""
    graph: Graph = {"x": Value("x", kind="leaf", shape=(2,)), "one": Value("one", kind="constant")}
    for number in range(draw(st.integers(1, 7))):
        graph[f"v{number}"] = Value(draw(st.sampled_from("fgh")), tuple(draw(operands(graph))), (2,))
    results = tuple(draw(st.lists(st.sampled_from(sorted(graph)), min_size=1, max_size=2, unique=True)))
    snapshots = [Snapshot("given", graph, results)]
    for number in range(draw(st.integers(1, 4))):
        graph, results = draw(rewritten(graph, results, number))
        snapshots.append(Snapshot(f"pass {number}", graph, results))
    return snapshots


def operands(graph: Graph) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(sorted(graph)), min_size=1, max_size=3)


@st.composite
def rewritten(draw: st.DrawFn, graph: Graph, results: tuple[str, ...], number: int) -> tuple[Graph, tuple[str, ...]]:
    after: Graph = {}
    read: dict[str, str] = {}
    """name before the pass → name of the value that is read in its place"""
    for name, value in graph.items():
        if value.kind == "leaf":
            after[name], read[name] = value, name
            continue
        value = Value(value.operation, tuple(read[o] for o in value.operands), value.shape, "float32", value.kind)
        action = draw(st.sampled_from(["keep"] * 5 + ["rename", "other", "merge", "split", "reuse", "rewire", "twice"]))
        new = f"{name}.{number}"
        if action == "merge":
            read[name] = draw(st.sampled_from(sorted(after)))
            continue
        if action == "split":
            after[new] = Value("half", value.operands, value.shape)
            value = Value("rest", (new,), value.shape)
        elif action == "other":
            value = Value("k", tuple(draw(operands(after))), value.shape)
        elif action == "rewire" and value.operands:
            value = Value(value.operation, tuple(draw(operands(after))), value.shape)
        elif action == "twice":  # computed again: half of the readers read the copy
            after[new] = value
        read[name] = new if action == "rename" else name
        after[read[name]] = value
        if action == "reuse" and len(after) > 2:  # a name that another value had before
            read[name] = draw(st.sampled_from(sorted(after)))
        elif action == "twice":
            read[name] = draw(st.sampled_from([name, new]))
    after_results = tuple(read[name] for name in results)
    return after, after_results


def shape_of(rows: dict[int, tuple[str, list[int]]], results: list[int]) -> tuple[list[object], list[object]]:
    """Return digests of all values and of the results, which are equal for graphs that differ in names only."""
    digest: dict[int, object] = {}
    pending = list(rows)
    while pending:
        left = []
        for row in pending:
            operation, read = rows[row]
            if all(operand in digest for operand in read):
                digest[row] = hash((operation, tuple(digest[operand] for operand in read)))
            else:
                left.append(row)
        assert len(left) < len(pending), "the graph has a cycle"
        pending = left
    return sorted(digest.values(), key=str), [digest[row] for row in results]


def recorded(recording: Recording, position: int) -> tuple[list[object], list[object]]:
    final = recording.resolver(position)
    nodes = recording.nodes
    rows = {
        node: (
            # an input is recorded as a tensor, with its name as the label
            nodes.label[node] if nodes.kind[node] == "leaf" else recording.operations[nodes.operation[node]],
            [final.get(operand, operand) for operand in nodes.operands[node]],
        )
        for node in recording.visible(position)
    }
    return shape_of(rows, [final.get(node, node) for node in recording.roots])


def compiled(snapshot: Snapshot) -> tuple[list[object], list[object]]:
    row_of = {name: number for number, name in enumerate(snapshot.values)}
    rows = {
        row_of[name]: (value.operation, [row_of[operand] for operand in value.operands])
        for name, value in snapshot.values.items()
    }
    return shape_of(rows, [row_of[name] for name in snapshot.results])


@pytest.mark.spec("X-2", headline=True)
@given(programs())
def test_the_recording_of_any_passes_is_the_compilers_graph_after_each_of_them(snapshots: list[Snapshot]) -> None:
    """Record the passes of any compiler from snapshots; after each pass, the stored graph is the compiler's."""
    recording = recording_of("random", snapshots)
    for stage, snapshot in zip(recording.stages, snapshots, strict=True):
        assert recorded(recording, stage.last) == compiled(snapshot)
    for position in range(recording.end + 1):  # each decision by itself leaves a graph without cycles
        recorded(recording, position)
    assert to_json(from_json(to_json(recording))) == to_json(recording)


def test_a_graph_of_100_000_values_needs_no_recursion() -> None:
    size = 100_000
    values = {"v0": Value("x", kind="leaf")} | {f"v{n}": Value("f", (f"v{n - 1}",)) for n in range(1, size)}
    other = {"v0": values["v0"]} | {f"w{n}": Value("g", (f"w{n - 1}" if n > 1 else "v0",)) for n in range(1, size)}
    recording = recording_of(
        "deep", [Snapshot("given", values, (f"v{size - 1}",)), Snapshot("all", other, (f"w{size - 1}",))]
    )
    assert len(recording.nodes) == 2 * size - 1
    assert len(recording.decisions) == 1
