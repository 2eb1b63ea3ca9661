"""Keys in random order: the focus is never lost, nothing throws, no key leaves its view, and every key still works."""

from __future__ import annotations

import json
import os
import re

import pytest
from playwright.sync_api import expect

from explorer.view.export.html_page import html
from tests.browser.key_sequences import Keys
from tests.golden.programs import recorded

pytestmark = [pytest.mark.browser, pytest.mark.spec("V-27")]

SEED = int(os.environ.get("EXPLORER_SOAK_KEYS_SEED", "1"))
COUNT = int(os.environ.get("EXPLORER_SOAK_KEYS", "500"))
REPLAY = os.environ.get("EXPLORER_SOAK_KEYS_REPLAY", "")

SMALL = """
import numpy as np
import explorer as ex
x = ex.tensor(np.ones((3, 4), np.float32), name="x")
h = ex.tanh(x * 2 + 1)
y = ex.softmax(h) + ex.exp(ex.log(h))
small = ex.explore(y, height=400)
small
"""
MEDIUM = """
def layer(x, w):
    return ex.tanh(x @ w)

value, weights = x, [ex.tensor(np.eye(4, dtype=np.float32), name=f"w{n}") for n in range(6)]
for n, w in enumerate(weights):
    with ex.scope(f"block{n // 3}"), ex.scope(f"layer{n}"):
        value = ex.function(layer)(value, w) if n == 3 else layer(value, w)
loss = value.sum()
plan = ex.EvalPlan()
plan.register(loss, *ex.grad(loss, weights))
plan.eval()
medium = plan.explore(height=400)
medium
"""
# Every message that the page sends to the kernel is remembered until the kernel is idle after it.
LISTEN = """() => {
    window.open = () => null;  // the tool that opens a tab
    const { kernel } = window.jupyterapp.shell.currentWidget.context.sessionContext.session;
    const waiting = (window.waiting = new Set());
    kernel.anyMessage.connect((_, { msg, direction }) => {
        if (direction === "send" && msg.channel === "shell") waiting.add(msg.header.msg_id);
        else if (msg.header.msg_type === "status" && msg.content.execution_state === "idle") waiting.delete(msg.parent_header.msg_id);
    });
}"""  # noqa: E501  (a line of JavaScript)
OUTSIDE = """() => {
    const { shell } = window.jupyterapp;
    const { content, context } = shell.currentWidget;
    const cells = content.model.sharedModel.cells.map((cell) => [cell.cell_type, cell.source, cell.metadata]);
    const parts = [".jp-Dialog", ".lm-CommandPalette", ".lm-Menu", ".jp-DocumentSearch-overlay"];
    const open = parts.filter((part) => [...document.querySelectorAll(part)].some((each) => each.checkVisibility()));
    return JSON.stringify([cells, content.mode, shell.leftCollapsed, open, context.path]);
}"""


def keys_of_lab(notebook, watch):
    """Return the player of keys on the views of a notebook, which are shown anew by running their cells again."""
    book = notebook(SMALL, MEDIUM)
    book.view(0), book.view(1)
    book.page.evaluate(LISTEN)

    def settle():
        book.page.wait_for_function("() => window.waiting.size === 0")

    def fresh():
        book.page.evaluate("() => localStorage.removeItem('explorer.sizes')")
        for cell in (0, 1):
            book.again(cell)
            book.view(cell)
        expect(book.page.locator(".explorer-view")).to_have_count(2)
        settle()

    return Keys(book.page, watch, fresh, lambda: book.page.evaluate(OUTSIDE), settle), book


@pytest.mark.soak
def test_keys_in_random_order_in_a_live_jupyterlab(notebook, watch):
    keys, book = keys_of_lab(notebook, watch)
    keys.check(json.loads(REPLAY) if REPLAY else keys.turns(SEED, COUNT))
    steps = book.page.locator(".ex-strip input").evaluate_all("all => all.map(({ value }) => Number(value))")
    book.says("print(small.step, medium.step)", f"{steps[0]} {steps[1]}\n")


class Fails(Keys):
    """Keys that fail once "x" has been pressed after "d", without a page."""

    def play(self, turn):
        self.played.append(turn)
        pressed = "".join(key for _, _, keys in self.played for key in keys)
        return "wrong" if "x" in pressed[pressed.find("d") :] and "d" in pressed else ""


def test_a_failing_run_is_shrunk_to_the_keys_that_matter():
    turns = [(0, "canvas", list(keys)) for keys in ("abc", "xda", "bcb", "aax")]
    with pytest.raises(AssertionError, match=re.escape("""REPLAY='[[0, "canvas", ["d"]], [0, "canvas", ["x"]]]'""")):
        Fails(None, None, lambda: None).check(turns)


def test_keys_in_random_order_on_a_page(page, watch, tmp_path):
    (tmp_path / "page.html").write_text(html(recorded("perceptron")), encoding="utf-8")

    def fresh():
        page.goto((tmp_path / "page.html").as_uri())
        page.evaluate("() => localStorage.clear()")
        page.reload()
        expect(page.locator(".ex-stage")).to_be_visible()

    fresh()
    keys = Keys(page, watch, fresh)
    keys.check(json.loads(REPLAY) if REPLAY else keys.turns(SEED, 40))
