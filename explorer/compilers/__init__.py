"""Recordings of other compilers: an adapter gives snapshots of a graph, and one core makes a recording of them."""

from explorer.compilers.registry import Compiler, compilers, record
from explorer.compilers.snapshots import Compiled, CompiledKernel, Snapshot, Statement, Value, recording_of
from explorer.compilers.table import table

__all__ = [
    "Compiled",
    "CompiledKernel",
    "Compiler",
    "Snapshot",
    "Statement",
    "Value",
    "compilers",
    "record",
    "recording_of",
    "table",
]
