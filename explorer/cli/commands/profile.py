"""``explorer profile``: the time of each operator and of each operator type."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explorer.cli.support import (
    file_argument,
    image_inputs,
    integer_option,
    memory_option,
    opened_model,
    runtime_option,
    table_file,
)
from explorer.cli.support.output import check_output
from explorer.cli.support.terminal import print_note, print_text
from explorer.core.errors import OperandError

if TYPE_CHECKING:
    from explorer.net import Net
    from explorer.record import Recording

HELP = "measure the time of each operator"
DESCRIPTION = """\
Run a model several times, and print the median time of each operator and of each operator type, with its share of the
total, flops and bytes. Operators that one kernel computes are one row. Without --input, the inputs are random numbers,
or zeros for integers.

The extension of the output selects its form:
  .csv, .json  a row for each kernel, or for each type      .txt  text      .html  the graph, coloured by time
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    file_argument.arguments(parser, weights=False)
    image_inputs.declare_input(parser, "by default, the inputs are random")
    parser.add_argument("--by", choices=("operator", "type"), help="print or write only this table")
    parser.add_argument(
        "--runs", metavar="N", type=integer_option.positive, default=5, help="number of measured runs (default: 5)"
    )
    parser.add_argument("-o", "--output", metavar="OUT", type=Path, help="write the times to a file")
    opened_model.arguments(parser)
    runtime_option.arguments(parser)
    memory_option.arguments(parser)
    image_inputs.arguments(parser)


def execute(options: argparse.Namespace) -> int:
    """Measure the times, and print or write them."""
    memory_option.grant(options)
    from explorer.cli.support.array_files import file_of, inputs

    output: Path | None = options.output
    if output is not None:
        table_file.check_extension(output)
        check_output(output, [options.file, *map(file_of, options.input)])
    kernels = runtime_option.kernels_of(options)
    net = opened_model.opened(options)
    arrays = inputs(net, options) if options.input or not net.inputs else _random(net, options)
    executor = options.runtime or "simple"
    profile = net.profile(arrays, runs=options.runs, executor=executor, kernels=kernels)
    if output is None:
        print_text(f"{profile.text(options.by or '')}\n")
        return 0
    if output.suffix.lower() == ".html":
        recording = net.explore(arrays, executor=executor, kernels=kernels).recording
        _write_page(recording, output)
    else:
        table_file.write(output, profile.records(options.by or "operator"), f"{profile.text(options.by or '')}\n")
    print_note(f"wrote {output}")
    return 0


def _write_page(recording: Recording, output: Path) -> None:
    from explorer.save_view import save
    from explorer.view.export.writers import ViewState

    save(recording, output, ViewState(heat="time"))


def _random(net: Net, options: argparse.Namespace) -> dict[str, Any]:
    """Return arrays of the shapes in the file: normally distributed floats, and zeros of other dtypes."""
    import numpy as np

    from explorer.net.definition.declared_types import shape_text

    image_inputs.refuse_options(options)
    generator = np.random.default_rng(0)
    arrays = {}
    for name, shape in net.example_shapes().items():
        blob = net.inputs[name]
        if blob.container:
            raise OperandError(
                f"no --input for {name!r}, which is a {blob.container}",
                rule="inputs that are not arrays must be given",
                fix="--input in.npz",
            )
        dtype = net.session.declared_type(name, shape).dtype
        is_float = dtype.kind in "fc"
        arrays[name] = generator.normal(size=shape).astype(dtype) if is_float else np.zeros(shape, dtype)
        print_note(f"input {name!r}: {shape_text(shape)} {dtype.name}, {'random' if is_float else 'zeros'}")
    return arrays
