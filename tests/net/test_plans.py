"""Plans of nets: one plan for running and showing; unknown lengths in a file get matching example values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.net import Net
from explorer.net.definition.definition import BlobType, Dimension, NetDefinition, OperatorDefinition
from explorer.ops.elementwise.arithmetic import Add
from tests.support.pnnx_models import opened

MODELS = Path(__file__).parents[2] / "assets" / "models"
picture = np.random.default_rng(0).normal(size=(1, 3, 64, 64)).astype(np.float32)


def rules(recording: ex.Recording) -> list[tuple[str, str, str]]:
    return [(row.rule, row.verdict, row.code) for row in recording.decisions]


@pytest.mark.spec("I-10", "I-11", headline=True)
def test_the_explored_plan_is_the_plan_that_runs() -> None:
    """Record the time and values of each operator of a net in the plan that net.run uses."""
    net = opened("resnet18")
    wanted = net.run(picture)
    view = net.explore(picture)
    session = net.session
    program = session.program(session.build_for(session.arrays((picture,), {}), net.device))
    plan = net.plan(picture)
    assert plan.planned is program.planned is net.plan(picture.shape).planned
    assert rules(view.recording) == rules(plan.recording)
    assert ("Winograd", "applied", "tiles") in rules(view.recording)
    run = view.recording.run
    assert run is not None
    assert len(run.steps) == len(program.planned.schedule.kernels)
    assert all(step.micros > 0 for step in run.steps)
    kinds = view.recording.nodes.kind
    (given,) = [node for node in run.values if kinds[node] == "input"]
    assert run.values[given].mean == pytest.approx(picture.mean(), rel=1e-5)
    (asked,) = view.recording.bodies[0].outputs
    output = view.recording.resolver(view.recording.end).get(asked, asked)
    assert run.values[output].max == pytest.approx(wanted.max(), rel=1e-6)


@pytest.mark.spec("I-10")
def test_a_plan_of_arrays_is_run_on_them_and_on_others() -> None:
    """`net.plan(x).eval()` runs on x; eval accepts another value for its parameter."""
    net = opened("convbn")
    first, second = (np.full((1, 3, 32, 32), value, np.float32) for value in (0.5, -1.0))
    plan = net.plan(first, record="values").eval()
    assert plan.recording.run is not None
    again = net.plan(first)
    (handle,) = again._handles
    again.eval()
    np.testing.assert_array_equal(handle.data(), net.run(first))
    (parameter,) = again._bound
    (handle,) = (other := net.plan((1, 3, 32, 32)))._handles
    other.eval({parameter: second})
    np.testing.assert_array_equal(handle.data(), net.run(second))
    with pytest.raises(ex.StateError, match="has no value"):
        net.plan((1, 3, 32, 32)).eval()
    with pytest.raises(ex.OperandError, match=r"is float32 \(1, 3, 31, 32\)"):
        net.plan(first[:, :, 1:])


def test_a_plan_has_its_own_options_and_uses_new_rules() -> None:
    """Nets that ran before a rule was declared use it afterwards, in runs and in views."""
    net, x = opened("convbn"), np.ones((1, 3, 32, 32), np.float32)
    plain = net.plan(x)
    wanted = net.run(x)
    assert net.plan(x, without="fuse").planned is not plain.planned

    class FirstOfASum(ex.Rule):
        """Replace every sum with its first operand."""

        numerics = "exact"
        roots = (Add,)

        def match(self, node: ex.Expr, graph: Any) -> Any:
            (first, _) = graph.operands(node)
            return ex.Applied(first, "a test", {}, "wrong") if first.type == node.type else None

    try:
        assert ("FirstOfASum", "applied", "wrong") in rules(net.explore(x).recording)
        assert not np.allclose(net.run(x), wanted)
    finally:
        FirstOfASum.remove()
    assert net.plan(x).planned is plain.planned
    np.testing.assert_array_equal(net.run(x), wanted)


@pytest.mark.spec("V-7", "I-5")
@pytest.mark.parametrize(
    ("file", "shape", "title"),
    [
        ("models/resnet18.pnnx.param", (1, 3, 224, 224), "resnet18 (0: 1×3×224×224)"),
        ("models/mobilenet_v2.onnx", (1, 3, 224, 224), "mobilenet_v2 (x: 1×3×224×224)"),
        ("models/encoder_open.pnnx.param", (1, 32), "encoder_open (unknown length = 1)"),
        ("models/lstm.onnx", (2, 20), "lstm"),
        ("digits.onnx", (1, 1, 8, 8), "digits (batch = 1)"),
    ],
)
def test_a_file_with_unknown_lengths_is_drawn_for_a_plausible_input(
    file: str, shape: tuple[int, ...], title: str
) -> None:
    """For a classifier with unknown height and width it is one image of 224 × 224, and this is reported."""
    net = ex.open(MODELS.parent / file)
    assert list(net.example_shapes().values()) == [shape]
    recording = net.preview_plan().recording
    assert recording.title == title
    unknown = "unknown lengths" if "×" in title else "unknown length"
    assert net.preview_plan(unknown=2).recording.title == (
        title
        if "(" not in title
        else title.replace(title.partition("(")[2], "batch = 2)" if "batch" in title else f"{unknown} = 2)")
    )


def written(*shape: Dimension, flat: int = 0, pools: int = 0) -> Net:
    """Return a net for this input shape, with halvings and a final product for ``flat`` inputs."""
    value = [("nn.MaxPool2d", {"kernel_size": (2, 2), "stride": (2, 2)})] * pools
    if flat:
        value.append(("torch.flatten", {"start_dim": 1, "end_dim": -1}))
        value.append(("torch.reshape", {"shape": (-1, flat // 4, 4)}))
    operators = [
        OperatorDefinition(kind, f"o{place}", (str(place),), (str(place + 1),), arguments)
        for place, (kind, arguments) in enumerate(value)
    ]
    types = {"0": BlobType(shape, "float32")}
    definition = NetDefinition.of("n", operators, ["0"], [str(len(value))], types=types)
    return Net(definition, opened("convbn").table)


@pytest.mark.parametrize(
    ("net", "shape"),
    [
        (written(None, 3, None, None, pools=2), (1, 3, 224, 224)),
        (written("n", 1, "h", "w", flat=28 * 28), (1, 1, 224, 224)),
        (written("n", "h", "w", 3), (1, 224, 224, 3)),
        (written(None, 3, 100, None), (1, 3, 100, 224)),
        (written("n", "n", 5), (1, 1, 5)),
        (written(None, None, 7), (1, 16, 7)),
        (written(None, 64, None, None), (1, 64, 16, 16)),
        (written(None, None, None, None, pools=1), (1, 3, 224, 224)),
    ],
)
def test_unknown_lengths_become_one_image_or_a_short_sequence(net: Net, shape: tuple[int, ...]) -> None:
    assert net.example_shapes() == {"0": shape}
