"""Boxes that are open down to a depth."""

import pytest
from traitlets import TraitError

import explorer as ex
from explorer.view.export.writers import ViewState
from explorer.view.layout.placed_model import draw
from explorer.view.picture.svg import svg
from explorer.view.widget.widget import GraphView
from tests.view import sample


def depth_of(tree, box):
    """Return the number of boxes around a box, without the box of the graph."""
    around = -1
    while box not in tree.bodies:
        box, around = tree.boxes[box].parent, around + 1
    return around


@pytest.mark.spec("V-8")
@pytest.mark.parametrize("depth", [0, 1, 2, 99])
def test_boxes_above_the_depth_are_open(depth):
    tree = draw(sample.transformer()).model.tree
    assert tree.opened_to(depth) == {
        box for box in range(len(tree.boxes)) if box not in tree.bodies and depth_of(tree, box) < depth
    }


@pytest.mark.spec("V-8")
def test_a_negative_depth_is_rejected():
    with pytest.raises(ValueError, match="depth must be 0, which closes all boxes"):
        draw(sample.mlp()).model.tree.opened_to(-1)


@pytest.mark.spec("V-8")
def test_a_picture_is_drawn_to_a_depth():
    recording = sample.transformer()
    sizes = [svg(recording, depth=depth).count("<text") for depth in (0, 1, 9)]
    assert sizes == sorted(set(sizes))
    every = set(range(len(draw(recording).model.tree.boxes)))
    assert svg(recording, depth=9) == svg(recording, open_boxes=every)


@pytest.mark.spec("V-8", "V-14")
def test_the_address_of_a_page_contains_its_depth():
    assert ViewState(depth=2, open_boxes=[1]).address() == "depth=2"


@pytest.mark.spec("V-8")
def test_a_view_collapses_its_boxes():
    view = GraphView(sample.transformer())
    view.collapse(1)
    assert set(view.open_boxes) == draw(sample.transformer()).model.tree.opened_to(1)
    view.collapse()
    assert view.open_boxes == []


@pytest.mark.spec("V-8")
def test_a_view_has_the_depth_of_its_open_boxes():
    """The depth can be set and read; it is None for boxes opened one by one, and the deepest if all are open."""
    view = GraphView(sample.transformer())
    tree = draw(sample.transformer()).model.tree
    seen = []
    view.observe(lambda change: seen.append(change["new"]), "depth")
    assert view.depth == tree.depth_of({index for index, box in enumerate(tree.boxes) if box.open})
    for depth in (0, 1, 2, tree.deepest):
        view.depth = depth
        assert (view.depth, set(view.open_boxes)) == (depth, tree.opened_to(depth))
    view.open_boxes = [*tree.bodies, *tree.opened_to(1)]
    assert view.depth == 1
    view.open_boxes = [max(tree.opened_to(2) - tree.opened_to(1))]
    assert view.depth is None
    view.depth = 99
    assert view.depth == tree.deepest
    view.collapse()
    assert seen[-4:] == [1, None, tree.deepest, 0]
    view.depth = None
    assert view.depth == 0


@pytest.mark.spec("V-8")
def test_a_view_begins_at_a_depth():
    view = GraphView(sample.transformer(), depth=1)
    assert (view.depth, view.state.open_boxes) == (1, sorted(draw(sample.transformer()).model.tree.opened_to(1)))
    with pytest.raises(ValueError, match="depth=1, or open_boxes"):
        GraphView(sample.transformer(), depth=1, open_boxes=[0])
    with pytest.raises(TraitError, match="depth -1 is negative"):
        view.depth = -1
    assert view.depth == 1


@pytest.mark.spec("V-8")
def test_a_newer_recording_has_its_own_depth():
    view = GraphView(sample.transformer(), depth=2)
    view.update(sample.chain(3))
    assert view.depth == 0


@pytest.mark.spec("V-9")
def test_expressions_can_be_traced_and_focused():
    x = ex.tensor([1.0, 2.0], name="x")
    y = ex.tanh(x)
    view = ex.explore(ex.exp(y), depth=0)
    sent = []
    view.send = sent.append
    view.trace(y, "outputs")
    assert view.selected_expression is y
    assert sent[-1] == {"kind": "trace", "direction": "outputs"}
    assert view.why(y) == view.why(view.selected)
    assert view.why(x, y) == view.why(view.recording.nodes.label.index("x"), view.selected)
    assert view.depth == 0


@pytest.mark.spec("V-9")
def test_an_unknown_side_of_a_node_is_rejected():
    with pytest.raises(ValueError, match="direction must be one of inputs, outputs"):
        GraphView(sample.mlp()).trace(6, "up")
