"""Reader of the ``.param`` grammar: one operator per line, every operand by name.

Line 1 is the magic number, line 2 the counts of operators and operands, then for each operator ``type name n_in n_out
inputs… outputs… key=value…``; a key with the prefix ``@`` is a weight, ``$`` a named input, ``#`` the known type of an
operand. ``pnnx.Input`` and ``pnnx.Output`` become the net's inputs and outputs; each member of a returned tuple is an
output of its own. Files are hostile input: counts are checked before memory is allocated for them.
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
# possessive: a mark is never part of the name
_PAIR = re.compile(r"([@#$]?+)([^=]+)=(.*)", re.DOTALL)
_NCNN_INPUT, _NCNN_KEY = "Input", re.compile("-?[0-9]+")
_NCNN_TYPES = frozenset({"Convolution", "ConvolutionDepthWise", "Deconvolution", "InnerProduct", "Pooling", "Reshape"})
"""marks of a file of ncnn, which begins with the same magic number: its inputs, and types with its argument names"""
_COUNT = re.compile(r"[0-9]{1,18}")
"""numbers that fit 64 bits"""
_NOTES = re.compile(rf"[{BLANK}]+[@#$][^={BLANK}]*=[^{BLANK}]*")
"""notes of a line about operands and weights, which are left out: the graph and the table of weights show them"""


def parse(data: bytes, *, path: str, name: str) -> NetDefinition:
    """Read the bytes of a ``.param`` file; weights are left out. Raises FileError naming file, line, rule and fix."""
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
                f"an operator more than the {operators} that line 2 counts",
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
    produced = len(definition.blobs) - len(reader.unwritten)
    # pnnx also counts operands of operators that it has folded away
    if produced > operands:
        _fail(
            path,
            2,
            f"{operands} operands are counted, {produced} are produced",
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
            f"byte {data[error.start]:#04x} is no text",
            rule="a .param file must be UTF-8 text",
            fix="open the .param file; the weights are in the .bin file beside it",
        )


def _read_counts(lines: list[str], path: str) -> tuple[int, int]:
    if not lines or lines[0].strip() != MAGIC:
        line = shorten(lines[0], 40) if lines else "an empty file"
        _fail(
            path,
            1,
            f"{line} in place of the magic number",
            rule=f"a pnnx .param file must begin with {MAGIC}",
            fix="open a file that pnnx wrote, usually *.pnnx.param",
        )
    words = _WORD.findall(lines[1]) if len(lines) > 1 else []
    if len(words) != 2 or not all(_COUNT.fullmatch(word) for word in words):
        line = shorten(lines[1], 40) if len(lines) > 1 else "nothing"
        _fail(
            path, 2, f"{line} in place of the counts", rule="line 2 must have the number of operators and of operands"
        )
    return int(words[0]), int(words[1])


def _ncnn(problem: str) -> GrammarError:
    return GrammarError(
        f"{problem}: this is a file of ncnn, not of pnnx",
        rule="a .param file must be one of pnnx, whose operators have PyTorch's types and whose arguments have names",
        fix="open x.pnnx.param, which pnnx writes beside x.ncnn.param, or the model that it was made of",
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
    """operands that are tuples, with their members"""
    unwritten: list[str] = field(default_factory=list)
    """names of results that pnnx leaves out because nobody reads them"""

    def blob_types(self) -> dict[str, BlobType]:
        return {name: type for name, (type, _) in self.types.items()}

    def blob_type(self, name: str) -> BlobType:
        """Return the noted type of an operand; one without lengths where nothing is noted."""
        return self.types[name][0] if name in self.types else BlobType()

    def read(self, line: str, number: int) -> None:
        """Read one operator's line."""
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
        for what, count in zip(("inputs", "outputs"), counted, strict=True):
            if not _COUNT.fullmatch(count):
                raise GrammarError(
                    f"operator {shorten(name)} has {shorten(count)} as its number of {what}",
                    rule=f"the number of {what} must be an integer",
                )
        n_in, n_out = int(counted[0]), int(counted[1])
        # Every operand takes two characters, so a count beyond the line's length is refused before it is used.
        operands = [word for _, word in zip(range(min(n_in + n_out, len(line))), words, strict=False)]
        if len(operands) < n_in + n_out:
            raise GrammarError(
                f"operator {shorten(name)} counts {counted_text(n_in, 'input')} and {counted_text(n_out, 'output')}, "
                f"{len(operands)} words follow",
                rule="the names of all inputs and outputs must follow their counts",
            )
        blobs = tuple(word[0] for word in operands)
        bare = OperatorDefinition(
            type, name, blobs[:n_in], blobs[n_in:], line=number, text=_NOTES.sub("", line).rstrip()
        )
        operator = self._read_pairs(bare, [word[0] for word in words])
        for rewrite in (with_positional_names, with_all_results, with_named_operands, with_noted_dtype):
            operator = rewrite(operator, self.blob_type)
        self.unwritten.extend(blob for blob in operator.outputs if blob not in bare.outputs)
        self._keep(operator)

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
                    f"{shorten(pair)} stands among the arguments of operator {shorten(operator.name)}",
                    rule="arguments must be written name=value, without blanks",
                    fix=r'write a string with blanks as a JSON string: name="a\u0020b"',
                )
            mark, key, value = match[1], match[2], match[3]
            if not mark and operator.type in _NCNN_TYPES and _NCNN_KEY.fullmatch(key):
                raise _ncnn(f"the argument {shorten(pair)} of operator {shorten(operator.name)}")
            if mark == "#":
                _check_operand(operator, pair, key, operands)
                self._note_type(key, value, operator.line)
                continue
            if key in (weights if mark == "@" else input_names if mark == "$" else arguments):
                raise GrammarError(
                    f"operator {shorten(operator.name)} has {shorten(mark + key)} twice",
                    rule="names of arguments must be unique",
                )
            if mark == "@":
                weights[key] = _weight(operator, key, value)
            elif mark == "$":
                _check_operand(operator, pair, value, inputs)
                input_names[key] = value
            elif operator.type == EXPRESSION and key == "expr":
                arguments[key] = read_string(value)
            else:
                arguments[key] = read_value(value)
        return replace(operator, arguments=arguments, input_names=input_names, weights=weights)

    def _note_type(self, blob: str, value: str, line: int) -> None:
        noted = BlobType(*read_type(value))
        earlier, first = self.types.setdefault(blob, (noted, line))
        if earlier != noted:
            raise GrammarError(
                f"operand {shorten(blob)} has type {shorten(value)} here and another on line {first}",
                rule="an operand must have only one type",
            )

    def _keep(self, operator: OperatorDefinition) -> None:
        earlier = self.names.setdefault(operator.name, operator.line)
        if earlier != operator.line:
            raise GrammarError(
                f"operator name {shorten(operator.name)} is used twice, first on line {earlier}",
                rule="operator names must be unique; weights are found by them",
            )
        if operator.type not in (INPUT, OUTPUT):
            self.operators.append(operator)
            if operator.type == TUPLE and len(operator.outputs) == 1:
                self.tuples[operator.outputs[0]] = operator.inputs
            return
        is_input = operator.type == INPUT
        wrong = operator.inputs if is_input else operator.outputs
        if wrong or operator.arguments or operator.weights:
            raise GrammarError(
                f"{operator.type} {shorten(operator.name)} has more than its {'outputs' if is_input else 'inputs'}",
                rule="pnnx.Input must have only outputs, pnnx.Output only inputs, and neither arguments nor weights",
            )
        if is_input:
            self.inputs.extend(operator.outputs)
        else:
            waiting = [*reversed(operator.inputs)]
            while waiting:
                blob = waiting.pop()
                if blob in self.tuples:  # taken out: a file that nests tuples in each other ends all the same
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
            f"{shorten(pair)} of operator {shorten(operator.name)} speaks of operand {shorten(blob)}",
            rule=f"it must be an operand of the operator: {listed or 'it has none'}",
        )


DTYPE = "dtype"
_WIDENED = frozenset(
    [f"{home}.{name}" for home in ("torch", "Tensor") for name in ("sum", "prod", "cumsum", "cumprod")]
)
"""types whose results of truths and whole numbers are int64 unless they are told otherwise"""
_KEPT = frozenset((
    "torch.mean", "Tensor.mean", "torch.softmax", "F.softmax", "F.softmin", "torch.log_softmax", "F.log_softmax",
))  # fmt: skip
"""types whose results have the operand's dtype unless they are told otherwise"""
_QUOTIENT = re.compile(r"\bdiv\(")


def with_noted_dtype(operator: OperatorDefinition, type_of: Callable[[str], BlobType]) -> OperatorDefinition:
    """Return an operator with the dtype of its result as an argument, where it is another one than it is by itself.

    An expression that divides gets the dtype of its result if that is whole: such a quotient was rounded.
    """
    if len(operator.outputs) != 1 or operator.arguments.get(DTYPE) is not None:
        return operator
    noted = type_of(operator.outputs[0]).dtype
    if noted is None or noted == _own(operator, type_of):
        return operator
    return replace(operator, arguments={**operator.arguments, DTYPE: f"torch.{noted}"})


def _own(operator: OperatorDefinition, type_of: Callable[[str], BlobType]) -> str | None:
    """Return the dtype that an operator's result has by itself; for all that is not asked about, the noted one."""
    noted = type_of(operator.outputs[0]).dtype
    text = operator.arguments.get("expr")
    if isinstance(text, str):
        return None if _is_whole(noted) and _QUOTIENT.search(text) else noted
    if not operator.inputs or operator.type not in _WIDENED | _KEPT:
        return noted
    entering = type_of(operator.inputs[0]).dtype
    if entering is None:
        return noted
    return "int64" if operator.type in _WIDENED and (entering == "bool" or _is_whole(entering)) else entering


def _is_whole(dtype: str | None) -> bool:
    return dtype is not None and dtype.startswith(("int", "uint"))


_WINDOW = ("input", "kernel_size", "stride", "padding")
_SIGNATURES = {
    "aten::max_pool": (*_WINDOW, "dilation", "ceil_mode"),
    "aten::avg_pool": (*_WINDOW, "ceil_mode", "count_include_pad", "divisor_override"),
    "aten::adaptive_avg_pool": ("input", "output_size"),
}
"""type without its number of axes → torch's names of its operands"""
_NAMES = {f"{name}{axes}d": names for name, names in _SIGNATURES.items() for axes in (1, 2, 3)}


def with_positional_names(operator: OperatorDefinition, type_of: Callable[[str], BlobType]) -> OperatorDefinition:
    """Return an operator of level 0 with the names of its operands; any other, or one with too many, as it is."""
    names = _NAMES.get(operator.type, ())
    if operator.input_names or len(operator.inputs) > len(names):
        return operator
    return replace(operator, input_names=dict(zip(names, operator.inputs, strict=False)))
