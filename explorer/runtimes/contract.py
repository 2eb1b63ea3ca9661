"""Contract of a runtime: a library that runs model files, such as onnxruntime.

A runtime knows nothing of nets and expressions. It opens a file, computes the values of any operands by their names in
the file, and measures runs. `explorer.net.runtime_run` maps its answers to the operators of a net. To add a runtime,
write a file next to onnx_runtime.py, and a row of `RUNTIMES` in registry.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol


class FileNode(NamedTuple):
    """Node of a file's outermost graph, with the names of the operands that it reads and computes."""

    type: str
    inputs: tuple[str, ...]
    """operands and weights; "" for an omitted operand"""
    outputs: tuple[str, ...]
    name: str = ""
    attributes: bytes = b""
    """attributes in a form that is equal for equal nodes"""


class MeasuredKernel(NamedTuple):
    """One step of a measured run, which computes one or several nodes of the file."""

    nodes: tuple[int, ...]
    """indices of the file's nodes in topological order; the last one computes the result"""
    name: str
    """operator type in the runtime, such as FusedConv"""
    start: float
    """time in µs from the start of the run"""
    micros: float
    live: int | None = None
    """bytes that intermediate results use at the end of the kernel; None if the runtime does not report them"""
    placement: str = ""
    """execution provider that computes it"""
    device: str = ""
    """device of the provider, such as "cpu", if the runtime reports it"""
    conversions: int = 0
    """number of conversions of memory formats or dtypes, which the file does not contain, in this time"""
    is_exact: bool = True
    """whether ``nodes`` are all nodes that it computes; otherwise, further nodes are unknown"""
    median: float | None = None
    """median of the times in all measured runs, in µs; None if only one run was measured"""


class Measurement(NamedTuple):
    """Times and memory of one run, as the runtime measured them."""

    kernels: tuple[MeasuredKernel, ...]
    """kernels in the order of their starts"""
    micros: float
    """time of the whole run, by the runtime's clock"""
    method: str = ""
    """sentence that states how the runtime ran the file"""
    peak: int | None = None
    """maximum number of bytes of intermediate results; None if the runtime does not report it"""
    folded: frozenset[int] = frozenset()
    """nodes that were computed when the file was opened"""
    unplaced: tuple[tuple[str, float], ...] = ()
    """(type, µs) of kernels that belong to no node of the file"""
    runs: int = 1
    """number of measured warm runs, of which this is the fastest"""
    between: float | None = None
    """time in µs between the kernels of the run; None if the runtime does not report when kernels run"""
    around: float | None = None
    """time in µs before the first kernel and after the last one"""


class RuntimeModel(Protocol):
    """File that a runtime has opened."""

    version: str
    """version of the runtime"""
    placement: str
    """execution providers or devices that compute it; "" if the runtime does not report them"""
    nodes: Sequence[FileNode]
    """nodes of the outermost graph in topological order"""

    def outputs(self, inputs: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Run the file as usual; return its outputs by name."""

    def values(self, inputs: Mapping[str, Any], names: Collection[str], /) -> Mapping[str, Any]:
        """Return the values of operands by name, computed node by node as in the file; unknown names are left out."""

    def types(self, names: Collection[str], /) -> Mapping[str, tuple[tuple[int | None, ...], str]]:
        """Return the shapes and dtypes of operands by name, as the runtime infers them; unknown ones are left out."""

    def measure(self, inputs: Mapping[str, Any], runs: int | None = None, /) -> Measurement | None:
        """Measure the fastest of several warm runs; return None if the runtime measures nothing.

        ``runs`` is the number of runs; None leaves it to the runtime.
        """


@dataclass(frozen=True)
class Runtime:
    """Library that runs model files: a row of ``RUNTIMES``."""

    name: str
    """name in ``net.run(x, executor=name)``"""
    package: str
    """module that must be installed"""
    install: str
    """command that installs it"""
    extension: str
    """extension of the files that it runs"""
    open: Callable[..., RuntimeModel]
    """path of a file, and the key of a signature unless its first graph is meant → opened file"""
