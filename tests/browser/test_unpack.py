"""Unpacking of packed tables by the page's script."""

import base64
import json
from pathlib import Path

import pytest

import explorer.view
from explorer.view.payload.columns import LONG, pack
from explorer.view.payload.view_payload import payload
from tests.support.unpacked import unpack
from tests.view import sample

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("make", [sample.transformer, lambda: sample.dag(300), lambda: sample.chain(300)])
def test_both_languages_unpack_alike(browser, make):
    script = (Path(explorer.view.__file__).parent / "static" / "data" / "unpack.js").read_bytes()
    whole = {**payload(make()), "names": pack({"=runs": "1", "==": [], "__proto__": {"=rows": [[1]]}})}
    woven = [[10 * turn, 7, 10 * turn + 1][place] for turn in range(200) for place in range(3)] + [5, 5]
    whole |= {"woven": pack(woven), "times": pack([turn * 1.003 for turn in range(0, 3000, 7)])}
    whole |= {"keyed": pack({str(3 * key): {"index": str(-key)} for key in range(LONG)})}
    whole |= {"numbered": pack([f"layers.{row}.w{7 * row % 5}" for row in range(100)])}
    assert {"=numbered", "=numbers"} == whole["numbered"].keys()
    assert {"=woven"} == whole["woven"].keys()
    assert {"=keys", "=values"} == whole["keyed"].keys()
    page = browser.new_page()
    url = "data:text/javascript;base64," + base64.b64encode(script).decode()
    unpacked = "async ([url, packed]) => JSON.stringify((await import(url)).unpack(JSON.parse(packed)))"
    assert json.loads(page.evaluate(unpacked, [url, json.dumps(whole)])) == unpack(whole)
    page.close()
