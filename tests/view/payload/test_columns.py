"""Packed tables: both languages restore the packed values, and a thousand equal rows take little space."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.record import to_json
from explorer.view.payload.columns import LONG, pack
from tests.support.unpacked import unpack
from tests.view import sample

numbers = st.integers(-3, 3) | st.integers()
rows = st.lists(numbers, max_size=3)
tables = st.one_of(
    st.lists(numbers),
    st.lists(st.sampled_from(["leaf", "call"]) | st.text()),
    st.lists(rows),
    st.lists(st.fixed_dictionaries({"a": numbers, "b": rows})),
    st.lists(st.fixed_dictionaries({"a": numbers}) | st.fixed_dictionaries({"a": numbers, "b": numbers}) | st.just({})),
    st.lists(st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0])),
    st.lists(st.none() | st.booleans() | st.floats(allow_nan=False) | numbers),
    st.lists(st.integers(-(10**7), 10**7).map(lambda thousandths: thousandths / 1000)),
    st.lists(numbers.map(str) | st.sampled_from(["00", "-0", "1.0", "٣"])),
    st.lists(st.from_regex(r"[a#]?(0?[0-9]{1,2}|[0-9]{14,17}|٣)\.[ab]?[0-9]?", fullmatch=True), min_size=LONG),
    st.lists(st.integers(), min_size=2, max_size=9).map(lambda row: [n + turn for turn in range(60) for n in row]),
)
numbered = st.dictionaries(numbers.map(str), st.integers(), max_size=80)
values = st.dictionaries(
    st.text(), tables | numbered | st.integers(1, 200).flatmap(lambda n: st.builds(lambda x: x * n, tables))
)


@given(values)
def test_unpacking_restores_packed_values(value):
    assert unpack(pack(value)) == value
    assert unpack(json.loads(json.dumps(pack(value)))) == value


@pytest.mark.parametrize(
    "value", [[True, False] * LONG, [1.0, 2] * LONG, [{}] * LONG, [[]] * LONG, [None] * LONG, [0.0, -0.0] * LONG]
)
def test_types_of_values_are_preserved(value):
    assert repr(unpack(pack(value))) == repr(value)


def test_names_from_a_file_are_not_mistaken_for_packed_tables():
    forms = {"=columns": {}, "=rows": [], "=runs": "1", "==runs": [], "=deltas": "A", "=flat": [1], "=words": ["a"]}
    for key, item in forms.items():
        assert unpack(pack({"attributes": {key: item}})) == {"attributes": {key: item}}
    assert unpack(pack({"attributes": forms})) == {"attributes": forms}


def test_equal_rows_take_as_much_space_as_one():
    table = [
        {"at": [10, 20 * row, 30, 40], "slot": row, "kind": "leaf", "nodes": [[row, 2 * row]]} for row in range(5000)
    ]
    assert len(json.dumps(pack(table))) < 400
    assert unpack(pack(table)) == table


def test_a_small_difference_is_one_letter():
    values = [1_000_000 + 7 * index % 13 for index in range(5000)]
    assert len(json.dumps(pack(values))) < 5100
    assert unpack(pack(values)) == values


def test_periodic_numbers_take_as_much_space_as_one_period():
    """Alternating nodes and weights of a thousand samples are written once, with the steps between them."""
    values = [[10 * sample, 7, 10 * sample + 1, 8, 9][turn] for sample in range(1000) for turn in range(5)]
    assert len(json.dumps(pack([1, 2, 3, *values, 4]))) < 400
    assert unpack(pack([1, 2, 3, *values, 4])) == [1, 2, 3, *values, 4]


def test_times_and_numbered_attributes_are_packed_as_numbers():
    times = [round(0.217 * index % 7, 3) for index in range(1000)]
    assert len(json.dumps(pack(times))) < 3500
    assert unpack(pack(times)) == times
    attributes = {str(2000 + index): {"index": str(index)} for index in range(1000)}
    assert len(json.dumps(pack(attributes))) < 150
    assert unpack(pack(attributes)) == attributes
    assert list(unpack(pack(attributes))) == list(attributes)


def test_names_that_differ_in_numbers_take_as_much_space_as_their_numbers():
    """Names in a file repeat from layer to layer, and each is one letter for the change of its number."""
    names = [f"layers.{row // 8}/attn/{'qkvo'[row % 4]}/MatMul_{row}" for row in range(4000)]
    assert len(json.dumps(pack(names))) < 600
    assert unpack(pack(names)) == names


def test_names_without_numbers_stay_as_they_are():
    """Every third name is equal, so a sample of them looks repetitive."""
    names = [f"{'abcdefghij'[row % 10]}{'x' * (row // 10)}" if row % 3 else "y" for row in range(6000)]
    assert unpack(pack(names)) == names


def test_frequent_strings_are_written_once():
    words = [f"{chr(97 + row % 26)}{chr(97 + row // 26 % 26)}" for row in range(300)]
    assert len(json.dumps(pack(words * 10))) < 2 * len(json.dumps(words))
    assert unpack(pack(words * 10)) == words * 10


def test_numbers_inexact_in_scripts_are_not_packed():
    values = [2**53, -(2**60)] * LONG
    assert pack(values) == values


def test_rows_of_a_recording_are_packed_like_their_plain_form():
    recording = sample.transformer()
    assert json.dumps(pack(recording)) == json.dumps(
        {k: v for k, v in pack(to_json(recording)).items() if k != "schema"}
    )
