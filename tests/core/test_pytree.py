"""Nested containers are flattened and restored."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from explorer.core.pytree import flatten, map_structure, unflatten

Pair = namedtuple("Pair", "first second")
nested: st.SearchStrategy[Any] = st.recursive(
    st.integers() | st.none() | st.text(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3)
        | st.builds(Pair, inner, inner)
    ),
    max_leaves=12,
)


@given(nested)
def test_a_flattened_container_can_be_restored(value: Any) -> None:
    leaves, structure = flatten(value)
    again = unflatten(structure, leaves)
    assert again == value
    assert repr(again) == repr(value)
    hash(structure)
    assert map_structure(str, value) == unflatten(structure, map(str, leaves))
