"""Recording of a model's way through onnxruntime, from the logs and the graphs that its sessions wrote."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # protobuf has no types
from onnx import ModelProto, load

from explorer.compilers.adapters.onnxruntime.model_graph import (
    Graph,
    Origin,
    graph_of,
    inferred,
    renamed,
    values_of,
    with_given_attributes,
)
from explorer.compilers.adapters.onnxruntime.patterns import PATTERNS, remains
from explorer.compilers.adapters.onnxruntime.session_log import SessionLog, Skipped, parsed
from explorer.compilers.adapters.onnxruntime.transformers import decides, purpose
from explorer.compilers.child import run_python
from explorer.compilers.snapshots import Compiled, CompiledKernel, Snapshot, Statement, recording_of
from explorer.core.errors import FileError, OperandError
from explorer.core.ir.source_location import CodeLocation
from explorer.formats import open as open_model
from explorer.net import Net
from explorer.net.definition.scope_inference import box_paths
from explorer.net.runtime_run import operators_of
from explorer.record import Recording
from explorer.record.reasons import counted_text
from explorer.record.rows import InterfaceRow, Source
from explorer.run.recording.variable_tables import source_texts
from explorer.runtimes import onnx_file
from explorer.runtimes.onnx_profile import Run, bytes_before, bytes_in_use, warm_runs

_CHILD = Path(__file__).with_name("session_child.py")
_RUNS, _SECONDS = 20, 1.0
"""maximum number of measured runs, and maximum total seconds of all of them except the last"""
_LIMITS = "onnxruntime fuses only operators that match one of its patterns"
_SHOWN = 3
"""maximum number of unknown messages of the log that are quoted"""


@dataclass(frozen=True)
class Sessions:
    """Evidence that a child process wrote to a folder: `session_child` describes the files."""

    version: str
    given: ModelProto
    graphs: tuple[ModelProto, ...]
    enabled: tuple[str, ...]
    """for each graph, the last transformer that was enabled; "" for the graph without optimizations"""
    always: tuple[str, ...]
    """transformers that change the graph even if they are disabled"""
    log: SessionLog
    """log of the session with all transformers"""
    runs: tuple[Run, ...]
    """measured runs"""
    missing: tuple[str, ...]
    """sentences that name absent or torn files"""


def record(program: Any, *args: Any, run: bool = True) -> Recording:
    """Return the recording of what onnxruntime does with a model.

    Args:
        program: path of a model file, a net, or a torch module.
        args: an array for each input, or one dict of arrays by name. Their shapes are compiled. Without arrays, the
            model is not run, and the file must declare all lengths of its inputs.
        run: whether to run the model and to record the times of its nodes.

    Raises:
        OperandError: if a length is unknown, or the arrays do not fit the inputs.
        StateError: if onnxruntime does not accept the model.
    """
    net = program if isinstance(program, Net) else _opened(program, args)
    arrays = net.session.checked_arrays(args, {}) if args else {}
    with tempfile.TemporaryDirectory(prefix="explorer-") as folder:
        create_sessions(net, arrays, Path(folder), runs=_RUNS if run and args else 0)
        return recording_from(net, Path(folder))


def create_sessions(net: Net, arrays: Mapping[str, Any], folder: Path, runs: int) -> None:
    """Create the sessions of a net in a child process, which writes its files to a folder.

    Args:
        net: net whose file is compiled; a net without a file, or with edits, is written to an ONNX file.
        arrays: inputs by name, whose shapes are compiled; without them, the file must declare all lengths.
        folder: empty folder.
        runs: maximum number of measured runs; 0 measures nothing.

    Raises:
        OperandError: for an input that is a sequence, or whose lengths are unknown.
        StateError: if onnxruntime does not accept the file.
    """
    if sequences := [name for name, array in arrays.items() if isinstance(array, (list, tuple))]:
        raise OperandError(
            f"input {sequences[0]!r} is a sequence",
            rule="inputs must be tensors, whose lengths are compiled",
            fix="cut the net after the operator that reads the sequence: net.cut(inputs=[…])",
        )
    shapes = {name: tuple(np.asarray(array).shape) for name, array in arrays.items()} or _declared_shapes(net)
    path = net._runtime_run("onnxruntime").path
    model = inferred(_with_shapes(onnx_file.loaded(path), shapes))
    (folder / "given.onnx").write_bytes(model.SerializeToString())
    inputs = [value.name for value in model.graph.input if value.name in arrays] if runs else None
    if inputs is not None:
        np.savez(folder / "inputs.npz", *[np.asarray(arrays[name]) for name in inputs])
    weights = onnx_file.external_folder(path)
    job = {"weights": weights, "inputs": inputs, "runs": runs, "seconds": _SECONDS}
    (folder / "job.json").write_text(json.dumps(job))
    run_python(_CHILD, [str(folder)], compiler="onnxruntime")


def _opened(program: Any, args: Sequence[Any]) -> Net:
    return open_model(program) if isinstance(program, (str, os.PathLike)) else open_model(program, tuple(args))


def _declared_shapes(net: Net) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the inputs as declared in the file or assumed; raise OperandError for an unknown length."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name in net.definition.inputs:
        declared = net._assumed.get(name, net.definition.blob(name).shape)
        if declared is None or not all(isinstance(size, int) for size in declared):
            text = "unknown" if declared is None else "×".join("?" if size is None else str(size) for size in declared)
            raise OperandError(
                f"input {name!r} has the shape {text}",
                rule="onnxruntime's decisions depend on the lengths of inputs, so all of them must be known",
                fix=f"give an array for each input; or a shape, net.assume({{{name!r}: (1, …)}}) or --shape {name}=1x…",
            )
        shapes[name] = tuple([size for size in declared if isinstance(size, int)])
    return shapes


def _with_shapes(model: ModelProto, shapes: Mapping[str, Sequence[int]]) -> ModelProto:
    """Return a model with fixed lengths of its inputs, and without types that follow from them."""
    for value in model.graph.input:
        if value.name in shapes and value.type.HasField("tensor_type"):
            tensor = value.type.tensor_type
            del tensor.shape.dim[:]
            for size in shapes[value.name]:
                tensor.shape.dim.add().dim_value = size
    del model.graph.value_info[:]
    for value in model.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    return model


def recording_from(net: Net, folder: Path) -> Recording:
    """Return the recording of the sessions whose files are in a folder.

    Raises:
        FileError: if there is no report of the sessions, or no graph.
    """
    sessions = _read(folder)
    given, lines = graph_of(sessions.given), dict[str, set[int]]()
    origins = _origins(net, sessions.given, lines)
    version = tuple([int(part) for part in sessions.version.split(".")[:2] if part.isdecimal()])
    graphs = [replace(graph_of(inferred(model)), version=version) for model in sessions.graphs]
    stages = _stages(given, graphs, sessions)
    snapshots, unplaced = _snapshots(stages, origins, sessions)
    unknown = sessions.log.unknown
    nowhere = f"Its log contains {counted_text(unplaced, 'statement')} about no node of the graph."
    quoted = f"Its log contains {counted_text(len(unknown), 'message')} of unknown form: {'; '.join(unknown[:_SHOWN])}."
    notes = [
        f"onnxruntime {sessions.version} ran {len(sessions.log.tried)} graph transformers.",
        *[nowhere] * bool(unplaced),
        *[quoted] * bool(unknown),
        *sessions.missing,
    ]
    compiled = _compiled(snapshots[-1], stages[-1][1], graphs[-1], origins, sessions, notes)
    snapshots[0] = replace(snapshots[0], purpose=f"The model as in its file. {' '.join(notes)}")
    recording = recording_of(f"{net.name} · onnxruntime", snapshots, compiled)
    recording.source_texts = source_texts(lines)
    recording.options = {
        "compiler": f"onnxruntime {sessions.version}",
        "transformers": len(sessions.log.tried),
        "changed the graph": len({name for name, changed in sessions.log.events if changed}),
    }
    node_of = {own["name"]: node for node, own in reversed(recording.nodes.attributes.items())}
    recording.interface = [
        *[InterfaceRow("input", name, node_of[name]) for name in given.inputs],
        *[InterfaceRow("output", name, node_of[name]) for name in given.outputs],
    ]
    return recording


def _read(folder: Path) -> Sessions:
    """Read the files that `session_child` wrote; files of later sessions may be missing."""
    missing: list[str] = []
    try:
        report = json.loads((folder / "sessions.json").read_text())
        enabled = [str(row["enabled"]) for row in report["sessions"]]
        always, version = tuple(map(str, report["sessions"][1]["always"])), str(report["version"])
        models = [load(str(folder / name), load_external_data=False) for name in ("given.onnx", "0.onnx", "1.onnx")]
    except (OSError, ValueError, KeyError, IndexError, TypeError, DecodeError) as error:
        raise FileError(
            f"the sessions of onnxruntime are incomplete: {type(error).__name__}: {error}"[:300],
            path=str(folder),
            rule="a folder must contain a report, and the graphs before and after all transformers",
            fix="record the model again",
        ) from error
    steps = [("", models[2])]
    for number in range(2, len(enabled)):
        try:
            steps.append((enabled[number], load(str(folder / f"{number}.onnx"), load_external_data=False)))
        except (OSError, ValueError, DecodeError):
            missing.append(f"The graph after {enabled[number]} is missing, and its changes are in a later stage.")
    if enabled[0]:
        steps.append((enabled[0], models[1]))
    try:
        log = parsed((folder / "0.log").read_text(errors="replace"))
    except OSError:
        log = parsed("")
    if not log.complete:
        missing.append("The log of onnxruntime ends early, so transformers and their statements may be missing.")
    runs: list[Run] = []
    if (folder / "profile.json").exists():
        try:
            runs = warm_runs(json.loads((folder / "profile.json").read_text(errors="replace")))
        except (ValueError, KeyError, TypeError, AttributeError):
            missing.append("The profile of onnxruntime is damaged, so times are missing.")
    names, graphs = zip(*steps, strict=True)
    return Sessions(version, models[0], graphs, names, always, log, tuple(runs), tuple(missing))


def _origins(net: Net, model: ModelProto, lines: dict[str, set[int]]) -> dict[str, Origin]:
    """Return the boxes, line and operator of each value of the file; add ``lines`` of the user's code by file name."""
    definition, builder = net.definition, net.session.builder
    paths, owners = box_paths(definition.ssa), operators_of(definition, onnx_file.nodes_of(model))
    origins: dict[str, Origin] = {}
    for index, node in enumerate(model.graph.node):
        if index in owners:
            operator = definition.ssa.operator(owners[index])
            location = builder.location(operator)
            if isinstance(location, CodeLocation):
                lines.setdefault(location.filename, set()).add(location.line)
            origin = Origin(paths[operator.name][:-1], Source(*location), operator.name)
            origins.update(dict.fromkeys(filter(None, node.output), origin))
            for name in node.input:
                origins.setdefault(name, origin)
    return origins


def _stages(given: Graph, graphs: Sequence[Graph], sessions: Sessions) -> list[tuple[str, Graph]]:
    """Return the name and graph of each stage: the given graph, then each one that a transformer changed."""
    loaded, before = graphs[0], given
    stages = [("given", given)]
    for name, graph in zip(sessions.enabled, graphs, strict=True):
        before = renamed(before, with_given_attributes(graph, given, loaded))
        stages.append((name or " · ".join(sessions.always) or "load", before))
    return stages


def _snapshots(
    stages: Sequence[tuple[str, Graph]], origins: Mapping[str, Origin], sessions: Sessions
) -> tuple[list[Snapshot], int]:
    """Return a snapshot for each stage and each transformer that only declined, and the number of unplaced statements.

    Stages in which nothing changed and nothing was declined are left out.
    """
    runs = Counter(name for name, _ in sessions.log.events)
    last = {name: index for index, (name, _) in enumerate(sessions.log.events)}
    first_change: dict[str, int] = {}
    for index, (name, changed) in enumerate(sessions.log.events):
        if changed:
            first_change.setdefault(name, index)
    changed_names = [name for name, _ in stages[2:]]
    only_tried: dict[int, list[str]] = defaultdict(list)
    for name in sorted(last, key=last.__getitem__):
        if name not in changed_names and name not in sessions.always:
            position = sum(first_change.get(other, 0) < last[name] for other in changed_names)
            only_tried[position + 1].append(name)
    skipped: dict[str, list[Skipped]] = defaultdict(list)
    for row in sessions.log.skipped:
        skipped[row.transformer].append(row)
    steps: list[tuple[str, Graph, Graph]] = []
    """transformer, and the graphs before and after it"""
    for index, (name, graph) in enumerate(stages[1:], 1):
        steps.append((name, stages[index - 1][1], graph))
        steps += [(other, graph, graph) for other in only_tried[index]]
    values, _ = values_of(stages[0][1], origins)
    snapshots = [Snapshot(stages[0][0], values, tuple(stages[0][1].outputs))]
    placed = 0
    for index, (name, before, graph) in enumerate(steps):
        rows = _statements(name, before, graph, last, values, skipped)
        placed += sum(row.author != _READER for row in rows)
        after = values if graph is before else values_of(graph, origins)[0]
        if rows or after != values:
            text, kind = (purpose(name, runs[name]), decides(name)) if index else (_LOADED, "")
            results = tuple(graph.outputs)
            snapshots.append(Snapshot(name, after, results, rows, purpose=text, decides=kind, limits=_LIMITS))
        values = after
    return snapshots, len(sessions.log.skipped) - placed


_READER = "Explorer's reading"
_LOADED = "What onnxruntime changes when it opens a file, even if all optimizations are disabled."


def _statements(
    name: str,
    before: Graph,
    after: Graph,
    last: Mapping[str, int],
    values: Mapping[str, Any],
    skipped: Mapping[str, Sequence[Skipped]],
) -> tuple[Statement, ...]:
    """Return what a transformer declines: by Explorer's reading of the graph, and by its log."""
    rows: list[Statement] = []
    for pattern in PATTERNS:
        variants = [other for other in last if pattern.transformers.fullmatch(other)]
        if not variants or max(variants, key=last.__getitem__) != name:
            continue
        rule = pattern.rule or name
        rows += [
            Statement(rule, "declined", row.reason, subjects, "requirement", row.facts, author=_READER)
            for row in pattern.refusals(before)
            if row.reason and remains(row, after) and all(subject in values for subject in row.subjects[:2])
            for subjects in [tuple([subject for subject in row.subjects if subject in values])]
        ]
    named: dict[str, str] = {}
    for value in values:
        named.setdefault(value, value)
    for node in before.nodes:
        if node.result in values:
            named[node.name] = node.result
    for row in skipped.get(name, ()):
        if row.node in named:
            facts = {"node": named[row.node], "why": row.reason}
            reason = "`{node}` is not fused: {why}."
            rows.append(Statement(row.rule, "declined", reason, (named[row.node],), "skipped", facts, row.location))
    return tuple(rows)


def _compiled(
    snapshot: Snapshot,
    final: Graph,
    raw: Graph,
    origins: Mapping[str, Origin],
    sessions: Sessions,
    notes: list[str],
) -> Compiled:
    """Return the kernels of the final graph: in the order of the measured run, or of the graph.

    A sentence about rows of the profile without a node is added to ``notes``.
    """
    _, node_names = values_of(final, origins)
    value_of: dict[str, list[str]] = defaultdict(list)
    """name of a node as in the profile → the values of the nodes with this name"""
    kernel_names: dict[str, str] = {}
    for node, own in zip(raw.nodes, final.nodes, strict=True):
        if own.result in node_names:
            value = node_names[own.result]
            value_of[node.name or node.type].append(value)
            kernel_names[value] = own.type
    title = f"onnxruntime {sessions.version}"
    if not sessions.runs:
        kernels = [CompiledKernel((value,), kernel_names[value]) for values in value_of.values() for value in values]
        order = {name: index for index, name in enumerate(snapshot.values)}
        return Compiled(tuple(sorted(kernels, key=lambda kernel: order[kernel.values[0]])), title)
    steps, whole = min(sessions.runs, key=lambda run: run[1])
    floor = bytes_before(steps[0]) if steps else 0
    timed: list[CompiledKernel] = []
    untimed = 0
    for step in steps:
        operator = str(step["args"].get("op_name", ""))
        names = value_of.get(step["name"].removesuffix("_kernel_time")) or value_of.get(operator, [])
        if not names:
            untimed += 1
            continue
        # if names are not unique, nodes run in the order of the graph
        value = names.pop(0)
        timed.append(
            CompiledKernel(
                (value,),
                kernel_names[value],
                micros=float(step["dur"]),
                live=bytes_in_use(step, floor),
                provider=str(step["args"].get("provider", "")),
            )
        )
    peak = max([bytes_in_use(step, floor) for step in steps], default=0)
    if untimed:
        notes.append(f"Its profile contains {counted_text(untimed, 'row')} about no node of the last graph.")
    return Compiled(tuple(timed), title, peak=peak, micros=float(whole))
