"""Reverse depth-first order: a topological order that follows one branch to its end before it begins the next.

The pass order takes it as the rank of kernels where a plan asks for ``order="depth_first"``: nets that were tuned for
InferFramework then run, and use memory, in the order that they were tuned in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from explorer.core.ir.expr import Expr
from explorer.plan.schedule.schedule import Kernel


def depth_first(leaves: Sequence[Expr], kernels: Sequence[Kernel], users: Sequence[Sequence[int]]) -> list[int]:
    """Return the place of each kernel in the reversed post-order of a depth-first search, InferFramework's order.

    ``users`` are for each kernel the kernels that read its result, by number.

    The search begins at the inputs in the order of their names, and follows the readers of a result in the order of
    theirs; a kernel is left when all its readers are left, and what is left last comes first. So of two branches the
    one whose name comes *last* is run first, to its end. Values inside a layer or a file's operator are weights, not
    inputs; kernels that no input reaches are searched from afterwards. Equal names keep the order of recording.
    """
    names = [_name(kernel.result) for kernel in kernels]
    readers: dict[int, list[int]] = {leaf.uid: [] for leaf in leaves if _is_input(leaf)}
    for index, kernel in enumerate(kernels):
        for read in kernel.reads:
            if read.uid in readers:
                readers[read.uid].append(index)
    inputs = sorted([leaf for leaf in leaves if leaf.uid in readers], key=_name)
    starts: list[Iterable[int]] = [sorted(readers[leaf.uid], key=names.__getitem__) for leaf in inputs]
    has_producers = {user for following in users for user in following}
    # Kernels that no input reaches come last: first those that read no other kernel.
    starts.append(sorted(range(len(kernels)), key=lambda index: (index in has_producers, names[index])))
    finished: list[int] = []
    seen = [False] * len(kernels)
    for start in starts:
        # −1 stands for the inputs, which are no kernels. Python's own stack ends long before a deep net does.
        stack = [(-1, iter(start))]
        while stack:
            index, following = stack[-1]
            further = next((user for user in following if not seen[user]), None)
            if further is not None:
                # Marked when it is entered, not when it is left, as in every depth-first search of a graph with shared
                # readers.
                seen[further] = True
                stack.append((further, iter(sorted(users[further], key=names.__getitem__))))
                continue
            stack.pop()
            if index >= 0:
                finished.append(index)
    places = [0] * len(kernels)
    for place, index in enumerate(reversed(finished)):
        places[index] = place
    return places


def _name(node: Expr) -> tuple[str, str]:
    """Return the names of the scopes around a node, as one path, and its label: the sort key of a node."""
    path = []
    scope = node.scope
    while scope is not None:
        path.append(scope.name)
        scope = scope.parent
    return "/".join(reversed(path)), node.label


def _is_input(leaf: Expr) -> bool:
    """Whether a leaf is an input of the program: it stands in no layer and in no file's operator."""
    scope = leaf.scope
    while scope is not None:
        if scope.kind in ("layer", "file"):
            return False
        scope = scope.parent
    return True
