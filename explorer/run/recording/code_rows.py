"""C code of compiled kernels, with the names of the program's variables and its line numbers."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Call
from explorer.plan.codegen.generate import kernel_code
from explorer.plan.codegen.kernel_code import KernelCode, KernelSpec, Naming, StepFunction, StepsCode, renamed
from explorer.plan.codegen.steps import steps_code
from explorer.plan.graph.constancy import constants_of
from explorer.plan.options import Options
from explorer.plan.planner import Plan, plan_closed
from explorer.plan.schedule.schedule import Kernel
from explorer.record import Code, Recording, Source
from explorer.record.escape import visible

_LABELS = Naming(lambda node: node.label)
_WIDEST = 100
"""maximum number of characters of a source line in a comment"""


def codes(planned: Plan, recording: Recording, ids: Mapping[int, int]) -> dict[int, Code]:
    """Return kernel → code for the kernels that have code; ``ids`` maps uids to node ids.

    The code that is compiled is the same without comments, and with names of operations instead of names from the
    program. The code of a call consists of the kernels of its bodies, whose nodes are not in the recording.
    """

    def name_of(node: Expr) -> str:
        node_id = ids.get(node.uid)
        return node.label if node_id is None else recording.variables.get(node_id) or recording.nodes.label[node_id]

    def source_of(node: Expr) -> Source | None:
        row = recording.nodes.source[ids[node.uid]] if node.uid in ids else -1
        return None if row < 0 else recording.sources[row]

    def naming(nodes: Iterable[Expr]) -> Naming:
        sources = {node.uid: source_of(node) for node in nodes}
        is_one_file = len({source.where for source in sources.values() if source is not None}) == 1
        origins = {
            uid: _origin(source, source.short_location if is_one_file else source.location)
            for uid, source in sources.items()
            if source is not None
        }
        return Naming(name_of, origins)

    rows: dict[int, Code] = {}
    channels_last = _channels_last(planned)
    for index, kernel in enumerate(planned.schedule.kernels):
        operation = kernel.result.operation
        if kernel.code is not None:
            code = _named(kernel, planned, channels_last, naming(kernel.nodes))
            rows[index] = Code("C", code.text, tuple([(line, ids[node.uid]) for line, node in code.lines]))
        elif kernel.steps is not None:
            body = kernel.steps.body
            rows[index] = _joined(_named_steps(kernel.steps, naming([*body.nodes, *body.outputs])).functions, ids)
        elif isinstance(operation, Call) and (text := _code_of_bodies(operation, planned.options)):
            rows[index] = Code("C", text)
    return rows


def _named_steps(steps: StepsCode, naming: Naming) -> StepsCode:
    """Return the functions of a scan with other names of values, and with comments."""
    names = iter([function.name for function in steps.functions])
    code = steps_code(steps.body, "compute", naming)
    assert isinstance(code, StepsCode)
    parts = [renamed(part, next(names)) if isinstance(part, StepFunction) else part for part in code.parts]
    return replace(code, parts=tuple(parts))


def _joined(functions: Sequence[StepFunction], ids: Mapping[int, int]) -> Code:
    """Return the code of several functions, which are separated by empty lines."""
    lines: list[tuple[int, int]] = []
    first = 0
    for function in functions:
        lines += [(first + line, ids[node.uid]) for line, node in function.lines if node.uid in ids]
        first += function.text.count("\n") + 1
    return Code("C", "\n".join([function.text for function in functions]), tuple(lines))


def _origin(source: Source, location: str) -> str:
    """Return the location and the source line of a node as one line."""
    line = " ".join(source.text.split())
    return f"{location}: {line if len(line) <= _WIDEST else line[:_WIDEST] + '…'}" if line else location


def _channels_last(planned: Plan) -> set[int]:
    """Return the uids of images that are stored with channels last."""
    return {kernel.result.uid for kernel in planned.schedule.kernels if kernel.channels_last}


def _named(kernel: Kernel, planned: Plan, channels_last: Container[int], naming: Naming) -> KernelCode:
    """Return the code of a kernel with other names of values, and with comments."""
    assert kernel.code is not None
    inputs = planned.graph.inputs
    operands = lambda node: inputs[node.uid]  # noqa: E731
    constants = constants_of(kernel, planned.graph)
    named = KernelSpec(kernel.nodes, operands, kernel.code.name, kernel.order, channels_last, constants, *naming)
    code = kernel_code(named)
    assert isinstance(code, KernelCode)
    return code


def _code_of_bodies(call: Call, options: Options) -> str:
    """Return the code of the kernels in the bodies of a call, and in bodies that are called there."""
    texts: list[str] = []
    pending = [*call.planned_bodies]
    seen = {id(body) for body in pending}
    for body in pending:
        planned, _ = plan_closed(body, options)
        channels_last = _channels_last(planned)
        for kernel in planned.schedule.kernels:
            operation = kernel.result.operation
            if kernel.code is not None:
                text = _named(kernel, planned, channels_last, _LABELS).text
                texts.append(f"// in the body {visible(body.name)}\n{text}")
            elif kernel.steps is not None:
                functions = _named_steps(kernel.steps, _LABELS).functions
                texts += [f"// in the body {visible(body.name)}\n{function.text}" for function in functions]
            elif isinstance(operation, Call):
                called = [each for each in operation.planned_bodies if id(each) not in seen]
                seen.update(map(id, called))
                pending += called
    return "\n".join(texts)
