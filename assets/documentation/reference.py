"""Pages of the documentation site that are generated from the code: every public name, and every command."""

from __future__ import annotations

import ast
import inspect
import os
import re
from importlib import import_module
from itertools import pairwise
from operator import attrgetter
from types import ModuleType
from typing import NamedTuple

import explorer
from assets.documentation.docstrings import as_rst
from explorer.cli.main import COMMANDS, parser
from explorer.core import registry
from explorer.plan.options import PlannerOptions
from explorer.plan.passes import Codegen, JoinRows
from explorer.plan.pipeline import PIPELINE, pass_of

GROUPS = {
    "Explore, record and compare": ("api", "core.ir.hooks", "record", "reports", "view"),
    "Tensors and data": ("core.ir.expr", "core.ir.tensor", "core.types", "data"),
    "Functions and gradients": ("core.ir.recording_context", "core.tracing", "gradients"),
    "Plans and runs": ("core.memory_budget", "core.progress", "run"),
    "Rules, passes and reasons": ("plan",),
    "Custom operations and policies": ("core.ir", "core.policy", "core.registry", "ops", "testing.laws"),
    "Nets and model files": ("formats", "net"),
    "Exercises": ("course",),
    "Errors": ("core.errors",),
}
"""title of a page → modules and packages whose public names it documents; the longest matching one decides"""
PACKAGES = {
    "layers": "Layers",
    "train": "Training",
    "testing": "Assertions about plans",
    "array_api": "Namespace of the array API standard",
}
"""package that is a public name → title of its page"""
_ELSEWHERE = {"train.parallel": "train"}
"""module of a public name → package on whose page the name is"""


class Page(NamedTuple):
    """Page of the reference."""

    name: str
    title: str
    purpose: str
    members: tuple[str, ...]
    """documented names, such as ``explorer.tensor``"""


def pages() -> list[Page]:
    """Return the pages, which together document every public name; raise KeyError for a name that belongs to none."""
    packages = {package: import_module(f"explorer.{package}") for package in PACKAGES}
    kinds = {f"{purpose}.": names for purpose, names in explorer.ops._kinds().items()}
    members: dict[str, list[str]] = {title: [] for title in (*GROUPS, *PACKAGES.values())}
    for name in sorted({*dir(explorer)} - {*packages, "ops", "__version__"} - {*dir(explorer.ops)}, key=str.lower):
        members[_title(name)].append(f"explorer.{name}")
    for package, module in packages.items():
        members[PACKAGES[package]] += [f"explorer.{package}.{name}" for name in exported(module)]
    purposes = {PACKAGES[package]: inspect.cleandoc(module.__doc__ or "") for package, module in packages.items()}
    found = [Page(_slug(title), title, purposes.get(title, ""), tuple(names)) for title, names in members.items()]
    for purpose, names in kinds.items():
        title = re.split("[:,.]", purpose)[0]
        found.append(Page(_slug(title), title, purpose, tuple(f"explorer.{name}" for name in names)))
    return found


def exported(module: ModuleType) -> list[str]:
    """Return the public names of a package."""
    names = [name for name, value in vars(module).items() if not name.startswith("_") and not inspect.ismodule(value)]
    return list(getattr(module, "__all__", names))


def _title(name: str) -> str:
    """Return the title of the page of a public name."""
    if name in explorer._PACKAGES:
        raise KeyError(f"PACKAGES in assets/documentation/reference.py has no page for explorer.{name}")
    module = explorer._MODULES.get(name) or registry.functions[name].__module__.removeprefix("explorer.")
    if module in _ELSEWHERE:
        return PACKAGES[_ELSEWHERE[module]]
    titles = {prefix: title for title, prefixes in GROUPS.items() for prefix in prefixes}
    while module not in titles:
        if "." not in module:
            raise KeyError(f"no page of GROUPS in assets/documentation/reference.py documents explorer.{name}")
        module = module.rpartition(".")[0]
    return titles[module]


def _slug(title: str) -> str:
    return re.sub(r"\W+", "_", title.lower())


def sources() -> dict[str, str]:
    """Return the path of each page without its folder → its source."""
    classes: dict[type, str] = {}
    found = {f"{page.name}.rst": _page(page, classes) for page in pages()}
    rows = [f"   {page.name}" for page in pages()]
    about = "After ``import explorer as ex``, ``explorer.tensor`` is ``ex.tensor``."
    found["index.rst"] = "\n".join([*_heading("Public names"), about, "", ".. toctree::", "", *rows, ""])
    found["options.rst"] = _options()
    found["commands.md"] = _commands()
    return found


def _heading(title: str) -> list[str]:
    return [title, "=" * len(title), ""]


def _page(page: Page, classes: dict[type, str]) -> str:
    """Return the source of a page; ``classes`` are the classes that were documented before, with their names."""
    lines = [*_heading(page.title), *as_rst(page.purpose.split("\n"))]
    for member in page.members:
        value = attrgetter(member.partition(".")[2])(explorer)
        known = classes.setdefault(value, member) if inspect.isclass(value) else member
        if known == member:
            lines += [*_entry(member, value), ""]
        else:
            lines += [f".. py:class:: {member}", "", f"   The same class as :py:class:`{known}`.", ""]
    return "\n".join(lines)


def _entry(name: str, value: object) -> list[str]:
    """Return the directive that documents a value."""
    if inspect.isclass(value):
        kind = "exception" if issubclass(value, BaseException) else "class"
        return [f".. auto{kind}:: {name}", "   :members:"]
    if inspect.isroutine(value):
        return [f".. autofunction:: {name}"]
    if not type(value).__module__.startswith("explorer."):
        return [f".. py:data:: {name}", "", f"   ``{value!r}``"]
    signature, _, rest = (inspect.getdoc(value) or "").partition("\n")
    call = re.fullmatch(r"\w+(\(.*\)) → expression", signature)  # an operation without attributes
    lines = [f".. py:function:: {name}{call[1]}"] if call else [f".. py:data:: {name}"]
    body = as_rst((rest if call else f"{signature}\n{rest}").split("\n"))
    return [*lines, "", *[f"   {line}" for line in body]]


def _options() -> str:
    """Return the page of the options of plans, and of the passes with their fields."""
    lines = [
        *_heading("Options and passes of a plan"),
        ":py:class:`explorer.EvalPlan` documents its options, which :py:func:`explorer.evaluate` also accepts. These",
        "options configure passes:", "",
        *_fields(PlannerOptions), "Passes, in order. A field is set by ``ex.passes.Order(lanes=2)``; see",
        ":py:func:`explorer.default_passes`.", "",
    ]  # fmt: skip
    for kind in dict.fromkeys([*[type(pass_of(step)) for step in PIPELINE], JoinRows, Codegen]):
        lines += [kind.name, "-" * len(kind.name), "", f"``ex.passes.{kind.__name__}``", ""]
        lines += [*as_rst(inspect.getdoc(kind).split("\n")), *_fields(kind)]
    return "\n".join(lines)


def _fields(kind: type) -> list[str]:
    """Return the documented fields of a class, each with its type, its default and the string after it."""
    (body,) = ast.parse(inspect.getsource(kind)).body
    lines = []
    for field, text in pairwise(body.body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            lines += [f"``{ast.unparse(field)}``", *[f"   {line}" for line in as_rst([text.value.value])]]
    return lines


def _commands() -> str:
    """Return the page of the help of every command."""
    os.environ["COLUMNS"] = "100"  # width of argparse's help
    texts = {"explorer": parser().format_help()}
    actions = next(action for action in parser()._actions if action.choices)
    texts |= {f"explorer {name}": actions.choices[name].format_help() for name in COMMANDS}
    lines = ["# Options of commands", "", "Help of each command, as `explorer COMMAND --help` prints it.", ""]
    for command, text in texts.items():
        lines += [f"## {command}", "", "```text", text.rstrip(), "```", ""]
    return "\n".join(lines)
