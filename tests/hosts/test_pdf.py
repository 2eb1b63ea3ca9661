"""PDF images of views, which Typst writes and PDFium reads."""

from __future__ import annotations

from pathlib import Path

import pytest

import explorer as ex
from explorer.cli import main

pytestmark = pytest.mark.hosts
MODEL = Path(__file__).parents[2] / "assets" / "digits.pnnx.param"


@pytest.mark.spec("Q-10")
def test_a_pdf_is_one_page_of_the_width_with_vectors_and_text(tmp_path: Path) -> None:
    """`view.save("x.pdf", stage="fuse", depth=0, width=8.5)` and `explorer show -o x.pdf` write the same file."""
    import pypdfium2

    view = ex.open(MODEL).explore()
    view.save(tmp_path / "view.pdf", stage="fuse", depth=0, width=8.5)
    options = ["--stage", "fuse", "--depth", "0", "--width", "8.5"]
    assert main(["show", str(MODEL), *options, "-o", str(tmp_path / "command.pdf")]) == 0
    content = (tmp_path / "view.pdf").read_bytes()
    assert content == (tmp_path / "command.pdf").read_bytes()
    assert b"/Subtype /Image" not in content
    document = pypdfium2.PdfDocument(content)
    assert len(document) == 1
    wide, high = document[0].get_size()
    assert wide <= 8.5 / 2.54 * 72 + 0.01
    assert high <= 24 / 2.54 * 72
    assert "residual" in document[0].get_textpage().get_text_range()
    darkest, brightest = document[0].render(scale=2).to_pil().convert("L").getextrema()
    assert darkest < 64 < 250 < brightest
