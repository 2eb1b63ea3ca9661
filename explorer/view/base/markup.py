"""XML and HTML elements as strings, in which every attribute and text is escaped and on one line."""

from __future__ import annotations

from html import escape

from explorer.record.escape import visible


class Markup(str):
    """String that is already markup, and is not escaped again."""

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: object) -> Markup:
    """Return an element; ``class_`` is written as class, ``_`` in attribute names as ``-``; None omits an attribute."""
    start = [name]
    for key, value in attributes.items():
        if value is not None:
            start.append(f'{key.rstrip("_").replace("_", "-")}="{escape(visible(str(value)))}"')
    inside = "".join(child if isinstance(child, Markup) else escape(visible(child)) for child in children)
    return Markup(f"<{' '.join(start)}>{inside}</{name}>" if inside else f"<{' '.join(start)}/>")
