"""Variable tables: names of the user's variables for values, such as ``h`` in ``h = ex.tanh(w @ x)``.

A name is used only if the source is unambiguous. The right-hand side, or an item of it in ``a, b = x + 1, x + 2``, must
be one operator, one index, or one call: of a function or layer with a single result, of a traced function that returns
a tuple (``q, k = heads(x)``), or of the user's function whose ``return`` recorded the node.
"""

from __future__ import annotations

import ast
import builtins
import functools
import linecache
from collections.abc import Iterator, Mapping, Sequence
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import CodeType

from explorer.core.ir.assigned_names import WholeValue, parsed, whole_value
from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.function import Body, Call, Item
from explorer.core.ir.source_location import CalledCode, cell_name, function_code
from explorer.core.registry import functions
from explorer.core.types.tensor_type import TensorType
from explorer.record import Recording, SourceText

_LATE = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR
"""flags of functions whose code does not run when they are called"""


def variables(recording: Recording, nodes: Sequence[Expr]) -> dict[int, str]:
    """Return node id → variable to which its value was assigned; a node that replaced another one has its variable."""
    expressions: dict[tuple[object, ...], list[int]] = {}
    """source expression → nodes that it recorded, each time it ran"""
    for node_id, node in enumerate(nodes):
        if node.operands and recording.nodes.born[node_id] < 0 and isinstance(node.code, (CodeType, CalledCode)):
            calls = [(id(code), at) for code, at in _calls(node.code)]
            key = (recording.nodes.body[node_id], id(function_code(node.code)), node.instruction, *calls)
            expressions.setdefault(key, []).append(node_id)
    names: dict[int, str] = {}
    for node_ids in expressions.values():
        # In order of recording, so the last node is the value of the expression.
        node_ids.sort(key=lambda node_id: nodes[node_id].uid)
        node = nodes[node_ids[-1]]
        assert isinstance(node.code, (CodeType, CalledCode))
        value = whole_value(function_code(node.code), node.instruction)
        if value is None:
            continue
        if value.parts:
            names.update(_parts(value, node_ids, nodes))
        elif name := _name(value, node.code):
            names.update(dict.fromkeys(_results(value, node_ids, nodes), name))
    for _, old, new in recording.substitutions if names else ():
        if old in names and recording.nodes.born[new] >= 0:
            names.setdefault(new, names[old])
    return dict(sorted(names.items()))


def _calls(code: CodeType | CalledCode) -> tuple[tuple[CodeType, int], ...]:
    return code.calls if isinstance(code, CalledCode) else ()


def _name(value: WholeValue, code: CodeType | CalledCode) -> str:
    """Return the variable to which a value is assigned, even if functions return it first."""
    callee = function_code(code)
    for caller, instruction in _calls(code):
        if value.variable:
            break
        call = whole_value(caller, instruction)
        # If the caller calls another function, such as a library's, its use of the value is unknown.
        if call is None or call.callee != callee.co_name or callee.co_flags & _LATE:
            return ""
        value, callee = call, caller
    return value.variable


def _results(value: WholeValue, node_ids: Sequence[int], nodes: Sequence[Expr]) -> Sequence[int]:
    """Return the nodes, of those recorded by a source expression, that are its value.

    An operation records one node each time it runs. A function of several operations has the last node as its value,
    unless it has several results.
    """
    members = [nodes[node_id] for node_id in node_ids]
    last = members[-1]
    if type(last.type) is not TensorType:
        return ()
    function = functions.get(value.callee)
    if isinstance(last.operation, Call):
        bodies = [node.operation.body for node in members if isinstance(node.operation, Call)]
        # a list or dict with one element is written as a structure
        is_value = all(body.name == value.callee and body.structure is None for body in bodies) or _is_layer_call(
            value, bodies
        )
        return node_ids if is_value and len(bodies) == len(members) else ()
    if not value.callee or isinstance(function, Operation):
        return node_ids if len({node.operation.name for node in members}) == 1 else _last(node_ids, members)
    declared = function or getattr(Expr, value.callee, None)
    gives_one = getattr(declared, "__annotations__", {}).get("return") == "Expr"
    return _last(node_ids, members) if gives_one else ()


def _is_layer_call(value: WholeValue, bodies: Sequence[Body]) -> bool:
    """Return whether the value is the only call of a layer with one output: ``h = layer(x)``.

    The called variable may have any name, unless it is a function, which may itself call a layer.
    """
    if len(bodies) != 1 or value.callee in functions or hasattr(builtins, value.callee):
        return False
    (body,) = bodies
    return body.scope is not None and body.scope.kind == "layer" and len(body.outputs) == 1


def _parts(value: WholeValue, node_ids: Sequence[int], nodes: Sequence[Expr]) -> Iterator[tuple[int, str]]:
    """Yield (node id, variable) for the outputs of a call that returns a tuple."""
    members = [nodes[node_id] for node_id in node_ids]
    calls = [node.operation for node in members if isinstance(node.operation, Call)]
    items = [(node_id, node.operation) for node_id, node in zip(node_ids, members, strict=True)]
    outputs = [(node_id, operation.index) for node_id, operation in items if isinstance(operation, Item)]
    flat = tuple, (None,) * len(value.parts)
    is_value = all(call.body.name == value.callee and call.body.structure == flat for call in calls)
    if is_value and len(calls) + len(outputs) == len(members):
        yield from [(node_id, value.parts[index]) for node_id, index in outputs if value.parts[index]]


def _last(node_ids: Sequence[int], members: Sequence[Expr]) -> Sequence[int]:
    """Return the last node if the function reads each of its other nodes itself."""
    read_uids = {operand.uid for node in members for operand in node.operands}
    return node_ids[-1:] if all(node.uid in read_uids for node in members[:-1]) else ()


BUDGET = 24_000
"""maximum number of characters of all source texts of a recording; of longer texts, only the recorded lines are kept"""
_AROUND = 2
"""number of lines that are kept before and after a recorded line outside functions"""


def source_texts(recorded: Mapping[str, set[int]]) -> list[SourceText]:
    """Return the source texts around recorded lines; sources that no longer exist are omitted.

    ``recorded`` maps file names to line numbers. Only the base name of a file is kept.
    """
    texts, budget_left = [], BUDGET
    for filename, recorded_lines in recorded.items():
        lines = linecache.getlines(filename)
        line_numbers = set(range(1, len(lines) + 1))
        where = cell_name(filename)
        if not where.startswith(("In[", "<")):
            functions = _functions("".join(lines))
            line_numbers &= {line for recorded_line in recorded_lines for line in _around(functions, recorded_line)}
        size = sum(len(lines[line - 1]) for line in line_numbers)
        # Half a function would mislead, so it is omitted; a later, smaller function may still fit.
        if not line_numbers or size > budget_left:
            continue
        budget_left -= size
        sorted_lines = tuple(sorted(line_numbers))
        texts.append(SourceText(where, sorted_lines, tuple(lines[line - 1].rstrip("\r\n") for line in sorted_lines)))
    return texts


def _around(functions: list[tuple[int, int]], line: int) -> Iterator[int]:
    """Yield the lines of the innermost function around ``line``; outside functions, a few lines around it."""
    enclosing = [(last - first, first, last) for first, last in functions if first <= line <= last]
    _, first, last = min(enclosing, default=(0, line - _AROUND, line + _AROUND))
    yield from range(first, last + 1)


@functools.lru_cache(maxsize=32)
def _functions(text: str) -> list[tuple[int, int]]:
    """Return the first and last line of each function in a file, including decorators."""
    tree = parsed(text)
    return [
        (min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]), node.end_lineno or node.lineno)
        for node in (ast.walk(tree) if tree is not None else ())
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
