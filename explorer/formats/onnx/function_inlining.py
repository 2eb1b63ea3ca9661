"""Inlining of calls to functions of the file and of the standard; each call becomes a box.

After inlining, the reader sees only plain operators. The result can grow exponentially with the call depth: a file of
one kilobyte can expand to 2³⁰ operators. The size of each function is therefore computed from the sizes of the
functions it calls, before any body is copied.
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
class ExpandedNode:
    """A node of the expanded graph, with its opsets and its enclosing calls, outermost first."""

    node: NodeProto
    calls: tuple[str, ...]
    opsets: Mapping[str, int]


def expanded_nodes(
    model: ModelProto,
    path: Path,
    standard: Callable[[NodeProto, Mapping[str, int]], FunctionProto | None],
    graph: GraphProto,
    opsets: Mapping[str, int] | None = None,
    outside: Iterable[str] = (),
) -> Iterator[ExpandedNode]:
    """Yield the nodes of ``graph`` in order, with calls replaced by function bodies.

    For an inner graph, ``outside`` contains the names of the outer values; a call is renamed if its name is a prefix of
    one of them. ``standard`` returns the body of an operator that the standard defines as a function, or None. Raise
    FileError if a function is recursive, calls are nested too deeply, or there are too many operators.
    """
    functions = {_function_key(function): function for function in model.functions}
    Expansion(functions, path).check(graph.node)
    opsets = _opsets(model) if opsets is None else opsets
    outer_names = {name.partition("/")[0] for name in outside}
    names = inlined = characters = 0
    pending: list[tuple[Iterator[NodeProto], tuple[str, ...], Mapping[str, int]]]
    # An explicit stack instead of recursion, because the file determines the call depth.
    pending = [(iter(graph.node), (), opsets)]
    while pending:
        nodes, calls, own_opsets = pending[-1]
        node = next(nodes, None)
        if node is None:
            pending.pop()
            continue
        function = functions.get(_called_function(node)) if functions else None
        function = function or standard(node, own_opsets)
        names += 1  # count every node, so that unnamed calls get the same names in every run
        inlined += bool(calls)
        if inlined > budget.operators:  # standard functions are not in the earlier check
            raise _too_many(path, inlined)
        if function is None:
            yield ExpandedNode(node, calls, own_opsets)
            continue
        name = node.name or f"{function.name}_{names}"
        while not calls and name in outer_names:
            name += "'"
        prefix = "/".join((*calls, name))
        characters += len(prefix) * (1 + _count_names(function.node))
        if characters > budget.file_size or len(calls) >= CALLS:
            raise _too_long(path, prefix)
        pending.append((iter(_body(function, node, prefix)), (*calls, name), {**own_opsets, **_opsets(function)}))


class Expansion:
    """Sizes of expanded functions, computed once per function and without expanding it."""

    def __init__(self, functions: Mapping[_Key, FunctionProto], path: Path) -> None:
        self._functions, self._path = functions, path
        self._counted: dict[_Key, tuple[int, int, int]] = {}
        """(number of operators, bytes of their attributes, call depth) of each function"""

    def check(self, nodes: Iterable[NodeProto]) -> None:
        """Raise FileError if these nodes expand to more than the budget allows, or a function is recursive."""
        operators = size = 0
        for node in nodes if self._functions else ():
            key = _called_function(node)
            if key in self._functions:
                self._count(key)
            own, attributes, _ = self._counted.get(key, (0, 0, 0))
            operators, size = operators + own, size + attributes
            if operators > budget.operators:
                raise _too_many(self._path, operators)
            if size > budget.file_size:
                raise FileError(
                    f"the attributes of the expanded functions take {bytes_text(min(size, 1 << 80))}",
                    path=str(self._path),
                    rule=f"a file must expand to at most {bytes_text(budget.file_size)} (budget.file_size)",
                    fix="export the model without local functions",
                )

    def _count(self, first: _Key) -> None:
        pending: list[tuple[_Key, Iterator[_Key]]] = []
        active: set[_Key] = set()

        def enter(key: _Key) -> None:
            active.add(key)
            called = dict.fromkeys(map(_called_function, self._functions[key].node))
            pending.append((key, iter([inner for inner in called if inner in self._functions])))

        if first not in self._counted:
            enter(first)
        while pending:
            key, inner = pending[-1]
            following = next((other for other in inner if other not in self._counted), None)
            if following in active:
                raise FileError(
                    f"function {following[1]!r} calls itself",
                    path=str(self._path),
                    rule="a function must not call itself, directly or indirectly",
                    fix="export the model without local functions",
                )
            if following is not None:
                enter(following)
                continue
            pending.pop()
            active.remove(key)
            self._counted[key] = self._sum(key)

    def _sum(self, key: _Key) -> tuple[int, int, int]:
        operators = size = depth = 0
        for node in self._functions[key].node:
            own, attributes, below = self._counted.get(_called_function(node), (0, 0, 0))
            operators, size, depth = operators + 1 + own, size + node.ByteSize() + attributes, max(depth, below)
        if depth >= CALLS:
            raise FileError(
                f"function {key[1]!r} nests calls {depth} deep",
                path=str(self._path),
                rule=f"function calls must be nested at most {CALLS} deep",
                fix="export the model without local functions",
            )
        return operators, size, depth + 1


def _too_many(path: Path, operators: int) -> FileError:
    return FileError(
        f"the functions expand to {min(operators, 10**30):,} operators or more",
        path=str(path),
        rule=f"calls of local and standard functions must expand to at most {budget.operators:,} "
        "operators in all (budget.operators)",
        fix=f"export the model without local functions, or ex.budget.operators = {min(operators, 10**30)}",
    )


def _too_long(path: Path, prefix: str) -> FileError:
    return FileError(
        f"the names in the expanded functions are too long: {prefix[:80]!r}…",
        path=str(path),
        rule=f"names must take at most {bytes_text(budget.file_size)} in all, "
        f"and calls must be nested at most {CALLS} deep",
        fix="export the model without local functions",
    )


def _called_function(node: NodeProto) -> _Key:
    return domain_of(node.domain), node.op_type, node.overload


def _function_key(function: FunctionProto) -> _Key:
    return domain_of(function.domain), function.name, function.overload


def _opsets(owner: ModelProto | FunctionProto) -> dict[str, int]:
    return {domain_of(opset.domain): opset.version for opset in owner.opset_import}


def _body(function: FunctionProto, call: NodeProto, prefix: str) -> list[NodeProto]:
    """Return the nodes of ``function`` with the operands of ``call``; all other names get the prefix ``prefix``."""
    names = dict(zip(function.input, call.input, strict=False))
    names.update(dict.fromkeys(function.input[len(call.input) :], ""))
    # An output that the call omits gets a prefixed name, because other nodes of the body may read it.
    names.update({formal: actual for formal, actual in zip(function.output, call.output, strict=False) if actual})
    # an empty name means an omitted operand, in the body and in the call
    names[""] = ""
    attributes = {attribute.name: attribute for attribute in (*function.attribute_proto, *call.attribute)}
    nodes = []
    for node in function.node:
        copy = NodeProto()
        copy.CopyFrom(node)
        for slot in (copy.input, copy.output):
            slot[:] = [names.setdefault(name, f"{prefix}/{name}") for name in slot]
        del copy.attribute[:]
        copy.attribute.extend(_bound_attributes(node, attributes))
        for attribute in copy.attribute:
            for graph in (attribute.g, *attribute.graphs):
                _rename(graph, names, prefix)
        nodes.append(copy)
    return nodes


def _bound_attributes(node: NodeProto, call_attributes: Mapping[str, AttributeProto]) -> Iterator[AttributeProto]:
    """Yield a node's attributes; a reference to a call's attribute is replaced by its value, or omitted without one."""
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            yield attribute
        elif attribute.ref_attr_name in call_attributes:
            bound = AttributeProto()
            bound.CopyFrom(call_attributes[attribute.ref_attr_name])
            bound.name = attribute.name
            yield bound


def _count_names(nodes: Iterable[NodeProto]) -> int:
    count, pending = 0, list(nodes)
    while pending:
        node = pending.pop()
        count += len(node.input) + len(node.output)
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                count += len(graph.input) + len(graph.initializer) + len(graph.output)
                pending += graph.node
    return count


def _rename(graph: GraphProto, names: Mapping[str, str], prefix: str) -> None:
    """Use ``names`` to rename the outer values in an inner graph, and add the prefix to its own values.

    A function has its own scope, so its inner graphs may use names that the caller also uses.
    """
    pending = [(graph, names)]
    while pending:
        inner, outer = pending.pop()
        values = (*inner.input, *inner.initializer, *[sparse.values for sparse in inner.sparse_initializer])
        own = [*[value.name for value in values], *[name for node in inner.node for name in node.output]]
        scope = {**outer, **{name: f"{prefix}/{name}" for name in own if name}}
        for value in (*values, *inner.value_info, *inner.output):
            value.name = scope.get(value.name, value.name)
        for node in inner.node:
            node.input[:] = [scope.get(name, name) for name in node.input]
            node.output[:] = [scope.get(name, name) for name in node.output]
            for attribute in node.attribute:
                pending += [(nested, scope) for nested in (attribute.g, *attribute.graphs)]


def captured_values(node: NodeProto, outside: Mapping[str, object]) -> list[str]:
    """Return the outer values that a node's inner graphs read.

    A value of an inner graph shadows an outer value of the same name, including in nested graphs.
    """
    captures: dict[str, None] = {}
    nothing: frozenset[str] = frozenset()
    pending = [(graph, nothing) for attribute in node.attribute for graph in (attribute.g, *attribute.graphs)]
    while pending:
        graph, hidden = pending.pop()
        own = {value.name for value in (*graph.input, *graph.initializer)}
        hidden = hidden.union(own, *[inner.output for inner in graph.node])
        read = [name for inner in graph.node for name in inner.input] + [output.name for output in graph.output]
        captures.update(dict.fromkeys(name for name in read if name in outside and name not in hidden))
        for inner in graph.node:
            pending += [(g, hidden) for attribute in inner.attribute for g in (attribute.g, *attribute.graphs)]
    return [name for name in captures if name not in node.input]


def body_of(node: NodeProto, opsets: Mapping[str, int], types: Mapping[str, TypeProto]) -> FunctionProto | None:
    """Return the standard's function body for an operator in its opset; None if there is none.

    Some bodies depend on the types of the node's inputs, which must then be in ``types``.
    """
    domain = domain_of(node.domain)
    opset = opsets.get(domain)
    if opset is None or not 0 < opset < 2**31:  # the range of opsets for which onnx can look up a function
        return None
    try:
        schema: Any = defs.get_schema(node.op_type, opset, domain)  # the type stubs lack its function attributes
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
            return None  # keep an invalid node as an operator; running it raises an error with its name
    else:
        return None
    proto: FunctionProto = FunctionProto.FromString(data)
    if not proto.node:
        return None
    named = {attribute.name for attribute in proto.attribute_proto}
    # The body refers to the call's attributes by name; omitted attributes get the schema's defaults.
    defaults = [attribute.default_value for attribute in schema.attributes.values()]
    proto.attribute_proto.extend(value for value in defaults if value.type and value.name not in named)
    return proto
