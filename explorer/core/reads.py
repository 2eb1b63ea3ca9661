"""Names that compiled Python code reads: globals, attributes, modules; found in its instructions, never run."""

from __future__ import annotations

import dis
import functools
import os
import sysconfig
from types import CodeType
from typing import NamedTuple

from explorer.core.origin import INTERNAL

_STDLIB = os.path.join(os.path.realpath(sysconfig.get_path("stdlib")), "")
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_COMPUTED = frozenset({"getattr", "hasattr", "vars", "__dict__", "attrgetter", "asdict", "astuple", "fields"})
"""names whose mention means that attributes are read by names that are computed"""


class Reads(NamedTuple):
    """Names that some code, and the functions and comprehensions inside it, look up."""

    variables: tuple[str, ...]
    """globals"""
    attributes: frozenset[str]
    modules: tuple[str, ...]
    """those that are imported where the code runs"""
    texts: frozenset[str]
    """strings, which may name attributes"""
    computed: bool
    """whether attributes are read by names that are computed"""


@functools.lru_cache(maxsize=4096)
def reads(code: CodeType) -> Reads:
    """Return the names that a piece of code reads."""
    variables: dict[str, None] = {}
    attributes: set[str] = set()
    modules: dict[str, None] = {}
    texts: set[str] = set()
    for instruction in dis.get_instructions(code):
        name, value = instruction.opname, instruction.argval
        if name in ("LOAD_GLOBAL", "LOAD_NAME"):
            variables[value] = None
        elif name == "IMPORT_NAME":
            modules[value] = None
        elif instruction.opcode in dis.hasname:
            attributes.add(value)
        elif isinstance(value, str) and name == "LOAD_CONST":
            texts.add(value)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner = reads(constant)
            variables |= dict.fromkeys(inner.variables)
            modules |= dict.fromkeys(inner.modules)
            attributes |= inner.attributes
            texts |= inner.texts
        elif isinstance(constant, tuple):
            texts |= {item for item in constant if isinstance(item, str)}
    mentioned = {*variables, *attributes}
    return Reads(
        tuple(variables),
        frozenset(attributes),
        tuple(modules),
        frozenset(texts),
        not mentioned.isdisjoint(_COMPUTED),
    )


@functools.lru_cache(maxsize=4096)
def is_fixed(path: str) -> bool:
    """Whether source at a path never changes what it reads: explorer's, the standard library's, an installed one's."""
    if path.startswith(INTERNAL) or path.startswith("<frozen "):
        return True
    if any(part in path for part in _INSTALLED):
        return True
    return os.path.realpath(path).startswith(_STDLIB)
