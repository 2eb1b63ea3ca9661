import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from explorer.view.export import html_page
from explorer.view.export.html_page import html
from explorer.view.layout.placed_model import draw
from explorer.view.payload.view_payload import page_boxes, payload, turned
from tests.view import sample


class Page(HTMLParser):
    """Parser that collects the elements, their attributes and the text of scripts."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.scripts, self.inside = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts[-1] += data


@pytest.mark.spec("V-14")
@pytest.mark.parametrize("make", [sample.mlp, sample.hostile])
def test_the_page_contains_the_payload(make):
    page = Page(html(make(), theme="dark"))
    data, _ = page.scripts
    expected = payload(make(), theme="dark", position=0)
    expected["layout"] |= {"page": page_boxes(draw(make())), "turned": turned(draw(make()))}
    assert json.loads(data) == json.loads(json.dumps(expected))


@pytest.mark.spec("V-14")
def test_the_page_of_a_large_graph_contains_one_direction(monkeypatch):
    monkeypatch.setattr(html_page, "_BOTH_DIRECTIONS", len(sample.mlp().nodes) - 1)
    data, _ = Page(html(sample.mlp())).scripts
    assert "turned" not in json.loads(data)["layout"]


@pytest.mark.spec("V-14")
def test_its_policy_allows_only_its_own_script():
    page = Page(html(sample.mlp()))
    (policy,) = [a["content"] for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy"]
    digest = base64.b64encode(hashlib.sha256(page.scripts[1].encode()).digest()).decode()
    assert policy.startswith("default-src 'none'; ")
    assert f"script-src 'sha256-{digest}';" in policy
    assert "http" not in policy


@pytest.mark.spec("V-14")
def test_hostile_names_add_no_element():
    def tags(recording):
        return {tag for tag, _ in Page(html(recording)).elements}

    assert tags(sample.hostile()) <= tags(sample.mlp()) | tags(sample.transformer())
    handlers = [
        name for _, attributes in Page(html(sample.hostile())).elements for name in attributes if name[:2] == "on"
    ]
    assert handlers == []


@pytest.mark.spec("V-14", "V-21")
def test_the_page_refers_to_nothing_outside():
    page = Page(html(sample.mlp()))
    assert not [a for _, a in page.elements if a.keys() & {"src", "href"}]
    assert not re.search(r"""(import|from)\s*["']""", page.scripts[1])


def test_the_same_bytes_each_time():
    assert html(sample.transformer()) == html(sample.transformer())


def test_attributes_anchor_texts_like_the_styles() -> None:
    """Without styles every class of text has the anchor of its CSS rule."""
    from explorer.view.base import palette
    from explorer.view.export import html_page

    rules = dict(re.findall(r"\.(\w+)\{[^}]*text-anchor:(\w+)", Path(palette.__file__).read_text(encoding="utf-8")))
    assert rules == html_page._ANCHORS
