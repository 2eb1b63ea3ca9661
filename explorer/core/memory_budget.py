"""The budget: how much a file may claim, checked by arithmetic before anything is allocated or computed for a claim.

A file of a hundred bytes can ask for a range of 10¹² numbers, a function that calls itself into 10⁹ operators, or an
input of 10¹⁸ elements. Looking at such a file makes none of it; running it is refused above ``budget.memory``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from explorer.core.errors import BudgetError, OperandError
from explorer.record.reasons import bytes_text

AXES = 64
"""axes that an array of NumPy's has at most"""
BYTES = 2**63 - 1
"""bytes that an array can address"""
NESTING, VALUES = 16, 1_000_000
"""lists in lists, and values that lists hold in all, at most"""
BOXES = 64
"""boxes in boxes that one name stands for; what follows in it is one name"""
CALLS = 256
"""calls of functions in functions, at most"""
_UNKNOWN_MACHINE = 16 << 30


class Budget:
    """The limits on what files claim, as attributes that can be set: ``ex.budget.memory = 64 << 30``.

    ``memory``: bytes that a run holds at one time, weights included; the machine's memory where nobody set it.
    ``constants``: bytes of ranges, masks and the like that building one net makes of a few words of its file.
    ``operators``: operators that a file's calls of functions, its own and ONNX's standard ones, expand to in all.
    ``steps``: steps of sequences, windows and parts that single operators of one net claim. ``text``: bytes of a
    graph's file, and by how much the entries of a zip unpack to more than the zip itself holds.
    """

    __slots__ = ("_memory", "constants", "operators", "steps", "text")
    constants: int
    operators: int
    steps: int
    text: int

    def __init__(self) -> None:
        self._memory: int | None = None
        self.constants, self.text = 128 << 20, 2 << 30
        self.operators, self.steps = 25_000, 50_000

    def __setattr__(self, name: str, value: Any) -> None:
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise OperandError(
                f"budget.{name} = {value!r}",
                rule="a limit must be a whole number of 1 or more: of bytes, operators, or steps",
                fix=f"ex.budget.{name} = 8 << 30",
            )
        object.__setattr__(self, name, value)

    @property
    def memory(self) -> int:
        """Bytes that a run holds at one time; the machine's memory where nobody set it. None unsets it."""
        return _machine() if self._memory is None else self._memory

    @memory.setter
    def memory(self, value: int | None) -> None:
        self._memory = value

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {size_text(getattr(self, name))}" for name in ("memory", "constants", "text"))
        return f"<budget: {sizes}, operators {self.operators:,}, steps {self.steps:,}>"


budget = Budget()


class _Account:
    """What the claims of one build come to so far."""

    __slots__ = ("constants", "steps")

    def __init__(self) -> None:
        self.constants = self.steps = 0


_account: ContextVar[_Account | None] = ContextVar("account", default=None)


@contextmanager
def counted() -> Iterator[None]:
    """Inside, all claims are added up: many small ones are refused as one large one is."""
    token = _account.set(_Account())
    try:
        yield
    finally:
        _account.reset(token)


def claim_constant(what: str, count: int, itemsize: int = 8) -> None:
    """Allow a constant of ``count`` elements to be made, before it is; raises BudgetError above ``budget.constants``.

    Only what is built of a file is counted: a user's own constants are his.
    """
    account = _account.get()
    if account is None:
        return
    size = max(0, count) * itemsize
    if account.constants + size > budget.constants:
        raise BudgetError(
            f"{what} claims a constant of {size_text(size)}" + _before(size_text(account.constants), account.constants),
            rule=f"the constants that building a net makes must come to at most {size_text(budget.constants)}",
            fix=f"ex.budget.constants = {account.constants + size}",
        )
    account.constants += size


def claim_steps(what: str, count: int) -> None:
    """Allow ``count`` steps or parts to be recorded, before they are; raises BudgetError above ``budget.steps``.

    Only what is built of a file is counted.
    """
    account = _account.get()
    if account is None:
        return
    if account.steps + count > budget.steps:
        raise BudgetError(
            f"{what} claims {count:,} steps" + _before(f"{account.steps:,}", account.steps),
            rule=f"the steps and parts that a net unrolls must be at most {budget.steps:,}",
            fix=f"ex.budget.steps = {account.steps + count}",
        )
    account.steps += max(0, count)


def _before(text: str, amount: int) -> str:
    return f", after others of {text}" if amount else ""


def claim_memory(what: str, size: int) -> None:
    """Allow ``size`` bytes to be held at one time, before they are; raises BudgetError above ``budget.memory``."""
    if size > budget.memory:
        raise BudgetError(
            f"{what} claims {size_text(size)} of memory",
            rule=f"what is held at one time must be at most {size_text(budget.memory)}: budget.memory",
            fix=f"ex.budget.memory = {size}, or on the command line: --memory {size}",
        )


def whole_number(value: int, what: str) -> int:
    """A whole number of at most 64 bits; raises OperandError for a longer one."""
    if not -(2**63) <= value < 2**64:
        raise OperandError(
            f"{what} is {value if value.bit_length() <= 2 * 64 else f'a number of {value.bit_length()} bits'}",
            rule="a whole number must lie in −2⁶³ … 2⁶⁴ − 1",
        )
    return value


class Listed(tuple[Any, ...]):
    """A list of a file's values that knows, without a walk, how deep it is and how many values it holds in all."""

    depth: int
    values: int


def listed(items: tuple[Any, ...]) -> tuple[Any, ...]:
    """The items as one list; raises OperandError where lists are nested too deep, or hold one another too often."""
    depth, count = 1, len(items)
    waiting = [(item, 2) for item in items if isinstance(item, tuple)]
    while waiting and depth <= NESTING and count <= VALUES:
        inner, level = waiting.pop()
        if isinstance(inner, Listed):
            depth, count = max(depth, level + inner.depth - 1), count + inner.values
            continue
        depth, count = max(depth, level), count + len(inner)
        waiting += [(item, level + 1) for item in inner if isinstance(item, tuple)]
    if depth > NESTING or count > VALUES:
        raise OperandError(
            f"lists nested {depth} deep" if depth > NESTING else f"lists that hold {count:,} values in all",
            rule=f"lists must be nested at most {NESTING} deep, and hold at most {VALUES:,} values in all",
        )
    made = Listed(items)
    made.depth, made.values = depth, count
    return made


def size_text(size: int) -> str:
    """A number of bytes with its unit, however large."""
    return bytes_text(min(size, 1 << 80))


def size_of(text: str) -> int:
    """The number of bytes in a text such as ``8GB``, ``500 MiB`` or ``1000``; raises ValueError where it is none."""
    word = text.strip().lower().removesuffix("b").removesuffix("i").strip()
    power = " kmgtpe".index(word[-1]) if word[-1:] in tuple("kmgtpe") else 0
    number = word[:-1] if power else word
    if not number.strip().isdecimal() or len(number) > 18 or not int(number):
        raise ValueError(f"{text!r} is no size")
    return int(number) << 10 * power


_machine_memory: list[int] = []


def _machine() -> int:
    """The memory that this machine, or the container around the process, has."""
    if not _machine_memory:
        try:
            found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (AttributeError, OSError, ValueError):  # a system that does not tell
            found = _UNKNOWN_MACHINE
        try:
            granted = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
        except OSError:
            granted = "max"
        _machine_memory.append(min(found, int(granted)) if granted.isdecimal() else found)
    return _machine_memory[0]
