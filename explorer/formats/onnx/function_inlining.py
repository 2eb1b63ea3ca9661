"""Functions: calls of a model's own, and of the standard's, are expanded, each in a box of its own.

The reader uses it, so that everything behind it sees plain operators. Expansion is exponential in the depth of calls: a
file of a kilobyte can ask for 2³⁰ operators. So sizes are counted by multiplication, function by function, before the
first body is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto, defs

from explorer.core.errors import FileError
from explorer.core.memory_budget import CALLS, budget
from explorer.formats.onnx.operators.base.formal_names import domain_of
from explorer.record.reasons import bytes_text

_Key: TypeAlias = tuple[str, str, str]
"""domain, name and overload of a function"""


@dataclass(frozen=True, slots=True)
class PlacedNode:
    """A node of the expanded graph: the calls that it stands in, outermost first, and the opsets that it means."""

    node: NodeProto
    calls: tuple[str, ...]
    opsets: Mapping[str, int]


def expanded(
    model: ModelProto,
    path: Path,
    standard: Callable[[NodeProto, Mapping[str, int]], FunctionProto | None],
    graph: GraphProto,
    opsets: Mapping[str, int] | None = None,
    outside: Iterable[str] = (),
) -> Iterator[PlacedNode]:
    """Yield the nodes of a model's graph in their order, with the bodies of functions for their calls.

    Of an inner graph no call has a name that values ``outside`` are named after: none may have the name of another.
    ``standard`` gives the body of an operator that is a function too, though not of the model. Raises FileError for a
    function that calls itself, for calls nested too deep, and for functions that expand to too many operators: those
    are counted by multiplication before any function is expanded.
    """
    functions = {_key(function): function for function in model.functions}
    Expansion(functions, path).check(graph.node)
    opsets = _opsets(model) if opsets is None else opsets
    around = {name.partition("/")[0] for name in outside}
    names = inlined = characters = 0
    waiting: list[tuple[Iterator[NodeProto], tuple[str, ...], Mapping[str, int]]]
    # Iterators on a stack, not calls: how deep functions call one another is the file's choice.
    waiting = [(iter(graph.node), (), opsets)]
    while waiting:
        nodes, calls, own_opsets = waiting[-1]
        node = next(nodes, None)
        if node is None:
            waiting.pop()
            continue
        function = functions.get(_called(node)) if functions else None
        function = function or standard(node, own_opsets)
        names += 1  # every node counts, so that a nameless call has the same name in every run
        inlined += bool(calls)
        if inlined > budget.operators:  # the standard's own functions are not among those that were counted
            raise _too_many(path, inlined)
        if function is None:
            yield PlacedNode(node, calls, own_opsets)
            continue
        name = node.name or f"{function.name}_{names}"
        while not calls and name in around:
            name += "'"
        prefix = "/".join((*calls, name))
        characters += len(prefix) * (1 + _count_names(function.node))
        if characters > budget.text or len(calls) >= CALLS:
            raise _too_long(path, prefix)
        waiting.append((iter(_body(function, node, prefix)), (*calls, name), {**own_opsets, **_opsets(function)}))


class Expansion:
    """Size of the expansion of a model's functions: operators, bytes and depth; nothing is expanded.

    Each function is counted once, whoever calls it.
    """

    def __init__(self, functions: Mapping[_Key, FunctionProto], path: Path) -> None:
        self._functions, self._path = functions, path
        self._counted: dict[_Key, tuple[int, int, int]] = {}
        """of a call: operators, bytes of their attributes, and how many calls lie in each other"""

    def check(self, nodes: Iterable[NodeProto]) -> None:
        """Raise FileError where these nodes expand to more than the budget grants, or a function calls itself."""
        operators = size = 0
        for node in nodes if self._functions else ():
            key = _called(node)
            if key in self._functions:
                self._count(key)
            # Python's ints do not overflow: 2¹⁰⁰ operators are a number like any other
            own, attributes, _ = self._counted.get(key, (0, 0, 0))
            operators, size = operators + own, size + attributes
            if operators > budget.operators:
                raise _too_many(self._path, operators)
            if size > budget.text:
                raise FileError(
                    f"the attributes of the expanded functions take {bytes_text(min(size, 1 << 80))}",
                    path=str(self._path),
                    rule=f"what a file expands to must take at most {bytes_text(budget.text)}: budget.text",
                    fix="export the model without local functions",
                )

    def _count(self, first: _Key) -> None:
        waiting: list[tuple[_Key, Iterator[_Key]]] = []
        active: set[_Key] = set()

        def enter(key: _Key) -> None:
            active.add(key)
            called = dict.fromkeys(map(_called, self._functions[key].node))
            waiting.append((key, iter([inner for inner in called if inner in self._functions])))

        if first not in self._counted:
            enter(first)
        while waiting:
            key, inner = waiting[-1]
            following = next((other for other in inner if other not in self._counted), None)
            if following in active:
                raise FileError(
                    f"function {following[1]!r} calls itself",
                    path=str(self._path),
                    rule="a function must not call itself, directly or through others",
                    fix="export the model without local functions",
                )
            if following is not None:
                enter(following)
                continue
            waiting.pop()
            active.remove(key)
            self._counted[key] = self._sum(key)

    def _sum(self, key: _Key) -> tuple[int, int, int]:
        operators = size = depth = 0
        for node in self._functions[key].node:
            own, attributes, below = self._counted.get(_called(node), (0, 0, 0))
            operators, size, depth = operators + 1 + own, size + node.ByteSize() + attributes, max(depth, below)
        if depth >= CALLS:
            raise FileError(
                f"function {key[1]!r} calls others {depth} deep",
                path=str(self._path),
                rule=f"functions must call one another at most {CALLS} deep",
                fix="export the model without local functions",
            )
        return operators, size, depth + 1


def _too_many(path: Path, operators: int) -> FileError:
    return FileError(
        f"the functions expand to {min(operators, 10**30):,} operators or more",
        path=str(path),
        rule=f"calls of functions, a file's own and ONNX's standard ones, must expand to at most {budget.operators:,} "
        "operators in all: budget.operators",
        fix=f"export the model without local functions, or ex.budget.operators = {min(operators, 10**30)}",
    )


def _too_long(path: Path, prefix: str) -> FileError:
    return FileError(
        f"the names in the expanded functions are too long: {prefix[:80]!r}…",
        path=str(path),
        rule=f"they must take at most {bytes_text(budget.text)} in all, and name at most {CALLS} calls",
        fix="export the model without local functions",
    )


def _called(node: NodeProto) -> _Key:
    """Return the key of the function that a node calls, if it calls one."""
    return domain_of(node.domain), node.op_type, node.overload


def _key(function: FunctionProto) -> _Key:
    return domain_of(function.domain), function.name, function.overload


def _opsets(owner: ModelProto | FunctionProto) -> dict[str, int]:
    return {domain_of(opset.domain): opset.version for opset in owner.opset_import}


def _body(function: FunctionProto, call: NodeProto, prefix: str) -> list[NodeProto]:
    """Return the function's nodes over the call's operands; inner names are those of the function after ``prefix``."""
    names = dict(zip(function.input, call.input, strict=False))
    names.update(dict.fromkeys(function.input[len(call.input) :], ""))
    # An output that the call leaves out keeps the function's own name, prefixed: others in the body may read it.
    names.update({formal: actual for formal, actual in zip(function.output, call.output, strict=False) if actual})
    # an empty name means that the operand is left out, inside and outside
    names[""] = ""
    attributes = {attribute.name: attribute for attribute in (*function.attribute_proto, *call.attribute)}
    nodes = []
    for node in function.node:
        copy = NodeProto()
        copy.CopyFrom(node)
        for slot in (copy.input, copy.output):
            slot[:] = [names.setdefault(name, f"{prefix}/{name}") for name in slot]
        del copy.attribute[:]
        copy.attribute.extend(_bound(node, attributes))
        for attribute in copy.attribute:
            for graph in (attribute.g, *attribute.graphs):
                _rename(graph, names, prefix)
        nodes.append(copy)
    return nodes


def _bound(node: NodeProto, call_attributes: Mapping[str, AttributeProto]) -> Iterator[AttributeProto]:
    """Yield a node's attributes; one that refers to an attribute of the call has its value, or is left out."""
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            yield attribute
        elif attribute.ref_attr_name in call_attributes:
            bound = AttributeProto()
            bound.CopyFrom(call_attributes[attribute.ref_attr_name])
            bound.name = attribute.name
            yield bound


def _count_names(nodes: Iterable[NodeProto]) -> int:
    """Return how many names of values nodes and the graphs among their attributes have."""
    count, waiting = 0, list(nodes)
    while waiting:
        node = waiting.pop()
        count += len(node.input) + len(node.output)
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                count += len(graph.input) + len(graph.initializer) + len(graph.output)
                waiting += graph.node
    return count


def _rename(graph: GraphProto, names: Mapping[str, str], prefix: str) -> None:
    """Give an inner graph the new names of what it reads from outside; values of its own are named after ``prefix``.

    A function is a scope of its own: a value of its inner graphs may have the name of one of the caller's.
    """
    waiting = [(graph, names)]
    while waiting:
        inner, outer = waiting.pop()
        held = (*inner.input, *inner.initializer, *[sparse.values for sparse in inner.sparse_initializer])
        own = [*[value.name for value in held], *[name for node in inner.node for name in node.output]]
        scope = {**outer, **{name: f"{prefix}/{name}" for name in own if name}}
        for value in (*held, *inner.value_info, *inner.output):
            value.name = scope.get(value.name, value.name)
        for node in inner.node:
            node.input[:] = [scope.get(name, name) for name in node.input]
            node.output[:] = [scope.get(name, name) for name in node.output]
            for attribute in node.attribute:
                waiting += [(nested, scope) for nested in (attribute.g, *attribute.graphs)]


def captured(node: NodeProto, outside: Mapping[str, object]) -> list[str]:
    """Return the outer values that the graphs among a node's attributes read, in order.

    A name that an inner graph gives to a value of its own hides the outer value, in the graphs inside it, too.
    """
    captures: dict[str, None] = {}
    nothing: frozenset[str] = frozenset()
    waiting = [(graph, nothing) for attribute in node.attribute for graph in (attribute.g, *attribute.graphs)]
    while waiting:
        graph, hidden = waiting.pop()
        own = {value.name for value in (*graph.input, *graph.initializer)}
        hidden = hidden.union(own, *[inner.output for inner in graph.node])
        read = [name for inner in graph.node for name in inner.input] + [output.name for output in graph.output]
        captures.update(dict.fromkeys(name for name in read if name in outside and name not in hidden))
        for inner in graph.node:
            waiting += [(g, hidden) for attribute in inner.attribute for g in (attribute.g, *attribute.graphs)]
    return [name for name in captures if name not in node.input]


def body_of(node: NodeProto, opsets: Mapping[str, int], types: Mapping[str, TypeProto]) -> FunctionProto | None:
    """Return the function that defines a node's operator in its opset; None if the standard has none.

    Some bodies depend on the types of what the node reads, which the file must note then.
    """
    domain = domain_of(node.domain)
    opset = opsets.get(domain)
    if opset is None or not 0 < opset < 2**31:  # what onnx can look up
        return None
    try:
        schema: Any = defs.get_schema(node.op_type, opset, domain)  # its stubs lack what it says of functions
    except defs.SchemaError:
        return None
    plain = [version for version in schema.function_opset_versions if version <= opset]
    typed = [version for version in schema.context_dependent_function_opset_versions if version <= opset]
    if plain:
        data = schema.get_function_with_opset_version(max(plain))
    elif typed and all(name in types for name in node.input if name):
        kinds = [types.get(name, TypeProto()).SerializeToString() for name in node.input]
        try:
            data = schema.get_context_dependent_function_with_opset_version(max(typed), node.SerializeToString(), kinds)
        except (RuntimeError, TypeError, ValueError):
            return None  # the node is not one that the standard allows; it stays an operator, which is refused by name
    else:
        return None
    proto: FunctionProto = FunctionProto.FromString(data)
    if not proto.node:
        return None
    named = {attribute.name for attribute in proto.attribute_proto}
    # The body refers to attributes of the call by name; one that the call omits has the default of the schema.
    defaults = [attribute.default_value for attribute in schema.attributes.values()]
    proto.attribute_proto.extend(value for value in defaults if value.type and value.name not in named)
    return proto
