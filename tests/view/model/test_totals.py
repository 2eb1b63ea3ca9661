"""Totals of scopes and boxes: nodes, parameters, flops and bytes."""

from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.record import Type, from_json, to_json
from explorer.view.export.text import text
from explorer.view.model.picture_model import build_model
from explorer.view.model.totals import Totals, leaves_of, of_boxes, of_scopes
from tests.bench import graphs
from tests.support.tied_weights import BLOCKS, PARAMETERS, tied_weights
from tests.view import sample

MODELS = Path(__file__).parents[3] / "assets" / "models"


@pytest.mark.spec("V-19")
@pytest.mark.parametrize("make", [sample.mlp, sample.transformer, sample.resnet, sample.network, sample.hostile])
def test_every_recorded_node_is_counted_once(make):
    recording = make()
    nodes = recording.nodes
    recorded = [n for n in range(len(nodes)) if nodes.born[n] < 0 and nodes.kind[n] not in ("constant", "item")]
    whole = of_scopes(recording)[0]
    assert (whole.nodes, whole.flops) == (len(recorded), sum(nodes.flops[n] for n in recorded))
    assert whole.bytes == sum(nodes.bytes[n] for n in recorded)


@pytest.mark.spec("V-19")
def test_leaves_are_parameters_only_inside_scopes():
    recording = sample.network(2)
    totals = dict(zip([scope.name for scope in recording.scopes], of_scopes(recording), strict=True))
    assert totals["conv1"].parameters == 8 * 8 * 3 * 3 + 8
    assert totals["relu1"].parameters == 0
    assert of_scopes(recording)[0].parameters == 2 * totals["conv1"].parameters
    assert of_scopes(sample.chain(9))[0].parameters == 0


@pytest.mark.spec("V-19")
@pytest.mark.parametrize("is_run", [False, True])
def test_parameters_of_a_training_step_are_counted_by_layer(is_run):
    """A recorded training step has 40 parameters in one layer and 5 in the other, each in one box."""
    module = ex.train.Module("net", loss=ex.train.MeanSquaredError(), optimizer=ex.train.Adam())
    for layer in (ex.train.Linear("first", 9, 4), ex.relu, ex.train.Linear("second", 4, 1)):
        module.add_node(layer)
    module.attach()
    samples, labels = np.ones((3, 9), np.float32), np.ones((3, 1), np.float32)
    if is_run:
        module.train_on(samples, labels)
    recording = module.explore(samples, labels).recording
    totals = {}
    for scope, sums in zip(recording.scopes, of_scopes(recording), strict=True):
        totals.setdefault(scope.name, sums.parameters)
    assert (totals["first"], totals["relu"], totals["second"]) == (9 * 4 + 4, 0, 4 * 1 + 1)
    assert of_scopes(recording)[0].parameters == 9 * 4 + 4 + 4 + 1
    assert sum(scope.name == "first" and scope.parent == 0 for scope in recording.scopes) == 1


@pytest.mark.spec("V-19")
def test_leaves_are_measured_by_shape_and_dtype():
    """A leaf has the elements and bytes of its type; a tuple has the sums of its members. Other leaves are inputs."""
    recording = sample.network(1)
    owned = leaves_of(recording)
    assert owned.weights == {node: 4 * elements for node, elements in owned.parameters.items()}
    node = next(iter(owned.parameters))
    scope = recording.nodes.scope[node]
    recording.types += [Type((2, 3), "float16", "cpu"), Type((5,), "bool", "cpu")]
    recording.types.append(Type((), "tuple", "cpu", (len(recording.types) - 2, len(recording.types) - 1)))
    recording.nodes.type[node] = len(recording.types) - 1
    assert leaves_of(recording).parameters[node] == 11
    assert leaves_of(recording).weights[node] == 17
    recording.nodes.scope[node] = 0
    assert leaves_of(recording).others[node] == 11
    assert node not in leaves_of(recording).parameters
    assert scope != 0


@pytest.mark.spec("V-19")
def test_totals_of_folded_boxes_add_up():
    model = build_model(sample.transformer(12))
    totals = of_boxes(model.recording, model.slots, model.tree)
    whole = of_scopes(model.recording)[0]
    assert totals[0][1:] == whole[1:]
    rest = next(n for n, box in enumerate(model.tree.boxes) if box.kind == "part")
    assert totals[rest].parameters * 12 == whole.parameters * 11


@pytest.mark.spec("V-19")
@pytest.mark.parametrize("program", [graphs.loss, graphs.training, graphs.attention])
def test_boxes_count_the_recorded_nodes_and_not_their_replacements(program):
    """Nodes that rewrites create in a box are not added to the recorded ones: a box never exceeds the whole graph."""
    model = build_model(program().recording)
    recording, totals = model.recording, of_boxes(model.recording, model.slots, model.tree)
    nodes = recording.nodes
    recorded = [node for node in recording.visible(0) if nodes.kind[node] not in ("constant", "item")]
    assert any(born >= 0 and flops for born, flops in zip(nodes.born, nodes.flops, strict=True))
    assert totals[0].flops == sum(nodes.flops[node] for node in recorded)
    assert all(one.flops <= totals[0].flops for one in totals)


@pytest.mark.spec("V-19")
def test_an_inlined_call_is_counted_once():
    """The box of an inlined call, or of a batch of calls, counts the work of its body but not of the call."""
    weight = ex.tensor(np.ones((64, 64)))
    layer = ex.function(lambda x: ex.tanh(x @ weight) + 1)
    body = 2 * 64 * 64 + 10 * 64 + 64  # the product, tanh, the sum
    for count in (1, 100):
        plan = ex.EvalPlan()
        for _ in range(count):
            plan.register(layer(ex.tensor(np.ones(64))))
        model = build_model(plan.prepare().recording)
        totals = of_boxes(model.recording, model.slots, model.tree)
        assert max(one.flops for one in totals) == totals[0].flops == count * body


@pytest.mark.spec("V-19")
@pytest.mark.parametrize(
    ("totals", "expected"),
    [
        (Totals(9, 147_968, 462_000_000, 0), "147,968 parameters · 462 M flops"),
        (Totals(9, 11_684_712, 0, 0), "11.7 M parameters"),
        (Totals(1200, 0, 5000, 0), "1,200 nodes · 5 K flops"),
        (Totals(3), "3 nodes"),
    ],
)
def test_totals_are_short_texts(totals, expected):
    assert totals.text == expected


@pytest.mark.spec("V-19")
def test_a_scope_before_its_parent_is_summed():
    recording = sample.transformer(1)
    recording.scopes[:] = [recording.scopes[0], *reversed(recording.scopes[1:])]
    last = len(recording.scopes)
    for row, scope in enumerate(recording.scopes):
        if scope.parent > 0:
            recording.scopes[row] = type(scope)(scope.name, scope.kind, last - scope.parent, scope.type)
    recording.nodes.scope[:] = [last - row if row else 0 for row in recording.nodes.scope]
    totals = of_scopes(recording)
    assert totals[0].parameters == totals[last - 1].parameters == 20_480


@pytest.mark.spec("V-19")
def test_a_shared_weight_counts_once_in_each_total():
    """Each of three blocks reads all 72 parameters of the file from leaves of its own; the whole graph has 72, too."""
    recording = tied_weights()
    assert sum(leaves_of(recording).parameters.values()) == len(BLOCKS) * (PARAMETERS + 8)
    scopes = {scope.name: total.parameters for scope, total in zip(recording.scopes, of_scopes(recording), strict=True)}
    assert [scopes[name.removeprefix("block.")] for name in BLOCKS] == [PARAMETERS] * len(BLOCKS)
    model = build_model(recording)
    assert of_scopes(recording)[0].parameters == model.totals[0].parameters == PARAMETERS
    boxes = {box.label: total.parameters for box, total in zip(model.tree.boxes, model.totals, strict=True)}
    assert [boxes[name] for name in BLOCKS] == [PARAMETERS] * len(BLOCKS)
    assert f"scopes: {PARAMETERS} parameters\n" in text(recording)


@pytest.mark.spec("V-19")
def test_the_weights_of_an_lstm_count_once():
    """The file stores 38,101 elements; Explorer slices some of its tensors once for each gate."""
    recording = ex.open(MODELS / "lstm.onnx").preview_plan().recording
    assert of_scopes(recording)[0].parameters == build_model(recording).totals[0].parameters == 38_101


@pytest.mark.spec("V-19")
def test_only_leaves_of_one_tensor_are_shared():
    """Two tensors with equal elements count separately. Sharing is kept in a recording's JSON form."""
    equal = [ex.tensor(np.ones((4, 4), np.float32)) for _ in range(2)]
    assert not (equal[0] @ equal[1]).explore().recording.shared_leaves
    recording = tied_weights()
    weights, biases = (
        [node for node, name in enumerate(recording.nodes.label) if name == label] for label in ("shared", "bias")
    )
    expected = {node: nodes[0] for nodes in (weights, biases) for node in nodes[1:]}
    assert from_json(to_json(recording)).shared_leaves == recording.shared_leaves == expected
