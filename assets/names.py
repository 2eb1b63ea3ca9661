"""Write metann.md, caffe2.md, cdnn.md and inferframework.md, which list names in these systems and their counterparts.

``explorer/names`` has the names, and docstrings have the descriptions: ``.venv/bin/python assets/names.py``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import explorer as ex
from explorer.layers import Composite, Layer, Policy, PolicyClass
from explorer.names import PORTS, SYSTEMS, Entry, Substitute, dotted

HERE = Path(__file__).parent
PAGES = {system: HERE / f"{system.lower()}.md" for system in SYSTEMS}
ABOUT = {
    "MetaNN": """\
Explorer's expressions, layers and policies follow [MetaNN](https://github.com/liwei-cpp/MetaNN), a C++
template library.""",
    "Caffe2": """\
Explorer's nets, operators and devices follow [Caffe2](https://caffe2.ai), whose programs are nets of named
operators over named blobs.""",
    "CDNN": "Explorer's terms for training follow CDNN, the specification of a small training library in C.",
    "InferFramework": """\
Explorer opens the [PNNX](https://github.com/pnnx/pnnx) files that InferFramework runs. InferFramework follows
[KuiperInfer](https://github.com/zjhellofss/KuiperInfer).""",
}
SUBLAYERS: tuple[tuple[type[Composite], dict[str, Any]], ...] = (
    (ex.layers.Weight, {"in_features": 2, "out_features": 3}),
    (ex.layers.Bias, {"features": 3}),
    (ex.layers.Linear, {"in_features": 2, "out_features": 3}),
    (ex.layers.SingleLayerPerceptron, {"in_features": 2, "out_features": 3}),
    (ex.layers.GRUStep, {"in_features": 2, "out_features": 3}),
    (ex.layers.Recurrent, {"step": {"in_features": 2, "out_features": 3}}),
)
"""composites with constructor arguments"""


def found(name: str) -> Any:
    """Return the object that a dotted name refers to; raise AttributeError if there is none."""
    value: Any = ex
    for part in name.split("."):
        value = getattr(value, part)
    return value


def sentence(value: Any) -> str:
    """Return the first sentence of an object's docstring, or the kind of a value without one."""
    if isinstance(value, (Policy, ex.layers.Minor)):
        return f"`{value!r}`"
    if isinstance(value, (bool, str, list, tuple)):
        return "a class attribute"
    value = type(value) if isinstance(value, ex.Operation) else value  # not the help page of the instance
    text = " ".join((inspect.getdoc(value) or "").partition(">>>")[0].split())
    text = re.sub(r" ?\((MetaNN|Caffe2|CDNN)[^)]*\)", "", text)
    first = re.split(r"(?<=[.!?]) (?=[A-Z`])|(?<=[a-z])\. ", text)[0]
    return first.strip().rstrip(".:;").replace("|", r"\|")


def code(*names: str) -> str:
    return ", ".join([f"`{name}`" for name in names])


def theirs(names: str) -> str:
    """Return names of a system as code; return a description without a name unchanged."""
    return names if re.match(r"–|an? |the |ports of", names) else f"`{names}`"


def ports(kind: type[Layer]) -> str:
    return f"{code(*kind.inputs) or '–'} → {code(*kind.outputs) or '–'}" if kind.outputs else "defined by its topology"


def row(name: str, entry: Entry) -> str:
    """Return one row of a page."""
    if isinstance(entry, Substitute):
        return f"| {theirs(name)} | – | {entry.text} |"
    ours = dotted(entry)
    return f"| {theirs(name)} | {code(*[f'ex.{each}' for each in ours])} | {sentence(found(ours[0]))} |"


def layer_row(name: str, entry: Entry) -> str:
    kind = found(str(entry))
    return f"| {theirs(name)} | `ex.{entry}` | {ports(kind)} | {sentence(kind)} |"


def policy_row(name: str, entry: Entry) -> str:
    ours = dotted(str(entry))
    minors = [value for value in map(found, ours) if isinstance(value, ex.layers.Minor)]
    texts = [_values(minor) for minor in minors] or [sentence(found(ours[0]))]
    return f"| {theirs(name)} | {code(*[f'ex.{each}' for each in ours])} | {' · '.join(texts)} |"


def _values(minor: Any) -> str:
    values = f"one of {code(*map(repr, minor.among))}" if minor.among else "any value"
    kinds = minor.kind if isinstance(minor.kind, tuple) else (minor.kind,)
    named = [code(kind.__name__) for kind in kinds if kind is not None and kind is not type(None)]
    has_default = repr(minor.default) != "no default"
    default = minor.default.__name__ if isinstance(minor.default, type) else str(minor.default)
    return f"{' or '.join(named) or values}; {f'default {code(default)}' if has_default else 'required'}"


def sublayer_rows() -> list[str]:
    """Return a row with the default sublayers of each composite."""
    chosen = [ex.layers.PerceptronPolicy.activation(ex.layers.Tanh), ex.layers.RecurrentPolicy.step(ex.layers.GRUStep)]
    made = [kind("layer", policies=chosen, **arguments) for kind, arguments in SUBLAYERS]
    return [f"| `ex.layers.{type(layer).__name__}` | {code(*layer.sublayers)} |" for layer in made]


SPECIAL: dict[str, tuple[str, Callable[[str, Entry], str]]] = {
    "Layers": ("| MetaNN | explorer | ports | result |", layer_row),
    "Policies": ("| MetaNN | explorer | values |", policy_row),
}
"""sections of MetaNN's page with other columns"""


def table(system: str) -> str:
    """Return the page of a system."""
    about = f"{ABOUT[system]} This page lists the names of {system} with their counterparts in Explorer."
    lines = [
        f"# {system}'s names",
        "",
        *about.split("\n"),
        "",
        "`names.py` writes this page. Errors for unknown names also use this list: the error for `ex.Evaluate` names",
        "`ex.evaluate`.",
    ]
    for title, entries in SYSTEMS[system].items():
        head, make = SPECIAL.get(title, ("", row)) if system == "MetaNN" else ("", row)
        lines += section(
            title, head or f"| {system} | explorer | description |", [make(*each) for each in entries.items()]
        )
    if system == "MetaNN":
        lines += section("Names of sublayers for `Sub`", "| layer | sublayers |", sublayer_rows())
    return "\n".join(lines) + "\n"


def section(title: str, head: str, body: list[str]) -> list[str]:
    return ["", f"## {title}", "", head, "| --- " * (head.count("|") - 1) + "|", *body]


def named(system: str) -> set[str]:
    """Return the names of explorer on a page, relative to the package."""
    entries: list[Mapping[str, Entry]] = [*SYSTEMS[system].values()]
    return {name for each in entries for entry in each.values() if isinstance(entry, str) for name in dotted(entry)}


def unnamed() -> set[str]:
    """Return public layers and policies of ``explorer.layers`` that are missing from MetaNN's page."""
    shown = {part for name in named("MetaNN") if name.startswith("layers.") for part in name.split(".")[1:2]}
    public = {name: getattr(ex.layers, name) for name in ex.layers.__all__}
    kinds = {name for name, value in public.items() if isinstance(value, type) and issubclass(value, Layer)}
    chosen = {name for name, value in public.items() if isinstance(value, Policy)}
    majors = {n for n, v in public.items() if isinstance(v, type) and issubclass(v, PolicyClass)}
    return (kinds | chosen | majors) - shown


def known_ports() -> dict[str, tuple[str, str]]:
    """Return MetaNN's ports, each with its counterpart and a layer that has it."""
    return PORTS


if __name__ == "__main__":
    for system, page in PAGES.items():
        page.write_text(table(system), encoding="utf-8")
