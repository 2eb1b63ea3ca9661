"""Sphinx configuration of the documentation site, which assets/documentation/build.py builds."""

from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

import explorer
from assets.documentation.docstrings import as_rst

project = "Explorer"
author = copyright = "The Explorer authors"
version = release = explorer.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "explorer.site.sphinx_views"]
exclude_patterns = ["**/.ipynb_checkpoints"]
smartquotes = False
nitpick_ignore_regex = [
    ("myst", "explorer:.*"),  # links that control a view
    ("py:.*", ".*"),  # types in signatures, some of which belong to other packages
]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
nb_execution_mode = "off"
nb_ipywidgets_js = {}  # views need none, and these would be loaded from other machines
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_default_options = {"no-value": True}
autodoc_typehints = "none"

pygments_dark_style = "a11y-dark"
html_theme = "furo"
html_title = "Explorer"
html_static_path = ["static"]
html_css_files = ["documentation.css"]
html_js_files = [("documentation.js", {"defer": ""})]
html_search_scorer = str(Path(__file__).with_name("search_scorer.js"))
html_show_search_summary = False  # a page from disk cannot read other pages
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": False}


def convert(app: Sphinx, kind: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Convert a docstring."""
    lines[:] = as_rst(lines)


def shorten(app: Sphinx, kind: str, name: str, value: Any, options: Any, signature: str, returns: str) -> Any:
    """Leave out the signatures of classes that readers do not construct: protocols, and recordings."""
    is_long = kind == "class" and (signature == "(*args, **kwargs)" or "<factory>" in signature)
    return ("", None) if is_long else None


def skip(app: Sphinx, kind: str, name: str, value: Any, skipped: bool, options: Any) -> bool | None:
    """Leave out attributes of classes that only repeat the signature."""
    return True if name in ("fields", "rule_class", "defaults") else None


def setup(app: Sphinx) -> None:
    """Register the conversion of docstrings."""
    app.connect("autodoc-process-docstring", convert)
    app.connect("autodoc-process-signature", shorten)
    app.connect("autodoc-skip-member", skip)
