"""Rows of a capture: what Inductor did with one graph, as plain data that needs no torch to be read or stored."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from explorer.record import SourceText


@dataclass(frozen=True, slots=True)
class Frame:
    """Line of the user's program on the stack when an operation was traced."""

    where: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Node:
    """Node of an FX graph."""

    name: str
    operation: str
    operands: tuple[str, ...] = ()
    parts: tuple[tuple[tuple[int, ...], str], ...] = ()
    """shape and dtype of each result; one pair for a tensor, none for any other value"""
    kind: Literal["leaf", "operation", "item"] = "operation"
    is_view: bool = False
    attributes: dict[str, str] = field(default_factory=dict)
    scope: tuple[str, ...] = ()
    """names of the modules around it, outermost first"""
    frames: tuple[Frame, ...] = ()
    """outermost first"""
    origin: str = ""
    """node of Dynamo's graph from which AOTAutograd made it"""


@dataclass(frozen=True, slots=True)
class Graph:
    """FX graph after a pass; ``pass_name`` is "" for a graph that changed between two named passes."""

    pass_name: str
    level: Literal["torch", "aten"]
    nodes: tuple[Node, ...] | None
    """None if the pass changed nothing"""
    results: tuple[str, ...] = ()
    micros: float = 0.0


@dataclass(frozen=True, slots=True)
class Loop:
    """Operation of the scheduler before fusion: a loop nest that Inductor generates, or a call of a library."""

    name: str
    kind: str
    """class in the scheduler, such as ``SchedulerNode``"""
    form: str
    """class in Inductor's intermediate representation, such as ``ComputedBuffer``"""
    nodes: tuple[str, ...]
    """nodes of the last graph that it computes"""
    buffers: tuple[str, ...] = ()
    library: str = ""
    """function of a library that it calls"""


@dataclass(frozen=True, slots=True)
class Capture:
    """Everything that was collected while Inductor compiled one graph."""

    title: str
    version: str
    graphs: tuple[Graph, ...]
    loops: tuple[Loop, ...]
    log: tuple[str, ...]
    """lines of the scheduler's fusion log"""
    kernels: tuple[tuple[str, tuple[str, ...]], ...]
    """name of each scheduler node after fusion, and its operations, in the order in which they run"""
    code: str = ""
    """generated Python module that contains the kernels; "" if nothing was compiled"""
    calls: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """call in the code ("name:number") → nodes of the last graph that it computes"""
    times: tuple[tuple[str, float], ...] = ()
    """(name of the event, best time in µs) for each call, in the order in which they run"""
    micros: float | None = None
    """best time of a run"""
    other_graphs: tuple[str, ...] = ()
    """why Dynamo ended the graph before each further graph of the program"""
    incomplete: str = ""
    """what is missing, and why"""
    texts: tuple[SourceText, ...] = ()
    """functions of the program whose lines were traced"""
