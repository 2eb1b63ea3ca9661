"""Pages that map the names of MetaNN, Caffe2, CDNN and InferFramework to Explorer's names."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import explorer as ex
from explorer import layers
from explorer.names import SYSTEMS, dotted, spellings

ASSETS = Path(__file__).parents[2] / "assets"

IDENTIFIERS = {
    "MetaNN": """
        Tensor Scalar Vector Matrix ThreeDArray ZeroTensor ZeroData TrivialTensor TrivalTensor BiasVector
        DynamicData MakeDynamic Shape IsMatrix IsThreeDArray DataCategory CategoryTags CategoryTag ElementType
        DeviceType DeviceTag CPU Operation OpTag OpTags OperandContainer PolicyContainer IsValidOper AddWithNum
        ReduceSum SoftmaxGrad Add Subtract InputPortSet OutputPortSet LayerPortSet LayerInMap LayerKV NullParameter
        MakeLayer MakeTrainLayer MakeInferLayer ParamPolicy ParamType Initializer VarScaleFillerPolicy Distribute
        PNormVarScale PUniformVarScale ValuePolicyObj TypePolicyObj ValuePolicyTemplate TypePolicyTemplate PUpdate
        PNoUpdate PUpdateIs PFeedbackOutput PNoFeedbackOutput PRowVecInput PolicySelect FeedbackPolicy VarTypeDict
        Create Set Init LoadWeights SaveWeights GradCollect NeutralInvariant FeedForward FeedBackward LayerInit
        LayerLoadWeights LayerSaveWeights LayerGradCollect LayerNeutralInvariant LayerFeedForward LayerFeedBackward
        Sublayer InConnect InternalConnect OutConnect ComposeKernel SubPolicyContainer RootLayer AddLayer DotLayer
        ParamSourceLayer WeightLayer Evaluate EvalRegister EvalPlan Eval Data OperSeq OperSeq_ OperCalAlgoChain
        TailCalculator EvalItem EvalGroup PPassPolicy DataOpTest LayerTest OtherTests
    """,
    "Caffe2": """
        Context New Delete SwitchToDevice FinishDeviceComputation CopyBytes Copy CUDAContext Tensor dims TypeMeta
        Make Blob Operator OperatorDef RunOnDevice Input Output DBExists Load Save Checkpoint CreateDB DBReader
        FillerOp UniformFill UniqueUniformFill ConstantFill GaussianFill Allreduce Broadcast NCCLAllreduce
        NCCLBroadcast Adagrad Adam MomentumSGD Registry OpSchema SimpleNet DAGNet OperatorNode children parents
        runtime_parent_count is_chain_start OpGraphNode visited_inputs num_orig_parents RunAt execution_chains
        AsyncDAGNet eventRecorded events Workspace protobuf AddGradientOperators GetBackwardPass
        _GenerateGradientsForForwardOp ModelHelper params params_to_grad Parallelize input_builder
        forward_pass_builder ValidateParams AllReduceGradients
    """,
    "CDNN": """
        Tensor shape stride Inplace Loss loss grad_loss Optim step Layer input_size output_size last_input
        last_output forward backward Module init add_node attach Dataset DataLoader len get free ReLU Linear
    """,
    "InferFramework": """
        Tensor rows cols channels size set_data empty index shapes raw_shapes data slice at padding fill ones rand
        show show_shapes reshape flatten transform clone raw_ptr matrix_raw_ptr values RuntimeGraph set_param_path
        set_bin_path param_path bin_path RuntimeOperator RuntimeOperand RuntimeAttribute RuntimeParameter
        get_weight_data clear_weight operators get_topo_queues ReverseTopo CreateLayer input_operands
        output_operators output_names Layer set_weights weights bias set_bias RegisterCreator layer_types
        CreateRegistry LayerRegistererWrapper ExpressionParser
    """,
}
"""identifiers in the descriptions of these systems"""


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("names_page", ASSETS / "names.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.spec("M-L1", "M-L8")
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_page_maps_every_name_of_a_system(pages: ModuleType, system: str) -> None:
    """There is one page for each system, generated from the code."""
    for name in pages.named(system):
        assert pages.found(name) is not None
    mapped = {each for entries in SYSTEMS[system].values() for theirs in entries for each in spellings(theirs)}
    assert {*IDENTIFIERS[system].split()} <= mapped
    assert pages.PAGES[system].read_text(encoding="utf-8") == pages.table(system), "run assets/names.py"


@pytest.mark.spec("M-L4")
def test_metanns_page_contains_ports_layers_policies_and_sublayers(pages: ModuleType) -> None:
    for port, kind in pages.known_ports().values():
        layer = pages.found(f"layers.{kind}")
        assert port in (*layer.inputs, *layer.outputs)
    assert pages.unnamed() == {"Conv2d", "Elementwise"}  # MetaNN has no convolution, and one class for each function
    text = pages.table("MetaNN")
    assert "| `ex.layers.Linear` | `weight`, `bias` |" in text
    assert "| `ex.layers.Recurrent` | `step` |" in text


def test_an_error_about_a_foreign_name_suggests_explorers_name() -> None:
    """Access names of MetaNN, Caffe2 and KuiperInfer in the package."""
    answers = {
        "Evaluate": "MetaNN's Evaluate is ex.evaluate here",
        "ReduceSum": "MetaNN's ReduceSum is ex.sum here",
        "DynamicData": "MetaNN's DynamicData is ex.make_dynamic here",
        "PNoUpdate": "MetaNN's PNoUpdate is ex.layers.PNoUpdate here",
        "RuntimeGraph": "InferFramework's RuntimeGraph is ex.Net here",
        "SimpleNet": "Caffe2's SimpleNet: executor='simple'",
    }
    for name, answer in answers.items():
        with pytest.raises(AttributeError, match=re.escape(answer)):
            getattr(ex, name)
    with pytest.raises(AttributeError, match=r"MetaNN's WeightLayer is ex\.layers\.Weight here"):
        getattr(layers, "WeightLayer")  # noqa: B009  # a type checker refuses the attribute
    with pytest.raises(AttributeError, match="near names: evaluate"):
        getattr(ex, "evaluat")  # noqa: B009  # as above
    with pytest.raises(AttributeError, match="near names: Linear"):
        getattr(layers, "Lnear")  # noqa: B009  # as above
    with pytest.raises(AttributeError, match="near names: Adam"):
        getattr(ex.train, "Adm")  # noqa: B009  # as above
    with pytest.raises(AttributeError, match=r"no attribute 'Nonsense'$"):
        getattr(layers, "Nonsense")  # noqa: B009  # as above
    assert dotted("a.b, c") == ["a.b", "c"]
