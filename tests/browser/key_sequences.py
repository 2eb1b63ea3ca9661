"""Random sequences of keys on views: what must hold after each of them, and how a failing one is shrunk and replayed.

A sequence begins at a part of a view, which receives the focus, and presses keys. A run of sequences is plain data,
``[[view, start, [key, …]], …]``, so that a failing run can be printed, shrunk and replayed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from playwright.sync_api import Page

from tests.browser.pages import Watch
from tests.browser.player import drawn

T = TypeVar("T")
Turn = tuple[int, str, list[str]]
"""index of a view, the part that receives the focus (of ``STARTS``), and keys"""

LENGTH = 8
"""keys of a sequence"""

STARTS = {
    "canvas": "[data-key][tabindex='0']",
    "tools": ".ex-top .ex-tools button[tabindex='0']",
    "more": ".ex-tools > [aria-haspopup]",
    "stages": ".ex-rail [aria-current]",
    "steps": ".ex-transport button[tabindex='0']",
    "speed": ".ex-speed",
    "moment": ".ex-strip input",
    "heat": ".ex-heat-choice",
    "decision": ".ex-decisions button[tabindex='0']",
    "filter": ".ex-filter input[type=search]",
    "link": ".ex-why .ex-link",
    "border": ".ex-splitter[tabindex='0']",
    "tree": ".ex-tree [tabindex='0']",
    "source": ".ex-listing button[tabindex='0']",
    "search": ".ex-search input",
}
"""parts that a sequence begins at; the canvas stands in for a part that is not shown"""

NAMES = {"↑": "ArrowUp", "↓": "ArrowDown", "←": "ArrowLeft", "→": "ArrowRight", "−": "-", "Esc": "Escape"}
"""keys as the help writes them → as a browser names them"""
NOT_KEYS = {"drag", "Ctrl", "wheel"}
EVERYWHERE = ("Tab", "Shift+Tab", " ", "Shift+N", "Shift+F")
LAB = ("a", "b", "x", "z", "j", "k", "v", "o", "Backspace")
"""keys of JupyterLab's command mode that views do not use"""
MOVES = frozenset({"Tab", "Shift+Tab"})

SHOWN = """([index, selector]) => {
    const view = document.querySelectorAll(".explorer-view")[index];
    const isShown = (each) => each.checkVisibility({ visibilityProperty: true });
    const wanted = [...view.querySelectorAll(selector)].find(isShown);
    (wanted ?? view.querySelector("[data-key][tabindex='0']")).focus({ preventScroll: true });
    return view.contains(document.activeElement);
}"""
# The suppression of JupyterLab's keys and the corners of the minimap and legend do not belong to a view's state.
STATE = """(view) => {
    const copy = view.cloneNode(true);
    for (const each of copy.querySelectorAll(".ex-minimap, .ex-pointed")) each.remove();
    copy.querySelector(".ex-legend").classList.remove("ex-leftmost", "ex-topmost", "ex-covering");
    for (const each of [copy, ...copy.querySelectorAll("*")]) each.removeAttribute("data-lm-suppress-shortcuts");
    const fields = [...view.querySelectorAll("input, select")].map((each) => each.value);
    const menus = [...view.querySelectorAll("[popover]")].map((each) => each.matches(":popover-open"));
    return JSON.stringify([fields, menus]) + copy.outerHTML;
}"""
REMEMBER = f"""(index) => {{
    const views = [...document.querySelectorAll(".explorer-view")];
    window.kept = views.map((view, each) => (each === index ? "" : ({STATE})(view)));
}}"""
CHANGED = f"""(index) => {{
    const views = [...document.querySelectorAll(".explorer-view")];
    for (const [each, view] of views.entries()) {{
        const [before, now] = [window.kept[each], ({STATE})(view)];
        if (each === index || before === now) continue;
        let at = 0;
        while (before[at] === now[at]) at++;
        const [was, is] = [before, now].map((state) => state.slice(Math.max(0, at - 80), at + 80));
        return `view ${{each}}: …${{was}}… is now …${{is}}…`;
    }}
    return "";
}}"""
FOCUS = """(index) => {
    const view = document.querySelectorAll(".explorer-view")[index];
    const { activeElement } = document;
    if (!view) return "the view has left the page";
    return view.contains(activeElement) ? "" : `${activeElement?.tagName} ${activeElement?.className}`;
}"""
# The step, its number of steps, and whether a part is open that Escape closes.
STEP = """(index) => {
    const view = document.querySelectorAll(".explorer-view")[index];
    const { value, max } = view.querySelector(".ex-strip input");
    const open = [".ex-help", ".ex-search"].some((part) => !view.querySelector(part).hidden);
    return [Number(value), Number(max), open || view.querySelector(":popover-open") !== null];
}"""
# Stop playing, which the next sequences would not expect, and leave the full screen, which a browser does by Escape.
STOP = """async (index) => {
    document.querySelectorAll(".explorer-view")[index].querySelector(".ex-transport [aria-label^=pause]")?.click();
    if (document.fullscreenElement) await document.exitFullscreen();
}"""


@dataclass
class Keys:
    """Player of sequences on a page; ``outside`` returns the state of everything around the views."""

    page: Page
    watch: Watch
    fresh: Callable[[], None]
    """shows the views anew, in their first state"""
    outside: Callable[[], Any] = lambda: None
    settle: Callable[[], None] = lambda: None
    """waits until answers to the keys have arrived"""
    played: list[Turn] = field(default_factory=list)
    """the turns since the views were shown anew"""

    def documented(self) -> list[str]:
        """Return the keys that the help of the first view lists."""
        listed = self.page.locator(".explorer-view").first.locator(".ex-help kbd").all_text_contents()
        return sorted({NAMES.get(key, key) for key in listed} - NOT_KEYS)

    def turns(self, seed: int, count: int, extra: Sequence[str] = LAB) -> list[Turn]:
        """Return random sequences of the documented keys, keys that move the focus, and other keys."""
        pick = random.Random(seed)
        views = self.page.locator(".explorer-view").count()
        known = self.documented()
        keys = [*known, *known, *known, *EVERYWHERE, *EVERYWHERE, "Tab", "Enter", "Escape", *extra]
        starts = [*["canvas"] * len(STARTS), *STARTS]
        return [
            (pick.randrange(views), pick.choice(starts), [pick.choice(keys) for _ in range(LENGTH)])
            for _ in range(count)
        ]

    def play(self, turn: Turn) -> str:
        """Press the keys of a sequence; return what is wrong then, "" if nothing."""
        index, start, keys = turn
        self.played.append(turn)
        errors = len(self.watch.errors)
        if not self.page.evaluate(SHOWN, [index, STARTS[start]]):
            return f"{start} cannot be focused"
        drawn(self.page)
        self.page.evaluate(REMEMBER, index)
        outside = self.outside()
        for number, key in enumerate(keys):
            self.page.keyboard.press(key)
            if lost := self.page.evaluate(FOCUS, index):
                if key not in MOVES:
                    return f"after {keys[: number + 1]} the focus is at {lost}"
                # Tab has left the view, as it may.
                self.page.evaluate(SHOWN, [index, STARTS["canvas"]])
        return self._wrong(index, outside, errors)

    def _wrong(self, index: int, outside: Any, errors: int) -> str:
        self.settle()
        drawn(self.page)
        for _ in range(5):
            self.page.keyboard.press("Escape")
        self.page.evaluate(STOP, index)
        drawn(self.page)
        if lost := self.page.evaluate(FOCUS, index):
            return f"after Escape the focus is at {lost}"
        step, last, is_open = self.page.evaluate(STEP, index)
        if is_open:
            return "Escape left a part open"
        if step == last:
            self.page.keyboard.press("[")
            step, *_ = self.page.evaluate(STEP, index)
        self.page.keyboard.press(".")
        after, *_ = self.page.evaluate(STEP, index)
        if after <= step and last:
            return f"the key . leaves step {step} of {last} at {after}"
        self.settle()
        drawn(self.page)
        if lost := self.page.evaluate(FOCUS, index):
            return f"after the key . the focus is at {lost}"
        if other := self.page.evaluate(CHANGED, index):
            return f"another view changed: {other}"
        if (around := self.outside()) != outside:
            return f"keys left the view: {outside} is now {around}"
        return "; ".join(self.watch.errors[errors:])

    def again(self, turns: list[Turn]) -> str:
        """Play sequences on views shown anew; return what is wrong after the first that fails."""
        self.fresh()
        self.played = []
        return next(filter(None, map(self.play, turns)), "")

    def shrink(self, turns: list[Turn]) -> list[Turn]:
        """Return as few sequences and keys as possible after which something is still wrong."""
        size = 1
        while size < len(turns) and not self.again(turns[-size:]):
            size *= 2
        turns = turns[-size:]
        if not self.again(turns):
            return turns  # it does not happen again
        turns = _fewer(turns, lambda fewer: bool(self.again(fewer)))
        for number, (index, start, keys) in enumerate(turns):

            def fails(fewer: list[str], number: int = number, index: int = index, start: str = start) -> bool:
                return bool(self.again([*turns[:number], (index, start, fewer), *turns[number + 1 :]]))

            turns[number] = (index, start, _fewer(keys, fails))
        return turns

    def check(self, turns: list[Turn]) -> None:
        """Play sequences one after the other; if one fails, fail with the shrunk run."""
        for turn in turns:
            if wrong := self.play(turn):
                shrunk = self.shrink(self.played)
                raise AssertionError(f"{wrong}\nEXPLORER_SOAK_KEYS_REPLAY='{json.dumps(shrunk)}'\n{self.again(shrunk)}")


def _fewer(parts: list[T], fails: Callable[[list[T]], bool]) -> list[T]:
    """Return a part of a list that still fails and of which no element can be left out."""
    size = len(parts) // 2
    while size:
        at = 0
        while at < len(parts):
            fewer = parts[:at] + parts[at + size :]
            if fails(fewer):
                parts = fewer
            else:
                at += size
        size //= 2
    return parts
