"""``net.diff``: operators first, operators that became others, and the first difference in view."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.net import Net
from tests.formats.onnx.models import FLOAT, model, node, opened

ASSETS = Path(__file__).parents[2] / "assets"


def network(folder: Path, *, fused: bool = False, activation: str = "Relu", extra: int = 0, named: bool = True) -> Net:
    """Return two convolutions with activations, and ``extra`` further activations between them.

    If ``fused``, the first convolution includes the batch normalization that otherwise follows it.
    """
    rng = np.random.default_rng(0)
    constants = {f"c{n}.weight": rng.standard_normal((4, 4, 3, 3)).astype(np.float32) for n in (1, 2)}
    constants |= {name: np.ones(4, np.float32) for name in ("scale", "bias", "mean", "var")}
    nodes = [node("Conv", ["x", "c1.weight"], ["n" if fused else "c"], "conv1", pads=[1] * 4)]
    if not fused:
        nodes.append(node("BatchNormalization", ["c", "scale", "bias", "mean", "var"], ["n"], "norm"))
    nodes.append(node(activation, ["n"], ["a0"], "act1"))
    nodes += [node("Tanh", [f"a{n}"], [f"a{n + 1}"], f"extra{n}") for n in range(extra)]
    nodes.append(node("Conv", [f"a{extra}", "c2.weight"], ["d"], "conv2", pads=[1] * 4))
    nodes.append(node("Relu", ["d"], ["y"], "act2"))
    if not named:
        for number, each in enumerate(nodes):
            each.name = f"n{number}"
            for names in (each.input, each.output):
                names[:] = [name if name in {*constants, "x", "y"} else f"v_{name}" for name in names]
    read = {name for each in nodes for name in each.input}
    kept = {name: value for name, value in constants.items() if name in read}
    return opened(model(nodes, {"x": (FLOAT, [1, 4, 8, 8])}, ["y"], kept), folder)


def lines(before: Net, after: Net) -> list[str]:
    """Return the lines of a diff about operators."""
    text = before.diff(after, weights=False).text().splitlines()[1:]
    return text[: next(index for index, line in enumerate(text) if line.startswith("     "))]


@pytest.mark.spec("Q-7", headline=True)
def test_a_diff_lists_operators_first(tmp_path: Path) -> None:
    """`net.diff(other)` lists what happened to the operators: as before, changed, became others, removed or added.

    Operators are matched through renaming, quantization and fusion. Recorded nodes are only listed with `nodes=True`.
    """
    original, fused = network(tmp_path), network(tmp_path, fused=True)
    assert lines(original, fused) == [
        "operators: 3 as before, 2 became others",
        "first difference: Conv 'conv1', became another",
        "  Conv, BatchNormalization became Conv: 'conv1', 'norm' → 'conv1'",
    ]
    assert lines(original, network(tmp_path, activation="Sigmoid"))[0] == "operators: 4 as before, 1 became another"
    assert lines(original, network(tmp_path, extra=2)) == [
        "operators: 5 as before, 2 added (Tanh ×2)",
        "first difference: Tanh 'extra0', added",
        "  + Tanh ×2 'extra0', 'extra1'",
    ]
    assert lines(network(tmp_path, extra=2), original)[0] == "operators: 5 as before, 2 removed"
    text = original.diff(fused, weights=False).text
    assert "recorded nodes: " not in text()
    assert "recorded nodes: " in text(nodes=True)
    float32, int8 = (ex.open(ASSETS / name) for name in ("digits.onnx", "digits_int8.onnx"))
    quantized = lines(float32, int8)
    assert quantized[:2] == [
        "operators: 10 as before, 5 became others, 24 added (DequantizeLinear ×18, QuantizeLinear ×6)",
        "first difference: QuantizeLinear 'image_QuantizeLinear', added",
    ]
    assert quantized[2].startswith("  Relu became QuantizeLinear, DequantizeLinear (5 times): '/relu1/Relu' → ")


@pytest.mark.spec("Q-7")
def test_the_same_operators_with_other_names_are_as_before(tmp_path: Path) -> None:
    original, renamed = network(tmp_path), network(tmp_path, named=False)
    assert lines(original, renamed)[0] == "operators: all 5 as before"
    assert original.diff(renamed, weights=False).equal
    assert "kernels: " in original.diff(renamed, weights=False).text()


@pytest.mark.spec("Q-7")
def test_a_changed_attribute_operand_or_weight_is_named(tmp_path: Path) -> None:
    """An attribute with its default value is equal to an absent one; operators with equal changes share a line."""
    x = {"x": (FLOAT, [4, 4])}
    w = {"w": np.ones((4, 4), np.float32)}
    before = opened(
        model([node("Gemm", ["x", "w"], ["g"], "gemm"), node("Neg", ["g"], ["y"], "neg")], x, ["y"], w), tmp_path
    )
    default = [node("Gemm", ["x", "w"], ["g"], "gemm", transB=0), node("Neg", ["g"], ["y"], "neg")]
    assert lines(before, opened(model(default, x, ["y"], w), tmp_path))[0] == "operators: all 2 as before"
    other = [node("Gemm", ["x", "w"], ["g"], "gemm", transB=1), node("Neg", ["x"], ["y"], "neg")]
    assert lines(before, opened(model(other, x, ["y"], w), tmp_path)) == [
        "operators: 0 as before, 2 changed",
        "first difference: Gemm 'gemm', changed",
        "  Δ Gemm 'gemm': transB 0 → 1",
        "  Δ Neg 'neg': reads g → x",
    ]
    half = {"w": np.ones((4, 4), np.float16)}
    cast = model([node("Cast", ["w"], ["v"], "cast", to=1), node("Mul", ["x", "v"], ["y"], "mul")], x, ["y"], half)
    widened = opened(
        model([node("Cast", ["w"], ["v"], "cast", to=1), node("Mul", ["x", "v"], ["y"], "mul")], x, ["y"], w), tmp_path
    )
    assert "  Δ Cast 'cast': input 4×4 float16 → 4×4 float32" in lines(opened(cast, tmp_path), widened)


def test_a_chain_of_100_000_operators_is_compared_without_recursion() -> None:
    from explorer.record.compare.operators import ComparedOperator, compare_operators

    chain = [ComparedOperator("Neg", f"n{n}", inputs=(f"v{n}",), outputs=(f"v{n + 1}",)) for n in range(100_000)]
    other = [ComparedOperator("Neg", f"m{n}", inputs=(f"w{n}",), outputs=(f"w{n + 1}",)) for n in range(100_000)]
    assert compare_operators(chain, other).equal
    added = [ComparedOperator("Tanh", each.name, inputs=each.inputs, outputs=each.outputs) for each in other]
    differences = compare_operators(chain, added)
    assert (len(differences.removed), len(differences.added), differences.first) == (100_000, 100_000, (0, 0))
