"""Reader of HLO modules, the form in which XLA writes its programs as text.

A module consists of computations; each is a list of instructions, of which the one marked ROOT is the result. `parse`
reads a module, and `graph_of` writes its calls, fusions, branches and loops out as one graph. Text may be truncated or
hostile: both work in linear time, without recursion, and a graph with missing instructions raises TornModuleError.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, Union

from explorer.compilers.snapshots import Value
from explorer.record.rows import Source

_DTYPES = {
    "pred": "bool", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "c64": "complex64", "c128": "complex128", "token": "token",
    **{f"s{bits}": f"int{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (2, 4, 8, 16, 32, 64)},
}  # fmt: skip
_HEAD = re.compile(r"(ENTRY )?%?([\w.\-]+) \(")
_NAME = re.compile(r"\s*(ROOT )?%?([\w.\-]+) = ")
_ARRAY = re.compile(r"(\w+)\[([^\]]*)\]")
_OPERATION = re.compile(r" ?([\w\-]+)\(")
_NAMES = re.compile(r"%([\w.\-]+)")
_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*+"?|[()\[\]{},]'
)  # matches an open string too, so that no text takes quadratic time
_ROW = re.compile(r"(\d+) (?:\"(.*)\"|\{(.*)\})$")
_NUMBER = re.compile(r"(\w+)=(\d+)")
_DEPTH = 200
"""maximum number of calls that are kept of a stack"""
_COMMENT = re.compile(r"/\*[^*]*\*/")


class Frame(NamedTuple):
    """Call in the user's program: a function, and the line in it that was running."""

    file: str
    function: str
    line: int


@dataclass(frozen=True, slots=True)
class Instruction:
    """Instruction of a computation, as written."""

    name: str
    operation: str
    shape: tuple[int, ...]
    dtype: str
    """"tuple" for several values"""
    parts: tuple[tuple[tuple[int, ...], str], ...]
    """shapes and dtypes of several values"""
    operands: tuple[str, ...]
    literal: str
    """text between the parentheses of a constant or a parameter"""
    attributes: Mapping[str, str]
    root: bool
    frame: int = 0
    """row of ``Module.stacks``; 0 if unknown"""
    place: Frame | None = None
    """line of the program, in versions that write it into the instruction"""


@dataclass(slots=True)
class Module:
    """Module of HLO."""

    computations: dict[str, list[Instruction]] = field(default_factory=dict)
    entry: str = ""
    stacks: dict[int, tuple[Frame, ...]] = field(default_factory=dict)
    """number → calls that led to an instruction, outermost first"""
    unread: int = 0
    """lines in computations that are no instructions"""

    def stack(self, instruction: Instruction) -> tuple[Frame, ...]:
        """Return the calls that led to an instruction, outermost first."""
        if instruction.place is not None:
            return (instruction.place,)
        return self.stacks.get(instruction.frame, ())


def parse(text: str, known: dict[str, Instruction | None]) -> Module:
    """Return the module of a text.

    Args:
        text: the text.
        known: lines that were read before, and their instructions; most lines do not change from pass to pass. New
            lines are added.
    """
    module = Module()
    tables: dict[str, dict[int, str]] = {}
    table: dict[int, str] = {}
    computation: list[Instruction] | None = None
    for line in text.splitlines():
        if computation is None:
            if entry := _ROW.match(line):
                table[int(entry[1][:9])] = entry[2] if entry[2] is not None else entry[3]
            elif line.endswith(" {") and " -> " in line and (head := _HEAD.match(line)):
                computation = module.computations[head[2]] = []
                if head[1]:
                    module.entry = head[2]
            elif line.isalpha():
                table = tables[line] = {}
        elif line.startswith("}"):
            computation = None
        elif line:
            if line not in known:
                known[line] = instruction(line)
            if (row := known[line]) is not None:
                computation.append(row)
            else:
                module.unread += 1
    module.stacks = _stacks(tables)
    return module


def _stacks(tables: Mapping[str, Mapping[int, str]]) -> dict[int, tuple[Frame, ...]]:
    """Return number → stack from the tables at the top of a module."""
    files, functions = tables.get("FileNames", {}), tables.get("FunctionNames", {})
    frames: dict[int, Frame] = {}
    for number, row in tables.get("FileLocations", {}).items():
        fields = {key: int(value[:9]) for key, value in _NUMBER.findall(row)}
        file, function = files.get(fields.get("file_name_id", 0)), functions.get(fields.get("function_name_id", 0), "")
        if file is not None:
            frames[number] = Frame(file, function, fields.get("line", 0))
    stacks: dict[int, tuple[Frame, ...]] = {}
    for number, row in sorted(tables.get("StackFrames", {}).items()):
        fields = {key: int(value[:9]) for key, value in _NUMBER.findall(row)}
        # XLA writes the number of the calling frame plus one; a caller precedes the frames that it calls.
        caller = stacks.get(fields.get("parent_frame_id", 0) - 1, ())
        if (frame := frames.get(fields.get("file_location_id", 0))) is not None:
            stacks[number] = (*caller[-_DEPTH:], frame)
    return stacks


def instruction(line: str) -> Instruction | None:
    """Return the instruction of a line of a module, or None if it is none."""
    line = _COMMENT.sub("", line)  # /*index=5*/ in long tuples
    if (name := _NAME.match(line)) is None:
        return None
    start = name.end()
    end = _closing(line, start) + 1 if line.startswith("(", start) else line.find(" ", start)
    if end <= start or (operation := _OPERATION.match(line, end)) is None:
        return None
    closing = _closing(line, operation.end() - 1)
    if closing < 0:
        return None
    inside = line[operation.end() : closing]
    attributes = dict(part.split("=", 1) for part in _parts(line[closing + 1 :]) if "=" in part)
    metadata = attributes.pop("metadata", "")
    fields = dict(_NUMBER.findall(metadata))
    file = re.search(r'source_file="((?:[^"\\]|\\.)*)"', metadata)
    written = [_array(shape) for shape in _ARRAY.findall(line[start:end])]
    single = not line.startswith("(", start) and len(written) == 1
    shape, dtype = written[0] if single else ((), "tuple")
    return Instruction(
        name=name[2],
        operation=operation[1],
        shape=shape,
        dtype=dtype,
        parts=() if single else tuple(written),
        operands=tuple(_NAMES.findall(inside)) if operation[1] not in ("constant", "parameter") else (),
        literal=inside,
        attributes=attributes,
        root=bool(name[1]),
        frame=int(fields.get("stack_frame_id", "0")[:9]),
        place=Frame(file[1], "", int(fields["source_line"][:9])) if file and "source_line" in fields else None,
    )


def _array(shape: tuple[str, str]) -> tuple[tuple[int, ...], str]:
    """Return the sizes and the name of the dtype of an array's shape, as in ``f32[32,64]``."""
    dtype, sizes = shape
    name = _DTYPES.get(dtype, dtype.replace("f8", "float8_", 1) if dtype.startswith("f8") else dtype)
    return tuple(int(size[:18]) for size in re.findall(r"\d+", sizes)), name


def _closing(text: str, start: int) -> int:
    """Return the position of the bracket that closes the one at ``start``, or −1."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        if token[0] in "([{":
            depth += 1
        elif token[0] in ")]}":
            depth -= 1
            if depth == 0:
                return token.start()
    return -1


def _parts(text: str) -> list[str]:
    """Return the parts of a text between commas that are in no brackets and no string."""
    parts, depth, start = [], 0, 0
    for token in _TOKEN.finditer(text):
        if token[0] == ",":
            if depth == 0:
                parts.append(text[start : token.start()].strip())
                start = token.end()
        elif token[0] in "([{":
            depth += 1
        elif token[0] in ")]}":
            depth -= 1
    return [part for part in (*parts, text[start:].strip()) if part]


Reference: TypeAlias = Union[str, "tuple[Reference, ...]"]
"""name of a value, or the members of a tuple"""
_VALUES = 100_000
"""maximum number of values of a graph; in a hostile module, computations may call each other many times"""
_CALLS = 1_000
"""maximum depth of calls"""
_LITERAL = 24
"""maximum number of characters of a constant's label"""
_CALLED = {
    "call": ("to_apply",),
    "fusion": ("calls",),
    "while": ("condition", "body"),
    "conditional": ("true_computation", "false_computation", "branch_computations"),
}
_FREE = frozenset({"tuple", "get-tuple-element", "bitcast", "while", "conditional", "after-all", "opt-barrier"})
"""operations for which no kernel runs"""
_HIDDEN = frozenset(
    {
        "calls", "to_apply", "condition", "body", "true_computation", "false_computation", "branch_computations",
        "backend_config", "sharding", "frontend_attributes", "control-predecessors", "origin", "statistics", "kind",
        "index",
    }
)  # fmt: skip
"""attributes that do not change what an operation computes, or that the graph shows"""
Place: TypeAlias = Callable[[tuple[Frame, ...]], tuple[tuple[str, ...], Source | None]]


class TornModuleError(Exception):
    """A module without an entry or with missing instructions, or a module that is too large."""


@dataclass(slots=True)
class Graph:
    """Graph of a module, with the bodies of calls, fusions, branches and loops in place of their callers.

    The body of a loop is included once.
    """

    values: dict[str, Value] = field(default_factory=dict)
    results: tuple[str, ...] = ()
    """may contain a value several times"""
    fusions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """fusion → its values, the result last"""
    kernels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """instruction for which a kernel runs → the values that it computes, in the order of the module"""
    named: dict[str, str] = field(default_factory=dict)
    """name of an instruction → the value that it computes"""


@dataclass(slots=True)
class _Call:
    """Computation that is being written out."""

    rows: list[Instruction]
    prefix: str
    """start of the names of its values"""
    arguments: Sequence[Reference]
    fused: bool
    known: dict[str, Reference] = field(default_factory=dict)
    next: int = 0
    caller: Instruction | None = None
    """instruction that has called computations and has not returned"""
    called: list[str] = field(default_factory=list)
    """computations that the caller still has to call, the next one last"""
    returned: list[Reference] = field(default_factory=list)
    """results of the computations that the caller has called"""
    first: int = 0
    """number of values before the caller"""


def graph_of(module: Module, inputs: Sequence[str], place: Place) -> Graph:
    """Return the graph of a module.

    Args:
        module: the module.
        inputs: names of the program's parameters, by number.
        place: function of the calls that led to an instruction; it returns the instruction's boxes and line.

    Raises:
        TornModuleError: if instructions are missing, or the graph is too large.
    """
    return _Writer(module, inputs, place).graph()


class _Writer:
    def __init__(self, module: Module, inputs: Sequence[str], place: Place) -> None:
        self._module, self._inputs, self._place = module, inputs, place
        self._graph = Graph()
        self._names: list[str] = []
        """names of the values, in order"""

    def graph(self) -> Graph:
        calls = [self._call(self._module.entry, "", (), fused=False)]
        calls[0].rows = sorted(calls[0].rows, key=_parameter)
        while True:
            call = calls[-1]
            if call.called:
                calls.append(self._enter(call))
                if len(calls) > _CALLS:
                    raise TornModuleError("calls are nested too deeply")
            elif call.caller is not None:
                self._know(call, call.caller, self._return(call, call.caller))
                call.caller, call.returned = None, []
            elif call.next < len(call.rows):
                row = call.rows[call.next]
                call.next += 1
                called = _called(row)
                if called:
                    call.caller, call.called, call.first = row, called[::-1], len(self._names)
                else:
                    self._know(call, row, self._instruction(call, row))
            else:
                result = call.known[next((row for row in call.rows if row.root), call.rows[-1]).name]
                calls.pop()
                if not calls:
                    self._graph.results = _members(result)
                    return self._graph
                calls[-1].returned.append(result)

    def _know(self, call: _Call, row: Instruction, result: Reference) -> None:
        call.known[row.name] = result
        if names := _members(result):
            self._graph.named.setdefault(row.name, names[0])

    def _call(self, name: str, prefix: str, arguments: Sequence[Reference], fused: bool) -> _Call:
        rows = self._module.computations.get(name)
        if not rows:
            raise TornModuleError(f"no computation {name}")
        return _Call(rows, prefix, arguments, fused)

    def _enter(self, call: _Call) -> _Call:
        """Return the next computation of a caller."""
        caller, name = call.caller, call.called.pop()
        assert caller is not None
        arguments = self._operands(call, caller)
        if caller.operation == "conditional":  # the first operand chooses the branch; each branch has an argument
            index = len(call.returned) + 1
            arguments = arguments[index : index + 1]
        fused = call.fused or caller.operation == "fusion"
        return self._call(name, f"{call.prefix}{caller.name}/", arguments, fused)

    def _return(self, call: _Call, caller: Instruction) -> Reference:
        """Return what a caller computes, after its computations were written out."""
        members = tuple(self._names[call.first :])
        if caller.operation in ("call", "fusion"):
            result = call.returned[0]
            if caller.operation == "fusion" and not call.fused:
                results = _members(result)
                inner = tuple(name for name in members if self._graph.values[name].kind == "operation")
                if inner:
                    last = next((name for name in results if name in inner), inner[-1])
                    inner = (*(name for name in inner if name != last), last)
                    self._graph.kernels[caller.name] = inner
                    if len(inner) > 1:
                        self._graph.fusions[caller.name] = inner
        else:
            read = [*self._operands(call, caller), *call.returned]
            operands = tuple(dict.fromkeys(name for reference in read for name in _members(reference)))
            result = self._add(call, caller, operands)
        return result

    def _operands(self, call: _Call, row: Instruction) -> tuple[Reference, ...]:
        try:
            return tuple(call.known[name] for name in row.operands)
        except KeyError as error:
            raise TornModuleError(f"{row.name} reads {error.args[0]}, which is missing") from error

    def _instruction(self, call: _Call, row: Instruction) -> Reference:
        if row.operation == "parameter" and call.prefix:
            if not row.literal.isdecimal() or int(row.literal[:9]) >= len(call.arguments):
                raise TornModuleError(f"no argument for {row.name}")
            return call.arguments[int(row.literal[:9])]
        operands = self._operands(call, row)
        if row.operation == "tuple":
            return operands
        if row.operation == "get-tuple-element" and operands and not isinstance(operands[0], str):
            index = row.attributes.get("index", "")
            if not index.isdecimal() or int(index[:9]) >= len(operands[0]):
                raise TornModuleError(f"no member for {row.name}")
            return operands[0][int(index[:9])]
        names = tuple(name for reference in operands for name in _members(reference))
        result = self._add(call, row, names)
        if not call.fused and row.operation not in (*_FREE, "parameter", "constant"):
            self._graph.kernels[row.name] = (result,)
        return result

    def _add(self, call: _Call, row: Instruction, operands: tuple[str, ...]) -> str:
        values = self._graph.values
        name, operation, label, kind = row.name, row.operation, "", "operation"
        prefixed = call.fused
        if operation == "parameter":
            number = int(row.literal[:9]) if row.literal.isdecimal() else len(self._inputs)
            name, kind = self._inputs[number] if number < len(self._inputs) else row.name, "leaf"
        elif operation == "constant":
            kind, label = "constant", row.literal[:_LITERAL]
            if "..." not in row.literal:  # equal constants are one value, as they have no identity in XLA
                name, prefixed = f"{row.literal} {row.dtype}{list(row.shape)}", False
                if name in values:
                    return name
        elif operation == "get-tuple-element":
            kind, label = "item", f"result {row.attributes.get('index', '')}"
        if name in values or prefixed:
            name = call.prefix + name
        if name in values:
            name = f"{name} ({len(self._names)})"
        attributes = {key: value for key, value in row.attributes.items() if key not in _HIDDEN}
        if "to_apply" in row.attributes:
            attributes["computes"] = self._computes(row.attributes["to_apply"])
        if kind == "item":
            attributes["index"] = row.attributes.get("index", "")
        scope, source = self._place(self._module.stack(row))
        # kind is a str here, and only takes the values that Value declares
        values[name] = Value(
            operation, operands, row.shape, row.dtype, kind, attributes, scope, source,  # type: ignore[arg-type]
            label=label, parts=row.parts,
        )  # fmt: skip
        self._names.append(name)
        if len(self._names) > _VALUES:
            raise TornModuleError(f"it has more than {_VALUES:,} values")
        return name

    def _computes(self, computation: str) -> str:
        """Return the operation of a reduction's computation, such as "add"."""
        rows = self._module.computations.get(computation.removeprefix("%"), [])
        return next((row.operation for row in rows if row.root), "")


def _parameter(row: Instruction) -> float:
    """Return the number of a parameter, and ∞ for other instructions, which a sort leaves in their order."""
    is_parameter = row.operation == "parameter" and row.literal.isdecimal()
    return int(row.literal[:9]) if is_parameter else math.inf


def _called(row: Instruction) -> list[str]:
    """Return the computations that an instruction calls, in order."""
    texts = [row.attributes[key] for key in _CALLED.get(row.operation, ()) if key in row.attributes]
    return [name for text in texts for name in re.findall(r"[\w.\-]+", text)]


def _members(reference: Reference) -> tuple[str, ...]:
    """Return the names of a reference, in order."""
    if isinstance(reference, str):
        return (reference,)
    names: list[str] = []
    pending: list[Reference] = [reference]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            names.append(part)
        else:
            pending += part[::-1]
    return tuple(names)
