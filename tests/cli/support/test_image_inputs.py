"""Images on the command line: conversion to inputs, labels, and errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from explorer.cli import main
from explorer.cli.main import parser
from explorer.record import loads

ASSETS = Path(__file__).parents[3] / "assets"
MODEL = str(ASSETS / "digits.pnnx.param")
THREE, EIGHT = str(ASSETS / "digit_3.png"), str(ASSETS / "digit_8.png")
AS_DIGITS = ["--preset", "0-1", "--crop", "1"]
WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "labels.txt").write_text("\n".join(WORDS) + "\n")
    return tmp_path


def net(folder: Path, shape: str, *, kind: str = "nn.ReLU", classes: str = "") -> str:
    """Write a net that returns its input."""
    lines = [f"pnnx.Input i 0 1 x #x={shape}", f"{kind} r 1 1 x y{classes}", "pnnx.Output o 1 0 y"]
    (folder / "n.param").write_text("\n".join(["7767517", "3 2", *lines]) + "\n")
    return "n.param"


@pytest.mark.spec("I-11", headline=True)
def test_an_image_is_classified(capsys: pytest.CaptureFixture[str]) -> None:
    """Classify real images: explorer run --input digit.png --top 2 --labels …."""
    arguments = ["run", MODEL, "--input", THREE, "--input", EIGHT, "--top", "2", "--labels", "labels.txt", *AS_DIGITS]
    assert main([*arguments, "-o", "out.npz"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("15: float32 (2, 10)")
    assert lines[1].startswith(f"  {THREE}: three 0.7")
    assert lines[2].startswith(f"  {EIGHT}: eight 0.8")
    assert np.load("out.npz")["15"].argmax(axis=1).tolist() == [3, 8]


def test_an_image_is_shown_in_the_net(folder: Path) -> None:
    assert main(["show", MODEL, "--input", THREE, *AS_DIGITS, "-o", "out.json"]) == 0
    recording = loads((folder / "out.json").read_text())
    assert recording.run is not None
    assert recording.run.values


def test_scores_become_probabilities(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Scores become probabilities, logarithms are exponentiated, probabilities stay; the conversion is printed."""
    scores = np.array([[0.0, 2.0, 1.0]], np.float32)
    chances = np.exp(scores) / np.exp(scores).sum()
    path = net(folder, "(?,3)f32", kind="nn.Identity")
    for given, said in ((scores, "softmax applied"), (np.log(chances), "exponentials"), (chances, "")):
        np.save("in.npy", given)
        assert main(["run", path, "--input", "in.npy", "--top", "3"]) == 0
        out = capsys.readouterr().out
        assert said in out
        assert ("softmax" in out) == (said == "softmax applied")
        assert "  0: 1 0.6652  2 0.2447  0 0.09003" in out
    np.save("in.npy", scores)
    assert main(["run", path, "--input", "in.npy", "--top", "1", "--softmax", "no"]) == 0
    assert "  0: 1 2\n" in capsys.readouterr().out
    np.save("in.npy", chances)
    assert main(["run", path, "--input", "in.npy", "--top", "1", "--softmax", "yes"]) == 0
    assert "softmax applied" in capsys.readouterr().out


def test_the_net_determines_the_image_format(folder: Path) -> None:
    """Height, width, channels, axis order and dtype come from the net's declared input."""
    pixels = np.random.default_rng(3).integers(0, 256, (6, 4, 3), np.uint8)
    Image.fromarray(pixels).save("p.png")
    whole = ["--preset", "none", "--crop", "1", "-o", "out.npz"]
    cases = [
        ("(1,6,4,3)f32", [], pixels[None].astype(np.float32)),
        ("(?,3,6,4)u8", [], pixels.transpose(2, 0, 1)[None]),
        ("(?,3,?,?)f32", ["--size", "6x4"], pixels.transpose(2, 0, 1)[None].astype(np.float32)),
        ("(?,?,?,?)f32", ["--size", "6x4", "--layout", "NHWC"], pixels[None].astype(np.float32)),
    ]
    for shape, more, expected in cases:
        path = net(folder, shape, kind="nn.Identity")
        assert main(["run", path, "--input", "p.png", *whole, *more]) == 0
        result = np.load("out.npz")["y"]
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)


def test_channels_come_first_if_the_axis_order_is_ambiguous(folder: Path) -> None:
    """A net of 3×6×3 gets images 6 high and 3 wide, because exporters write channels first."""
    pixels = np.random.default_rng(3).integers(0, 256, (6, 3, 3), np.uint8)
    Image.fromarray(pixels).save("p.png")
    path = net(folder, "(1,3,6,3)u8", kind="nn.Identity")
    assert main(["run", path, "--input", "p.png", "--preset", "none", "--crop", "1", "-o", "out.npz"]) == 0
    np.testing.assert_array_equal(np.load("out.npz")["y"], pixels.transpose(2, 0, 1)[None])


@pytest.mark.parametrize(
    ("size", "sides"), [("1", (1, 1)), ("224", (224, 224)), ("1x2", (1, 2)), ("2X1", (2, 1)), ("16384x3", (16384, 3))]
)
def test_a_size_is_height_and_width(size: str, sides: tuple[int, int]) -> None:
    """One number is both, height comes first, and one pixel is a valid size."""
    assert parser().parse_args(["run", MODEL, "--input", THREE, "--size", size]).size == sides


@pytest.mark.parametrize(
    "size", ["0", "0x8", "8x0", "8x8x8", "x8", "8x", "-8", "8.0", "16385", "8x16385", "9" * 50, ""]
)
def test_an_invalid_size_raises_an_error(size: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Test zero pixels, more than two numbers, and more pixels than an image may have."""
    with pytest.raises(SystemExit) as ended:
        main(["run", MODEL, "--input", THREE, f"--size={size}"])
    assert ended.value.code == 2
    assert "is not a height and width, such as 224 or 224x160" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([MODEL, "--input", THREE], "images of 1 channel\n  rule: there must be one number for all channels"),
        (
            [MODEL, "--input", THREE, *AS_DIGITS, "--labels", "two.txt", "--top", "5"],
            "two.txt: 2 labels for the 10 classes",
        ),
        ([MODEL, "--input", THREE, *AS_DIGITS, "--labels", "labels.txt"], "--labels without --top"),
        (["open.param", "--input", THREE, "--size", "8", "--layout", "NHWC"], "fix: omit --layout NHWC or --size"),
        (
            [MODEL, "--input", THREE, *AS_DIGITS, "--labels", "none.txt", "--top", "5"],
            "none.txt: the labels cannot be read: No such",
        ),
        ([MODEL, "--input", THREE, *AS_DIGITS, "--labels", THREE, "--top", "5"], "labels cannot be read"),
        ([MODEL, "--input", "none.png", *AS_DIGITS], "none.png: the image cannot be read: No such file"),
        ([MODEL, "--input", "text.png", *AS_DIGITS], "text.png: the file is not an image"),
        ([MODEL, "--input", THREE, *AS_DIGITS, "--size", "9"], "pictures of 9 × 9 for the input '0' (?, 1, 8, 8)"),
        ([MODEL, "--input", THREE, "--input", "in.npy"], "in.npy\n  rule: inputs must be all pictures or all arrays"),
        (["open.param", "--input", THREE], "pictures without a size"),
        (["open.param", "--input", THREE, "--size", "8", *AS_DIGITS, "--crop", "0"], "crop must be in"),
        (["flat.param", "--input", THREE, *AS_DIGITS], "one input with 4 axes; this one has 'x' (?, 3)"),
        (["two.param", "--input", THREE, *AS_DIGITS], "this one has 'x' (?, 3, 8, 8) and 1 more"),
    ],
)
def test_what_is_wrong_with_pictures_is_said_in_one_message(
    arguments: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistake with a picture, a size, labels or the net's input gives exit status 2 and one message."""
    (folder / "two.txt").write_text("a\nb\n")
    (folder / "text.png").write_text("hello")
    np.save("in.npy", np.zeros(3))
    for name, shape in (("open", "(?,3,?,?)f32"), ("flat", "(?,3)f32")):
        Path(net(folder, shape)).rename(f"{name}.param")
    first, second = "pnnx.Input i 0 1 x #x=(?,3,8,8)f32", "pnnx.Input j 0 1 z #z=(?,3,8,8)f32"
    lines = ["7767517", "4 3", first, second, "pnnx.Expression r 2 1 x z y expr=add(@0,@1)", "pnnx.Output o 1 0 y"]
    (folder / "two.param").write_text("\n".join(lines) + "\n")
    assert main(["run", *arguments, "-o", "out.npz"]) == 2
    caught = capsys.readouterr()
    assert caught.out == ""
    assert caught.err.count("explorer: ") == 1
    assert said in caught.err
    assert not (folder / "out.npz").exists()


def test_labels_cannot_control_a_terminal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "labels.txt").write_text("\n".join("\x1b[31m" + word for word in WORDS))
    arguments = ["run", MODEL, "--input", THREE, "--top", "1", "--labels", "labels.txt", *AS_DIGITS]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert "three" in said


def test_an_input_without_a_declared_shape_gets_images_of_the_given_size(folder: Path) -> None:
    """All axes are unknown, so images have three channels and the given size."""
    lines = ["7767517", "3 2", "pnnx.Input i 0 1 x", "nn.ReLU r 1 1 x y", "pnnx.Output o 1 0 y"]
    (folder / "n.param").write_text("\n".join(lines) + "\n")
    assert main(["run", "n.param", "--input", THREE, "--size", "5x7", *AS_DIGITS, "-o", "out.npz"]) == 0
    assert np.load("out.npz")["y"].shape == (1, 3, 5, 7)
