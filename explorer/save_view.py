"""Saving of views as pages, images, text or data, depending on the file extension.

``view.save`` and ``explorer show -o`` both use this module, so they write identical files.
"""

from __future__ import annotations

import os
from pathlib import Path

from explorer.core.argument_checks import check_type
from explorer.core.errors import FileError
from explorer.core.files.atomic_write import write_file
from explorer.record import Recording
from explorer.view.export.writers import WRITERS, ViewState

_AS_SEEN = ViewState()


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
    if extension == ".png":
        try:
            import resvg_py  # noqa: F401 - importing is how one asks whether it works here
        except ImportError:
            raise FileError(
                "a PNG is drawn by the package resvg-py, which is not installed",
                path=str(output),
                rule="the extra png must be installed",
                fix=f"pip install 'explorer-graphs[png]', or write {output.stem}.svg",
            ) from None


def page(recording: Recording, state: ViewState = _AS_SEEN) -> str:
    """Return the page that ``save`` writes to an ``.html`` file."""
    return str(WRITERS[".html"](recording, state))


def save(recording: Recording, path: str | os.PathLike[str], state: ViewState = _AS_SEEN) -> None:
    """Write a recording and the state of its view; if writing fails, an existing file is left unchanged.

    The extension of ``path`` selects the format. ``.html`` is an interactive page, ``.svg`` and ``.png`` are images,
    and ``.dot`` is for Graphviz. ``.txt`` contains the decisions, and ``.json`` the recording, which ``explorer diff``
    can compare. Raises FileError for any other extension, and for a PNG if the required package is missing, no font is
    installed, or the image is too large.
    """
    check_extension(path)
    output = Path(path)
    extension = output.suffix.lower()
    if extension != ".png":
        write_file(output, WRITERS[extension](recording, state))
        return
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
    write_file(output, content)
