"""A thousand calls of one function: a stack of leaves, a stack of calls, and the weights."""

import json
import time
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import explorer as ex
from explorer.view.model.picture_model import build_model
from explorer.view.payload.view_payload import payload
from explorer.view.picture.svg import svg

NAMESPACE = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def recording():
    random = np.random.default_rng(0)
    shapes = ((128, 256), (256, 256), (256, 10))
    w1, w2, w3 = [ex.tensor(random.normal(size=shape).astype(np.float32), name="w") for shape in shapes]

    @ex.function
    def mlp(x):
        return ex.tanh(ex.tanh(x @ w1) @ w2) @ w3

    plan = ex.EvalPlan()
    for row in random.normal(size=(1000, 128)).astype(np.float32):
        plan.register(mlp(row))
    plan.eval()
    return plan.recording


def texts(picture):
    return [text.text for text in ElementTree.fromstring(picture).iter(NAMESPACE + "text") if text.text]


@pytest.mark.spec("V-4", "V-7")
def test_as_recorded_there_are_two_stacks_and_the_weights(recording):
    shown = [text for text in texts(svg(recording, 0)) if not text.endswith("f32") and "nodes" not in text]
    assert sorted(shown) == ["mlp ×1,000", "output", "tensor ×1,000", "w", "w", "w"]


@pytest.mark.spec("V-4", "V-7")
def test_at_the_end_the_batched_body_is_between_the_stacks(recording):
    shown = texts(svg(recording))
    assert {"stack", "matmul", "tanh", "tensor ×1,000"} <= set(shown)
    assert sum(text.startswith("mlp ×1000 · ") for text in shown) == 1
    assert shown.count("matmul") == 3
    assert sum(text.startswith("kernel ") for text in shown) == 2


@pytest.mark.spec("V-7")
def test_it_is_small_and_fast(recording):
    start = time.process_time()
    whole = payload(recording)
    assert time.process_time() - start < 1.0
    assert len(json.dumps(whole, ensure_ascii=False)) < 300_000
    assert len(build_model(recording).tree.boxes[0].items) < 10
