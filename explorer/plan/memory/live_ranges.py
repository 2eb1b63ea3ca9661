"""Live ranges: which memory each value lies in, and the kernels between which that memory is in use.

A view has no memory, but keeps that of its operand alive; so ranges are those of owners. Numbers of kernels are the
clock: with several lanes a kernel may still run when later ones begin, which ``runs_until`` of the order says.
"""

from __future__ import annotations

from typing import NamedTuple

from explorer.core.ir.expr import Expr
from explorer.plan.schedule.schedule import OrderedKernels


class LastUse(NamedTuple):
    """End of a live range, as numbers of kernels.

    Where several kernels run at a time, the last reader need not be the one that ends last: ``dead`` is what decides
    when memory may be taken by another result, ``before`` whether the last reader may write over it.
    """

    reader: int
    """the last kernel that reads the memory"""
    dead: int
    """the last that begins before all that read it have ended"""
    before: int
    """the last that begins before all that read it, but for ``reader``, have ended; −1 where there is no other"""


class LiveRanges(NamedTuple):
    """Live ranges of all values of a schedule."""

    owner_of: dict[int, Expr]
    """uid of a result → the node whose memory it lies in: itself, or for a view what is viewed"""
    last_uses: dict[int, LastUse]
    """uid of such a node → the end of its range; without those that nothing reads"""
    kept: set[int]
    """uids of nodes whose memory holds a result that was asked for: it is handed out, and never dies"""


def live_ranges(ordered: OrderedKernels) -> LiveRanges:
    """Find whose memory each value lies in, and when it dies."""
    owner_of: dict[int, Expr] = {}
    last_uses: dict[int, LastUse] = {}
    for index, (kernel, runs_until) in enumerate(zip(ordered.kernels, ordered.runs_until, strict=True)):
        result = kernel.nodes[-1]
        owner_of[result.uid] = (
            owner_of.get(kernel.reads[0].uid, kernel.reads[0]) if kernel.is_view and kernel.reads else result
        )
        for read in kernel.reads:
            uid = owner_of.get(read.uid, read).uid
            use = last_uses.get(uid)
            if use is None:
                last_uses[uid] = LastUse(index, runs_until, -1)
            else:
                # A kernel that reads two views of one value is one reader, not its own predecessor.
                before = use.before if use.reader == index else use.dead
                last_uses[uid] = LastUse(index, max(use.dead, runs_until), before)
    kept = {owner_of[root.uid].uid for root in ordered.roots if root.uid in owner_of}
    return LiveRanges(owner_of, last_uses, kept)
