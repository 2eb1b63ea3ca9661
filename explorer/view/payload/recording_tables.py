"""Tables of a recording for the front end, with all texts composed; shapes.py documents them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

from explorer.record import Decision, Layer, OperatorType, Recording, Template, shape_text
from explorer.record.escape import visible
from explorer.record.json_form.codec import row_names, stands
from explorer.record.listings import Listing, listings
from explorer.record.node_decisions import ACCOUNTS, declined_before, kernel_limits
from explorer.record.reasons import FIELD, fact_text, fields, plural_of
from explorer.view.model.decision_facts import fact_labels, note
from explorer.view.model.labels import group_titles
from explorer.view.model.marked_text import blocks
from explorer.view.model.stage_texts import first_nan, stage_cost, stage_counts, stage_result, stage_size
from explorer.view.model.totals import leaves_of
from explorer.view.payload.shapes import DocumentedTable, OperatorTypeTable

_COMPOSED = (
    "codes", "declined_edges", "dimensions", "fingerprint", "sources", "types", "stages", "decisions", "explanations",
    "groups", "layers", "metadata", "nodes", "operator_types", "ports", "source_texts",
)  # fmt: skip
"""tables of a recording that are written in another form or omitted"""

_COST = "estimated_cost_us"
_OPERANDS = 4


def recording_tables(recording: Recording) -> dict[str, Any]:
    """Return the unpacked tables of a recording, whose rows are dicts or rows of the recording."""
    names = [name for name in row_names(Recording) if name not in _COMPOSED]
    reasons, explanations, decisions = _decisions(recording)
    types, type_rows = type_tables(recording)
    metadata = [(name, value.splitlines()) for name, value in recording.metadata]
    labels = [recording.label(node) for node in range(len(recording.nodes))]
    return {
        **{name: rows for name in names if stands(name, rows := getattr(recording, name))},
        "types": types,
        "nodes": dataclasses.replace(recording.nodes, label=labels, type=type_rows),
        **({"metadata": metadata} if metadata else {}),
        **({"operator_types": list(map(_documented, recording.operator_types))} if recording.operator_types else {}),
        **({"declared": declared_texts(recording)} if recording.dimensions else {}),
        **({"codes": _codes(recording)} if recording.codes else {}),
        "sources": [{"place": source.full_location, "text": source.text} for source in recording.sources],
        "listings": [_listing(recording, listing) for listing in listings(recording)],
        "stages": [_stage(recording, number) for number in range(len(recording.stages))],
        "reasons": reasons,
        "explanations": explanations,
        "decisions": decisions,
        **_declined_edges(recording),
        "accounts": ACCOUNTS,
        "limits": kernel_limits(recording),
        "marks": {number: marks for number, row in enumerate(recording.decisions) if (marks := recording.marks(row))},
        "groups": [
            {"decision": group.decision, "kind": group.kind, "members": group.members, "titles": group_titles(group)}
            for group in recording.groups
        ],
        "layers": [_layer(layer) for layer in recording.layers],
        "leaves": leaves_of(recording)._asdict(),
        "first_nan": first_nan(recording),
    }


def shown(value: Any) -> Any:
    """Return packed data with every string and every key safe to show."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {visible(key): shown(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        # Most items of packed tables are integers, so a call for each would take most of the time.
        return [item if type(item) is int else shown(item) for item in value]
    return value


def _stage(recording: Recording, number: int) -> dict[str, Any]:
    stage = recording.stages[number]
    return {
        "name": stage.name,
        "kind": stage.kind,
        "decides": stage.decides,
        "first": stage.first,
        "last": stage.last,
        "purpose": stage.purpose,
        **({"pipeline": stage.pipeline} if stage.pipeline else {}),
        "size": stage_size(stage),
        "cost": stage_cost(stage),
        "result": stage_result(recording, number),
        "counts": [list(count) for count in stage_counts(stage)],
    }


def _documented(row: OperatorType) -> OperatorTypeTable:
    """Return a type without a page whose address could be a script; a recording may come from anywhere."""
    return {
        "name": row.name,
        "origin": row.origin,
        "summary": row.summary,
        "url": row.url if row.url.startswith("https://") else "",
        "description": blocks(row.description),
        "inputs": [_part(each.name, each.type, each.option, meaning=each.meaning) for each in row.inputs],
        "outputs": [_part(each.name, each.type, each.option, meaning=each.meaning) for each in row.outputs],
        "attributes": [
            _part(each.name, each.type, "required" if each.required else "", each.default, each.meaning)
            for each in row.attributes
        ],
        "constraints": [_part(name, types, meaning=meaning) for name, types, meaning in row.constraints],
    }


def _part(name: str, type: str, note: str = "", default: str = "", meaning: str = "") -> DocumentedTable:
    return {"name": name, "type": type, "note": note, "default": default, "meaning": blocks(meaning)}


def _codes(recording: Recording) -> dict[int, dict[str, Any]]:
    """Return the code of kernels; lines are separate, because line breaks in a string are shown as escapes."""
    return {
        kernel: {
            "language": code.language,
            "lines": code.text.rstrip("\n").expandtabs(4).split("\n"),
            "nodes": list(code.lines),
        }
        for kernel, code in recording.codes.items()
    }


def _listing(recording: Recording, listing: Listing) -> dict[str, Any]:
    lines = listing.lines
    known = [recording.sources[line.sources[0]].text if line.sources else None for line in lines]
    return {
        "where": listing.where,
        "unit": listing.unit,
        "numbers": [line.number for line in lines],
        "sources": [list(line.sources) for line in lines],
        # sources already contain the lines of a model's file
        "lines": [] if known == [line.text for line in lines] else [line.text for line in lines],
    }


def _layer(layer: Layer) -> dict[str, Any]:
    return {
        "name": layer.name,
        "type": layer.type,
        "ports": layer.ports,
        "use": layer.use,
        "order": layer.order_text,
        "clauses": list(layer.clauses),
        "policies": [[policy.text, policy.by] for policy in layer.policies],
        "feedback": [[feedback.built, feedback.text] for feedback in layer.feedback],
        "scopes": list(layer.scopes),
    }


def _decisions(recording: Recording) -> tuple[list[Any], list[Any], list[Any]]:
    """Return the tables of reasons, explanations and decisions."""
    explanations = {(row.code, row.reason): number for number, row in enumerate(recording.explanations)}
    reasons: dict[tuple[Any, ...], int] = {}
    rows: list[dict[str, Any]] = []
    decisions = []
    for decision, before in zip(recording.decisions, declined_before(recording), strict=True):
        # A sentence with "1 term" and one with "2 terms" are different templates for the front end, which does not form
        # plurals.
        key = (
            decision.code,
            decision.reason,
            note(decision),
            *[decision.facts[name] == 1 for name in _counted(decision.reason)],
        )
        if key not in reasons:
            reasons[key] = len(rows)
            explanation = explanations.get((decision.code, decision.reason), -1)
            row = {"sentence": list(_parts(decision)), "explanation": explanation}
            rows.append({**row, "note": note(decision)} if note(decision) else row)
        labels = fact_labels(decision)
        apart = () if _names_cost(decision.reason) else (_COST,)
        decisions.append(
            {
                "stage": decision.stage,
                "rule": decision.rule,
                "verdict": decision.verdict,
                "code": decision.code,
                "location": decision.location,
                "reason": reasons[key],
                "facts": {
                    labels[name]: _fact(name, value) for name, value in decision.facts.items() if name not in apart
                },
                "subjects": decision.subjects,
                "produced": decision.produced,
                "before": before,
                "cost": float(decision.facts.get(_COST, 0.0)),
            }
        )
    texts = [
        {"meaning": row.meaning, "change": row.change, "anchor": row.anchor, "numerics": row.numerics}
        for row in recording.explanations
    ]
    return rows, texts, decisions


def _declined_edges(recording: Recording) -> dict[str, list[list[int]]]:
    """Return, as indices, the edges that decisions declined to fuse; indices are small and repetitive."""
    edges: list[list[int]] = []
    readers: list[list[int]] = []
    for stage, rows in groupby(recording.declined_edges, lambda row: recording.decisions[row[0]].stage):
        final = recording.resolver(recording.stages[stage].first)  # a declined decision does not replace nodes
        for decision, ends in groupby(rows, lambda row: row[0]):
            index_of = {node: index for index, node in enumerate(recording.decisions[decision].subjects)}
            for _, operand, reader in ends:
                operands = [final.get(node, node) for node in recording.nodes.operands[reader]]
                if reader in index_of and operand in operands[:_OPERANDS]:
                    edges.append([decision, _OPERANDS * index_of[reader] + operands.index(operand)])
                else:
                    readers.append([decision, operand, reader])
    return {"declined_edges": edges, "declined_readers": readers}


@lru_cache(maxsize=1024)
def _names_cost(template: Template) -> bool:
    """Return whether a sentence contains the cost of declining, which the facts must then contain too."""
    return any(name == _COST for name, _, _ in fields(template))


@lru_cache(maxsize=1024)
def _counted(template: Template) -> tuple[str, ...]:
    """Return the names of the facts with which a sentence counts nouns."""
    return tuple(name for name, noun, _ in fields(template) if noun)


def _parts(decision: Decision) -> Iterator[Any]:
    """Yield the parts of a sentence: texts, names in backticks, and the labels of its facts."""
    labels = fact_labels(decision)
    for index, piece in enumerate(decision.reason.split("`")):
        is_code = index % 2 == 1
        text, *fields = FIELD.split(piece)
        if text:
            yield {"code": text} if is_code else text
        for name, noun, plural, rest in zip(*[iter(fields)] * 4, strict=True):
            label = labels[name]
            yield [label, "code"] if is_code else [label]
            counted = f" {noun if decision.facts[name] == 1 else plural or plural_of(noun)}" if noun else ""
            if counted + rest:
                yield {"code": counted + rest} if is_code else counted + rest


@lru_cache(maxsize=8192, typed=True)
def _scalar_text(name: str, value: Any) -> str:
    return fact_text(name, value, str)


def _fact(name: str, value: Any) -> Any:
    """Return a fact as the front end shows it: its text, a node, or a list of these."""
    if isinstance(value, dict):
        return value["node"]
    if not isinstance(value, (list, tuple)):
        return _scalar_text(name, value)
    parts: list[Any] = []
    for index, item in enumerate(value):
        parts += [", " if index + 1 < len(value) else " and "] * (index > 0)
        parts.append(_fact(name, item))
    return "".join(parts) if all(isinstance(part, str) for part in parts) else parts


def type_tables(recording: Recording) -> tuple[list[dict[str, Any]], list[int]]:
    """Return the table of types and each node's row; "named" is a shape with dimension names."""
    tables = [_type(recording, row) for row in range(len(recording.types))]
    rows = list(recording.nodes.type)
    known: dict[tuple[int, Sequence[str]], int] = {}
    for node, declared in recording.dimensions.items():
        if any(declared.names):
            key = rows[node], declared.names
            if key not in known:
                known[key] = len(tables)
                named = shape_text(recording.types[rows[node]].shape, declared.names)
                tables.append({**tables[rows[node]], "named": named})
            rows[node] = known[key]
    return tables, rows


def declared_texts(recording: Recording) -> dict[int, str]:
    """Return the declaration of each node's dimensions: ``batch×1×8×8: input 'image' of digits.onnx``."""
    return {node: f"{declared.shape}: {declared.origin}" for node, declared in recording.dimensions.items()}


def _type(recording: Recording, row: int) -> dict[str, Any]:
    text, shape = recording.type_text_of(row), recording.types[row].shape
    return {"shape": shape, "text": text.removeprefix("×".join(map(str, shape))), "dtype": recording.types[row].dtype}
