"""pandas export: the nodes, decisions and kernels of a recording as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from explorer.record import Recording
from explorer.record.escape import visible
from explorer.view.tree.scopes import scope_path

if TYPE_CHECKING:
    import pandas


class Tables(NamedTuple):
    """Tables of a recording; the index of each is the number of the node, decision or kernel."""

    nodes: pandas.DataFrame
    decisions: pandas.DataFrame
    kernels: pandas.DataFrame


def to_pandas(recording: Recording) -> Tables:
    """Return all nodes, decisions and kernels; raise ImportError if pandas is not installed.

    ``nodes`` also has the nodes that decisions added ("born", the decision) or removed ("gone"), with "operands" as
    recorded. ``decisions`` has the sentence of each reason and its facts. ``kernels`` has the schedule in order and,
    for a run, "start_us", "time_us" and "thread". A value that is unknown is missing (NA).
    """
    import pandas  # an optional package

    def table(columns: dict[str, list[Any]], *numbers: str, name: str) -> pandas.DataFrame:
        frame = pandas.DataFrame(columns)
        frame.index.name = name
        return frame.astype(dict.fromkeys(numbers, "Int64"))  # integers that may be missing

    return Tables(
        table(_nodes(recording), "flops", "bytes", "born", "gone", name="node"),
        table(_decisions(recording), name="decision"),
        table(_kernels(recording), "flops", "bytes", "workspace", "live_bytes", "buffer", "thread", name="kernel"),
    )


def _nodes(recording: Recording) -> dict[str, list[Any]]:
    rows = recording.nodes
    numbers = range(len(rows))
    types = [recording.type_of(node) for node in numbers]
    places = [recording.sources[row].full_location if row >= 0 else None for row in rows.source]
    return {
        "label": [visible(recording.label(node)) for node in numbers],
        "operation": [visible(recording.operations[row]) for row in rows.operation],
        "kind": list(rows.kind),
        "shape": [type_.shape for type_ in types],
        "dtype": [type_.dtype for type_ in types],
        "device": [type_.device for type_ in types],
        "operands": list(rows.operands),
        "scope": [visible(" / ".join(scope_path(recording, node))) for node in numbers],
        "variable": [visible(recording.variables.get(node, "")) or None for node in numbers],
        "source": [None if place is None else visible(place) for place in places],
        "flops": list(rows.flops),
        "bytes": list(rows.bytes),
        "born": [None if decision < 0 else decision for decision in rows.born],
        "gone": [None if decision < 0 else decision for decision in rows.gone],
        "body": list(rows.body),
    }


def _decisions(recording: Recording) -> dict[str, list[Any]]:
    rows = recording.decisions
    return {
        "stage": [recording.stages[row.stage].name for row in rows],
        "rule": [visible(row.rule) for row in rows],
        "verdict": [row.verdict for row in rows],
        "code": [visible(row.code) for row in rows],
        "reason": [visible(recording.reason(row)) for row in rows],
        "facts": [dict(row.facts) for row in rows],
        "subjects": [row.subjects for row in rows],
        "produced": [row.produced for row in rows],
        "author": [visible(recording.authors.get(index, "Explorer")) for index in range(len(rows))],
    }


def _kernels(recording: Recording) -> dict[str, list[Any]]:
    rows = recording.schedule.kernels if recording.schedule else ()
    steps = {step.kernel: step for step in recording.run.steps} if recording.run else {}
    measured, once = [steps.get(index) for index in range(len(rows))], {*recording.once}
    return {
        "label": [visible(recording.label(row.nodes[-1])) for row in rows],
        "nodes": [row.nodes for row in rows],
        "flops": [row.flops for row in rows],
        "bytes": [row.bytes for row in rows],
        "workspace": [row.workspace for row in rows],
        "live_bytes": [row.live for row in rows],
        "buffer": [row.buffer for row in rows],
        "in_place": [row.in_place for row in rows],
        "once": [index in once for index in range(len(rows))],
        "estimated_us": [row.estimate for row in rows],
        "start_us": [step.start if step else None for step in measured],
        "time_us": [step.micros if step else None for step in measured],
        "thread": [step.thread if step else None for step in measured],
    }
