"""Bundle of the front end: the files in static/ and its folders, joined into one module and one stylesheet.

Each file becomes a function that returns its exports, assigned to a constant named after its path: ``$data_totals`` for
``data/totals.js``. The entry stays at top level and keeps its exports. No build step and no Node are needed, since a
wheel contains the sources, and anywidget loads one file.

A function per file keeps its private names separate from other files' names.
"""

from __future__ import annotations

import json
import posixpath
import re
from functools import cache
from pathlib import Path

from explorer.record.glossary import GLOSSARY, inflections
from explorer.view.base.font import LEVEL, NUMBER_BESIDES, PORT_BESIDES, PORT_CHARACTER, SHORT
from explorer.view.base.palette import FAMILIES, front_end_colours
from explorer.view.layout.edge_labels import HEIGHT, OFFSET

STATIC = Path(__file__).parents[1] / "static"
ENTRY = "mount.js"

_IMPORT = re.compile(r'^import \{ ([\w, ]+) \} from "(\.{1,2}/[\w/.]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?:async )?(?:function|class|const) (\w+)", re.MULTILINE)
_STYLES = re.compile(r'^@import "([\w/]+\.css)";\n', re.MULTILINE)
_WIDE = re.compile("[^\\x00-\\xff]")
"""characters that make a browser store the whole string with two bytes per character"""
_LEFT = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


@cache
def script() -> str:
    """Return the front end as one ES module, after the constants that it shares with Python.

    ``mount`` adds it to a page, and the default export is the widget. Characters above U+00FF are escaped.
    """
    forms = {f"{term}: {text}": inflections(term) for term, text in GLOSSARY.items()}
    constants = {
        "GLOSSARY": forms,
        "EDGE_LABEL": {"height": HEIGHT, "aside": OFFSET},
        "SPACING": {
            "character": PORT_CHARACTER,
            "besides": PORT_BESIDES,
            "level": LEVEL,
            "number": NUMBER_BESIDES,
            "short": SHORT,
        },
        "FAMILIES": FAMILIES,
    }
    known = [f"const {name} = {json.dumps(value, ensure_ascii=False)};\n" for name, value in constants.items()]
    code = "".join(known) + join(STATIC, ENTRY)
    return _WIDE.sub(lambda match: json.dumps(match[0])[1:-1], code)


@cache
def stylesheet() -> str:
    """Return the front end's CSS, which begins with its colours; every rule is scoped to the class ``explorer-view``.

    An imported part replaces its import, so that later rules override it.
    """
    rules = _STYLES.sub(lambda match: _read(STATIC, match[1]), _read(STATIC, "explorer.css"))
    return front_end_colours() + rules


def join(folder: Path, entry: str) -> str:
    """Join a module with all its imports, imported files first.

    Raise ValueError for import cycles, and for imports or exports in an unsupported form.
    """
    return "\n".join(_wrap(folder, name, name == entry) for name in _order(folder, entry)) + "\n"


def _order(folder: Path, entry: str) -> list[str]:
    """List the files that an entry needs, each after its imports."""
    done: list[str] = []
    chain: list[str] = []
    waiting = [entry]
    while waiting:
        name = waiting[-1]
        imported = [_resolve(name, path) for _, path in _IMPORT.findall(_read(folder, name))]
        missing = [other for other in imported if other not in done]
        if name not in chain:
            chain.append(name)
        cycle = [other for other in missing if other in chain]
        if cycle:
            raise ValueError(f"{name} imports {cycle[0]}, which imports it: a module may import only downwards")
        if missing:
            waiting.append(missing[0])
            continue
        waiting.pop()
        chain.remove(name)
        done.append(name)
    return done


def _wrap(folder: Path, name: str, is_entry: bool) -> str:
    code = _IMPORT.sub(
        lambda match: f"const {{ {match[1]} }} = {_constant(_resolve(name, match[2]))};\n", _read(folder, name)
    )
    exports = [] if is_entry else _EXPORT.findall(code)
    if not is_entry:
        code = _EXPORT.sub(lambda match: match[0].removeprefix("export "), code)
    left = [line for line in _LEFT.findall(code) if not (is_entry and line.startswith("export"))]
    if left:
        known = 'import { … } from "./name.js" or "../folder/name.js"; and export function, class or const'
        raise ValueError(f"{name}: {left[0]!r} is none of the forms that can be joined: {known}")
    if is_entry:
        return code.rstrip()
    return f"const {_constant(name)} = (() => {{\n{code.rstrip()}\nreturn {{ {', '.join(exports)} }};\n}})();"


def _resolve(importer: str, path: str) -> str:
    """Return the path of an imported file inside the folder, from its relative path in the importing file."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(importer), path))


def _constant(name: str) -> str:
    """Return the constant with a file's exports: ``data/totals.js`` → ``$data_totals``."""
    return "$" + name.removesuffix(".js").replace("/", "_")


def _read(folder: Path, name: str) -> str:
    return (folder / name).read_text(encoding="utf-8")
