"""Parser of ``.param`` files: one operator on each line, with named operands.

Line 1 is the magic number. Line 2 contains the number of operators and the number of operands. Each further line is an
operator: ``type name n_in n_out inputs… outputs… key=value…``. The prefix ``@`` of a key marks a weight, ``$`` a named
input, and ``#`` the recorded type of an operand. ``pnnx.Input`` and ``pnnx.Output`` become the inputs and outputs of
the net. If the net returns a tuple, each member becomes an output. Files are untrusted input, so counts are checked
before memory is allocated for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NoReturn

from explorer.core.errors import FileError
from explorer.core.progress import Progress, current_callback
from explorer.formats.pnnx.attention_operands import with_named_operands
from explorer.formats.pnnx.param_values import BLANK, GrammarError, read_string, read_type, read_value, shorten
from explorer.formats.pnnx.recurrent_results import with_all_results
from explorer.net.definition.definition import BlobType, NetDefinition, OperatorDefinition, Plain, WeightReference
from explorer.record.reasons import counted_text

MAGIC = "7767517"
INPUT, OUTPUT, EXPRESSION = "pnnx.Input", "pnnx.Output", "pnnx.Expression"
TUPLE = "prim::TupleConstruct"
_AGAIN = "export the model again with pnnx; the file seems damaged or edited by hand"
_WORD = re.compile(rf"[^{BLANK}]+")
# possessive quantifier, since a prefix is never part of the name
_PAIR = re.compile(r"([@#$]?+)([^=]+)=(.*)", re.DOTALL)
_NCNN_INPUT, _NCNN_KEY = "Input", re.compile("-?[0-9]+")
_NCNN_TYPES = frozenset({"Convolution", "ConvolutionDepthWise", "Deconvolution", "InnerProduct", "Pooling", "Reshape"})
"""operator types and argument names of ncnn files, which have the same magic number"""
_COUNT = re.compile(r"[0-9]{1,18}")
"""nonnegative integers that fit in 64 bits"""
_ANNOTATIONS = re.compile(rf"[{BLANK}]+[@#$][^={BLANK}]*=[^{BLANK}]*")
"""operand and weight types in a line; the source view omits them, because the graph shows them"""


def parse(data: bytes, *, path: str, name: str) -> NetDefinition:
    """Parse a ``.param`` file as a definition without weights; raise FileError with the file, line and rule."""
    lines = _text(data, path).split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    operators, operands = _read_counts(lines, path)
    reader = _Reader(path)
    follow = current_callback()
    for number, line in enumerate(lines[2:], 3):
        if follow is not None:
            follow(Progress("reading", name, number - 3, operators))
        if number - 2 > operators:
            _fail(
                path,
                number,
                f"more operators than the {operators} that line 2 counts",
                rule="line 2 must have the number of operators and of operands",
            )
        try:
            reader.read(line, number)
        except GrammarError as error:
            raise FileError(error.given, path=path, line=number, rule=error.rule, fix=error.fix or _AGAIN) from None
    if len(lines) - 2 < operators:
        _fail(
            path,
            len(lines),
            f"the file ends after {len(lines) - 2} of {counted_text(operators, 'operator')}",
            rule="line 2 must have the number of operators and of operands",
        )
    definition = NetDefinition.of(
        name, reader.operators, reader.inputs, reader.outputs, reader.blob_types(), source=path
    )
    produced = len(definition.blobs) - len(reader.added_results)
    # pnnx also counts the operands of operators that it has removed
    if produced > operands:
        _fail(
            path,
            2,
            f"{operands} operands are counted, but {produced} are produced",
            rule="line 2 must count at least the operands that the operators produce",
        )
    return definition


def _fail(path: str, line: int, problem: str, *, rule: str, fix: str = _AGAIN) -> NoReturn:
    raise FileError(problem, path=path, line=max(line, 1), rule=rule, fix=fix)


def _text(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        _fail(
            path,
            data.count(b"\n", 0, error.start) + 1,
            f"byte {data[error.start]:#04x} is not UTF-8 text",
            rule="a .param file must be UTF-8 text",
            fix="open the .param file; the .bin file next to it contains the weights",
        )


def _read_counts(lines: list[str], path: str) -> tuple[int, int]:
    if not lines or lines[0].strip() != MAGIC:
        line = shorten(lines[0], 40) if lines else "an empty file"
        _fail(
            path,
            1,
            f"{line} instead of the magic number",
            rule=f"a pnnx .param file must begin with {MAGIC}",
            fix="open a file that pnnx wrote, usually *.pnnx.param",
        )
    words = _WORD.findall(lines[1]) if len(lines) > 1 else []
    if len(words) != 2 or not all(_COUNT.fullmatch(word) for word in words):
        line = shorten(lines[1], 40) if len(lines) > 1 else "nothing"
        _fail(path, 2, f"{line} instead of the counts", rule="line 2 must have the number of operators and of operands")
    return int(words[0]), int(words[1])


def _ncnn(problem: str) -> GrammarError:
    return GrammarError(
        f"{problem}: this is an ncnn file, not a pnnx file",
        rule="a .param file must be a pnnx file, whose operators have PyTorch types and named arguments",
        fix="open x.pnnx.param, which pnnx writes next to x.ncnn.param, or the original model",
    )


@dataclass
class _Reader:
    path: str
    operators: list[OperatorDefinition] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    types: dict[str, tuple[BlobType, int]] = field(default_factory=dict)
    tuples: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """members of each operand that is a tuple"""
    added_results: list[str] = field(default_factory=list)
    """names of unused results, which pnnx omits"""

    def blob_types(self) -> dict[str, BlobType]:
        return {name: type for name, (type, _) in self.types.items()}

    def blob_type(self, name: str) -> BlobType:
        """Return the recorded type of the operand ``name``, or a type without shape and dtype if none is recorded."""
        return self.types[name][0] if name in self.types else BlobType()

    def read(self, line: str, number: int) -> None:
        """Parse the line of one operator; ``number`` is the line number."""
        words = _WORD.finditer(line)
        head = [word for _, word in zip(range(4), words, strict=False)]
        if len(head) < 4:
            raise GrammarError(
                f"a line of {counted_text(len(head), 'word')}: {shorten(line)}",
                rule="an operator must be written: type name n_in n_out inputs… outputs… key=value…",
            )
        type, name, *counted = (word[0] for word in head)
        if type == _NCNN_INPUT:
            raise _ncnn(f"an operator of type {type}")
        for label, count in zip(("inputs", "outputs"), counted, strict=True):
            if not _COUNT.fullmatch(count):
                raise GrammarError(
                    f"operator {shorten(name)} has {shorten(count)} as its number of {label}",
                    rule=f"the number of {label} must be an integer",
                )
        n_in, n_out = int(counted[0]), int(counted[1])
        # Every operand takes at least two characters, so the length of the line limits the number of operands.
        operands = [word for _, word in zip(range(min(n_in + n_out, len(line))), words, strict=False)]
        if len(operands) < n_in + n_out:
            raise GrammarError(
                f"operator {shorten(name)} counts {counted_text(n_in, 'input')} and {counted_text(n_out, 'output')}, "
                f"but {counted_text(len(operands), 'name')} follow",
                rule="the names of all inputs and outputs must follow their counts",
            )
        blobs = tuple(word[0] for word in operands)
        bare = OperatorDefinition(
            type, name, blobs[:n_in], blobs[n_in:], line=number, text=_ANNOTATIONS.sub("", line).rstrip()
        )
        operator = self._read_pairs(bare, [word[0] for word in words])
        for rewrite in (with_positional_names, with_all_results, with_named_operands, with_result_dtype):
            operator = rewrite(operator, self.blob_type)
        self.added_results.extend(blob for blob in operator.outputs if blob not in bare.outputs)
        self._add(operator)

    def _read_pairs(self, operator: OperatorDefinition, pairs: list[str]) -> OperatorDefinition:
        arguments: dict[str, Plain] = {}
        input_names: dict[str, str] = {}
        weights: dict[str, WeightReference] = {}
        inputs = frozenset(operator.inputs)
        operands = inputs.union(operator.outputs)
        for pair in pairs:
            match = _PAIR.fullmatch(pair)
            if match is None:
                raise GrammarError(
                    f"{shorten(pair)} among the arguments of operator {shorten(operator.name)}",
                    rule="arguments must be written name=value, without blanks",
                    fix=r'write a string with blanks as a JSON string: name="a\u0020b"',
                )
            prefix, key, value = match[1], match[2], match[3]
            if not prefix and operator.type in _NCNN_TYPES and _NCNN_KEY.fullmatch(key):
                raise _ncnn(f"the argument {shorten(pair)} of operator {shorten(operator.name)}")
            if prefix == "#":
                _check_operand(operator, pair, key, operands)
                self._record_type(key, value, operator.line)
                continue
            if key in (weights if prefix == "@" else input_names if prefix == "$" else arguments):
                raise GrammarError(
                    f"operator {shorten(operator.name)} has {shorten(prefix + key)} twice",
                    rule="names of arguments must be unique",
                )
            if prefix == "@":
                weights[key] = _weight(operator, key, value)
            elif prefix == "$":
                _check_operand(operator, pair, value, inputs)
                input_names[key] = value
            elif operator.type == EXPRESSION and key == "expr":
                arguments[key] = read_string(value)
            else:
                arguments[key] = read_value(value)
        return replace(operator, arguments=arguments, input_names=input_names, weights=weights)

    def _record_type(self, blob: str, value: str, line: int) -> None:
        type = BlobType(*read_type(value))
        earlier, first = self.types.setdefault(blob, (type, line))
        if earlier != type:
            raise GrammarError(
                f"operand {shorten(blob)} has type {shorten(value)} here and another on line {first}",
                rule="all types of an operand must be equal",
            )

    def _add(self, operator: OperatorDefinition) -> None:
        earlier = self.names.setdefault(operator.name, operator.line)
        if earlier != operator.line:
            raise GrammarError(
                f"operator name {shorten(operator.name)} is used twice, first on line {earlier}",
                rule="operator names must be unique, since they identify weights",
            )
        if operator.type not in (INPUT, OUTPUT):
            self.operators.append(operator)
            if operator.type == TUPLE and len(operator.outputs) == 1:
                self.tuples[operator.outputs[0]] = operator.inputs
            return
        is_input = operator.type == INPUT
        unexpected = operator.inputs if is_input else operator.outputs
        if unexpected or operator.arguments or operator.weights:
            raise GrammarError(
                f"{operator.type} {shorten(operator.name)} has more than its {'outputs' if is_input else 'inputs'}",
                rule="pnnx.Input must have only outputs, and pnnx.Output only inputs, without arguments or weights",
            )
        if is_input:
            self.inputs.extend(operator.outputs)
        else:
            waiting = [*reversed(operator.inputs)]
            while waiting:
                blob = waiting.pop()
                if blob in self.tuples:  # popped, so that the loop ends if tuples contain each other
                    waiting.extend(reversed(self.tuples.pop(blob)))
                else:
                    self.outputs.append(blob)


def _weight(operator: OperatorDefinition, name: str, value: str) -> WeightReference:
    shape, dtype = read_type(value)
    lengths = tuple(length for length in shape if isinstance(length, int))
    if dtype is None or len(lengths) < len(shape):
        raise GrammarError(
            f"weight {shorten(name)} of operator {shorten(operator.name)} has type {shorten(value)}",
            rule="a weight must have a known shape and dtype",
        )
    return WeightReference(f"{operator.name}.{name}", lengths, dtype)


def _check_operand(operator: OperatorDefinition, pair: str, blob: str, known: frozenset[str]) -> None:
    if blob not in known:
        listed = ", ".join(sorted(known)[:8]) + (" …" if len(known) > 8 else "")
        raise GrammarError(
            f"{shorten(pair)} of operator {shorten(operator.name)} refers to operand {shorten(blob)}",
            rule=f"it must refer to an operand of the operator: {listed or 'the operator has none'}",
        )


DTYPE = "dtype"
_WIDENED = frozenset(
    [f"{prefix}.{name}" for prefix in ("torch", "Tensor") for name in ("sum", "prod", "cumsum", "cumprod")]
)
"""operator types whose results are int64 by default if the operand is boolean or integer"""
_KEPT = frozenset((
    "torch.mean", "Tensor.mean", "torch.softmax", "F.softmax", "F.softmin", "torch.log_softmax", "F.log_softmax",
))  # fmt: skip
"""operator types whose results by default have the operand's dtype"""
_QUOTIENT = re.compile(r"\bdiv\(")


def with_result_dtype(operator: OperatorDefinition, type_of: Callable[[str], BlobType]) -> OperatorDefinition:
    """Add the result's recorded dtype to the operator's arguments if it differs from the default.

    An integer dtype is also added to an expression with a division, because the quotient was then rounded.
    """
    if len(operator.outputs) != 1 or operator.arguments.get(DTYPE) is not None:
        return operator
    recorded = type_of(operator.outputs[0]).dtype
    if recorded is None or recorded == _default_dtype(operator, type_of):
        return operator
    return replace(operator, arguments={**operator.arguments, DTYPE: f"torch.{recorded}"})


def _default_dtype(operator: OperatorDefinition, type_of: Callable[[str], BlobType]) -> str | None:
    """Return the dtype that the result has without a dtype argument; if it is unknown, return the recorded dtype."""
    recorded = type_of(operator.outputs[0]).dtype
    text = operator.arguments.get("expr")
    if isinstance(text, str):
        return None if _is_integer(recorded) and _QUOTIENT.search(text) else recorded
    if not operator.inputs or operator.type not in _WIDENED | _KEPT:
        return recorded
    dtype = type_of(operator.inputs[0]).dtype
    if dtype is None:
        return recorded
    return "int64" if operator.type in _WIDENED and (dtype == "bool" or _is_integer(dtype)) else dtype


def _is_integer(dtype: str | None) -> bool:
    return dtype is not None and dtype.startswith(("int", "uint"))


_WINDOW = ("input", "kernel_size", "stride", "padding")
_SIGNATURES = {
    "aten::max_pool": (*_WINDOW, "dilation", "ceil_mode"),
    "aten::avg_pool": (*_WINDOW, "ceil_mode", "count_include_pad", "divisor_override"),
    "aten::adaptive_avg_pool": ("input", "output_size"),
}
"""torch's names of an operator's operands, by its type without the number of axes"""
_NAMES = {f"{name}{axes}d": names for name, names in _SIGNATURES.items() for axes in (1, 2, 3)}


def with_positional_names(operator: OperatorDefinition, type_of: Callable[[str], BlobType]) -> OperatorDefinition:
    """Name the operands of a level-0 operator; return any other operator unchanged.

    An operator with more operands than known names is also returned unchanged.
    """
    names = _NAMES.get(operator.type, ())
    if operator.input_names or len(operator.inputs) > len(names):
        return operator
    return replace(operator, input_names=dict(zip(names, operator.inputs, strict=False)))
