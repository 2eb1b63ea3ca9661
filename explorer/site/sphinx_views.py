"""Sphinx extension that makes the views of MyST-NB's notebooks interactive, also on pages that are opened from disk.

The front end is one file in ``_static``, which only pages with views load. It is a classic script, because browsers do
not load modules from disk.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

from explorer.core.files.atomic_write import write_file
from explorer.site.figure import view_figure
from explorer.view.base.markup import Markup
from explorer.view.base.palette import page_colours
from explorer.view.payload.script_bundle import script, stylesheet
from explorer.view.payload.stored import MIME

_STATIC = Path(__file__).parent / "static"
_SCRIPT, _STYLES = "explorer-views.js", "explorer-views.css"
_NAME = "explorer.site.sphinx_views"
_BUILDERS = ("html", "dirhtml", "singlehtml")
_HOLE = Markup("\0")
"""position of a document's nodes in the markup of a figure"""


class StoredViews:
    """Renderer of stored views for MyST-NB, which finds it by the entry point ``myst_nb.mime_renderers``."""

    mime_priority_overrides = ()

    @staticmethod
    def handle_mime(renderer: Any, data: Any, inline: bool) -> list[nodes.Element] | None:
        """Return the node of a stored view, or None for other types, and without the extension."""
        if data.mime_type != MIME or inline or _NAME not in renderer.renderer.sphinx_env.app.extensions:
            return None
        return [nodes.container(view=data.content)]


class ShowViews(SphinxPostTransform):
    """Step that replaces each output that contains a view by its figure."""

    default_priority = 3  # before MyST-NB selects one type of each output
    builders = _BUILDERS

    def run(self, **options: Any) -> None:
        """Replace the outputs of a document."""
        outputs = [node for node in self.document.findall(nodes.container) if node.get("nb_element") == "mime_bundle"]
        number = 0
        for output in outputs:
            parts = {part["mime_type"]: part.children for part in output.children}
            if MIME in parts:
                number += 1
                before, between, after = view_figure(number, parts[MIME][0]["view"], _HOLE, _HOLE).split(_HOLE)
                shown = [_raw(before), *parts.get("image/svg+xml", []), _raw(between), *parts.get("text/plain", [])]
                output.replace_self([*shown, _raw(after)])


def _raw(markup: str) -> nodes.raw:
    return nodes.raw("", markup, format="html")


def _write_front_end(app: Sphinx) -> None:
    """Write the script and the styles into the folder of static files."""
    if app.builder.name not in _BUILDERS:
        return
    folder = Path(app.outdir) / "_static"
    folder.mkdir(parents=True, exist_ok=True)
    code = re.sub("^export .*\n", "", script(), flags=re.MULTILINE) + _read("site.js")
    write_file(folder / _SCRIPT, f"(() => {{\n{code}\n}})();\n")
    styles = page_colours(".book-view") + _read("figures.css") + stylesheet()
    write_file(folder / _STYLES, styles)


def _add_front_end(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: nodes.document | None) -> None:
    """Add the script and the styles to a page with views."""
    if tree is not None and any('class="book-view"' in node.astext() for node in tree.findall(nodes.raw)):
        app.add_css_file(_STYLES)
        app.add_js_file(_SCRIPT, loading_method="defer")


def _read(name: str) -> str:
    return (_STATIC / name).read_text(encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.add_post_transform(ShowViews)
    app.connect("builder-inited", _write_front_end)
    app.connect("html-page-context", _add_front_end)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
