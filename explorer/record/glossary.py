"""Terms of the planner, each explained once: for the panel, for the catalogue of reasons, and for the documentation."""

from __future__ import annotations

GLOSSARY = {
    "arena": "one piece of memory in which the results of a run share space",
    "batch": "calls of one function, or equal operations, computed together on stacked operands",
    "block": "a part of an array that stays in the processor's cache while a loop computes with it",
    "broadcast": "to repeat an operand along axes that it does not have, as NumPy does",
    "buffer": "a piece of the arena that one result after the other uses",
    "cache": "small memory inside the processor, many times faster than main memory",
    "channel": "one of the values that an image or a feature map has at each pixel",
    "constant": "a number that the program writes down, known when the plan is made",
    "dilation": "the distance between the pixels that a filter reads side by side",
    "dynamic data": "data that hide how they are stored, such as zeros or one-hot vectors",
    "elementwise": "computing each element of the result from the elements at the same place, such as add or tanh",
    "fused": "computed in one loop, so that results between the operations are never written to memory",
    "inlined": "a function's operations put in the place of its call",
    "intermediate result": "a value that only later operations read, and nobody asked for",
    "first run": "a run that also sets up its memory and computes what later runs find ready",
    "kernel": "one loop over arrays: one operation, or several that are fused",
    "live": "still to be read, so that its memory cannot be used for something else",
    "one-hot": "a vector that is 1 at one place and 0 elsewhere",
    "operand": "a value that an operation reads",
    "overflow": "a result larger than the largest number of its type, which becomes infinite",
    "padding": "elements put around an image before a convolution or a pooling",
    "peak": "the most memory in use at one moment of the run",
    "pooling": "reducing each window of an image to its largest or its mean element",
    "reduction": "an operation that combines many elements to one, such as sum or max",
    "root": "a value that the program asked for",
    "rounding": "the difference between a number and the nearest one that its type can hold",
    "stride": "the number of pixels by which a filter or a window moves on",
    "tile": "a small square of an image that is computed at once",
    "view": "a result that is a part or another shape of its operand's memory, such as reshape; nothing is computed",
    "warm run": "a run of a program that has run before: its memory and its constants are ready",
    "Winograd": "a way to compute small convolutions with fewer multiplications",
}
"""term → its explanation, which follows the term and a colon"""


def inflections(term: str) -> tuple[str, ...]:
    """Return the forms under which a term is written in sentences: itself and its plural."""
    return (term, term + ("es" if term.endswith(("s", "x", "ch")) else "s"))
