"""Writes metann.md, caffe2.md, cdnn.md, inferframework.md: what their names are called here, with ports and defaults.

The names are those of ``explorer/names``; the descriptions come from the code. Run it again after a change:
``.venv/bin/python assets/names.py``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import explorer as ex
from explorer.layers import Composite, Layer, Policy, PolicyClass
from explorer.names import PORTS, SYSTEMS, Entry, Said, dotted

HERE = Path(__file__).parent
PAGES = {system: HERE / f"{system.lower()}.md" for system in SYSTEMS}
ABOUT = {
    "MetaNN": """\
Explorer's expressions, layers and policies follow [MetaNN](https://github.com/liwei-cpp/MetaNN), a C++
template library.""",
    "Caffe2": """\
Explorer's nets, operators and devices follow [Caffe2](https://caffe2.ai), whose programs are nets of named
operators over named blobs.""",
    "CDNN": "Explorer's words for training follow CDNN, the specification of a small training library in C.",
    "InferFramework": """\
Explorer opens the files that InferFramework runs, after [KuiperInfer](https://github.com/zjhellofss/KuiperInfer):
those of [PNNX](https://github.com/pnnx/pnnx).""",
}
SUBLAYERS: tuple[tuple[type[Composite], dict[str, Any]], ...] = (
    (ex.layers.Weight, {"in_features": 2, "out_features": 3}),
    (ex.layers.Bias, {"features": 3}),
    (ex.layers.Linear, {"in_features": 2, "out_features": 3}),
    (ex.layers.SingleLayerPerceptron, {"in_features": 2, "out_features": 3}),
    (ex.layers.GRUStep, {"in_features": 2, "out_features": 3}),
    (ex.layers.Recurrent, {"step": {"in_features": 2, "out_features": 3}}),
)
"""composites, and arguments with which one is made"""


def found(name: str) -> Any:
    """What a dotted name of explorer's stands for; raises AttributeError for one that is none."""
    value: Any = ex
    for part in name.split("."):
        value = getattr(value, part)
    return value


def sentence(value: Any) -> str:
    """The first sentence of its docstring; what a value is, where that has none of its own."""
    if isinstance(value, (Policy, ex.layers.Minor)):
        return f"`{value!r}`"
    if isinstance(value, (bool, str, list, tuple)):
        return "an attribute of a class"
    value = type(value) if isinstance(value, ex.Operation) else value  # the class's sentences, not a page of help
    told = " ".join((inspect.getdoc(value) or "").partition(">>>")[0].split())
    first = re.split(r"(?<=[.;!?:]) (?=[A-Z`])|(?<=[a-z])\. |\(MetaNN", told)[0]
    return first.strip().rstrip(".:;").replace("|", r"\|")


def code(*names: str) -> str:
    return ", ".join([f"`{name}`" for name in names])


def theirs(names: str) -> str:
    """Their names as code; what they have no name for as it stands."""
    return names if re.match(r"–|an? |the |ports of", names) else f"`{names}`"


def ports(kind: type[Layer]) -> str:
    return f"{code(*kind.inputs) or '–'} → {code(*kind.outputs) or '–'}" if kind.outputs else "by its topology"


def row(name: str, entry: Entry) -> str:
    """One row of a page."""
    if isinstance(entry, Said):
        return f"| {theirs(name)} | – | {entry.text} |"
    ours = dotted(entry)
    return f"| {theirs(name)} | {code(*[f'ex.{each}' for each in ours])} | {sentence(found(ours[0]))} |"


def layer_row(name: str, entry: Entry) -> str:
    kind = found(str(entry))
    return f"| {theirs(name)} | `ex.{entry}` | {ports(kind)} | {sentence(kind)} |"


def policy_row(name: str, entry: Entry) -> str:
    ours = dotted(str(entry))
    minors = [value for value in map(found, ours) if isinstance(value, ex.layers.Minor)]
    told = [_values(minor) for minor in minors] or [sentence(found(ours[0]))]
    return f"| {theirs(name)} | {code(*[f'ex.{each}' for each in ours])} | {' · '.join(told)} |"


def _values(minor: Any) -> str:
    values = f"one of {code(*map(repr, minor.among))}" if minor.among else "any value"
    kinds = minor.kind if isinstance(minor.kind, tuple) else (minor.kind,)
    named = [code(kind.__name__) for kind in kinds if kind is not None and kind is not type(None)]
    has_default = repr(minor.default) != "no default"
    default = minor.default.__name__ if isinstance(minor.default, type) else str(minor.default)
    return f"{' or '.join(named) or values}; {f'default {code(default)}' if has_default else 'must be given'}"


def sublayer_rows() -> list[str]:
    """The sublayers of each composite that there is, as it is made unless policies say otherwise."""
    chosen = [ex.layers.PerceptronPolicy.activation(ex.layers.Tanh), ex.layers.RecurrentPolicy.step(ex.layers.GRUStep)]
    made = [kind("layer", policies=chosen, **arguments) for kind, arguments in SUBLAYERS]
    return [f"| `ex.layers.{type(layer).__name__}` | {code(*layer.sublayers)} |" for layer in made]


SPECIAL: dict[str, tuple[str, Callable[[str, Entry], str]]] = {
    "Layers": ("| MetaNN | explorer | ports | what it writes |", layer_row),
    "Policies": ("| MetaNN | explorer | its values |", policy_row),
}
"""sections of MetaNN's page with columns of their own"""


def table(system: str) -> str:
    """The whole page of a system."""
    about = f"{ABOUT[system]} Who comes from there finds here what its names are called."
    lines = [
        f"# {system}'s names",
        "",
        *about.split("\n"),
        "",
        "Written by `names.py`; an unknown name is answered by it too:",
    ]
    lines += ["`ex.Evaluate` says that it is `ex.evaluate` here."]
    for title, entries in SYSTEMS[system].items():
        head, make = SPECIAL.get(title, ("", row)) if system == "MetaNN" else ("", row)
        lines += section(
            title, head or f"| {system} | explorer | what it is |", [make(*each) for each in entries.items()]
        )
    if system == "MetaNN":
        lines += section("Sublayers, which `Sub` names", "| layer | its sublayers |", sublayer_rows())
    return "\n".join(lines) + "\n"


def section(title: str, head: str, body: list[str]) -> list[str]:
    return ["", f"## {title}", "", head, "| --- " * (head.count("|") - 1) + "|", *body]


def named(system: str) -> set[str]:
    """Every name of explorer's on a page, as it is asked of the package."""
    entries: list[Mapping[str, Entry]] = [*SYSTEMS[system].values()]
    return {name for each in entries for entry in each.values() if isinstance(entry, str) for name in dotted(entry)}


def unnamed() -> set[str]:
    """Layers and policies that ``explorer.layers`` hands on and MetaNN's page leaves out."""
    shown = {part for name in named("MetaNN") if name.startswith("layers.") for part in name.split(".")[1:2]}
    public = {name: getattr(ex.layers, name) for name in ex.layers.__all__}
    kinds = {name for name, value in public.items() if isinstance(value, type) and issubclass(value, Layer)}
    chosen = {name for name, value in public.items() if isinstance(value, Policy)}
    majors = {n for n, v in public.items() if isinstance(v, type) and issubclass(v, PolicyClass)}
    return (kinds | chosen | majors) - shown


def known_ports() -> dict[str, tuple[str, str]]:
    """MetaNN's ports, each with ours and a layer that has it."""
    return PORTS


if __name__ == "__main__":
    for system, page in PAGES.items():
        page.write_text(table(system), encoding="utf-8")
