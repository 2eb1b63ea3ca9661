"""Gradient operators, which are appended to a net to compute gradients of blobs (Caffe2: AddGradientOperators).

For each operator in reverse order, an operator of its gradient type is appended (operators/gradient_types.py), which
writes ``x_grad`` for an input ``x``. If several operators read a blob, a Sum adds the terms of its gradient; the second
and later terms are named ``_x_grad_autosplit_0``, …. Every gradient belongs to one version of a blob. A version that a
gradient operator reads must not be overwritten later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from explorer.core.argument_checks import check_type
from explorer.core.errors import OperandError, StateError, UnknownNameError
from explorer.core.ir.source_location import users_line
from explorer.net.definition.definition import NetDefinition
from explorer.net.definition.operator_definition import OperatorDefinition
from explorer.net.definition.ssa import history
from explorer.net.editor import free_name
from explorer.net.operators.gradient_types import (
    FORWARD_INPUTS,
    FORWARD_OUTPUTS,
    SUFFIX,
    WANTED,
    gradient_name,
    input_name,
    output_name,
)
from explorer.net.operators.table import OperatorTable


class GradientOperators:
    """Backward pass of a net: ``operators`` in order, and ``gradients``, which maps blobs to their gradient blobs.

    ``seeds`` contains the blobs to differentiate: a name, names, or a dict from names to gradient blobs. For a blob
    ``y`` without a gradient blob, ``y_autogen_grad`` is filled with ones. Raise StateError if an operator has no
    gradient, or if its gradient needs a version that was overwritten.
    """

    def __init__(
        self, definition: NetDefinition, table: OperatorTable, seeds: str | Iterable[str] | Mapping[str, str]
    ) -> None:
        self._definition, self._table = definition, table
        # Versions of a blob are in the order of writing, so the dict contains the last version.
        self._current = {blob.blob: name for name, blob in definition.blobs.items()}
        """blob → its version at the end of the net"""
        self._names = {operator.name for operator in definition.operators}
        self._tried: dict[str, int] = {}
        self._parts: dict[str, list[tuple[int, int]]] = {}
        """version → terms of its gradient, each given by a gradient operator and the index of an output"""
        self._gradient_blobs: dict[str, str] = {}
        """version → blob with its gradient"""
        self.operators: list[OperatorDefinition] = []
        self.gradients: dict[str, str] = {}
        names = (seeds,) if isinstance(seeds, str) else seeds or ()
        check_type(names, "outputs", Iterable, "a blob's name, or names", 'net.add_gradient_operators("loss")')
        self._seed(dict(names) if isinstance(names, Mapping) else dict.fromkeys(names, ""))
        for written, operator in zip(reversed(definition.operators), reversed(definition.ssa.operators), strict=True):
            self._add_gradient(written, operator)
        # No operator requests the gradients of the net's inputs, so their terms are added at the end.
        for version in [*self._parts]:
            self._gradient(version)

    def _seed(self, seeds: Mapping[str, str]) -> None:
        """Set the gradients of the blobs to differentiate to the given blobs, or to ones."""
        if not seeds:
            raise OperandError(
                "gradients of no blob",
                rule="at least one blob must be named, such as a loss",
                fix='net.add_gradient_operators(["loss"])',
            )
        blobs = self._definition.blobs
        known = {blob.blob for blob in blobs.values()}
        for blob, gradient in seeds.items():
            for name in (blob, gradient) if gradient else (blob,):
                if name not in known:
                    raise UnknownNameError(name, kind=f"blob of net {self._definition.name!r}", known=known)
            if not gradient:
                gradient = f"{blob}_autogen_grad"
                self._refuse_taken(gradient)
                self._add("ConstantFill", (blob,), (gradient,), {"value": 1.0, "dtype": "like"})
            self._gradient_blobs[self._current[blob]] = gradient

    def _add_gradient(self, written: OperatorDefinition, operator: OperatorDefinition) -> None:
        """Append the gradient operator of ``operator`` if one of its outputs has a gradient."""
        reached = [at for at, version in enumerate(operator.outputs) if self._gradient(version)]
        schema = self._table.schema(written.type)
        if not reached or (schema is not None and schema.gradient == "none"):
            return
        if schema is None or schema.gradient != "own" or written.type + SUFFIX not in self._table:
            refused = schema is not None and schema.gradient == "refused"
            raise StateError(
                f"the gradient of operator {written.name!r} ({written.type})",
                rule=f"{written.type} {'must not be differentiated' if refused else 'has no gradient yet'}",
                fix="put a StopGradient before it, or leave it out of the loss",
            )
        # Inputs like indices and labels never have a gradient.
        wanted = [at for at in range(len(operator.inputs)) if at not in schema.no_gradient]
        if not wanted:
            return
        passed: dict[str, str] = {}
        for at, (blob, version) in enumerate(zip(written.inputs, operator.inputs, strict=True)):
            # A gradient operator is at the end of the net, where a name means the last version of the blob.
            if self._current[_base(blob)] == version:
                passed[input_name(at)] = _base(blob)
            elif not (schema.may_be_overwritten(at) and version not in operator.outputs and _over(written, at)):
                raise self._overwritten(written, blob, version)
        for at, (blob, version) in enumerate(zip(written.outputs, operator.outputs, strict=True)):
            if self._current[blob] == version:
                passed[output_name(at)] = blob
            elif schema.by_output is True and len(passed) < len(operator.inputs):
                raise self._overwritten(written, blob, version)
            if at in reached:
                passed[gradient_name(at)] = self._gradient(version)
        arguments = {
            **written.arguments,
            FORWARD_INPUTS: len(operator.inputs),
            FORWARD_OUTPUTS: len(operator.outputs),
            WANTED: tuple(wanted),
        }
        outputs = tuple(f"{_base(written.inputs[at])}_grad" for at in wanted)
        for gradient in outputs:
            self._refuse_taken(gradient)
        self._add(
            written.type + SUFFIX, tuple(dict.fromkeys(passed.values())), outputs, arguments, passed, written.name
        )
        for position, at in enumerate(wanted):
            self._parts.setdefault(operator.inputs[at], []).append((len(self.operators) - 1, position))

    def _gradient(self, version: str) -> str:
        """Return the gradient blob of a version, or "" if there is none; if it has several terms, append their Sum."""
        parts = self._parts.pop(version, [])
        blob = self._definition.blobs[version].blob
        names = [self._gradient_blobs[version]] if version in self._gradient_blobs else []
        split = 0
        for number, (index, position) in enumerate(parts):
            operator = self.operators[index]
            name = operator.outputs[position]
            # The first, and often only, term has the name without a number.
            if number:
                name = f"_{name}_autosplit_{split}"
                split += 1
                outputs = (*operator.outputs[:position], name, *operator.outputs[position + 1 :])
                self.operators[index] = replace(operator, outputs=outputs)
            names.append(name)
        if len(names) > 1:
            joined = f"{blob}_grad"
            # An in-place Sum must overwrite its first operand.
            names.sort(key=lambda name: name != joined)
            self._add("Sum", tuple(names), (joined,), {})
            names = [joined]
        if names:
            self._gradient_blobs[version] = self.gradients[blob] = names[0]
        return names[0] if names else ""

    def _add(
        self,
        type: str,
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        arguments: Mapping[str, object],
        passed: Mapping[str, str] | None = None,
        forward: str = "",
    ) -> None:
        wanted = f"{forward}_gradient" if forward else outputs[0]
        name = free_name(wanted, self._names.__contains__, self._tried)
        self._names.add(name)
        location = users_line()
        self.operators.append(
            OperatorDefinition(
                type,
                name,
                inputs,
                outputs,
                dict(arguments),  # type: ignore[arg-type]  # plain values of the forward operator
                input_names=dict(passed or {}),
                line=location.line,
                text=location.text,
                file=location.where,
            )
        )

    def _refuse_taken(self, blob: str) -> None:
        if blob in self._current:
            raise OperandError(
                f"a blob {blob!r} in net {self._definition.name!r}",
                rule="names of gradients, which end in _grad, must be unused",
                fix=f"net.rename_blob({blob!r}, …)",
            )

    def _overwritten(self, operator: OperatorDefinition, blob: str, version: str) -> StateError:
        base = self._definition.blobs[version].blob
        versions = [entry for entry in self._definition.blobs.values() if entry.blob == base]
        return StateError(
            f"the gradient of operator {operator.name!r} ({operator.type}) needs {version}, which is overwritten by"
            f" then\n    {history(versions)}",
            rule="a version that a gradient needs must not be overwritten",
            fix=f"give the operator that overwrites {_base(blob)!r} a separate output",
        )


def _base(blob: str) -> str:
    return blob.rpartition("@")[0] if "@" in blob else blob


def _over(operator: OperatorDefinition, at: int) -> bool:
    """Return whether the output ``at`` of an operator overwrites one of its inputs."""
    return operator.inputs[at] in operator.outputs
