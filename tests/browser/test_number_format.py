"""Numbers with units are formatted identically in Python and JavaScript."""

import base64
import random
from pathlib import Path

import numpy as np
import pytest

import explorer.view
from explorer.record.reasons import bytes_text, count_text, counted_text, micros_text, short_counted_text
from explorer.run.execution.value_capture import summarize

pytestmark = pytest.mark.browser

_PICK = random.Random(5)
NUMBERS: list[float] = [
    0, 1, 2, 999, 1000, 1001, 1023, 1024, 1025, 1_048_575, 10**9, 10**13, 1e-9, 0.00012345, 999.4, 999.5, 999.6,
    *[0.5, 1.5, 2.5, 1.125, 1.135, 11.25, 112.5, 1152, 1176, 11_520, 1_125_000, 1_135_000],  # ties
    *[scale * half / 1000 for scale in (1, 10, 1000, 1024, 1024**2) for half in range(1005, 1095, 10)],
    *[_PICK.randrange(10**9) for _ in range(500)],
    *[_PICK.random() * 10 ** _PICK.randrange(-6, 15) for _ in range(500)],
]  # fmt: skip


@pytest.mark.spec("V-2", "V-19")
def test_both_languages_write_numbers_alike(browser):
    """Compare bytes, counts, times and integers exactly, including ties in rounding."""
    script = (Path(explorer.view.__file__).parent / "static" / "data" / "number_format.js").read_bytes()
    page = browser.new_page()
    shown = page.evaluate(
        """async ([url, numbers]) => {
            const { bytesText, countText, counted, general, grouped, microsText, shortCounted } = await import(url);
            return numbers.map((number) => [bytesText(number), countText(number), microsText(number), general(number),
                grouped(Math.trunc(number)), counted(Math.trunc(number), "node"), shortCounted(number, "flop")]);
        }""",
        ["data:text/javascript;base64," + base64.b64encode(script).decode(), NUMBERS],
    )
    page.close()
    written = [
        [
            *(bytes_text(n), count_text(n), micros_text(n), f"{n:.3g}", f"{int(n):,}"),
            *(counted_text(int(n), "node"), short_counted_text(n, "flop")),
        ]
        for n in NUMBERS
    ]
    assert [pair for pair in zip(NUMBERS, shown, written, strict=True) if pair[1] != pair[2]] == []


@pytest.mark.spec("V-6")
def test_values_are_written_as_people_write_numbers(browser):
    """A scalar has a minus sign, no trailing point, and a power of ten."""
    values = [0.0, -2.5, -3, 1.5e-7, np.float32(1e20), -np.inf, np.nan, True, 1 - 2j, 100.0, 0.25]
    script = (Path(explorer.view.__file__).parent / "static" / "data" / "number_format.js").read_bytes()
    page = browser.new_page()
    shown = page.evaluate(
        "async ([url, texts]) => { const { written } = await import(url); return texts.map((text) => written(text)); }",
        [
            "data:text/javascript;base64," + base64.b64encode(script).decode(),
            [summarize(np.array(value)).elements for value in values],
        ],
    )
    page.close()
    assert shown == ["0", "−2.5", "−3", "1.5·10⁻⁷", "1·10²⁰", "−inf", "nan", "True", "1−2j", "100", "0.25"]
