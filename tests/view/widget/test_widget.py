import dataclasses
import json
import pydoc
import re

import pytest
import traitlets

from explorer.record import Recording, Stage
from explorer.record.errors import ExplorerError, OperandError, UnknownNameError
from explorer.view.export.text import text
from explorer.view.layout.placed_model import draw
from explorer.view.payload.view_payload import answer, layout_json, payload
from explorer.view.picture.svg import svg
from explorer.view.widget.widget import GraphView
from tests.support.unpacked import unpack
from tests.view import sample


@pytest.mark.spec("V-1")
def test_steps_are_decisions_then_picks_then_runs():
    view = GraphView(sample.mlp())
    assert (view.step, view.stage, view.last_step) == (0, "recorded", 8 + 4 + 4)
    seen = []
    for step in range(view.last_step + 1):
        view.step = step
        seen.append(view.stage)
    assert seen == ["recorded", *["simplify"] * 3, "dedup", *["fuse"] * 4, *["order"] * 4, *["run"] * 4]


@pytest.mark.spec("V-1")
@pytest.mark.parametrize(
    ("stage", "step"),
    [("recorded", 0), ("simplify", 0), ("dedup", 3), ("fuse", 4), ("order", 8), ("buffers", 12), ("run", 12)],
)
def test_setting_the_stage_shows_it_as_a_whole(stage, step):
    """A stage shown as a whole, with its result, has the step before its first decision or kernel."""
    view = GraphView(sample.mlp())
    view.step = 16 if stage != "run" else 3
    view.stage = stage
    assert (view.stage, view.step) == (stage, step)


@pytest.mark.spec("V-1")
def test_the_initial_position_is_arbitrary():
    recording = sample.mlp()
    for position in range(recording.end + 1):
        assert GraphView(recording, position=position).step == position
    with pytest.raises(ValueError, match=r"position 9 is outside this recording\n  rule: it has positions 0 to 8"):
        GraphView(recording, position=9)


@pytest.mark.spec("V-1")
def test_the_run_is_added_in_place():
    planned = sample.mlp()
    planned.run = None
    view = GraphView(planned, theme="dark", height=400)
    view.stage, view.selected = "fuse", 6
    assert view.last_step == 12
    view.update(sample.mlp())
    assert (view.stage, view.step, view.selected, view.last_step) == ("fuse", 4, 6, 16)
    assert view.payload == payload(sample.mlp(), theme="dark", position=0, height=400)


@pytest.mark.spec("V-1")
def test_a_shorter_recording_limits_step_and_selection():
    view = GraphView(sample.mlp())
    view.step, view.selected = 16, 16
    short = sample.mlp()
    short.run = short.schedule = None
    view.update(short)
    assert (view.step, view.selected) == (8, 16)
    assert view.stage in [stage.name for stage in short.stages]


@pytest.mark.parametrize(
    ("trait", "value", "message"),
    [
        ("step", 17, "step 17 is outside this recording\n  rule: it has steps 0 to 16"),
        ("step", -1, "step -1 is outside"),
        ("stage", "fus", r"stage 'fus'\n.* dedup, fuse, order.*\n.* did you mean fuse\? view.stage = 'fuse'"),
        ("stage", 3, r"stage 3\n.* dedup, fuse, order.*\n  fix: view.stage = 'recorded'"),
        ("selected", 17, "node 17 is not in this recording\n  rule: it has nodes 0 to 16"),
        ("theme", "drk", "theme 'drk'\n  rule: it must be one of auto, light, dark\n  fix: view.theme = 'dark'"),
        ("direction", "rigt", "fix: view.direction = 'right'"),
        ("step", "x", "step 'x'\n  rule: it must be an int\n  fix: view.step = 0"),
        ("open_boxes", 3, "rule: it must be a list or None"),
    ],
)
def test_invalid_values_of_traits_are_rejected(trait, value, message):
    view = GraphView(sample.mlp())
    with pytest.raises(traitlets.TraitError, match=message) as caught:
        setattr(view, trait, value)
    assert isinstance(caught.value, ExplorerError)


def test_a_misspelt_attribute_is_rejected():
    view = GraphView(sample.mlp())
    with pytest.raises(
        UnknownNameError, match=r"unknown attribute of a view 'directon'\n.*direction.*\n.*view.direction"
    ):
        view.directon = "right"
    for name, instead in (
        ("heat", "view.overlay({"),
        ("node", 'view.selected = "exp"'),
        ("height", "ex.explore(y, height=…)"),
        ("nothing", "known: depth, direction"),
    ):
        with pytest.raises(UnknownNameError, match=re.escape(instead)):
            setattr(view, name, 3)
    with pytest.raises(OperandError, match=r"focus is a method, .*\n  fix: view\.focus\(…\)"):
        view.focus = 3
    view.add_class("mine")
    view.layout.width, view.tooltip = "50%", "a model"
    view.add_traits(note=traitlets.Unicode())
    view.note = "an added trait"
    assert (view.tooltip, view.note) == ("a model", "an added trait")


@pytest.mark.spec("V-1", "V-16")
def test_stages_with_equal_names_are_distinguished_by_the_step():
    recording = sample.mlp()
    recording.stages[2] = dataclasses.replace(recording.stages[2], name="simplify")
    view = GraphView(recording)
    view.step = 4
    assert (view.step, view.stage) == (4, "simplify")


@pytest.mark.spec("V-15")
def test_the_output_is_static_too_and_always_the_same():
    first, second = (GraphView(sample.mlp())._repr_mimebundle_() for _ in range(2))
    assert first is not None
    assert second is not None
    assert first[0]["image/svg+xml"] == second[0]["image/svg+xml"] == svg(sample.mlp())
    assert first[0]["text/plain"] == text(sample.mlp(), short=True)
    assert "application/vnd.jupyter.widget-view+json" in first[0]


def test_the_payload_is_plain():
    view = GraphView(sample.hostile())
    assert json.loads(json.dumps(view.payload)) == view.payload


@pytest.mark.spec("V-7")
def test_the_inside_of_a_box_is_sent_when_a_reader_opens_it():
    view = GraphView(sample.dag(6000))
    whole = layout_json(view.recording)["boxes"]
    first = unpack(view.payload["layout"])["boxes"]
    missing = [number for number, box in enumerate(first) if not box["placed"]]
    assert missing
    assert all(box["placed"] for box in first if box["open"])
    sent = []
    view.send = sent.append
    view._handle_custom_msg({"kind": "place", "boxes": missing[:2]}, [])
    ((one, inside), (other, _)) = unpack(sent[0]["boxes"])
    assert [one, other] == missing[:2]
    assert {**first[one], **inside} == whole[one]
    view.update(view.recording)
    assert unpack(view.payload["layout"])["boxes"][one] == whole[one]


@pytest.mark.parametrize("box", [-1, 10_000, "1", True])
def test_the_layout_of_an_invalid_box_is_rejected(box):
    with pytest.raises(ValueError, match="is not a box of this layout, which has boxes 0 to"):
        answer(draw(sample.mlp()), [box])


@pytest.mark.spec("V-9")
def test_a_line_selects_its_nodes():
    view = GraphView(sample.mlp())
    assert view.select_line("softmax") == [13, 14, 15, 16]
    assert view.selected == 13
    assert view.select_line(2, cell="In[3]") == [7, 10, 11, 12]
    assert view.select_line(2, cell=3) == [7, 10, 11, 12]
    with pytest.raises(ValueError, match=r"no node was recorded at 9\n.*the first lines with nodes are In\[3\] line 1"):
        view.select_line(9)


@pytest.mark.spec("V-6")
def test_the_first_nan_is_found_in_the_order_of_the_run():
    recording = sample.mlp()
    view = GraphView(recording)
    assert view.first_nan() is None
    assert view.selected == -1
    for node in (15, 10):
        recording.run.values[node] = dataclasses.replace(recording.run.values[node], nan=3)
    assert view.first_nan() == 10
    assert (view.selected, view.stage) == (10, "run")
    assert recording.run.steps[view.step - view.last_step - 1].kernel == 2
    recording.run.values[0] = dataclasses.replace(recording.run.values[10], nan=1)
    assert view.first_nan() == 0
    recording.run = None
    with pytest.raises(ValueError, match='record="values"'):
        view.first_nan()


def test_a_recording_without_stages_is_shown():
    view = GraphView(Recording())
    assert (view.step, view.stage, view.last_step) == (0, "", 0)
    lone = Recording(stages=[Stage("recorded", "record", 0, 0, {})])
    assert GraphView(lone).stage == "recorded"


@pytest.mark.spec("V-18")
def test_an_order_can_be_predicted_if_there_is_one():
    """The trait is sent to every browser; a recording without ordered kernels has nothing to predict."""
    view = GraphView(sample.mlp())
    view.predict()
    assert view.predicting
    unplanned = GraphView(dataclasses.replace(sample.mlp(), schedule=None, run=None, groups=[]))
    with pytest.raises(ValueError, match="at least one decision"):
        unplanned.predict()
    assert not unplanned.predicting


@pytest.mark.spec("V-18")
def test_fusion_is_predicted_at_the_stage_that_fuses():
    """The stage is shown as a whole, with hidden decisions; another stage is rejected, and the view is unchanged."""
    view = GraphView(sample.mlp())
    view.predict("fuse")
    assert (view.stage, view.is_whole, view.predicting) == ("fuse", True, True)
    view.predict("order")
    assert view.stage == "order"
    view.predicting = False
    with pytest.raises(
        ValueError, match=r"'dedup' cannot be predicted\n.* 'fuse', 'order', 'buffers'\n.*view.predict\('fuse'\)"
    ):
        view.predict("dedup")
    assert (view.stage, view.predicting) == ("order", False)


def test_help_on_a_view_begins_with_its_documentation():
    view = GraphView(sample.mlp())
    text = pydoc.render_doc(view, renderer=pydoc.plaintext)
    assert 0 < text.find("View of a recording") < text.find("Method resolution order")
