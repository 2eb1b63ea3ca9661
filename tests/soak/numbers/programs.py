"""Random programs as data: arrays, and Python lines over `xp`, which is Explorer, or NumPy in several lanes."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

import explorer as ex
from explorer.plan.pipeline import PassName
from explorer.plan.rewrite.rule import Rule
from tests.soak.numbers.lanes import BFLOAT16, Array, is_floating, limits

Environment = dict[str, Any]
OPTIONAL: tuple[str, ...] = get_args(PassName)
"""passes that a plan may omit"""


@dataclass(frozen=True)
class Program:
    """Given arrays v0, v1, …; lines, each of which defines the next value; and the indices of requested values.

    ``options`` belong to the plan that is compared with the bare one; ``inference`` is the number of arrays that are a
    net's inputs, while the others are its weights.
    """

    arrays: tuple[Array, ...]
    lines: tuple[str, ...]
    roots: tuple[int, ...]
    options: tuple[tuple[str, Any], ...] = ()

    def build(self, xp: Any, inputs: Sequence[Any] = ()) -> list[Any]:
        """Return the roots' values over a function namespace; ``inputs`` replace the first arrays."""
        values: Environment = {"xp": xp, "np": np}
        for index, array in enumerate(self.arrays):
            values[f"v{index}"] = inputs[index] if index < len(inputs) else xp.tensor(array)
        for index, line in enumerate(self.lines, len(self.arrays)):
            values[f"v{index}"] = eval(line, values)
        return [values[f"v{index}"] for index in self.roots]

    def source(self) -> str:
        """Return a script that prints the values of a plan and of the bare plan."""
        text = ["import ml_dtypes", "import numpy as np", "import explorer as xp", "from numpy import inf, nan"]
        for index, array in enumerate(self.arrays):
            dtype = f'"{array.dtype}"' if array.dtype != BFLOAT16 else "ml_dtypes.bfloat16"
            text.append(f"v{index} = xp.tensor(np.array({_numbers(array)}, {dtype}).reshape({array.shape}))")
        text += [f"v{index} = {line}" for index, line in enumerate(self.lines, len(self.arrays))]
        roots = ", ".join([f"v{root}" for root in self.roots])
        options = "".join([f", {name}={value!r}" for name, value in self.options])
        text.append(f"print(xp.evaluate([{roots}]{options}))")
        text.append(f"print(xp.evaluate([{roots}], without={OPTIONAL!r}))")
        return "\n".join(text)

    def smaller(self) -> list[Program]:
        """Yield programs with one root or line less, or with fewer elements."""
        found = [replace(self, roots=(root,)) for root in self.roots if len(self.roots) > 1]
        if len(self.roots) == 1:
            used = self._used()
            if len(used) < len(self.arrays) + len(self.lines):
                found.append(self._keeping(used))
            for index in range(len(self.arrays) + len(self.lines) - 1, -1, -1):
                found += [self._with(index, other) for other in range(index)]
        for index, array in enumerate(self.arrays):
            for place in range(array.size):
                for number in (0, 1):
                    if array.flat[place] != number and array.size <= 16:
                        changed = array.copy()
                        changed.flat[place] = number
                        found.append(replace(self, arrays=(*self.arrays[:index], changed, *self.arrays[index + 1 :])))
        return found

    def _used(self) -> list[int]:
        used, pending = set(), [*self.roots]
        while pending:
            index = pending.pop()
            if index not in used:
                used.add(index)
                if index >= len(self.arrays):
                    names = _names(self.lines[index - len(self.arrays)])
                    pending += names
        return sorted(used)

    def _keeping(self, used: Sequence[int]) -> Program:
        new = {old: index for index, old in enumerate(used)}
        count = len(self.arrays)
        arrays = tuple(self.arrays[index] for index in used if index < count)
        lines = tuple(_renamed(self.lines[index - count], new) for index in used if index >= count)
        return replace(self, arrays=arrays, lines=lines, roots=tuple(new[root] for root in self.roots))

    def _with(self, index: int, other: int) -> Program:
        """Return the program with one value replaced by another."""
        new = {index: other}
        lines = tuple(_renamed(line, new) for line in self.lines)
        return replace(self, lines=lines, roots=tuple(new.get(root, root) for root in self.roots))


def _numbers(array: Array) -> str:
    flat = array.astype(np.float64).ravel().tolist() if array.dtype == BFLOAT16 else array.ravel().tolist()
    return repr(flat)


def _names(line: str) -> list[int]:
    return [int(name) for name in re.findall(r"\bv(\d+)\b", line)]


def _renamed(line: str, new: dict[int, int]) -> str:
    return re.sub(r"\bv(\d+)\b", lambda match: f"v{new.get(int(match[1]), int(match[1]))}", line)


# -- building blocks of programs ------------------------------------------------------------------------------------


def _templates() -> dict[str, tuple[str, ...]]:
    """Return the line templates by section of the template file."""
    sections = Path(__file__).with_name("templates.txt").read_text(encoding="utf-8").split("\n# ")[1:]
    found = {}
    for section in sections:
        name, _, text = section.partition("\n")
        found[name] = tuple(line.strip() for line in text.split(";"))
    return found


TEMPLATES = _templates()
KINDS = ("scaled", "normal", "cancel", "ends", "special", "whole", "equal")
FLOATS = ("float64", "float32", "float32", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int8", "uint8", "bool")
SHAPES = ((3, 4), (3, 4), (3, 4), (4, 4), (1, 4), (3, 1), (0, 4), (1, 1))
LARGE = ((700, 700), (600_011,), (150_001, 4), (7, 90_001), (70, 80, 90))


def numbers(chance: np.random.Generator, kind: str, shape: tuple[int, ...], name: str, offset: float = 1e4) -> Array:
    """Return an array of one kind of numbers; cancelling ones are near an offset or its negative."""
    dtype = BFLOAT16 if name == "bfloat16" else np.dtype(name)
    if not is_floating(dtype):
        high = 2 if name == "bool" else 5
        whole = chance.integers(0 if dtype.kind in "ub" else -high, high, shape)
        if kind in ("ends", "special") and dtype.kind in "iu":
            ends = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1], dtype)
            return chance.choice(ends, shape)
        return whole.astype(dtype)
    if dtype.kind == "c":
        part = np.float32 if dtype == np.complex64 else np.float64
        parts = [numbers(chance, kind, shape, part.__name__, offset) for _ in range(2)]
        result = np.empty(shape, dtype)
        result.real, result.imag = parts
        return result
    info = limits(dtype)
    x = chance.normal(size=shape)
    if kind == "cancel":
        offset = min(offset, float(info.max) / 200)
        x = chance.choice([offset, offset, -offset]) + x * chance.choice([1.0, offset * float(info.eps)])
    elif kind in ("ends", "scaled"):
        reach = np.log10(float(info.max)) * 0.8
        x = x * 10.0 ** chance.uniform(-reach, reach, shape if kind == "ends" else None)
    elif kind == "special":
        tiny = float(info.smallest_subnormal) * 3
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, tiny, -tiny, float(info.max), 1.0, -1.0])
        x = np.where(chance.random(shape) < 0.5, chance.choice(special, shape), x)
    elif kind == "whole":
        x = chance.integers(-3, 4, shape) * chance.choice([1.0, 1.0, 1e3 if dtype == np.float16 else 2.0**24])
    elif kind == "equal":
        x = np.full(shape, chance.choice([0.0, -0.0, 1.0, 300.0, -1e-4]))
    with np.errstate(all="ignore"):
        return np.asarray(x).astype(dtype)


class Maker:
    """Program under construction, which keeps each line that Explorer accepts."""

    def __init__(
        self, chance: np.random.Generator, dtype: str, kinds: Sequence[str], shapes: Sequence[Any] = SHAPES
    ) -> None:
        self.chance, self.dtype, self.kinds = chance, dtype, kinds
        self.arrays: list[Array] = []
        self.lines: list[str] = []
        self.values: Environment = {"xp": ex, "np": np}
        self.fixed: dict[str, str] = {}
        self.offset = 10.0 ** self.pick((2, 4, 6, 8))
        shape = self.pick(shapes)
        self.largest = max(200, int(np.prod(shape)))
        self.given([self.array(shape), self.array(shape), self.array((shape[-1],))])

    def pick(self, among: Sequence[Any]) -> Any:
        return among[int(self.chance.integers(len(among)))]

    def array(self, shape: tuple[int, ...]) -> Array:
        return numbers(self.chance, self.pick(self.kinds), shape, self.dtype, self.offset)

    def given(self, arrays: Sequence[Array]) -> list[str]:
        for array in arrays:
            self.values[f"v{len(self.arrays)}"] = ex.tensor(array)
            self.arrays.append(array)
        return [f"v{index}" for index in range(len(self.arrays) - len(arrays), len(self.arrays))]

    def constants(self, names: str) -> None:
        """Add weights w, w2 (4×4), rows r, r2, images i, filters f and a channel factor c, named by letter."""
        shapes = {
            "w": (4, 4),
            "w2": (4, 4),
            "r": (4,),
            "r2": (4,),
            "i": (1, 2, 5, 5),
            "f": (2, 2, 2, 2),
            "c": (2, 1, 1),
        }
        for name in names.split():
            (self.fixed[name],) = self.given([self.array(shapes[name])])

    def operand(self, near: float = 0.6) -> str:
        count = len(self.arrays) + len(self.lines)
        if self.lines and self.chance.random() < near:
            return f"v{count - 1}"
        return f"v{int(self.chance.integers(count))}"

    def add(self, template: str, a: str | None = None) -> bool:
        """Add one line; return False if Explorer rejects it or its value is large."""
        a = a or self.operand()
        shape = self.values[a].shape
        if 0 in shape and any(text in template for text in ("np.array", "range", "map", "scan")):
            return False  # Explorer plans indexing that NumPy rejects
        if "nll_loss" in template and self.dtype in INTEGERS:
            return False  # sums of integers overflow
        if "{p}" in template and self.values[a].dtype.kind in "iu":
            template = template.replace("{p}", "2")
        if self.values[a].dtype.kind == "b" and self.dtype != "bool" and template not in TEMPLATES["moves"]:
            return False
        facts = {
            **self.fixed,
            "a": a,
            "b": self.operand(0.2),
            "k": self.pick(TEMPLATES["numbers"]),
            "k2": self.pick(TEMPLATES["numbers"]),
            "p": self.pick(("2", "3", "4", "-1", "0.5", "1", "0", "2.0")),
            "n": int(np.prod(shape)),
            "rows": shape[0] if shape else 0,
            "shape": shape,
            "axis": self.pick((0, -1, 1)),
            "keep": self.pick((True, False)),
            "t": self.pick((self.dtype, self.dtype, "float64", "float32")),
        }
        try:
            line = template.format(**facts)
            with np.errstate(all="ignore"):
                value = eval(line, self.values)
        except (ex.ExplorerError, IndexError, KeyError, TypeError, AttributeError):
            return False
        if not isinstance(value, ex.Expr) or value.size > self.largest:
            return False
        self.values[f"v{len(self.arrays) + len(self.lines)}"] = value
        self.lines.append(line)
        return True

    def program(self) -> Program:
        """Return the program, which requests its last line and sometimes another one."""
        count = len(self.arrays) + len(self.lines)
        roots = {count - 1, *([int(self.chance.integers(count))] if self.chance.random() < 0.3 else [])}
        options: tuple[tuple[str, Any], ...] = ()
        if self.chance.random() < 0.3:
            without = tuple(name for name in OPTIONAL if self.chance.random() < 0.3)
            options = (("without", without), ("executor", self.pick(("simple", "dag"))))
        return Program(tuple(self.arrays), tuple(self.lines), tuple(sorted(roots)), options)


def _mixed() -> dict[str, list[str]]:
    """Return lines for a kind of numbers; small sections are drawn as often as large ones for real numbers."""
    calls = {
        "unary": [f"xp.{name}({{a}})" for name in TEMPLATES["unary"]],
        "binary": [f"xp.{name}({{a}}, {{b}})" for name in TEMPLATES["binary"]],
        "reductions": [f"xp.{name}({{a}}, axis={{axis}}, keepdims={{keep}})" for name in TEMPLATES["reductions"]],
        "all": [f"xp.{name}({{a}})" for name in TEMPLATES["reductions"]],
    }
    named = ("soft", "arithmetic", "arithmetic", "moves", "sums", "products", "control")
    real = [*calls.values(), *[list(TEMPLATES[name]) for name in named]]
    complex_ = [f"xp.{name}({{a}})" for name in TEMPLATES["complex"][4:]]
    return {
        "real": [template for group in real for template in group * max(1, 60 // len(group))],
        "integers": [*TEMPLATES["integers"], *TEMPLATES["moves"]],
        "complex": [
            *(template for name in ("arithmetic", "sums", "moves") for template in TEMPLATES[name]),
            *(*complex_, "{a} @ {w}", "xp.sum({a}, axis=0)"),
        ],
    }


_MIXED = _mixed()


def random_program(chance: np.random.Generator) -> Program:
    """Return a program of any operations on any numbers."""
    draw = chance.random()
    kind = "real" if draw < 0.72 else "integers" if draw < 0.88 else "complex"
    names = {"real": FLOATS, "integers": INTEGERS, "complex": ("complex64", "complex128")}[kind]
    dtype = names[int(chance.integers(len(names)))]
    kinds = ("normal",) if chance.random() < 0.3 else tuple(chance.choice(KINDS, 2))
    maker = Maker(chance, dtype, kinds)
    maker.constants("w w2 r r2")
    if kind == "real" and chance.random() < 0.1:
        maker.constants("i f c")
        for _ in range(int(chance.integers(1, 4))):
            maker.add(maker.pick(TEMPLATES["images"]))
    templates = _MIXED[kind]
    wanted = int(chance.integers(1, 13))
    for _ in range(4 * wanted):
        if len(maker.lines) >= wanted:
            break
        maker.add(maker.pick(templates))
    while not maker.lines:
        maker.add(maker.pick(templates))
    return maker.program()


def _lines(cls: type) -> Sequence[str]:
    """Return lines that record an operation class; the base class has lines of properties that rules read."""
    name = getattr(cls, "name", "")
    if cls.__name__ in TEMPLATES:
        return TEMPLATES[cls.__name__]
    if name in TEMPLATES["reductions"]:
        return [f"xp.{name}({{a}}, axis={{axis}}, keepdims={{keep}})"]
    if name in TEMPLATES["binary"]:
        return [f"xp.{name}({{a}}, {{b}})"]
    return [f"xp.{name}({{a}})"] if name in TEMPLATES["unary"] else TEMPLATES["Operation"]


def around_a_rule(chance: np.random.Generator) -> Program:
    """Return a program with an operation of a rule's roots on one of its producers, on numbers at the limits."""
    rule = Rule.rules[int(chance.integers(len(Rule.rules)))]
    inference = chance.random() < (0.8 if rule.name in TEMPLATES else 0.3)
    # A net ignores a weight that is tiny compared with others of its channel.
    kinds = tuple(chance.choice([kind for kind in KINDS if not inference or kind != "ends"], 2))
    names = (*FLOATS, *FLOATS, *INTEGERS[:3], "complex64", "complex128")
    maker = Maker(chance, names[int(chance.integers(len(names)))], kinds)
    maker.constants("i w w2 r r2 f c" if "float" in maker.dtype else "w w2 r r2")
    root = maker.pick(rule.roots)
    producers = list(rule.producers or ()) or [root]
    if rule.name in TEMPLATES:
        for _ in range(5):
            maker.add(maker.pick(TEMPLATES[rule.name]), "v0")
    for _ in range(0 if maker.lines else 40):
        if chance.random() < 0.3:
            maker.add(maker.pick(_lines(maker.pick(producers))))
        if maker.add(maker.pick(_lines(maker.pick(producers)))):
            if chance.random() < 0.2:
                maker.add(maker.pick(TEMPLATES["between"]))
            last = f"v{len(maker.arrays) + len(maker.lines) - 1}"
            if maker.add(maker.pick(_lines(root)), last):
                break
    while not maker.lines:
        maker.add("{a} + {b}")
    if chance.random() < 0.3:
        maker.add(maker.pick(TEMPLATES["arithmetic"]))
    program = maker.program()
    if inference:
        program = replace(program, options=(("inference", 3 + ("i" in maker.fixed)),))
    return program


def large_program(chance: np.random.Generator) -> Program:
    """Return a program of one or two reductions of operands larger than a block of a fused kernel."""
    maker = Maker(chance, FLOATS[int(chance.integers(3))], ("normal", "cancel", "ends"), LARGE)
    while len(maker.lines) < 1 + (chance.random() < 0.3):
        maker.add(maker.pick(TEMPLATES["large"]), "v0")
    return maker.program()


def seeded(campaign: str, seed: int, number: int) -> np.random.Generator:
    """Return the random generator of a case, determined by campaign, seed and number."""
    return np.random.default_rng([zlib.crc32(campaign.encode()), seed, number])
