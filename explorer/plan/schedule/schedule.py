"""Schedules: which kernels run, in which order and why, and where in memory their results lie.

A schedule grows in three steps, each a frozen record built once, so that nothing can be read before it is valid. A
`Kernel` is what runs as one step, with its cost (plan/graph/kernels.py makes it; the pass memory_format puts kernels
with another memory format in the place of some). `OrderedKernels` adds when each begins, and why then (the pass order).
A `Schedule` adds where each result lies, and the memory of the whole run (the pass buffers). What belongs to one kernel
stands at its number in several tuples: records that extend each other would be copied by every pass, which takes as
long as planning does.

Executors run a schedule, the program (run/execution/program.py) allocates its memory, the recorder writes it down. The
words for memory are the same everywhere:

- results of kernels are *written*; values between the operations of one kernel are not;
- *working memory* is memory that a kernel needs in addition to its operands and its result while it runs: blocks,
  partial results, a product of another dtype. *Scratch memory* is the part of it that lies in the arena;
- results are *live* from the kernel that writes them to the last one that reads them, working memory while its kernel
  runs;
- the *arena* is one piece of memory for results and scratch memory. Results that are asked for lie outside it;
- results are *packed* where they lie at offsets of the arena that buffers side by side would not give them;
- the *lower bound* is the most that is live at one moment, the *peak* is what a run allocates: the arena, results
  outside it, and working memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import AnyType, TupleType
from explorer.plan.schedule.blocked_kernel import Blocks

ALIGNMENT = 64
"""bytes of a cache line: every result begins at a multiple, so that vector instructions and threads never share one"""


def align_up(size: int) -> int:
    """Return a number of bytes, rounded up to whole cache lines."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def aligned_size(type_: AnyType) -> int:
    """Return the bytes that a result of a type takes in the arena: several outputs lie one after the other."""
    return (
        sum([align_up(part.nbytes) for part in type_.parts]) if isinstance(type_, TupleType) else align_up(type_.nbytes)
    )


class KernelCost(NamedTuple):
    """Cost of a kernel; kernels of one pattern (equal operations on equal types) share one record."""

    flops: int
    bytes: int
    """bytes of the result; 0 for a view"""
    estimate: float
    """µs, by the cost model"""
    workspace: int
    """bytes of working memory while it runs"""
    scratch: int
    """bytes of the workspace that lie in the arena; the kernel allocates the rest"""


@dataclass(frozen=True, eq=False, slots=True)
class Kernel:
    """Nodes that run as one step, operands first; the value of the last one is the result."""

    nodes: tuple[Expr, ...]
    reads: tuple[Expr, ...]
    """operands from outside, each once, in order of first use"""
    cost: KernelCost
    blocks: Blocks | None = None
    """the program of a kernel of several nodes, which runs block by block"""
    constant: bool = False
    """no parameter lies below it: it runs once for all runs of the plan, and its result is kept outside the arena"""
    channels_last: bool = False
    """the result is images (N, C, H, W) whose channels lie together in memory, pixel by pixel"""
    copies: bool = False
    """a reshape of elements that lie in another order than row-major: its result is a copy, with memory of its own"""

    @property
    def is_view(self) -> bool:
        """Whether the result lies in the memory of the first value that is read."""
        return self.nodes[-1].operation.view and not self.copies

    @property
    def result(self) -> Expr:
        """The node whose value the kernel gives."""
        return self.nodes[-1]


Priority: TypeAlias = tuple[bool, int, int, int]
"""(no constant, rank, uid of the result, number) of a kernel: of those that are ready, the smallest begins first"""


class Pick(NamedTuple):
    """Choice of the kernel that begins next, among those that could."""

    reason: str
    """"only", "constant", "ready_first", "own_order" of a subclass, or the heuristic of the order"""
    candidates: tuple[Priority, ...]
    """some of the kernels that were ready, itself among them"""
    ready_count: int
    waiting: tuple[Priority, ...] = ()
    """some of the kernels that wait for an operand which is being computed on another lane"""
    waiting_count: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class OrderedKernels:
    """Kernels in the order in which they begin; the columns say why, by the number of the kernel."""

    roots: tuple[Expr, ...]
    leaves: tuple[Expr, ...]
    """values that exist before the first kernel: tensors, parameters, described constants, and views of them"""
    kernels: tuple[Kernel, ...]
    picks: tuple[Pick, ...]
    levels: tuple[int, ...]
    """1 for a kernel that reads leaves alone, else one more than the highest level among the kernels that it reads"""
    chains: tuple[int, ...]
    """number of the kernel's chain: in a chain each kernel is the only reader of the one before, and reads no other"""
    runs_until: tuple[int, ...]
    """the last kernel, by number, that begins before this one has ended; itself where kernels run one at a time"""


class Placement(NamedTuple):
    """Place of a kernel's result and scratch memory."""

    buffer: int
    """place in the arena that the result takes, by number; −1 for a view and for memory of its own"""
    offset: int
    """bytes into the arena at which the buffer begins; −1 where there is none"""
    scratch_offset: int
    """bytes into the arena at which its scratch memory begins; −1 where it needs none"""
    reuses: Expr | None
    """operand over which the result is written"""
    frees: tuple[Expr, ...]
    """values that are dead when this kernel, and all that run with it, have ended"""
    live: int
    """bytes live while it runs: results and working memory"""


@dataclass(frozen=True, eq=False, slots=True)
class Schedule(OrderedKernels):
    """A finished schedule, ready for an executor: ordered kernels, and the memory that their results take."""

    placements: tuple[Placement, ...]
    """by the number of the kernel"""
    buffers: tuple[int, ...]
    """bytes of each buffer: of the largest result that begins there"""
    arena: int
    """bytes of the one piece of memory that holds all buffers and all scratch memory"""
    results: int
    """bytes of the results that lie outside the arena, at the moment when these are most"""
    working: int
    """bytes of working memory outside the arena, of one thread, at the moment when it is most"""
    peak_lower_bound: int
    """most bytes live at one moment: no arrangement of these kernels in this order needs less"""
    peak_without_reuse: int
    """the peak if every result were kept"""

    @property
    def peak(self) -> int:
        """Bytes that a run takes: arena, results outside it, working memory, which a thread keeps for later kernels."""
        return self.arena + self.results + self.working
