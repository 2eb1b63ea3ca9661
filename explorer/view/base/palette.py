"""Colours of every view, light and dark, for static pictures, pages and the front end."""

from __future__ import annotations

from typing import Literal, TypeAlias

from explorer.view.base.font import FAMILY

LIGHT = {
    "bg": "#ffffff", "ink": "#1d2433", "soft": "#5b6577", "line": "#d9deea", "edge": "#8f9aad", "panel": "#f8f9fc",
    "accent": "#2563d9", "on": "#ffffff", "leaf": "#eef1f6", "node": "#ffffff", "fuse": "#7a4fd0", "fused": "#f3eefc",
    "ghost": "#7d889b",
}  # fmt: skip
DARK = {
    "bg": "#11151d", "ink": "#e6eaf2", "soft": "#a0aabb", "line": "#323a4b", "edge": "#69758a", "panel": "#171c26",
    "accent": "#7aa5ff", "on": "#0b1020", "leaf": "#1f2633", "node": "#161b25", "fuse": "#b79bff", "fused": "#231c38",
    "ghost": "#8490a3",
}  # fmt: skip

_VERDICTS_LIGHT = {
    "new": "#0f7a55", "new-bg": "#e8f6ef", "bad": "#b42318", "bad-bg": "#fdeceb", "warn": "#a8480a",
    "warn-bg": "#fff5e9",
}  # fmt: skip
_VERDICTS_DARK = {
    "new": "#4fd1a1", "new-bg": "#12302a", "bad": "#ff8a7a", "bad-bg": "#35191a", "warn": "#f5b26b",
    "warn-bg": "#2c2014",
}  # fmt: skip
"""colours of decisions and differences: added, removed or wrong, and changed"""

FAMILIES = {
    "product": "a matrix product or a convolution", "elementwise": "an operation on each element",
    "normalization": "a normalization or softmax", "reduction": "a reduction or pooling",
    "movement": "a change of shape, type or order",
}  # fmt: skip
"""families of operations, which nodes show as a bar at their left side, with their meanings"""
_FAMILIES_LIGHT = {
    "product": "#5f82b5", "elementwise": "#74a3a6", "normalization": "#b57f97", "reduction": "#a89a5b",
    "movement": "#a3aab6",
}  # fmt: skip
_FAMILIES_DARK = {
    "product": "#7f9fce", "elementwise": "#6f9ea1", "normalization": "#b98aa0", "reduction": "#a99c66",
    "movement": "#6d7686",
}  # fmt: skip

_LINES_LIGHT = ("#2f6fdf", "#c4650c", "#13845f", "#b0307e", "#6d56d8", "#8a7000", "#0d8296", "#b53a32")
_LINES_DARK = ("#7ea8ff", "#f0a15c", "#52cfa0", "#f08cc6", "#b3a0ff", "#d8bf4a", "#57c8db", "#ff9185")
"""colours of source lines, used cyclically; static/data/source_lines.js contains their number"""


def _lines(colours: tuple[str, ...]) -> dict[str, str]:
    return {f"line-{number}": colour for number, colour in enumerate(colours)}


_FRONT_LIGHT = {
    **LIGHT,
    **_VERDICTS_LIGHT,
    **_FAMILIES_LIGHT,
    "accent-bg": "#eaf1fe",
    "heat": "#e2762b",
    "hot": "#f29a5c",
    "cold": "#8db4f7",
    **_lines(_LINES_LIGHT),
}
_FRONT_DARK = {
    **DARK,
    **_VERDICTS_DARK,
    **_FAMILIES_DARK,
    "accent-bg": "#1b2740",
    "heat": "#f0a05a",
    "hot": "#a04c14",
    "cold": "#2a53a8",
    **_lines(_LINES_DARK),
}


def front_end_colours() -> str:
    """Return the CSS that gives the front end its font and colours, as ``--ex-font`` and ``--ex-ink``."""
    light, dark = (
        _variables({f"ex-{name}": colour for name, colour in palette.items()})
        for palette in (_FRONT_LIGHT, _FRONT_DARK)
    )
    families = "".join(f".explorer-view .ex-family-{name}{{stroke:var(--ex-{name})}}" for name in FAMILIES)
    return f'.explorer-view{{--ex-font:{FAMILY};{light}}}\n.explorer-view[data-theme="dark"]{{{dark}}}\n{families}\n'


def page_colours(scope: str) -> str:
    """Return the CSS of a page's font and colours (``--font``, ``--ink`` …), light or dark like the system."""
    light, dark = map(_variables, (_FRONT_LIGHT, _FRONT_DARK))
    return f"{scope}{{--font:{FAMILY};{light}}}@media (prefers-color-scheme:dark){{{scope}{{{dark}}}}}\n"


RuleSet: TypeAlias = Literal["marks", "declined", "decided", "labels"]
"""optional rules for differences from another graph, edges whose fusion was declined, numbers of a stage's decisions,
and edge labels"""


def stylesheet(scope: str, theme: str, *further: RuleSet) -> str:
    """Return the CSS of a picture whose element has the id ``scope``; ``theme`` is "auto", "light" or "dark".

    ``further`` names rules that the picture needs in addition to the common ones.
    """
    at = f"#{scope}"
    light, dark = {**LIGHT, **_FAMILIES_LIGHT}, {**DARK, **_FAMILIES_DARK}
    if {"marks", "declined", "decided"} & {*further}:
        light, dark = {**light, **_VERDICTS_LIGHT}, {**dark, **_VERDICTS_DARK}
    rules = [f"{at}{{{_variables(dark if theme == 'dark' else light)}}}"]
    if theme == "auto":
        rules.append(f"@media (prefers-color-scheme:dark){{{at}{{{_variables(dark)}}}}}")
    rules += [f"{at} {rule}" for rule in (*_RULES, *(rule for name in further for rule in _FURTHER[name]))]
    return "".join(rules)


def page_style(theme: str) -> str:
    """Return the CSS of a page around a picture."""
    if theme == "auto":
        return f"{page_style('light')}@media (prefers-color-scheme:dark){{{page_style('dark')}}}"
    return f"body{{margin:12px;background:{(DARK if theme == 'dark' else LIGHT)['bg']}}}"


def _variables(palette: dict[str, str]) -> str:
    return ";".join(f"--{name}:{colour}" for name, colour in palette.items())


_RULES = (
    f"text{{font-family:{FAMILY};fill:var(--ink)}}",
    ".name{font-size:12px;font-weight:700;text-anchor:middle}",
    ".type{font-size:10px;fill:var(--soft);text-anchor:middle}",
    ".number{paint-order:stroke;stroke:var(--bg);stroke-width:3px;stroke-linejoin:round;font-size:9.5px;fill:var(--soft);text-anchor:end}",
    ".title{paint-order:stroke;stroke:var(--panel);stroke-width:6px;stroke-linejoin:round;font-size:11px;font-weight:700;fill:var(--soft)}",
    ".fused{paint-order:stroke;stroke:var(--bg);stroke-width:6px;stroke-linejoin:round;font-size:11px;font-weight:700;fill:var(--fuse)}",
    "g text.copies{font-size:10px;font-weight:700;fill:var(--on);text-anchor:middle}",
    ".port{paint-order:stroke;stroke:var(--bg);stroke-width:3px;stroke-linejoin:round;font-size:9px;fill:var(--accent)}",
    ".canvas{fill:var(--bg)}",
    ".edge{fill:none;stroke:var(--edge);stroke-width:1.3}",
    ".gone{stroke:var(--ghost);stroke-dasharray:4 4;stroke-width:1.1;opacity:.7}",
    ".head{fill:var(--edge)}",
    ".family{fill:none;stroke-width:3.5;stroke-linecap:round}",
    *(f".family.{name}{{stroke:var(--{name})}}" for name in FAMILIES),
    ".leaf rect{fill:var(--leaf);stroke:var(--line)}",
    ".operation rect{fill:var(--node);stroke:var(--edge);stroke-width:1.2}",
    ".ghost rect{fill:var(--bg);stroke:var(--ghost);stroke-dasharray:4 4}",
    ".ghost text{fill:var(--soft)}",
    ".member rect{stroke:var(--fuse)}",
    ".kernel{fill:var(--fused);stroke:var(--fuse);stroke-width:1.6}",
    ".open{fill:var(--panel);stroke:var(--line)}",
    ".closed rect{fill:var(--panel);stroke:var(--edge);stroke-width:1.2}",
    ".closed.ghost rect{stroke:var(--ghost)}",
    "g rect.badge{fill:var(--accent);stroke:none}",
    ".output rect{stroke:var(--ink);stroke-width:1.8}",
    "g rect.mark{fill:var(--ink);stroke:none}",
    "g text.asked{font-size:9px;font-weight:700;fill:var(--bg);text-anchor:middle}",
)
_LABEL_RULES = (
    ".label{paint-order:stroke;stroke:var(--bg);stroke-width:3px;stroke-linejoin:round;font-size:9px;fill:var(--soft);text-anchor:middle}",
)
_DECLINED_RULES = (".edge .declined{stroke:var(--warn);stroke-width:2.2;stroke-linecap:round}",)
_DECIDED_RULES = (
    "g rect.decided{fill:var(--bg);stroke:var(--edge);stroke-width:1}",
    "g text.decided{font-size:10px;font-weight:700;text-anchor:middle}",
    "tspan.applied{fill:var(--new)}",
    "tspan.declined{fill:var(--warn)}",
)
_DIFFERENCE_RULES = (
    ".added{--apart:var(--new);--ground:var(--new-bg)}",
    ".removed{--apart:var(--bad);--ground:var(--bad-bg)}",
    ".changed{--apart:var(--warn);--ground:var(--warn-bg)}",
    ".rewired{--apart:var(--accent);--ground:var(--leaf)}",
    ".regrouped{--apart:var(--fuse);--ground:var(--fused)}",
    ":is(.added,.removed,.changed,.rewired,.regrouped) rect{fill:var(--ground);stroke:var(--apart);stroke-width:2}",
    "g rect.apart{fill:var(--apart,var(--ink));stroke:none}",
    "g text.apart{font-size:9px;font-weight:700;fill:var(--on);text-anchor:middle}",
    ".closed text.apart{fill:var(--bg)}",
    "g rect.badge{fill:var(--accent);stroke:none}",
    "g rect.mark{fill:var(--ink);stroke:none}",
)
_FURTHER: dict[RuleSet, tuple[str, ...]] = {
    "marks": _DIFFERENCE_RULES,
    "declined": _DECLINED_RULES,
    "decided": _DECIDED_RULES,
    "labels": _LABEL_RULES,
}
