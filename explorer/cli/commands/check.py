"""``explorer check``: list all problems that prevent a model from running, and differences from a stored plan.

The command is intended for scripts that build models. It computes nothing, and sets the exit status.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.cli.support import file_argument, opened_model
from explorer.cli.support.model_output import first_names, flow_text
from explorer.cli.support.output import check_output, stem
from explorer.cli.support.terminal import print_line, print_text
from explorer.core.errors import ExplorerError
from explorer.record.escape import shortened
from explorer.record.reasons import counted_text

if TYPE_CHECKING:
    from explorer.net import Net
    from explorer.net.definition.definition import NetDefinition

HELP = "list everything that prevents a model from running, or differs from a kept plan"
DESCRIPTION = """\
List the operators of a model that cannot run (unknown types, with similar known types; arguments and operands that do
not fit), missing weights, and operands whose type differs from the type in the file. Then list what the file states
about itself: description, producer, versions and metadata. Nothing is computed.

With --plan, compare the model's plan with a plan that is kept in a file: decisions, kernels and peak memory. The file
contains codes and facts, but no sentences and no times. Keep it next to the model, and a lost fusion fails the build:
  explorer check model.onnx --plan model.plan.json --update   write the file; review its diff before committing it
  explorer check model.onnx --plan model.plan.json            list the decisions that differ

The exit status is 1 if anything is listed.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    file_argument.arguments(parser)
    opened_model.arguments(parser)
    parser.add_argument("--plan", metavar="KEPT", type=Path, help="file of the kept plan: x.plan.json")
    parser.add_argument("--update", action="store_true", help="write the model's plan to the file of --plan")


_STATED, _WIDTH = 24, 100
"""maximum number of lines on what the file states, and of characters in each"""


def execute(options: argparse.Namespace) -> int:
    """Print the findings."""
    from explorer.formats.weight_tables.table import TABLE

    if options.update and options.plan is None:
        raise ExplorerError(
            "--update without --plan", rule="--update must be given together with --plan",
            fix=f"--plan {stem(options.file)}.plan.json",
        )  # fmt: skip
    if options.update:
        check_output(options.plan, [options.file])
    net = opened_model.opened(options)
    findings = net.check()
    print_text("".join(f"{finding}\n" for finding in findings))
    count = len(net.definition.operators)
    if findings:
        print_line(f"{net.name}: {counted_text(len(findings), 'finding')} in {counted_text(count, 'operator')}")
    elif net.definition.is_table or net.table is TABLE:
        weights = counted_text(len(net.definition.blobs), "weight")
        unreadable = [f"{each.name}.{own}" for each in net.definition.operators for own in each.arguments]
        rest = f", {len(unreadable):,} cannot ({first_names(unreadable)})" if unreadable else ""
        print_line(f"{net.name}: {weights} can be read{rest}; the file contains no graph to run")
    else:
        unsized = net.unsized()
        verb = "has a shape that depends" if len(unsized) == 1 else "have shapes that depend"
        note = f" ({len(unsized)} {verb} on values: {first_names(unsized)})" if unsized else ""
        subject = {0: "it has no operator, and", 1: "its operator"}.get(count, f"all {count:,} operators")
        print_line(f"{net.name}: {subject} can run{note}: {flow_text(net)}")
    print_text("".join(f"  {line}\n" for line in _stated(net.definition)))
    differs = options.plan is not None and _differs(net, options.plan, options.update)
    return 1 if findings or differs else 0


def _stated(definition: NetDefinition) -> list[str]:
    """Return lines on what the file states about itself and its operators."""
    lines = [f"{name}: {value}" for name, value in definition.stated]
    lines += [f"operator {operator.name!r}: {operator.doc}" for operator in definition.operators if operator.doc]
    keys = Counter([name for operator in definition.operators for name in dict(operator.metadata)])
    if keys:
        # Exporters give every operator the same keys, so values would fill the output.
        counts = ", ".join([f"{name} ({counted_text(count, 'operator')})" for name, count in keys.items()])
        lines.append(f"metadata of operators: {counts}")
    left = len(lines) - _STATED
    shown = [shortened(" ".join(line.split()), _WIDTH) for line in lines[:_STATED]]
    return [*shown, f"… and {counted_text(left, 'more line')}"] if left > 0 else shown


def _differs(net: Net, path: Path, update: bool) -> bool:
    """Compare a model's plan with the plan in a file, or update the file; return whether they differ."""
    from explorer.testing.kept_plan import plan_changes, write_plan

    recording = net.preview_plan().recording
    if update:
        write_plan(recording, path)
        print_line(f"{net.name}: its plan was written to {path}")
        return False
    lines = plan_changes(recording, path)
    print_text("".join(f"{line}\n" for line in lines))
    print_line(f"{net.name}: its plan {'differs from' if lines else 'equals'} the plan in {path}")
    return bool(lines)
