"""Saving of views as pages, images, text or data, depending on the file extension.

``view.save`` and ``explorer show -o`` both use this module, so they write identical files.
"""

from __future__ import annotations

import importlib
import io
import os
from math import ceil, inf
from pathlib import Path
from typing import IO, Any

from explorer.core.argument_checks import check_name, check_type
from explorer.core.errors import FileError, OperandError, StateError
from explorer.core.files.atomic_write import write_file
from explorer.plan.codegen.elements import functions_for
from explorer.record import Recording
from explorer.view.export.writers import WRITERS, ViewState, extension_of, legible, legible_width

_AS_SEEN = ViewState()
_PACKAGES = {".png": "resvg-py", ".pdf": "typst"}
"""extension → package that writes the format; the extra has the name of the extension"""
_PATH = "a path, or a file that is open for writing"
_PICTURES = (".svg", ".png", ".pdf")


def check_extension(path: str | os.PathLike[str]) -> None:
    """Raise FileError for an unknown format or a missing package, and OperandError if ``path`` is not a path.

    Callers check the path before they compute anything.
    """
    check_type(path, "path", (str, os.PathLike), _PATH, 'view.save("view.html")')
    output = Path(path)
    extension = extension_of(output.name)
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


def check_package(package: str, method: str) -> None:
    """Raise StateError with the command that installs a package that a method needs, if it cannot be imported."""
    try:
        importlib.import_module(package)
    except ImportError:
        raise StateError(
            f"{method} without the package {package}",
            rule=f"{method} needs the package {package}, which Explorer does not install",
            fix=f"pip install {package}",
        ) from None


def page(recording: Recording, state: ViewState = _AS_SEEN) -> str:
    """Return the page that ``save`` writes to an ``.html`` file."""
    return str(WRITERS[".html"](recording, state))


def check_width(width: float) -> None:
    """Raise OperandError unless a width in cm is a positive number."""
    check_type(width, "width", (int, float), "a number of cm", "width=8.5")
    if not 0 < width < inf:
        raise OperandError(f"width {width!r}", rule="a width in cm must be a positive number", fix="width=8.5")


def save(
    recording: Recording, path: str | os.PathLike[str] | IO[Any], state: ViewState = _AS_SEEN, form: object = None
) -> None:
    """Write a recording and the state of its view; if writing fails, an existing file is left unchanged.

    ``path`` may be a file that is open for writing, in the format ``form``, such as "svg".

    The extension of ``path`` selects the format. ``.html`` is an interactive page, ``.svg``, ``.png`` and ``.pdf`` are
    images. ``.dot``, ``.mmd`` and ``.graphml`` contain the graph for Graphviz, Mermaid and other programs. ``.txt``
    contains the decisions, ``.json`` the recording, which ``explorer diff`` can compare, ``.trace.json`` the trace of
    its run, and ``.c`` the code of its kernels and the functions that they call. Raises FileError for any other
    extension, for a missing package, run or code, for a PNG if no font is installed or the image is too large, and for
    a width at which text is illegible.
    """
    if not isinstance(path, (str, os.PathLike)):
        _write(recording, path, form, state)
        return
    check_extension(path)
    if form is not None:
        raise OperandError(
            f"format={form!r} of the path {str(path)!r}",
            rule="the extension of a path selects the format; only an open file needs its name",
            fix="omit format",
        )
    output = Path(path)
    write_file(output, _content(recording, output, state))


def _write(recording: Recording, file: IO[Any], form: object, state: ViewState) -> None:
    """Write a recording to a file that is open for writing strings or bytes."""
    if not hasattr(file, "write"):
        check_type(file, "path", (str, os.PathLike), _PATH, 'view.save("view.html")')
    known = [extension[1:] for extension in WRITERS]
    if form is None:
        raise OperandError(
            "an open file without a format",
            rule=f"an open file has no extension, so format must be one of {', '.join(known)}",
            fix='view.save(file, format="svg")',
        )
    check_name(form, "format", known)
    name = Path(f"view.{form}")
    check_extension(name)
    data = _content(recording, name, state)
    if not isinstance(file, io.TextIOBase):
        file.write(data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data)
    elif isinstance(data, str):
        file.write(data)
    else:
        raise OperandError(
            f"a file for strings, and the format {form}",
            rule=f"a file in the format {form} consists of bytes",
            fix='io.BytesIO(), or open(path, "wb")',
        )


def _content(recording: Recording, output: Path, state: ViewState) -> str | bytes:
    """Return the content of a file whose extension ``check_extension`` accepts; raises the errors of ``save``."""
    extension = extension_of(output.name)
    if state.width is not None and extension not in _PICTURES:
        raise FileError(
            f"a width of {state.width:g} cm",
            path=str(output),
            rule=f"only pictures ({', '.join(_PICTURES)}) have a width",
            fix=f"write {output.stem}.svg, or omit the width",
        )
    if extension == ".trace.json" and recording.run is None:
        raise FileError(
            "a recording without a run",
            path=str(output),
            rule="a trace contains the measured times of a run",
            fix="run the plan first (plan.eval()), then save its view",
        )
    if extension == ".c":
        if not (kernels := str(WRITERS[extension](recording, state))):
            raise FileError(
                "a recording whose kernels have no C code",
                path=str(output),
                rule="a C file contains the code of the kernels of a plan that compiles them",
                fix='kernels="native", or --kernels native on the command line; its stage codegen states why a kernel '
                "has no code",
            )
        return f"{functions_for(kernels)}\n{kernels}"
    from explorer.view.picture.paper import LEGIBLE, PAGE_HEIGHT, IllegibleError
    from explorer.view.picture.png import MAX_SIDE, FontError, PictureSizeError

    try:
        return WRITERS[extension](recording, state)
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


def _legible(recording: Recording, state: ViewState, needed: float | None) -> str:
    """Return the depth and the width at which text is legible, and other ways to a picture for paper."""
    depth, width = legible(recording, state)
    needed = needed or width or (legible_width(recording, state) if state.direction == "right" else None)
    ways = [
        *([f"depth {depth}, which is legible"] if depth is not None else []),
        *([f"a width of {ceil(10 * needed) / 10:g} cm"] if needed is not None else []),
        *(['direction "down"'] if state.direction == "right" else []),
    ]
    return ", or ".join(ways) or "a part of the net: net.cut(…)"
