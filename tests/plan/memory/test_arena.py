"""Offsets in an arena: values that are live at the same time never overlap, and little memory is wasted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.plan.memory.arena import Span, pack, peak_bytes

PLENTY = 10**6


@st.composite
def spans(draw: st.DrawFn) -> list[Span]:
    moments = draw(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), max_size=40))
    return [Span(64 * draw(st.integers(1, 50)), first, first + length) for first, length in moments]


def meet(a: Span, b: Span) -> bool:
    return a.first <= b.last and b.first <= a.last


@pytest.mark.spec("P-8")
@given(spans())
def test_values_that_are_live_together_share_no_byte(lives: list[Span]) -> None:
    """Overlapping lifetimes have disjoint bytes, and the arena ends at the last of them."""
    packed = pack(lives, PLENTY)
    assert packed is not None
    offsets, size = packed
    places = list(zip(lives, offsets, strict=True))
    for index, (one, start) in enumerate(places):
        assert start >= 0
        for other, at in places[:index]:
            assert not meet(one, other) or start + one.size <= at or at + other.size <= start
    assert size == max([start + one.size for one, start in places], default=0)


@given(spans())
def test_an_arena_is_at_least_as_large_as_the_peak_of_live_values(lives: list[Span]) -> None:
    alive = [sum(one.size for one in lives if one.first <= moment <= one.last) for moment in range(50)]
    assert peak_bytes(lives) == max(alive)
    packed = pack(lives, PLENTY)
    assert packed is not None
    assert max(alive) <= packed[1] <= sum(one.size for one in lives)


def test_a_large_span_reuses_the_memory_of_several_small_ones() -> None:
    lives = [Span(100, 0, 1), Span(100, 0, 1), Span(200, 2, 3), Span(50, 1, 2)]
    assert pack(lives, PLENTY) == ([0, 100, 0, 200], 250)


def test_too_many_overlapping_lifetimes_are_not_packed() -> None:
    lives = [Span(64, 0, 1)] * 20
    assert pack(lives, 189) is None
    assert pack(lives, 190) == ([64 * index for index in range(20)], 64 * 20)
