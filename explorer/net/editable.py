"""Editable nets: programs by names; every edit makes a new, complete, checked definition.

Write one from nothing, in explorer's own operator types, or edit what a file gave::

    net = ex.Net("mlp")
    net.input("x", (None, 4))
    net.GivenTensorFill([], "w", values=w)
    net.Relu(net.FC(["x", "w"], "h"), "h")      # in place: h is written twice
    net.output(net.Softmax("h", "y"))

    net = ex.open("model.pnnx.param")
    net.replace("relu1", "nn.Sigmoid")
    net.insert("nn.ReLU6", "5")                 # between blob 5 and its readers
    net.remove("softmax", instead={"15": "14"})
    net.save("edited.pnnx.param")
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from explorer.core.argument_checks import named_methods
from explorer.core.errors import OperandError, UnknownNameError
from explorer.net.building.builder import NetBuilder
from explorer.net.building.weights import NetWeights, joined
from explorer.net.definition import edits
from explorer.net.definition.definition import BlobType, Dimension, NetDefinition
from explorer.net.definition.operator_definition import memory_dtype
from explorer.net.gradients import GradientOperators
from explorer.net.operator_call import Draft, Names, OperatorCall, WrittenOperator, names_of, own_name_of, write
from explorer.net.operators.caffe2 import TABLE
from explorer.net.operators.table import OperatorTable

_FILES = (".param", ".bin", ".onnx", ".json")
"""endings of model files"""


@named_methods
class EditableNet:
    """Net that can be edited: a definition with the table of its operator types and its weights.

    ``net.Relu("x", "y")``, for each operator type that is an identifier, adds an operator; ``net.add`` accepts all
    types.
    """

    table: OperatorTable

    def __init__(self, definition: NetDefinition | str, table: OperatorTable | None = None) -> None:
        if isinstance(table, (str, os.PathLike)) or (
            isinstance(definition, (str, os.PathLike)) and os.fspath(definition).endswith(_FILES)
        ):
            weights = f", weights={os.fspath(table)!r}" if isinstance(table, (str, os.PathLike)) else ""
            raise OperandError(
                f"a net of the file {str(definition)!r}",
                rule="the argument must be the name of a new net; files are opened with ex.open",
                fix=f"ex.open({str(definition)!r}{weights})",
            )
        if isinstance(definition, str):
            table = TABLE if table is None else table
            definition = NetDefinition.of(definition, [], [], [], dialect=table.format, rewrites=table.rewrites)
        if table is None and definition.dialect == TABLE.format:
            table = TABLE
        if table is None or definition.dialect not in ("", table.format):
            raise OperandError(
                f"net {definition.name!r} of the dialect {definition.dialect!r} with "
                f"{f'the table of {table.format!r}' if table else 'no table'}",
                rule="the table must be that of the definition's dialect",
                fix="pass the table of its format: Net(definition, table)",
            )
        self.table = table
        self._edits = 0
        self._draft: Draft | None = None
        self._definition = definition if definition.dialect else replace(definition, dialect=table.format)
        self._weights = NetWeights(self._definition)
        self._cached_builder: NetBuilder | None = None

    @property
    def definition(self) -> NetDefinition:
        """The current program; edits make new definitions and do not change this one."""
        if self._draft is not None:
            # Operators that were added one by one are checked together now: checking the whole net after each would
            # take quadratic time.
            draft, self._draft = self._draft, None
            self._adopt(draft.definition(), {})
        return self._definition

    @property
    def weights(self) -> NetWeights:
        """The weights of all operators."""
        self.definition  # noqa: B018  (what was added has weights too)
        return self._weights

    @property
    def _builder(self) -> NetBuilder:
        definition = self.definition
        if self._cached_builder is None:
            self._cached_builder = NetBuilder(definition, self.table, self._weights)
        return self._cached_builder

    def _adopt(self, definition: NetDefinition, renamed: Mapping[str, str]) -> None:
        # Weights are found by operator and attribute: those of a renamed operator follow it, replaced arrays among
        # them.
        self._weights = self._weights.followed(definition, renamed)
        self._definition = definition
        self._cached_builder = None
        self._edits += 1

    # -- writing ---------------------------------------------------------------------------------------------------

    def types(self) -> list[str]:
        """Return the known operator types, sorted; ``help(net.FC)`` shows the arguments of one."""
        return self.table.types()

    def __getattr__(self, name: str) -> OperatorCall:
        # Not self.table: before __init__ has set it, that would call this method again.
        table = None if name.startswith("_") else self.__dict__.get("table")
        if table is not None and name in table:
            return OperatorCall(name, table, self.add)
        near = difflib.get_close_matches(name, dir(self) if table else [], n=4)
        hint = f"; near names: {', '.join(near)}" if near else ""
        if name in ("to", "cuda", "cpu"):
            hint = ": use net.to_device('cuda')"
        raise AttributeError(f"a net has no attribute and no operator type {name!r}{hint}", name=name, obj=self)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name for name in self.table.types() if name.isidentifier())]

    def input(self, name: str, shape: Sequence[Dimension] | None = None, dtype: Any = "float32") -> str:
        """Add an input; in ``shape`` None or a name is an unknown length. Returns its name."""
        definition = self.definition
        try:
            held = memory_dtype(np.dtype(dtype).name)
        except TypeError:
            raise OperandError(
                f"input({name!r}, …, dtype={dtype!r})",
                rule="the dtype must be the name of one of booleans or numbers",
                fix=f'net.input({name!r}, …, "float32")',
            ) from None
        type = BlobType(None if shape is None else tuple(shape), held.name)
        self._adopt(edits.changed(definition, inputs=[*definition.inputs, name], types={name: type}), {})
        return name

    def output(self, *names: str) -> None:
        """Make these blobs outputs, too, in their final versions."""
        definition = self.definition
        self._adopt(edits.changed(definition, outputs=[*definition.outputs, *names]), {})

    def set_inputs(self, names: Sequence[str]) -> None:
        """Select these inputs, in this order, and remove the others."""
        for name in names:
            if name not in self.definition.inputs:
                raise UnknownNameError(
                    name, kind="input of the net", known=self.definition.inputs, fix=f"net.input({name!r}, shape)"
                )
        self._adopt(edits.changed(self.definition, inputs=names), {})

    def set_outputs(self, names: Sequence[str]) -> None:
        """Make these blobs the outputs, in this order, and no others."""
        self._adopt(edits.changed(self.definition, outputs=names_of(names, "outputs")), {})

    def add(
        self,
        type: str,
        inputs: Names = (),
        outputs: Names | None = None,
        *,
        name: str | None = None,
        before: str | None = None,
        after: str | None = None,
        weights: Mapping[str, Any] | None = None,
        doc: str = "",
        **arguments: Any,
    ) -> Any:
        """Add an operator, at the end or next to another one; return the name of its output, or names of its outputs.

        Unnamed outputs get names; ``weights`` are arrays. Raises an error, and adds nothing, for an unknown type, for
        arguments that its schema rejects, and for missing blobs.
        """
        draft = self._draft or Draft(self.definition)
        written = self._write(draft, type, names_of(inputs, "inputs"), outputs, name, weights, doc, arguments)
        # The usual way to write a net: nothing is rebuilt until somebody looks.
        if before is None and after is None:
            draft.add(written)
            self._draft = draft
        else:
            definition = self.definition
            place = edits.position(definition, before, after)
            self._adopt(edits.insert(definition, written.operator, place, self._with(written)), {})
        return _alone(written.operator.outputs)

    def _write(
        self,
        draft: Draft,
        type: str,
        inputs: tuple[str, ...],
        outputs: Names | None,
        name: str | None,
        weights: Mapping[str, Any] | None,
        doc: str,
        arguments: Mapping[str, Any],
    ) -> WrittenOperator:
        own = draft.free_operator(own_name_of(type)) if name is None else name
        writes = self._output_names(type, own, draft) if outputs is None else names_of(outputs, "outputs")
        return write(self.table, type, own, inputs, writes, arguments, weights or {}, draft.has_key, doc)

    def _output_names(self, type: str, name: str, draft: Draft) -> tuple[str, ...]:
        schema = self.table.schema(type)
        number = schema.outputs.least if schema is not None else 1
        if number == 1:
            return (draft.free_blob(name),)
        return tuple(draft.free_blob(f"{name}_{index}") for index in range(number))

    def _with(self, written: WrittenOperator) -> Any:
        return joined(self._definition.weights, written.arrays)

    def add_gradient_operators(self, outputs: str | Iterable[str] | Mapping[str, str]) -> dict[str, str]:
        """Append the operators that compute gradients of blobs, of a loss, say; return blob → its gradient's blob.

        ``outputs`` are a name or names, or map names to the blobs that hold their gradients. A gradient of ``x`` is
        ``x_grad``. Raises StateError, and adds nothing, where an operator has none or needs a version that is
        overwritten.
        """
        definition = self.definition
        added = GradientOperators(definition, self.table, outputs)
        self._adopt(edits.changed(definition, operators=[*definition.operators, *added.operators]), {})
        return added.gradients

    # -- editing ---------------------------------------------------------------------------------------------------

    def insert(
        self,
        type: str,
        blob: str,
        *,
        others: Names = (),
        output: str | None = None,
        readers: Sequence[str] | None = None,
        name: str | None = None,
        weights: Mapping[str, Any] | None = None,
        doc: str = "",
        **arguments: Any,
    ) -> str:
        """Put an operator between a blob and its readers (None: all, and the net's outputs); return its output.

        It reads the blob, then the ``others``, and follows the blob's producer directly.
        """
        definition = self.definition
        reads = (definition.blob(blob).blob, *names_of(others, "others"))
        # A draft for its names alone: it knows which are taken.
        written = self._write(Draft(definition), type, reads, output, name, weights, doc, arguments)
        self._adopt(edits.splice(definition, written.operator, blob, readers, self._with(written)), {})
        return written.operator.outputs[0]

    def remove(self, operator: str, *, instead: Mapping[str, str] | None = None) -> None:
        """Remove an operator; ``instead`` maps its outputs to their substitutes, if they are read."""
        self._adopt(edits.remove(self.definition, operator, instead), {})

    def replace(
        self, operator: str, type: str, *, weights: Mapping[str, Any] | None = None, doc: str = "", **arguments: Any
    ) -> None:
        """Replace an operator's type: name, inputs and outputs are kept, arguments and weights are not."""
        definition = self.definition
        old = definition.operator(operator)
        written = write(
            self.table,
            type,
            operator,
            old.inputs,
            old.outputs,
            arguments,
            weights or {},
            Draft(definition).has_key,
            doc,
        )
        replacement = replace(written.operator, boxes=old.boxes)
        self._adopt(edits.put(definition, replacement, self._with(written)), {})

    def rewire(self, blob: str, to: str, *, readers: Sequence[str] | None = None) -> None:
        """Make the readers of a blob (None: all, and the net's outputs) read another one."""
        self._adopt(edits.rewire(self.definition, blob, to, readers), {})

    def rename(self, operator: str, name: str) -> None:
        """Rename an operator."""
        self._adopt(edits.rename_operator(self.definition, operator, name), {name: operator})

    def rename_blob(self, blob: str, name: str) -> None:
        """Rename a blob."""
        self._adopt(edits.rename_blob(self.definition, blob, name), {})

    def prune(self) -> list[str]:
        """Remove all operators that no output needs; return their names."""
        before = self.definition
        after = edits.prune(before)
        kept = {operator.name for operator in after.operators}
        self._adopt(after, {})
        return [operator.name for operator in before.operators if operator.name not in kept]


def _alone(names: tuple[str, ...]) -> Any:
    return names[0] if len(names) == 1 else names
