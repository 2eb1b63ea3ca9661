"""Names in NumPy, torch, JAX and Keras, and what to write in Explorer instead.

An error about an unknown attribute of an expression, a tensor or a module such as ``ex.train`` contains the advice. It
saves users a search, without aliases for functions that exist already.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "a_max": ("high",),
    "a_min": ("low",),
    "bias": ("shift",),
    "ceil_mode": ("ceil",),
    "correction": ("ddof",),
    "count_include_pad": ("count_padding",),
    "dim": ("axis", "axes"),
    "dims": ("axes", "axis"),
    "eps": ("epsilon",),
    "input": ("x", "numbers"),
    "is_causal": ("causal",),
    "keep_dims": ("keepdims",),
    "keepdim": ("keepdims",),
    "kernel_size": ("size",),
    "learning_rate": ("rate",),
    "lr": ("rate",),
    "max": ("high",),
    "min": ("low",),
    "negative_slope": ("slope",),
    "num_classes": ("classes",),
    "num_groups": ("groups",),
    "ord": ("order",),
    "other": ("y", "b"),
    "output_size": ("output", "size"),
    "p": ("order",),
    "stride": ("strides",),
    "unbiased": ("ddof",),
    "weight": ("filters", "scale", "table"),
    "weights": ("filters", "scale"),
}
"""option → Explorer's options; the first that a function has is suggested"""

_FROM_VALUE = "it is not recorded; evaluate first: ex.evaluate(x).{name}(…)"
_VALUE = "an expression has no value yet: ex.evaluate(x)"
_GRADIENT = "gradients are expressions themselves: ex.grad(loss, [w])"
_IMMUTABLE = "an expression never changes: bind the name to a new one"
_FORMAT = "not needed: the planner chooses the memory format"
_CONSTANT = "use ex.tensor(values)"
_RANDOM = "use ex.tensor(np.random.default_rng(0).normal(size=shape))"
_SLICES = "use slices: x[:2], x[2:]"
_MODULE = "use ex.train.Module, whose add_node adds layers one by one"
_NODES = "functions are nodes: module.add_node(ex.layer_norm), or module.add_node(lambda x: ex.max_pool2d(x, 2))"
_TRAIN = "use ex.train.{name}, in a module"
_PLAN = "use ex.EvalPlan, or ex.function for a function that is recorded once"
_FLAT = "functions are in ex itself: ex.relu(x), ex.softmax(x, axis)"

_SIGNS = {
    **{"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="},
    **{"sub": "-", "mul": "*", "div": "/", "true_divide": "/", "pow": "**"},
}

_VALUES = {
    **dict.fromkeys(("numpy", "data", "value", "eval", "block_until_ready", "device_get", "Session"), _VALUE),
    **dict.fromkeys(("item", "tolist", "tobytes", "nonzero", "cumprod"), _FROM_VALUE),
    "cpu": f"{_VALUE}, or use x.to_device('cpu')",
    "detach": "use ex.stop_gradient(x), or ex.evaluate(x) for its value",
    **dict.fromkeys(("cuda", "gpu"), "use x.to_device('cuda'), or ex.tensor(values, device='cuda')"),
    **dict.fromkeys(("is_cuda", "get_device"), "use x.device"),
    "to": "use x.astype(dtype), or x.to_device(device)",
    **dict.fromkeys(("dim", "rank"), "use x.ndim"),
    **dict.fromkeys(("numel", "nelement"), "use x.size"),
    "shape": "use x.shape",
    "itemsize": "use x.dtype.itemsize",
    "nbytes": "use x.tensor_type.nbytes",
    **dict.fromkeys(("is_tensor", "isinstance"), "use isinstance(x, ex.Expr)"),
}
_GRADIENTS = {
    **dict.fromkeys(("backward", "grad", "requires_grad", "requires_grad_", "zero_grad", "retain_grad"), _GRADIENT),
    **dict.fromkeys(("autograd", "value_and_grad", "GradientTape", "gradients"), "use ex.grad(loss, [w])"),
    **dict.fromkeys(("jacobian", "jacrev", "jacfwd", "hessian"), "use ex.grad(y[i], [x]) for each element of y"),
    **dict.fromkeys(("no_grad", "enable_grad", "inference_mode"), "not needed: only ex.grad records gradients"),
}
_DTYPES = {
    "float": "use x.astype(np.float32)",
    "double": "use x.astype(np.float64)",
    "half": "use x.astype(np.float16)",
    "bfloat16": "use x.astype('bfloat16')",
    "int": "use x.astype(np.int32)",
    "long": "use x.astype(np.int64)",
    "bool": "use x.astype(bool)",
    "type_as": "use x.astype(y.dtype)",
    **{
        name: f"use np.{name}" for name in ("float16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64")
    },
    "set_default_dtype": "give the dtype to each tensor: ex.tensor(values, dtype)",
}
_CREATION = {
    **{
        name: f"use ex.tensor(np.{name}(…))" for name in ("zeros", "ones", "full", "eye", "arange", "linspace", "empty")
    },
    **dict.fromkeys(("new_zeros", "new_ones", "new_full"), "use ex.tensor(np.zeros(…))"),
    **{name: f"use np.{name}(x)" for name in ("zeros_like", "ones_like")},
    **dict.fromkeys(("full_like", "meshgrid", "expand", "expand_as"), "use ex.broadcast_to(x, shape)"),
    **dict.fromkeys(("array", "asarray", "from_numpy", "as_tensor", "convert_to_tensor", "constant"), _CONSTANT),
    **dict.fromkeys(("Variable", "variable", "placeholder", "Input", "device_put"), _CONSTANT),
    **dict.fromkeys(("rand", "randn", "normal", "uniform", "random", "randint"), _RANDOM),
    **dict.fromkeys(
        ("manual_seed", "seed", "PRNGKey", "bernoulli"),
        "random operations take a seed: ex.random_uniform(shape, seed=0)",
    ),
}
_SHAPES = {
    **dict.fromkeys(("view", "resize"), "use x.reshape(shape)"),
    "view_as": "use x.reshape(y.shape)",
    "ravel": "use x.flatten()",
    "unsqueeze": "use ex.expand_dims(x, axis)",
    "newaxis": "use np.newaxis, or ex.expand_dims(x, axis)",
    "permute": "use x.transpose(axes)",
    "t": "use x.T",
    "swapaxes": "use np.swapaxes(x, axis1, axis2)",
    **dict.fromkeys(("contiguous", "is_contiguous"), _FORMAT),
    **dict.fromkeys(("copy", "clone"), "an expression never changes, so x itself serves as its copy"),
    **dict.fromkeys(("cat", "concat", "hstack"), "use ex.concatenate(arrays, axis)"),
    **dict.fromkeys(("chunk", "split", "unbind", "unstack", "tensor_split", "narrow"), _SLICES),
    "repeat": "use ex.tile(x, reps), or ex.repeat(x, repeats, axis) to repeat each element",
}
_INDEXING = {
    "gather": "use ex.take_along_axis(x, indices, axis)",
    **dict.fromkeys(("take", "index_select", "embedding_lookup"), "use ex.take(x, indices, axis)"),
    **dict.fromkeys(("scatter", "scatter_"), "use ex.put_along_axis(x, indices, values, axis)"),
    **dict.fromkeys(("scatter_add", "scatter_add_", "index_add"), "use ex.add_along_axis(x, indices, values, axis)"),
    "masked_fill": "use ex.where(mask, value, x)",
    "where": "use ex.where(condition, a, b)",
}
_ARITHMETIC = {
    **dict.fromkeys(("dot", "mm", "bmm", "mv", "matmul"), "use x @ y"),
    **dict.fromkeys(("addmm", "linear"), "use x @ w + b"),
    **{name: f"use x {sign} y" for name, sign in _SIGNS.items()},
    "abs": "use abs(x)",
    "clamp": "use x.clip(low, high)",
    "round": "use np.round(x)",
    "outer": "use np.outer(a, b)",
    "norm": "use ex.vector_norm(x)",
    "swish": "use ex.silu(x)",
    "nan_to_num": "use ex.where(ex.isnan(x), 0, x)",
    "trace": "use ex.einsum('ii->', x)",
    **dict.fromkeys(("diag", "diagonal"), "use ex.einsum('ii->i', x)"),
    **{f"reduce_{name}": f"use ex.{name}(x, axis)" for name in ("sum", "mean", "max", "min", "prod", "any", "all")},
    "linalg": "use x @ y, ex.einsum, ex.inverse or ex.vector_norm",
}
_PROGRAMS = {
    **dict.fromkeys(("jit", "compile", "script"), _PLAN),
    "vmap": "use ex.map(function, samples)",
    "pmap": "use ex.parallelize(module, workers)",
    "fori_loop": "use ex.scan, or ex.while_loop",
    **dict.fromkeys(("load", "read"), "use ex.open(path)"),
    **dict.fromkeys(("export", "onnx"), "use ex.save(net, 'model.onnx')"),
    **dict.fromkeys(("F", "functional", "lax"), _FLAT),
    **dict.fromkeys(("nn", "keras"), "use ex.layers, or ex.train for modules with a loss and an optimizer"),
    **dict.fromkeys(("optim", "optimizers", "losses", "utils"), "use ex.train"),
}
_LAYERS = {
    **dict.fromkeys(("Sequential", "Module", "ModuleList", "Model"), _MODULE),
    "Dense": "use ex.layers.Linear, or ex.train.Linear(name, inputs, outputs) in a module",
    **dict.fromkeys(("Linear", "Embedding", "LSTM", "GRU"), _TRAIN),
    **dict.fromkeys(("Dropout", "dropout", "Dropout2d"), "use ex.train.Dropout, in a module"),
    "RNN": "use ex.train.LSTM or ex.train.GRU",
    **dict.fromkeys(
        ("Conv2d", "Conv2D"), "use ex.conv2d(x, filters), or ex.layers.Conv2d, which can be a node like ex.train.Linear"
    ),
    **dict.fromkeys(("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "BatchNormalization"), "use ex.train.BatchNorm"),
    **dict.fromkeys(("LayerNorm", "Flatten", "MaxPool2d", "Softmax", "Sigmoid", "Tanh", "GELU", "SiLU"), _NODES),
    **dict.fromkeys(("MaxPooling2D", "AvgPool2d", "GroupNorm", "RMSNorm"), _NODES),
    "ReLU": "use ex.relu, as in module.add_node(ex.relu)",
}
_TRAINING = {
    **dict.fromkeys(("cross_entropy", "CrossEntropyLoss"), "use ex.nll_loss, or ex.train.CrossEntropy in a module"),
    "NLLLoss": "use ex.nll_loss, or ex.train.NegativeLogLikelihood, of probabilities, in a module",
    **dict.fromkeys(("mse_loss", "MSELoss"), "use ex.mean((x - y) ** 2), or ex.train.MeanSquaredError in a module"),
    "BCELoss": "use ex.train.BinaryCrossEntropy",
    "BCEWithLogitsLoss": "use ex.train.BinaryCrossEntropy(logits=True)",
    **dict.fromkeys(("SGD", "Adam", "AdamW", "RMSProp", "Adagrad"), "use ex.train.{name}"),
    "RMSprop": "use ex.train.RMSProp",
    "TensorDataset": "use ex.train.ArrayDataset(images, labels)",
    "DataLoader": "use ex.train.DataLoader",
    **dict.fromkeys(("CosineAnnealingLR", "CosineDecay"), "use ex.train.Cosine(base, steps=…) as the optimizer's rate"),
    "StepLR": "use ex.train.Step(base, size=…, gamma=…) as the optimizer's rate",
    **dict.fromkeys(("ExponentialLR", "ExponentialDecay"), "use ex.train.Exp(base, gamma=…) as the optimizer's rate"),
    "ReduceLROnPlateau": "use optimizer.rate = 0.001 between steps",
    "lr_scheduler": "pass a learning-rate policy as the rate: ex.train.Adam(ex.train.Cosine(0.01, steps=1000))",
    "clip_grad_norm_": "use clip_norm=1.0 of the optimizer",
}
WORDS: Mapping[str, str] = {
    **_VALUES,
    **_GRADIENTS,
    **_DTYPES,
    **_CREATION,
    **_SHAPES,
    **_INDEXING,
    **_ARITHMETIC,
    **_PROGRAMS,
    **_LAYERS,
    **_TRAINING,
}
"""name → advice, in which ``{name}`` is replaced by the name"""


def advice(name: str) -> str:
    """Return what to write instead of another library's name, or "" if the name is not known."""
    if name in WORDS:
        return WORDS[name].format(name=name)
    # torch's operations in place: add_, fill_ and others
    return _IMMUTABLE if name.endswith("_") and name[0] != "_" else ""


def option(name: str, known: Collection[str]) -> str:
    """Return the option in ``known`` that corresponds to another library's option, or "" if there is none."""
    return next((each for each in OPTIONS.get(name, ()) if each in known), "")
