"""Look-up of nodes by names of scopes, variables and operations, and by lines."""

from __future__ import annotations

import re
from difflib import get_close_matches

from explorer.record import Recording
from explorer.record.errors import OperandError


def scope_path(recording: Recording, node: int) -> tuple[str, ...]:
    """Return the names of the scopes around a node, from the outside in."""
    return _path(recording, recording.nodes.scope[node])


def _path(recording: Recording, row: int) -> tuple[str, ...]:
    """Return the names of a scope and of the scopes around it, from the outside in."""
    names: list[str] = []
    while row >= 0 and recording.scopes[row].kind != "top":
        names.append(recording.scopes[row].name)
        row = recording.scopes[row].parent
    return tuple(reversed(names))


class NodesByName:
    """Recorded nodes by the name or path of their scope, ``fc`` or ``layer1 / conv2``, by variable, ``loss``, and by
    operation, ``tanh`` or ``multiply 2``. If a name has several meanings, the first of these applies. The operation of
    a node that a decision added, such as ``log_softmax``, is a name if no recorded node has it. In a recording of
    another compiler, values are also called as in its graph.

    An operator of a file is also a scope, and may be written as in the file: ``/layer1/conv2`` or ``layer1.conv2``. Its
    whole path comes first.
    """

    def __init__(self, recording: Recording) -> None:
        self._nodes: dict[tuple[str, ...], list[int]] = {}
        """path, or a part of one → the nodes inside"""
        for node in range(len(recording.nodes)):
            if recording.nodes.born[node] < 0:
                path = scope_path(recording, node)
                # Every contiguous part of the path is a name, so that a unique part is sufficient.
                for first in range(len(path)):
                    for end in range(first + 1, len(path) + 1):
                        self._nodes.setdefault(path[first:end], []).append(node)
        of_variables: dict[tuple[str, ...], list[int]] = {}
        for node, variable in recording.variables.items():
            if recording.nodes.born[node] < 0:
                of_variables.setdefault((variable,), []).append(node)
        labelled: dict[tuple[str, ...], list[int]] = {}
        for node, label in enumerate(recording.nodes.label):
            if recording.nodes.born[node] < 0 and recording.nodes.kind[node] != "constant":
                for name in dict.fromkeys((label, recording.label(node))):
                    labelled.setdefault((name,), []).append(node)
        of_operands: dict[tuple[str, ...], list[int]] = {}
        within: dict[int, list[int]] = {}
        for node, row in enumerate(recording.nodes.scope):
            if recording.nodes.born[node] < 0:
                while row >= 0:
                    within.setdefault(row, []).append(node)
                    row = recording.scopes[row].parent
        self._operators: dict[tuple[str, ...], list[int]] = {}
        """whole path of an operator of a file → the nodes inside"""
        for operator in recording.operators:
            inside = within.get(operator.scope, [])
            if inside:
                self._operators[_path(recording, operator.scope)] = inside
            for output in operator.outputs:
                of_operands.setdefault((output,), []).extend(inside)
        added: dict[tuple[str, ...], list[int]] = {}
        for node, born in enumerate(recording.nodes.born):
            if born >= 0 and recording.nodes.kind[node] != "constant":
                added.setdefault((recording.label(node),), []).append(node)
        of_values: dict[tuple[str, ...], list[int]] = {}
        for node, own in recording.nodes.attributes.items():
            for key in ("operator", "name"):
                if own.get(key):
                    of_values.setdefault((own[key],), []).append(node)
        for names in (of_variables, labelled, of_operands, added, of_values):
            self._nodes.update({path: nodes for path, nodes in names.items() if path not in self._nodes})

    def __getitem__(self, name: str) -> list[int]:
        """Return the nodes with a name; raise OperandError for an unknown name, with similar names."""
        paths = tuple(part.strip() for part in name.split(" / ")), tuple(filter(None, re.split("[/.]", name)))
        for path in paths:
            if path in self._operators:  # conv2 / Conv, which is also a part of residual / conv2 / Conv
                return [*self._operators[path]]
        for path in paths:
            if path in self._nodes:
                return list(dict.fromkeys(self._nodes[path]))
        known = [path[0] for path in self._nodes if len(path) == 1]
        near = get_close_matches(name, known, 5, 0.6)
        hint = f"near is {near[0]!r}" if len(near) == 1 else f"near are {', '.join(near)}" if near else ""
        first = f"the first are {', '.join(known[:5])}" if known else "this recording has none"
        raise OperandError(
            f"no operator, layer, scope, variable or operation is called {name!r}; {hint or first}",
            rule="a node must be one of this recording",
            fix=f"for example {[*near, *known][0]!r}" if known else "view.focus(0) selects by number",
        )


def nodes_named(recording: Recording, name: str) -> list[int]:
    """Return the nodes with a name; raise ValueError for an unknown name, with similar names."""
    return NodesByName(recording)[name]


def nodes_at(recording: Recording, line: int | str, where: str | None = None) -> list[int]:
    """Return the nodes recorded at a line, given by number or part of its text, in one cell or file or in all.

    Raise OperandError if there are none.
    """
    sources = recording.sources
    rows = {
        row
        for row, source in enumerate(sources)
        if (source.line == line if isinstance(line, int) else line in source.text)
        and (where is None or source.where == where)
    }
    nodes = [node for node, row in enumerate(recording.nodes.source) if row in rows]
    if not nodes:
        known = ", ".join(dict.fromkeys(f"{source.where} line {source.line}" for source in sources[:12]))
        raise OperandError(
            f"no node was recorded at {line!r}",
            rule=f"the first lines with nodes are {known or 'none'}",
            fix=f"view.select_line({sources[0].line})" if sources else "",
        )
    return nodes
