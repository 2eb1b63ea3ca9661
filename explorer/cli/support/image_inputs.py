"""Pictures as a net's input, converted as the net's input type requires."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from explorer.core.errors import OperandError
from explorer.core.types.tensor_type import Array
from explorer.data.image import CROP, EXTENSIONS, LAYOUTS, PRESETS, RESAMPLES, load_image
from explorer.net import Net
from explorer.net.definition.declared_types import noted_dtype, shape_text

_DEFAULTS: dict[str, Any] = {
    "size": None, "preset": "imagenet", "mean": None, "std": None, "crop": CROP, "resample": "bilinear", "layout": None,
}  # fmt: skip
"""options of pictures, and their values where they are not given"""


def is_picture(text: str) -> bool:
    """Whether an input is a picture, by its ending."""
    return text.lower().endswith(EXTENSIONS)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the conversion from pictures to arrays."""
    group = parser.add_argument_group(
        "pictures",
        f"An input is a picture where it ends with {', '.join(EXTENSIONS[:5])}, …; "
        "height, width, channels and dtype are the net's.",
    )
    group.add_argument("--size", metavar="HxW", type=_size, help="height and width, where the net leaves them open")
    group.add_argument(
        "--preset", choices=PRESETS, default=_DEFAULTS["preset"],
        help="mean and deviation of the levels: of ImageNet (the default), levels from 0 to 1, or levels from 0 to 255",
    )  # fmt: skip
    for word in ("mean", "std"):
        group.add_argument(f"--{word}", metavar="X[,X,X]", type=_numbers, help="of all channels, or of each")
    group.add_argument(
        "--crop",
        metavar="PART",
        type=float,
        default=_DEFAULTS["crop"],
        help=f"part of the shorter side that is kept ({CROP:g})",
    )
    group.add_argument(
        "--resample", choices=RESAMPLES, default=_DEFAULTS["resample"], help="how they are resized (bilinear)"
    )
    group.add_argument("--layout", choices=LAYOUTS, help="the net's order of axes, where its notes do not tell")


def refuse_options(options: argparse.Namespace) -> None:
    """Raise OperandError for an option of pictures where no input is one."""
    for name, default in _DEFAULTS.items():
        if getattr(options, name) != default:
            raise OperandError(
                f"--{name} without a picture",
                rule=f"--{name} must be given together with a picture as --input",
                fix=f"omit --{name}, or give --input picture.png",
            )


def _size(text: str) -> tuple[int, int]:
    sides = text.lower().split("x")
    if len(sides) not in (1, 2) or not all(side.isdecimal() and 0 < int(side) <= 2**14 for side in sides):
        raise argparse.ArgumentTypeError(f"{text!r} is no height and width: 224 or 224x160")
    return int(sides[0]), int(sides[-1])


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(number) for number in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number, and no numbers with commas between them") from None


def read(net: Net, texts: Sequence[str], options: argparse.Namespace) -> dict[str, Array]:
    """Return the net's only input, made of pictures stacked in order; raise OperandError if it takes none."""
    (name, blob), *others = net.inputs.items()
    noted = blob.shape
    takes = f"{name!r} {shape_text(noted)}"
    if others or (noted is not None and len(noted) != 4):
        raise OperandError(
            f"pictures for net {net.name!r}",
            rule=f"a net for pictures must have one input with 4 axes; this one takes {takes}"
            + f" and {len(others)} more" * bool(others),
            fix="pass arrays: --input in.npz",
        )
    layout = options.layout or ("NHWC" if noted and noted[1] not in (1, 3) and noted[3] in (1, 3) else "NCHW")
    axes: dict[str, Any] = dict(zip(layout, noted or (None,) * 4, strict=True))
    sides = axes["H"], axes["W"]
    size: tuple[int, int] | None = options.size or (sides if all(isinstance(side, int) for side in sides) else None)
    if size is None or any(isinstance(side, int) and side != length for side, length in zip(sides, size, strict=True)):
        raise OperandError(
            f"pictures of {f'{size[0]} × {size[1]}' if size else 'no given size'} for the input {takes}",
            rule=f"height and width must be those of the net (axes {layout}), or --size if the net leaves them open",
            fix="pass the size that it was trained for: --size 224"
            if size is None
            else f"omit {'--size' if options.layout is None else f'--layout {layout} or --size'}",
        )
    channels = axes["C"] if isinstance(axes["C"], int) else 3
    batch = load_image(
        [Path(text) for text in texts],
        size,
        channels=channels,
        preset=options.preset,
        mean=options.mean,
        std=options.std,
        crop=options.crop,
        resample=options.resample,
        layout=layout,
        dtype=noted_dtype(blob) or "float32",
    )
    return {name: batch.array}
