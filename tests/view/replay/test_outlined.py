"""Outlined groups: for each node, the group that it joined last."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.record import Group
from explorer.view.replay.state import outlined
from tests.view import sample
from tests.view.random_recordings import random_recording


@pytest.mark.spec("V-1", "V-4")
@given(st.integers(0, 10_000))
def test_a_node_is_in_the_outline_of_its_last_group(seed):
    recording = random_recording(seed)
    last = outlined(recording)
    for position in range(recording.end + 1):
        standing = [n for n, group in enumerate(recording.groups) if group.decision < position <= last[n]]
        members = [node for number in standing for node in recording.groups[number].members]
        assert len(members) == len(set(members))
        for node in members:
            joined = [n for n, g in enumerate(recording.groups) if node in g.members and g.decision < position]
            assert joined[-1] in standing


@pytest.mark.spec("V-1")
def test_a_function_has_no_outline():
    recording = sample.mlp()
    first, second = recording.groups
    recording.groups.append(Group(second.decision, "function", "f", first.members))
    assert outlined(recording) == [recording.end, recording.end, -1]
