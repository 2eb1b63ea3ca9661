"""Schedules: which kernels run, in which order and why, and where in memory their results are stored.

A schedule is built in three steps. Each step is a frozen record, so nothing can be read before it is valid. A `Kernel`
runs as one step and has a cost (plan/graph/kernels.py creates it; the pass `MemoryFormat` replaces kernels whose memory
format changes). `OrderedKernels`, from the pass `Order`, adds when each kernel begins, and why. A `Schedule`, from the
pass `Buffers`, adds where each result is stored, and the memory of the whole run. Attributes of a kernel are at its
index in several tuples: if the records extended each other, every pass would copy them, which takes as long as planning
does.

Executors run a schedule, the program (run/execution/program.py) allocates its memory, and the recorder records it.
Terms for memory are the same everywhere:

- results of kernels are *written*; values between the operations of one kernel are not;
- *working memory* is memory that a kernel needs while it runs, in addition to its operands and its result: blocks,
  partial results, a product of another dtype. *Scratch memory* is the part of it in the arena;
- results are *live* from the kernel that writes them to the last one that reads them, working memory while its kernel
  runs;
- the *arena* is one allocation for results and scratch memory. Requested results are stored outside it;
- results are *packed* if they are at offsets of the arena that side-by-side buffers would not give them;
- the *lower bound* is the maximum of live bytes at one moment, the *peak* is the size of a run's allocations: the
  arena, results outside it, and working memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import AnyType, TupleType
from explorer.plan.schedule.blocked_kernel import Blocks

ALIGNMENT = 64
"""bytes of a cache line: results begin at multiples of it, so that vector instructions and threads never share one"""


def align_up(size: int) -> int:
    """Return a number of bytes, rounded up to whole cache lines."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def aligned_size(type_: AnyType) -> int:
    """Return the bytes that a result of a type takes in the arena; several outputs are stored one after another."""
    return (
        sum([align_up(part.nbytes) for part in type_.parts]) if isinstance(type_, TupleType) else align_up(type_.nbytes)
    )


class KernelCost(NamedTuple):
    """Cost of a kernel; kernels with one pattern (equal operations on equal types) share a record."""

    flops: int
    bytes: int
    """bytes of the result; 0 for a view"""
    estimate: float
    """estimated µs, by the cost model"""
    workspace: int
    """bytes of working memory while it runs"""
    scratch: int
    """bytes of the workspace in the arena; the kernel allocates the rest"""


@dataclass(frozen=True, eq=False, slots=True)
class Kernel:
    """Nodes that run as one step, operands first; the last one's value is the result."""

    nodes: tuple[Expr, ...]
    reads: tuple[Expr, ...]
    """distinct operands from outside, in order of first use"""
    cost: KernelCost
    blocks: Blocks | None = None
    """program of a kernel with several nodes, which runs block by block"""
    constant: bool = False
    """the kernel depends on no parameter: it runs once for all runs of the plan, and its result is kept outside the
    arena"""
    channels_last: bool = False
    """the result is images (N, C, H, W) with the channels of each pixel contiguous in memory (channels last)"""
    copies: bool = False
    """the kernel reshapes elements that are not in row-major order: its result is a copy with its own memory"""

    @property
    def is_view(self) -> bool:
        """Whether the result shares the memory of the first input."""
        return self.nodes[-1].operation.view and not self.copies

    @property
    def result(self) -> Expr:
        """The node whose value is the kernel's result."""
        return self.nodes[-1]


Priority: TypeAlias = tuple[bool, int, int, int]
"""sort key of a kernel, (not constant, rank, uid of the result, number): the smallest of the ready kernels begins first
"""


class Pick(NamedTuple):
    """Choice of the kernel that begins next, among the candidates."""

    reason: str
    """"only", "constant", "ready_first", "own_order" for a subclass, or the heuristic of the order"""
    candidates: tuple[Priority, ...]
    """some of the ready kernels, including the chosen one"""
    ready_count: int
    waiting: tuple[Priority, ...] = ()
    """some of the kernels that wait for an operand still being computed on another lane"""
    waiting_count: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class OrderedKernels:
    """Kernels in the order in which they begin; columns are indexed by kernel."""

    roots: tuple[Expr, ...]
    leaves: tuple[Expr, ...]
    """values that exist before the first kernel: tensors, parameters, described constants, and views of them"""
    kernels: tuple[Kernel, ...]
    picks: tuple[Pick, ...]
    levels: tuple[int, ...]
    """1 for a kernel that reads only leaves, else 1 + the highest level among the kernels that it reads"""
    chains: tuple[int, ...]
    """number of the kernel's chain: in a chain, each kernel is the only reader of its predecessor and reads no other
    kernel"""
    runs_until: tuple[int, ...]
    """index of the last kernel that begins before this one has ended; its own index if kernels run one at a time"""


class Placement(NamedTuple):
    """Memory of a kernel's result and of its scratch memory."""

    buffer: int
    """index of the arena buffer that holds the result; −1 for a view and for a result with its own memory"""
    offset: int
    """byte offset of the buffer in the arena; −1 if there is none"""
    scratch_offset: int
    """byte offset of its scratch memory in the arena; −1 if it needs none"""
    reuses: Expr | None
    """operand that the result overwrites"""
    frees: tuple[Expr, ...]
    """values that are dead once this kernel and all that run concurrently have ended"""
    live: int
    """live bytes while it runs: results and working memory"""


@dataclass(frozen=True, eq=False, slots=True)
class Schedule(OrderedKernels):
    """Finished schedule, ready for an executor: ordered kernels, and the memory of their results."""

    placements: tuple[Placement, ...]
    """indexed by kernel"""
    buffers: tuple[int, ...]
    """bytes of each buffer, which are those of the largest result at its offset"""
    arena: int
    """bytes of the single allocation that holds all buffers and all scratch memory"""
    results: int
    """peak bytes of results outside the arena"""
    working: int
    """peak bytes of one thread's working memory outside the arena"""
    peak_lower_bound: int
    """maximum of live bytes at one moment, a lower bound for any memory layout of these kernels in this order"""
    peak_without_reuse: int
    """peak if every result were kept"""

    @property
    def peak(self) -> int:
        """Bytes that a run allocates: arena, results outside it, working memory, which a thread keeps for later
        kernels."""
        return self.arena + self.results + self.working
