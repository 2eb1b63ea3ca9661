"""Map of Caffe2's names."""

from __future__ import annotations

from explorer.names.entry import Entry, Said, Sections

DEVICES: dict[str, Entry] = {
    "Context, CPUContext, BaseContext": "Device",
    "New": "Device.new",
    "Delete": "Device.delete",
    "SwitchToDevice": "Device.switch_to_device",
    "FinishDeviceComputation": "Device.finish",
    "CopyBytes, Copy": "Device.copy_bytes, Device.copy",
    "CUDAContext": Said("ex.device('cuda'), on CuPy: pip install 'explorer-graphs[cuda]'"),
    "Tensor, TensorCPU": "Tensor",
    "dims": "Expr.shape",
    "TypeMeta, Make": "TypeMeta, TypeMeta.make",
    "Blob": "Blob",
    "Get, GetMutable, Reset": "Blob.get, Blob.get_mutable, Blob.reset",
}
OPERATORS: dict[str, Entry] = {
    "Operator, OperatorBase": "operation",
    "OperatorDef": Said("an operator of ex.Net.operators: its type, name, inputs, outputs and arguments"),
    "RunOnDevice": "Workspace.run_operator_once",
    "Input, Output": Said("op.input(0, kind) and op.output(0, kind) in the function of an ex.blob_operator"),
    "REGISTER_CPU_OPERATOR, OPERATOR_SCHEMA": "net_operator",
    "OpSchema": Said("the numbers of inputs and outputs, and the arguments, that @ex.net_operator declares"),
    "Registry, CAFFE_DEFINE_REGISTRY": "Registry",
    "REGISTER_GRADIENT, GradientMakerBase": Said(
        "each type X has a type XGradient by itself, of the gradient of X's expressions"
    ),
    "NO_GRADIENT": Said('@ex.net_operator(gradient="none")'),
    "SHOULD_NOT_DO_GRADIENT": Said('@ex.net_operator(gradient="refused")'),
    "GRADIENT_NOT_IMPLEMENTED_YET": Said('@ex.net_operator(gradient="missing")'),
    "ConstantFill, GivenTensorFill": Said("the operators of these names: net.ConstantFill(…)"),
    "FillerOp, UniformFill, UniqueUniformFill, GaussianFill, XavierFill, MSRAFill": Said(
        "the operators of these names, of a seed and the name of their blob: net.XavierFill(…)"
    ),
    "DBExists, Load, Save, Checkpoint, CreateDB": Said("the operators of these names, which a Workspace runs"),
    "DBReader": "DBReader",
    "FC, Conv, MaxPool, AveragePool, Relu, Sigmoid, Softmax, MatMul, BatchMatMul, Concat, Flatten": Said(
        "the operators of these names: net.FC(…); dir(net) lists all"
    ),
    "Allreduce, Broadcast, Allgather, NCCLAllreduce, NCCLBroadcast": Said(
        "the operators of these names: net.Allreduce(…); net.CopyToDevice(…) places a blob"
    ),
    "Adagrad, Adam, MomentumSGD, MomentumSGDUpdate, RmsProp, Ftrl, WeightedSum, LearningRate, Iter": Said(
        "the operators of these names; momentum is MomentumSGDUpdate; optimizers of modules are in ex.train"
    ),
}
NETS: dict[str, Entry] = {
    "NetDef, core.Net": "Net",
    "CreateNet": "Workspace.create_net",
    "protobuf, SerializeToString": Said("JSON: net.save(path) and ex.open(path), with a published schema"),
    "BlobReference": Said("a blob's name, a string: net.Relu('x', 'y') gives 'y'"),
    "SimpleNet": Said("executor='simple' of ex.EvalPlan and ex.Net.run"),
    "DAGNet": Said("executor='dag' of ex.EvalPlan and ex.Net.run"),
    "AsyncDAGNet, eventRecorded, events": Said("executor='async' of ex.EvalPlan and ex.Net.run"),
    "OperatorNode, children, parents": Said("net['conv1'], .successors and .predecessors"),
    "OpGraphNode, visited_inputs": Said("levels and chains of kernels: ex.EvalPlan.recording, .schedule.kernels"),
    "runtime_parent_count, is_chain_start, execution_chains, num_orig_parents": Said(
        "program.chains of an ex.Executor: runtime_parent_count(chain), is_chain_start(kernel), kernels[chain]"
    ),
    "RunAt": Said("program.run_at(chain, timing) of an ex.Executor, which returns whether all kernels ran"),
    "Workspace, FeedBlob, FetchBlob, HasBlob, Blobs": (
        "Workspace, Workspace.feed_blob, Workspace.fetch_blob, Workspace.has_blob, Workspace.blobs"
    ),
    "RunNet, RunNetOnce, RunOperatorOnce": ("Workspace.run_net, Workspace.run_net_once, Workspace.run_operator_once"),
    "ResetWorkspace, SwitchWorkspace": "Workspace.reset, Workspace.switch",
}
TRAINING: dict[str, Entry] = {
    "AddGradientOperators, GetBackwardPass, _GenerateGradientsForForwardOp": "Net.add_gradient_operators",
    "ModelHelper, params, params_to_grad, param_init_net": "ModelHelper",
    "Parallelize, Parallelize_GPU, input_builder, forward_pass_builder, ValidateParams, AllReduceGradients": (
        "parallelize"
    ),
    "memonger": Said("the buffers pass of every plan: each reuse is in ex.EvalPlan.explain"),
    "net_drawer": "explore",
    "net_printer": "Net.text",
    "Observer, observers": "Net.profile",
    "StopGradient": "stop_gradient",
}
SECTIONS: Sections = {
    "Devices and values": DEVICES,
    "Operators": OPERATORS,
    "Nets": NETS,
    "Training": TRAINING,
}
