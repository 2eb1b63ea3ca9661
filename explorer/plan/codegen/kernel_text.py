"""C function of a kernel, written line by line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from explorer.core.ir.expr import Expr
from explorer.plan.codegen.elements import TYPES
from explorer.plan.codegen.kernel_code import KernelSpec
from explorer.plan.codegen.values import Values
from explorer.record.escape import visible

_CONTINUATION = re.compile(r"(?:\s|\\|\?\?/)+$")


class FunctionText:
    """Lines of a C function with indented blocks, and comments that state where the program recorded the nodes."""

    def __init__(self, name: str, title: str, origins: Mapping[int, str]) -> None:
        """Begin the function ``name``, after the comment ``title``; ``origins`` are the sources of nodes by uid."""
        self._lines: list[str] = []
        self._nodes: list[tuple[int, Expr]] = []
        self.depth = 0
        """number of blocks that are open"""
        self._origins = origins
        self._last = ""
        self.add(f"/* {title} */")
        self.open(f"void {name}(void *const *arrays, int64_t start, int64_t stop)")

    @property
    def lines(self) -> tuple[tuple[int, Expr], ...]:
        """(line number from 1, node) for each line that computes a node."""
        return tuple(self._nodes)

    def add(self, line: str) -> None:
        """Add a line in the current block."""
        self._lines.append("    " * self.depth + line)

    def operand(self, node: Expr, name: str, address: str, is_array: bool) -> None:
        """Define an operand at an address, which is read as an array or as one number."""
        kind = TYPES[node.dtype]
        self.add(
            f"const {kind} *{name} = {address};" if is_array else f"const {kind} {name} = *(const {kind} *){address};"
        )

    def comment(self, node: Expr) -> None:
        """Add the comment before a line of a node, unless the source is unknown or that of the line before."""
        origin = self._origins.get(node.uid, self._last)
        if origin != self._last:
            self._last = origin
            # A backslash, also written as a trigraph, would continue the comment on the next line.
            self.add(f"// {_CONTINUATION.sub('', visible(origin))}")

    def compute(self, node: Expr, line: str) -> None:
        """Add a line that computes a node, after the comment."""
        self.comment(node)
        self.add(line)
        self._nodes.append((len(self._lines), node))

    def open(self, line: str) -> int:
        """Add a line that begins a block, and return the number of blocks around it, for ``close``."""
        self.add(f"{line} {{")
        self.depth += 1
        return self.depth - 1

    def loop(self, variable: str, stop: int | str, start: int | str = 0) -> int:
        """Begin a loop over the integers from ``start`` to ``stop``."""
        return self.open(f"for (int64_t {variable} = {start}; {variable} < {stop}; {variable}++)")

    def close(self, depth: int) -> None:
        """End blocks until ``depth`` of them are open."""
        while self.depth > depth:
            self.depth -= 1
            self.add("}")

    def ended(self) -> str:
        """End the function, and return its text."""
        self.close(0)
        return "\n".join(self._lines) + "\n"


class KernelText(FunctionText):
    """Lines of the C function of a kernel."""

    def __init__(self, kernel: KernelSpec, title: str, values: Values, is_array: Callable[[int], bool]) -> None:
        """Begin the function, and define its operands and its result.

        Args:
            kernel: the kernel.
            title: comment before the function.
            values: names of the values.
            is_array: returns whether an operand, by its index, is read as an array, not as one number.
        """
        super().__init__(kernel.name, title, kernel.origins)
        for index, read in enumerate(values.reads):
            self.operand(read, values.name(read), f"arrays[{index}]", is_array(index))
        result = kernel.result
        self.add(f"{TYPES[result.dtype]} *{values.name(result)} = arrays[{len(values.reads)}];")


def counted(nodes: Sequence[Expr]) -> str:
    """Return the number of operations as text: 1 operation, 2 operations."""
    return f"{len(nodes)} operation{'s' * (len(nodes) > 1)}"
