"""Random mutants: one comparison, operator, constant, condition or statement in the code is changed."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.mutants.bench import ROOT, Mutant

_COMPARED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
_OPERATED: dict[type[ast.operator], str] = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "+", ast.Pow: "*",
    ast.BitAnd: "|", ast.BitOr: "&", ast.LShift: ">>", ast.RShift: "<<",
}  # fmt: skip
_SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}
_QUIET = {
    "DeclarationError",
    "ExplorerError",
    "FileError",
    "OperandError",
    "RunError",
    "StateError",
    "UnknownNameError",
}
"""calls that construct errors, whose words are no behaviour"""


class Change(NamedTuple):
    """A change in a file: the offset, the old and the new string."""

    offset: int
    old: str
    new: str
    line: int


def changes(text: str) -> list[Change]:
    """List every possible change of a file in line order."""
    tree = ast.parse(text)
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    quiet = {inner for node in ast.walk(tree) for part in _quiet(node) for inner in ast.walk(part)}
    results = []
    for node in ast.walk(tree):
        if node in quiet or not hasattr(node, "lineno"):
            continue
        for changed in _changed(node):
            # columns count UTF-8 bytes
            first, last = lines[node.lineno - 1], lines[node.end_lineno - 1]
            begin = starts[node.lineno - 1] + len(first.encode()[: node.col_offset].decode())
            end = starts[node.end_lineno - 1] + len(last.encode()[: node.end_col_offset].decode())
            if text[begin:end] != changed:
                results.append(Change(begin, text[begin:end], changed, node.lineno))
    return sorted(set(results))


def _quiet(node: ast.AST) -> Iterator[ast.AST]:
    """Return the parts of a node that are no behaviour: types, and words of errors."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        everything = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg)
        annotations = [argument.annotation for argument in everything if argument is not None]
        yield from (part for part in (*annotations, node.returns) if part is not None)
    elif isinstance(node, ast.AnnAssign):
        yield node.annotation
        if "TypeAlias" in ast.unparse(node.annotation) and node.value is not None:
            yield node.value
    elif (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)) or (
        isinstance(node, ast.Call) and ast.unparse(node.func).rsplit(".", 1)[-1] in _QUIET
    ):
        yield node


def _changed(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
        yield f"({left} {_COMPARED[type(node.ops[0])]} {right})"
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATED and not isinstance(node.left, ast.JoinedStr):
        yield f"({ast.unparse(node.left)} {_OPERATED[type(node.op)]} {ast.unparse(node.right)})"
    elif isinstance(node, ast.BoolOp):
        other = " or " if isinstance(node.op, ast.And) else " and "
        yield "(" + other.join(f"({ast.unparse(value)})" for value in node.values) + ")"
        yield f"({ast.unparse(node.values[0])})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int)) and not isinstance(node.value, str):
        yield str(not node.value) if isinstance(node.value, bool) else str(node.value + 1)
    elif isinstance(node, ast.IfExp):
        yield f"({ast.unparse(node.body)})"
        yield f"({ast.unparse(node.orelse)})"
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _SWAPPED and node.args:
        yield _SWAPPED[node.func.id] + ast.unparse(node)[len(node.func.id) :]
    elif (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)) or isinstance(
        node, (ast.Continue, ast.Break)
    ):
        yield "pass"
    elif isinstance(node, ast.AugAssign):
        yield ast.unparse(ast.Assign([node.target], node.value, lineno=0))


def sample(package: str, count: int, seed: int, tests: tuple[str, ...]) -> list[Mutant]:
    """Draw mutants of a package with equal probability of all changes, deterministic for a seed."""
    files = sorted((ROOT / "explorer" / package).rglob("*.py")) or [ROOT / "explorer" / f"{package}.py"]
    pool = [(path, change) for path in files for change in changes(path.read_text(encoding="utf-8"))]
    drawn = random.Random(f"{package}:{seed}").sample(pool, min(count, len(pool)))
    return [_mutant(path, change, tests) for path, change in drawn]


def _mutant(path: Path, change: Change, tests: tuple[str, ...]) -> Mutant:
    file = path.relative_to(ROOT).as_posix()
    return Mutant(f"{file}:{change.line}", file, change.old, change.new, tests, offset=change.offset)
