"""Packed tables: what is packed is unpacked again, in both languages, and a thousand equal rows cost little."""

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
    st.lists(st.integers(), min_size=2, max_size=9).map(lambda row: [n + turn for turn in range(60) for n in row]),
)
numbered = st.dictionaries(numbers.map(str), st.integers(), max_size=80)
values = st.dictionaries(
    st.text(), tables | numbered | st.integers(1, 200).flatmap(lambda n: st.builds(lambda x: x * n, tables))
)


@given(values)
def test_what_is_packed_is_unpacked_again(value):
    assert unpack(pack(value)) == value
    assert unpack(json.loads(json.dumps(pack(value)))) == value


@pytest.mark.parametrize(
    "value", [[True, False] * LONG, [1.0, 2] * LONG, [{}] * LONG, [[]] * LONG, [None] * LONG, [0.0, -0.0] * LONG]
)
def test_kinds_are_kept(value):
    assert repr(unpack(pack(value))) == repr(value)


def test_names_of_a_file_are_no_packed_tables():
    forms = {"=columns": {}, "=rows": [], "=runs": "1", "==runs": [], "=deltas": "A", "=flat": [1], "=words": ["a"]}
    for key, item in forms.items():
        assert unpack(pack({"attributes": {key: item}})) == {"attributes": {key: item}}
    assert unpack(pack({"attributes": forms})) == {"attributes": forms}


def test_equal_rows_cost_as_much_as_one():
    table = [
        {"at": [10, 20 * row, 30, 40], "slot": row, "kind": "leaf", "nodes": [[row, 2 * row]]} for row in range(5000)
    ]
    assert len(json.dumps(pack(table))) < 400
    assert unpack(pack(table)) == table


def test_a_number_near_the_one_before_is_one_letter():
    values = [1_000_000 + 7 * place % 13 for place in range(5000)]
    assert len(json.dumps(pack(values))) < 5100
    assert unpack(pack(values)) == values


def test_numbers_that_go_on_in_a_rhythm_cost_as_much_as_its_length():
    """Node, weight, node, weight: a thousand samples are written once, with the steps from one to the next."""
    values = [[10 * sample, 7, 10 * sample + 1, 8, 9][turn] for sample in range(1000) for turn in range(5)]
    assert len(json.dumps(pack([1, 2, 3, *values, 4]))) < 400
    assert unpack(pack([1, 2, 3, *values, 4])) == [1, 2, 3, *values, 4]


def test_times_and_numbered_attributes_are_packed_as_numbers():
    times = [round(0.217 * place % 7, 3) for place in range(1000)]
    assert len(json.dumps(pack(times))) < 3500
    assert unpack(pack(times)) == times
    attributes = {str(2000 + place): {"index": str(place)} for place in range(1000)}
    assert len(json.dumps(pack(attributes))) < 150
    assert unpack(pack(attributes)) == attributes
    assert list(unpack(pack(attributes))) == list(attributes)


def test_numbers_that_scripts_cannot_add_exactly_stay_as_they_are():
    values = [2**53, -(2**60)] * LONG
    assert pack(values) == values


def test_rows_of_a_recording_are_packed_as_their_plain_form_is():
    recording = sample.transformer()
    assert json.dumps(pack(recording)) == json.dumps(
        {k: v for k, v in pack(to_json(recording)).items() if k != "schema"}
    )
