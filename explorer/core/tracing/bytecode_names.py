"""Names that compiled Python code reads (globals, attributes, modules), taken from its instructions without running
it.

The survey of a traced function starts from these names. Watching a run (``sys.settrace``) would see only the branches
that this run took, and source code is missing for functions that were typed at a prompt or compiled by ``exec``.
"""

from __future__ import annotations

import dis
import functools
import os
import re
import sysconfig
from enum import IntEnum
from types import CodeType
from typing import NamedTuple, TypeAlias

from explorer.core.ir.source_location import INTERNAL

_STDLIB = os.path.join(os.path.realpath(sysconfig.get_path("stdlib")), "")
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_COMPUTED = frozenset(
    {"getattr", "hasattr", "vars", "__dict__", "attrgetter", "methodcaller", "format", "format_map"}
).union(("asdict", "astuple", "fields", "replace", "copy", "deepcopy"))
"""names whose use means that attributes are looked up by computed names"""
_COMPARING = frozenset[str]().union(
    ("eq", "ne", "lt", "le", "gt", "ge", "hash", "contains", "indexOf", "countOf"),
    ("index", "count", "remove", "sort", "sorted", "min", "max", "groupby", "cmp_to_key", "total_ordering"),
    ("set", "frozenset", "add", "discard", "update", "union", "intersection", "difference", "symmetric_difference"),
    ("issubset", "issuperset", "isdisjoint", "dict", "fromkeys", "get", "setdefault", "pop", "Counter", "OrderedDict"),
    ("bisect", "bisect_left", "bisect_right", "insort", "insort_left", "insort_right", "heapify", "heappush"),
    ("heappop", "heappushpop", "heapreplace", "nlargest", "nsmallest", "merge", "mode", "multimode", "lru_cache"),
    ("cache", "unique", "isin", "argsort", "argmin", "argmax", "array_equal", "equal", "not_equal", "less", "greater"),
    ("less_equal", "greater_equal"),
)
"""names of functions of Python and NumPy that compare or hash values"""
_KEYED = frozenset({"BUILD_SET", "BUILD_MAP", "SET_ADD", "MAP_ADD", "SET_UPDATE", "DICT_UPDATE", "DICT_MERGE"})
"""instructions that add values to sets or keys to dicts"""


class Comparison(IntEnum):
    """Kinds of implicit comparison in some code, each including those before it."""

    NONE = 0
    WITH_CONSTANTS = 1
    """one operand is a constant, or a key is looked up"""
    ANY = 2


Comparisons: TypeAlias = dict[str, Comparison]
"""method that compares or hashes an object → the values that it is compared with"""
_ORDERING = ("__lt__", "__le__", "__gt__", "__ge__")
_METHODS_OF_OPERATORS = {"==": ("__eq__",), "!=": ("__ne__", "__eq__")}
_METHODS_OF_KEYS = ("__hash__", "__eq__")
COMPARING = ("__ne__", *_ORDERING, *_METHODS_OF_KEYS)
"""methods that count where values are compared or hashed"""


class Reads(NamedTuple):
    """Names that some code, with the functions and comprehensions inside it, looks up."""

    variables: tuple[str, ...]
    """globals"""
    attributes: frozenset[str]
    modules: tuple[str, ...]
    """modules that the code imports when it runs"""
    texts: frozenset[str]
    """strings, which may name attributes"""
    computed: bool
    """whether attributes are read by names that are computed"""
    comparisons: Comparisons


@functools.lru_cache(maxsize=4096)
def reads(code: CodeType) -> Reads:
    """Return the names that a piece of code reads."""
    variables: dict[str, None] = {}
    attributes: set[str] = set()
    modules: dict[str, None] = {}
    texts: set[str] = set()
    comparisons: Comparisons = {}
    before = ""
    for instruction in dis.get_instructions(code):
        name, value = instruction.opname, instruction.argval
        if name == "EXTENDED_ARG":
            continue
        if name in ("LOAD_GLOBAL", "LOAD_NAME"):
            variables[value] = None
        elif name == "IMPORT_NAME":
            modules[value] = None
        elif instruction.opcode in dis.hasname:
            attributes.add(value)
        elif isinstance(value, str) and name == "LOAD_CONST":
            texts.add(value)
        merge(comparisons, _comparisons(instruction, before))
        before = name
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner = reads(constant)
            variables |= dict.fromkeys(inner.variables)
            modules |= dict.fromkeys(inner.modules)
            attributes |= inner.attributes
            texts |= inner.texts
            merge(comparisons, inner.comparisons)
        elif isinstance(constant, tuple):
            texts |= {item for item in constant if isinstance(item, str)}
    mentioned = {*variables, *attributes}
    return Reads(
        tuple(variables),
        frozenset(attributes),
        tuple(modules),
        frozenset(texts),
        not mentioned.isdisjoint(_COMPUTED),
        comparisons if mentioned.isdisjoint(_COMPARING) else dict.fromkeys(COMPARING, Comparison.ANY),
    )


def merge(comparisons: Comparisons, others: Comparisons) -> None:
    """Enter further comparisons; of two by one method the one with more values counts."""
    for method, comparison in others.items():
        comparisons[method] = max(comparison, comparisons.get(method, Comparison.NONE))


def _comparisons(instruction: dis.Instruction, before: str) -> Comparisons:
    """Return the methods that an instruction may call which follows the instruction ``before``."""
    name = instruction.opname
    is_constant = before in ("LOAD_CONST", "LOAD_SMALL_INT")
    if name == "COMPARE_OP":
        # Python 3.13 shows ``bool(==)`` where the result is only tested
        operator = re.sub(r"bool\((.*)\)", r"\1", instruction.argval)
        methods = _METHODS_OF_OPERATORS.get(operator, _ORDERING)
        return dict.fromkeys(methods, Comparison.WITH_CONSTANTS if is_constant else Comparison.ANY)
    if name == "CONTAINS_OP":
        return dict.fromkeys(_METHODS_OF_KEYS, Comparison.WITH_CONSTANTS if is_constant else Comparison.ANY)
    if name in _KEYED and instruction.arg != 0:
        return dict.fromkeys(_METHODS_OF_KEYS, Comparison.ANY)
    if name in ("BINARY_SUBSCR", "STORE_SUBSCR", "DELETE_SUBSCR") or instruction.argrepr == "[]":
        return {} if is_constant else dict.fromkeys(_METHODS_OF_KEYS, Comparison.WITH_CONSTANTS)
    return {}


@functools.lru_cache(maxsize=4096)
def is_fixed(path: str) -> bool:
    """Whether source at a path never changes: explorer's, the standard library's, or an installed package's."""
    if path.startswith(INTERNAL) or path.startswith("<frozen "):
        return True
    if any(part in path for part in _INSTALLED):
        return True
    return os.path.realpath(path).startswith(_STDLIB)
