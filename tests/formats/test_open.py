"""`explorer.open`: supported files, and errors of invalid ones."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.formats.pnnx.operators import TABLE
from explorer.net import Net
from explorer.net.definition.definition import BlobType, NetDefinition, OperatorDefinition, WeightReference
from explorer.view.export.dot import to_graphviz
from explorer.view.export.html_page import html
from explorer.view.export.text import text
from explorer.view.export.why_text import why
from explorer.view.picture.svg import svg

ASSETS = Path(__file__).parents[2] / "assets"
image = np.zeros((1, 1, 8, 8), np.float32)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return a copy of the digits model, to be damaged."""
    for extension in ("param", "bin"):
        shutil.copy(ASSETS / f"digits.pnnx.{extension}", tmp_path / f"m.pnnx.{extension}")
    return tmp_path / "m.pnnx.param"


@pytest.mark.spec("I-1")
def test_the_extension_of_a_file_determines_its_format(model: Path) -> None:
    """`.pnnx.param` and `.param` are opened; an unknown extension raises an error that lists the known ones."""
    assert ex.open(model).name == "m"
    plain = model.with_name("plain.param")
    model.rename(plain)
    model.with_suffix(".bin").rename(plain.with_suffix(".bin"))
    assert ex.open(str(plain)).run(image).shape == (1, 10)
    with pytest.raises(ex.FileError, match=r"'\.bin'(.|\n)*open .*plain\.param, the graph"):
        ex.open(plain.with_suffix(".bin"))
    with pytest.raises(ex.FileError, match=r"model\.h5: the extension '\.h5'.*\n.*\.pnnx\.param, \.param"):
        ex.open("model.h5")
    with pytest.raises(ex.FileError, match="the name has no extension"):
        ex.open("model")
    with pytest.raises(ex.FileError, match=r"none\.param: the file cannot be read"):
        ex.open("none.param")


def _cut_weights(model: Path) -> None:
    weights = model.with_suffix(".bin")
    weights.write_bytes(weights.read_bytes()[:20000])


def _spoil_weight(model: Path) -> None:
    weights = model.with_suffix(".bin")
    data = bytearray(weights.read_bytes())
    data[200] ^= 255
    weights.write_bytes(data)


def _replace(old: str, new: str) -> Callable[[Path], None]:
    return lambda model: model.write_text(model.read_text().replace(old, new)) and None


@pytest.mark.spec("I-9")
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_replace("7767517", "7767518"), r"m\.pnnx\.param, line 1: '7767518' instead of the magic number"),
        (_replace("17 16", "17 15"), r"line 2: 15 operands are counted, but 16 are produced"),
        (_replace("nn.ReLU                  relu1                    1 1 1 2", "nn.ReLU relu1 1 1 1"), r"line 5: "),
        (_replace("1 1 13 14 bias=True", "1 1 13 14 bias=True $weight=99"), r"line 17: .*refers to operand '99'"),
        (_replace("@weight=(24,192)f32", "@weight=(24,193)f32"), r"m\.pnnx\.bin: weight 'fc1\.weight' has 18432 bytes"),
        (_cut_weights, r"m\.pnnx\.bin: this is not a readable zip"),
        (_spoil_weight, r"m\.pnnx\.bin: weight .* cannot be read: Bad CRC-32"),
        (_replace(" dim=1", " dim=7"), r"line 18: operator 'softmax' \(nn\.Softmax\): softmax: axis 7"),
        (_replace("stride=(2,2)", "stride=two"), r"line 8: operator 'pool' \(nn\.MaxPool2d\): stride='two'"),
        (_replace("(24,192)f32 #11=(?,192)f32", "(192,24)f32 #11=(?,192)f32"), r"line 15: operator 'fc1' .*: matmul"),
        (_replace("nn.MaxPool2d", "nn.MaxPool9d"), r"1 unknown .*\n    nn\.MaxPool9d: 'pool' \(line 8\); .*MaxPool2d"),
        (lambda model: model.with_suffix(".bin").unlink(), r"m\.pnnx\.bin: the file is missing, and with it 12"),
    ],
)  # fmt: skip
def test_the_error_of_a_damaged_file_contains_file_line_and_rule(
    model: Path, damage: Callable[[Path], None], said: str
) -> None:
    """It is raised when the file is opened, or before anything is computed."""
    damage(model)
    with pytest.raises(ex.FileError, match=said):
        ex.open(model).run(image)


HOSTILE = "<img src=x onerror=alert(1)>"
QUOTED = '"];evil[label="'


def hostile_file(folder: Path) -> Net:
    """Return a file with hostile names, which may contain everything but blanks."""
    name = HOSTILE.replace(" ", "/")
    lines = [
        "pnnx.Input in 0 1 x #x=(2,3)f32",
        f"nn.ReLU {name}.relu 1 1 x {name} #x=(2,3)f32",
        f"<script>alert(2)</script> {QUOTED} 1 1 {name} b",
        f"pnnx.Expression </style>.e 2 1 x b {QUOTED}y expr=add(@0,@1)",
        f"pnnx.Output out 1 0 {QUOTED}y",
    ]
    path = folder / "x.param"
    path.write_text("\n".join(["7767517", "5 4", *lines]) + "\n")
    return ex.open(path)


def hostile_definition() -> Net:
    """Return a definition from another source, whose hostile names contain blanks, too."""
    weights = {"w": np.ones(3, np.float32)}
    operators = [
        OperatorDefinition("nn.ReLU", HOSTILE, ("x",), (HOSTILE,), text=HOSTILE),
        OperatorDefinition("<script>alert(2)</script>", QUOTED, (HOSTILE,), ("b",)),
        OperatorDefinition(
            "pnnx.Attribute", "</style>", (), ("y",), weights={"</svg>": WeightReference("w", (3,), "float32")}
        ),
        OperatorDefinition("pnnx.Expression", "e", ("y", HOSTILE), ("z",), {"expr": "add(@0,@1)"}),
    ]
    types = {"x": BlobType((2, 3), "float32"), "b": BlobType((2, 3), "float32")}
    return Net(NetDefinition.of(HOSTILE, operators, ["x"], ["z"], types, weights=weights), TABLE)


@pytest.mark.parametrize("made", ["file", "definition"])
def test_hostile_names_are_plain_text_in_every_view(made: str, tmp_path: Path) -> None:
    """A node may be named like markup or DOT."""
    net = hostile_file(tmp_path) if made == "file" else hostile_definition()
    recording = net.preview_plan().recording
    for drawn in (html(recording), svg(recording)):
        for raw in ("<img", "<script>al", "</style>.e", "</style>.<"):
            assert raw not in drawn, raw
        assert "&lt;script" in drawn
    assert '"];evil' not in str(to_graphviz(recording).source).replace('\\"', "")
    assert "<script>alert(2)</script>" in text(recording)
    assert any(HOSTILE.split()[0] in name for name in [scope.name for scope in recording.scopes])
    for node in range(len(recording.nodes)):
        assert "\x1b" not in why(recording, node)
