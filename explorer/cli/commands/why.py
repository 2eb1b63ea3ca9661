"""``explorer why``: the decisions about a node of a model, with the rules declined before each."""

from __future__ import annotations

import argparse
from pathlib import Path

from explorer.cli.support.terminal import say, tell

HELP = "tell what was decided about an operator or operand, and why"
DESCRIPTION = """\
Tell the story of an operator or an operand, by its name in the file: where it was written, every decision about it with
its facts, every declined decision before it, and what became of it. An operator of several nodes is told once, with
the decisions about all of them.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="FILE", type=Path, help="a model's file: x.onnx, x.pnnx.param, x.json")
    parser.add_argument(
        "node", metavar="NODE", help="the name of an operator, of an operand, or of a weight (fc.weight)"
    )


def execute(options: argparse.Namespace) -> int:
    """Print the history of the nodes."""
    from explorer.formats import open
    from explorer.run.recording.recorder import expressions
    from explorer.view.export.history_text import why_operator

    net = open(options.file)
    uids = {node.uid for node in net.nodes(options.node)}
    plan = net.preview_plan()
    nodes = [number for number, node in enumerate(expressions(plan.planned)) if node.uid in uids]
    if nodes:
        tell(why_operator(plan.recording, options.node, nodes))
    else:
        say(f"{options.node}: no node; its value is a plain number, or nothing reads it")
    return 0
