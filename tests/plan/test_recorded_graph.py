import numpy as np

import explorer as ex
from explorer.plan.planner import plan, watching


@ex.function
def layer(x):
    return ex.tanh(x * 2.0) + 1.0


def test_the_first_graph_of_a_block_is_reported_before_its_passes():
    """Function bodies and later plans, inside or after the block, are not reported."""
    seen = []
    with watching(lambda graph: seen.append(([stage.name for stage in graph.stages], len(graph.live)))):
        first = plan([layer(layer(ex.tensor(np.ones(3))))])
        plan([ex.tanh(ex.tensor(np.ones(3)))])
    plan([ex.tanh(ex.tensor(np.ones(3)))])
    assert seen == [(["recorded"], len(first.graph.recorded))]
