"""``explorer check``: all problems that keep a model from running, or from being planned as before.

For scripts that build models: it computes nothing, lists all findings rather than only the first, and reports them by
its exit status.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.cli.support import file_argument, shape_option
from explorer.cli.support.output import check_output, stem
from explorer.cli.support.terminal import say, tell
from explorer.core.errors import ExplorerError
from explorer.record.reasons import counted_text

if TYPE_CHECKING:
    from explorer.net import Net
    from explorer.net.definition.definition import BlobDefinition

HELP = "list everything that keeps a model from running, or differs from a kept plan"
DESCRIPTION = """\
List all operators of a model that cannot run (unknown types, with the near known ones; arguments and operands that do
not fit), missing weights, and operands whose type is another than the file notes. Computes nothing.

With --plan the model's plan is compared with one that is kept in a file: decisions, kernels and the peak of memory. A
file holds codes and facts, no sentences or times; keep it beside the model, and a lost fusion fails the build:
  explorer check model.onnx --plan model.plan.json --update   writes it; look at its difference before committing it
  explorer check model.onnx --plan model.plan.json            lists the decisions that differ

The exit status is 1 where there is anything to list.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    file_argument.arguments(parser)
    shape_option.arguments(parser)
    parser.add_argument("--plan", metavar="KEPT", type=Path, help="a kept plan to compare with: x.plan.json")
    parser.add_argument("--update", action="store_true", help="write the file of --plan anew where the plan differs")


_LISTED = 4
"""maximum number of inputs, and of outputs, that are listed"""


def execute(options: argparse.Namespace) -> int:
    """Print the findings."""
    from explorer.formats import open
    from explorer.formats.weight_tables.table import TABLE

    if options.update and options.plan is None:
        raise ExplorerError(
            "--update without --plan", rule="--update must be given together with --plan",
            fix=f"--plan {stem(options.file)}.plan.json",
        )  # fmt: skip
    if options.update:
        check_output(options.plan, [options.file])
    net = shape_option.assume(open(options.file), options)
    findings = net.check()
    tell("".join(f"{finding}\n" for finding in findings))
    count = len(net.definition.operators)
    if findings:
        say(f"{net.name}: {counted_text(len(findings), 'finding')} in {counted_text(count, 'operator')}")
    elif net.definition.is_table or net.table is TABLE:
        held = len(net.definition.blobs)
        strange = [f"{each.name}.{own}" for each in net.definition.operators for own in each.arguments]
        others = f", {len(strange):,} cannot ({_first(strange)})" if strange else ""
        say(f"{net.name}: {counted_text(held, 'weight')} can be read{others}; there is no graph that could run")
    else:
        waiting = net.unsized()
        verb = "has a shape that depends" if len(waiting) == 1 else "have shapes that depend"
        later = f" ({len(waiting)} {verb} on values: {_first(waiting)})" if waiting else ""
        whole = {0: "it has no operator, and", 1: "its operator"}.get(count, f"all {count:,} operators")
        say(f"{net.name}: {whole} can run{later}: {_ends(net.inputs) or 'no input'} → {_ends(net.outputs)}")
    differs = options.plan is not None and _differs(net, options.plan, options.update)
    return 1 if findings or differs else 0


def _first(names: Sequence[str]) -> str:
    """Return some names as text."""
    return ", ".join(names[:_LISTED]) + f" and {len(names) - _LISTED:,} more" * (len(names) > _LISTED)


def _ends(operands: Mapping[str, BlobDefinition]) -> str:
    """Return operands with the shapes declared in the file: ``x batch×seq×64``."""
    from explorer.net.definition.declared_types import symbolic_text

    texts = [
        f"{name} {symbolic_text(blob.shape)}" if blob.shape is not None else name for name, blob in operands.items()
    ]
    return _first(texts)


def _differs(net: Net, path: Path, update: bool) -> bool:
    """Compare the plan of a model with the plan in a file, or write that file; return whether they differ."""
    from explorer.testing.kept_plan import plan_changes, write_plan

    recording = net.preview_plan().recording
    if update:
        write_plan(recording, path)
        say(f"{net.name}: its plan is kept in {path}")
        return False
    lines = plan_changes(recording, path)
    tell("".join(f"{line}\n" for line in lines))
    say(f"{net.name}: its plan {'differs from' if lines else 'is'} the one in {path}")
    return bool(lines)
