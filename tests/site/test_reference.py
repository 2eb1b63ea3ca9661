"""Reference pages of the documentation site: every public name and command has a page."""

from __future__ import annotations

from collections import Counter

import pytest

import explorer as ex
from assets.documentation import reference
from assets.documentation.docstrings import as_rst
from explorer.cli.main import COMMANDS
from tests.laws.occasions import Aloud


def _of_tests() -> list[str]:
    """Return the names of operations that other tests have defined."""
    return [name for name in dir(ex.ops) if not getattr(ex.ops, name).__module__.startswith("explorer.")]


@pytest.mark.spec("H-10")
def test_every_public_name_has_one_page() -> None:
    """The pages of the reference document each public name of `ex` and of its packages once."""
    pages = reference.pages()
    documented = Counter(member for page in pages for member in page.members)
    assert set(documented.values()) == {1}
    names = {f"explorer.{name}" for name in {*dir(ex)} - {*ex._PACKAGES, "__version__"} - {*_of_tests()}}
    for package in {*ex._PACKAGES} - {"ops"}:
        names |= {f"explorer.{package}.{name}" for name in reference.exported(getattr(ex, package))}
    assert {*documented} >= names
    assert not [page for page in pages if not page.members]
    assert len({page.name for page in pages}) == len(pages)


def test_an_operation_of_the_user_has_no_page() -> None:
    assert Aloud.__name__.lower() in dir(ex)
    assert "explorer.aloud" not in [member for page in reference.pages() for member in page.members]


def test_a_public_name_without_a_page_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ex._MODULES, "tensor", "unknown.package")
    with pytest.raises(KeyError, match=r"no page of GROUPS .* documents explorer\.tensor"):
        reference.pages()
    monkeypatch.setattr(ex, "_PACKAGES", (*ex._PACKAGES, "tensor"))
    with pytest.raises(KeyError, match=r"no page for explorer\.tensor"):
        reference.pages()


def test_the_sources_contain_every_name_and_command() -> None:
    sources = reference.sources()
    for page in reference.pages():
        source = sources[f"{page.name}.rst"]
        for member in page.members:
            assert f":: {member}\n" in source or f":: {member}(" in source
    assert "The same class as :py:class:`explorer.Minor`." in sources["layers.rst"]
    assert "``limit: int = 500000``\n   maximum number of nodes" in sources["options.rst"]
    for command in COMMANDS:
        assert f"\n## explorer {command}\n\n```text\nusage: explorer {command} " in sources["commands.md"]


def test_docstrings_are_converted() -> None:
    """Characters with a meaning in reStructuredText are escaped, except in literals and examples."""
    given = [
        "Compute |x|, *args and ``*kept`` for `a` and c_.", "", "    code(*x)", "", ">>> f(*x)", "2", "",
        "Shapes    (2,) → (*s,);", "          more", "Laws      linear", "", "- one", "  two", "- three",
    ]  # fmt: skip
    assert as_rst(given) == [
        r"Compute \|x\|, \*args and ``*kept`` for ``a`` and c\_.", "", "::", "", "    code(*x)", "", ">>> f(*x)",
        "2", "", r":Shapes: (2,) → (\*s,); more", ":Laws: linear", "", "- one", "  two", "- three", "",
    ]  # fmt: skip
