"""Operators of torch that its exporter writes as nothing, or as something else: how they become ONNX operators.

Quantised programs hold the operators ``quantized_decomposed.*``. torch's exporter leaves out some, and the limits of
others; here each becomes one operator of a domain of that name, with all its operands, which the ONNX reader computes
as torch does.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from explorer.formats import torch_functions, torch_pooling

_DOMAIN = "quantized_decomposed"
_TYPES = (
    "quantize_per_tensor", "dequantize_per_tensor", "quantize_per_channel", "dequantize_per_channel",
    "quantize_per_token", "dequantize_per_token", "dequantize_per_channel_group", "choose_qparams",
    "choose_qparams_symmetric", "choose_qparams_per_token", "choose_qparams_per_token_asymmetric",
)  # fmt: skip
_ELEMENTS = (
    "float", "double", "float16", "bfloat16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
)  # fmt: skip
"""ONNX's names of the dtypes of operands and results"""
_SCALE = "scale"
"""a number that is written as a tensor, since an attribute's 32 bits do not hold it"""


def register() -> bool:
    """Make torch know the operators of quantised programs, without which it reads no file that holds them.

    Tells whether it has them: torch moves its quantisation to torchao.
    """
    try:
        import_module("torch.ao.quantization.fx._decomposed")
    except ModuleNotFoundError:
        return False
    return True


def translations(torch: Any) -> dict[Any, Callable[..., Any]]:
    """Return the function that writes it for each of torch's operators that this package writes itself."""
    table = {
        torch.ops.aten._int_mm.default: _int_mm,
        **torch_functions.translations(torch),
        **torch_pooling.translations(torch),
    }
    if register():
        types = [getattr(getattr(torch.ops, _DOMAIN), name) for name in _TYPES]
        overloads = [getattr(type, name) for type in types for name in type.overloads()]
        table |= {overload: _translation(overload) for overload in overloads}
    return table


def _int_mm(x: Any, y: Any) -> Any:
    """Write a product of matrices of int8, as int32."""
    return import_module("onnxscript").opset18.MatMulInteger(x, y)


def _translation(overload: Any) -> Callable[..., Any]:
    """Return the function that writes an operator of a signature: tensors are inputs, other operands attributes."""
    names = [argument.name for argument in overload._schema.arguments]
    tensors = [argument.name for argument in overload._schema.arguments if "Tensor" in str(argument.type)]
    inputs = [name for name in names if name in tensors or name == _SCALE]

    def written(*args: Any, **keywords: Any) -> Any:
        operands = {**dict(zip(names, args, strict=False)), **keywords}
        values = [_double(operands[name]) if name not in tensors else operands.get(name) for name in inputs]
        attributes = {name: operands[name] for name in names if name not in inputs and operands.get(name) is not None}
        return _operator(overload, inputs, attributes)(*values, **attributes)

    return written


def _double(value: Any) -> Any:
    """Return a number as a constant of 64 bits; one that is computed is a tensor already."""
    if not isinstance(value, float):
        return value
    onnx = import_module("onnx")
    return import_module("onnxscript").opset18.Constant(value=onnx.helper.make_tensor("scale", 11, (), [value]))


def _operator(overload: Any, inputs: list[str], attributes: dict[str, Any]) -> Any:
    """Return an operator of the domain, with these inputs and attributes."""
    defs, values = import_module("onnx.defs"), import_module("onnxscript.values")
    schema = defs.OpSchema
    count = len(overload._schema.returns)
    kinds = {f"T{place}": name for place, name in enumerate([*inputs, *["result"] * count])}
    every = [f"tensor({element})" for element in _ELEMENTS]
    described = schema(
        overload._schema.name.split("::")[1],
        _DOMAIN,
        1,
        inputs=[
            schema.FormalParameter(name, f"T{place}", param_option=schema.FormalParameterOption.Optional)
            for place, name in enumerate(inputs)
        ],
        outputs=[schema.FormalParameter(f"result_{place}", f"T{len(inputs) + place}") for place in range(count)],
        type_constraints=[(kind, every, "") for kind in kinds],
        attributes=[
            schema.Attribute(
                name, schema.AttrType.FLOAT if isinstance(value, float) else schema.AttrType.INT, required=False
            )
            for name, value in attributes.items()
        ],
    )
    return values.Op(values.Opset(_DOMAIN, 1), described.name, described)
