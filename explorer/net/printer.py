"""Programs by names as text: what each operator reads and writes, with its arguments (Caffe2: net_printer).

One line an operator, in the order of the file, so that two versions of a model can be compared by ``diff``.
"""

from __future__ import annotations

from explorer.net.definition.definition import NetDefinition
from explorer.net.definition.operator_definition import OperatorDefinition
from explorer.net.definition.shape_notes import shape_text
from explorer.record.escape import visible

_SHOWN = 60
"""most characters of one argument"""


def net_text(definition: NetDefinition) -> str:
    """Return a definition as text, one line an operator; text of a file is made visible."""
    lines = [f"net {definition.name}"]
    for name in definition.inputs:
        blob = definition.input(name)
        lines.append(f"  input {name}: {shape_text(blob.shape)} {blob.dtype or ''}".rstrip())
    shown = _stored if definition.is_table else _operator
    lines += [f"  {shown(operator)}" for operator in definition.operators]
    if definition.outputs:
        lines.append(f"  output {', '.join(definition.outputs)}")
    return "\n".join([visible(line) for line in lines])


def _operator(operator: OperatorDefinition) -> str:
    passed = {blob: name for name, blob in operator.input_names.items()}
    reads = [f"{passed[blob]}={blob}" if blob in passed else blob for blob in operator.inputs]
    arguments = [f"{name}={_short(repr(value))}" for name, value in operator.arguments.items()]
    arguments += [f"{name}: {weight.dtype} {weight.shape}" for name, weight in operator.weights.items()]
    written = f"{', '.join(operator.outputs)} = " if operator.outputs else ""
    return f"{written}{operator.type}({', '.join([*reads, *arguments])})  # {operator.name}"


def _stored(operator: OperatorDefinition) -> str:
    """Return the line of stored tensors with the types that the file states."""
    return operator.text or _operator(operator)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
