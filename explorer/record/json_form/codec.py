"""JSON form of recordings.

Rows keep their field names, nodes are stored as columns, and long tables have one list per row. The encoder, the
decoder and the published schema are derived from the fields of the row classes, so a new field needs no code here.
"""

from __future__ import annotations

import json
import math
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin

from explorer.record.gc_pause import gc_paused
from explorer.record.json_form.decoder import decode, hints, spoken
from explorer.record.json_form.validate import check
from explorer.record.recording import Recording
from explorer.record.rows import in_order

SCHEMA = 2
"""Version of the JSON form; it increases when the meaning of a field changes."""
OPTIONAL = (
    "authors", "codes", "compositions", "declined_edges", "dimensions", "explanations", "gradients", "interface",
    "layers", "leaf_values", "metadata", "once",
    "operator_types", "operators", "placements", "ports", "shared_leaves", "source_texts", "variables",
)  # fmt: skip
"""tables that are omitted if they are empty; older recordings without these tables can therefore be read"""
_SCALARS = frozenset({int, str, float})
_NAMES: dict[type, tuple[str, ...]] = {}


@gc_paused()
def to_json(recording: Recording) -> dict[str, Any]:
    """Return a recording as dicts, lists, strings, numbers, booleans and None."""
    plain: dict[str, Any] = _encode(recording)
    return {"schema": SCHEMA, **{name: rows for name, rows in plain.items() if stands(name, rows)}}


def stands(name: str, rows: Any) -> bool:
    """Return whether a table is written. Optional tables are written only if they have rows."""
    return bool(rows) or name not in OPTIONAL


def row_names(cls: type) -> tuple[str, ...]:
    """Return the field names of a row class, in order; () for other classes."""
    names = _NAMES.get(cls)
    if names is None:
        names = _NAMES[cls] = tuple(field.name for field in fields(cls)) if is_dataclass(cls) else ()
    return names


def _encode(value: Any) -> Any:
    cls = type(value)
    if cls in _SCALARS:
        return value
    if cls is tuple or cls is list:
        # All elements of a long list have the same type, so it is sufficient, and fast, to check the first element.
        if value and type(value[0]) in _SCALARS:
            return list(value)
        return [_encode(item) for item in value]
    names = row_names(cls)
    if names:
        return {name: _encode(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): _encode(item) for key, item in value.items()}
    return [_encode(item) for item in value] if isinstance(value, (list, tuple)) else value


@gc_paused()
def from_json(plain: Mapping[str, Any]) -> Recording:
    """Return the recording in plain form ``plain``.

    Raises ValueError with the path of the wrong field, or for an unknown schema.
    """
    if not isinstance(plain, Mapping):
        raise ValueError(f"this is no recording: expected an object, found {spoken(plain)}")
    # Recordings with older schemas can be read, but are never written.
    if plain.get("schema") == 1:
        plain = {**upgrade_1(plain), "schema": SCHEMA}
    if plain.get("schema") != SCHEMA:
        raise ValueError(
            f"this recording has schema {spoken(plain.get('schema'))}; "
            f"this version of explorer reads schemas 1 to {SCHEMA}: "
            "record it again, or open it with the version that wrote it"
        )
    tables = {name: value for name, value in plain.items() if name != "schema"}
    if isinstance(tables.get("stages"), list):
        tables["stages"] = [_declared(stage) for stage in tables["stages"]]
    decoded: Recording = decode(tables, Recording, "recording")
    # Recordings of earlier versions may contain late rows, but views apply rows in order.
    decoded.substitutions = in_order(decoded.substitutions)
    check(decoded)
    return decoded


def loads(text: str) -> Recording:
    """Return the recording in a JSON string; raise ValueError if the string contains no recording."""
    return from_json(plain_of(text))


@gc_paused()
def plain_of(text: str) -> Any:
    """Return the value of a JSON string; raise ValueError for invalid JSON and for numbers that are not finite."""
    try:
        return json.loads(text, parse_constant=_finite, parse_float=_finite)
    except RecursionError:
        raise ValueError("this is no recording: its JSON is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"this is no recording: it cannot be read as JSON: {error}") from None


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is no finite number")
    return number


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a recording in plain form, ``recording.schema.json`` in the package."""
    body = schema_of(Recording)
    body["properties"] = {"schema": {"const": SCHEMA}, **body["properties"]}
    body["required"] = ["schema", *[name for name in body["required"] if name not in OPTIONAL]]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "explorer recording", **body}


def schema_of(row_type: Any) -> dict[str, Any]:
    """Return the JSON Schema of the plain form of a row with type ``row_type``."""
    if is_dataclass(row_type) and isinstance(row_type, type):
        names = [field.name for field in fields(row_type)]
        properties = {name: schema_of(hints(row_type)[name]) for name in names}
        return {"type": "object", "properties": properties, "required": names, "additionalProperties": False}
    origin, arguments = get_origin(row_type), get_args(row_type)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is list:
        return {"type": "array", "items": schema_of(arguments[0])}
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            return {"type": "array", "items": schema_of(arguments[0])}
        return {"type": "array", "prefixItems": [schema_of(part) for part in arguments], "items": False}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(arguments[1])}
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_of(part) for part in arguments]}
    simple = {int: "integer", float: "number", str: "string", bool: "boolean", type(None): "null"}
    return {"type": simple[row_type]} if row_type in simple else {}


_KINDS = {"order": "order", "layout": "format", "buffers": "memory"}
"""name of a "schedule" stage in schema 1 → kind of this stage in schema 2"""
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


_DECIDES = {"fuse": "kernels", "batch": "batches", "dedup": "merging"}
"""name of a stage → what it decides, for recordings of versions that did not declare it"""
_LIMITS = (
    "a kernel fuses elementwise operations, with at most one product, convolution or pooling before them, or one "
    "reduction behind them"
)
"""limits of kernels in these versions"""


def _declared(row: Any) -> Any:
    """Return a stage that declares what it decides; before, the name of a stage determined this."""
    if not isinstance(row, Mapping) or "decides" in row or not isinstance(row.get("name"), str):
        return row
    decides = _DECIDES.get(row["name"].removesuffix(" again"), "")
    return {**row, "decides": decides, "limits": _LIMITS if decides == "kernels" else ""}


def upgrade_1(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a recording in plain form from schema 1 to schema 2.

    Fields of wrong types are left for the decoder to report.
    """
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
    return {names.get(name, name): value for name, value in row.items()} if isinstance(row, Mapping) else row


def _stage(row: Any) -> Any:
    """Return a stage with its kind: schema 1 only distinguished passes from schedules."""
    if not isinstance(row, Mapping):
        return row
    name, kind = str(row.get("name")), row.get("kind")
    # The name determines the kind, because each stage had a fixed name in schema 1.
    kind = "rewrite" if kind == "pass" else _KINDS.get(name, "memory") if kind == "schedule" else kind
    upgraded = {**row, "kind": kind}
    if isinstance(row.get("name"), str):
        first, again, suffix = name.partition(" again")
        upgraded["name"] = _STAGES.get(first, first) + again + suffix
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
    """Return the columns of nodes. Nodes that are named after an operation get the operation's current name."""
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
