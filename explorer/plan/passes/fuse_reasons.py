"""Reasons of the pass that fuses: which operations share a kernel, and why others do not.

They stand apart from the pass (passes/fuse.py), whose code a reader would not find between thirty sentences. The class
is a base of the pass, so that `CATALOGUE` knows them in the order in which they are explained in assets/reasons.md.
"""

from __future__ import annotations

from explorer.plan.graph.reasons import Reason

_LOOP = "Fused operations run as one loop over small blocks: for i in blocks: y[i] = np.tanh(np.sin(x[i]))"
_FUSED = f"{_LOOP}. A block stays in the cache, so results between them are never written to memory and read again."
_APART = f"{_LOOP}. Operations that are not fused write whole arrays to memory, where the next one reads them again."
_WHOLE_ROWS = "A reduction, such as a sum or a softmax, combines the elements of a row (or of the axes that it reduces)"
_UNFUSED = 'ex.EvalPlan(without=["fuse"]) runs every operation by itself.'
_SAVED = "so {saved_bytes} in {temporaries:intermediate result|intermediate results} are never written to memory"
_UNWRITTEN = "then {saved_bytes} in {temporaries:intermediate result|intermediate results} are never written to memory"
_IN_PARTS = (
    "`{operations}` are fused into one loop over {blocks:block}, because "
    f"{_UNWRITTEN}. "
    "Each block is a part of a row, since `{last}` combines the elements of a row, and whole rows do not fit into the "
    "cache."
)
_ONE_PRODUCT = "and one loop can compute only one matrix product, convolution or pooling"


class FuseReasons:
    """The reasons of Fuse."""

    fused = Reason(
        "chain",
        "`{operations}` are fused into one loop over blocks of their arrays, because their results have one shape and "
        f"all but the last are read within the loop alone, {_SAVED}.",
        meaning=_FUSED,
        change=f"A result that is asked for, or read by a second operation, is written. {_UNFUSED}",
    )
    fused_with_product = Reason(
        "epilogue",
        "`{operations}` are fused, because each block of `{product}` can go through the operations after it while it "
        f"is still in the cache, {_SAVED}.",
        meaning=f"{_FUSED} Here the first operation is a matrix product, a convolution or a pooling.",
        change=f"A result that is asked for, or read by a second operation, is written. {_UNFUSED}",
    )
    finished_in_cache = Reason(
        "epilogue",
        "`{operations}` are fused, because each block of `{product}` can go through the operations after it while it "
        "is still in the cache, so `{product}` is not read from memory again.",
        meaning=f"{_FUSED} The first operation writes into the memory of the final result, so nothing else is needed.",
        change=f"A result that is asked for, or read by a second operation, is written. {_UNFUSED}",
    )
    reduced_whole = Reason(
        "reduction",
        "`{operations}` are fused into {blocks:pass over all rows|passes, each over some of the rows}, because "
        f"{_UNWRITTEN}: "
        "`{last}` combines the elements of a row, and whole rows fit into the cache.",
        meaning=f"{_FUSED} {_WHOLE_ROWS}, so each block holds whole rows.",
        change=_UNFUSED,
    )
    reduced_halved = Reason(
        "reduction",
        f"{_IN_PARTS} The parts are added in the order in which NumPy adds them, so the result has the same bits as "
        "without fusion.",
        meaning=f"{_FUSED} {_WHOLE_ROWS}. Rows too long for the cache are cut where NumPy's summation cuts them, too.",
        change=_UNFUSED,
    )
    reduced_exact = Reason(
        "reduction",
        f"{_IN_PARTS} "
        "The result is the same in every order of the parts: `{last}` gives an element, and rounds nothing.",
        meaning=f"{_FUSED} {_WHOLE_ROWS}. The largest of several largest elements, for one, is the largest of all.",
        change=_UNFUSED,
    )
    reduced_integers = Reason(
        "reduction",
        f"{_IN_PARTS} The result is the same in every order of the parts, because {{given}} numbers are not rounded.",
        meaning=f"{_FUSED} {_WHOLE_ROWS}. Only floating-point numbers are rounded, where they are added or multiplied.",
        change=_UNFUSED,
    )
    reduced_joined = Reason(
        "reduction",
        f"{_IN_PARTS} The parts end where the cache asks for it, not where NumPy's own sum would split a row, so the "
        "additions have another order than without fusion, and the last digits may differ.",
        meaning=f"{_FUSED} {_WHOLE_ROWS}. Floating-point sums are rounded, differently for each order of the terms.",
        change=f"For the last digits as without fusion: {_UNFUSED}",
        numerics="reordering",
    )
    computed_once = Reason(
        "computed_once",
        "`{reader}` is not fused into one loop with `{operand}`, because `{operand}` reads nothing but values that the "
        "program holds (weights) and is computed once, before the first run, while `{reader}` is computed in every "
        "run.",
        meaning="Results that are the same in all runs are computed before the first one, and kept. " + _APART,
        change='ex.EvalPlan(without=["constants"]) computes them in every run, and may fuse them then.',
    )
    asked_for = Reason(
        "asked_for",
        "`{operand}` is not fused into one loop with `{reader}`, which reads it, because `{operand}` was asked for as "
        "a result, so it is written to memory anyway, and `{reader}` reads it from there.",
        meaning=_APART,
        change="Do not register or return this value where only what is computed from it is needed.",
    )
    other_consumers = Reason(
        "other_consumers",
        "`{operand}` is not fused into one loop with `{reader}`, which reads it, because {consumers} operations read "
        "it ({readers}), so it is computed once, written to memory, and read from there by each of them.",
        meaning=f"{_APART} A value that several operations read is computed once and written, not computed for each.",
        change="Nothing, where all of its readers are needed.",
    )
    shape = Reason(
        "shape",
        "`{reader}` is not fused into one loop with `{operand}`, because their results have different shapes, {after} "
        "and {before}, so a block of the one does not fit a block of the other.",
        meaning=f"{_APART} The blocks of operations in one loop must have the same shape.",
        change="Broadcast an operand that is stored, not one that is computed, where the program allows it.",
    )
    second_product = Reason(
        "second_product",
        "`{operand}` is not fused into one loop with `{reader}`, which reads it, because `{reader}` is fused with "
        "`{first}` already, "
        f"{_ONE_PRODUCT}.",
        meaning=f"{_APART} Products, convolutions and poolings are computed in blocks of different sizes and orders.",
    )
    from_second_product = Reason(
        "second_product",
        "`{operand}` is not fused into one loop with `{reader}`, which reads it, because `{operand}` is fused with "
        f"`{{second}}` already, and `{{reader}}` with `{{first}}`, {_ONE_PRODUCT}.",
        meaning=f"{_APART} Products, convolutions and poolings are computed in blocks of different sizes and orders.",
    )
    view_between = Reason(
        "view",
        "`{reader}` is not fused into one loop with `{below}`, because `{reader}` reads it through the view "
        "`{operand}`, in another order or shape, so a block of `{below}` is no block for `{reader}`.",
        meaning=f"{_APART} A view is the same memory with another shape, order or step; nothing is copied for it.",
        change="Take the view of an earlier value, or of the result, so that it does not stand between them.",
    )
    product = Reason(
        "product",
        "`{reader}` is not fused into one loop with `{operand}`, because the loop of `{product}`, which computes it, "
        "runs over blocks smaller than rows, and `{reader}` needs whole rows.",
        meaning=f"{_APART} {_WHOLE_ROWS}.",
    )
    long_rows = Reason(
        "long_rows",
        "`{operation}` is not fused into one loop with `{operand}`, because `{operation}` needs whole rows, and one "
        "row of `{operand}` takes {row_bytes}: more than is kept in the cache, so it would go through memory anyway.",
        meaning=f"{_APART} {_WHOLE_ROWS}. Where a row does not fit into the cache, fusing it would save nothing.",
        change="Shorter rows, or a narrower dtype.",
    )
    too_large = Reason(
        "too_large",
        "`{reader}` is not fused into one loop with `{operand}`, because the result of `{operand}` has {read_bytes}, "
        "and a fused loop runs over {limit:block} at most, each of a size that fits into the cache.",
        meaning=f"{_APART} {_WHOLE_ROWS}.",
        change="Fewer elements, or a narrower dtype.",
    )
    view_operand = Reason(
        "producer",
        "`{reader}` is not fused into one loop with `{producer}`, because `{producer}` only gives elements another "
        "shape or order: nothing is computed for it that could be fused.",
        meaning=f"{_APART} A view is the same memory with another shape, order or step; nothing is copied for it.",
    )
    output_of_call = Reason(
        "producer",
        "`{reader}` is not fused into one loop with the operations in `{call}`, whose result it reads, because the "
        "call of `{call}` runs as one step, which writes its result to memory.",
        meaning=f"{_APART} A call that is not replaced by the operations of its body is planned once, for itself.",
        change="A higher limit for operations: ex.EvalPlan(inline=ex.passes.Inline(limit=…)).",
    )
    producer = Reason(
        "producer",
        "`{reader}` is not fused into one loop with `{producer}`, because `{producer}` is not elementwise: it runs to "
        "its end, and writes its whole result to memory, before `{reader}` begins.",
        meaning=f"{_APART} An elementwise operation, such as np.add, computes each element from the elements at the "
        "same place alone, so a block of its operands is enough for a block of its result.",
    )
    nothing_to_join = Reason(
        "nothing_to_join",
        "`{operation}` is fused with no other operation, because no operation comes before it, and none after it: it "
        "reads only values that are there before the run, and its result was asked for.",
        meaning=_APART,
    )
    reader = Reason(
        "reader",
        "`{operation}` is not fused into one loop with `{reader}`, which reads its result, because `{reader}` cannot "
        "be computed block by block: it must find the whole result in memory when it begins.",
        meaning=f"{_APART} Only elementwise operations and reductions can begin with a block of what they read.",
    )
    element_type = Reason(
        "element_type",
        "`{operation}` is fused with no other operation, because its elements ({type}) have no dtype of NumPy's own, "
        "and only operations on NumPy's dtypes are fused.",
        meaning=_APART,
        change="Convert the operands to a dtype of NumPy's: x.astype(...).",
    )
    device = Reason(
        "device",
        "`{operation}` is fused with no other operation, because it runs on {device}, where only elementwise "
        "operations are fused.",
        meaning=f"{_APART} Products and reductions are cut into blocks as large as the CPU's caches allow.",
        change='Compute on the CPU: x.to_device("cpu").',
    )
