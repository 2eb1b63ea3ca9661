"""Workspaces: named blobs, and the nets that read and write them (Caffe2: Workspace).

Blobs keep their values after a run and pass them between nets. For example, one net initializes parameters, and another
net reads them at each step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, ClassVar, TypeAlias

import numpy as np

from explorer.core.argument_checks import check_type, named_methods
from explorer.core.errors import ExplorerError, OperandError, StateError, UnknownNameError
from explorer.core.ir.tensor import Tensor, tensor
from explorer.core.types.device import Device, as_device, cpu
from explorer.net.blob import Blob
from explorer.net.blob_operator import BLOB_OPERATORS, BlobOperator
from explorer.net.definition.definition import NetDefinition, OperatorDefinition
from explorer.net.definition.edits import changed
from explorer.net.definition.operator_definition import graph_error
from explorer.net.net import Net
from explorer.record.reasons import counted_text


@named_methods
class Workspace:
    """Named blobs and nets; a net reads its inputs from the blobs, and stores its results in blobs on its device.

    A net with outputs stores its outputs and the inputs that it overwrites. A net without outputs stores every blob
    that it writes. Later runs reuse the plan of the first run. Operators on blobs of any type (``ex.blob_operator``)
    run separately, in order, between the planned parts of the net. If such an operator fails, earlier results are kept.

    >>> workspace = ex.Workspace()
    >>> workspace.feed_blob("x", [1.0, -2.0])
    >>> net = ex.Net("positive")
    >>> net.input("x", (2,), "float64")
    'x'
    >>> net.Relu("x", "y")
    'y'
    >>> workspace.run_net_once(net)
    >>> workspace.fetch_blob("y")
    array([1., 0.])
    """

    _current: ClassVar[Workspace | None] = None
    _named: ClassVar[dict[str, Workspace]] = {}

    def __init__(self) -> None:
        self._blobs: dict[str, Blob] = {}
        self._nets: dict[str, Net | OrderedRun] = {}

    # -- blobs -----------------------------------------------------------------------------------------------------

    def create_blob(self, name: str) -> Blob:
        """Return the blob with this name; if it does not exist, create it empty."""
        check_type(name, "name", str, "a string", 'workspace.create_blob("x")')
        return self._blobs.setdefault(name, Blob(name))

    def feed_blob(self, name: str, value: Any, device: Device | str | None = None) -> None:
        """Set a blob; arrays, numbers and lists are stored as copied arrays, and other objects are stored unchanged.

        With ``device``, the array is copied to this device; a tensor stays on its device. Nets that read the blob run
        on its device.
        """
        if device is not None:
            value = tensor(value, device=as_device(device, f"feed_blob({name!r})"))
        if isinstance(value, Tensor) and value.device is cpu:
            value = value.array
        if isinstance(value, (np.ndarray, np.generic, bool, int, float, complex, list, tuple)):
            try:
                value = np.array(value)
            except ValueError as error:
                raise OperandError(
                    f"feed_blob({name!r}, …): {error}",
                    rule="a list must be convertible to a rectangular array",
                    fix="pad its rows to one length, or feed an object that contains them",
                ) from None
            # The workspace has its own copy, because changes to the caller's array would affect later runs.
            value.flags.writeable = False
        self.create_blob(name).reset(value)

    def fetch_blob(self, name: str) -> Any:
        """Return the value of a blob; an array is read-only, and is copied to cpu if it is on another device.

        Raise UnknownNameError for an unknown blob, and StateError for an empty blob.
        """
        value = self._filled(name).value()
        return value.array if isinstance(value, Tensor) else value

    def _filled(self, name: str) -> Blob:
        blob = self.blob(name)
        if blob.empty:
            raise StateError(
                f"the blob {name!r} is empty",
                rule="a blob must be fed, or written by a net, before it is fetched",
                fix=f"workspace.feed_blob({name!r}, array)",
            )
        return blob

    def blob(self, name: str) -> Blob:
        """Return a blob; raise UnknownNameError if there is none with this name."""
        if name not in self._blobs:
            raise UnknownNameError(
                name, kind="blob of the workspace", known=self._blobs, fix=f"workspace.feed_blob({name!r}, array)"
            )
        return self._blobs[name]

    def has_blob(self, name: str) -> bool:
        """Return whether there is a blob with this name."""
        return name in self._blobs

    def blobs(self) -> list[str]:
        """Return the names of all blobs, sorted."""
        return sorted(self._blobs)

    # -- nets ------------------------------------------------------------------------------------------------------

    def create_net(self, net: Net) -> None:
        """Add a net under its name; raise StateError if the name is taken or an input of the net has no blob."""
        if not isinstance(net, Net):
            raise OperandError(f"create_net({net!r})", rule="a net must be an ex.Net", fix='net = ex.Net("mlp")')
        if net.name in self._nets:
            raise StateError(
                f"a second net {net.name!r}",
                rule="each net of a workspace must have a unique name",
                fix="give it another name, or reset() the workspace",
            )
        self._check_inputs(net)
        self._nets[net.name] = _prepared(net)

    def nets(self) -> list[str]:
        """Return the names of all nets, in the order of their creation."""
        return [*self._nets]

    def run_net(self, name: str, times: int = 1, executor: str = "simple") -> None:
        """Run a net ``times`` times; each run reads the results of the previous run."""
        if name not in self._nets:
            raise UnknownNameError(name, kind="net of the workspace", known=self._nets, fix="workspace.create_net(net)")
        if type(times) is not int or times < 0:
            raise OperandError(
                f"run_net({name!r}, times={times!r})", rule="times must be an integer of at least 0", fix="times=1"
            )
        for _ in range(times):
            self._run(self._nets[name], executor)

    def run_net_once(self, net: Net, executor: str = "simple") -> None:
        """Run a net without adding it."""
        self._check_inputs(net)
        self._run(_prepared(net), executor)

    def run_operator_once(self, type: str, inputs: Any = (), outputs: Any = None, **arguments: Any) -> None:
        """Run one operator on blobs: ``run_operator_once("Relu", "x", "y")``."""
        net = Net("operator")
        inputs = [inputs] if isinstance(inputs, str) else [*(inputs or ())]
        for name in dict.fromkeys(inputs):
            blob = self._filled(name)
            if type in BLOB_OPERATORS:
                net.input(name)
            else:
                array = blob.elements()
                net.input(name, array.shape, array.dtype)
        net.add(type, inputs, outputs, **arguments)
        self.run_net_once(net)

    def reset(self) -> None:
        """Remove all blobs and nets."""
        self._blobs.clear()
        self._nets.clear()

    # -- the current workspace -------------------------------------------------------------------------------------

    @classmethod
    def switch(cls, name: str = "default") -> Workspace:
        """Make the named workspace current, creating it if necessary; return it."""
        cls._current = cls._named.setdefault(name, cls())
        return cls._current

    @classmethod
    def current(cls) -> Workspace:
        """Return the current workspace, initially "default"."""
        return cls._current if cls._current is not None else cls.switch()

    def _check_inputs(self, net: Net) -> None:
        missing = [name for name in net.inputs if name not in self._blobs or self._blobs[name].empty]
        if missing:
            raise StateError(
                f"net {net.name!r} without the blob {missing[0]!r}"
                + f" and {len(missing) - 1} more" * (len(missing) > 1),
                rule="all inputs of a net must exist before it is created or run",
                fix=f"workspace.feed_blob({missing[0]!r}, array)",
            )

    def _run(self, net: Net | OrderedRun, executor: str) -> None:
        if isinstance(net, OrderedRun):
            net.run(self.create_blob, executor)
            return
        self._check_inputs(net)
        results = net.run_on_device({name: self.blob(name).elements() for name in net.inputs}, executor)
        # All are computed before one is written, so that a failing kernel leaves the workspace unchanged.
        for name, value in results.items():
            self.create_blob(name.rpartition("@")[0] or name).reset(value)

    def __repr__(self) -> str:
        return f"<workspace: {counted_text(len(self._blobs), 'blob')}, {counted_text(len(self._nets), 'net')}>"


def _prepared(net: Net) -> Net | OrderedRun:
    """Return a net for running: as one plan, or in operator order if it has operators on blobs."""
    return OrderedRun(net) if has_blob_operators(net.definition) else _with_results(net)


def _with_results(net: Net) -> Net:
    """Return the net whose outputs are the blobs to store: its outputs and overwritten inputs, or all written blobs."""
    definition = net.definition
    written = {blob.blob for blob in definition.blobs.values() if blob.producer is not None}
    own = [definition.blobs[name].blob for name in definition.ssa.outputs]
    names = [*own, *[name for name in definition.inputs if name in written]] if own else sorted(written)
    return net.with_definition(changed(definition, outputs=[*dict.fromkeys(names)]))


Find: TypeAlias = Callable[[str], Blob]
"""function of a name that returns the blob, which is created if it does not exist"""


def has_blob_operators(definition: NetDefinition) -> bool:
    """Return whether a net has operators that run separately."""
    return any(operator.type in BLOB_OPERATORS for operator in definition.operators)


class OrderedRun:
    """Net divided into operators on blobs and nets between them, each of which is planned once."""

    def __init__(self, net: Net) -> None:
        self._definition = net.definition
        self._parts = [*_parts(net)]

    def run(self, find: Find, executor: str) -> None:
        """Run the operators and nets in order; ``find`` returns the blobs of a workspace."""
        for part in self._parts:
            if isinstance(part, OperatorDefinition):
                self._run_operator(part, find)
            else:
                results = part.run_on_device({name: find(name).elements() for name in part.inputs}, executor)
                for name, value in results.items():
                    # Names of versions end in "@" and a number; a workspace has one blob for all of them, which keeps
                    # the last value.
                    find(name.rpartition("@")[0] or name).reset(value)

    def _run_operator(self, operator: OperatorDefinition, find: Find) -> None:
        """Run one operator; an error names the operator and its line."""
        own = BlobOperator(operator, tuple(map(find, operator.inputs)), tuple(map(find, operator.outputs)))
        try:
            BLOB_OPERATORS[operator.type](own, **operator.arguments)
        except ExplorerError as error:
            raise graph_error(
                self._definition.source,
                operator,
                f"operator {operator.name!r} ({operator.type}): {error.given}",
                rule=error.rule,
                fix=error.fix,
            ) from error


def _parts(net: Net) -> Iterator[OperatorDefinition | Net]:
    """Yield the operators on blobs in order, and between them nets of the other operators."""
    definition = net.definition
    for is_own, group in groupby(definition.operators, lambda operator: operator.type in BLOB_OPERATORS):
        operators = [*group]
        if is_own:
            yield from operators
            continue
        written: dict[str, None] = {}
        read: dict[str, None] = {}
        for operator in operators:
            # Dicts keep their order, unlike sets, so the parts of a net are the same in every process.
            read.update(dict.fromkeys([name for name in operator.inputs if name not in written]))
            written.update(dict.fromkeys(operator.outputs))
        yield net.with_definition(changed(definition, operators=operators, inputs=[*read], outputs=[*written]))
