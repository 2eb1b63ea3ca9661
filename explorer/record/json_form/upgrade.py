"""Upgrades of recordings written by earlier versions, from their schema to the current one.

Saved recordings outlive the words of a version. Names have changed, and stages have kinds: tables of old and new words
are enough. Whatever is wrong in a file is reported by the decoder, which reads the upgraded form like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_KINDS = {"order": "order", "layout": "format", "buffers": "memory"}
"""name of a stage that schema 1 called a schedule → its kind"""
_STAGES = {"group": "batch", "open": "inline", "layout": "memory_format"}
_COUNTS = {"peak_bound": "peak_lower_bound"}
_DECISION = {"link": "rule", "chain": "rule_index"}
_FACTS = {"lost_us": "estimated_cost_us"}
_CODES = {("Open", "opened"): "inlined"}
_KERNEL = {"why": "pick_reason", "ready": "ready_candidates"}
_RULES = {
    "Group": "Batch",
    "Open": "Inline",
    "Layout": "MemoryFormat",
    "Absorbed": "AbsorbedOperand",
    "AlreadySo": "RedundantActivation",
    "ConcatenationOfParts": "ConcatenationOfSlices",
    "CopiedBack": "RoundTripCopy",
    "DescribedThere": "RecreateConstantOnDevice",
    "MemberOfStack": "IndexOfStack",
    "MovedZero": "ZeroThroughView",
    "NothingToDo": "NoOp",
    "PartOfConcatenation": "SliceOfConcatenation",
    "PartOfPart": "SliceOfSlice",
    "SingleTerm": "SumOfOne",
}
_OPERATIONS = {
    "part": "slice",
    "place": "slice_scatter",
    "member": "index0",
    "gather_members": "gather_stack",
    "class_numbers": "labels",
}


def upgrade_1(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the plain form of schema 1 to schema 2; a field of the wrong type is left for the decoder to report."""
    upgrades = {
        "stages": _rows(_stage),
        "decisions": _rows(_decision),
        "operations": _rows(lambda name: _named(_OPERATIONS, name)),
        "nodes": _nodes,
        "schedule": _schedule,
        "options": _options,
    }
    return {name: upgrades[name](value) if name in upgrades else value for name, value in plain.items()}


def _rows(upgrade: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda table: [upgrade(row) for row in table] if isinstance(table, list) else table


def _named(names: Mapping[str, str], name: Any) -> Any:
    return names.get(name, name) if isinstance(name, str) else name


def _renamed(names: Mapping[str, str], row: Any) -> Any:
    """The row with some of its fields under other names."""
    return {names.get(name, name): value for name, value in row.items()} if isinstance(row, Mapping) else row


def _stage(row: Any) -> Any:
    """Add the kind of a stage: schema 1 only distinguished passes from schedules."""
    if not isinstance(row, Mapping):
        return row
    name, kind = str(row.get("name")), row.get("kind")
    # The kind follows from the name, which schema 1 had for each of its stages.
    kind = "rewrite" if kind == "pass" else _KINDS.get(name, "memory") if kind == "schedule" else kind
    upgraded = {**row, "kind": kind}
    if isinstance(row.get("name"), str):
        first, again, rest = name.partition(" again")
        upgraded["name"] = _STAGES.get(first, first) + again + rest
    if "counts" in row:
        upgraded["counts"] = _renamed(_COUNTS, row["counts"])
    return upgraded


def _decision(row: Any) -> Any:
    if not isinstance(row, Mapping):
        return row
    upgraded = _renamed(_DECISION, row)
    rule, code = row.get("link"), row.get("code")
    if isinstance(rule, str):
        upgraded["rule"] = _RULES.get(rule, rule)
        if isinstance(code, str):
            upgraded["code"] = _CODES.get((rule, code), code)
    if "facts" in row:
        upgraded["facts"] = _renamed(_FACTS, row["facts"])
    return upgraded


def _nodes(columns: Any) -> Any:
    """A node that is called after its operation is called after the operation's name today."""
    if not isinstance(columns, Mapping) or not isinstance(columns.get("label"), list):
        return columns
    return {**columns, "label": [_named(_OPERATIONS, label) for label in columns["label"]]}


def _schedule(row: Any) -> Any:
    if not isinstance(row, Mapping) or not isinstance(row.get("kernels"), list):
        return row
    return {**row, "kernels": [_renamed(_KERNEL, kernel) for kernel in row["kernels"]]}


def _options(options: Any) -> Any:
    if not isinstance(options, Mapping) or not isinstance(options.get("without"), list):
        return options
    return {**options, "without": [_named(_STAGES, name) for name in options["without"]]}
