"""Map of the names of InferFramework, which are KuiperInfer's, and of PNNX."""

from __future__ import annotations

from explorer.names.entry import Entry, Said, Sections

TENSORS: dict[str, Entry] = {
    "Tensor, ftensor, sftensor": "Tensor",
    "size": "Expr.size",
    "shapes, raw_shapes, rows, cols, channels": (
        "Tensor.shapes, Tensor.raw_shapes, Tensor.rows, Tensor.cols, Tensor.channels"
    ),
    "flatten": "Expr.flatten",
    "reshape": "Expr.reshape",
    "index, at, slice": "Tensor.index, Tensor.at, Tensor.slice",
    "values, data, raw_ptr, matrix_raw_ptr": "Tensor.values, Tensor.data, Tensor.raw_ptr, Tensor.matrix_raw_ptr",
    "set_data": "Tensor.set_data",
    "fill, ones": "Tensor.fill, Tensor.ones",
    "rand": "Tensor.rand",
    "padding": "Tensor.padding",
    "transform": "Tensor.transform",
    "clone": "Tensor.clone",
    "empty": "Tensor.empty",
    "show, show_shapes": "Tensor.show, Tensor.show_shapes",
}
GRAPHS: dict[str, Entry] = {
    "RuntimeGraph": "Net",
    "set_param_path, param_path": Said("net.source; ex.open(path) reads it"),
    "set_bin_path, bin_path": Said("net.weights_source; ex.open(path, weights=…) reads it"),
    "Init, Build": "Net.build",
    "Forward": "Net.run",
    "GraphState, EGraphState, NeedInit, NeedBuild, Complete": "Net.state",
    "RuntimeOperator": "Net.operators",
    "RuntimeOperand": "Net.operands",
    "RuntimeParameter": Said("an operator's arguments, net['name'].arguments, whose kinds are PNNX's"),
    "RuntimeAttribute": "Net.weights",
    "get_weight_data": Said("net['name'].weights['weight'], or .weights.take('weight'), which releases it"),
    "clear_weight": Said("del net['name'].weight"),
    "operators": "Net.operators",
    "get_topo_queues": "Net.definition",
    "ReverseTopo": Said("order='depth_first' of ex.EvalPlan"),
    "CreateLayer": Said("an operator's expressions: net.nodes(name)"),
    "input_operands, input_operands_seq, output_operands": "Net.operands",
    "output_operators, output_names": Said(
        "what reads an operator's outputs: net.definition knows the readers of each blob"
    ),
}
LAYERS: dict[str, Entry] = {
    "Layer, ParamLayer, NonParamLayer": "layers.Layer",
    "LayerRegisterer, LayerRegistererWrapper, RegisterCreator, CreateRegistry": "file_operator",
    "layer_types": "layer_types",
    "set_weights, weights, bias, set_bias": "Net.weights",
    "ConvolutionLayer": "conv2d",
    "LinearLayer": "matmul",
    "MaxPoolingLayer": "max_pool2d",
    "AdaptiveAveragePoolingLayer": "adaptive_avg_pool2d",
    "ReluLayer": "relu",
    "SoftmaxLayer": "softmax",
    "FlattenLayer": "flatten",
    "ExpressionLayer, ExpressionParser, TokenNode, Token": Said(
        "pnnx.Expression: explorer.formats.pnnx.expression_parser reads it, "
        "and each of its operations is a node in a box"
    ),
    "InferStatus, StatusCode, ParseParameterAttrStatus": "ExplorerError",
}
REST: dict[str, Entry] = {
    "pnnx::Graph, load_param": "open",
    "pnnx::Operator, pnnx::Operand": "Net.operators, Net.operands",
    "GraphRewriterPass, match_pattern_graph": "pattern",
    "CSVDataLoader": "load_csv",
    "LOG, glog": Said("the loggers of Python's logging below 'explorer'"),
    "LayerTimeLogging, LayerTimeState": Said("the run of every recording: ex.EvalPlan.recording"),
}
SECTIONS: Sections = {
    "Tensors": TENSORS,
    "Graphs": GRAPHS,
    "Layers": LAYERS,
    "PNNX and the rest": REST,
}
