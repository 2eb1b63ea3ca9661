"""Planner terms with one explanation each, for the panel, the catalogue of reasons, and the documentation."""

from __future__ import annotations

from explorer.record.reasons import plural_of

GLOSSARY = {
    "algorithm": "one of several ways to compute an operation, which differ in time and rounding",
    "arena": "one piece of memory in which the results of a run share space",
    "batch": "calls of one function, or equal operations, computed together on stacked operands",
    "block": "a part of an array that stays in the processor's cache while a loop computes with it",
    "broadcast": "to repeat an operand along axes that it does not have, as NumPy does",
    "buffer": "a piece of the arena that one result after the other uses",
    "cache": "small memory inside the processor, many times faster than main memory",
    "chain": "kernels of which each is the only reader of the one before, and reads no other",
    "channel": "one of the values that an image or a feature map has at each pixel",
    "constant": "a number that the program writes down, known when the plan is built",
    "consumer": "an operation that reads a value",
    "dedup": "computing equal operations once",
    "device": "the processor that computes, and whose memory has the values",
    "dilation": "the distance between the pixels that a filter reads side by side",
    "domain": "the numbers for which a function has a result: log has positive ones",
    "dynamic data": "data that hide how they are stored, such as zeros or one-hot vectors",
    "elementwise": "computing each element of the result from the elements at the same place, such as add or tanh",
    "epilogue": "operations that are fused behind a matrix product, a convolution or a pooling, and work on its blocks",
    "first run": "a run that also sets up its memory and computes what later runs find ready",
    "flops": "floating-point operations: one for each number that is added, multiplied or computed otherwise",
    "fused": "computed in one loop, so that results between the operations are never written to memory",
    "gradient": "the derivative of a loss for each element of a value: how much it changes with that element",
    "idempotent": "changing nothing when it is done again, as relu: f(f(x)) is f(x)",
    "inlined": "a function's operations put in the place of its call",
    "intermediate result": "a value that only later operations read, and nobody asked for",
    "inverse": "an operation that undoes another one, as log undoes exp",
    "involution": "undoing itself, as −x does: f(f(x)) is x",
    "kernel": "one loop over arrays: one operation, or several that are fused",
    "lane": "a place where kernels run one after the other, at the same time as other lanes: a thread",
    "level": "1 for a kernel that reads no other kernel's result, else one more than the highest that it reads",
    "live": "still to be read, or in use by the kernel that runs, so that its memory cannot be used for something else",
    "live range": "the time from the kernel that writes a value to the last one that reads it",
    "member": "one of the calls or operations of a batch",
    "memory format": "the order in which the channels and pixels of an image lie in memory",
    "monotone": "never falling, or never rising, where its operand rises",
    "most live": "the most memory that is live at one moment; the parts of the peak may be largest at others",
    "neutral": "changing no number, as 0 in a sum and 1 in a product",
    "nll": "negative log likelihood, the loss −log p of the probability p that a model gives the truth",
    "numerics": "what a plan may do to floating-point numbers: safe keeps the order of operations, fast may change it",
    "one-hot": "a vector that is 1 at one place and 0 elsewhere",
    "operand": "a value that an operation reads",
    "overflow": "a result larger than the largest number of its type, which becomes infinite",
    "padding": "elements put around an image before a convolution or a pooling",
    "peak": "the memory that a run allocates: the arena, results that were asked for, and working memory",
    "policy": "a setting that a layer hands down to the layers inside it, such as whether weights are trained",
    "pooling": "reducing each window of an image to its largest or its mean element",
    "producer": "the operation that computes a value",
    "prologue": "elementwise operations that are fused before the reduction that reads them, block by block",
    "prune": "leaving out operations whose results nobody reads",
    "recall": "using values that an earlier run computed and the program still holds",
    "reduction": "an operation that combines many elements to one, such as sum or max",
    "root": "a value that the program asked for",
    "rounding": "the difference between a number and the nearest one that its type can hold",
    "sigmoid": "1 / (1 + exp(−x)), which lies between 0 and 1",
    "softmax": "exponentials divided by their sum, which then add up to 1",
    "stable": "computed in a form in which nothing overflows, and no digits are lost that the result has",
    "stacked": "joined along a new first axis, as NumPy's stack does",
    "stride": "the number of pixels by which a filter or a window moves on",
    "temporary": "an intermediate result that is written to memory",
    "tile": "a small square of an image that is computed at once",
    "view": "a result that is a part or another shape of its operand's memory, such as reshape; nothing is computed",
    "warm run": "a run of a program that ran before: memory and constants are ready; a short one is the best of five",
    "Winograd": "a way to compute small convolutions with fewer multiplications",
    "worker": "another process, of this machine or of another one, that computes a part and sends its results back",
    "working memory": "memory that a kernel needs only while it runs",
}
"""term → its explanation, displayed after the term and a colon"""


_FORMS = {
    "batch": ("batches", "batched", "batching"),
    "consumer": ("consumers", "reader", "readers"),
    "cache": ("caches", "cached"),
    "domain": ("domains",),
    "flops": (),
    "fused": ("fuse", "fuses", "fusing", "fusion"),
    "inlined": ("inline", "inlines", "inlining"),
    "policy": ("policies",),
    "prune": ("prunes", "pruned", "pruning"),
    "recall": ("recalls", "recalled"),
    "softmax": (),
    "stacked": ("stack", "stacks"),
    "temporary": ("temporaries",),
    "tile": ("tiles", "tiled"),
    "working memory": ("working",),
}
"""term → its other forms, if there are any besides the plural"""


def inflections(term: str) -> tuple[str, ...]:
    """Return all forms of a term: itself and its plural, or irregular ones, also capitalised."""
    forms = (term, *_FORMS.get(term, (plural_of(term),)))
    return tuple(dict.fromkeys([*forms, *[form[0].upper() + form[1:] for form in forms]]))
