"""Sanitizer of a page's body, which keeps only harmless markup and embeds images.

Only the tags and attributes listed here are kept, because a content security policy does not cover ``<meta
http-equiv="refresh">`` and form targets. bleach, a dependency of nbconvert, removes all others.
"""

from __future__ import annotations

import base64
import mimetypes
import os
import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from explorer.core.errors import FileError
from explorer.core.files.open_untrusted import opened
from explorer.record.escape import visible

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

MAX_IMAGE_BYTES = 32 << 20
"""maximum total size of the image files of one page"""
_TAGS = {
    "a", "abbr", "b", "blockquote", "br", "caption", "center", "cite", "code", "col", "colgroup", "dd", "del",
    "details", "dfn", "div", "dl", "dt", "em", "figcaption", "figure", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i",
    "img", "input", "ins", "kbd", "li", "mark", "ol", "p", "pre", "q", "s", "samp", "small", "span", "strike",
    "strong", "sub", "summary", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "tt", "u", "ul", "var",
}  # fmt: skip
_REMOVED = ["script", "style", "template", "noscript", "svg", "math", "title", "textarea", "iframe", "object", "select"]
"""tags that are removed with their contents; for all other forbidden tags, the contents remain"""
_GLOBAL_ATTRIBUTES = frozenset(["align", "class", "data-mime-type", "dir", "id", "lang", "style", "tabindex", "title"])
_TAG_ATTRIBUTES = {
    "a": ("href",), "col": ("span",), "details": ("open",), "img": ("alt", "height", "src", "width"),
    "input": ("checked", "disabled", "type"), "ol": ("start",), "td": ("colspan", "rowspan"),
    "th": ("colspan", "rowspan", "scope"),
}  # fmt: skip
_STYLES = frozenset(["align-items", "border", "flex", "gap", "margin", "max-width", "min-width", "padding"])
_MAX_DEPTH = 100
"""maximum nesting of elements, since the time for cleaning is quadratic in the depth"""
_DATA = re.compile(r"data:image/[a-z+.-]{1,30};base64,[A-Za-z0-9+/=\s]*")
_OWN_CLASSES = re.compile(r"(^|\s)(book|ex|explorer)-")
"""classes that the page's script uses to find its own elements"""


def clean_body(body: str, folder: Path, figures: Sequence[str], marker: str) -> str:
    """Return ``body`` with only harmless markup, embedded images, and ``figures`` in place of their markers.

    An image must be a visible file below ``folder``; a message replaces any other image.
    """
    from bleach.css_sanitizer import ALLOWED_CSS_PROPERTIES, CSSSanitizer
    from bleach.sanitizer import Cleaner
    from bs4 import BeautifulSoup

    soup = BeautifulSoup(body, "html.parser")
    for tag in soup(_REMOVED):
        tag.extract()
    depths = {id(soup): 0}
    deep = []
    for tag in soup.find_all():
        depths[id(tag)] = depth = depths[id(tag.parent)] + 1
        if depth == _MAX_DEPTH:
            deep.append(tag)
    for tag in deep:
        tag.replace_with(_problem(soup, f"elements nested more than {_MAX_DEPTH} deep are not shown"))
    # Images and figures, which are large and trusted, are inserted after cleaning.
    sources: list[str] = []
    own, left = secrets.token_hex(16), MAX_IMAGE_BYTES
    for tag in soup("img"):
        source = str(tag.get("src", ""))
        if not _DATA.fullmatch(source):
            try:
                data, kind = _image(source, folder.resolve(), left)
            except FileError as error:
                # The message omits the path, which would reveal folders on the author's machine.
                given = error.given.removeprefix(f"{visible(error.path)}: ")
                tag.replace_with(_problem(soup, f"image {source[:200]!r} is not shown: {given}"))
                continue
            left -= len(data)
            source = f"data:{kind};base64,{base64.b64encode(data).decode()}"
        tag["src"] = f"{own}{len(sources)}-"
        sources.append(source)

    def is_allowed(tag: str, name: str, value: str) -> bool:
        if name == "class":
            return not _OWN_CLASSES.search(value)
        if name == "src":
            return value.startswith(own)
        if (tag, name) == ("input", "type"):
            return value == "checkbox"
        return name in _GLOBAL_ATTRIBUTES or name in _TAG_ATTRIBUTES.get(tag, ())

    styles = CSSSanitizer(ALLOWED_CSS_PROPERTIES | _STYLES)
    cleaner = Cleaner(_TAGS, is_allowed, {"http", "https", "mailto"}, strip=True, css_sanitizer=styles)
    cleaned = cleaner.clean(str(soup))
    cleaned = re.sub(f"{own}([0-9]+)-", lambda match: sources[int(match[1])], cleaned)
    return re.sub(f"{marker}([0-9]+)-", lambda match: figures[int(match[1])], cleaned)


def _problem(soup: BeautifulSoup, text: str) -> Tag:
    tag = soup.new_tag("strong")
    tag.string = visible(text)
    return tag


def _image(source: str, folder: Path, left: int) -> tuple[bytes, str]:
    """Return an image's content and media type; raise FileError unless it is a visible image below ``folder``."""
    try:
        parts = urlsplit(source)
    except ValueError as error:
        raise FileError(str(error), path=source) from None
    if parts.scheme == "attachment" or source.startswith("data:;base64"):
        raise FileError("the cell has no such attachment", path=source)
    if parts.scheme or parts.netloc or not parts.path:
        raise FileError("a page must not load external files", path=source)
    path = folder / unquote(parts.path)
    with opened(path, what="it", within=folder) as file:
        # Symbolic links are resolved first.
        real = Path(os.path.realpath(path)).relative_to(folder)
        kind = mimetypes.guess_type(real.name)[0] or ""
        size = os.fstat(file.fileno()).st_size
        if any(part.startswith(".") for part in real.parts):
            raise FileError("it is a hidden file", path=source)
        if not kind.startswith("image/"):
            raise FileError("its extension is not an image extension", path=source)
        if size > left:
            raise FileError(f"the images of a page must have at most {MAX_IMAGE_BYTES:,} bytes in total", path=source)
        return file.read(size), kind
