"""After a step, some change is visible and not covered; titles are drawn over edges."""

from contextlib import nullcontext
from itertools import product

import pytest
from playwright.sync_api import expect

import explorer as ex
from explorer.view.payload.view_payload import payload
from tests.browser.player import drawn, mount, node, opened_wide, press, resize, tool
from tests.support.cells import MODELS
from tests.support.representatives import representatives
from tests.view import sample

pytestmark = [pytest.mark.browser, pytest.mark.spec("V-1", "V-13")]

HIDDEN = """() => {
    const { view } = window;
    const missed = [];
    view.heat.choose(view.heat.known[0]);
    while (view.now.step < view.timeline.end) {
        view.step(1);
        const { camera, room, scene, placement } = view;
        const rects = scene.attention.map((slot) => placement.shows(slot)).filter(Boolean);
        if (!rects.length) continue;
        const over = [view.heat.legend, view.parts.minimap.root].filter((part) => !part.classList.contains("ex-unseen"));
        const covers = over.map((part) => [part.offsetLeft, part.offsetTop, part.offsetLeft + part.offsetWidth, part.offsetTop + part.offsetHeight]);
        const isClear = ([x, y, wide, high]) => {
            const [left, top] = [camera.x + x * camera.scale, camera.y + y * camera.scale];
            const [right, bottom] = [left + wide * camera.scale, top + high * camera.scale];
            const isInside = left >= 0 && top >= 0 && right <= room.width && bottom <= room.height;
            return isInside && !covers.some((cover) => left < cover[2] && right > cover[0] && top < cover[3] && bottom > cover[1]);
        };
        if (!rects.some(isClear)) missed.push(view.now.step);
    }
    return missed;
}"""  # noqa: E501


@pytest.mark.parametrize(
    ("name", "wide"),
    representatives(
        product(("encoder", "resnet18"), (1280, 1000, 600)), [("encoder", 1280), ("encoder", 600), ("resnet18", 1000)]
    ),
)
def test_something_that_changed_is_in_sight_after_every_step(page, name, wide):
    """Not all changes are hidden by the canvas border, the minimap or the legend."""
    resize(page, wide)
    mount(page, payload(ex.open(MODELS / f"{name}.pnnx.param").preview_plan().recording))
    page.evaluate("view.go(0)")
    assert page.evaluate(HIDDEN) == []


def test_a_fitted_view_stays_fitted_when_a_pass_changes_the_layout(page):
    """Stepping over the first change of the graph keeps the whole graph in view."""
    mount(page, payload(sample.resnet()))
    page.evaluate("view.opening.all(true)")
    page.evaluate("view.go(0)")
    page.evaluate("view.fit()")
    fitted = "view.camera.isFitted(view.placement.size)"
    assert page.evaluate(fitted)
    recorded = "view.placement.isRecorded"
    assert page.evaluate(recorded)
    page.evaluate("view.go(view.timeline.end)")
    assert not page.evaluate(recorded)
    assert page.evaluate(fitted)


def test_titles_of_open_boxes_lie_over_edges(page):
    mount(page, payload(sample.resnet()))
    page.evaluate("view.opening.all(true)")
    titles = page.locator(".ex-box-label .ex-title")
    assert titles.count() > 2
    order = page.evaluate(
        "[...document.querySelectorAll('.ex-graph > div')].map((layer) => layer.getAttribute('class'))"
    )
    assert order.index("ex-layer-titles") > max(order.index("ex-layer-edges"), order.index("ex-layer-changed"))
    assert titles.first.evaluate("title => getComputedStyle(title).paintOrder").startswith("stroke")
    page.evaluate("view.opening.all(false)")
    assert titles.count() == 0


OUTSIDE = """() => {
    const gap = (text, shape) => {
        const [{ left, right }, outline] = [text.getBoundingClientRect(), shape.getBoundingClientRect()];
        return [left - outline.left, outline.right - right];
    };
    return [...view.canvas.frames.values()].flatMap(({ title, shape }) => gap(title, shape)).filter((px) => px < 0);
}"""


def test_titles_of_kernels_lie_within_the_width_of_their_outlines(page):
    """Titles must not cross the narrow border of a box either."""
    with opened_wide():
        mount(page, payload(sample.resnet()))
    page.evaluate("view.go(view.timeline.end)")
    assert page.locator(".ex-frame-title").count() > 2
    assert page.evaluate(OUTSIDE) == []
    number = page.locator(".ex-number").first
    assert number.evaluate("number => getComputedStyle(number).paintOrder").startswith("stroke")


WIDER = """() => {
    const found = [];
    for (const item of document.querySelectorAll(".ex-node, .ex-closed")) {
        const [name, shape] = [".ex-name", ".ex-shape"].map((part) => item.querySelector(part).getBoundingClientRect());
        if (name.left < shape.left || name.right > shape.right) found.push(item.getAttribute("aria-label"));
    }
    return found;
}"""


@pytest.mark.spec("V-24")
def test_names_fit_into_their_boxes_when_the_graph_is_small(page):
    """At a scale at which only names are drawn, these are larger only as far as their boxes allow."""
    resize(page, 1280, 900)
    with opened_wide():
        mount(page, payload(ex.open(MODELS.parent / "digits.onnx").preview_plan().recording))
    page.evaluate("view.fit()")
    assert "ex-far" in page.locator(".ex-graph").get_attribute("class")
    sizes = page.eval_on_selector_all(".ex-name", "(names) => names.map((name) => getComputedStyle(name).fontSize)")
    assert {"17px"} < set(sizes)
    assert page.evaluate(WIDER) == []


@pytest.mark.spec("V-9", "V-13")
@pytest.mark.parametrize("part", ["the source (l)", "the tree of boxes (s)", "the panel (w)"])
def test_a_selection_in_sight_is_so_beside_a_part_that_takes_room(show, part):
    """Showing and hiding source, tree and panel does not move the selected node out of view."""
    view = show(ex.open(MODELS / "encoder.pnnx.param").preview_plan().recording)
    press(view, "/", *"softmax", "Enter", "Escape")
    softmax = node(view, "F.softmax")
    for edge in ("left", "right"):
        bring_to(view, softmax, edge)
        for _ in range(2):
            button = view.get_by_role("button", name=f"show or hide {part}")
            (button if button.is_visible() else tool(view, f"show or hide {part[: part.index(' (')]}")).click()
            drawn(view.page)
            room, place = view.locator(".ex-stage").bounding_box(), softmax.bounding_box()
            assert room["x"] <= place["x"]
            assert place["x"] + place["width"] <= room["x"] + room["width"]


@pytest.mark.spec("V-9", "V-13")
def test_a_selection_is_in_sight_whichever_way_values_flow(show):
    """After the direction changes, the view shows the graph's start, then the selection."""
    view = show(ex.open(MODELS / "encoder.pnnx.param").preview_plan().recording)
    press(view, "/", *"softmax", "Enter", "Escape")
    for _ in range(2):
        press(view, "d")
        drawn(view.page)
        expect(node(view, "F.softmax")).to_be_in_viewport()
        room, place = view.locator(".ex-stage").bounding_box(), node(view, "F.softmax").bounding_box()
        for start, length in (("x", "width"), ("y", "height")):
            assert room[start] <= place[start]
            assert place[start] + place[length] <= room[start] + room[length]


@pytest.mark.parametrize(("name", "scale"), [("encoder", 0.9), ("resnet18", 0.9)])
def test_a_graph_that_does_not_fit_begins_with_some_of_its_items(show, name, scale):
    """If later stages need the room around the first items, the graph is initially smaller but legible."""
    page = (view := show(ex.open(MODELS / f"{name}.pnnx.param").preview_plan().recording, whole=True)).page
    resize(page, 1440)
    page.reload()
    room = view.locator(".ex-stage").bounding_box()
    places = [item.bounding_box() for item in view.locator(".ex-node, .ex-box:not(.ex-open)").all()]
    ends = [(place["x"] + place["width"], place["y"] + place["height"]) for place in places if place]
    seen = [(x, y) for x, y in ends if x <= room["x"] + room["width"] and y <= room["y"] + room["height"]]
    assert len(seen) >= 8
    assert f"scale({scale})" in view.locator(".ex-graph").get_attribute("style")


def bring_to(view, item, edge):
    """Drag the canvas until an item is at its left or right edge."""
    room, place = view.locator(".ex-stage").bounding_box(), item.bounding_box()
    right = room["x"] + room["width"] - place["width"] - 12
    by = (room["x"] + 12 if edge == "left" else right) - place["x"]
    top = room["y"] + 12
    start = room["x"] + (room["width"] - 12 if by < 0 else 12)
    view.page.mouse.move(start, top)
    view.page.mouse.down()
    view.page.mouse.move(start + by, top, steps=4)
    view.page.mouse.up()


CHANGED = """() => {
    const { view } = window;
    const { first, last } = view.timeline.stages[view.now.stage];
    const nodes = view.trace.decisions.slice(first, last).filter(({ verdict }) => verdict === "applied").flatMap(({ produced, subjects }) => [...produced, ...subjects]);
    const rects = nodes.map((node) => view.placement.shows(view.trace.slotOf[node])).filter(Boolean);
    return [rects.length, rects.filter(([x, y, wide, high]) => view.camera.shows([x, y, x + wide, y + high])).length];
}"""  # noqa: E501


@pytest.mark.spec("V-25", headline=True)
def test_a_stage_that_is_entered_shows_what_it_changed(page):
    """Show the new kernels and replacements when a stage is entered: all if the graph fits legibly, else some."""
    resize(page, 1000, 560)
    recording = ex.open(MODELS / "resnet18.pnnx.param").preview_plan().recording
    for opened in (False, True):
        with opened_wide() if opened else nullcontext():
            mount(page, payload(recording))
        page.evaluate("view.camera.pan(0, -3000)")
        page.evaluate("view.goStage('fuse')")
        drawn(page)
        changed, seen = page.evaluate(CHANGED)
        assert changed > 4
        assert seen > 0


@pytest.mark.spec("V-25")
def test_the_start_of_a_graph_stays_below_the_header_when_a_stage_is_entered(page):
    """A view that already shows a change does not move, and a graph begins below a header of two lines."""
    resize(page, 1280, 720)
    for name in ("resnet18.pnnx.param", "resnet18.onnx"):
        mount(page, payload(ex.open(MODELS / name).preview_plan().recording, position=0, height=720))
        top = page.locator(".ex-node").first
        header = page.locator(".ex-say")
        assert top.bounding_box()["y"] >= bottom(header)
        page.evaluate("view.goStage('fuse')")
        drawn(page)
        assert top.bounding_box()["y"] >= bottom(header)
        page.evaluate("view.goStage('recorded')")
        drawn(page)
        page.evaluate("view.fit()")
        assert page.evaluate("view.camera.isFitted(view.placement.size)")
        assert top.bounding_box()["y"] >= bottom(header)
    assert page.evaluate("view.parts.sentence.lines()") > 10  # the last header has two lines


def bottom(part):
    place = part.bounding_box()
    return place["y"] + place["height"]
