"""Images as the input of a net, converted to the input's type."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from explorer.core.errors import OperandError
from explorer.core.types.tensor_type import Array
from explorer.data.image import CROP, EXTENSIONS, LAYOUTS, PRESETS, RESAMPLES, load_image
from explorer.net import Net
from explorer.net.definition.declared_types import declared_dtype, shape_text

_DEFAULTS: dict[str, Any] = {
    "size": None, "preset": "imagenet", "mean": None, "std": None, "crop": CROP, "resample": "bilinear", "layout": None,
}  # fmt: skip
"""options of pictures and their defaults"""


def is_picture(text: str) -> bool:
    """Return whether the extension of ``text`` belongs to image files."""
    return text.lower().endswith(EXTENSIONS)


def declare_input(parser: argparse.ArgumentParser, note: str = "omit it for a model without inputs") -> None:
    """Declare the inputs of a command that runs a model; ``note`` ends their description."""
    parser.add_argument(
        "--input",
        metavar="IN[:KEY]",
        action="append",
        default=[],
        help=f"a .npz or .npy file, or a picture; may be repeated; {note}",
    )


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options for converting images to arrays."""
    group = parser.add_argument_group(
        "pictures",
        f"An input with the extension {', '.join(EXTENSIONS[:5])}, … is a picture; "
        "the net sets the height, width, channels and dtype.",
    )
    group.add_argument("--size", metavar="HxW", type=_size, help="height and width, if the net leaves them open")
    group.add_argument(
        "--preset", choices=PRESETS, default=_DEFAULTS["preset"],
        help="normalization: by ImageNet's statistics (default), to levels from 0 to 1, or to levels from 0 to 255",
    )  # fmt: skip
    for word, meaning in (("mean", "mean"), ("std", "standard deviation")):
        group.add_argument(
            f"--{word}", metavar="X[,X,X]", type=_numbers, help=f"{meaning}, one number or one per channel"
        )
    group.add_argument(
        "--crop",
        metavar="FRACTION",
        type=float,
        default=_DEFAULTS["crop"],
        help=f"fraction of the shorter side to keep (default: {CROP:g})",
    )
    group.add_argument(
        "--resample",
        choices=RESAMPLES,
        default=_DEFAULTS["resample"],
        help="interpolation for resizing (default: bilinear)",
    )
    group.add_argument("--layout", choices=LAYOUTS, help="the net's order of axes, if the file does not declare it")


def refuse_options(options: argparse.Namespace) -> None:
    """Raise OperandError if an option for images is given although no input is an image."""
    for name, default in _DEFAULTS.items():
        if getattr(options, name) != default:
            raise OperandError(
                f"--{name} without a picture",
                rule=f"--{name} must be given together with a picture as --input",
                fix=f"omit --{name}, or pass --input picture.png",
            )


def _size(text: str) -> tuple[int, int]:
    sides = text.lower().split("x")
    if len(sides) not in (1, 2) or not all(side.isdecimal() and 0 < int(side) <= 2**14 for side in sides):
        raise argparse.ArgumentTypeError(f"{text!r} is not a height and width, such as 224 or 224x160")
    return int(sides[0]), int(sides[-1])


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(number) for number in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number or several, separated by commas") from None


def read(net: Net, paths: Sequence[str], options: argparse.Namespace) -> dict[str, Array]:
    """Return a batch of images for the net's only input; raise OperandError for an unsuitable net."""
    (name, blob), *others = net.inputs.items()
    declared = blob.shape
    described = f"{name!r} {shape_text(declared)}"
    if others or (declared is not None and len(declared) != 4):
        raise OperandError(
            f"pictures for net {net.name!r}",
            rule=f"a net for pictures must have one input with 4 axes; this one has {described}"
            + f" and {len(others)} more" * bool(others),
            fix="pass arrays: --input in.npz",
        )
    layout = options.layout or ("NHWC" if declared and declared[1] not in (1, 3) and declared[3] in (1, 3) else "NCHW")
    axes: dict[str, Any] = dict(zip(layout, declared or (None,) * 4, strict=True))
    sides = axes["H"], axes["W"]
    size: tuple[int, int] | None = options.size or (sides if all(isinstance(side, int) for side in sides) else None)
    if size is None or any(isinstance(side, int) and side != length for side, length in zip(sides, size, strict=True)):
        raise OperandError(
            f"pictures {f'of {size[0]} × {size[1]}' if size else 'without a size'} for the input {described}",
            rule=f"height and width must match the net (axes {layout}); --size sets them if the net leaves them open",
            fix="pass the size that the net was trained with: --size 224"
            if size is None
            else f"omit {'--size' if options.layout is None else f'--layout {layout} or --size'}",
        )
    channels = axes["C"] if isinstance(axes["C"], int) else 3
    batch = load_image(
        [Path(path) for path in paths],
        size,
        channels=channels,
        preset=options.preset,
        mean=options.mean,
        std=options.std,
        crop=options.crop,
        resample=options.resample,
        layout=layout,
        dtype=declared_dtype(blob) or "float32",
    )
    return {name: batch.array}
