"""Build the documentation site, build/site/index.html, with Sphinx: ``make docs``.

The pages of docs/ and assets/, the notebooks and the generated reference are copied into build/docs with the paths that
they have in the repository, so that links between them work in both. Every warning is an error, such as a link without
a target.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

from sphinx.cmd.build import build_main

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

from assets.documentation import reference  # noqa: E402
from assets.documentation.programs import Picture, run  # noqa: E402
from assets.documentation.search_words import keywords  # noqa: E402

SOURCE = ROOT / "build" / "docs"
SITE = ROOT / "build" / "site"
COPIED = (
    "docs/*.md", "assets/*.md", "assets/decisions/*.md", "notebooks/*.ipynb", "CHANGELOG.md", "CONTRIBUTING.md",
    "FEATURES.md", "SECURITY.md", "THIRD_PARTY.md",
)  # fmt: skip
IMAGES = ("notebooks/figures/*", "assets/screenshots/model-*.png")
GALLERIES = ("gallery-programs", "gallery-models", "gallery-compilers")
"""pages of docs/ whose programs are run, each with its view"""
CONTENTS = {
    "docs/reference.md": ["../reference/index", "../reference/options", "../reference/commands"],
    "assets/decisions/README.md": ["0*"],
}
"""pages with further pages as their contents"""
_TARGET = re.compile(r"\]\(([^)#]+)\.(?:md|ipynb)\)")
_PICTURE = re.compile(r'<picture>.*?srcset="([^"]+)".*?alt="([^"]+)" src="([^"]+)".*?</picture>', re.DOTALL)
_IMAGES_OF_THEMES = r"""
```{image} \3
:class: only-light
:alt: \2
```
```{image} \1
:class: only-dark
:alt: \2
```
"""
_GALLERY = re.compile(r"\((gallery-\w+)\.md\)")


def main(arguments: list[str]) -> int:
    """Build the site in the given folder, or in build/site; return the exit status."""
    folder = Path(arguments[0]).absolute() if arguments else SITE
    os.chdir(ROOT)  # the pages' programs open files of the repository
    write(sources())
    options = ["--fail-on-warning", "--keep-going", "--nitpicky", "--quiet", "--jobs", "2", "-c", str(HERE)]
    status = build_main(["-b", "html", *options, "-d", str(ROOT / "build" / "doctrees"), str(SOURCE), str(folder)])
    if not status:
        sys.stdout.write(f"open {folder / 'index.html'} in a browser\n")
    return status


def sources() -> dict[str, bytes]:
    """Return the path of each source file → its content."""
    texts: dict[str, str] = {}
    for pattern in COPIED:
        for path in ROOT.glob(pattern):
            name = path.relative_to(ROOT).as_posix()
            text = path.read_text(encoding="utf-8").replace("](../README.md)", "](../index.ipynb)")
            text = _PICTURE.sub(_IMAGES_OF_THEMES, text)
            texts[name] = _GALLERY.sub(r"(\1.ipynb)", text)
    texts["index.ipynb"], _ = run("first page", (HERE / "index.md").read_text(encoding="utf-8"))
    pictures = {}
    for name in GALLERIES:
        texts[f"docs/{name}.ipynb"], pictures[name] = run(name, texts.pop(f"docs/{name}.md"))
    texts |= {f"reference/{name}": text for name, text in reference.sources().items()}
    index = texts.pop("docs/README.md")
    for name in _TARGET.findall(index.partition("\n## How-to guides\n")[2].partition("\n## ")[0]):
        texts[f"docs/{name}.md"] = keywords(name) + texts[f"docs/{name}.md"]
    texts |= sections(index)
    cards, images = gallery(pictures)
    texts["docs/gallery.md"] += cards
    texts |= images
    for name, contents in {**CONTENTS, "docs/course.md": numbered(texts)}.items():
        texts[name] += f"\n{toctree(contents)}\n"
    texts.pop("assets/README.md")
    files = {name: text.encode() for name, text in texts.items()}
    return files | {path.relative_to(ROOT).as_posix(): path.read_bytes() for each in IMAGES for path in ROOT.glob(each)}


def write(files: dict[str, bytes]) -> None:
    """Write the source files whose content changed, and remove the files of pages that are gone."""
    for name, content in files.items():
        path = SOURCE / name
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    for path in [path for path in SOURCE.rglob("*") if path.is_file()]:
        if path.relative_to(SOURCE).as_posix() not in files:
            path.unlink()


def gallery(pictures: dict[str, list[Picture]]) -> tuple[str, dict[str, str]]:
    """Return the cards of all views, with a link to each, and the files with their pictures."""
    cards, files = [], {}
    for page, found in pictures.items():
        for picture in found:
            anchor = re.sub(r"[^\w -]", "", picture.heading.lower()).replace(" ", "-")
            files[f"docs/pictures/{anchor}.svg"] = picture.svg
            cards += [
                f"```{{figure}} pictures/{anchor}.svg", f":target: {page}.html#{anchor}",
                f":alt: graph of {picture.heading}", "", picture.heading, "```", "",
            ]  # fmt: skip
    return "\n".join([":::{container} gallery", *cards, ":::", ""]), files


def sections(text: str) -> dict[str, str]:
    """Return a page for each section of docs/README.md, with the pages of its table as its contents."""
    found = {}
    for section in text.split("\n## ")[1:]:
        title, _, body = section.partition("\n")
        if title != "Tutorials":
            name, body = title.lower().replace(" ", "-"), body.replace("\n### ", "\n## ")
            found[f"docs/{name}.md"] = f"# {title}\n\n{body}\n{toctree(_TARGET.findall(body))}\n"
    return found


def numbered(texts: dict[str, str]) -> list[str]:
    """Return the entries of the notebooks, each with its number and title."""
    entries = []
    for name in sorted(name for name in texts if name.startswith("notebooks/")):
        title = json.loads(texts[name])["cells"][0]["source"][0].removeprefix("# ").strip()
        entries.append(f"{Path(name).name[:2]} {title} <../{name}>")
    return entries


def toctree(names: list[str]) -> str:
    """Return the directive that makes pages, given by names or patterns, the contents of a page."""
    return "\n".join(["```{toctree}", ":hidden:", ":glob:", *names, "```"])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
