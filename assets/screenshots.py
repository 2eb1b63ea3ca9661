"""Make assets/screenshots: views of a small program and a model, light and dark, in headless Chromium.

An animated WebP steps through the small program, with each applied decision and each kernel run.

    python assets/screenshots.py

Needs Playwright and an installed Chromium or Chrome.
"""

from __future__ import annotations

import io
import shutil
import tempfile
from pathlib import Path

import numpy as np
import seeded
from PIL import Image
from playwright.sync_api import Page, sync_playwright

import explorer as ex
from explorer.record import Recording
from explorer.view.export.html_page import html
from explorer.view.replay.steps import stage_ends, stage_kernels

ASSETS = Path(__file__).parent
PICTURES = ASSETS / "screenshots"
UNFOCUSED = "document.activeElement.blur()"
"""script that removes the focus ring, because an opened page focuses the first node"""
_DECISION_MS, _KERNEL_MS, _LAST_MS = 1600, 500, 4000
"""duration of a frame in ms, long enough to read a decision's sentence"""
BROWSERS = ("chromium", "google-chrome", "chromium-browser")


def program() -> Recording:
    """Return a program with a repeated product, a bias, an activation, a softmax likelihood and gradients."""
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
    """Return ResNet-18 from its PNNX file, planned for one image."""
    net = ex.open(ASSETS / "models" / "resnet18.pnnx.param")
    for operator in net.operators.values():
        for name, declared in operator.weights.items():
            operator.weights[name] = seeded.weight(f"{operator.name}.{name}", declared.shape)
    return net.plan((1, 3, 224, 224)).recording


def animation_steps(recording: Recording) -> list[tuple[int, int]]:
    """Return the positions of the animation (applied decisions, kernel runs), each with its duration in ms."""
    frames = [(0, _DECISION_MS)]
    for stage, kernels, end in zip(recording.stages, stage_kernels(recording), stage_ends(recording), strict=True):
        first = end - len(kernels) - (stage.last - stage.first)
        if stage.kind == "rewrite":
            applied = [
                number for number in range(stage.first, stage.last) if recording.decisions[number].verdict == "applied"
            ]
            frames += [(first + number - stage.first + 1, _DECISION_MS) for number in applied]
        elif stage.kind == "run":
            frames += [(end - len(kernels) + place, _KERNEL_MS) for place in range(1, len(kernels) + 1)]
    return [*frames[:-1], (frames[-1][0], _LAST_MS)]


def animate(page: Page, recording: Recording, path: Path) -> None:
    """Write the animation of a recording from its open page."""
    frames = []
    page.evaluate(UNFOCUSED)
    for step, _ in animation_steps(recording):
        page.evaluate("step => location.replace('#' + new URLSearchParams({ step }))", str(step))
        page.wait_for_function("step => document.querySelector('input[type=range]').value === step", arg=str(step))
        frames.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
    durations = [duration for _, duration in animation_steps(recording)]
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=durations, loop=0, quality=70, method=5)


def main() -> None:
    """Write the pictures and animations, light and dark."""
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
                page.evaluate(UNFOCUSED)
                page.wait_for_timeout(500)
                page.screenshot(path=PICTURES / f"{name}-{theme}.png", full_page=True)
            if name == "explorer":
                for theme in ("light", "dark"):
                    page_without_motion = browser.new_page(
                        viewport={"width": 1040, "height": 640}, reduced_motion="reduce"
                    )
                    page_without_motion.goto((Path(folder) / f"{name}-{theme}.html").as_uri())
                    animate(page_without_motion, recording, PICTURES / f"stepping-{theme}.webp")
        browser.close()


if __name__ == "__main__":
    main()
