"""Saving of views as pages, images, text or data, depending on the file extension.

``view.save`` and ``explorer show -o`` both use this module, so they write identical files.
"""

from __future__ import annotations

import importlib
import os
from math import ceil, inf
from pathlib import Path

from explorer.core.argument_checks import check_type
from explorer.core.errors import FileError, OperandError
from explorer.core.files.atomic_write import write_file
from explorer.record import Recording
from explorer.view.export.writers import WRITERS, ViewState, legible

_AS_SEEN = ViewState()
_PACKAGES = {".png": "resvg-py", ".pdf": "typst"}
"""extension → package that writes the format; the extra has the name of the extension"""
_PICTURES = (".svg", ".png", ".pdf")


def check_extension(path: str | os.PathLike[str]) -> None:
    """Raise FileError for an unknown format or a missing package, and OperandError if ``path`` is not a path.

    Callers check the path before they compute anything.
    """
    check_type(path, "path", (str, os.PathLike), "the path of a file", 'view.save("view.html")')
    output = Path(path)
    extension = output.suffix.lower()
    if extension not in WRITERS:
        raise FileError(
            f"the extension {output.suffix!r}" if output.suffix else "a name without an extension",
            path=str(output),
            rule=f"the output must end in one of {', '.join(WRITERS)}",
            fix=f"{output / 'view' if output.is_dir() else output.stem}.html",
        )
    if extension in _PACKAGES:
        package = _PACKAGES[extension]
        try:
            importlib.import_module(package.replace("-", "_"))  # importing is how one asks whether it works here
        except ImportError:
            form = extension[1:]
            raise FileError(
                f"a {form.upper()} is drawn by the package {package}, which is not installed",
                path=str(output),
                rule=f"the extra {form} must be installed",
                fix=f"pip install 'explorer-graphs[{form}]', or write {output.stem}.svg",
            ) from None


def page(recording: Recording, state: ViewState = _AS_SEEN) -> str:
    """Return the page that ``save`` writes to an ``.html`` file."""
    return str(WRITERS[".html"](recording, state))


def check_width(width: float) -> None:
    """Raise OperandError unless a width in cm is a positive number."""
    check_type(width, "width", (int, float), "a number of cm", "width=8.5")
    if not 0 < width < inf:
        raise OperandError(f"width {width!r}", rule="a width in cm must be a positive number", fix="width=8.5")


def save(recording: Recording, path: str | os.PathLike[str], state: ViewState = _AS_SEEN) -> None:
    """Write a recording and the state of its view; if writing fails, an existing file is left unchanged.

    The extension of ``path`` selects the format. ``.html`` is an interactive page, ``.svg``, ``.png`` and ``.pdf`` are
    images, and ``.dot`` is for Graphviz. ``.txt`` contains the decisions, and ``.json`` the recording, which
    ``explorer diff`` can compare. Raises FileError for any other extension, for a missing package, for a PNG if no font
    is installed or the image is too large, and for a width at which text is illegible.
    """
    check_extension(path)
    output = Path(path)
    extension = output.suffix.lower()
    if state.width is not None and extension not in _PICTURES:
        raise FileError(
            f"a width of {state.width:g} cm",
            path=str(output),
            rule=f"only pictures ({', '.join(_PICTURES)}) have a width",
            fix=f"write {output.stem}.svg, or omit the width",
        )
    from explorer.view.picture.paper import LEGIBLE, PAGE_HEIGHT, IllegibleError
    from explorer.view.picture.png import MAX_SIDE, FontError, PictureSizeError

    try:
        content = WRITERS[extension](recording, state)
    except PictureSizeError as error:
        raise FileError(
            str(error),
            path=str(output),
            rule=f"a PNG must have at most {MAX_SIDE:,} px per side",
            fix=f"close boxes (view.open_boxes = []), or write {output.stem}.svg",
        ) from None
    except FontError as error:
        raise FileError(
            str(error),
            path=str(output),
            rule="a machine that draws a PNG must have a font",
            fix=f"install DejaVu Sans (apt install fonts-dejavu-core), or write {output.stem}.svg",
        ) from None
    except IllegibleError as error:
        raise FileError(
            f"{error} at a width of {state.width:g} cm",
            path=str(output),
            rule=f"a picture for a paper must have text of at least {LEGIBLE:g} pt on a page of {PAGE_HEIGHT:g} cm",
            fix=_legible(recording, state, error.needed),
        ) from None
    write_file(output, content)


def _legible(recording: Recording, state: ViewState, needed: float | None) -> str:
    """Return the depth and the width at which text is legible, and other ways to a picture for paper."""
    depth, width = legible(recording, state)
    needed = needed or width
    ways = [
        *([f"depth {depth}, which is legible"] if depth is not None else []),
        *([f"a width of {ceil(10 * needed) / 10:g} cm"] if needed is not None else []),
        *(['direction "down"'] if state.direction == "right" else []),
    ]
    return ", or ".join(ways) or "a part of the net: net.cut(…)"
