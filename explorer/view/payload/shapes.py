"""Shapes of the payload that rows of a recording do not have: tables with composed texts, layout, replay, heat.

``view_payload.py`` and ``recording_tables.py`` say what they mean. The front end's types are written from these classes
and from the rows (assets/front_end_types.py), and a test compares them with payloads.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from explorer.record.composition_rows import Composition
from explorer.record.layer_rows import Gradient
from explorer.record.rows import (
    Body,
    FileOperator,
    InterfaceRow,
    Nodes,
    Run,
    Schedule,
    Scope,
    StageKind,
    Summary,
    Verdict,
)


class TypeTable(TypedDict):
    """Type of a value: its text is that of the shape, with the names of its dimensions, and of what follows it."""

    shape: tuple[int, ...]
    named: NotRequired[str]
    text: str
    dtype: str


class SourceTable(TypedDict):
    """Line of a cell or a file."""

    place: str
    text: str


class ListingTable(TypedDict):
    """Cell or file: the lines that recorded nodes, and those around them."""

    where: str
    unit: str
    numbers: list[int]
    sources: list[list[int]]
    lines: list[str]


class StageTable(TypedDict):
    """Stage, with its numbers in words."""

    name: str
    kind: StageKind
    first: int
    last: int
    purpose: str
    size: str
    cost: str
    result: str
    counts: list[tuple[str, str]]


class Code(TypedDict):
    """Part of a sentence that is written as code."""

    code: str


class ReasonTable(TypedDict):
    """Template of a sentence: texts, code, and labels of facts."""

    sentence: list[str | Code | tuple[str] | tuple[str, str]]
    explanation: int
    note: NotRequired[str]


class ExplanationTable(TypedDict):
    """Meaning of a reason."""

    meaning: str
    change: str
    anchor: str
    numerics: str


class DecisionTable(TypedDict):
    """Decision; a fact is a text, a node, or several of both."""

    stage: int
    rule: str
    verdict: Verdict
    code: str
    location: str
    reason: int
    facts: dict[str, str | int | list[str | int]]
    subjects: tuple[int, ...]
    produced: tuple[int, ...]
    before: list[int]
    cost: float


class GroupTable(TypedDict):
    """Nodes put together, with titles and their widths in px, the longest first."""

    decision: int
    kind: str
    members: tuple[int, ...]
    titles: list[tuple[str, float]]


class LayerTable(TypedDict):
    """Layer, with its ports and policies in words."""

    name: str
    type: str
    ports: str
    use: str
    order: str
    clauses: list[str]
    policies: list[tuple[str, str]]
    feedback: list[tuple[bool, str]]
    scopes: list[int]


class LeafTable(TypedDict):
    """Elements and bytes of the values that exist before a run."""

    parameters: dict[int, int]
    weights: dict[int, int]
    others: dict[int, int]


class RecordingTables(TypedDict):
    """Tables of a recording."""

    title: str
    options: dict[str, Any]
    operations: list[str]
    types: list[TypeTable]
    declared: NotRequired[dict[int, str]]
    scopes: list[Scope]
    sources: list[SourceTable]
    listings: list[ListingTable]
    bodies: list[Body]
    nodes: Nodes
    stages: list[StageTable]
    reasons: list[ReasonTable]
    explanations: list[ExplanationTable]
    decisions: list[DecisionTable]
    substitutions: list[tuple[int, int, int]]
    declined_edges: list[tuple[int, int]]
    declined_readers: list[tuple[int, int, int]]
    accounts: dict[str, str]
    marks: dict[int, dict[int, str]]
    groups: list[GroupTable]
    gradients: NotRequired[list[Gradient]]
    layers: list[LayerTable]
    operators: NotRequired[list[FileOperator]]
    interface: NotRequired[list[InterfaceRow]]
    compositions: NotRequired[list[Composition]]
    variables: NotRequired[dict[int, str]]
    leaf_values: NotRequired[dict[int, Summary]]
    leaves: LeafTable
    first_nan: int
    schedule: Schedule | None
    run: Run | None


class ItemTable(TypedDict):
    """Slot or box inside a box; without a place where the box is not laid out yet."""

    slot: NotRequired[int]
    box: NotRequired[int]
    at: NotRequired[tuple[int, int, int, int]]
    rank: NotRequired[int]


class BoxTable(TypedDict):
    """Container of slots and boxes; an edge is its items, its route, its ports and the names of these.

    A label is the items of its edge, its ports, x, y, side and slot; a crossing is a side, a slot and a port.
    """

    kind: str
    label: str
    text: list[str]
    type: str
    layer: int
    operator: int
    batches: list[int]
    count: int
    parent: int
    open: bool
    closed: tuple[int, int]
    size: tuple[int, int]
    placed: bool
    ports: tuple[list[int], list[int]]
    items: list[ItemTable]
    edges: list[Any]
    labels: list[tuple[int, int, int, int, int, int, int, int]]
    crossings: list[tuple[int, int, int]]


class SlotTable(TypedDict):
    """Place that nodes share."""

    nodes: list[int]
    text: list[int]
    at: list[tuple[int, int, int, int]]


class LayoutTables(TypedDict):
    """Boxes, slots and their texts: see labels.Text; "turned" has the other direction."""

    direction: Literal["down", "right"]
    turned: NotRequired[list[Any]]

    boxes: list[BoxTable]
    slots: list[SlotTable]
    texts: list[tuple[str, str, str, str, str]]
    bodies: list[int]


class ReplayTables(TypedDict):
    """Rules of the story, applied."""

    ends: list[int]
    kernels: list[list[int]]
    merges: list[int]
    outlined: list[int]
    opens: list[tuple[int, int, int]]
    rows: list[tuple[int, int, str]]


class MetricTable(TypedDict):
    """Heat metric."""

    name: str
    unit: str
    row: str
    text: str
    values: list[float] | None


class OptionTable(TypedDict):
    """Options of a view."""

    theme: Literal["auto", "light", "dark"]
    position: int
    height: int
    heat: str
    """name of the metric that colours the graph at first: the latest overlay; "" for none"""


class PayloadTables(TypedDict):
    """Payload, unpacked."""

    recording: RecordingTables
    layout: LayoutTables
    replay: ReplayTables
    heat: list[MetricTable]
    options: OptionTable
