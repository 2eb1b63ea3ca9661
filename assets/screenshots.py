"""Take the pictures in assets/screenshots: a small program and a model's file, light and dark, in headless Chromium.

    python assets/screenshots.py

Needs Playwright and an installed Chromium or Chrome.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
import seeded
from playwright.sync_api import sync_playwright

import explorer as ex
from explorer.record import Recording
from explorer.view.export.html_page import html

ASSETS = Path(__file__).parent
PICTURES = ASSETS / "screenshots"
BROWSERS = ("chromium", "google-chrome", "chromium-browser")


def program() -> Recording:
    """A product written twice, a bias, an activation, and the likelihood of a softmax, with its gradients."""
    rng = np.random.default_rng(0)
    x = ex.tensor(rng.normal(size=(32, 64)).astype(np.float32))
    W = ex.tensor(rng.normal(size=(64, 48)).astype(np.float32))  # noqa: N806
    b = ex.tensor(np.zeros(48, np.float32))
    truth = ex.one_hot(rng.integers(0, 48, 32), 48)
    scores = np.tanh(x @ W + b) + 2 * (x @ W)
    loss = ex.nll_loss(truth, ex.softmax(scores))
    plan = ex.EvalPlan(title="a small program", record="values")
    plan.register(loss)
    return plan.eval().recording


def model() -> Recording:
    """ResNet-18 as PNNX exports it, planned for one picture."""
    net = ex.open(ASSETS / "models" / "resnet18.pnnx.param")
    for operator in net.operators.values():
        for name, declared in operator.weights.items():
            operator.weights[name] = seeded.weight(f"{operator.name}.{name}", declared.shape)
    return net.plan((1, 3, 224, 224)).recording


def main() -> None:
    """Write explorer-light.png, explorer-dark.png, model-light.png and model-dark.png."""
    PICTURES.mkdir(exist_ok=True)
    small = program()
    fused = next(n for n, d in enumerate(small.decisions, 1) if d.code == "reduction" and d.verdict == "applied")
    browser_path = next(path for name in BROWSERS if (path := shutil.which(name)))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox", "--disable-gpu"])
        for name, recording, position in (("explorer", small, fused), ("model", model(), 0)):
            for theme in ("light", "dark"):
                page_path = Path(folder) / f"{name}-{theme}.html"
                page_path.write_text(html(recording, theme=theme, position=position), encoding="utf-8")
                page = browser.new_page(viewport={"width": 1040, "height": 700}, device_scale_factor=2)
                page.goto(page_path.as_uri())
                page.wait_for_timeout(500)
                page.screenshot(path=PICTURES / f"{name}-{theme}.png", full_page=True)
        browser.close()


if __name__ == "__main__":
    main()
