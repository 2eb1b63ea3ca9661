"""Recordings: plans and runs as plain data. They need neither NumPy nor the engine, and views read nothing else."""

from explorer.record.composition_rows import Composition
from explorer.record.dimension_names import DimensionNames, shape_text
from explorer.record.json_form.codec import SCHEMA, from_json, json_schema, loads, to_json
from explorer.record.layer_rows import Feedback, Gradient, Layer, Policy, Port
from explorer.record.reasons import NodeFact, Template, render
from explorer.record.recording import Recording
from explorer.record.rows import (
    Body,
    Decision,
    Explanation,
    FileOperator,
    Group,
    InterfaceRow,
    Kernel,
    Kind,
    Nodes,
    Run,
    Schedule,
    Scope,
    Source,
    SourceText,
    Stage,
    Step,
    Summary,
    Type,
    Verdict,
)

__all__ = [
    "SCHEMA",
    "Body",
    "Composition",
    "Decision",
    "DimensionNames",
    "Explanation",
    "Feedback",
    "FileOperator",
    "Gradient",
    "Group",
    "InterfaceRow",
    "Kernel",
    "Kind",
    "Layer",
    "NodeFact",
    "Nodes",
    "Policy",
    "Port",
    "Recording",
    "Run",
    "Schedule",
    "Scope",
    "Source",
    "SourceText",
    "Stage",
    "Step",
    "Summary",
    "Template",
    "Type",
    "Verdict",
    "from_json",
    "json_schema",
    "loads",
    "render",
    "shape_text",
    "to_json",
]
