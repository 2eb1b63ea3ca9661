"""ONNX translations of torch operators that torch's exporter rejects or translates inexactly.

Quantised programs contain operators of torch's namespace ``quantized_decomposed``. torch's exporter cannot translate
some of them, and ignores the quantisation limits of others. Here, each becomes one ONNX operator with all its operands,
in a domain of the same name. The ONNX reader computes it as torch does.
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
"""ONNX's names of the dtypes that operands and results may have"""
_SCALE = "scale"
"""operand that is written as a tensor, because ONNX attributes store floats in 32 bits"""


def register() -> bool:
    """Register torch's ``quantized_decomposed`` operators, without which torch cannot load quantised programs.

    Return False if torch lacks them; they are moving to the torchao package.
    """
    try:
        import_module("torch.ao.quantization.fx._decomposed")
    except ModuleNotFoundError:
        return False
    return True


def translations(torch: Any) -> dict[Any, Callable[..., Any]]:
    """Return the translations, keyed by torch overload."""
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
    return import_module("onnxscript").opset18.MatMulInteger(x, y)


def _translation(overload: Any) -> Callable[..., Any]:
    """Return the translation of ``overload``: tensors become inputs, and other operands become attributes."""
    names = [argument.name for argument in overload._schema.arguments]
    tensors = [argument.name for argument in overload._schema.arguments if "Tensor" in str(argument.type)]
    inputs = [name for name in names if name in tensors or name == _SCALE]

    def translated(*args: Any, **keywords: Any) -> Any:
        operands = {**dict(zip(names, args, strict=False)), **keywords}
        values = [_double(operands[name]) if name not in tensors else operands.get(name) for name in inputs]
        attributes = {name: operands[name] for name in names if name not in inputs and operands.get(name) is not None}
        return _operator(overload, inputs, attributes)(*values, **attributes)

    return translated


def _double(value: Any) -> Any:
    """Convert a Python float to a float64 constant; return a tensor unchanged."""
    if not isinstance(value, float):
        return value
    onnx = import_module("onnx")
    return import_module("onnxscript").opset18.Constant(value=onnx.helper.make_tensor("scale", 11, (), [value]))


def _operator(overload: Any, inputs: list[str], attributes: dict[str, Any]) -> Any:
    """Return an onnxscript operator with the given inputs and attributes, in the domain of quantised operators."""
    defs, values = import_module("onnx.defs"), import_module("onnxscript.values")
    schema = defs.OpSchema
    count = len(overload._schema.returns)
    type_names = [f"T{index}" for index in range(len(inputs) + count)]
    tensor_types = [f"tensor({element})" for element in _ELEMENTS]
    operator_schema = schema(
        overload._schema.name.split("::")[1],
        _DOMAIN,
        1,
        inputs=[
            schema.FormalParameter(name, f"T{index}", param_option=schema.FormalParameterOption.Optional)
            for index, name in enumerate(inputs)
        ],
        outputs=[schema.FormalParameter(f"result_{index}", f"T{len(inputs) + index}") for index in range(count)],
        type_constraints=[(name, tensor_types, "") for name in type_names],
        attributes=[
            schema.Attribute(
                name, schema.AttrType.FLOAT if isinstance(value, float) else schema.AttrType.INT, required=False
            )
            for name, value in attributes.items()
        ],
    )
    return values.Op(values.Opset(_DOMAIN, 1), operator_schema.name, operator_schema)
