"""Pairs of files are equal after writing and reading them, and real exports are written byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.core.errors import ExplorerError, FileError
from explorer.formats import pnnx
from explorer.formats.pnnx.param_values import ITEMSIZE
from explorer.formats.pnnx.param_writer import param_text
from explorer.net.definition.definition import BlobType, NetDefinition, OperatorDefinition, WeightReference

ASSETS = Path(__file__).parents[3] / "assets"
REAL = sorted(ASSETS.glob("*.pnnx.param"))

words = st.text(st.characters(categories=["L", "N", "P", "S"], exclude_characters='=@#$"'), min_size=1, max_size=6)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.complex_numbers(allow_nan=False),
    st.text(),
)
values = scalars | st.lists(scalars, min_size=1, max_size=4).map(tuple)
dimensions = st.none() | st.integers(0, 10**6) | st.sampled_from(["n", "batch", "s0"])
shapes = st.lists(dimensions, max_size=4).map(tuple)
dtypes = st.sampled_from(sorted(set(ITEMSIZE) - {"complex32"}))


def array(reference: WeightReference) -> np.ndarray[Any, Any]:
    count = int(np.prod(reference.shape))
    name = "float32" if reference.dtype == "bfloat16" else reference.dtype
    return (np.arange(count) % 7 - 3).astype(name).reshape(reference.shape)


@st.composite
def definitions(draw: st.DrawFn) -> NetDefinition:
    names = iter(draw(st.lists(words, min_size=30, max_size=30, unique=True)))
    inputs = [next(names) for _ in range(draw(st.integers(0, 2)))]
    blobs, operators, weights = list(inputs), [], {}
    for _ in range(draw(st.integers(0, 4))):
        name = next(names)
        reads = draw(st.lists(st.sampled_from(blobs), max_size=3)) if blobs else []
        writes = [next(names) for _ in range(draw(st.integers(0, 2)))]
        declared = {
            attribute: WeightReference(f"{name}.{attribute}", shape, draw(dtypes))
            for attribute, shape in draw(
                st.dictionaries(words, st.lists(st.integers(0, 3), max_size=3).map(tuple), max_size=2)
            ).items()
        }
        weights |= {reference.key: array(reference) for reference in declared.values()}
        named = draw(st.dictionaries(words, st.sampled_from(reads), max_size=2)) if reads else {}
        arguments = draw(st.dictionaries(words, values, max_size=3))
        operators.append(OperatorDefinition(draw(words), name, tuple(reads), tuple(writes), arguments, named, declared))
        blobs += writes
    types = {
        blob: BlobType(draw(shapes), draw(st.none() | dtypes))
        for blob in blobs
        if blob in inputs or any(blob in operator.outputs for operator in operators)
        if draw(st.booleans())
    }
    outputs = draw(st.lists(st.sampled_from(blobs), max_size=2)) if blobs else []
    types = {blob: kind for blob, kind in types.items() if not blob.startswith("pnnx.")}
    return NetDefinition.of("m", operators, inputs, outputs, types, weights=weights)


@given(definitions())
def test_what_is_saved_reads_back_equal(tmp_path_factory: pytest.TempPathFactory, net: NetDefinition) -> None:
    path = tmp_path_factory.mktemp("pnnx") / "m.pnnx.param"
    pnnx.save(net, path)
    result = pnnx.read(path)
    assert result == net
    assert repr(result) == repr(replace(net, source=result.source)) or result.operators == net.operators
    for before, after in zip(net.operators, result.operators, strict=True):
        assert repr(before.arguments) == repr(after.arguments)
    for operator in net.operators:
        for attribute, reference in operator.weights.items():
            np.testing.assert_array_equal(
                result.weight(operator.name, attribute), net.weights[reference.key], strict=True
            )
    assert param_text(result) == path.read_text(encoding="utf-8")


@pytest.mark.spec("I-1", headline=True)
@pytest.mark.parametrize("path", REAL, ids=[path.name for path in REAL])
def test_real_exports_are_written_byte_for_byte(path: Path, tmp_path: Path) -> None:
    """Read PNNX files completely, including all weights, and write them back byte for byte."""
    net = pnnx.read(path)
    assert net.name == path.name.removesuffix(".pnnx.param")
    assert len(net.weights) == sum(len(operator.weights) for operator in net.operators) > 0
    copy = tmp_path / path.name
    pnnx.save(net, copy)
    assert copy.read_bytes() == path.read_bytes()
    again = pnnx.read(copy)
    assert again == net
    for key, weight in net.weights.items():
        assert np.isfinite(weight).all()
        np.testing.assert_array_equal(again.weights[key], weight, strict=True)


def test_equal_nets_give_equal_files(tmp_path: Path) -> None:
    net = pnnx.read(REAL[0])
    for name in ("a", "b"):
        pnnx.save(net, tmp_path / f"{name}.param")
    assert (tmp_path / "a.bin").read_bytes() == (tmp_path / "b.bin").read_bytes()


def test_a_net_may_overwrite_its_own_files(tmp_path: Path) -> None:
    net = pnnx.read(REAL[0])
    path = tmp_path / "m.param"
    pnnx.save(net, path)
    own = pnnx.read(path)
    pnnx.save(own, path)
    assert pnnx.read(path) == own
    assert sorted(file.name for file in tmp_path.iterdir()) == ["m.bin", "m.param"]


def test_a_net_opens_without_its_bin_file(tmp_path: Path) -> None:
    (tmp_path / "m.pnnx.param").write_bytes(REAL[0].read_bytes())
    net = pnnx.read(tmp_path / "m.pnnx.param")
    assert net.operators == pnnx.read(REAL[0]).operators
    operator = next(operator for operator in net.operators if operator.weights)
    with pytest.raises(FileError, match=r"m\.pnnx\.bin: the file is missing") as error:
        net.weight(operator.name, "weight")
    assert error.value.fix


def test_a_damaged_bin_file_raises_an_error_immediately(tmp_path: Path) -> None:
    (tmp_path / "m.param").write_bytes(REAL[0].read_bytes())
    (tmp_path / "m.bin").write_bytes(REAL[0].with_suffix(".bin").read_bytes()[:1000])
    with pytest.raises(FileError, match="not a readable zip"):
        pnnx.read(tmp_path / "m.param")


def test_errors_of_wrong_paths_contain_the_fix(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"path of the \.param file"):
        pnnx.read(tmp_path / "m.bin")
    with pytest.raises(FileError, match="No such file"):
        pnnx.read(tmp_path / "m.param")


def one(operator: OperatorDefinition, **weights: np.ndarray[Any, Any]) -> NetDefinition:
    return NetDefinition.of("m", [operator], operator.inputs, operator.outputs, weights=weights)


@pytest.mark.parametrize(
    ("operator", "given_words"),
    [
        (OperatorDefinition("t", "a b", (), ("y",)), "'a b'"),
        (OperatorDefinition("", "a", (), ("y",)), "''"),
        (OperatorDefinition("t", "a", (), ("y\n",)), r"'y\\n'"),
        (OperatorDefinition("t", "a", (), ("y",), {"k=": 1}), "'k='"),
        (OperatorDefinition("t", "a", (), ("y",), {"@k": 1}), "'@k'"),
        (OperatorDefinition("t", "a", (), ("y",), {"k": object()}), "type object"),  # type: ignore[dict-item]
        (OperatorDefinition("t", "a", (), ("y",), weights={"w": WeightReference("w", (1,), "uint16")}), "uint16"),
    ],
)
def test_what_the_format_cannot_say_is_refused_before_anything_is_written(
    operator: OperatorDefinition, given_words: str, tmp_path: Path
) -> None:
    with pytest.raises(ExplorerError, match=given_words) as error:
        pnnx.save(one(operator), tmp_path / "m.param")
    assert error.value.rule
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("dtype", "weights", "given_words"),
    [
        ("float32", {}, "1 weight without a value: w"),
        ("float32", {"w": np.ones(3, np.float32)}, r"is float32 \(3,\)"),
        ("float32", {"w": np.ones(2)}, r"is float64 \(2,\)"),
        ("bfloat16", {"w": np.full(2, 0.1, np.float32)}, "bfloat16 cannot"),
    ],
)
def test_weights_that_do_not_fit_are_refused_and_leave_no_file(
    dtype: str, weights: dict[str, np.ndarray[Any, Any]], given_words: str, tmp_path: Path
) -> None:
    operator = OperatorDefinition("t", "a", (), ("y",), weights={"w": WeightReference("w", (2,), dtype)})
    with pytest.raises(FileError, match=given_words):
        pnnx.save(one(operator, **weights), tmp_path / "m.param")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int16", "complex64"])
@pytest.mark.parametrize(
    "arranged",
    [
        lambda w: w,
        np.asfortranarray,
        lambda w: np.repeat(w, 2, axis=1)[:, ::2],
        lambda w: w[::-1].copy()[::-1],
        lambda w: w.astype(w.dtype.newbyteorder(">")),
        lambda w: w.astype(w.dtype.newbyteorder("<")),
    ],
    ids=["row-major", "column-major", "strided", "reversed", "big-endian", "little-endian"],
)
def test_the_memory_layout_of_weights_does_not_change_the_file(
    arranged: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]], dtype: str, tmp_path: Path
) -> None:
    weight = array(WeightReference("w", (4, 3), dtype))
    operator = OperatorDefinition("t", "a", (), ("y",), weights={"w": WeightReference("w", (4, 3), dtype)})
    pnnx.save(one(operator, w=arranged(weight)), tmp_path / "m.param")
    np.testing.assert_array_equal(pnnx.read(tmp_path / "m.param").weight("a", "w"), weight, strict=True)


def test_bfloat16_weights_are_written_exactly(tmp_path: Path) -> None:
    """The upper half of a float32 is written; a nonzero lower half raises an error."""
    operator = OperatorDefinition("t", "a", (), ("y",), weights={"w": WeightReference("w", (32,), "bfloat16")})
    for bit in range(32):
        bits = np.zeros(32, np.uint32)
        bits[bit] = 1 << bit
        net = one(operator, w=bits.view(np.float32))
        if bit < 16:
            with pytest.raises(FileError, match="bfloat16 cannot"):
                pnnx.save(net, tmp_path / "m.param")
        else:
            pnnx.save(net, tmp_path / "m.param")
            result = pnnx.read(tmp_path / "m.param").weight("a", "w")
            np.testing.assert_array_equal(result.view(np.uint32), bits, strict=True)


def test_names_of_inputs_differ_from_those_of_operators(tmp_path: Path) -> None:
    net = NetDefinition.of("m", [OperatorDefinition("t", "pnnx_input_0", ("x",), ("y",))], ["x"], ["y"])
    pnnx.save(net, tmp_path / "m.param")
    assert pnnx.read(tmp_path / "m.param") == net
