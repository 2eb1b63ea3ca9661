"""Static picture of a notebook's output, in the formats that ``ex.outputs`` selects."""

from __future__ import annotations

from base64 import b64encode

from explorer.record import Recording
from explorer.view.export.html_page import image
from explorer.view.export.outputs import outputs
from explorer.view.layout.placed_model import PlacedModel
from explorer.view.picture.paper import printable
from explorer.view.picture.png import png
from explorer.view.picture.svg import svg


def cell_picture(
    recording: Recording,
    label: str,
    *,
    theme: str = "auto",
    drawing: PlacedModel | None = None,
    direction: str = "down",
) -> dict[str, str]:
    """Return a recording's final picture by MIME type; ``label`` describes it to readers who cannot see it.

    The HTML also contains the picture, as an image, since JupyterLab does not show SVG in an untrusted notebook.
    """
    if not outputs.pictures:
        return {}
    if outputs.png:
        theme = "dark" if theme == "dark" else "light"  # an image cannot follow the reader's system
    picture = svg(recording, theme=theme, drawing=drawing, direction=direction)
    if outputs.png:
        return {"image/png": b64encode(png(printable(picture))).decode()}
    # marimo rejects instances of subclasses of str
    return {"text/html": str(image(picture, label)), "image/svg+xml": str(picture)}
