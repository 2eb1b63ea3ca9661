"""Planner terms have tooltips, and the canvas shows how to begin."""

from dataclasses import replace

import pytest
from playwright.sync_api import expect

from explorer.record.glossary import GLOSSARY, inflections
from tests.browser.player import node, press
from tests.golden.programs import recorded
from tests.view import sample

pytestmark = pytest.mark.browser


@pytest.mark.spec("V-2", "V-13")
def test_a_term_is_explained_on_hover_and_on_focus(show):
    """Each term of a sentence is explained once, for pointer, keyboard and screen reader."""
    recording = sample.resnet()
    fused = next(number for number, row in enumerate(recording.decisions) if "fused" in row.reason)
    view = show(recording, position=fused + 1)
    term = view.locator(".ex-say .ex-term").filter(has_text="fused")
    expect(term).to_have_count(1)
    expect(term).to_have_attribute("aria-label", f"fused: {GLOSSARY['fused']}")
    tip = view.get_by_role("tooltip")
    for begin, end in (("focus", "blur"), ("mouseenter", "mouseleave")):
        expect(tip).to_have_count(0)
        term.dispatch_event(begin)
        expect(tip).to_have_text(f"fused: {GLOSSARY['fused']}")
        term.dispatch_event(end)
    expect(tip).to_have_count(0)
    term.hover()
    expect(tip).to_be_visible()


@pytest.mark.spec("V-2")
def test_labels_have_tips_and_what_the_user_wrote_has_none(show):
    """Terms are explained in labels of facts, counts and kernels, also capitalized, but not in the user's title."""
    recording = recorded("perceptron")
    recording.title = "batch and kernel"
    view = show(recording, position=0)
    expect(view.locator(".ex-say")).to_contain_text("batch and kernel")
    expect(view.locator(".ex-say .ex-term").filter(has_text="batch")).to_have_count(0)
    labels = view.locator(".ex-facts dt .ex-term")
    expect(labels.filter(has_text="flops").last).to_have_attribute("aria-label", f"flops: {GLOSSARY['flops']}")
    view = show(sample.mlp())
    node(view, "tanh").click()
    labels = view.locator(".ex-facts dt .ex-term")
    expect(labels.filter(has_text="level")).to_have_attribute("aria-label", f"level: {GLOSSARY['level']}")
    decision = recording.explanations[0] = replace(recording.explanations[0], meaning="Fusion is what a Batch is not.")
    keys = [(row.code, row.reason) for row in recording.decisions]
    number = keys.index((decision.code, decision.reason))
    view = show(recording, position=number + 1)
    meaning = view.locator(".ex-why .ex-explained").first
    meaning.locator("summary").click()
    for term in ("Fusion", "Batch"):
        expect(meaning.locator(".ex-term").filter(has_text=term)).to_be_visible()


@pytest.mark.spec("V-1")
def test_the_canvas_says_how_to_begin_until_somebody_has(show):
    """A hint next to the buttons names the step key; the first step removes it."""
    view = show(sample.mlp(), position=0)
    hint = view.locator(".ex-hint")
    expect(hint).to_have_text("press . to step")
    press(view, ".")
    expect(hint).to_be_hidden()
    press(view, "Home")
    expect(hint).to_be_hidden()


@pytest.mark.spec("V-2")
def test_a_comma_stays_on_the_line_of_the_link_before_it(show):
    """Lines break after a button, so a link is kept together with the punctuation after it."""
    recording = recorded("perceptron")
    view = show(recording, position=0)
    torn = """(view) => [...view.querySelectorAll(":not(.ex-tied) > .ex-link")].filter(({ nextSibling: next }) =>
        next?.nodeType === Node.TEXT_NODE && /^[,.;:)]/.test(next.data)).map((link) => link.textContent)"""
    count = 0
    for _ in range(len(recording.decisions)):
        press(view, ".")
        assert view.evaluate(torn) == []
        count += view.locator(".ex-tied").count()
    assert count > 5


PLACES = ".ex-why :is(h5, dt, th[scope=col], .ex-card-head b), .ex-cost, .ex-sentence"
UNEXPLAINED = """(view, [places, forms]) => {
    const terms = new Map(forms), known = new Set(), missed = new Set();
    for (const term of view.querySelectorAll(".ex-term")) known.add(term.getAttribute("aria-label"));
    const order = [...terms.keys()].sort((one, other) => other.length - one.length);
    const word = new RegExp(`(?<![\\\\p{L}\\\\p{N}_-])(${order.join("|")})(?![\\\\p{L}\\\\p{N}_-])`, "gu");
    for (const place of view.querySelectorAll(places)) {
        const walker = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
        for (let text = walker.nextNode(); text; text = walker.nextNode()) {
            if (text.parentElement.closest("code, button, .ex-term, .ex-attributes")) continue;
            for (const [found] of text.data.matchAll(word)) if (!known.has(terms.get(found))) missed.add(found);
        }
    }
    return [[...missed], known.size];
}"""


@pytest.mark.spec("V-2")
def test_no_term_of_a_heading_a_label_or_a_sentence_stands_unexplained(show):
    """At every stage, and for every kind of selection, each visible term is explained."""
    forms = [[form, f"{term}: {text}"] for term, text in GLOSSARY.items() for form in inflections(term)]
    recording = sample.mlp()
    view = show(recording, position=0)
    explained = 0
    for selected in ("", "tanh", "log-softmax"):
        press(view, "Home")
        if selected:
            view.page.evaluate(
                "number => { location.hash = `stage=fuse&node=${number}` }", recording.nodes.label.index(selected)
            )
            expect(view.locator(".ex-why h4")).to_have_text(selected)
        for key in ["]"] * len(recording.stages) + [","] * 4:
            missed, count = view.evaluate(UNEXPLAINED, [PLACES, forms])
            assert missed == [], (selected, view.locator(".ex-say").inner_text())
            explained += count
            press(view, key)
    assert explained > 100


@pytest.mark.spec("V-2")
def test_the_name_of_a_rule_that_is_a_term_is_explained(show):
    """Epilogue and Prologue are explained as titles of decisions."""
    recording = sample.resnet()
    number = next(index for index, row in enumerate(recording.decisions) if row.rule == "Epilogue")
    view = show(recording, position=number + 1)
    title = view.locator(".ex-why h4 .ex-term")
    expect(title).to_have_attribute("aria-label", f"epilogue: {GLOSSARY['epilogue']}")
