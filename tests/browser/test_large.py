"""Large graphs: boxes hidden in the first view are laid out by the kernel when they are opened."""

import io

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from explorer.view.layout.placed_model import draw
from explorer.view.payload.view_payload import answer, payload
from tests.browser.player import drawn, mount, press
from tests.view import sample

pytestmark = pytest.mark.browser

SHOW = """
from explorer.view.widget.widget import GraphView
from tests.view import sample
view = GraphView(sample.dag(6000))
view
"""

QUIET = """async () => {
    const idle = () => new Promise((done) => requestIdleCallback(done));
    const drawn = () => document.querySelectorAll(".ex-graph *").length;
    for (let before = -1; before !== drawn(); ) {
        before = drawn();
        for (let turn = 0; turn < 10; turn++) await idle();
    }
}"""


@pytest.mark.spec("V-1", "V-7")
def test_the_kernel_lays_a_box_out_when_it_is_opened(notebook):
    book = notebook(SHOW)
    view = book.view()
    drawn = view.locator(".ex-node, .ex-box").count()
    assert 10 <= drawn <= 60
    book.execute("view.focus(5000)")
    expect(view.locator(".ex-node.ex-selected")).to_be_visible()
    expect(view.locator(".ex-waits")).to_be_hidden()
    opened = book.execute("print(len(view.open_boxes))")
    assert int(opened) >= 2
    press(view, "e")
    expect(view.locator(".ex-graph")).to_have_attribute("aria-label", "6,000 nodes")


@pytest.mark.spec("V-7")
def test_a_run_leaves_what_was_opened_open(notebook):
    book = notebook(SHOW)
    view = book.view()
    book.execute("view.focus(5000)")
    expect(view.locator(".ex-node.ex-selected")).to_be_visible()
    before = view.locator(".ex-graph").get_attribute("aria-label")
    book.execute("view.update(sample.dag(6000))")
    expect(view.locator(".ex-node.ex-selected")).to_be_visible()
    assert view.locator(".ex-graph").get_attribute("aria-label") == before


@pytest.mark.spec("V-7")
def test_a_box_opens_when_its_answer_comes_and_the_reader_is_told_until_then(page):
    recording = sample.dag(6000)
    drawing = draw(recording)
    held = payload(recording, drawing=drawing, boxes=drawing.layouts.at_once())
    mount(page, held)
    wanted = next(box for box in range(len(drawing.layouts)) if box not in drawing.layouts.at_once())
    page.evaluate("box => view.opening.toggle(box, true)", wanted)
    expect(page.locator(".ex-waits")).to_have_text("laying out this box …")
    assert page.evaluate("asked.at(-1)") == [wanted]
    assert page.evaluate("box => view.open.has(box)", wanted) is False
    page.evaluate("boxes => view.opening.pending.take(boxes)", answer(drawing, [wanted])["boxes"])
    assert page.evaluate("box => view.open.has(box)", wanted) is True
    expect(page.locator(".ex-waits")).to_be_hidden()
    expected = len(drawing.model.tree.boxes[wanted].items)
    assert page.evaluate("box => view.placement.composed.get(box).places.length", wanted) == expected


@pytest.mark.spec("V-7")
def test_where_no_kernel_answers_the_reader_is_told_what_to_do(page):
    recording = sample.dag(6000)
    drawing = draw(recording)
    mount(page, payload(recording, drawing=drawing, boxes=drawing.layouts.at_once()))
    page.evaluate("view.opening.all(true)")
    expect(page.locator(".ex-waits")).to_contain_text("does not answer. Run the cell again.")
    page.keyboard.press("End")
    page.evaluate("view.opening.toggle(view.trace.layout.boxes.findIndex((box) => box.placed && !box.open), true)")
    expect(page.locator(".ex-waits")).to_be_hidden()


@pytest.mark.spec("V-13")
def test_only_what_is_in_sight_has_elements(page):
    """Opening everything and zooming create no other elements; panning creates those that become visible."""
    mount(page, payload(sample.dag(3000)))
    page.evaluate("view.opening.all(true)")
    assert page.evaluate("view.placement.slots.size") == 3000
    assert page.locator(".ex-node").count() < 200
    page.evaluate("view.camera.stand(1, view.placement.size[0] / 2, 700)")
    drawn = page.locator(".ex-node").count()
    assert 10 < drawn < 400
    page.evaluate("view.camera.zoom(0.9)")
    last = page.evaluate("[...view.placement.slots].reduce((low, one) => (one[1][1] > low[1][1] ? one : low))")
    assert page.locator(f"[data-key=n{last[0]}]").count() == 0
    page.evaluate("([, [x, y]]) => view.camera.center(x, y, false)", last)
    expect(page.locator(f"[data-key=n{last[0]}]")).to_be_visible()
    assert page.locator(".ex-layer-nodes > svg.ex-none").count() > 0


@pytest.mark.spec("V-13", "V-8")
def test_from_afar_a_picture_stands_for_the_elements_and_a_press_finds_what_is_there(page):
    mount(page, payload(sample.dag(3000)))
    picture = page.locator(".ex-low-detail")
    expect(picture).to_be_hidden()
    page.evaluate("view.opening.all(true)")
    expect(picture).to_be_visible()
    slot, [x, y, wide, high] = page.evaluate("[...view.placement.slots].at(1500)")
    page.evaluate("([x, y]) => view.camera.stand(0.1, x, y)", [x + wide / 2, y + high / 2])
    drawn(page)
    at_middle = "canvas => [...canvas.getContext('2d').getImageData(canvas.width / 2, canvas.height / 2, 1, 1).data]"
    before = picture.evaluate(at_middle)
    assert before[3] == 255
    stage = page.locator(".ex-stage").bounding_box()
    page.mouse.click(stage["x"] + stage["width"] / 2, stage["y"] + stage["height"] / 2)
    assert page.evaluate("view.trace.slotOf[view.selection.node]") == slot
    expect(page.locator(f"[data-key=n{slot}]")).to_be_focused()
    page.wait_for_function(
        f"before => String(({at_middle})(document.querySelector('.ex-low-detail'))) !== String(before)", arg=before
    )
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.key") != f"n{slot}"
    page.evaluate("view.camera.stand(1, 0, 0)")
    expect(picture).to_be_hidden()


@pytest.mark.spec("V-13")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_from_afar_a_long_net_is_seen(page, theme):
    """A completely visible net differs clearly from the background, even far below the scale of one-pixel lines."""
    page.emulate_media(color_scheme=theme)
    mount(page, payload(sample.dag(300)))
    page.evaluate("view.opening.all(true)")
    page.evaluate("view.camera.stand(0.05, view.placement.size[0] / 2, view.placement.size[1] / 2)")
    drawn(page)
    stage = page.locator(".ex-stage")
    picture = np.asarray(Image.open(io.BytesIO(stage.screenshot())).convert("L"), int)
    ground = np.bincount(picture.ravel()).argmax()
    assert (abs(picture - ground) > 50).sum() > 300


@pytest.mark.spec("V-8")
def test_from_afar_an_open_box_that_is_selected_is_marked(page):
    """Its background differs, under its contents; items that are not selected keep theirs."""
    mount(page, payload(sample.scopes(30, 40)))
    page.evaluate("view.opening.all(true)")
    expect(page.locator(".ex-low-detail")).to_be_visible()
    boxes = page.evaluate("[...view.placement.boxes].filter(([box]) => box !== view.placement.outermost)")
    box, (x, y, wide, high) = boxes[0]
    page.evaluate("([x, y]) => view.camera.stand(0.19, x, y)", [x + wide / 2, y + high / 2])
    colours = """canvas => {
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        return new Set(new Uint32Array(data.buffer)).size;
    }"""
    drawn(page)
    before = page.locator(".ex-low-detail").evaluate(colours)
    page.evaluate("box => { view.selection.box = box; view.show(); }", box)
    drawn(page)
    assert page.locator(".ex-low-detail").evaluate(colours) > before


@pytest.mark.spec("V-13")
def test_a_move_of_the_camera_lays_nothing_out(page):
    """Moving the camera causes no layout; a transform of an svg element would lay out all its text in each frame."""
    mount(page, payload(sample.dag(3000)))
    page.evaluate("view.opening.all(true)")
    page.evaluate("view.camera.stand(0.8, view.placement.size[0] / 2, 700)")
    page.evaluate(QUIET)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")

    def layouts() -> float:
        return next(
            metric["value"]
            for metric in session.send("Performance.getMetrics")["metrics"]
            if metric["name"] == "LayoutCount"
        )

    before = layouts()
    page.evaluate(
        """async () => {
            for (let turn = 0; turn < 6; turn++) {
                turn % 2 ? view.camera.pan(0, turn < 3 ? 3 : -3) : view.camera.zoom(turn < 3 ? 1.01 : 1 / 1.01);
                await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
            }
        }"""
    )
    assert layouts() == before


@pytest.mark.spec("V-13")
def test_what_is_around_the_sight_is_drawn_when_the_browser_is_idle(page):
    mount(page, payload(sample.dag(3000)))
    page.evaluate("view.opening.all(true)")
    at_once, all_in_sight = page.evaluate(
        """() => {
            const { camera, canvas, placement } = view;
            camera.stand(1, placement.size[0] / 2, placement.size[1] / 2);
            const [x, y, wide, high] = camera.sight();
            const isIn = ([left, top, w, h]) => left < x + wide && left + w > x && top < y + high && top + h > y;
            const keys = [...placement.slots].filter(([, rect]) => isIn(rect)).map(([slot]) => `n${slot}`);
            const isDrawn = (key) => Boolean(canvas.element(key)?.getBoundingClientRect().width);
            return [document.querySelectorAll(".ex-node").length, keys.length > 3 && keys.every(isDrawn)];
        }"""
    )
    assert all_in_sight
    page.evaluate(QUIET)
    assert page.locator(".ex-node").count() > at_once


@pytest.mark.spec("V-13")
def test_the_camera_glides_to_a_place_that_adjoins_and_jumps_to_one_far_away(open_page):
    """There is nothing drawn between distant positions that an animation could show."""
    page = open_page(reduced_motion="no-preference")
    mount(page, payload(sample.dag(3000)))
    page.evaluate("view.opening.all(true)")
    page.evaluate("view.camera.stand(1, view.placement.size[0] / 2, 700)")
    gliding = """(away) => {
        view.camera.pan(0, away, true);
        return view.camera.gliding;
    }"""
    assert page.evaluate(gliding, -200) is True
    assert page.evaluate(gliding, -4000) is False
    assert page.evaluate(gliding, 200) is True
