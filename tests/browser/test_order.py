"""The stage "order": the sentence and the panel agree about each pick."""

import numpy as np
import pytest

import explorer as ex
from tests.browser.player import heading, press

pytestmark = pytest.mark.browser


@pytest.mark.spec("P-7", "V-7")
@pytest.mark.parametrize("executor", ["simple", "dag"])
def test_the_alternatives_of_a_pick_never_hold_the_picked_kernel(show, executor):
    """The panel lists alternatives exactly when the sentence counts other ready or waiting kernels."""
    x = ex.tensor(np.ones((40, 40)))
    plan = ex.EvalPlan(executor=executor, without=["batch"], lanes=2 if executor == "dag" else 1)
    plan.register(ex.add_n(*[ex.cumsum(ex.cumsum(x * float(n + 2), 0), 1) for n in range(4)]))
    recording = plan.prepare().recording
    view = show(recording)
    waited = 0
    while not view.locator(".ex-say").filter(has_text="pick 1 of").count():
        press(view, ".")
    for number, kernel in enumerate(recording.schedule.kernels, 1):
        assert f"pick {number} of {len(recording.schedule.kernels)}" in view.inner_text()
        sentence = view.locator(".ex-say").inner_text()
        assert ("no other kernel was ready" in sentence) is (kernel.ready_count == 1 and kernel.waiting_count == 0)
        others = heading(view, "could have been picked instead")
        assert others.count() == (kernel.ready_count > 1)
        if others.count():
            assert f"({kernel.ready_count - 1})" in others.inner_text()
            listed = others.locator("xpath=following-sibling::*[1]").locator("li")
            assert listed.count() == len(kernel.ready_candidates) - 1
        waiting = heading(view, "waiting for running kernels")
        assert waiting.count() == (kernel.waiting_count > 0)
        waited += waiting.count()
        press(view, ".")
    assert (waited > 0) is (executor == "dag")
