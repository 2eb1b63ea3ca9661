"""Random programs as data: arrays, and lines of Python over `xp`, which is Explorer, or NumPy in several lanes."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np

import explorer as ex
from explorer.plan.pipeline import PassName
from explorer.plan.rewrite.rule import Rule
from tests.soak.numbers.lanes import BFLOAT16, Array, is_floating, limits

Environment = dict[str, Any]
OPTIONAL: tuple[str, ...] = get_args(PassName)
"""the passes that a plan may leave out"""


@dataclass(frozen=True)
class Program:
    """Given arrays v0, v1, …; lines, each the value of one more; the numbers of those that are asked for.

    ``options`` are those of the plan that is compared with the bare one.
    """

    arrays: tuple[Array, ...]
    lines: tuple[str, ...]
    roots: tuple[int, ...]
    options: tuple[tuple[str, Any], ...] = ()

    def build(self, xp: Any) -> list[Any]:
        """The values of the roots over a namespace of functions."""
        values: Environment = {"xp": xp, "np": np}
        for index, array in enumerate(self.arrays):
            values[f"v{index}"] = xp.tensor(array)
        for index, line in enumerate(self.lines, len(self.arrays)):
            values[f"v{index}"] = eval(line, values)
        return [values[f"v{index}"] for index in self.roots]

    def source(self) -> str:
        """A script that shows the values of a plan and of the bare one."""
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
        """Programs with one root, one line or some elements less."""
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
        """The program in which one value takes the place of another."""
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


# -- what programs are made of --------------------------------------------------------------------------------------


def lines_of(text: str) -> tuple[str, ...]:
    """Templates of lines, which semicolons separate."""
    return tuple(line.strip() for line in text.split(";"))


UNARY = lines_of(
    """
    negative ; positive ; absolute ; sign ; square ; sqrt ; rsqrt ; reciprocal ; exp ; expm1 ; log ; log1p ; log2 ;
    log10 ; exp2 ; sin ; cos ; tan ; tanh ; sinh ; cosh ; arctan ; arcsinh ; arctanh ; sigmoid ; relu ; relu6 ;
    softplus ; silu ; gelu ; elu ; leaky_relu ; mish ; hardsigmoid ; softsign ; log_sigmoid ; floor ; ceil ; trunc ;
    round_half_even ; cbrt ; arcsin ; arccos ; arccosh
    """
)
BINARY = (
    *("add", "subtract", "multiply", "divide", "maximum", "minimum"),
    *("fmax", "fmin", "hypot", "arctan2", "logaddexp", "copysign"),
)
REDUCTIONS = ("sum", "mean", "max", "min", "prod", "var", "std", "logsumexp", "vector_norm", "argmax", "any", "all")
NUMBERS = (
    "0.0",
    "-0.0",
    "1.0",
    "2.0",
    "-1.0",
    "0.5",
    "4.0",
    "0.3",
    "3.0",
    "1e8",
    "1e-30",
    "1e30",
    "0.1",
    "1e4",
    "-2.0",
)
MOVES = lines_of(
    """
    xp.transpose({a}) ; xp.reshape({a}, ({n},)) ; {a}[1:] ; {a}[::-1] ; {a}[0] ; {a}[:, 1:] ; {a}[-1:] ;
    xp.expand_dims({a}, 0) ; xp.flip({a}, 0) ; xp.roll({a}, 1, 0) ; xp.stack([{a}, {b}]) ; xp.cast({a}, '{t}') ;
    xp.concatenate([{a}, {b}]) ; xp.concatenate([{a}, {b}])[1:] ; xp.stack([{a}[i] for i in range({rows})]) ;
    xp.stack([{a}, {b}])[1] ; xp.take({a}, np.array([0, 0, -1]), axis=0) ; xp.transpose(xp.transpose({a})) ;
    xp.broadcast_to({a}, (2, *{shape})) ; xp.where({a} > {b}, {a}, {k}) ; xp.where({a} > {k}, {b}, {a}) ;
    xp.concatenate([{a}[:1], {a}[1:]]) ; xp.clip({a}, -1.0, 2.0)
    """
)
ARITHMETIC = lines_of(
    """
    {a} + {b} ; {a} - {b} ; {a} * {b} ; {a} / {b} ; {a} + {k} ; {k} - {a} ; {a} * {k} ; {a} / {k} ; {k} / {a} ;
    {a} ** {p} ; ({a} + {b}) - {a} ; {a} * {a} ; -(-{a}) ; ({a} + {k}) - {k} ; ({a} * {k}) * {k2} ;
    xp.add_n({a}, {b}, {a}) ; ({a} - {b}) / ({a} + {b}) ; {a} + 0.0 ; 0.0 - {a} ; ({a} + {k}) + {k2}
    """
)
SUMS = lines_of(
    """
    {a}[0] + {a}[1] ; {a}[0] + {b} + {a}[1] ; {a}[0] + {a}[1] + {b}[0] + {b}[1] ;
    sum([{a}[i] for i in range({rows})][1:], {a}[0]) ;
    sum([xp.sum(xp.tanh({a}[i]) * {b}) for i in range({rows})][1:], xp.sum({a}[0] * {b})) ;
    sum([xp.softmax({a}[i]) * {b}[i] for i in range({rows})][1:], {b}[0]) ;
    xp.sum(xp.stack([xp.exp({a}[i]) for i in range({rows})]), axis=0) ; {a}[0] * {k} + {a}[1] * {k2} + {b}[0]
    """
)
PRODUCTS = lines_of(
    """
    {a} @ {w} ; ({a} @ {w}) * {r} ; ({a} @ {w}) / {r} ; ({a} @ {w} + {r}) * {r2} ; ({a} @ {w} + {r}) + {r2} ;
    ({a} - {r}) @ {w} ; (({a} - {r}) / {r2}) @ {w} ; ({a} * {r}) @ {w} ; ({a} * {r} + {r2}) @ {w} ; (-{a}) @ {w} ;
    ({a} @ {w} + {r}) - {r} ; ({a} @ {w}) * {k} ; ({a} @ {w}) @ {w} ; xp.einsum('...i,ij->...j', {a}, {w}) ;
    xp.one_hot(np.array([0, 2, 1]), 4, '{t}') @ {w} ; ({a} @ {w}) * {r} + {r2} ; xp.transpose({w}) @ {w} ;
    ({a} @ {w}) + ({a} @ {w2}) ; xp.concatenate([{a} @ {w}, {a} @ {w2}]) ; ({a} @ {w}) - {k} ;
    xp.sum(xp.stack([{a}, {a}]) @ xp.stack([{w}, {w2}]), axis=0)
    """
)
SOFT = lines_of(
    """
    xp.softmax({a}, {axis}) ; xp.log_softmax({a}, {axis}) ;
    xp.exp({a}) / xp.sum(xp.exp({a}), axis={axis}, keepdims=True) ; xp.log(xp.softmax({a}, {axis})) ;
    xp.log(xp.sum(xp.exp({a}), axis={axis}, keepdims=True)) ; xp.log(1 + xp.exp({a})) ; xp.log1p(xp.exp({a})) ;
    1 / (1 + xp.exp(-{a})) ; xp.exp({a}) / (1 + xp.exp({a})) ; xp.log(xp.sigmoid({a})) ; xp.log(1 - xp.sigmoid({a})) ;
    xp.exp({a}) / xp.exp({b}) ; xp.log(xp.exp({a}) + xp.exp({b})) ; xp.log(xp.exp({a})) ; xp.exp(xp.log({a})) ;
    xp.sqrt(xp.square({a})) ; xp.square(xp.sqrt({a})) ; xp.sqrt({a} * {a}) ; xp.log1p(-xp.exp({a})) ;
    xp.log1p({k} * xp.exp(-{a})) ; xp.expm1(xp.log1p({a})) ; xp.log(1 - xp.exp({a})) ; 1 - xp.sigmoid({a}) ;
    (xp.exp({a}) - xp.exp(-{a})) / (xp.exp({a}) + xp.exp(-{a})) ;
    xp.log(xp.mean(xp.exp({a}), axis={axis}, keepdims=True)) ; xp.layer_norm({a}) ; xp.rms_norm({a}, epsilon=1e-6) ;
    xp.normalize({a}, axis={axis}) ; xp.cumsum({a}, axis={axis}) ; xp.exp({a}) * xp.exp({b}) ;
    xp.log({a}) + xp.log({b}) ; xp.log({a} * {b}) ; xp.log10(xp.sigmoid(xp.log_softmax({a}, {axis})))
    """
)
CONTROL = lines_of(
    """
    xp.function(lambda x, y: x * xp.sigmoid(y))({a}, {b}) ; xp.map(lambda x: xp.tanh(x) * 2.0, {a}) ;
    xp.stack([xp.function(lambda x: xp.exp(x) - 1.0)({a}[i]) for i in range({rows})]) ;
    xp.map(lambda x: xp.softmax(x), {a}) ; xp.scan(lambda s, x: (s * 0.5 + x, s), {a}[0], {a})[0] ;
    xp.scan(lambda s, x: (s + x, s * x), {a}[0], {a})[1] ;
    xp.cond(xp.sum({a}) > 0.0, lambda x: xp.exp(x), lambda x: -x, {a}) ;
    sum([xp.function(lambda x: x * 3.0)({a}[i]) for i in range({rows})][1:], {a}[0])
    """
)
IMAGES = lines_of(
    """
    xp.conv2d({i}, {f}) ; xp.conv2d({i}, {f}) * {c} ; xp.conv2d({i}, {f}) / {c} ; xp.conv2d({i} * {c}, {f}) ;
    xp.conv2d({i} - {c}, {f}) ; xp.conv2d(({i} - {c}) / {c}, {f}) ; xp.avg_pool2d({i}, 2) ; xp.max_pool2d({i}, 2) ;
    xp.max_pool2d(xp.relu({i}), 2) ; {i} * {c} + {c} ; xp.max_pool2d(xp.tanh({i}), 2) ;
    xp.max_pool2d(xp.sign({i}), 2) ; xp.relu(xp.conv2d({i}, {f}) + {c}) ; (xp.conv2d({i}, {f}) + {c}) + {c}
    """
)
WHOLE = lines_of(
    """
    {a} + {b} ; {a} - {b} ; {a} * {b} ; -{a} ; xp.absolute({a}) ; xp.square({a}) ; {a} + 0 ; {a} * 1 ; {a} ** 2 ;
    xp.maximum({a}, {b}) ; xp.minimum({a}, {b}) ; xp.sum({a}, axis={axis}) ; xp.max({a}, axis={axis}) ; xp.sign({a}) ;
    xp.prod({a}, axis={axis}) ; {a}[0] + {a}[1] ; {a} @ {w} ; -(-{a}) ; xp.add_n({a}, {b}, {a}) ; {a} / {b} ;
    {a} / 4 ; xp.bitwise_and({a}, {b}) ; xp.bitwise_or({a}, {b}) ; xp.bitwise_xor({a}, {b}) ; xp.invert({a}) ;
    xp.relu({a}) ; xp.cast({a}, '{t}') ; xp.logical_and({a}, {b}) ; xp.logical_not({a}) ;
    xp.where({a} > {b}, {a}, {b}) ; xp.any({a}, axis={axis}) ; xp.invert(xp.invert({a})) ; xp.all({a}, axis={axis}) ;
    xp.cumsum({a}, axis={axis}) ; xp.equal({a}, {b}) ; xp.argmax({a}, axis={axis}) ; xp.clip({a}, 0, 2) ; {a} - 0 ;
    sum([{a}[i] for i in range({rows})][1:], {a}[0]) ; xp.sqrt({a}) ; xp.exp({a}) ; xp.mean({a}, axis={axis}) ;
    xp.cos(-{a})
    """
)
COMPLEX = (
    "add",
    "subtract",
    "multiply",
    "divide",
    "exp",
    "square",
    "negative",
    "reciprocal",
    "sqrt",
    "sin",
    "cos",
    "absolute",
    "log",
)
KINDS = ("normal", "cancel", "ends", "special", "whole", "equal")
FLOATS = ("float64", "float32", "float32", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int8", "uint8", "bool")
SHAPES = ((3, 4), (3, 4), (3, 4), (4, 4), (1, 4), (3, 1), (0, 4), (1, 1))


def numbers(chance: np.random.Generator, kind: str, shape: tuple[int, ...], name: str) -> Array:
    """An array of one kind of numbers."""
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
        parts = [numbers(chance, kind, shape, part.__name__) for _ in range(2)]
        result = np.empty(shape, dtype)
        result.real, result.imag = parts
        return result
    info = limits(dtype)
    x = chance.normal(size=shape)
    if kind == "cancel":
        x = chance.choice([1e2, 1e4, -1e4, 1e6] if dtype != np.float16 else [10, 100, 300]) + x
    elif kind == "ends":
        reach = np.log10(float(info.max)) * 0.8
        x = x * 10.0 ** chance.uniform(-reach, reach, shape)
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
    """A program while it is made: each line that Explorer accepts is kept."""

    def __init__(self, chance: np.random.Generator, dtype: str, kinds: Sequence[str]) -> None:
        self.chance, self.dtype, self.kinds = chance, dtype, kinds
        self.arrays: list[Array] = []
        self.lines: list[str] = []
        self.values: Environment = {"xp": ex, "np": np}
        self.fixed: dict[str, str] = {}
        shape = self.pick(SHAPES)
        self.given([self.array(shape), self.array(shape), self.array((shape[-1],))])

    def pick(self, among: Sequence[Any]) -> Any:
        return among[int(self.chance.integers(len(among)))]

    def array(self, shape: tuple[int, ...]) -> Array:
        return numbers(self.chance, self.pick(self.kinds), shape, self.dtype)

    def given(self, arrays: Sequence[Array]) -> list[str]:
        for array in arrays:
            self.values[f"v{len(self.arrays)}"] = ex.tensor(array)
            self.arrays.append(array)
        return [f"v{index}" for index in range(len(self.arrays) - len(arrays), len(self.arrays))]

    def constants(self, names: str) -> None:
        """Weights w, w2 (4×4), rows r, r2, images i, filters f and a factor c of each channel, by their letters."""
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
        """One more line, or False where Explorer refuses it or makes it large."""
        a = a or self.operand()
        shape = self.values[a].shape
        if 0 in shape and any(text in template for text in ("np.array", "range", "map", "scan")):
            return False  # Explorer plans what NumPy cannot index
        if "{p}" in template and self.values[a].dtype.kind in "iu":
            template = template.replace("{p}", "2")
        if self.values[a].dtype.kind == "b" and self.dtype != "bool" and template not in MOVES:
            return False
        facts = {
            **self.fixed,
            "a": a,
            "b": self.operand(0.2),
            "k": self.pick(NUMBERS),
            "k2": self.pick(NUMBERS),
            "p": self.pick(("2", "3", "4", "-1", "0.5", "1", "0", "2.0")),
            "n": int(np.prod(shape)),
            "rows": shape[0] if shape else 0,
            "shape": shape,
            "axis": self.pick((0, -1, 1)),
            "t": self.pick((self.dtype, self.dtype, "float64", "float32")),
        }
        try:
            line = template.format(**facts)
            with np.errstate(all="ignore"):
                value = eval(line, self.values)
        except (ex.ExplorerError, IndexError, KeyError, TypeError, AttributeError):
            return False
        if not isinstance(value, ex.Expr) or value.size > 200:
            return False
        self.values[f"v{len(self.arrays) + len(self.lines)}"] = value
        self.lines.append(line)
        return True

    def program(self) -> Program:
        """The program, which asks for its last line and now and then another."""
        count = len(self.arrays) + len(self.lines)
        roots = {count - 1, *([int(self.chance.integers(count))] if self.chance.random() < 0.3 else [])}
        options: tuple[tuple[str, Any], ...] = ()
        if self.chance.random() < 0.3:
            without = tuple(name for name in OPTIONAL if self.chance.random() < 0.3)
            options = (("without", without), ("executor", self.pick(("simple", "dag"))))
        return Program(tuple(self.arrays), tuple(self.lines), tuple(sorted(roots)), options)


def templates_of(kind: str) -> list[str]:
    """Lines for a kind of numbers."""
    if kind == "whole numbers":
        return [*WHOLE, *MOVES]
    if kind == "complex":
        return [
            *[f"xp.{name}({{a}})" for name in COMPLEX[4:]],
            *ARITHMETIC,
            *SUMS,
            *MOVES,
            "{a} @ {w}",
            "xp.sum({a}, axis=0)",
        ]
    unary = [f"xp.{name}({{a}})" for name in UNARY]
    binary = [f"xp.{name}({{a}}, {{b}})" for name in BINARY]
    reduced = [f"xp.{name}({{a}}, axis={{axis}}, keepdims={keep})" for name in REDUCTIONS for keep in (True, False)]
    reduced += [f"xp.{name}({{a}})" for name in REDUCTIONS]
    groups = (unary, binary, reduced, SOFT, ARITHMETIC, ARITHMETIC, MOVES, SUMS, PRODUCTS, CONTROL)
    return [template for group in groups for template in [*group] * max(1, 60 // len(group))]


_TEMPLATES = {kind: templates_of(kind) for kind in ("real", "whole numbers", "complex")}


def random_program(chance: np.random.Generator) -> Program:
    """Any operations over any numbers."""
    draw = chance.random()
    kind = "real" if draw < 0.72 else "whole numbers" if draw < 0.88 else "complex"
    names = {"real": FLOATS, "whole numbers": INTEGERS, "complex": ("complex64", "complex128")}[kind]
    dtype = names[int(chance.integers(len(names)))]
    kinds = ("normal",) if chance.random() < 0.3 else tuple(chance.choice(KINDS, 2))
    maker = Maker(chance, dtype, kinds)
    maker.constants("w w2 r r2")
    if kind == "real" and chance.random() < 0.1:
        maker.constants("i f c")
        templates = [*IMAGES]
        for _ in range(int(chance.integers(1, 4))):
            maker.add(maker.pick(templates))
    templates = _TEMPLATES[kind]
    wanted = int(chance.integers(1, 13))
    for _ in range(4 * wanted):
        if len(maker.lines) >= wanted:
            break
        maker.add(maker.pick(templates))
    while not maker.lines:
        maker.add(maker.pick(templates))
    return maker.program()


_CHANGING = {
    "Add": ("{a} + {b}", "{b} + {a}", "{a} + {k}", "{a} + {r}", "{a}[0] + {a}[1]", "1 + {a}"),
    "Subtract": ("{a} - {b}", "{b} - {a}", "{a} - {k}", "{k} - {a}", "{a} - {r}", "1 - {a}"),
    "Multiply": ("{a} * {b}", "{a} * {k}", "{k} * {a}", "{a} * {r}", "{r} * {a}", "{a} * {a}"),
    "Divide": (
        "{a} / {b}",
        "{b} / {a}",
        "{a} / {k}",
        "{k} / {a}",
        "{a} / {r}",
        "1 / {a}",
        "{a} / (1 + {a})",
        "{a} / xp.sum({a}, axis={axis}, keepdims=True)",
    ),
    "Power": ("{a} ** {p}",),
    "AddN": ("xp.add_n({a}, {b})", "xp.add_n({a})", "xp.add_n({a}, {b}, {a})", *SUMS[:4]),
    "Matmul": ("{a} @ {w}", "{w} @ {a}", "{a} @ xp.transpose({a})", "xp.stack([{a}, {b}]) @ xp.stack([{w}, {w2}])"),
    "Slice": ("{a}[1:]", "{a}[:2]", "{a}[:, 1:]", "{a}[::-1]", "{a}[1:3]"),
    "Index0": ("{a}[0]", "{a}[-1]", *SUMS[:4]),
    "Stack": ("xp.stack([{a}, {b}])", "xp.stack([{a}[i] for i in range({rows})])"),
    "Concatenate": ("xp.concatenate([{a}, {b}])", "xp.concatenate([{a}])", "xp.concatenate([{a}[:1], {a}[1:]])"),
    "Transpose": ("xp.transpose({a})",),
    "Reshape": ("xp.reshape({a}, ({n},))", "xp.reshape({a}, {shape})", "xp.reshape({a}, (1, {n}))"),
    "BroadcastTo": ("xp.broadcast_to({a}, (2, *{shape}))", "xp.broadcast_to({a}, {shape})"),
    "Cast": ("xp.cast({a}, 'float64')", "xp.cast({a}, 'float32')", "xp.cast({a}, '{t}')", "xp.cast({a}, 'float16')"),
    "Clip": ("xp.clip({a}, -1.0, 2.0)", "xp.clip({a}, -np.inf, np.inf)", "xp.clip({a}, 0.0, None)"),
    "Pad": ("xp.pad({a}, 0)", "xp.pad({a}, 1)"),
    "Conv2d": IMAGES[:6],
    "MaxPool2d": (
        "xp.max_pool2d({i}, 2)",
        *[f"xp.max_pool2d(xp.{name}({{i}}), 2)" for name in ("relu", "floor", "exp", "sigmoid", "sqrt")],
    ),
    "OneHotEncoding": ("xp.one_hot(np.array([0, 2, 1]), 4, '{t}')",),
    "OneHot": ("xp.one_hot(np.array([2]), 4, '{t}')",),
    "Cond": CONTROL[6:7],
    "Scan": CONTROL[4:6],
    "Softmax": ("xp.softmax({a}, {axis})",),
    "NllLoss": ("xp.nll_loss({b}, xp.softmax({a}, -1))",),
}
"""lines by the class of the operation that they record, where several or special ones are worth trying"""
_PROPERTIES = (
    "absolute",
    "relu",
    "floor",
    "ceil",
    "sign",
    "negative",
    "reciprocal",
    "cos",
    "cosh",
    "round_half_even",
    "trunc",
    "square",
)


def _lines(cls: type) -> list[str]:
    """Lines that record a class of operation; those of properties for the base class."""
    if cls.__name__ in _CHANGING:
        return [*_CHANGING[cls.__name__]]
    name = getattr(cls, "name", "")
    if name in REDUCTIONS:
        return [f"xp.{name}({{a}}, axis={{axis}}, keepdims={keep})" for keep in (True, False)]
    if name in BINARY:
        return [f"xp.{name}({{a}}, {{b}})"]
    if name in UNARY:
        return [f"xp.{name}({{a}})"]
    return [f"xp.{name}({{a}})" for name in _PROPERTIES] + [
        "xp.maximum({a}, {b})",
        "xp.maximum({a}, {a})",
        "xp.minimum({b}, {a})",
    ]


def around_a_rule(chance: np.random.Generator) -> Program:
    """What a rule is asked at: an operation of its roots over one of its producers, over numbers at the limits."""
    rule = Rule.rules[int(chance.integers(len(Rule.rules)))]
    kinds = tuple(chance.choice(KINDS, 2))
    names = (*FLOATS, *FLOATS, *INTEGERS[:3], "complex64", "complex128")
    maker = Maker(chance, names[int(chance.integers(len(names)))], kinds)
    maker.constants("w w2 r r2 i f c" if "float" in maker.dtype else "w w2 r r2")
    root = maker.pick(rule.roots)
    producers = list(rule.producers or ()) or [root]
    for _ in range(40):
        if chance.random() < 0.3:
            maker.add(maker.pick(_lines(maker.pick(producers))))
        if maker.add(maker.pick(_lines(maker.pick(producers)))):
            if chance.random() < 0.2:
                maker.add(
                    maker.pick(("-{a}", "{a} * {k}", "xp.transpose({a})", "{a} + {r}", "{a} * {r}", "xp.absolute({a})"))
                )
            last = f"v{len(maker.arrays) + len(maker.lines) - 1}"
            if maker.add(maker.pick(_lines(root)), last):
                break
    while not maker.lines:
        maker.add("{a} + {b}")
    if chance.random() < 0.3:
        maker.add(maker.pick(ARITHMETIC))
    return maker.program()


def seeded(campaign: str, seed: int, number: int) -> np.random.Generator:
    """The generator of a case: the same for the same campaign, seed and number."""
    return np.random.default_rng([zlib.crc32(campaign.encode()), seed, number])
