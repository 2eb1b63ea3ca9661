"""The schedule: kernels in order, the buffers that their results live in, and how long."""

from __future__ import annotations

from dataclasses import dataclass, field

from explorer.core.expr import Expr
from explorer.plan.blocks import Blocks

ALIGNMENT = 64


def rounded(size: int) -> int:
    """A number of bytes, rounded up to whole cache lines."""
    return -(-size // ALIGNMENT) * ALIGNMENT


@dataclass(eq=False, slots=True)
class Kernel:
    """Nodes that run as one step; the last one's value is the result."""

    nodes: tuple[Expr, ...]
    reads: tuple[Expr, ...] = ()
    """operands from outside, each once, in order of first use"""
    level: int = 0
    chain: int = 0
    ready: tuple[Expr, ...] = ()
    ready_count: int = 1
    why: str = ""
    flops: int = 0
    bytes: int = 0
    """bytes of the result; 0 for a view"""
    workspace: int = 0
    """bytes of temporaries while it runs"""
    blocks: Blocks | None = None
    """how a kernel of several nodes runs"""
    estimate: float = 0.0
    constant: bool = False
    """no parameter lies below it: it runs once for all runs of the plan, and its result is kept outside the buffers"""
    buffer: int = -1
    reuses: Expr | None = None
    """the operand whose place the result takes"""
    frees: list[Expr] = field(default_factory=list)
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
    """bytes of each buffer"""
    peak: int = 0
    """bytes of intermediates and workspaces alive at the worst moment"""
    peak_without_reuse: int = 0
    """what it would be if every result were kept"""
