"""Recordings of other compilers: an adapter gives snapshots of a graph, and one core makes a recording of them."""

from explorer.compilers.snapshots import Compiled, CompiledKernel, Snapshot, Statement, Value, recording_of

__all__ = ["Compiled", "CompiledKernel", "Snapshot", "Statement", "Value", "recording_of"]
