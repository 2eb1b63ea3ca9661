"""``explorer why``: an operator's nodes are told as one."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.cli import main

MODEL = str(Path(__file__).parents[3] / "assets" / "digits.pnnx.param")


@pytest.mark.spec("V-2")
def test_an_operator_has_one_heading_its_decisions_once_and_its_silent_nodes_last(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`explorer why` tells an operator once: where it is, then decisions, kernels, and the nodes without any."""
    assert main(["why", MODEL, "conv2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "conv2: 5 nodes"
    assert lines[1].startswith("recorded at digits.pnnx.param line 6: nn.Conv2d ")
    assert lines[2] == "scope conv2"
    assert lines[3].startswith("  algorithms ✗ Winograd (plan/passes/algorithms.py): ")
    assert lines[-2].startswith("kernel 2 conv2d → add: ")
    assert lines[-1] == "no rule matched conv2.weight, conv2.bias, reshape"
    assert len(set(lines)) == len(lines)


@pytest.mark.spec("V-2")
def test_facts_of_the_whole_plans_memory_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", MODEL, "conv2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("  buffers ✓ Pack "))
    assert not lines[place + 1].startswith("      ")
    fused = next(number for number, line in enumerate(lines) if line.startswith("  fuse ✓ Epilogue "))
    assert lines[fused + 1] == "      operations: conv2d → add"


@pytest.mark.spec("V-2")
def test_an_operator_of_one_node_is_told_as_that_node(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", MODEL, "softmax"]) == 0
    assert capsys.readouterr().out.startswith("softmax · 1×10 float32\nrecorded at digits.pnnx.param line 18: ")
