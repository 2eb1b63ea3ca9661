"""Registry of kernels: functions that compute an operation on a device, or on elements of a user's dtype.

NumPy's kernels are methods of the operations; this table has the others, which users register with ``ex.kernel``. A
user's dtype needs no kernel of its own: without one, operands are decoded to numbers and the result is encoded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from explorer.core import registry
from explorer.core.argument_checks import named
from explorer.core.errors import DeclarationError
from explorer.core.ir.accumulation import compute_widened, is_widened
from explorer.core.registry_base import Registry
from explorer.core.types.custom_dtypes import ElementType, element_of, is_text, numbers_of
from explorer.core.types.device import Device, cpu
from explorer.core.types.tensor_type import AnyType, TensorType, TupleType

if TYPE_CHECKING:
    from explorer.core.ir.operation import Operation

kernels: Registry[tuple[type[Operation], Device | ElementType], Callable[..., Any]] = Registry("kernel")
"""kernels other than NumPy's: (operation class, device or element type) → function(operation, out, *operands)"""


@named
def kernel(*operations: str | Operation | type[Operation], on: Device | ElementType) -> Callable[..., Any]:
    """Register a function(operation, out, *operands) as the kernel of operations on a device or an element type.

    Operands and ``out`` are the device's arrays, or the stored numbers of an element type. Raises UnknownNameError for
    the name of no operation.

    >>> board = ex.Device("board")
    >>> @ex.kernel("tanh", on=board)
    ... def tanh_on_board(operation, out, x):
    ...     return np.tanh(x, out=out)
    >>> ex.evaluate(ex.tanh(ex.tensor([0.0, 1.0], device=board)))
    array([0.        , 0.76159416])
    """
    classes = [_class_of(operation) for operation in operations]

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for operation_class in classes:
            kernels[operation_class, on] = function
        return function

    return register


def _class_of(operation: str | Operation | type[Operation]) -> type[Operation]:
    if isinstance(operation, str):
        return registry.operation(operation)
    return operation if isinstance(operation, type) else type(operation)


def runs_on(operation: Operation, device: Device) -> bool:
    """Whether an operation has a kernel on a device."""
    return (
        device is cpu
        or (type(operation), device) in kernels
        or operation.changes_device
        # constants are filled by NumPy and copied; views need no arithmetic where the arrays are NumPy's
        or operation.count_operands() == 0
        or (operation.view and device.addressable)
        or (operation.portable and device.runs_numpy)
    )


def kernel_of(operation: Operation, device: Device, *types: AnyType) -> Callable[..., Any]:
    """Return the kernel of an operation, bound to its attributes, for a device and types of operands and result.

    Raises DeclarationError if there is none.
    """
    if device is not cpu:
        return _on_device(operation, device)
    for type_ in types:
        parts = type_.parts if isinstance(type_, TupleType) else (type_,)
        for part in parts:
            element = element_of(part.dtype)
            if element is not None and not operation.view and not operation.takes_elements:
                return _on_elements(operation, element)
            if is_widened(operation, part.dtype):
                return functools.partial(compute_widened, operation)
    return operation.kernel


def _on_device(operation: Operation, device: Device) -> Callable[..., Any]:
    registered = kernels.get((type(operation), device))
    if registered is not None:
        return functools.partial(registered, operation)
    if operation.count_operands() == 0:
        return functools.partial(_described, operation, device)
    if (operation.view and device.addressable) or (operation.portable and device.runs_numpy):
        return functools.partial(compute_widened, operation) if operation.accumulates else operation.kernel
    raise DeclarationError(
        f"{operation.name} on {device.name}",
        rule="an operation must have a kernel registered for the device that it runs on",
        fix=f"@explorer.kernel({operation.name!r}, on={device.name}), or copy the operands: x.to_device(explorer.cpu)",
    )


def _described(operation: Operation, device: Device, out: Any) -> Any:
    """Compute a value without operands with NumPy and write it to the device."""
    type_ = operation.type_of(())
    assert isinstance(type_, TensorType)
    values = device.empty(type_.shape, type_.dtype) if out is None else out
    device.write(values, operation.compute())
    return values


def _on_elements(operation: Operation, element: ElementType) -> Callable[..., Any]:
    registered = kernels.get((type(operation), element))
    if registered is None:
        return functools.partial(_through_numbers, operation)

    def run(out: Any, *operands: Any) -> Any:
        result = registered(operation, _stored(out), *[_stored(operand) for operand in operands])
        if result is not None:
            _stored(out)[...] = result
        return out

    return run


def _stored(array: Any) -> Any:
    element = element_of(array.dtype)
    return array if element is None else element.stored(array)


def _through_numbers(operation: Operation, out: Any, *operands: Any) -> Any:
    """Decode the operands, compute on numbers, encode the result."""
    computed = operation.compute(*[numbers_of(operand) for operand in operands])
    results: Sequence[Any] = computed if isinstance(computed, tuple) else (computed,)
    for target, result in zip(out if isinstance(out, tuple) else (out,), results, strict=True):
        element = element_of(target.dtype)
        if element is None:
            target[...] = result
        else:
            element.write(target, result)
    return out


def type_on_elements(operation: Operation, types: tuple[AnyType, ...]) -> AnyType | None:
    """Infer the result type for operands of an element type; None if all operands have NumPy's dtypes.

    The operation's own rule is asked with the dtype of the represented numbers; a floating result is of the element
    type.
    """
    if operation.view or operation.takes_elements:
        return None
    tensors = [type_ for type_ in types if isinstance(type_, TensorType)]
    elements = {element for type_ in tensors if (element := element_of(type_.dtype)) is not None}
    if not elements:
        return None
    element = min(elements, key=lambda each: each.name)
    # two ways of rounding in one operation: the user must say which one the result has
    if len(elements) > 1 or any(type_.dtype.kind in "fc" for type_ in tensors):
        raise operation.refuse(
            types,
            f"the other operands must be {element.name}, integers, booleans or Python numbers",
            f"convert an operand: x.astype({element.name})",
        )
    inferred = operation.infer(*[_of_numbers(type_) for type_ in types])
    if isinstance(inferred, TupleType):
        return TupleType(tuple([_of_element(part, element) for part in inferred.parts]))
    return _of_element(inferred, element)


def _of_numbers(type_: AnyType) -> AnyType:
    element = element_of(type_.dtype) if isinstance(type_, TensorType) else None
    return type_ if element is None or not isinstance(type_, TensorType) else type_.with_dtype(element.numbers)


def _of_element(type_: TensorType, element: ElementType) -> TensorType:
    return type_.with_dtype(element.dtype) if type_.dtype.kind == "f" else type_


def on_device(type_: AnyType, device: Device) -> AnyType:
    """Return a type with its parts on a device."""
    if isinstance(type_, TupleType):
        return TupleType(tuple([TensorType(part.shape, part.dtype, device) for part in type_.parts]))
    return TensorType(type_.shape, type_.dtype, device)


def rule_of_devices(devices: Sequence[Device], types: Sequence[AnyType]) -> tuple[str, str]:
    """Return the rule that operands on several devices break, and the fix."""
    names = " and ".join(sorted([device.name for device in devices]))
    rule = f"operands must be on one device, these are on {names}"
    if any(is_text(type_.dtype) for type_ in types if isinstance(type_, TensorType)):
        return f"{rule}; texts lie on cpu alone", "x.to_device('cpu'), or for a net net.to_device('cpu')"
    return rule, f"copy an operand, which is a node of its own: x.to_device(explorer.device({devices[0].name!r}))"
