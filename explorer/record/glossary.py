"""Terms of the planner with one explanation each, for the panel, the catalogue of reasons, and the documentation."""

from __future__ import annotations

from explorer.record.reasons import plural_of

GLOSSARY = {
    "algorithm": "one of several ways to compute an operation, which differ in time and rounding",
    "arena": "one block of memory that the results of a run share",
    "batch": "calls of one function, or equal operations, that are computed together on stacked operands",
    "block": "a part of an array that stays in the processor's cache while a loop computes with it",
    "broadcast": "to repeat an operand along axes that it lacks, as NumPy does",
    "buffer": "a part of the arena that holds one result after another",
    "cache": "small memory inside the processor, many times faster than main memory",
    "chain": "a sequence of kernels, each of which is the only reader of the previous one and reads no other kernel",
    "channel": "one of the values that an image or a feature map has at each pixel",
    "codegen": "code generation: fused operations become C functions, which a C compiler turns into machine code",
    "constant": "a number written in the program, which is known when the plan is built",
    "consumer": "an operation that reads a value",
    "dedup": "deduplication: equal operations are computed once",
    "device": "the processor that computes and whose memory contains the values",
    "dilation": "the distance between the pixels that neighbouring elements of a filter read",
    "domain": "the numbers for which a function has a result; for log, positive numbers",
    "dynamic data": "data that hides how it is stored, such as zeros or one-hot vectors",
    "elementwise": "computing each element of the result from the operands' elements at the same position, as add does",
    "epilogue": "operations fused after a matrix product, a convolution or a pooling, which process its blocks",
    "first run": "the run that also allocates memory and computes the values that later runs reuse",
    "flops": "floating-point operations: one for each addition, multiplication or other operation on a number",
    "fused": "computed in one loop, so that results between the operations are not written to memory",
    "gradient": "the derivative of a loss with respect to each element of a value",
    "idempotent": "having no further effect when applied again, as with relu: f(f(x)) is f(x)",
    "inlined": "replaced by the operations of the called function",
    "intermediate result": "a value that only later operations read and that was not requested",
    "inverse": "an operation that undoes another one, as log undoes exp",
    "involution": "an operation that undoes itself, as −x does: f(f(x)) is x",
    "kernel": "one loop over arrays that computes one operation, or several fused operations",
    "lane": "one of several threads that run kernels at the same time, each one kernel after another",
    "level": "a kernel's depth: 1 if it reads no other kernel, otherwise one more than the highest level that it reads",
    "live": "needed by the current or a later kernel, so that its memory cannot be reused",
    "live range": "the time from the kernel that writes a value to the last kernel that reads it",
    "member": "one of the calls or operations of a batch",
    "memory format": "the order of an image's channels and pixels in memory",
    "monotone": "never decreasing, or never increasing, when the operand increases",
    "most live": "the most memory that is live at one moment; the parts of the peak may be largest at other moments",
    "neutral": "changing no number, as 0 in a sum and 1 in a product",
    "nll": "negative log likelihood: the loss −log p for the probability p that a model gives the correct class",
    "numerics": "how a plan may change floating-point results: safe keeps the order of operations, fast may change it",
    "one-hot": "having one element 1 and all others 0",
    "operand": "a value that an operation reads",
    "overflow": "a result larger than the largest number of its type, which becomes infinite",
    "padding": "elements added around an image before a convolution or a pooling",
    "peak": "the memory that a run allocates: the arena, requested results, and working memory",
    "policy": "a setting that a layer passes to the layers inside it, such as whether weights are trained",
    "pooling": "reducing each window of an image to its largest or mean element",
    "producer": "the operation that computes a value",
    "prologue": "elementwise operations fused before the reduction that reads them, block by block",
    "prune": "to remove operations whose results are never read",
    "recall": "to reuse values from an earlier run that the program still references",
    "reduction": "an operation that combines many elements into one, such as sum or max",
    "root": "a value that the program requested",
    "rounding": "the replacement of a number by the nearest number that its type can represent",
    "sigmoid": "1 / (1 + exp(−x)), which is between 0 and 1",
    "softmax": "exponentials divided by their sum, so that they add up to 1",
    "stable": "computed in a form that neither overflows nor loses digits of the result",
    "stacked": "joined along a new first axis, as NumPy's stack does",
    "stride": "the number of pixels by which a filter or a window moves",
    "temporary": "an intermediate result that is written to memory",
    "tile": "a small square of an image that is computed at once",
    "view": "a result that shares its operand's memory, as reshape does, so that nothing is computed",
    "warm run": "a run after the first one, with memory and constants ready; for short runs, the best of five",
    "window": "the pixels that a filter or a pooling reads for one element of its result",
    "Winograd": "a way to compute small convolutions with fewer multiplications",
    "worker": "another process, on this or another machine, that computes a part and returns its results",
    "working memory": "memory that a kernel needs only while it runs",
}
"""term → its explanation, which is displayed after the term and a colon"""


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
"""term → its other forms, if there are other forms than the regular plural"""


def inflections(term: str) -> tuple[str, ...]:
    """Return all forms of a term, also capitalised: the term and its plural, or its irregular forms."""
    forms = (term, *_FORMS.get(term, (plural_of(term),)))
    return tuple(dict.fromkeys([*forms, *[form[0].upper() + form[1:] for form in forms]]))
