"""Memory budget: limits on the sizes that a file may request, checked before anything is allocated or computed.

A file of a hundred bytes can request a range of 10¹² numbers, an input of 10¹⁸ elements, or a function that expands to
10⁹ operators by calling itself. Readers and the net builder therefore compute sizes first. Showing such a file
allocates nothing, and running it raises BudgetError if it needs more than ``budget.memory``. Catching MemoryError would
be too late, because the system may kill the process first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explorer.core.errors import BudgetError, OperandError
from explorer.record.reasons import bytes_text
from explorer.record.renamed import renamed_attributes, warn_renamed

AXES = 64
"""maximum number of axes of a NumPy array"""
BYTES = 2**63 - 1
"""maximum number of bytes that an array can address"""
NESTING, VALUES = 16, 1_000_000
"""maximum depth of nested lists, and maximum number of values in them"""
BOXES = 64
"""maximum number of nested boxes created from one name, beyond which the name is not split"""
CALLS = 256
"""maximum depth of nested function calls"""
_UNKNOWN_MACHINE = 16 << 30

_RENAMED = {"text": "file_size"}
"""old name of a limit → current name"""


class Budget:
    """Limits on the resources that a file may use, as settable attributes: ``ex.budget.memory = 64 << 30``.

    ``memory``: bytes that a run may use at one time, including weights; by default the machine's memory. ``constants``:
    bytes of ranges, masks and similar constants created while one net is built. ``operators``: operators after the
    file's function calls, including ONNX's standard functions, have been expanded. ``steps``: sequence steps, windows
    and parts that the operators of one net request. ``file_size``: bytes of a graph file, and bytes by which a zip file
    grows when unpacked.

    >>> ex.budget.operators
    25000
    """

    __slots__ = ("_memory", "constants", "file_size", "operators", "steps")
    constants: int
    operators: int
    steps: int
    file_size: int

    def __init__(self) -> None:
        self._memory: int | None = None
        self.constants, self.file_size = 128 << 20, 2 << 30
        self.operators, self.steps = 25_000, 50_000

    def __setattr__(self, name: str, value: Any) -> None:
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise OperandError(
                f"budget.{name} = {value!r}",
                rule="a limit must be an integer of 1 or more (bytes, operators or steps)",
                fix=f"ex.budget.{name} = 8 << 30",
            )
        if name in _RENAMED:
            warn_renamed(f"budget.{name}", f"budget.{_RENAMED[name]}")
        object.__setattr__(self, _RENAMED.get(name, name), value)

    if not TYPE_CHECKING:
        __getattr__ = renamed_attributes(**_RENAMED)

    @property
    def memory(self) -> int:
        """Maximum number of bytes that a run may use at one time; None restores the default, the machine's memory."""
        return _machine() if self._memory is None else self._memory

    @memory.setter
    def memory(self, value: int | None) -> None:
        self._memory = value

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {size_text(getattr(self, name))}" for name in ("memory", "constants", "file_size"))
        return f"<budget: {sizes}, operators {self.operators:,}, steps {self.steps:,}>"


budget = Budget()


class _Account:
    """Running totals of the constants and steps that one build requests."""

    __slots__ = ("constants", "steps")

    def __init__(self) -> None:
        self.constants = self.steps = 0


_account: ContextVar[_Account | None] = ContextVar("account", default=None)


@contextmanager
def counted() -> Iterator[None]:
    """Add up all requests in the block, so that many small requests are limited like one large request."""
    token = _account.set(_Account())
    try:
        yield
    finally:
        _account.reset(token)


def claim_constant(what: str, count: int, itemsize: int = 8) -> None:
    """Add a constant of ``count`` elements to the totals; raise BudgetError if they exceed ``budget.constants``.

    Only nets built from files are limited, not user programs.
    """
    account = _account.get()
    if account is None:
        return
    size = max(0, count) * itemsize
    if account.constants + size > budget.constants:
        raise BudgetError(
            f"{what} claims a constant of {size_text(size)}"
            + _earlier_claims(size_text(account.constants), account.constants),
            rule=f"the constants made while building a net must total at most {size_text(budget.constants)}",
            fix=f"ex.budget.constants = {account.constants + size}",
        )
    account.constants += size


def claim_steps(what: str, count: int) -> None:
    """Add ``count`` recorded steps or parts to the totals; raise BudgetError if they exceed ``budget.steps``.

    Only nets built from files are limited, not user programs.
    """
    account = _account.get()
    if account is None:
        return
    if account.steps + count > budget.steps:
        raise BudgetError(
            f"{what} claims {count:,} steps" + _earlier_claims(f"{account.steps:,}", account.steps),
            rule=f"a net may unroll at most {budget.steps:,} steps and parts (budget.steps)",
            fix=f"ex.budget.steps = {account.steps + count}",
        )
    account.steps += max(0, count)


def _earlier_claims(text: str, amount: int) -> str:
    return f", after others of {text}" if amount else ""


def claim_memory(what: str, size: int) -> None:
    """Raise BudgetError if ``size`` bytes, needed at one time, exceed ``budget.memory``."""
    if size > budget.memory:
        raise BudgetError(
            f"{what} claims {size_text(size)} of memory",
            rule=f"the memory in use at any one time must not exceed {size_text(budget.memory)} (budget.memory)",
            fix=f"ex.budget.memory = {size}, or on the command line: --memory {size}",
        )


def as_64_bit_integer(value: int, what: str) -> int:
    """Return an integer that fits in 64 bits; raise OperandError for any other integer."""
    if not -(2**63) <= value < 2**64:
        raise OperandError(
            f"{what} is {value if value.bit_length() <= 2 * 64 else f'a number of {value.bit_length()} bits'}",
            rule="an integer must be in −2⁶³ … 2⁶⁴ − 1",
            fix="a float: float(n)",
        )
    return value


class Listed(tuple[Any, ...]):
    """List of values from a file that stores its nesting depth and total number of values."""

    depth: int
    values: int


def listed(items: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the items as a list; raise OperandError if it is nested too deeply or contains too many values."""
    depth, count = 1, len(items)
    pending = [(item, 2) for item in items if isinstance(item, tuple)]
    while pending and depth <= NESTING and count <= VALUES:
        # Checked inner lists store their depth and count, so no value is visited twice.
        inner, level = pending.pop()
        if isinstance(inner, Listed):
            depth, count = max(depth, level + inner.depth - 1), count + inner.values
            continue
        depth, count = max(depth, level), count + len(inner)
        pending += [(item, level + 1) for item in inner if isinstance(item, tuple)]
    if depth > NESTING or count > VALUES:
        raise OperandError(
            f"lists nested {depth} deep" if depth > NESTING else f"lists that hold {count:,} values in all",
            rule=f"lists must be nested at most {NESTING} deep, and hold at most {VALUES:,} values in all",
            fix="an array: np.array(values) or ex.tensor(values)",
        )
    result = Listed(items)
    result.depth, result.values = depth, count
    return result


def size_text(size: int) -> str:
    """Return a number of bytes as a string with a unit."""
    return bytes_text(min(size, 1 << 80))


def size_of(text: str) -> int:
    """Return the number of bytes in a string such as ``8GB``, ``500 MiB`` or ``1000``; raise ValueError for others."""
    normalized = text.strip().lower().removesuffix("b").removesuffix("i").strip()
    power = " kmgtpe".index(normalized[-1]) if normalized[-1:] in tuple("kmgtpe") else 0
    digits = normalized[:-1] if power else normalized
    # at most 18 digits, because no memory is larger
    if not digits.strip().isdecimal() or len(digits) > 18 or not int(digits):
        raise ValueError(f"{text!r} is not a size")
    return int(digits) << 10 * power


_machine_memory: list[int] = []


def _machine() -> int:
    """Return the number of bytes of this machine's memory, or of its container's limit."""
    if not _machine_memory:
        try:
            physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (AttributeError, OSError, ValueError):  # the system does not report its memory
            physical = _UNKNOWN_MACHINE
        try:
            # A container may have less memory than the machine; without a limit, the file contains "max".
            limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
        except OSError:
            limit = "max"
        _machine_memory.append(min(physical, int(limit)) if limit.isdecimal() else physical)
    return _machine_memory[0]
