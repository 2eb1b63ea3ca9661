"""Nets as .json with weights in .npz: equal after reading, and strict about invalid files."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer as ex
from explorer.core.errors import FileError, OperandError
from explorer.formats.explorer_json import save
from explorer.formats.pnnx.operators import TABLE as PNNX
from explorer.net import Net, NetDefinition, OperatorDefinition
from explorer.net.definition import serialization as net_json
from explorer.net.definition.definition import BlobType, WeightReference
from explorer.net.definition.serialization import dumps, from_json, json_schema, loads, to_json

ASSETS = Path(__file__).parents[2] / "assets"
SCHEMA = Path(net_json.__file__).with_name("net.schema.json")
SCHEMA_OF_CODE = json_schema()
images = np.load(ASSETS / "digits.npz")["images"]

texts = st.text(st.characters(), max_size=8)
words = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="@"), min_size=1, max_size=5)
plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.complex_numbers()
    | texts
    | st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 2**64 - 1, complex(math.nan, -math.inf)]),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)
dtypes = st.sampled_from(["float32", "float64", "int64", "uint8", "bool", "complex64", "bfloat16"])
shapes = st.none() | st.lists(st.none() | st.integers(0, 9) | texts, max_size=3).map(tuple)


@st.composite
def definitions(draw: st.DrawFn) -> NetDefinition:
    rewrites = draw(st.booleans())
    inputs = draw(st.lists(words, min_size=1, max_size=3, unique=True))
    known, operators, weights = list(inputs), [], {}
    for index, name in enumerate(draw(st.lists(words, max_size=5, unique=True))):
        reads = tuple(draw(st.lists(st.sampled_from(known), max_size=3)))
        fresh = words.filter(lambda word, known=known: word not in known)
        writes = draw(st.lists(st.sampled_from(known) | fresh if rewrites else fresh, max_size=2, unique=True))
        held = {}
        for attribute in draw(st.lists(words, max_size=2, unique=True)):
            shape, dtype = tuple(draw(st.lists(st.integers(0, 3), max_size=2))), draw(dtypes)
            key = f"{index}.{attribute}"
            held[attribute] = WeightReference(key, shape, dtype)
            weights[key] = np.zeros(shape, "float32" if dtype == "bfloat16" else dtype)
        operators.append(
            OperatorDefinition(
                draw(words),
                name,
                reads,
                tuple(writes),
                draw(st.dictionaries(texts, plain, max_size=3)),
                {str(at): blob for at, blob in enumerate(reads)} if draw(st.booleans()) else {},
                held,
                boxes=draw(st.none() | st.lists(texts, max_size=2).map(tuple)),
                doc=draw(texts),
            )
        )
        known += [blob for blob in writes if blob not in known]
    outputs = draw(st.lists(st.sampled_from(known), max_size=3))
    dialect = "explorer" if rewrites else draw(st.sampled_from(["", "pnnx", "onnx"]))
    net = NetDefinition.of(
        draw(texts), operators, inputs, outputs, weights=weights, dialect=dialect, rewrites=rewrites, doc=draw(texts)
    )
    noted = draw(st.dictionaries(st.sampled_from(list(net.blobs)), st.builds(BlobType, shapes, st.none() | dtypes)))
    return NetDefinition.of(
        net.name,
        operators,
        inputs,
        outputs,
        noted,
        weights=weights,
        dialect=dialect,
        rewrites=rewrites,
        doc=net.doc,
    )


@pytest.mark.spec("C-12", "C-20", headline=True)
@settings(max_examples=60)
@given(definitions())
def test_any_definition_comes_back_exactly(definition: NetDefinition) -> None:
    """Write any net as JSON and read it back exactly, including arguments, dtypes, lengths and versions."""
    text = dumps(definition)
    again = loads(text)
    placeless = replace(again, operators=tuple(replace(operator, line=0) for operator in again.operators))
    assert repr(placeless) == repr(replace(definition, weights={}))  # equality in which NaN equals itself
    assert dumps(again) == text
    assert text.isascii()
    jsonschema.validate(json.loads(text), json_schema())


@pytest.mark.spec("C-20", "C-12", headline=True)
def test_the_published_schema_equals_the_generated_one() -> None:
    """Publish the JSON Schema of nets as a file in the package; every saved net conforms to it."""
    assert json.loads(SCHEMA.read_text()) == json_schema()
    for name in ("digits.pnnx.param", "digits_opt1.pnnx.param", "digits.onnx"):
        jsonschema.validate(to_json(ex.open(ASSETS / name).definition), json.loads(SCHEMA.read_text()))


@pytest.mark.spec("C-12", "I-13")
@pytest.mark.parametrize("name", ["digits.pnnx.param", "digits_opt1.pnnx.param", "digits.onnx"])
def test_a_file_of_any_format_is_saved_as_json_and_runs(name: str, tmp_path: Path) -> None:
    """A net from PNNX or ONNX keeps its format's name and computes the same bits."""
    net = ex.open(ASSETS / name)
    net.save(tmp_path / "m.json")
    again = ex.open(tmp_path / "m.json")
    assert again.definition == net.definition
    assert again.table is net.table
    np.testing.assert_array_equal(again.run(images), net.run(images))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.json", "m.npz"]
    with np.load(tmp_path / "m.npz", allow_pickle=False) as arrays:
        assert set(arrays) == set(net.definition.weights) & set(arrays)
    first = next(operator for operator in again.definition.operators if operator.weights)
    line = (tmp_path / "m.json").read_text().split("\n")[first.line - 1]
    assert json.dumps(first.name) in line


@pytest.mark.spec("C-12", "C-19", "I-15")
def test_a_net_is_saved_with_its_current_weights(tmp_path: Path) -> None:
    """A net defined by names, with edited blobs and a replaced weight, opens unchanged and runs."""
    net = ex.Net("mlp")
    net.input("x", (None, 3))
    net.GivenTensorFill([], "w", values=np.ones((2, 3), np.float32), name="w")
    net.Relu(net.FC(["x", "w"], "h"), "h", doc="in place")
    net.output("h")
    net["w"].values = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = np.array([[1, -2, 1]], np.float32)
    net.save(tmp_path / "m.json")
    again = ex.open(tmp_path / "m.json")
    assert again.definition == net.definition
    assert again.definition.versions("h")[1].producer == "relu"
    assert again.definition.operator("relu").doc == "in place"
    np.testing.assert_array_equal(again.run(x), net.run(x))
    again.Tanh("h", "h")
    again.save(tmp_path / "m.json")
    np.testing.assert_allclose(ex.open(tmp_path / "m.json").run(x), np.tanh(net.run(x)), rtol=1e-6)
    with pytest.raises(FileError, match=r"operator types of 'explorer'\n.*pnnx.*\n.*m\.json"):
        net.save(tmp_path / "m.param")


def test_a_shared_weight_may_be_replaced_in_one_operator(tmp_path: Path) -> None:
    reference = {"data": WeightReference("shared", (2,), "float32")}
    operators = [OperatorDefinition("pnnx.Attribute", name, (), (name,), weights=reference) for name in "ab"]
    definition = NetDefinition.of("n", operators, [], ["a", "b"], weights={"shared": np.zeros(2, np.float32)})
    net = Net(definition, PNNX)
    net.save(tmp_path / "m.json")
    assert ex.open(tmp_path / "m.json").definition == net.definition
    net["b"].data = np.ones(2, np.float32)
    net.save(tmp_path / "m.json")
    again = ex.open(tmp_path / "m.json")
    assert again["a"].data.array.tolist() == [0, 0]
    assert again["b"].data.array.tolist() == [1, 1]


def saved(folder: Path) -> Path:
    net = ex.Net("n")
    net.GivenTensorFill([], "w", values=np.arange(3, dtype=np.float32), name="w")
    net.output("w")
    net.save(folder / "n.json")
    return folder / "n.json"


def test_a_net_without_its_arrays_can_be_inspected_but_not_run(tmp_path: Path) -> None:
    path = saved(tmp_path)
    path.with_suffix(".npz").unlink()
    net = ex.open(path)
    assert "w" in net
    assert net.preview_plan().recording.nodes
    for ask in (net.run, lambda: net["w"].values.array):
        with pytest.raises(FileError, match=r"n\.npz: the file is missing, and with it 1 weight: w\.values"):
            ask()


def _entry(path: Path, name: str, data: bytes) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, data)


def _array(path: Path, value: Any, name: str = "w.values") -> None:
    np.savez(path, **{name: value})


def _header(path: Path, text: str) -> None:
    data = text.encode().ljust(117) + b"\n"
    _entry(path, "w.values.npy", b"\x93NUMPY\x01\x00" + len(data).to_bytes(2, "little") + data + bytes(12))


@pytest.mark.spec("C-12", "C-20")
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda p: p.write_bytes(b"no zip"), r"not a readable zip"),
        (lambda p: p.write_bytes(p.read_bytes()[:200]), r"not a readable zip"),
        (lambda p: _array(p, np.zeros(3, np.float32), "v"), r"weight 'w\.values' is missing"),
        (lambda p: _array(p, np.zeros(4, np.float32)), r"is float32 \(4,\), but declared as float32 \(3,\)"),
        (lambda p: _array(p, np.zeros(3)), r"is float64 \(3,\), but declared"),
        (lambda p: _array(p, np.array([{}, None, "x"], object)), r"its header states object of shape \(3,\)"),
        (lambda p: _entry(p, "w.values.npy", b"nothing"), r"cannot be read"),
        (lambda p: _header(p, "{'descr': '<f4', 'fortran_order': False, 'shape': (3"), r"cannot be read"),
        (lambda p: _header(p, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }" + " " * 40), None),
        (lambda p: _header(p, "{'descr': '<f4', 'fortran_order': False, 'shape': (10**15,), }"), r"cannot be read"),
        (lambda p: _entry(p, "w.values.npy", _npy(np.zeros(3, np.float32))[:-1]), r"has 139 bytes, .* requires 140"),
    ],
)  # fmt: skip
def test_errors_of_damaged_arrays_contain_file_and_weight(
    damage: Callable[[Path], None], said: str | None, tmp_path: Path
) -> None:
    """Arrays are checked against the net's declarations before any is read; nothing is ever unpickled."""
    path = saved(tmp_path)
    damage(path.with_suffix(".npz"))
    if said is None:
        assert ex.open(path).run().tolist() == [0, 0, 0]
        return
    with pytest.raises(FileError, match=r"n\.npz: (.|\n)*" + said):
        ex.open(path).run()


def _npy(array: np.ndarray) -> bytes:
    import io

    target = io.BytesIO()
    np.save(target, array)
    return target.getvalue()


def test_a_flipped_bit_is_detected(tmp_path: Path) -> None:
    path = saved(tmp_path)
    arrays = path.with_suffix(".npz")
    data = bytearray(arrays.read_bytes())
    at = data.index(np.float32(2).tobytes())
    data[at + 3] ^= 1
    arrays.write_bytes(data)
    with pytest.raises(FileError, match=r"'w\.values' cannot be read: Bad CRC-32"):
        ex.open(path).run()


def good() -> dict[str, Any]:
    weight = {"key": "k", "shape": [2], "dtype": "float32"}
    operator = {"type": "T", "name": "o", "inputs": ["x"], "outputs": ["y"], "arguments": {"a": [1, [2.5, None]]}}
    types = {"x": {"shape": [None, "n", 3], "dtype": "bool"}}
    return {
        "schema": 1, "name": "n", "dialect": "pnnx", "rewrites": False, "inputs": ["x"], "outputs": ["y"],
        "operators": [operator | {"weights": {"w": weight}}], "types": types,
    }  # fmt: skip


def _set(value: Any, *path: Any) -> Callable[[dict[str, Any]], None]:
    def change(plain: Any) -> None:
        for step in path[:-1]:
            plain = plain[step]
        plain[path[-1]] = value

    return change


OPERATOR = ("operators", 0)


@pytest.mark.spec("C-12", "C-20")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_set(2, "schema"), r"schema 2\n.*the schema must be 1"),
        (_set(True, "schema"), r"schema True"),
        (_set(3, "name"), r"net field net\.name: expected a string, found 3"),
        (_set(1, "rewrites"), r"net\.rewrites: expected a boolean"),
        (_set("x", "inputs"), r"net\.inputs: expected a list"),
        (_set([1], "outputs"), r"net\.outputs\[0\]: expected a string"),
        (_set({}, "operators"), r"net\.operators: expected a list, found an object"),
        (_set({"type": "T"}, *OPERATOR), r"net\.operators\[0\]: expected an object of .*, found no name"),
        (_set(1, *OPERATOR, "color"), r"net\.operators\[0\]: .* found unknown 'color'"),
        (_set({"a": {"b": 1}}, *OPERATOR, "arguments"), r"net\.operators\[0\]\.arguments\['a'\]: expected .*\"float\""),
        (_set({"a": [0, {"float": "1"}]}, *OPERATOR, "arguments"), r"arguments\['a'\]\[1\]: expected"),
        (_set({"a": {"complex": [1, 2]}}, *OPERATOR, "arguments"), r"arguments\['a'\]: expected"),
        (_set({"a": {"complex": [1.0]}}, *OPERATOR, "arguments"), r"arguments\['a'\]: expected"),
        (_set({"a": {"complex": []}}, *OPERATOR, "arguments"), r"arguments\['a'\]: expected"),
        (_set({"a": {"complex": [1.0, 2.0, 3.0]}}, *OPERATOR, "arguments"), r"arguments\['a'\]: expected"),
        (_set({"a": {"complex": [1.0, [2.0]]}}, *OPERATOR, "arguments"), r"arguments\['a'\]: expected"),
        (_set(json.loads("[" * 17 + "]" * 17), *OPERATOR, "arguments", "a"), r"nested at most 16 deep"),
        (_set({"a": [2**64]}, *OPERATOR, "arguments"), r"arguments\['a'\]\[0\]: .* at most 64 bits, found 65 bits"),
        (_set({"a": -(2**63) - 1}, *OPERATOR, "arguments"), r"arguments\['a'\]: .* at most 64 bits, found 64 bits"),
        (_set(-1, *OPERATOR, "weights", "w", "shape", 0), r"\.weights\['w'\]\.shape: expected lengths"),
        (_set("object", *OPERATOR, "weights", "w", "dtype"), r"\.weights\['w'\]\.dtype: .* found 'object'"),
        (_set("O,O", *OPERATOR, "weights", "w", "dtype"), r"\.dtype: expected the name of a dtype"),
        (_set(1, *OPERATOR, "weights", "w", "key"), r"\.weights\['w'\]\.key: expected a string"),
        (_set(-2, "types", "x", "shape", 0), r"net\.types\['x'\]\.shape: .* found -2"),
        (_set(True, "types", "x", "shape", 0), r"net\.types\['x'\]\.shape"),
        (_set("f4x", "types", "x", "dtype"), r"net\.types\['x'\]\.dtype"),
        (_set({}, "types", "q"), r"net\.types\['q'\]: expected the name of a blob"),
        (_set(["q"], *OPERATOR, "inputs"), r"operator 'o' reads 'q', which nothing produces"),
        (_set(["x"], *OPERATOR, "outputs"), r"a blob must have only one producer"),
    ],
)  # fmt: skip
def test_errors_of_invalid_nets_contain_the_location(change: Callable[[dict[str, Any]], None], said: str) -> None:
    """Every wrong field is reported with its path, the given and the expected value."""
    plain = good()
    assert from_json(plain).operator("o").arguments == {"a": (1, (2.5, None))}
    change(plain)
    with pytest.raises(OperandError, match=said):
        from_json(plain)


numbers = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
near_special = st.dictionaries(
    st.sampled_from(["float", "complex", "x"]),
    st.sampled_from(["inf", "-inf", "nan", "1.0", [1.0, {"float": "nan"}]]) | st.lists(numbers, max_size=3) | numbers,
    max_size=2,
)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | st.sampled_from(["", "inf", "nan"]) | near_special,
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)


@pytest.mark.spec("C-20")
@settings(max_examples=300)
@given(json_values)
def test_every_argument_that_is_read_fits_the_published_schema(value: Any) -> None:
    """The reader takes no form that the schema refuses; the schema takes more, for it cannot tell 1 from 1.0."""
    plain = good()
    plain["operators"][0]["arguments"] = {"a": value}
    fits = jsonschema.Draft202012Validator(SCHEMA_OF_CODE).is_valid(plain)
    try:
        result = from_json(plain)
    except OperandError:
        assert not fits or "complex" in json.dumps(value)
    else:
        assert fits
        assert to_json(result)["operators"][0]["arguments"] == {"a": value}


def test_empty_fields_are_omitted() -> None:
    operator = OperatorDefinition("T", "o", (), ())
    definition = NetDefinition.of("n", [operator, replace(operator, name="p", boxes=(), doc="words")], [], [])
    assert to_json(definition) == {
        "schema": 1, "name": "n", "dialect": "", "rewrites": False, "inputs": [], "outputs": [], "types": {},
        "operators": [{"type": "T", "name": "o"}, {"type": "T", "name": "p", "doc": "words", "boxes": []}],
    }  # fmt: skip
    assert to_json(replace(definition, doc="words"))["doc"] == "words"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"cannot be parsed as JSON"),
        ("[]", r"this is not a net: expected an object, found a list"),
        ('{"schema": 1, "schema": 1}', r"the name 'schema' occurs twice"),
        ('{"schema": NaN}', r"nan is not a finite number|NaN is not a finite number"),
        ('{"schema": 1e999}', r"1e999 is not a finite number"),
        ("[" * 100_000, r"nested too deeply"),
        ('{"schema": ' + "9" * 5000 + "}", r"cannot be parsed as JSON"),
        ("\ufeff{}", r"cannot be parsed as JSON"),
    ],
)
def test_what_is_no_json_is_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(OperandError, match=said):
        loads(text)
    (tmp_path / "n.json").write_text(text, encoding="utf-8")
    with pytest.raises(FileError, match=r"n\.json: (.|\n)*" + said):
        ex.open(tmp_path / "n.json")


def test_errors_of_files_that_cannot_be_opened_contain_the_reason(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"none\.json: the file cannot be read"):
        ex.open(tmp_path / "none.json")
    (tmp_path / "n.json").write_bytes(b"\xff\xfe")
    with pytest.raises(FileError, match="it is not text"):
        ex.open(tmp_path / "n.json")
    (tmp_path / "n.json").write_text(json.dumps(good() | {"dialect": "os"}))
    with pytest.raises(FileError, match=r"the dialect 'os'\n.*explorer, onnx, pnnx"):
        ex.open(tmp_path / "n.json")


def test_a_failed_save_keeps_the_previous_files(tmp_path: Path) -> None:
    path = saved(tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    net = ex.open(path)
    broken = replace(net.definition, weights={})
    with pytest.raises(FileError, match=r"weight 'w\.values' has no value"):
        save(broken, path)
    with pytest.raises(FileError, match=r"is float64 \(3,\)\n.*must be float32 \(3,\)"):
        save(replace(net.definition, weights={"w.values": np.zeros(3)}), path)
    deep: Any = ()
    for _ in range(20):
        deep = (deep,)
    operator = replace(net.definition.operators[0], arguments={"a": deep})
    with pytest.raises(OperandError, match=r"the argument w\.a\n.*16 deep"):
        save(replace(net.definition, operators=(operator,)), path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
