"""Syntax trees of expressions: as text, as a graph, and in `explorer why`."""

from __future__ import annotations

from pathlib import Path

import pytest

import explorer as ex
from explorer.cli.main import main
from explorer.view.export.text import text

WRITTEN = "add(mul(sub(@0,@1),sub(@0,@1)),[size(@0,1),2.5])"


def written(folder: Path, expression: str = "add(mul(@0,@1),@0)") -> Path:
    """Write a file with one expression."""
    lines = [
        "pnnx.Input in0 0 1 a #a=(2,3)f32", "pnnx.Input in1 0 1 b #b=(2,3)f32",
        f"pnnx.Expression sum 2 1 a b y expr={expression}", "pnnx.Output out 1 0 y",
    ]  # fmt: skip
    path = folder / "x.param"
    path.write_text("\n".join(["7767517", "4 3", *lines]) + "\n")
    return path


@pytest.mark.spec("I-7")
def test_a_syntax_tree_is_shown_as_lines_and_as_a_graph() -> None:
    """`ex.syntax_tree(net["sum"])`, or of a string: `print` shows the tree, and `explore` its graph next to the
    text."""
    tree = ex.syntax_tree(WRITTEN)
    assert str(tree).splitlines() == [
        WRITTEN, "add", "├ mul", "│ ├ sub", "│ │ ├ @0", "│ │ └ @1", "│ └ sub", "│   ├ @0", "│   └ @1", "└ list",
        "  ├ size", "  │ ├ @0", "  │ └ 1", "  └ 2.5",
    ]  # fmt: skip
    recording = tree.explore().recording
    nodes = recording.nodes
    labels = [recording.label(node) for node in range(len(nodes))]
    assert sorted(labels) == ["1", "2.5", *["@0"] * 3, *["@1"] * 2, "add", "list", "mul", "size", "sub", "sub"]
    edges = {(labels[read], labels[node]) for node in range(len(nodes)) for read in nodes.operands[node]}
    assert {("mul", "add"), ("list", "add"), ("sub", "mul"), ("size", "list"), ("1", "size")} <= edges
    assert {source.text for source in recording.sources} == {WRITTEN}
    assert "`sub` is computed once" in text(recording)


def test_the_tree_of_an_operator_names_its_operands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path)
    lines = ["add(mul(@0,@1),@0)", "add", "├ mul", "│ ├ @0 a", "│ └ @1 b", "└ @0 a"]
    net = ex.open(path)
    assert str(ex.syntax_tree(net["sum"])).splitlines() == lines
    assert main(["why", str(path), "sum"]) == 0
    assert capsys.readouterr().out.endswith("syntax tree of " + "\n".join(lines) + "\n")
    with pytest.raises(ex.OperandError, match="the syntax tree of 3"):
        ex.syntax_tree(3)  # type: ignore[arg-type]
    with pytest.raises(ex.ExplorerError, match="frob"):
        ex.syntax_tree("frob(@0)")


def test_misplaced_brackets_are_reported_and_deep_trees_cause_no_recursion() -> None:
    assert "misplaced" in str(ex.syntax_tree("add(add(@1,log10(@0)),log1p),@0)")).splitlines()[0]
    deep = ex.syntax_tree("neg(" * 3000 + "@0" + ")" * 3000)
    assert len(str(deep).splitlines()) == 3002
    with pytest.raises(ex.RunError, match="must be looked at"):
        ex.evaluate(ex.syntax_tree("neg(@0)")._recorded())
