"""Colours have one source, and texts in them are legible."""

from __future__ import annotations

import re

import pytest

from explorer.view.base import palette
from explorer.view.payload.script_bundle import STATIC, stylesheet


def _luminance(colour: str) -> float:
    """Return the relative luminance of WCAG 2."""
    fractions = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in fractions)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _front_end(selector: str) -> dict[str, str]:
    """Return the colours of a theme in the front end's CSS."""
    (block,) = re.findall(re.escape(selector) + r"\{([^}]*)\}", palette.front_end_colours())
    return dict(re.findall(r"--ex-([\w-]+):(#[0-9a-f]{6})", block))


THEMES = {"light": _front_end(".explorer-view"), "dark": _front_end('.explorer-view[data-theme="dark"]')}


@pytest.mark.spec("V-14")
def test_the_front_end_defines_no_colours() -> None:
    """Style sheets only refer to colours, each of which is defined in both themes as in pictures."""
    own = "".join(path.read_text(encoding="utf-8") for path in STATIC.rglob("*.css"))
    assert re.findall(r"#[0-9a-fA-F]{6}\b", own) == []
    assert not any(name in own for name in (f"--ex-{colour}:" for colour in THEMES["light"] if colour != "bg"))
    defined = set(re.findall(r"(--ex-[\w-]+)\s*:", stylesheet())) | {
        "--ex-share",
        "--ex-height",
        "--ex-least",
        "--ex-aside",
        "--ex-over",
        "--ex-far-name",
        "--ex-below",
        "--ex-hue",
        "--ex-indent",
        "--ex-level",
        "--ex-listing",
        "--ex-listing-above",
        "--ex-tree",
        "--ex-said",
        "--ex-counts",
    }  # set by scripts
    assert set(re.findall(r"var\((--ex-[\w-]+)", stylesheet())) <= defined
    assert THEMES["light"].items() >= palette.LIGHT.items()
    assert THEMES["dark"].items() >= palette.DARK.items()
    assert THEMES["light"].keys() == THEMES["dark"].keys()


@pytest.mark.spec("V-14")
@pytest.mark.parametrize("theme", THEMES)
def test_texts_contrast_with_their_backgrounds(theme: str) -> None:
    """The contrast of WCAG 2 is at least 4.5 for texts, and 3 for the lines of ghosts."""
    colours = THEMES[theme]

    def contrast(text: str, ground: str) -> float:
        return _contrast(colours[text], colours[ground])

    weak = {
        (text, ground): round(contrast(text, ground), 2)
        for text in ("ink", "soft", "accent", "new", "warn", "bad", "fuse")
        for ground in ("bg", "panel")
        if contrast(text, ground) < 4.5
    }
    assert weak.keys() <= {("accent", "panel")}, weak
    assert min(contrast("accent", "panel"), contrast("on", "accent")) > 4.2
    assert contrast("ghost", "bg") > 3


@pytest.mark.spec("V-14")
def test_ghosts_of_a_static_picture_are_dashed_not_faint() -> None:
    """Texts of ghosts have a text colour; dashed borders show that the nodes are removed."""
    rules = dict(re.findall(r"#p ([^{}]+)\{([^}]*)\}", palette.stylesheet("p", "light")))
    assert rules[".ghost text"] == "fill:var(--soft)"
    assert "stroke-dasharray" in rules[".ghost rect"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_are_readable_on_the_colour_of_every_source_line(theme: str) -> None:
    """The front end has the right number of colours; a node's background is mixed with a fraction of one."""
    colours = THEMES[theme]
    lines = [colour for name, colour in colours.items() if re.fullmatch(r"line-[0-9]", name)]
    (hues,) = re.findall(r"HUES = ([0-9]+);", (STATIC / "data" / "source_lines.js").read_text(encoding="utf-8"))
    (tint,) = re.findall(r"TINT = ([0-9.]+);", (STATIC / "scene" / "heat.js").read_text(encoding="utf-8"))
    assert len(set(lines)) == int(hues)
    for colour in lines:
        assert _contrast(colours["ink"], _mixed(colour, colours["node"], float(tint))) >= 4.5
        assert _contrast(colour, colours["panel"]) >= 3


def _mixed(colour: str, ground: str, share: float) -> str:
    pairs = [(int(colour[start : start + 2], 16), int(ground[start : start + 2], 16)) for start in (1, 3, 5)]
    return "#" + "".join(f"{round(share * over + (1 - share) * under):02x}" for over, under in pairs)


def _contrast(one: str, other: str) -> float:
    """Return the contrast of WCAG 2."""
    low, high = sorted([_luminance(one), _luminance(other)])
    return (high + 0.05) / (low + 0.05)
