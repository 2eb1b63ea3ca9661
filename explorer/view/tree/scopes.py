"""Scopes and lines of a recording, as a reader names them."""

from __future__ import annotations

from difflib import get_close_matches

from explorer.record import Recording


def scope_path(recording: Recording, node: int) -> tuple[str, ...]:
    """Return the names of the scopes around a node, from the outside in."""
    names: list[str] = []
    row = recording.nodes.scope[node]
    while row >= 0 and recording.scopes[row].kind != "top":
        names.append(recording.scopes[row].name)
        row = recording.scopes[row].parent
    return tuple(reversed(names))


def nodes_named(recording: Recording, name: str) -> list[int]:
    """Return the recorded nodes of a scope, given by its name or its path: ``fc`` or ``layer1 / conv2``.

    An operator of a file is a scope, too. Raises ValueError for an unknown name, and suggests similar ones.
    """
    wanted = tuple(part.strip() for part in name.split(" / "))
    paths = [scope_path(recording, node) for node in range(len(recording.nodes))]
    found = [
        node
        for node, path in enumerate(paths)
        if recording.nodes.born[node] < 0
        and any(path[end - len(wanted) : end] == wanted for end in range(len(wanted), len(path) + 1))
    ]
    if not found:
        known = list(dict.fromkeys(part for path in paths for part in path))
        near = get_close_matches(name, known, 5, 0.5)
        hint = f"near is {near[0]!r}" if len(near) == 1 else f"near are {', '.join(near)}" if near else ""
        first = f"the first are {', '.join(known[:5])}" if known else "this recording has none"
        raise ValueError(f"no operator, layer or scope is called {name!r}; {hint or first}")
    return found


def nodes_at(recording: Recording, line: int | str, where: str | None = None) -> list[int]:
    """Return the nodes recorded at a line, given by number or part of its text, of one cell or file or of all.

    Raises ValueError where there is none.
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
        raise ValueError(f"no node was recorded at {line!r}; the first lines with nodes are {known or 'none'}")
    return nodes
