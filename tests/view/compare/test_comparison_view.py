"""Comparisons of two plans: counts, decisions of one side, matched kernels and nodes, text, pictures, views."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import explorer as ex
from explorer.record.compare.comparison import compare
from explorer.view.compare.comparison_html import page_html
from explorer.view.compare.pair_payload import paired
from tests.golden.programs import PROGRAMS, recorded
from tests.support.programs import programs


def planned(roots: Any, **options: Any) -> ex.EvalPlan:
    plan = ex.EvalPlan(**options)
    for root in roots:
        plan.register(root)
    return plan.prepare()


def network(activation: Any = ex.tanh, *, more: bool = False) -> list[ex.Expr]:
    x, w = ex.tensor(np.ones((3, 4), np.float32), name="x"), ex.tensor(np.ones((4, 2), np.float32), name="w")
    y = activation(x @ w + 1.0) * 2.0
    return [ex.softmax(ex.relu(y) if more else y), y.sum()]


@pytest.mark.spec("P-9", "V-3", headline=True)
def test_two_plans_of_one_graph_are_compared() -> None:
    """Leave out a pass, and compare the options, counts, decisions and kernels of both plans of a graph."""
    roots = network()
    comparison = planned(roots).compare(planned(roots, without=["fuse"]))
    assert comparison.nodes.equal
    assert not comparison.equal
    assert comparison.options == {"without": ([], ["fuse"])}
    assert comparison.counts["kernels"] == (3, 6)
    assert comparison.counts["temporaries"] == (1, 4)
    assert comparison.counts["flops"][0] == comparison.counts["flops"][1]
    assert comparison.counts["estimated_us"][0] < comparison.counts["estimated_us"][1]
    assert comparison.counts["measured_us"] == (None, None)
    assert "epilogue" in [decision.code for decision in comparison.decisions_before]
    assert all(decision.rule != "Epilogue" for decision in comparison.decisions_after)
    assert {len(one.before): len(one.after) for one in comparison.kernels if not one.same} == {1: 4}
    text = str(comparison)
    assert "option without: nothing → fuse" in text
    kernels = next(line for line in text.splitlines() if line.startswith("  kernels "))
    assert kernels.split() == ["kernels", "3", "6", "+3", "(+100", "%)"]
    assert "1 matmul · add 1 · tanh · multiply 2 → 1 matmul, 2 add 1, 3 tanh, 4 multiply 2" in text
    assert text == comparison.text()


@pytest.mark.spec("P-9", "V-3")
def test_times_are_compared_if_both_plans_ran() -> None:
    """Measured times are listed next to the estimates, and are not in the canonical text."""
    plans = [planned(network()) for _ in range(2)]
    for plan in plans:
        plan.eval()
    comparison = plans[0].compare(plans[1])
    assert all(time is not None and time > 0 for time in comparison.counts["measured_us"])
    line = next(line for line in comparison.text(measured=True).splitlines() if line.startswith("  measured time"))
    assert line.count("s") >= 3
    assert "measured" not in comparison.text()
    assert "measured" not in comparison.html()
    assert comparison.equal


@pytest.mark.spec("P-9", "V-12")
def test_two_graphs_are_matched_by_structure() -> None:
    """An inserted node, a node with other operands and a changed node are listed with their lines."""
    before, after = planned(network()), planned(network(more=True))
    comparison = before.compare(after)
    labels = after.recording.nodes.label
    assert [labels[node] for node in comparison.nodes.only_after] == ["relu"]
    assert not comparison.nodes.only_before
    assert [before.recording.nodes.label[node] for node in comparison.nodes.changed] == ["softmax"]
    assert "+ relu 3×2 float32, test_comparison_view.py line " in str(comparison)
    back = after.compare(before)
    assert [labels[node] for node in back.nodes.only_before] == ["relu"]
    other = before.compare(planned(network(ex.sin)))
    assert "  - tanh 3×2 float32, " in str(other)
    assert "  + sin 3×2 float32, " in str(other)
    assert len(other.nodes.pairs) == len(before.recording.nodes) - 1


@pytest.mark.spec("P-9")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_plan_compared_with_itself_has_no_difference(name: str) -> None:
    comparison = compare(recorded(name), recorded(name))
    assert comparison.equal
    assert not comparison.options
    assert all(before == after for before, after in comparison.counts.values())
    assert all(node == other for node, other in comparison.nodes.pairs.items())


@pytest.mark.spec("P-9")
@settings(max_examples=40)
@given(programs())
def test_each_kernel_of_two_plans_is_matched_once(roots: list[ex.Expr]) -> None:
    """Whichever passes are omitted, every kernel of both plans occurs once in the comparison."""
    one, two = planned(roots), planned(roots, without=["simplify", "fuse", "batch"])
    comparison = one.compare(two)
    assert comparison.nodes.equal
    for side, plan in (("before", one), ("after", two)):
        numbers = [number for each in comparison.kernels for number in getattr(each, side)]
        assert sorted(numbers) == list(range(len(plan.recording.schedule.kernels)))
    assert comparison.text() == planned(roots).compare(planned(roots, without=["simplify", "fuse", "batch"])).text()


@pytest.mark.spec("V-3")
def test_two_views_step_and_select_together() -> None:
    """Two plans are shown side by side, and each view follows the stage, step and selection of the other."""
    comparison = planned(network()).compare(planned(network(more=True), without=["fuse"]))
    both: Any = comparison.explore(tied="steps")
    assert (both.before.stage, both.after.stage) == ("recorded", "recorded")
    both.before.stage = "order"
    assert both.after.stage == "order"
    assert both.before.is_whole
    assert both.after.is_whole
    both.before.step += 1
    assert both.before.place_of(both.before.step) == both.after.place_of(both.after.step) == ("order", 1)
    both.before.stage = "fuse"
    assert both.after.step == both.after.step_at("batch", 1_000)  # the other plan has no such stage
    both.tied = "nodes"
    both.before.stage = "order"
    both.before.step += 1  # its first kernel is four of the other plan
    assert both.before.place_of(both.before.step) == ("order", 1)
    assert both.after.place_of(both.after.step) == ("order", 4)
    both.tied = "off"
    here = both.after.step
    both.before.step = 0
    assert both.after.step == here
    both.tied = "nodes"
    labels = comparison.before.nodes.label
    both.before.selected = labels.index("softmax")
    assert comparison.after.nodes.label[both.after.selected] == "softmax"
    both.after.selected = comparison.after.nodes.label.index("relu")
    assert both.before.selected == -1


@pytest.mark.spec("V-3", "V-15")
def test_without_a_kernel_two_pictures_and_the_text_are_shown() -> None:
    """Without widgets both final graphs are shown side by side, with the counts below."""
    comparison = planned(network()).compare(planned(network(), without=["fuse"]))
    bundle = comparison._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert bundle["text/plain"] == comparison.text()
    assert bundle["text/html"].count("<svg") == 2
    assert "font-family:monospace" in bundle["text/html"]
    assert "<script" not in bundle["text/html"]
    assert "≠ 4 in other kernels" in bundle["text/html"]
    assert bundle["text/html"].count("≠ other kernel") == 4  # the fused kernel says it once, in its title
    assert bundle["text/html"].count("≠ kernel 1") == 1
    live = comparison.explore()._repr_mimebundle_()[0]
    assert {key: live[key] for key in bundle} == bundle
    assert "application/vnd.jupyter.widget-view+json" in live


@pytest.mark.spec("V-12", "V-15")
def test_pictures_mark_added_removed_and_changed_nodes() -> None:
    """Without scripts each differing node has a sign, a word and a colour, which match the text."""
    comparison = planned(network()).compare(planned(network(ex.sin, more=True)))
    before, after = comparison.html().split("<figure")[1:]
    assert "− removed" in before
    assert "+ added" not in before
    assert after.count("+ added<") == 2
    assert "→ reads something else" in before
    assert "→ reads something else" in after
    text = str(comparison)
    assert "  - tanh 3×2 float32, " in text
    assert "  + relu 3×2 float32, " in text
    assert ": reads tanh → sin" in text
    more = planned(network()).compare(planned([*network(), ex.tensor(np.ones(3), name="z") * 7.0]))
    assert [labels(more.after, more.nodes.only_after), "+ 2 added" in more.html()] == [["z", "multiply 7"], True]
    same = planned(network()).compare(planned(network()))
    assert "removed" not in same.html()
    assert same.html().count("no difference") == 2


@pytest.mark.spec("V-3", "V-12")
def test_the_payload_contains_the_data_of_both_views() -> None:
    """The payload contains pairs, words, kernels, steps and counts with units as JSON data, next to both payloads."""
    comparison = planned(network()).compare(planned(network(more=True)))
    data = json.loads(json.dumps(paired(comparison)))
    assert data["partners"][: len(comparison.nodes.pairs)] == [comparison.nodes.pairs[node] for node in range(10)]
    assert data["changed"] == list(comparison.nodes.changed)
    assert data["words"] == [["→ reads multiply 2 → relu"]]
    assert data["start"] == [0, 0]
    for sides in data["steps"].values():
        before, after = comparison.explore().before, comparison.explore().after
        assert [len(side) for side in sides] == [before.last_step + 1, after.last_step + 1]
        assert max(sides[0]) == after.last_step
        assert max(sides[1]) == before.last_step
    rows = {row[0]: row[1:] for row in data["counts"]}
    assert rows["peak memory"] == ["116 B", "116 B", ""]  # relu works where its operand stands
    assert rows["flops"] == ["210", "216", "+6 (+3 %)"]
    assert "measured time" not in rows


@pytest.mark.spec("V-3")
def test_grouped_samples_are_compared_with_single_ones() -> None:
    """A thousand calls compared with one batch of them give a short text, with equal differences merged."""
    w = ex.tensor(np.ones((4, 4), np.float32), name="w")

    @ex.function
    def sample(x: Any, w: Any) -> Any:
        return ex.tanh(x @ w)

    roots = [sample(ex.tensor(np.full((1, 4), n, np.float32), name=f"x{n}"), w) for n in range(1000)]
    comparison = planned(roots).compare(planned(roots, without=["batch"]))
    assert comparison.nodes.equal
    assert comparison.counts["estimated_us"][0] < comparison.counts["estimated_us"][1]
    assert "batched" in {decision.code for decision in comparison.before.decisions}
    assert "1,000 calls to `sample`" in comparison.text()
    assert len(comparison.text()) < 6_000
    assert len(json.dumps(comparison._repr_mimebundle_())) < 150_000


def test_the_page_of_a_comparison_contains_both_plans_and_loads_nothing() -> None:
    """The page has one script, a policy, both payloads, and pictures for readers without scripts."""
    comparison = planned(network()).compare(planned(network(more=True)))
    page = page_html(comparison, theme="dark")
    assert page.count("<script") == 2
    assert "default-src 'none'" in page
    assert page.count("<svg") == 2
    data = json.loads(re.search(r'id="explorer-data">(.*?)</script>', page)[1])  # type: ignore[index]
    assert [each["options"]["theme"] for each in data["payloads"]] == ["dark", "dark"]
    with pytest.raises(ValueError, match="theme 'blue'"):
        page_html(comparison, theme="blue")


def test_a_plan_can_be_compared_only_with_plans_and_recordings() -> None:
    plan = planned(network())
    assert plan.compare(plan.recording).equal
    with pytest.raises(ex.OperandError, match="comparing a plan with a list"):
        plan.compare([])  # type: ignore[arg-type]


def test_the_repr_of_a_comparison_is_one_line() -> None:
    comparison = planned(network()).compare(planned(network(), without=["fuse"]))
    first, second = comparison.before.fingerprint, comparison.after.fingerprint
    text = f"<comparison of {first} with {second}: 10 nodes matched"
    assert repr(comparison).startswith(text)
    assert repr(comparison).endswith("decisions of one side only, 1 groups of kernels differ>")


@pytest.mark.spec("V-12")
def test_two_nets_are_compared_in_a_notebook() -> None:
    """A comparison of a net with an edited copy lists the inserted operator with its name in the file."""

    def written(activation: bool) -> ex.Net:
        net = ex.Net("mlp")
        net.input("x", (None, 4))
        net.GivenTensorFill([], "w", values=np.ones((3, 4), np.float32))
        net.GivenTensorFill([], "b", values=np.ones(3, np.float32))
        net.FC(["x", "w", "b"], "h")
        if activation:
            net.Relu("h", "y")
        net.Softmax("y" if activation else "h", "out")
        net.output("out")
        return net

    comparison = written(False).compare(written(True))
    assert labels(comparison.after, comparison.nodes.only_after) == ["relu"]
    assert list(comparison.nodes.changed.values()) == [("reads add → relu",)]
    assert written(False).compare(written(False)).nodes.equal
    with pytest.raises(ex.OperandError, match="comparing net 'mlp' with 'another', without inputs"):
        written(True).compare("another")


def labels(recording: Any, nodes: Any) -> list[str]:
    return [recording.label(node) for node in nodes]


@pytest.mark.spec("V-12")
def test_hostile_names_stay_text_in_a_comparison() -> None:
    """Names, titles and options from files are escaped in pictures, page and text."""
    evil = "</script><img src=x onerror=alert(1)>\x1b[31m"

    def plan(name: str) -> ex.EvalPlan:
        x = ex.tensor(np.ones(3, np.float32), name=name)
        return planned([ex.exp(x)], title=name)

    comparison = plan("x").compare(plan(evil))
    for written in (comparison.html(), page_html(comparison)):
        assert "<img" not in written
        assert "\x1b" not in written
    assert page_html(comparison).count("</script>") == 2
    assert "\x1b" not in str(comparison)
    assert "\\x1b[31m" in str(comparison)
