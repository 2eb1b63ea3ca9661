"""Types that a file declares, the lengths that they leave unknown, and inputs that contradict them."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.core.errors import OperandError
from explorer.core.types.tensor_type import TensorType
from explorer.net.definition.declared_types import Lengths, bound_type, check_inputs, disagreement, fits
from explorer.net.definition.definition import BlobDefinition, BlobType, Dimension, NetDefinition

FLOAT = np.dtype(np.float32)


def net(**inputs: tuple[Dimension, ...] | None) -> NetDefinition:
    """Return a net that returns its inputs, with the declared shapes."""
    types = {name: BlobType(shape, "float32") for name, shape in inputs.items()}
    return NetDefinition.of("n", [], [*inputs], [*inputs], types)


def blob(shape: tuple[Dimension, ...] | None, dtype: str | None = "float32") -> BlobDefinition:
    return BlobDefinition("x", shape, dtype, None, (), "x")


def test_unnamed_lengths_are_bound_only_if_they_are_equal() -> None:
    """Unknown lengths without a name are one length if all inputs have the same one; otherwise nothing is assumed."""
    definition = net(x=(None, "n", 3), y=(None, "n"), z=None)
    same = Lengths.of(definition, {"x": (2, 5, 3), "y": (2, 5), "z": (7, 7)})
    assert (same.named, same.unnamed) == ({"n": 5}, 2)
    assert same.bind((None, "n", 4)) == (2, 5, 4)
    several = Lengths.of(definition, {"x": (2, 5, 3), "y": (4, 5)})
    assert several.unnamed is None
    assert several.bind((None, "n")) is None
    assert several.bind(("n", 0)) == (5, 0)
    assert several.bind(("m",)) is None
    assert several.bind(()) == ()


def test_a_completely_declared_type_is_bound() -> None:
    lengths = Lengths({"n": 5}, 2)
    assert bound_type(blob((None, "n")), lengths) == TensorType((2, 5), FLOAT)
    assert bound_type(blob((None, "m")), lengths) is None
    assert bound_type(blob(None), lengths) is None
    assert bound_type(blob((2,), None), lengths) is None
    assert bound_type(blob((1 << 62, 1 << 62)), lengths) is None


@pytest.mark.parametrize(
    ("declared", "shape", "expected"),
    [
        ((), (), True),
        ((2, None), (2, 9), True),
        ((2, "n"), (2, 0), True),
        ((2, None), (3, 9), False),
        ((2,), (2, 1), False),
        ((2, 1), (2,), False),
        ((None,), (), False),
    ],
)
def test_a_shape_matches_a_declaration_of_its_rank_and_lengths(
    declared: tuple[Dimension, ...], shape: tuple[int, ...], expected: bool
) -> None:
    assert fits(declared, shape) is expected


def test_contradictions_of_a_declaration_are_reported() -> None:
    """Another dtype is a contradiction, even of the same kind; an empty declaration is never contradicted."""
    assert disagreement(blob((2, None)), TensorType((2, 3), FLOAT)) == ""
    assert disagreement(blob((2, None)), TensorType((2, 3), np.dtype(np.float64))).startswith("dtype float64")
    assert disagreement(blob((2, None)), TensorType((2,), FLOAT)).startswith("shape (2,)")
    assert disagreement(blob(None, None), TensorType((2,), FLOAT)) == ""


@pytest.mark.parametrize("lengths", [(2, 3), (3, 2)])
def test_lengths_of_one_name_are_equal_in_all_inputs(lengths: tuple[int, int]) -> None:
    """A different length raises an error in either order, and also within one input."""
    first, second = lengths
    definition = net(x=("n", 1), y=("n",), z=("m", "m"))
    square = TensorType((4, 4), FLOAT)
    check_inputs(definition, {"x": TensorType((2, 1), FLOAT), "y": TensorType((2,), FLOAT), "z": square}.items())
    with pytest.raises(OperandError, match=f"where n is {second}; input 'x' has n = {first}"):
        check_inputs(
            definition, {"x": TensorType((first, 1), FLOAT), "y": TensorType((second,), FLOAT), "z": square}.items()
        )
    with pytest.raises(OperandError, match=f"where m is {second}; input 'z' has m = {first}"):
        check_inputs(definition, [("z", TensorType(lengths, FLOAT))])
