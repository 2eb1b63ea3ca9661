"""Reasons of the pass that places results in memory."""

from __future__ import annotations

from explorer.plan.graph.reasons import Reason

_ARENA = "All results that are not handed out lie in one piece of memory, the arena, which is allocated before the run."


class BuffersReasons:
    """The reasons of Buffers."""

    packed = Reason(
        "packed",
        "{count:result is|results are} placed in one piece of memory of {arena_bytes}, instead of buffers side by "
        "side ({beside_bytes}), because two results may overlap where one is read for the last time before the other "
        "is written. No less than {live_bytes} would do, because so much is live at one moment.",
        meaning=f"{_ARENA} Two results may overlap where one is no longer needed when the other is written.",
    )
    packed_with_scratch = Reason(
        "packed",
        "{count:result|results} and working memory of kernels are placed in one piece of memory of {arena_bytes}, "
        "instead of buffers side by side ({beside_bytes}), because two of them may overlap where one is read for the "
        "last time before the other is written. No less than {live_bytes} would do, because so much is live at one "
        "moment.",
        meaning=f"{_ARENA} A kernel is one operation, or several fused ones; it uses working memory while it runs.",
    )
    reused = Reason(
        "reused",
        "Buffer {buffer} ({size_bytes}) holds {count:result} in turn, instead of one place for each, because each is "
        "read for the last time before the next is written.",
        meaning=f"{_ARENA} A buffer is a place in it.",
        change="More kernels at a time (lanes=…) keep results longer, so that fewer buffers can be used again.",
    )
    in_place = Reason(
        "in_place",
        "{count:result is|results are} written over an operand, instead of into new memory, because nothing reads "
        "that operand afterwards: {written} over {operands}. {saved_bytes} of memory are saved.",
        meaning="As NumPy's out= does it: np.add(x, y, out=x).",
        change="An operand that is read later, or asked for, is not written over.",
    )
    copied = Reason(
        "copied",
        "The {size_bytes} of `{operand}` are copied, because they lie in memory in another order than the one in which "
        "reshape reads them, so that no strides show them in the new shape.",
        meaning="As in NumPy: np.arange(6).reshape(2, 3).T.reshape(6) copies, because no one stride leads from "
        "each element to the next. Without the transpose it is a view, which copies nothing.",
        change="Reshape before axes are moved or parts are taken, where the program allows that.",
    )
    block_memory = Reason(
        "block_memory",
        "The most memory, {live_bytes}, is live while the fused operations that end with `{result}` run, because "
        "their blocks take {working_bytes} in addition to the results that are live then. Run one after another, the "
        "same operations would have at most {apart_bytes} live, these results included.",
        meaning="Fused operations run as one loop over small blocks of arrays, and keep a block of each intermediate "
        "result for every thread. For small arrays these blocks may take more memory than the arrays themselves.",
        change='ex.EvalPlan(without=["fuse"]) runs the operations one after another, which takes longer.',
    )
