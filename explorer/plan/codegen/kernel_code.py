"""The C code of a kernel, and reasons why a kernel has none."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import Array
from explorer.ops.control.scan import Scan
from explorer.plan.codegen.indexing import Strides

PIXEL_BY_PIXEL = (0, 2, 3, 1)
"""axes of images (N, C, h, w) from the outermost to the innermost, if the channels of each pixel are side by side"""
Operands: TypeAlias = Callable[[Expr], tuple[Expr, ...]]
"""function that returns the operands of a node in the graph"""


class KernelSpec(NamedTuple):
    """Operations and memory layout of a kernel, and the names and comments in its code."""

    nodes: Sequence[Expr]
    """operations in topological order; the value of the last one is the result"""
    operands: Operands
    name: str
    """name of the C function"""
    order: Sequence[int]
    """axes of the result from the outermost to the innermost in memory"""
    channels_last: Container[int] = ()
    """uids of the operands that are images with the channels of each pixel side by side"""
    constants: Container[int] = ()
    """uids of the operands that are the same in every run"""
    name_of: Callable[[Expr], str] = lambda node: node.operation.name
    """returns names of values, from which C identifiers are made"""
    origins: Mapping[int, str] = MappingProxyType({})
    """uid → source of the node, for the comment before its lines, which code to be compiled lacks"""
    strides: Mapping[int, tuple[int, ...]] = MappingProxyType({})
    """uid → distances in elements along the axes of an operand that is not row-major"""

    @property
    def result(self) -> Expr:
        """Node whose value is the result."""
        return self.nodes[-1]


class OperandCopy(NamedTuple):
    """Operand that is passed as a copy in another memory layout; a constant is copied once."""

    operand: int
    """index of the operand"""
    order: tuple[int, ...]
    """axes from the outermost to the innermost"""
    has_blocks: bool = False
    """whether the columns, the innermost axis, are divided into blocks of 64 bytes"""
    stacked: int = 0
    """number of outermost axes that count matrices, each of which is divided"""
    transform: Callable[[Array], Array] | None = None
    """function that transforms the operand before"""


@dataclass(frozen=True, slots=True)
class KernelCode:
    """C function that computes a kernel: ``void name(void *const *arrays, int64_t start, int64_t stop)``."""

    name: str
    text: str
    lines: tuple[tuple[int, Expr], ...]
    """(line number from 1, node) for each operation"""
    reads: tuple[Expr, ...]
    """operands whose addresses are passed, in order; the address of the result follows"""
    strides: tuple[Strides, ...]
    """memory layout that the code requires of each operand that is not packed, and of the result"""
    length: int
    """number of elements, or of rows, which a call with 0 and this number computes"""
    row: int
    """number of elements that each of them computes"""
    is_flat: bool = False
    """whether the code is one loop, so that any common memory layout of operands and result is possible"""
    packed: tuple[OperandCopy, ...] = ()
    """operands that are passed as copies"""
    is_product: bool = False
    """whether the code adds the products of a matrix product or convolution"""
    columns: int = 0
    """length of rows that are combined element by element; 0 if there are none"""


class Naming(NamedTuple):
    """Names and comments in C code."""

    name_of: Callable[[Expr], str] = lambda node: node.operation.name
    """returns names of values, from which C identifiers are made"""
    origins: Mapping[int, str] = MappingProxyType({})
    """uid → source of the node, for the comment before its lines"""


PLAIN = Naming()
"""names of operations, without comments: the names in code to be compiled"""


@dataclass(frozen=True, slots=True)
class StepFunction:
    """C function that computes values in steps of a scan, with the parameters of a kernel's function.

    For each step, ``arrays`` contains the addresses of ``reads`` and ``writes``.
    """

    name: str
    text: str
    lines: tuple[tuple[int, Expr], ...]
    """(line number from 1, node) for each operation"""
    reads: tuple[Expr, ...]
    """parameters of the body, values that are the same in all steps, products, and operands of earlier products"""
    writes: tuple[Expr | int, ...]
    """operands of products, products, and indices of outputs of the body"""
    length: int = 0
    """number of parts that a call computes in one step; 0 if a call computes any number of steps"""
    packed: tuple[OperandCopy, ...] = ()
    """operands that are passed as copies"""


class ScanBody(NamedTuple):
    """Body of a scan as it is planned."""

    scan: Scan
    parameters: Sequence[Expr]
    """parameters of the states, the elements and the captured values"""
    nodes: Sequence[Expr]
    """all nodes in topological order"""
    inputs: Mapping[int, tuple[Expr, ...]]
    """uid of a node → its operands"""
    outputs: Sequence[Expr]
    """next states, and values to be stacked"""


@dataclass(frozen=True, slots=True)
class StepsCode:
    """Parts of a step of a scan in the order in which they run: C functions, and products, which BLAS computes."""

    body: ScanBody
    parts: tuple[StepFunction | Expr, ...]
    invariant: tuple[Expr, ...]
    """nodes whose values are the same in all steps, in topological order; NumPy computes them once in each run"""

    @property
    def functions(self) -> tuple[StepFunction, ...]:
        """Parts that are C functions."""
        return tuple([part for part in self.parts if isinstance(part, StepFunction)])


C = TypeVar("C", KernelCode, StepFunction)


def renamed(code: C, name: str) -> C:
    """Return a function with another name."""
    return replace(code, name=name, text=code.text.replace(f"void {code.name}(", f"void {name}(", 1))


class Obstacle(NamedTuple):
    """Why there is no C code of a kernel."""

    kind: Literal[
        "no_expression",
        "dtype",
        "function",
        "columns",
        "combines",
        "large_window",
        "long_run",
        "memory_order",
        "spaced_pixels",
    ]
    node: Expr
    facts: Mapping[str, Any] = MappingProxyType({})
    """facts of the reason, in addition to the operation"""
