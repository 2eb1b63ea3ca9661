"""The rows of decisions in the panel: pressed rows stay, filters are shown, reasons are complete."""

import pytest
from playwright.sync_api import Locator, expect

from explorer.record import Recording
from tests.browser.player import press, resize
from tests.support.representatives import representatives
from tests.view import sample

pytestmark = pytest.mark.browser

ROWS = ".ex-decisions [data-decision]"


@pytest.fixture(scope="module")
def resnet() -> Recording:
    """Return the plan of a file with twenty-two fused kernels."""
    return sample.resnet()


def show_panel(view):
    """Open the drawer of a narrow view."""
    if not view.locator(".ex-why").is_visible():
        press(view, "w")


def open_stage(view: Locator, name: str) -> None:
    view.page.evaluate("name => { location.hash = `stage=${name}` }", name)
    expect(view.locator(".ex-rail [aria-current] b")).to_have_text(name)


def numbers(view: Locator) -> list[str]:
    """Return the decisions of the rows, from first to last."""
    return view.locator(ROWS).evaluate_all("rows => rows.map((row) => row.dataset.decision)")


def top(row: Locator) -> float:
    place = row.bounding_box()
    assert place is not None
    return place["y"]


def press_in_sight(view: Locator, decision: str, at: float) -> float:
    """Scroll a row to a fraction of the panel's height and press it; return its px from the top of the page."""
    row = view.locator(f"{ROWS[:-1]}='{decision}']")
    panel = view.locator(".ex-why")
    panel.evaluate(
        """(panel, [decision, at]) => {
            const row = panel.querySelector(`.ex-decisions [data-decision="${decision}"]`);
            const away = row.getBoundingClientRect().top - panel.getBoundingClientRect().top;
            panel.scrollTop += away - at * panel.clientHeight;
        }""",
        [decision, at],
    )
    row.scroll_into_view_if_needed()
    before = top(row)
    row.click()
    expect(row).to_have_attribute("aria-current", "step")
    return before


@pytest.mark.spec("V-2", "V-23")
@pytest.mark.parametrize("wide", representatives([600, 1000, 1440], [600]))
def test_a_row_that_is_pressed_stays_under_the_pointer_and_the_others_around_it(show, resnet, wide):
    """A pressed row keeps its position on the page, and the list its rows and order, also for the whole plan."""
    view = show(resnet, position=0)
    resize(view.page, wide)
    show_panel(view)
    for name in ("fuse", "recorded"):
        open_stage(view, name)
        listed = numbers(view)
        for place, at in ((1, 0.2), (4, 0.5), (9, 0.7), (0, 0.4)):
            row = view.locator(f"{ROWS[:-1]}='{listed[place]}']")
            before = press_in_sight(view, listed[place], at)
            assert abs(top(row) - before) < 1.5, (name, place)
            opened = numbers(view)
            assert [number for number in opened if number in listed] == listed
    heading = view.locator(".ex-why h5").filter(has_text="the whole plan")
    expect(heading).to_have_count(1)
    press(view, "]")
    expect(heading).to_have_count(0)


@pytest.mark.spec("V-2", "V-23")
def test_the_places_of_folded_decisions_keep_their_order(show, resnet):
    """Any of several decisions with one reason can be pressed, and their order does not change."""
    view = show(resnet, position=0)
    open_stage(view, "fuse")
    first = numbers(view)[0]
    press_in_sight(view, first, 0.4)
    places = numbers(view)[:5]
    assert len(set(places)) == 5
    for number in (places[3], places[1]):
        row = view.locator(f"{ROWS[:-1]}='{number}']")
        before = press_in_sight(view, number, 0.5)
        assert abs(top(row) - before) < 1.5
        assert numbers(view)[:5] == places


@pytest.mark.spec("V-2", "V-6")
def test_a_decision_about_a_node_stays_in_the_nodes_list(show, resnet):
    """A node's list has every decision about it, including those shown above it, so that a pressed row stays."""
    view = show(resnet)
    press(view, "f")
    view.page.evaluate("location.hash = 'stage=fuse'")
    about = max(range(len(resnet.nodes)), key=lambda n: sum(n in row.subjects for row in resnet.decisions))
    view.page.evaluate("about => { location.hash = `stage=recorded&node=${about}` }", about)
    expect(view.locator(".ex-why h4")).to_have_text("nn.ReLU")
    listed = numbers(view)
    assert len(listed) >= 3
    for number in (listed[-1], listed[1]):
        row = view.locator(f"{ROWS[:-1]}='{number}']")
        before = press_in_sight(view, number, 0.6)
        assert abs(top(row) - before) < 1.5
        assert numbers(view) == listed


@pytest.mark.spec("V-23")
def test_a_pressed_row_keeps_the_focus(show, resnet):
    view = show(resnet, position=0)
    open_stage(view, "fuse")
    row = view.locator(ROWS).nth(2)
    row.focus()
    number = row.get_attribute("data-decision")
    view.page.keyboard.press("Enter")
    expect(view.locator(f"{ROWS[:-1]}='{number}']")).to_be_focused()
    view.page.keyboard.press("ArrowDown")
    view.page.keyboard.press("Enter")
    expect(view.locator(".ex-decisions [aria-current]")).to_be_focused()


@pytest.mark.spec("V-23")
def test_a_filter_says_what_it_leaves_out_and_goes_with_one_click(show, resnet):
    """A filter stays active in all stages and is shown with its counts; one button clears it."""
    view = show(resnet, position=0)
    open_stage(view, "fuse")
    element = view.locator(".ex-filtered")
    expect(element).to_be_hidden()
    view.get_by_role("button", name="✗ declined").click()
    expect(element).to_have_text("filter ✗ declined: 8 of 30 · show all")
    open_stage(view, "buffers")
    buffers = next(stage for stage in resnet.stages if stage.name == "buffers")
    count = buffers.last - buffers.first
    expect(element).to_have_text(f"filter ✗ declined: 0 of {count} · show all")
    view.get_by_role("searchbox", name="filter decisions").fill("memory")
    expect(element).to_contain_text("filter ✗ declined, “memory”: 0 of")
    element.get_by_role("button", name="show all").click()
    expect(element).to_be_hidden()
    expect(view.get_by_role("searchbox", name="filter decisions")).to_be_focused()
    assert len(numbers(view)) > 1


@pytest.mark.spec("V-23")
@pytest.mark.parametrize("wide", [600, 1000])
def test_a_row_has_its_whole_place_and_its_whole_reason(show, resnet, wide):
    """Neither the location nor the reason of a decision is cut; long ones wrap."""
    view = show(resnet, position=0)
    resize(view.page, wide)
    show_panel(view)
    open_stage(view, "fuse")
    if wide == 1000:
        view.locator(".ex-why").evaluate(
            "panel => { panel.closest('.explorer-view').style.setProperty('--ex-aside', '260px') }"
        )
    cut = """rows => rows.flatMap((row) => [...row.querySelectorAll("span, b")]).filter((part) => {
        const isWide = part.scrollWidth > part.clientWidth + 1;
        return part.clientWidth > 0 && (isWide || part.scrollHeight > part.clientHeight + 1);
    }).map((part) => part.textContent)"""
    assert view.locator(ROWS).evaluate_all(cut) == []
    lines = view.locator(f"{ROWS} .ex-at").evaluate_all(
        "heads => heads.map((head) => head.getBoundingClientRect().height)"
    )
    assert (max(lines) > 24) == (wide == 1000)


@pytest.mark.spec("V-13")
def test_the_sentence_of_every_decision_is_in_sight_at_600_px(show, resnet):
    """The sentence's room grows with the longest sentence so far, and is reset when the width changes."""
    view = show(resnet, position=0)
    say = view.locator(".ex-say")
    heights = []
    for wide in (600, 1000):
        resize(view.page, wide)
        open_stage(view, "fuse")
        for _ in range(4):
            press(view, ".")
            expect(say).not_to_have_attribute("tabindex", "0")
            assert say.evaluate("say => say.scrollHeight <= say.clientHeight")
        heights.append(say.evaluate("say => say.offsetHeight"))
    assert heights[0] > heights[1]


def test_rows_stay_from_step_to_step(show, resnet):
    """A step creates no row again; only the row's mark of the moment changes."""
    view = show(resnet)
    open_stage(view, "fuse")
    press(view, ".")
    view.locator(ROWS).evaluate_all("rows => rows.forEach((row) => (row.marked = true))")
    present = view.locator(f"{ROWS}[aria-current=step]")
    before = present.get_attribute("data-decision")
    press(view, ".")
    expect(present).not_to_have_attribute("data-decision", before)
    expect(present).to_have_count(1)
    expect(view.locator(".ex-decisions .ex-now")).to_have_count(1)
    marked = view.locator(ROWS).evaluate_all("rows => rows.filter((row) => row.marked).length")
    assert marked >= view.locator(ROWS).count() - 12


@pytest.mark.spec("V-13")
def test_a_stage_with_one_decision_lists_it(show) -> None:
    """The panel lists its sentence before it is reached; then the panel shows it in full and does not list it."""
    recording = sample.mlp()
    stage = next(each for each in recording.stages if each.last - each.first == 1)
    view = show(recording)
    open_stage(view, stage.name.replace("_", " "))
    expect(view.locator(ROWS)).to_have_count(1)
    sentence = recording.reason(recording.decisions[stage.first]).replace("`", "")
    expect(view.locator(ROWS)).to_contain_text(sentence)
    expect(view.get_by_role("searchbox", name="filter decisions")).to_be_hidden()
    press(view, ".")
    expect(view.locator(".ex-why h4")).to_contain_text("✓")
    expect(view.locator(ROWS)).to_have_count(0)


@pytest.mark.spec("V-13")
def test_the_only_decision_of_a_stage_comes_back_from_a_filter_with_the_focus(show) -> None:
    """A filter of another stage may hide it; "show all" shows it and moves the focus there."""
    recording = sample.mlp()
    stage = next(each for each in recording.stages if each.last - each.first == 1)
    verdict = recording.decisions[stage.first].verdict
    view = show(recording)
    open_stage(view, "fuse")
    view.get_by_role("button", name="✗ declined" if verdict == "applied" else "✓ applied").click()
    open_stage(view, stage.name.replace("_", " "))
    expect(view.locator(ROWS)).to_have_count(0)
    view.get_by_role("button", name="show all").press("Enter")
    expect(view.locator(ROWS)).to_have_count(1)
    expect(view.locator(ROWS)).to_be_focused()


@pytest.mark.spec("V-13")
def test_a_selection_is_left_for_the_stage_by_a_button_of_the_panel(show) -> None:
    """With a selection, a stage shows its decisions about the selection, and a button leads to all its decisions."""
    view = show(sample.mlp())
    open_stage(view, "fuse")
    view.locator(".ex-node", has_text="softmax").first.click()
    back = view.get_by_role("button", name="← fuse")
    expect(back).to_be_visible()
    before = view.locator(".ex-sentence").inner_text()
    back.click()
    expect(view.locator(".ex-why h4")).to_have_text("fuse")
    expect(back).to_have_count(0)
    assert view.locator(".ex-sentence").inner_text() == before
