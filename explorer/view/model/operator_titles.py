"""Titles of a model file's operators, which are the same for a box and for a single node.

The title is the name that the author gave, and the type is below. A name that an exporter generated is below the type.
The words are the file's, also where explorer records an operator as an operation with another name: ``Mul``, not
``multiply``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from explorer.record import Recording
from explorer.view.tree.box_tree import Tree, scope_name
from explorer.view.tree.slots import Slots

_GENERATED = re.compile(r"node_.+|n\d+|val_\d+|pnnx_[a-z]+_\d+")
"""names that torch.onnx, skl2onnx and pnnx generate"""
_TYPE = re.compile(r"(?:\w+[.:]+)*(\w+)")


class OperatorTitle(NamedTuple):
    """Title of an operator of a file, and the text that is below it."""

    title: str
    note: str
    """type of an operator with an author's name, else the generated name; "" if the title states it"""
    type: str
    """type without a module path, ``Conv2d``; the name of the operation for an expression"""


def is_generated(name: str, type_: str) -> bool:
    """Return whether an exporter generated an operator's name, such as ``node_Conv_3``, ``val_7`` or ``Conv_3``.

    ``Split_6:0``, the name of its first result, is generated, too.

    >>> from explorer.view.model.operator_titles import is_generated
    >>> is_generated("node_Conv_3", "Conv"), is_generated("split_6:0", "Split"), is_generated("conv1", "Conv")
    (True, True, False)
    """
    type_of_name, separator, number = name.removesuffix(":0").rpartition("_")
    is_numbered = separator and number.isdecimal() and type_of_name.lower() == type_.lower()
    return bool(is_numbered) or _GENERATED.fullmatch(name) is not None


def type_word(type_: str) -> str:
    """Return an operator's type without its module path; "" for a type that is an expression, ``add(@0,@1)``.

    >>> from explorer.view.model.operator_titles import type_word
    >>> type_word("nn.Conv2d"), type_word("com.microsoft::Gelu"), type_word("add(@0,@1)")
    ('Conv2d', 'Gelu', '')
    """
    found = _TYPE.fullmatch(type_)
    return found[1] if found else ""


def single_operators(recording: Recording, slots: Slots, tree: Tree) -> Mapping[int, OperatorTitle]:
    """Map each node that alone represents an operator of a file, without a box, to the operator's title."""
    nodes, scopes = recording.nodes, recording.scopes
    titles: dict[int, OperatorTitle] = {}
    for node, row in enumerate(nodes.scope):
        scope = scopes[row]
        if (
            nodes.born[node] >= 0
            or nodes.kind[node] not in ("operation", "call")
            or scope.kind != "file"
            or not scope.type
        ):
            continue
        if tree.boxes[tree.box_of[slots.of[node]]].scope != row:
            titles[node] = operator_title(scope_name(recording, row), scope.type, nodes.label[node])
    return titles


def operator_title(label: str, type_: str, operation: str) -> OperatorTitle:
    """Return the title of an operator whose name, with the boxes around it that hold nothing else, is ``label``.

    An expression, ``add(@0,@1)``, is not the name of a type, so that a generated name is replaced by ``operation``.

    >>> from explorer.view.model.operator_titles import operator_title
    >>> operator_title("head / node_linear_12", "Gemm", "matmul").title, operator_title("fc", "Gemm", "matmul").note
    ('head / Gemm', 'Gemm')
    """
    scope, separator, name = label.rpartition(" / ")
    word = type_word(type_)
    if operation.startswith(f"{type_} ("):  # an operator that cannot run, which its name must not hide
        return OperatorTitle(operation, name, operation)
    if is_generated(name, type_):
        return OperatorTitle(
            scope + separator + (type_ if word else operation), name if word else "", word or operation
        )
    return OperatorTitle(label, "" if word.lower() == name.lower() else type_, word or operation)
