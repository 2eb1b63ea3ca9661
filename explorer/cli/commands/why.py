"""``explorer why``: explain the decisions about a model's node, with the rules declined before each."""

from __future__ import annotations

import argparse
from contextlib import suppress

from explorer.cli.support import compiler_option, file_argument, opened_model
from explorer.cli.support.terminal import print_line, print_text

HELP = "explain the decisions about an operator or operand"
DESCRIPTION = """\
Explain an operator or operand, by its name in the file, or a box, by its name in the view, also inside branches and
loops. In a recording, variables and operations are names, too. The answer states where it was written, every decision
about it with its facts and with the declined decisions before it, and what became of it. If an operator cannot run, it
states why. The decisions about all nodes of an operator are listed together. For an expression of PNNX, the syntax
tree is printed, too. With a second name, explain the decisions about both, or what became of each. With --with, the
decisions are those of another compiler, such as onnxruntime, and FILE may be a variable of a Python file (x.py:f).
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    file_argument.arguments(parser)
    parser.add_argument(
        "node",
        metavar="NODE",
        help="the name of an operator, an operand, a weight (fc.weight), or a box (layer1 / conv2, layer1.conv2)",
    )
    parser.add_argument(
        "other",
        metavar="OTHER",
        nargs="?",
        help="a second name, to list the decisions about both, such as why they are not fused",
    )
    opened_model.arguments(parser)
    compiler_option.arguments(parser, several=False)


def execute(options: argparse.Namespace) -> int:
    """Print the decisions about the nodes."""
    from explorer.core.errors import OperandError, UnknownNameError
    from explorer.formats.pnnx.param_reader import EXPRESSION
    from explorer.formats.pnnx.syntax_tree import syntax_tree
    from explorer.formats.recording_file import stored_recording
    from explorer.record.escape import visible
    from explorer.run.recording.recorder import expressions
    from explorer.view.export.why_text import why_operator, why_pair
    from explorer.view.tree.scopes import nodes_named

    names = [name for name in (options.node, options.other) if name is not None]
    if options.compilers or options.args:
        recording = next(iter(compiler_option.recordings(options, run=False).values()), None)
    else:
        recording = stored_recording(options.file)
        if recording is not None:
            file_argument.refuse_for_recording(options, "why", "shape", "signature")
    if recording is not None:
        first, *second = [nodes_named(recording, name) for name in names]
        print_text(why_pair(recording, first, second[0], names) if second else why_operator(recording, names[0], first))
        return 0
    net = opened_model.opened(options)
    plan = net.preview_plan()
    index_of = {node.uid: index for index, node in enumerate(expressions(plan.planned))}

    def rows_of(name: str) -> list[int]:
        try:
            nodes = net.nodes(name)
        except UnknownNameError:
            # The recording also has the names of boxes, and the operators of branches and bodies.
            with suppress(OperandError):
                return nodes_named(plan.recording, name)
            raise
        return sorted(index_of[node.uid] for node in nodes if node.uid in index_of)

    rows = [rows_of(name) for name in names]
    missing = [name for name, nodes in zip(names, rows, strict=True) if not nodes]
    if missing:
        print_line(f"{missing[0]}: it has no node, because its value is a plain number, or because nothing reads it")
    elif len(rows) == 2:
        print_text(why_pair(plan.recording, rows[0], rows[1], names))
    else:
        print_text(why_operator(plan.recording, options.node, rows[0]))
        operator = net.operators.get(options.node)
        problems, operand = net.problems(), net.operands.get(options.node)
        for name in dict.fromkeys((options.node, operand.producer if operand else None)):
            if error := problems.get(name or ""):
                parts = [f"cannot run: {error.given}", f"  rule: {error.rule}", f"  fix: {error.fix}"]
                print_text("".join(f"{visible(part)}\n" for part in parts))
        if operator is not None and operator.type == EXPRESSION:
            print_text(f"syntax tree of {syntax_tree(operator)}\n")
    return 0
