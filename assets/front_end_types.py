"""Write explorer/view/static/types.d.ts, the payload's types: ``python assets/front_end_types.py``."""

from __future__ import annotations

import inspect
import sys
import types
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from explorer.view.payload.shapes import PayloadTables  # noqa: E402

TARGET = HERE.parent / "explorer" / "view" / "static" / "types.d.ts"
HEAD = """\
// Types of the unpacked payload, written by assets/front_end_types.py from the rows of explorer/record and
// explorer/view/payload/shapes.py.
"""
PLAIN = {int: "number", float: "number", str: "string", bool: "boolean", type(None): "null", Any: "any"}


def main() -> None:
    """Write the file."""
    TARGET.write_text(declarations(), encoding="utf-8")


def declarations() -> str:
    """Return the TypeScript interfaces of the payload and its rows, sorted by name."""
    waiting, text = [PayloadTables], {}
    for row in waiting:
        waiting += [inner for hint in hints(row).values() for inner in rows_in(hint) if inner not in waiting]
        text[row.__name__] = _interface(row)
    return "\n".join([HEAD, *(text[name] for name in sorted(text))])


def hints(row: type) -> dict[str, Any]:
    """Return the types of a row's fields."""
    return get_type_hints(row, include_extras=True)


def rows_in(hint: Any) -> list[type]:
    """Return the row classes in a type."""
    if is_dataclass(hint) or is_typeddict(hint):
        return [hint]
    return [row for inner in get_args(hint) if get_origin(hint) is not Literal for row in rows_in(inner)]


def _interface(row: type) -> str:
    summary = (inspect.getdoc(row) or "").split("\n")[0]
    fields = []
    for name, hint in hints(row).items():
        is_optional = get_origin(hint) is NotRequired
        fields.append(f"  {name}{'?' if is_optional else ''}: {written(get_args(hint)[0] if is_optional else hint)};")
    return "\n".join([f"/** {summary} */", f"export interface {row.__name__} {{", *fields, "}", ""])


def written(hint: Any) -> str:
    """Return a type in TypeScript's notation."""
    if hint in PLAIN:
        return PLAIN[hint]
    if is_dataclass(hint) or is_typeddict(hint):
        return str(hint.__name__)
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " | ".join(f'"{value}"' for value in inner)
    if origin in (Union, types.UnionType):
        return " | ".join(map(written, inner))
    if origin is dict:
        return f"Record<{written(inner[0])}, {written(inner[1])}>"
    if origin is tuple and inner[-1] is not ...:
        return f"[{', '.join(map(written, inner))}]"
    if origin in (tuple, list):
        member = written(inner[0])
        return f"({member})[]" if " | " in member else f"{member}[]"
    raise TypeError(f"{hint!r} has no TypeScript form: add it to written()")


if __name__ == "__main__":
    main()
