"""Check the prose of the package, as ``make check`` does: ``python -m tests.prose``.

Docstrings and their examples, the reasons of the planner, and the glossary. Every fault is printed; the exit status is
1 if there is one.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import explorer as ex
from explorer.core import registry
from explorer.plan.graph.reasons import CATALOGUE
from explorer.plan.pipeline import PIPELINE, pass_of
from explorer.record.glossary import GLOSSARY, inflections
from explorer.run.recording.recorder import build
from explorer.view.model.decision_facts import fact_labels
from explorer.view.model.stage_texts import stage_counts
from tests.laws.occasions import OCCASIONS, occasion

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "explorer"
RUNNER = ROOT / "tests" / "support" / "docstring_examples.py"
DOCUMENTED = ("core", "ops", "gradients", "data")
"""packages for which ruff does not require docstrings of all public methods (D102), because they may be inherited"""
EXEMPLARY = ("__init__", "api", "core", "data", "formats", "gradients", "layers", "net", "ops", "plan", "record", "run")
"""packages and modules whose names in ``ex`` need an example"""
CLAUSE = re.compile(r"(What|Who|Whom|Whose|That|Which|Where|When) ")
WORD = re.compile(r"[A-Za-z][A-Za-z-]+")
TERMS = {
    "fuse": "as one loop over",
    "kernel": "kernel is one operation",
    "one-hot": "a single 1",
    "traced": "is traced once",
    "view": "a view is",
    "winograd": "winograd's method computes",
}
"""words that a reason's sentence may use only if the reason's meaning contains this explanation"""
PLAIN_TEXT = """
    again along before by cumsum decision decisions declared depth depths division error even exp
    exponent exponentials factor factors graph groups index into last log model negative no nodes norm
    not number numbers of on one ones operations options order orders other pair pairs passes pick places plan
    power product products reshape rounds rows rule rules simplify slice sqrt square step sum sums
    terms through transpose two use uses weights with zero zeros after all alone apart axes below beside
    bits bodies body bytes call computed cost count direct divisor equal estimated found given inner instead joined
    kept known labels least limit listed name node operation outer part parts position powers read recorded
    reuse row same saved second separate shape size source there together turned turns type value wanted whole
    wholes why without applied costs declined in needed parameter place update updates apply branch choice
    condition formula loop operator shapes text values requested for written calls divide divided
    copied copies copy join joins left picked round start work chosen divides effect harm near others picks plans
    axis dtype elements function functions loops
    changes program absolute cosine numpy counts pass match slices concatenation steps variable variables
    code column columns compiled fault form has length line lines method own reads times total used
"""
PLAIN = frozenset(PLAIN_TEXT.split())
"""words in the planner's code and strings that a NumPy user knows; every other one is a term"""


def main() -> int:
    """Print the faults of all checks, and return their number."""
    count = 0
    for check in (missing_docstrings, relative_clauses, missing_examples, wrong_examples, reasons, glossary):
        for fault in check():
            print(f"{check.__name__.replace('_', ' ')}: {fault}")
            count += 1
    return count


def missing_docstrings() -> Iterator[str]:
    """Yield public functions, classes, methods and operations without a docstring, not even an inherited one."""
    for package in DOCUMENTED:
        root = importlib.import_module(f"explorer.{package}")
        for info in pkgutil.walk_packages(root.__path__, f"{root.__name__}."):
            module = importlib.import_module(info.name)
            for name, value in vars(module).items():
                if getattr(value, "__module__", None) != module.__name__:
                    continue
                if inspect.isclass(value):
                    yield from [f"{module.__name__}.{method}" for method in _undocumented(value)]
                is_public = name[0] != "_" and (inspect.isclass(value) or inspect.isfunction(value))
                if is_public and not value.__doc__:
                    yield f"{module.__name__}.{name}"
    for name, operation in registry.operations.items():
        if not (operation.__doc__ or "").strip().endswith("."):
            yield f"the operation {name} needs a docstring that ends with a full stop"


def _undocumented(cls: type) -> Iterator[str]:
    """Yield a class's public methods and properties that have no docstring and do not override a member with one."""
    for name, member in vars(cls).items():
        call: Any = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if name.startswith("_") or not inspect.isfunction(call) or call.__doc__:
            continue
        inherited = [vars(base)[name] for base in cls.__mro__[1:] if name in vars(base)]
        if not any(getattr(member, "__func__", member).__doc__ for member in inherited):
            yield f"{cls.__qualname__}.{name}"


def relative_clauses(source: Path = SOURCE) -> Iterator[str]:
    """Yield docstrings that begin with a relative clause ("What was given") instead of a verb or a noun."""
    for path in sorted(source.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node) or ""
                if CLAUSE.match(text):
                    yield f"{path.relative_to(source)}: {text.splitlines()[0]}"


def missing_examples() -> Iterator[str]:
    """Yield public names whose docstring contains neither an example nor a reference to one."""
    for name in sorted({*dir(ex)} - {*registry.functions}):
        text = inspect.getdoc(getattr(ex, name)) or ""
        reference = re.search(r"Example: see ``ex\.(\w+)``\.", text)
        shown = inspect.getdoc(getattr(ex, reference[1])) if reference else text
        if _needs_example(name) and ">>> " not in (shown or ""):
            yield f"ex.{name}"


def _needs_example(name: str) -> bool:
    """Return whether a public name is a function or class of these packages; errors are shown where they are raised."""
    value: Any = getattr(ex, name)
    if not (inspect.isfunction(value) or inspect.isclass(value)) or value.__module__.split(".")[0] != "explorer":
        return False
    is_error = inspect.isclass(value) and issubclass(value, BaseException)
    return [*value.__module__.split("."), "__init__"][1] in EXEMPLARY and not is_error


def wrong_examples() -> Iterator[str]:
    """Yield the output of all docstring examples if one differs from the shown result."""
    files = [path for path in SOURCE.rglob("*.py") if re.search(r"^ *>>> ", path.read_text("utf-8"), re.MULTILINE)]
    names = sorted([".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files])
    command = [sys.executable, RUNNER, *[name.removesuffix(".__init__") for name in names]]
    with tempfile.TemporaryDirectory() as folder:
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    if ended.returncode:
        yield ended.stdout + ended.stderr


def reasons() -> Iterator[str]:
    """Yield reasons that are incomplete sentences, or contain an unexplained compiler term or name."""
    own = [
        reason
        for (owner, _), reason in CATALOGUE.items()
        if owner.startswith("explorer.") and not owner.startswith("explorer.course.")
    ]
    for reason in own:
        texts = (reason.sentence, reason.meaning, reason.change or ".")
        yield from [f"{reason.anchor}: no full stop: {text}" for text in texts if not text.endswith((".", ")"))]
        if reason.sentence[0].islower() or reason.sentence.count("`") % 2:
            yield f"{reason.anchor}: {reason.sentence}"
        if "{" in reason.meaning + reason.change or "Nothing has to change" in reason.change:
            yield f"{reason.anchor}: {reason.meaning} {reason.change}"
        for term, explanation in TERMS.items():
            if term in reason.sentence.lower() and explanation not in reason.meaning.lower():
                yield f"{reason.anchor}: the meaning must explain {term!r}: {explanation}"
    advice = " ".join([f"{each.meaning} {each.change}" for each in own])
    for name in sorted({*re.findall(r"\bex\.([\w.]+\w)", advice)}):
        try:
            attrgetter(name)(ex)
        except AttributeError:
            yield f"ex.{name} is advised, but does not exist"
    for name in sorted({*re.findall(r"\bx\.(\w+)\(", advice)}):
        if not hasattr(ex.Expr, name):
            yield f"x.{name}() is advised, but does not exist"
    for name in re.findall(r"(?<![\w.])(?:EvalPlan|Inline|policies|kernel)\(", advice):
        yield f"{name}…) is advised without `ex.`"


def glossary() -> Iterator[str]:
    """Yield unexplained terms of the planner that a panel can show, and malformed entries."""
    code, known = _names_of_the_planner(), _explained()
    said = {
        word.lower()
        for text in (*_sentences(), *_front_end())
        for word in WORD.findall(re.sub(r"\{[^}]*\}|`[^`]*`", "", text))
    }
    shown = {word for word in said if {word, word.removesuffix("s"), word.removesuffix("es")} & code}
    shown |= {word.lower() for label in _labels() for word in WORD.findall(label)}
    yield from [f"{word!r} needs an entry" for word in sorted(shown - known - PLAIN)]
    yield from [f"{word!r} is listed as plain, but has an entry" for word in sorted(PLAIN & known)]
    for term, text in GLOSSARY.items():
        if not text or "\n" in text or text.endswith("."):
            yield f"{term}: the explanation must be one line without a full stop"


def _sentences() -> Iterator[str]:
    """Yield all sentences about a plan that a panel can show: reasons with their meanings, and purposes of passes."""
    for reason in CATALOGUE.values():
        yield f"{reason.sentence}\n{reason.meaning}\n{reason.change}"
    for step in PIPELINE:
        yield pass_of(step).purpose


def _labels() -> Iterator[str]:
    """Yield all labels of facts and counts, and the names of stages, of a program for each reason."""
    for reason in OCCASIONS:
        recording = build(occasion(reason).plan, "", {})
        for decision in recording.decisions:
            yield from fact_labels(decision).values()
        for stage in recording.stages:
            yield stage.name.replace("_", " ")
            yield from [name for name, _ in stage_counts(stage)]


def _front_end() -> Iterator[str]:
    """Yield all headings and row names in the panel's own code."""
    for file in sorted((SOURCE / "view/static/panel").glob("*.js")):
        code = file.read_text(encoding="utf-8")
        for _, text in re.findall(r"heading\(([\"`])(.*?)\1", code):
            yield re.sub(r"\$\{.*?\}", "", text)
        yield from re.findall(r'\["([a-z][a-z ,]*)",', code)


def _names_of_the_planner() -> set[str]:
    """Return the words in names of the planner's modules and classes."""
    results: set[str] = set()
    for file in (SOURCE / "plan").rglob("*.py"):
        results.update(file.stem.split("_"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                results.update(word.lower() for word in re.findall(r"[A-Z][a-z]+|[a-z]+", node.name))
    return results


def _explained() -> set[str]:
    return {word.lower() for term in GLOSSARY for form in inflections(term) for word in WORD.findall(form)}


if __name__ == "__main__":
    sys.exit(bool(main()))
