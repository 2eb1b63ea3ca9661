"""``explorer run``: compute the outputs of a model for arrays or images."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from explorer.cli.commands import compare
from explorer.cli.support import (
    file_argument,
    image_inputs,
    integer_option,
    memory_option,
    opened_model,
    runtime_option,
)
from explorer.cli.support.output import check_output, extension_error
from explorer.cli.support.terminal import print_line, print_note, print_text
from explorer.core.errors import OperandError
from explorer.core.files.atomic_write import write_file

HELP = "run a model on arrays or pictures"
DESCRIPTION = """\
Run a model on arrays or pictures, describe its outputs, and write them, by name, to a .npz file.

Arrays are matched to the model's inputs by name, or in order if there are as many arrays as inputs. If a file contains
more arrays, select those to use: --input digits.npz:images. Floats are cast to the model's floating dtype.

Pictures are turned upright, resized, cropped to the height and width of the model, and normalized, as torchvision does
for ImageNet. Several pictures become one batch. With --top, the labels of the largest scores are printed:
  explorer run resnet18.pnnx.param --input cat.jpg --top 5 --labels imagenet.txt
"""


_SHOWN, _LONGEST = 8, 60
"""maximum number of printed strings of an output, and of printed characters of each"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    file_argument.arguments(parser, weights=False)
    image_inputs.declare_input(parser)
    opened_model.declare_signature(parser)
    parser.add_argument("-o", "--output", metavar="OUT", type=Path, help="the .npz file to write the outputs to")
    parser.add_argument(
        "--top",
        metavar="K",
        type=integer_option.positive,
        help="print the K largest elements of each row, with their indices",
    )
    parser.add_argument("--labels", metavar="FILE", type=Path, help="labels of the indices for --top, one per line")
    parser.add_argument(
        "--softmax",
        choices=("auto", "yes", "no"),
        default="auto",
        help="whether --top converts rows to probabilities; auto converts rows that are not probabilities yet",
    )
    parser.add_argument("--compare", metavar="REFERENCE", help=argparse.SUPPRESS)  # until the next release
    parser.add_argument("--plan", action="store_true", help="print the plan with every decision and kernel")
    runtime_option.arguments(parser)
    memory_option.arguments(parser)
    image_inputs.arguments(parser)


def execute(options: argparse.Namespace) -> int:
    """Run the model, print the outputs, and write them."""
    memory_option.grant(options)
    from explorer.cli.support.array_files import file_of, inputs, members, npz
    from explorer.cli.support.top_k import check_labels, labels_of, probabilities, ranking
    from explorer.formats import open
    from explorer.net.definition.declared_types import cast_floats

    output: Path | None = options.output
    if output is not None:
        if output.suffix != ".npz":
            raise extension_error(output, ".npz", ".npz")
        named = [text for text in (options.compare, options.labels) if text is not None]
        check_output(output, [options.file, *[file_of(str(text)) for text in (*options.input, *named)]])
    for name, default in (("labels", None), ("softmax", "auto")):
        if getattr(options, name) != default and not options.top:
            raise OperandError(
                f"--{name} without --top", rule=f"--{name} must be given together with --top", fix="--top 5"
            )
    kernels = runtime_option.kernels_of(options)
    net = open(options.file, signature=options.signature)
    if not options.runtime:
        net.init()
    labels = labels_of(options.labels) if options.labels else []
    if options.labels:
        for name, blob in net.outputs.items():
            check_labels(labels, options.labels, name, blob.shape or ())
    arrays, casts = cast_floats(net.definition, inputs(net, options))
    for cast in casts:
        print_note(f"cast: {cast}")
    reference = None
    if options.compare is not None:
        print_note(f"--compare is deprecated; use explorer compare {options.compare} {options.file}")
        reference = compare.read_reference(options.compare)
    outputs = net.run(arrays, executor=options.runtime or "simple", kernels=kernels)
    by_name = outputs if isinstance(outputs, dict) else {next(iter(net.outputs)): outputs}
    for name, value in by_name.items():
        if value is None or (isinstance(value, tuple) and not value):
            print_line(f"{name}: {'absent' if value is None else 'an empty sequence'}")
    results = {name: array for name, array in members(by_name).items() if array is not None}
    if options.plan:
        from explorer.view.export.text import text

        if options.runtime:
            print_text(text(net.recorded_by(options.runtime, arrays)))
        else:
            shapes = {name: _shape(value) for name, value in arrays.items()}
            print_text(text(net.plan(shapes, kernels=kernels).recording))
    rows = options.input if any(map(image_inputs.is_picture, options.input)) else []
    for name, array in results.items():
        print_line(f"{name}: {_described(array)}")
        if options.top:
            if options.labels:
                check_labels(labels, options.labels, name, array.shape)
            ranked, conversion = probabilities(array, options.softmax)
            if conversion:
                print_line(f"  {conversion}")
            print_text("".join(f"{line}\n" for line in ranking(ranked, options.top, labels, rows)))
    if output is not None:
        write_file(output, npz(results))
        print_note(f"wrote {output}")
    if reference is None:
        return 0
    return compare.report(net.compare(reference, arrays))


def _shape(value: Any) -> Any:
    """Return the shape of an array, or the shapes of a sequence's elements."""
    return tuple([member.shape for member in value]) if isinstance(value, list) else tuple(value.shape)


def _described(array: Any) -> str:
    """Return an output's dtype and shape, with its first strings or the range of its numbers."""
    from explorer.core.types.custom_dtypes import dtype_name, is_text
    from explorer.record.escape import visible

    kind = f"{dtype_name(array.dtype)} {array.shape}"
    if is_text(array.dtype):
        strings = [visible(repr(str(text)))[:_LONGEST] for text in array.flat[:_SHOWN]]
        return ", ".join([kind, *strings, *["…"] * (array.size > _SHOWN)])
    if not array.size or array.dtype.kind not in "fiu":
        return kind
    import numpy as np

    finite = array[np.isfinite(array)]
    nan, infinite = int(np.isnan(array).sum()), int(np.isinf(array).sum())
    counts = [f"{count:,} {noun}" for count, noun in ((nan, "NaN"), (infinite, "infinite")) if count]
    value_range = f"{finite.min():.6g} to {finite.max():.6g}" if finite.size else "no finite number"
    return ", ".join([kind, value_range, *([f"{' and '.join(counts)} of {array.size:,}"] if counts else [])])
