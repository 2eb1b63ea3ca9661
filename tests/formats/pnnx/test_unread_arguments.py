"""Arguments, operands and weights that no builder reads raise an error with their names before any computation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.formats.pnnx.operators import TABLE
from tests.formats.pnnx.nets import net_of
from tests.support.refusals import refused

FILES = np.load(Path(__file__).parents[3] / "assets" / "operators.npz")
CASES = [key.removesuffix("/param") for key in FILES.files if key.endswith("/param")]
GIVEN_BY_FILES = frozenset(("pnnx.Attribute", "pnnx.Expression", "pnnx.Input", "pnnx.Output", "models.yolo.Detect"))
"""types without arguments, or whose text is not an argument"""
image = np.random.default_rng(5).normal(size=(2, 3, 4, 4)).astype(np.float32)
table = np.arange(12.0, dtype=np.float32).reshape(3, 4)


def test_every_built_in_type_must_read_all_arguments() -> None:
    assert [type for type in TABLE.types() if TABLE.is_own(type) and type not in TABLE._ignored] == []


@pytest.mark.spec("I-9")
@pytest.mark.parametrize("case", CASES)
def test_an_unknown_argument_raises_an_error_for_each_operator(case: str, tmp_path: Path) -> None:
    """The error for an additional argument of any operator that pnnx wrote has name, value, type and fix."""
    lines = str(FILES[f"{case}/param"]).split("\n")
    (tmp_path / "model.pnnx.bin").write_bytes(FILES[f"{case}/bin"].tobytes())
    inputs = [FILES[f"{case}/input{i}"] for i in range(9) if f"{case}/input{i}" in FILES]
    # an expression's line is text with blanks, to which an argument could not be added
    places = [n for n, line in enumerate(lines) if n > 1 and line and line.split()[0] not in GIVEN_BY_FILES]
    for place in places:
        changed = [f"{line} upside_down=True" if number == place else line for number, line in enumerate(lines)]
        (tmp_path / "model.pnnx.param").write_text("\n".join(changed))
        net = ex.open(tmp_path / "model.pnnx.param")
        type = lines[place].split()[0]
        with refused(ex.FileError, "upside_down=True", type, "file_operator"):
            net.run(*inputs)


def test_check_lists_unread_arguments_and_the_known_ones(tmp_path: Path) -> None:
    lines = [
        "7767517",
        "3 2",
        "pnnx.Input in 0 1 a #a=(2,3,4,4)f32",
        "nn.MaxPool2d pool 1 1 a b kernel_size=(2,2) strde=(1,1)",
        "pnnx.Output out 1 0 b",
    ]
    (tmp_path / "model.pnnx.param").write_text("\n".join(lines) + "\n")
    (finding,) = ex.open(tmp_path / "model.pnnx.param").check()
    assert "line 4" in finding
    assert "strde=(1, 1)" in finding
    assert "stride" in finding.partition("known arguments")[2]


@pytest.mark.parametrize(
    ("type", "inputs", "arguments"),
    [
        ("torch.round", (table,), {"decimals": 2}),
        ("aten::abs", (table,), {"out": 3}),
        ("Tensor.flip", (table,), {"dims": (0,), "step": 2}),
        ("nn.ReLU", (table,), {"max_value": 6.0}),
        ("torch.sum", (table,), {"dim": (1,), "keepdim": False, "where": True}),
    ],
)
def test_an_unread_argument_that_would_change_the_result_raises_an_error(
    type: str, inputs: Any, arguments: dict[str, Any]
) -> None:
    name = list(arguments)[-1]
    with refused(ex.OperandError, f"{name}={arguments[name]!r}", type):
        net_of(type, len(inputs), arguments).run(*inputs)


@pytest.mark.parametrize(
    ("type", "arguments"),
    [
        ("nn.ReLU", {"inplace": True}),
        ("nn.Dropout", {"p": 0.5, "inplace": False}),
        ("Tensor.to", {"copy": True, "memory_format": "torch.channels_last", "non_blocking": True}),
        ("torch.clone", {"memory_format": "torch.contiguous_format"}),
        ("torch.ones_like", {"device": "cpu", "layout": "torch.strided", "pin_memory": False, "requires_grad": False}),
        ("nn.Softmax", {"dim": 1, "dtype": None, "_stacklevel": 3}),
    ],
)
def test_an_unread_argument_without_effect_is_accepted(type: str, arguments: dict[str, Any]) -> None:
    assert net_of(type, 1, arguments).run(table).shape == table.shape


@pytest.mark.parametrize(
    ("type", "arguments"),
    [
        ("F.dropout", {"p": 0.5, "training": True}),
        ("nn.BatchNorm2d", {"eps": 1e-5, "track_running_stats": False}),
        ("F.embedding", {"max_norm": 1.0}),
        ("torch.nonzero", {"as_tuple": True}),
    ],
)
def test_an_unsupported_value_of_an_argument_raises_an_error(type: str, arguments: dict[str, Any]) -> None:
    name = list(arguments)[-1]
    with refused(ex.OperandError, name, type):
        net_of(type, 1, arguments).run(image)


def test_none_means_that_an_argument_is_not_given() -> None:
    np.testing.assert_array_equal(net_of("torch.abs", 1, {"out": None}).run(-table), table)


def test_an_unread_operand_raises_an_error() -> None:
    with refused(ex.OperandError, "operand 2 (x2)", "Tensor.expand_as"):
        net_of("Tensor.expand_as", 3).run(table, table, table)
    with refused(ex.OperandError, "operand 1 (other)", "Tensor.to"):
        net_of("Tensor.to", 2, names={"input": "x0", "other": "x1"}).run(table, table.astype(np.int64))


def test_an_unread_weight_raises_an_error() -> None:
    weights = {"weight": np.ones((2, 4), np.float32), "bias": np.ones(2, np.float32)}
    with refused(ex.OperandError, "the weight 'bias'", "nn.Linear"):
        net_of("nn.Linear", 1, {"bias": False}, weights).run(table)
    affine = {"weight": np.full(4, 2, np.float32)}
    with refused(ex.OperandError, "the weight 'weight'", "nn.LayerNorm"):
        net_of("nn.LayerNorm", 1, {"normalized_shape": (4,), "elementwise_affine": False}, affine).run(table)


def test_a_scaling_module_must_have_its_scale() -> None:
    with refused(ex.OperandError, "weight", "nn.LayerNorm"):
        net_of("nn.LayerNorm", 1, {"normalized_shape": (4,), "elementwise_affine": True}).run(table)


def test_a_named_operand_is_not_mistaken_for_another_one() -> None:
    """A batch normalization without statistics has its scale and shift at the statistics' positions."""
    names = {"input": "x0", "weight": "x1", "bias": "x2"}
    absent = {"running_mean": None, "running_var": None, "eps": 1e-5}
    scale, shift = np.arange(1.0, 4, dtype=np.float32), np.array([3, 1, 2], np.float32)
    result = net_of("F.batch_norm", 3, absent, names=names).run(image, scale, shift)
    spread = np.sqrt(image.var((0, 2, 3), keepdims=True) + 1e-5)
    whole = (image - image.mean((0, 2, 3), keepdims=True)) / spread
    np.testing.assert_allclose(result, whole * scale[:, None, None] + shift[:, None, None], rtol=1e-5, atol=1e-5)
    with refused(ex.OperandError, "'other' is missing"):
        net_of("aten::expand_as", 2, names={"input": "x0", "source": "x1"}).run(table, table)


@pytest.mark.parametrize("type", ["torch.div", "aten::div"])
def test_a_division_uses_the_given_rounding(type: str) -> None:
    whole = np.array([7, -7, 7, -7, 2**62 + 1]), np.array([2, 2, -2, -2, 1])
    real = np.array([7.5, -7.5, 3, 1, -1], np.float32), np.array([2, 2, -0.7, 0, 0], np.float32)
    with np.errstate(all="ignore"):
        for a, b in (whole, real):
            down = net_of(type, 2, {"rounding_mode": "floor"}).run(a, b)
            np.testing.assert_array_equal(down, np.floor_divide(a, b))
            assert down.dtype == a.dtype
        toward_zero = net_of(type, 2, {"rounding_mode": "trunc"})
        np.testing.assert_array_equal(toward_zero.run(*real), np.trunc(real[0] / real[1]))
        np.testing.assert_array_equal(toward_zero.run(*whole), [3, -3, -3, 3, 2**62 + 1])
    with refused(ex.OperandError, "rounding_mode='up'"):
        net_of(type, 2, {"rounding_mode": "up"}).run(*whole)


def test_a_user_defined_type_ignores_unread_arguments_unless_it_declares_otherwise() -> None:
    net = net_of("test.Scale", 1, {"factor": 2, "momentum": 0.1})
    try:

        def scale(op: Any) -> Any:
            return op.x * op.number("factor")

        ex.file_operator("test.Scale")(scale)
        np.testing.assert_array_equal(net.run(table), 2 * table)
        ex.file_operator("test.Scale", ignored=())(scale)
        with refused(ex.OperandError, "momentum=0.1", "factor", '@ex.file_operator("test.Scale")'):
            net.run(table)
        ex.file_operator("test.Scale", ignored=("momentum",))(scale)
        np.testing.assert_array_equal(net.run(table), 2 * table)
    finally:
        TABLE._builders.pop("test.Scale", None)
        TABLE._ignored.pop("test.Scale", None)
