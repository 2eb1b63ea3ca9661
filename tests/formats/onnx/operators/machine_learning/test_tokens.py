"""Tokens and hashes against values of ONNX Runtime 1.32.0, which are listed here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from explorer.net import Net
from tests.formats.onnx.models import opened

pytestmark = pytest.mark.spec("I-5", "I-6", "I-9")

X = np.array(["the Cat, sat", "", "  ab  ü", "a-b_c"])


def net_of(folder: Path, type: str, x: Any = X, **arguments: Any) -> Net:
    element = TensorProto.STRING if x.dtype.kind == "U" else helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [helper.make_node(type, ["x"], ["y"], domain="com.microsoft", **arguments)],
        "graph",
        [helper.make_tensor_value_info("x", element, [None] * x.ndim)],
        [helper.make_empty_tensor_value_info("y")],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    return opened(helper.make_model(graph, opset_imports=opsets), folder)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"separators": [" "]}, ["the Cat, sat", "# # #", "ab ü #", "a-b_c # #"]),
        ({"separators": [" "], "mark": 1}, ["\2 the Cat, sat \3", "\2 \3 # # #", "\2 ab ü \3 #", "\2 a-b_c \3 # #"]),
        ({"separators": [" ", ","], "mincharnum": 2}, ["the Cat sat", "# # #", "ab # #", "a-b_c # #"]),
        ({"separators": ["[ ,]"]}, ["the Cat sat", "# # #", "ab ü #", "a-b_c # #"]),
        ({"tokenexp": "[a-zA-Z]+"}, ["the Cat sat", "# # #", "ab # #", "a b c"]),
        ({"tokenexp": "[a-zA-Z]+", "mark": 1, "mincharnum": 2},
         ["\2 the Cat sat \3", "\2 \3 # # #", "\2 ab \3 # #", "\2 \3 # # #"]),
        ({"tokenexp": r"\b\w+\b", "mincharnum": 3}, ["the Cat sat", "# # #", "# # #", "b_c # #"]),
        ({"tokenexp": "(a)(b)?"}, ["a a", "# #", "ab #", "a #"]),
    ],
)  # fmt: skip
def test_tokens_of_strings(tmp_path: Path, arguments: dict[str, Any], expected: list[str]) -> None:
    net = net_of(tmp_path, "Tokenizer", **{"pad_value": "#", "mincharnum": 1, "mark": 0, **arguments})
    assert [" ".join(row) for row in net.run(X).tolist()] == expected


def test_characters_are_tokens_and_shapes_are_kept(tmp_path: Path) -> None:
    characters = net_of(tmp_path, "Tokenizer", pad_value="#", mincharnum=1, mark=0, separators=[""]).run(X)
    assert ["".join(row) for row in characters.tolist()] == [text.ljust(12, "#") for text in X.tolist()]
    x = X.reshape(2, 2)
    net = net_of(tmp_path, "Tokenizer", x, pad_value="#", mincharnum=1, mark=0, separators=[" "])
    assert net.run(x).shape == (2, 2, 3)
    assert net.run(np.array([["a b c d", ""]])).tolist() == [[["a", "b", "c", "d"], ["#"] * 4]]


@pytest.mark.parametrize("mark", [0, 1])
def test_an_empty_array_has_no_tokens(tmp_path: Path, mark: int) -> None:
    net = net_of(tmp_path, "Tokenizer", pad_value="#", mincharnum=1, mark=mark, separators=[" "])
    assert net.run(["", "  "]).shape == (2, 0)


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"tokenexp": "(a"}, "patterns must be regular expressions"),
        ({"tokenexp": "a", "separators": [" "]}, "must have either tokenexp or separators"),
        ({}, "must have either tokenexp or separators"),
    ],
)
def test_invalid_patterns_raise_an_error(tmp_path: Path, arguments: dict[str, Any], rule: str) -> None:
    (finding,) = net_of(tmp_path, "Tokenizer", pad_value="#", mincharnum=1, mark=0, **arguments).check()
    assert rule in finding


def test_hashes_equal_murmurhash(tmp_path: Path) -> None:
    """Values come from the reference implementation, MurmurHash3_x86_32."""
    net = net_of(tmp_path, "MurmurHash3", seed=0, positive=1)
    assert net.run(["", "a", "abcd", "hello, world"]).tolist() == [0, 0x3C2569B2, 0x43ED676A, 0x149BBB7F]
    signed = net_of(tmp_path, "MurmurHash3", seed=0, positive=0).run(["abcd", "hello, world", "test"])
    assert (signed.dtype, signed.tolist()[:2]) == (np.int32, [0x43ED676A, 0x149BBB7F])
    numbers = np.array([0, 1], np.int32)
    assert net_of(tmp_path, "MurmurHash3", numbers, seed=0).run(numbers).tolist() == [0x2362F9DE, 0xFBF1402A]
