"""Python module that Inductor generates: code of kernels, calls in their order, and the memory that it allocates."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

_KERNEL = re.compile(r"^(\w+) = async_compile\.(\w+)\([^\n]*?(?:r?'''|\"\"\")\n?(.*?)(?:'''|\"\"\")", re.M | re.S)
_LANGUAGES = {"cpp_pybinding": "C++", "cpp": "C++", "triton": "Triton"}
_CALL = re.compile(r"# \[Provenance debug handles\] (\S+:\d+)")
_EMPTY = re.compile(r"(\w+) = empty_strided\w*\(\(([\d, ]*)\), \([\d, ]*\), (?:device='\w+', dtype=)?torch\.(\w+)\)")
_MOVED = re.compile(r"(\w+) = (?:reinterpret_tensor\()?(\w+)\b.*; del \2\b")
_MADE = re.compile(r"(buf\w+) = \w+(?:\.\w+)+\(")
_FREED = re.compile(r"del (\w+)$")
_RETURNED = re.compile(r"return \((.*)\)")
_MARK = re.compile(r"\s*// loop (\w+)$")
_PROFILED = "RAIIAtenRecordFunctionHandle"


class KernelCode(NamedTuple):
    """Code of a kernel."""

    language: str
    text: str
    lines: dict[str, tuple[int, ...]]
    """loop → numbers of the lines that compute it, from 1"""


@dataclass(frozen=True, slots=True)
class Program:
    """Generated module, read line by line."""

    codes: Mapping[str, KernelCode]
    """code of each generated kernel"""
    calls: tuple[str, ...]
    """calls as "name:number", in their order"""
    allocations: tuple[tuple[str, int | None], ...]
    """first name and size in bytes of each piece of memory; None if a library allocates it"""
    holder: Mapping[str, int]
    """name of a buffer → index of its memory"""
    live: tuple[tuple[int, ...], ...]
    """indices of the memory in use during each call"""
    returned: frozenset[int]
    """indices of memory that is returned"""

    def sizes(self, known: Mapping[str, int]) -> list[int]:
        """Return the size of each piece of memory; ``known`` has the sizes of buffers that libraries allocate."""
        return [known.get(name, 0) if size is None else size for name, size in self.allocations]


def program_of(source: str) -> Program:
    """Read a generated module."""
    codes = {name: _code(language, text) for name, language, text in _KERNEL.findall(source)}
    allocations: list[tuple[str, int | None]] = []
    holder: dict[str, int] = {}
    now: dict[str, int] = {}
    calls: list[str] = []
    live: list[tuple[int, ...]] = []
    returned: set[int] = set()
    for line in source.partition("def call(")[2].splitlines():
        row = line.strip()
        if empty := _EMPTY.match(row):
            holder[empty[1]] = now[empty[1]] = len(allocations)
            allocations.append((empty[1], bytes_of([int(size) for size in re.findall(r"\d+", empty[2])], empty[3])))
        elif (moved := _MOVED.match(row)) and moved[2] in now:
            holder[moved[1]] = now[moved[1]] = now.pop(moved[2])
        elif made := _MADE.match(row):
            holder[made[1]] = now[made[1]] = len(allocations)
            allocations.append((made[1], None))
            if live:
                live[-1] = tuple(sorted({*live[-1], now[made[1]]}))
        elif freed := _FREED.match(row):
            now.pop(freed[1], None)
        elif call := _CALL.match(row):
            calls.append(call[1])
            live.append(tuple(sorted(set(now.values()))))
        elif end := _RETURNED.match(row):
            returned.update(now[name] for name in re.findall(r"\w+", end[1]) if name in now)
            break
    return Program(codes, tuple(calls), tuple(allocations), holder, tuple(live), frozenset(returned))


def _code(language: str, text: str) -> KernelCode:
    """Return the code of a kernel, without its includes and without what was added to capture it."""
    shown: list[str] = []
    lines: dict[str, list[int]] = {}
    loop = ""
    for row in text.strip("\n").split("\n"):
        if mark := _MARK.match(row):
            loop = mark[1]
        elif _PROFILED not in row and not row.startswith("#include"):
            shown.append(row)
            # the code of a loop ends with the block in which it was marked
            if not row.strip() or row.strip() == "}":
                loop = ""
            if loop:
                lines.setdefault(loop, []).append(len(shown))
    return KernelCode(
        _LANGUAGES.get(language, language), "\n".join(shown), {loop: tuple(rows) for loop, rows in lines.items()}
    )


def bytes_of(shape: Sequence[int], dtype: str) -> int:
    """Return the size of a tensor in bytes; the numbers in the name of a dtype are bits."""
    bits = int(number[0]) if (number := re.search(r"\d+", dtype)) else 8
    return prod(shape) * bits // 8
