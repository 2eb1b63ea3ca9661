"""``explorer run``: compute the outputs of a model for arrays or images."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explorer.cli.support import file_argument, image_inputs, memory_option
from explorer.cli.support.output import check_output, ending_error
from explorer.cli.support.terminal import report, say, tell
from explorer.core.errors import OperandError
from explorer.core.files.atomic_write import write_file

if TYPE_CHECKING:
    from explorer.net import Net

HELP = "run a model on arrays or pictures"
DESCRIPTION = """\
Run a model on arrays or pictures, print what its outputs are, and write them, by name, to a .npz file.

Arrays are found by the names of the model's inputs; with as many arrays as inputs they are taken in order. A file with
more arrays names those that are meant: --input digits.npz:images

Pictures are turned upright, resized, cut to the height and width of the model, and normalised, as torchvision does for
ImageNet; several become one batch. Names for the largest scores are printed with --top:
  explorer run resnet18.pnnx.param --input cat.jpg --top 5 --labels imagenet.txt
"""


_SHOWN, _LONGEST = 8, 60
"""maximum number of an output's strings that are printed, and of characters of each"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    file_argument.arguments(parser, weights=False)
    parser.add_argument(
        "--input",
        metavar="IN[:KEY]",
        action="append",
        default=[],
        help="a .npz or .npy file, or a picture; may be given again; a model without inputs needs none",
    )
    parser.add_argument("-o", "--output", metavar="OUT", type=Path, help="a .npz file for the outputs")
    parser.add_argument(
        "--top", metavar="K", type=_positive, help="print the K largest elements of each row, with their places"
    )
    parser.add_argument("--labels", metavar="FILE", type=Path, help="names of the places, one a line, for --top")
    parser.add_argument(
        "--softmax",
        choices=("auto", "yes", "no"),
        default="auto",
        help="whether --top makes probabilities of the rows: auto does where they are none yet",
    )
    parser.add_argument(
        "--compare",
        metavar="REFERENCE",
        help="compare each operator's value with onnxruntime, onnx.reference, another model's file, or arrays by "
        "operand's name in a .npz file; the exit status is 1 if one differs",
    )
    parser.add_argument("--plan", action="store_true", help="print the plan: every decision, every kernel")
    memory_option.arguments(parser)
    image_inputs.arguments(parser)


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer of at least 1")
    return int(text)


def execute(options: argparse.Namespace) -> int:
    """Run the model, print the outputs, and write them."""
    memory_option.grant(options)
    from explorer.cli.support.array_files import file_of, inputs, members, npz
    from explorer.cli.support.top_k import check_labels, labels_of, probabilities, ranking
    from explorer.formats import open

    output: Path | None = options.output
    if output is not None:
        if output.suffix != ".npz":
            raise ending_error(output, ".npz", ".npz")
        named = [text for text in (options.compare, options.labels) if text is not None]
        check_output(output, [options.file, *[file_of(str(text)) for text in (*options.input, *named)]])
    for name, default in (("labels", None), ("softmax", "auto")):
        if getattr(options, name) != default and not options.top:
            raise OperandError(
                f"--{name} without --top", rule=f"--{name} must be given together with --top", fix="--top 5"
            )
    net = open(options.file).init()
    labels = labels_of(options.labels) if options.labels else []
    if options.labels:
        for name, blob in net.outputs.items():
            check_labels(labels, options.labels, name, blob.shape or ())
    arrays = inputs(net, options)
    reference = None if options.compare is None else _reference(net, options.compare)
    outputs = net.run(arrays)
    whole = outputs if isinstance(outputs, dict) else {next(iter(net.outputs)): outputs}
    for name, value in whole.items():
        if value is None or (isinstance(value, tuple) and not value):
            say(f"{name}: {'absent' if value is None else 'a sequence without members'}")
    results = {name: array for name, array in members(whole).items() if array is not None}
    if options.plan:
        from explorer.view.export.text import text

        shapes = {name: _shape(value) for name, value in arrays.items()}
        tell(text(net.plan(shapes).recording))
    rows = options.input if any(map(image_inputs.is_picture, options.input)) else []
    for name, array in results.items():
        say(f"{name}: {_described(array)}")
        if options.top:
            if options.labels:
                check_labels(labels, options.labels, name, array.shape)
            ranked, done = probabilities(array, options.softmax)
            if done:
                say(f"  {done}")
            tell("".join(f"{line}\n" for line in ranking(ranked, options.top, labels, rows)))
    if output is not None:
        write_file(output, npz(results))
        report(f"wrote {output}")
    if reference is None:
        return 0
    comparison = net.compare(reference, arrays)
    tell(f"{comparison}\n")
    return 0 if comparison.equal else 1


def _shape(value: Any) -> Any:
    """Return the shape of an array, or the shapes of a sequence's elements."""
    return tuple([member.shape for member in value]) if isinstance(value, list) else tuple(value.shape)


def _reference(net: Net, text: str) -> Any:
    """Return what ``--compare`` names: the name of a runtime that can run the net's file, the arrays of a file, or a
    net."""
    from explorer.cli.support.array_files import file_of, read
    from explorer.formats import open
    from explorer.formats.onnx.reference_values import RUNTIMES, check_runtime

    if text in RUNTIMES:
        check_runtime(net, text)
        return text
    path = file_of(text)
    if not path.suffix and not path.exists():
        known = ", ".join(RUNTIMES)
        raise OperandError(
            f"--compare {text}",
            rule=f"a reference must be one of {known}, another model's file, or a .npz file of arrays",
            fix="--compare onnx.reference",
        )
    return read(text) if path.suffix == ".npz" else open(path)


def _described(array: Any) -> str:
    """Return dtype and shape of an output, and its first strings, or the range of its numbers."""
    from explorer.core.types.custom_dtypes import dtype_name, is_text
    from explorer.record.escape import visible

    kind = f"{dtype_name(array.dtype)} {array.shape}"
    if is_text(array.dtype):
        texts = [visible(repr(str(text)))[:_LONGEST] for text in array.flat[:_SHOWN]]
        return ", ".join([kind, *texts, *["…"] * (array.size > _SHOWN)])
    if not array.size or array.dtype.kind not in "fiu":
        return kind
    import numpy as np

    finite = array[np.isfinite(array)]
    nan, infinite = int(np.isnan(array).sum()), int(np.isinf(array).sum())
    counts = [f"{count:,} {noun}" for count, noun in ((nan, "NaN"), (infinite, "infinite")) if count]
    whole = f"{finite.min():.6g} to {finite.max():.6g}" if finite.size else "no finite number"
    return ", ".join([kind, whole, *([f"{' and '.join(counts)} of {array.size:,}"] if counts else [])])
