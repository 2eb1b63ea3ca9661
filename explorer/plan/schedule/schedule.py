"""Schedules: which kernels run, in which order and why, and where in memory their results are stored.

A schedule is built in three steps. Each step creates a frozen record, so nothing can be read before it is valid. A
`Kernel` runs as one step and has a cost. plan/graph/kernels.py creates kernels, and the pass `MemoryFormat` replaces
those whose memory format changes. `OrderedKernels`, created by the pass `Order`, contains the order of the kernels and
the reasons for it. A `Schedule`, created by the pass `Buffers`, also contains the memory of each result and of the
whole run. The attributes that passes add are stored in tuples indexed by kernel, because copying all kernels in every
pass would take as long as planning.

Executors run a schedule, the program (run/execution/program.py) allocates its memory, and the recorder records it.
Terms for memory are the same everywhere:

- Results of kernels are *written*. Values between the operations of one kernel are not.
- *Working memory* is the memory that a kernel needs while it runs, in addition to its operands and its result. It is
  used for blocks, partial results, or a product of another dtype. *Scratch memory* is the part of the working memory
  that is in the arena.
- A result is *live* from the kernel that writes it to the last kernel that reads it. Working memory is live while its
  kernel runs.
- The *arena* is one allocation for results and scratch memory. Requested results are stored outside the arena.
- Results are *packed* if they share the arena without fixed buffers, at any offsets where they fit.
- The *lower bound* is the maximum number of bytes that are live at the same time. The *peak* is the number of bytes
  that a run allocates: the arena, results outside it, and working memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import AnyType, TupleType
from explorer.plan.codegen.kernel_code import KernelCode, StepFunction, StepsCode
from explorer.plan.schedule.blocked_kernel import Blocks
from explorer.plan.schedule.tiling import PIXEL_BY_PIXEL

ALIGNMENT = 64
"""bytes of a cache line; results begin at multiples of it, so that two results never share a cache line"""


def align_up(size: int) -> int:
    """Return ``size`` in bytes, rounded up to whole cache lines."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def aligned_size(type_: AnyType) -> int:
    """Return the number of bytes that a result of ``type_`` needs in the arena.

    Several outputs are stored one after another.
    """
    return (
        sum([align_up(part.nbytes) for part in type_.parts]) if isinstance(type_, TupleType) else align_up(type_.nbytes)
    )


class KernelCost(NamedTuple):
    """Cost of a kernel; kernels with the same pattern (equal operations on equal types) share one object."""

    flops: int
    bytes: int
    """bytes of the result; 0 for a view"""
    estimate: float
    """estimated time in µs according to the cost model"""
    workspace: int
    """bytes of working memory while the kernel runs"""
    scratch: int
    """bytes of the working memory that are in the arena; the kernel allocates the rest"""


@dataclass(frozen=True, eq=False, slots=True)
class Kernel:
    """Nodes that run as one step, in topological order; the value of the last node is the result."""

    nodes: tuple[Expr, ...]
    reads: tuple[Expr, ...]
    """distinct operands from outside the kernel, in the order in which they are first read"""
    cost: KernelCost
    blocks: Blocks | None = None
    """if the kernel has several nodes: the steps that it runs block by block"""
    constant: bool = False
    """whether the kernel depends on no parameter; if so, it runs once for all runs of the plan, and its result is kept
    outside the arena"""
    channels_last: bool = False
    """whether the result is images (N, C, H, W) in which the channels of each pixel are contiguous in memory"""
    copies: bool = False
    """whether the kernel reshapes elements that are not in row-major order; its result is then a copy with its own
    memory"""
    code: KernelCode | None = None
    """C code that computes the kernel, if the pass `Codegen` chose it"""
    steps: StepsCode | None = None
    """C code of the steps of a scan, if the pass `Codegen` chose it"""

    @property
    def functions(self) -> tuple[KernelCode | StepFunction, ...]:
        """C functions of the kernel."""
        return self.steps.functions if self.steps is not None else () if self.code is None else (self.code,)

    @property
    def is_view(self) -> bool:
        """Whether the result shares the memory of the first operand."""
        return self.nodes[-1].operation.view and not self.copies

    @property
    def order(self) -> tuple[int, ...]:
        """Axes of the result from the outermost to the innermost in memory."""
        return PIXEL_BY_PIXEL if self.channels_last else tuple(range(len(self.result.shape)))

    @property
    def result(self) -> Expr:
        """Last node; its value is the result of the kernel."""
        return self.nodes[-1]


Priority: TypeAlias = tuple[bool, int, int, int]
"""sort key of a kernel: (not constant, rank, uid of the result, index); among ready kernels, the smallest key begins
first"""


class Pick(NamedTuple):
    """Choice of the kernel that begins next, with the candidates."""

    reason: str
    """"only", "constant", "ready_first", "own_order" if a subclass determines the order, or the name of the
    heuristic"""
    candidates: tuple[Priority, ...]
    """some of the ready kernels, including the chosen kernel"""
    ready_count: int
    waiting: tuple[Priority, ...] = ()
    """some of the kernels that wait for an operand that is still being computed on another lane"""
    waiting_count: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class OrderedKernels:
    """Kernels in the order in which they begin; the tuples are indexed by kernel."""

    roots: tuple[Expr, ...]
    leaves: tuple[Expr, ...]
    """values that exist before the first kernel runs: tensors, parameters, structured constants, and views of them"""
    kernels: tuple[Kernel, ...]
    picks: tuple[Pick, ...]
    levels: tuple[int, ...]
    """1 if the kernel reads only leaves, otherwise 1 + the highest level of the kernels whose results it reads"""
    chains: tuple[int, ...]
    """number of the kernel's chain; in a chain, each kernel is the only reader of the previous kernel and reads no
    other kernel's result"""
    runs_until: tuple[int, ...]
    """index of the last kernel that begins before this kernel has ended; the kernel's own index if kernels run one at a
    time"""


class Placement(NamedTuple):
    """Memory of a kernel's result and of its scratch memory."""

    buffer: int
    """index of the result's buffer in the arena; −1 for a view, and for a result with its own memory"""
    offset: int
    """byte offset of the buffer in the arena; −1 if there is no buffer"""
    scratch_offset: int
    """byte offset of the kernel's scratch memory in the arena; −1 if it needs none"""
    reuses: Expr | None
    """operand that the result overwrites, or None"""
    frees: tuple[Expr, ...]
    """values that are dead after this kernel and all concurrent kernels have ended"""
    live: int
    """live bytes while the kernel runs: results and working memory"""


@dataclass(frozen=True, eq=False, slots=True)
class Schedule(OrderedKernels):
    """Finished schedule that executors can run: ordered kernels, and the memory of their results."""

    placements: tuple[Placement, ...]
    """indexed by kernel"""
    buffers: tuple[int, ...]
    """bytes of each buffer, which is as large as the largest result at its offset"""
    arena: int
    """bytes of the single allocation for all buffers and all scratch memory"""
    results: int
    """peak bytes of results outside the arena"""
    working: int
    """peak bytes of one thread's working memory outside the arena"""
    peak_lower_bound: int
    """maximum number of bytes that are live at the same time; with this order, no memory layout needs less"""
    peak_without_reuse: int
    """bytes that a run would allocate if every result were kept"""

    @property
    def peak(self) -> int:
        """Bytes that a run allocates: the arena, results outside it, and working memory.

        Threads keep working memory for later kernels.
        """
        return self.arena + self.results + self.working
