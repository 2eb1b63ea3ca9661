"""Notebooks: damaged JSON, with hostile prose and HTML; each becomes a page, and is stripped."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path

import numpy as np

import explorer as ex
from explorer.cli.support.notebook_strip import stripped
from explorer.site.build import build_site
from explorer.site.clean_body import _TAGS
from tests.soak.fuzz.formats.probe import BrokenPromiseError
from tests.soak.fuzz.values import damaged_plain, damaged_text

MAIN = "a.ipynb"
_PIECES = (
    "<meta http-equiv=refresh content='0;url=//x'>", "<base href=//x>", "<form action=//x><button>b</button></form>",
    "<script>1</script>", "<img src=secret.png onerror=x>", "![x](secret.png)",
    "![x](pipe)", "![x](.env)", "![x](../up)",
    "![x](attachment:none)", "[" * 300, "<div>" * 300, "\\begin{a}" * 300, "<svg onload=x>", "<iframe srcdoc=x>", "$$",
    "```mermaid\n<script>", "<a href='java\nscript:x'>a</a>", "<p style='background:url(//x)'>", "\x1b[31m", "\ud800",
)  # fmt: skip
_PAGE = {"html", "head", "meta", "title", "style", "body", "main", "article", "nav", "script"}
_Files = Mapping[str, bytes | None]


def seeds() -> dict[str, _Files]:
    """Return notebooks with every kind of cell and output, a view, an attachment, and widget state."""
    view, _ = ex.explore(ex.tanh(ex.tensor(np.ones(3), name="x")), run=False)._repr_mimebundle_()
    kept = {mime: value for mime, value in view.items() if "svg" not in mime}
    data = {
        "html": {"text/html": "<table><tr><td style='color:red'>1</td></tr></table>"},
        "markdown": {"text/markdown": "*a* ![x](c.png)"},
        "pictures": {"image/png": "AAAA", "image/svg+xml": "<svg xmlns='http://www.w3.org/2000/svg'/>"},
        "widget": {"application/vnd.jupyter.widget-view+json": {"model_id": "a"}, "text/plain": "w"},
        "script": {"application/javascript": "1", "text/latex": "$x$"},
        "view": kept,
    }
    outputs = [{"output_type": "display_data", "data": bundle, "metadata": {}} for bundle in data.values()]
    outputs.append({"output_type": "stream", "name": "stdout", "text": "printed"})
    outputs.append({"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\x1b[31mt"]})
    prose = {"cell_type": "markdown", "id": "a", "metadata": {}, "source": "# T\n\n![x](attachment:b.png)\n\n- [ ] $y$"}
    prose["attachments"] = {"b.png": {"image/png": "AAAA"}}
    code = {"cell_type": "code", "id": "b", "metadata": {"tags": ["c"]}, "execution_count": 1, "source": "x = 1"}
    raw = {"cell_type": "raw", "id": "c", "metadata": {"raw_mimetype": "text/html"}, "source": "<b>raw</b>"}
    state = {"application/vnd.jupyter.widget-state+json": {"state": {"a": {}}, "version_major": 2, "version_minor": 0}}
    whole = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"widgets": state, "kernelspec": {"name": "python3", "display_name": "P"}},
    }
    both = {**whole, "cells": [prose, {**code, "outputs": outputs}, raw]}
    return {
        "whole": {MAIN: json.dumps(both).encode()},
        "prose": {MAIN: json.dumps({**whole, "cells": [prose] * 2, "nbformat_minor": 4}).encode()},
    }


def mutate(files: _Files, chance: random.Random) -> _Files:
    whole = (files[MAIN] or b"").decode("utf-8", "surrogatepass")
    try:
        plain = json.loads(whole)
    except (ValueError, RecursionError):
        plain = None
    if plain is None or chance.random() < 0.15:
        whole = damaged_text(whole, chance)
    elif chance.random() < 0.5:
        # Insert a piece into a string of the JSON.
        ends = [match.end() for match in re.finditer(r'"(?:source|text/[a-z]+|text|evalue|image/png)": "', whole)]
        at = chance.choice(ends or [0])
        whole = whole[:at] + json.dumps(chance.choice(_PIECES))[1:-1] + whole[at:]
    else:
        whole = json.dumps(damaged_plain(plain, chance, chance.choice((1, 1, 2))))
    return {MAIN: whole.encode("utf-8", "surrogatepass")}


class _Tags(HTMLParser):
    """Tags that no page may contain, and the sources of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.wrong: list[str] = []
        self.metas = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.metas += tag == "meta"
        if tag not in _TAGS | _PAGE or self.metas > 4:
            self.wrong.append(tag)
        for name, value in attrs:
            if name.startswith("on") or (name == "src" and not (value or "").startswith("data:image/")):
                self.wrong.append(f"{tag} {name}={value}")
            if name == "href" and re.match(r"\s*(java|data|vb)", value or ""):
                self.wrong.append(f"{tag} {name}={value}")


def probe(path: Path, chance: random.Random, whole: bool) -> str:
    """Build the page of a notebook in a folder with a secret file, and strip the notebook."""
    del chance, whole
    for name in (".env", "secret.txt"):
        path.with_name(name).write_text("SECRET" * 9)
    path.with_name("secret.png").symlink_to(path.with_name("secret.txt"))
    clean = 0
    try:
        build_site([path], path.parent, "T")
        page = path.with_suffix(".html").read_text(encoding="utf-8")
        if "U0VDUkVU" in page or (wrong := _Tags(page).wrong):
            raise BrokenPromiseError(f"a page holds a secret, or {wrong[:3]}")
    except ex.ExplorerError:
        clean += 1
    try:
        _, text = stripped(path)
        text.encode()
    except ex.ExplorerError:
        clean += 1
    return "clean" if clean else "fine"
