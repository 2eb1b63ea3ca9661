"""``explorer compare``: find where the values of a model go wrong, operator by operator."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explorer.cli.support import file_argument, image_inputs, integer_option, memory_option, runtime_option, table_file
from explorer.cli.support.output import check_output
from explorer.cli.support.terminal import print_line, print_note, print_text
from explorer.core.errors import OperandError
from explorer.record.escape import visible

if TYPE_CHECKING:
    from explorer.net import Net
    from explorer.net.value_comparison import ValueComparison

HELP = "find the operator at which a model's values go wrong"
DESCRIPTION = """\
Run a model and a reference on the same inputs, compare the value of each operator, and name the first that differs.
The reference comes first: a model file, a runtime, or a .npz file of arrays by operand name:
  explorer compare float.onnx int8.onnx --input x.npz     where a quantized or float16 model goes wrong
  explorer compare onnxruntime model.onnx --input x.npz   which operator another runtime computes differently

Operands are matched by name, through quantization and casts, or else by the graph. Floats are cast or quantized to the
dtype of each model, and the casts are listed. Quantized integers are compared as real numbers. Between precisions, a
table ranks the operators by their own error, computed from the reference's operands, without the errors of earlier
operators. The exit status is 1 if a value differs.

The extension of the output selects its form:
  .csv, .json  a row for each compared operand      .txt  text      .html  the graph, coloured by error
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "reference",
        metavar="A",
        help="the reference: a model file, onnxruntime, litert, onnx.reference, or a .npz file of operands",
    )
    parser.add_argument("file", metavar="B", type=Path, help=f"the model file to compare: {file_argument.GRAPHS}")
    image_inputs.declare_input(parser)
    parser.add_argument(
        "--tolerance",
        metavar="X",
        type=_tolerance,
        help="maximum relative error (default, for the lower precision: 1e-4, 1e-2 with 16 bits, 0.1 with 8 bits; "
        "0 for other integers)",
    )
    parser.add_argument(
        "--keep-in-float",
        metavar="K",
        type=integer_option.positive,
        help="also print the K operators with the largest own error, and those that compute their quantized operands, "
        "as nodes_to_exclude of onnxruntime's quantizer",
    )
    parser.add_argument("-o", "--output", metavar="OUT", type=Path, help="also write the comparison to a file")
    runtime_option.arguments(parser)
    memory_option.arguments(parser)
    image_inputs.arguments(parser)


def _tolerance(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a relative error of at least 0, such as 1e-3")
    return number


def execute(options: argparse.Namespace) -> int:
    """Compare the values, and print and write the comparison."""
    memory_option.grant(options)
    kernels = runtime_option.kernels_of(options)
    from explorer.cli.support.array_files import file_of, inputs
    from explorer.formats import open
    from explorer.runtimes import RUNTIMES

    if str(options.file) in RUNTIMES:
        raise OperandError(
            f"B is the runtime {options.file}",
            rule="the reference must come first, then the model file",
            fix=f"explorer compare {options.file} {visible(options.reference)}",
        )
    output: Path | None = options.output
    if output is not None:
        table_file.check_extension(output)
        check_output(output, [options.file, *map(file_of, (options.reference, *options.input))])
    reference = read_reference(options.reference)
    net = open(options.file)
    arrays = inputs(net, options)
    comparison = net.compare(
        reference, arrays, tolerance=options.tolerance, executor=options.runtime or "simple", kernels=kernels
    )
    if output is not None:
        _write(comparison, output)
    status = report(comparison)
    if options.keep_in_float:
        names = [visible(name) for name in comparison.keep_in_float(options.keep_in_float)]
        print_line(f"nodes_to_exclude={names}")
    return status


def report(comparison: ValueComparison) -> int:
    """Print a comparison; return the exit status."""
    print_text(f"{comparison}\n")
    return 0 if comparison.equal else 1


def _write(comparison: ValueComparison, output: Path) -> None:
    if output.suffix.lower() == ".html":
        comparison.explore().save(output)
    else:
        table_file.write(output, comparison.records(), f"{comparison}\n")
    print_note(f"wrote {output}")


def read_reference(text: str) -> str | dict[str, Any] | Net:
    """Return a reference: the name of a runtime, a dict of arrays, or a net."""
    from explorer.cli.support.array_files import file_of, read
    from explorer.formats import open
    from explorer.runtimes import RUNTIMES, installed

    if text in RUNTIMES:
        installed(text)
        return text
    path = file_of(text)
    if not path.suffix and not path.exists():
        known = ", ".join(RUNTIMES)
        raise OperandError(
            f"the reference {visible(text)}",
            rule=f"a reference must be one of {known}, another model file, or a .npz file of arrays",
            fix="explorer compare onnx.reference FILE --input in.npz",
        )
    return read(text) if path.suffix == ".npz" else open(path)
