"""The schedule: kernels in order, the buffers that their results live in, and how long.

Memory is spoken of in these words, everywhere. *Written* are the results of kernels; a value that is handed on inside
a kernel is not. *Working memory* is what a kernel needs beside its operands and its result while it runs: blocks, parts
of rows, a product of another dtype; *scratch memory* is the part of it that lies in the arena. *Alive* are results from
the kernel that writes them to the last one that reads them, and working memory while its kernel runs. The *arena* is
one piece of memory for results and scratch memory; results that are asked for lie outside it. *Packed* are results at
offsets of the arena, where buffers side by side would take more. The *bound* is the most that is alive at one moment,
the *peak* what a run takes: the arena, results outside it, working memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import AnyType, TupleType
from explorer.plan.schedule.blocked_kernel import Blocks

ALIGNMENT = 64


def align_up(size: int) -> int:
    """A number of bytes, rounded up to whole cache lines."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def aligned_size(type_: AnyType) -> int:
    """Bytes of the place that a result takes: those of several outputs lie one after the other."""
    return (
        sum([align_up(part.nbytes) for part in type_.parts]) if isinstance(type_, TupleType) else align_up(type_.nbytes)
    )


Pick: TypeAlias = tuple[bool, int, int, int]
"""no constant, rank, uid of the result, and number: what is smaller is picked earlier"""


@dataclass(eq=False, slots=True)
class Kernel:
    """Nodes that run as one step; the last one's value is the result."""

    nodes: tuple[Expr, ...]
    reads: tuple[Expr, ...] = ()
    """operands from outside, each once, in order of first use"""
    level: int = 0
    chain: int = 0
    ready_candidates: tuple[Pick, ...] = ()
    """some of the kernels whose operands are there when it is picked, itself among them"""
    ready_count: int = 1
    waiting: tuple[Pick, ...] = ()
    """where kernels run at one time, some of those of which every operand has begun and one has not ended"""
    waiting_count: int = 0
    pick_reason: str = ""
    flops: int = 0
    bytes: int = 0
    """bytes of the result; 0 for a view"""
    workspace: int = 0
    """bytes of temporaries while it runs"""
    scratch: int = 0
    """bytes of the workspace that the program gives it; the rest the kernel allocates"""
    blocks: Blocks | None = None
    """how a kernel of several nodes runs"""
    estimate: float = 0.0
    constant: bool = False
    """no parameter lies below it: it runs once for all runs of the plan, and its result is kept outside the buffers"""
    channels_last: bool = False
    """the result is images (N, C, H, W) whose channels lie together in memory, pixel by pixel"""
    buffer: int = -1
    """the place in the arena that the result takes, by number; −1 for a view and for memory of its own"""
    offset: int = -1
    """bytes into the arena at which the buffer begins"""
    scratch_place: int = -1
    """which of the places for scratch memory it takes, where these lie side by side behind the buffers"""
    scratch_offset: int = -1
    """bytes into the arena at which its scratch memory begins"""
    reuses: Expr | None = None
    """the operand whose place the result takes"""
    runs_until: int = -1
    """the last kernel, by number, that begins before this one has ended; itself where kernels run one at a time"""
    frees: list[Expr] = field(default_factory=list)
    """values that are dead when this kernel, and all that run with it, have ended"""
    live: int = 0

    @property
    def result(self) -> Expr:
        """The node whose value the kernel gives."""
        return self.nodes[-1]


@dataclass(eq=False, slots=True)
class Schedule:
    """What an executor runs."""

    roots: tuple[Expr, ...]
    leaves: tuple[Expr, ...]
    """values that are there before the first kernel: tensors, parameters, described constants, and views of them"""
    kernels: tuple[Kernel, ...]
    buffers: tuple[int, ...] = ()
    """bytes of each buffer: of the largest result that begins there"""
    arena: int = 0
    """bytes of the one piece of memory that holds all buffers and all scratch memory"""
    results: int = 0
    """bytes of the results that lie outside the arena, at the moment when these are most"""
    working: int = 0
    """bytes of working memory outside the arena, of one thread, at the moment when it is most"""
    peak_lower_bound: int = 0
    """bytes alive at the worst moment: no arrangement of these kernels in this order needs less"""
    peak_without_reuse: int = 0
    """what the peak would be if every result were kept"""

    @property
    def peak(self) -> int:
        """Bytes that a run takes: arena, results outside it, working memory, which a thread keeps for later kernels."""
        return self.arena + self.results + self.working
