"""Parser of ``pnnx.Expression``: calls of known functions on operands ``@n``, literals and lists.

pnnx writes some expressions with misplaced brackets, such as ``add(add(@1,log10(@0)),log1p),@0)``, but always in prefix
order. An expression that cannot be parsed as nested calls is therefore parsed as prefix notation, ignoring round
brackets and commas. No parser generator supports this fallback, and Python's recursive ``ast`` fails for expressions
nested 100,000 levels deep.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal as OneOf

from explorer.core.errors import ExplorerError, UnknownNameError
from explorer.formats.pnnx.expression_tree import ARITY, CONSTANTS, Call, ListOf, Literal, Node, Operand
from explorer.formats.pnnx.param_values import GrammarError, read_number, read_string, shorten
from explorer.record.reasons import counted_text

_TOKEN = re.compile(r"\s*([(),\[\]]|[^\s(),\[\]]+)")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_FIX = "correct the expression in its file, or export the model again"
_OPERAND = re.compile(r"@([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class Parsed:
    """Syntax tree, and the notation in which the expression was read: "prefix" if brackets were misplaced."""

    tree: Node
    form: OneOf["nested", "prefix"]


class ExpressionError(ExplorerError, ValueError):
    """Syntax error in an expression. ``column`` counts from 1."""

    def __init__(self, text: str, column: int, problem: str, *, rule: str, fix: str = _FIX) -> None:
        self.text, self.column = text, column
        near = shorten(text[max(column - 20, 0) : column + 40], 60)
        where = f"expression {shorten(text, 120)}, column {column}" + (f" (near {near})" if len(text) > 120 else "")
        super().__init__(f"{where}: {problem}", rule=rule, fix=fix)


class UnknownFunctionError(ExpressionError):
    """Call of an unknown function; in prefix notation, its name would be read as a string."""


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    column: int


@dataclass(slots=True)
class _Frame:
    """Unclosed call or list. ``token`` is the function name or "["."""

    token: _Token
    members: list[Node] = field(default_factory=list)

    @property
    def is_list(self) -> bool:
        return self.token.text == "["

    def close(self) -> Node:
        return ListOf(tuple(self.members)) if self.is_list else Call(self.token.text, tuple(self.members))


def parse(text: str, operands: int | None = None) -> Parsed:
    """Parse an expression and return its syntax tree.

    ``operands`` is the number of inputs of the operator, or None if it is not known. Raise ExpressionError with the
    expression, the column and the rule. For an unknown function, the error also suggests a name.
    """
    tokens = _tokens(text)
    parsed: Parsed
    try:
        parsed = Parsed(_parse_nested(text, tokens), "nested")
    except UnknownFunctionError:
        raise
    except ExpressionError as nested:
        try:
            parsed = Parsed(_parse_prefix(text, tokens), "prefix")
        except ExpressionError as prefix:
            nested.add_note(f"read as prefix notation: {prefix.given}")
            raise nested from None
    for token in tokens if operands is not None else ():
        operand = _OPERAND.fullmatch(token.text)
        if operand and operands is not None and int(operand[1]) >= operands:
            raise ExpressionError(
                text,
                token.column,
                f"{token.text} of {counted_text(operands, 'input')}",
                rule="@n must be an input, counted from 0",
            )
    return parsed


def _tokens(text: str) -> list[_Token]:
    tokens, start = [], 0
    end = len(text.rstrip().removesuffix(";").rstrip())
    while start < end:
        token = _TOKEN.match(text, start)
        assert token is not None
        tokens.append(_Token(token[1], token.start(1) + 1))
        start = token.end()
    return tokens


def _leaf(text: str, token: _Token) -> Node:
    word = token.text
    if word[0] == "@":
        operand = _OPERAND.fullmatch(word)
        if operand is None:
            raise ExpressionError(
                text, token.column, f"the operand {shorten(word)}", rule="an operand must be written @n"
            )
        return Operand(int(operand[1]))
    if word in CONSTANTS:
        return Literal(CONSTANTS[word])
    try:
        number = read_number(word)
    except GrammarError as error:
        raise ExpressionError(text, token.column, error.given, rule=error.rule) from None
    return Literal(read_string(word) if number is None else number)


def _parse_nested(text: str, tokens: list[_Token]) -> Node:
    """Parse the tokens as nested calls."""
    frames: list[_Frame] = []
    value: Node | None = None
    index = 0
    while index < len(tokens):
        token = tokens[index]
        following = tokens[index + 1].text if index + 1 < len(tokens) else ""
        index += 1
        if token.text in (",", ")", "]"):
            closes = bool(frames) and token.text == ("]" if frames[-1].is_list else ")")
            # index already points to the next token
            empty_list = token.text == "]" and tokens[index - 2].text == "["
            if not frames or not (closes or token.text == ",") or (value is None and not empty_list):
                raise ExpressionError(
                    text,
                    token.column,
                    f"{token.text!r}",
                    rule="brackets must be balanced, and commas must be between values",
                )
            if value is not None:
                frames[-1].members.append(value)
            value = None
            if closes:
                frame = frames.pop()
                _check_arity(text, frame)
                value = frame.close()
        elif value is not None:
            raise ExpressionError(
                text,
                token.column,
                f"{shorten(token.text)} after a complete value",
                rule="an expression must be a single value",
            )
        elif token.text == "[":
            frames.append(_Frame(token))
        elif following == "(" and token.text != "(":
            if token.text not in ARITY:
                unknown = UnknownNameError(token.text, kind="function", known=ARITY)
                raise UnknownFunctionError(text, token.column, unknown.given, rule=unknown.rule)
            frames.append(_Frame(token))
            index += 1
        elif token.text == "(" or token.text in ARITY:
            raise ExpressionError(
                text, token.column, f"{shorten(token.text)}", rule="a function's name must be followed by its bracket"
            )
        else:
            value = _leaf(text, token)
    if value is None or frames:
        opened = frames[-1].token if frames else None
        missing = f"{shorten(opened.text)} of column {opened.column} is not closed" if opened else "nothing"
        raise ExpressionError(
            text, len(text) + 1, missing, rule="an expression must be a single value with all brackets closed"
        )
    return value


def _check_arity(text: str, frame: _Frame) -> None:
    if frame.is_list:
        return
    minimum, maximum = ARITY[frame.token.text]
    if not minimum <= len(frame.members) <= maximum:
        counts = counted_text(minimum, "argument") if minimum == maximum else f"{minimum} or {maximum} arguments"
        raise ExpressionError(
            text,
            frame.token.column,
            f"{frame.token.text} of {counted_text(len(frame.members), 'argument')}",
            rule=f"{frame.token.text} must have {counts}",
        )


def _parse_prefix(text: str, tokens: list[_Token]) -> Node:
    """Parse the tokens in prefix order, ignoring brackets and commas."""
    kept = [token for token in tokens if token.text not in ("(", ")", ",")]
    frames: list[_Frame] = []
    for index, token in enumerate(kept):
        value: Node
        if token.text == "[" or token.text in ARITY:
            frames.append(_Frame(token))
            continue
        if token.text == "]":
            if not frames or not frames[-1].is_list:
                raise ExpressionError(
                    text, token.column, "']'", rule="a list must not be closed before its last value is complete"
                )
            value = frames.pop().close()
        else:
            value = _leaf(text, token)
        following = kept[index + 1] if index + 1 < len(kept) else None
        while frames and not frames[-1].is_list:
            frame = frames[-1]
            frame.members.append(value)
            minimum, maximum = ARITY[frame.token.text]
            # Only ``size`` has an optional argument. Prefix notation does not show whether it is present, so an integer
            # that follows is assumed to be the argument.
            takes_more = len(frame.members) < maximum and following is not None and _INTEGER.fullmatch(following.text)
            if len(frame.members) < minimum or takes_more:
                break
            value = frames.pop().close()
        else:
            if frames:
                frames[-1].members.append(value)
            elif following is not None:
                raise ExpressionError(
                    text,
                    following.column,
                    f"{shorten(following.text)} is left over",
                    rule="an expression must end when all functions have their arguments",
                )
            else:
                return value
    missing = f"{shorten(frames[-1].token.text)} lacks arguments" if frames else "nothing"
    raise ExpressionError(text, len(text) + 1, missing, rule="every function must have all its arguments")
