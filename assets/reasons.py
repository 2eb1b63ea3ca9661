"""Write reasons.md, which lists every reason in the catalogue: ``python assets/reasons.py``."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from explorer.plan.graph.numerics import EFFECTS  # noqa: E402
from explorer.plan.graph.reasons import CATALOGUE, Reason, RuleInfo  # noqa: E402
from explorer.plan.passes import Codegen, JoinRows, ShapeValues, Simplify  # noqa: E402
from explorer.plan.pipeline import PIPELINE, pass_of  # noqa: E402
from explorer.plan.rewrite.constant_folding import Folding  # noqa: E402
from explorer.plan.rewrite.rule import Rule  # noqa: E402
from explorer.record.glossary import GLOSSARY  # noqa: E402
from explorer.run.recording.recorder import build  # noqa: E402
from tests.laws.occasions import OCCASIONS, occasion  # noqa: E402

HEAD = """# Reasons of decisions

Every reason that a plan can give for a decision, sorted by pass and rule. Words in braces are facts of the decision.
`ex.reason("code")` prints the entries of a code, and the panel shows them below a decision. `python assets/reasons.py`
writes this page.
"""


def main() -> None:
    """Write the page."""
    (HERE / "reasons.md").write_text(page(), encoding="utf-8")


def page() -> str:
    """Return the text of the page."""
    lines = [HEAD]
    for title, purpose, owners in _sections():
        found = [(owner, reason) for owner in owners for reason in CATALOGUE.values() if reason.owner is owner]
        if found:
            lines += [title, "", purpose, ""]
            lines += [line for _, reason in found for line in _entry(reason)]
    lines += ["## Terms", "", *[f"- **{term}**: {text}." for term, text in GLOSSARY.items()], ""]
    return "\n".join(lines)


def _sections() -> Iterator[tuple[str, str, tuple[type, ...]]]:
    """Yield the title, purpose and classes of each section; each class occurs once."""
    seen: set[type] = set()

    def new(kind: type) -> tuple[type, ...]:
        owners = tuple([owner for owner in reversed(kind.__mro__) if owner not in seen])
        seen.update(owners)
        return owners

    # Values that determine shapes are computed before the passes of every plan.
    for kind in dict.fromkeys([ShapeValues, *[type(pass_of(step)) for step in PIPELINE], JoinRows, Codegen]):
        infos = [value for value in vars(kind).values() if isinstance(value, RuleInfo) and value is not kind.info]
        names = "".join([f"\n- `{info.name}`: {info.purpose}" for info in infos])
        yield f"## {kind.name}", f"{kind.purpose}{names and chr(10) + names}", new(kind)
        if kind is Simplify:
            yield f"### {Folding.rule.name}", Folding.rule.purpose, new(Folding)
            for rule in Rule.rules:
                if type(rule).__module__.startswith("explorer."):
                    for base in type(rule).__mro__[1:]:
                        if issubclass(base, Rule) and base is not Rule and base not in seen:
                            names = ", ".join([each.name for each in Rule.rules if isinstance(each, base)])
                            yield f"### {base.__name__}", f"{_first_line(base)} ({names})", new(base)
                    yield f"### {rule.name}", _first_line(type(rule)), new(type(rule))


def _first_line(kind: type) -> str:
    return (kind.__doc__ or "").strip().splitlines()[0]


def _entry(reason: Reason) -> Iterator[str]:
    example, is_applied = _example(reason)
    yield f'<a id="{reason.anchor}"></a>'
    yield f"**`{reason.code}`** {reason.sentence}"
    yield ""
    yield f"- What it means: {reason.meaning}"
    if reason.effect != "exact" and is_applied:
        yield f"- Numbers: {reason.effect}, {EFFECTS[reason.effect]}."
    if reason.change:
        yield f"- What would change it: {reason.change}"
    yield f"- For example{example}"
    yield ""


def _example(reason: Reason) -> tuple[str, bool]:
    """Return the one-line program of a reason, if it has one, with its decision, and whether it was applied."""
    recording = build(occasion(reason).plan, "", {})
    decision = next(each for each in recording.decisions if each.reason == reason.sentence)
    program = OCCASIONS[reason]
    function = program[0] if isinstance(program, tuple) else program
    lines, _ = inspect.getsourcelines(function)
    written = (
        re.search(r"lambda: (.*?)(?:, (?:\{.*\}|FAST|NATIVE|NET)\))?,$", lines[0].strip()) if len(lines) == 1 else None
    )
    text = f"{f', `{written[1]}`' if written else ''}: {recording.reason(decision)}"
    return text, decision.verdict == "applied"


if __name__ == "__main__":
    main()
