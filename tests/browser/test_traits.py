"""Traits of a widget shown in several views: saved states are consistent, and Python's values take precedence."""

from __future__ import annotations

import pytest

from explorer.view.payload.view_payload import payload
from tests.view import sample

pytestmark = pytest.mark.browser

SHOWN_TWICE = """(explorer, [payload, traits, keys]) => {
    const state = { ...traits, payload: JSON.stringify(payload) }, listeners = [], messages = [];
    let unsaved = {};
    const model = {
        comm_live: true,
        get: (name) => state[name],
        // As marimo does it: one trait at a time, and each change is told at once.
        set: (name, value) => {
            if (JSON.stringify(value) === JSON.stringify(state[name])) return;
            state[name] = unsaved[name] = value;
            for (const [heard, act] of [...listeners]) if (heard === `change:${name}`) act();
        },
        save_changes: () => {
            if (Object.keys(unsaved).length) messages.push(unsaved);
            unsaved = {};
        },
        on: (event, act) => listeners.push([event, act]),
        off: () => {},
    };
    const ends = [0, 1].map(() => explorer.default.render({ model, el: document.body, shared: model }));
    const stages = [...document.querySelectorAll(".ex-stage")];
    for (const key of keys) stages[0].dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    const said = [...document.querySelectorAll(".ex-say")].map((each) => each.textContent);
    ends.forEach((end) => end());
    return [messages, said];
}"""


@pytest.mark.spec("V-16")
def test_a_view_shown_twice_saves_each_step_with_its_stage_and_what_it_has_seen(module):
    """Python has set both traits once and accepts every message; none has a step with an unseen revision."""
    recording = sample.mlp()
    traits = {"step": 0, "stage": "recorded", "selected": -1, "open_boxes": None, "theme": "auto", "predicting": False}
    traits |= {"revisions": {"step": 1, "stage": 1}, "seen": {}}
    messages, said = module(SHOWN_TWICE, [payload(recording, position=0), traits, ["End", "Home", ".", "."]])
    assert said[0] == said[1]
    assert len(messages) == 4
    for message in messages:
        assert {name for name in ("step", "stage") if name in message} <= message["seen"].keys()
    assert {"step", "stage"} <= messages[0].keys() & messages[1].keys()
    assert [message["seen"]["changes"] for message in messages] == [1, 2, 3, 4]
