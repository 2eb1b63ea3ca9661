"""Recording functions of all operations, for type checkers and editors; importing this module registers them.

Each module of operations lists its functions in ``__all__``. At run time ``ex.tanh`` and ``ex.ops.tanh`` are looked up
in the registry, which also contains user-defined operations.
"""

# ruff: noqa: F403

from explorer.ops.control.cond import *
from explorer.ops.control.scan import *
from explorer.ops.control.while_loop import *
from explorer.ops.creation.constants import *
from explorer.ops.elementwise.arithmetic import *
from explorer.ops.elementwise.complex_parts import *
from explorer.ops.elementwise.erf import *
from explorer.ops.elementwise.hypot_copysign_gcd import *
from explorer.ops.elementwise.rounding_and_bits import *
from explorer.ops.elementwise.trigonometric_and_logs import *
from explorer.ops.elementwise.unary import *
from explorer.ops.linalg import wide_accumulation as _wide_accumulation  # noqa: F401  # extends other operations
from explorer.ops.linalg.einsum import *
from explorer.ops.linalg.inverse import *
from explorer.ops.linalg.matmul import *
from explorer.ops.linalg.tensordot import *
from explorer.ops.manipulation.concat import *
from explorer.ops.manipulation.device_copy import *
from explorer.ops.manipulation.gather import *
from explorer.ops.manipulation.one_hot import *
from explorer.ops.manipulation.padding import *
from explorer.ops.manipulation.put import *
from explorer.ops.manipulation.rearrange import *
from explorer.ops.manipulation.reshape import *
from explorer.ops.manipulation.slicing import *
from explorer.ops.mapping.fold_trees import *
from explorer.ops.mapping.map import *
from explorer.ops.nn.activation import *
from explorer.ops.nn.adaptive_pooling import *
from explorer.ops.nn.attention import *
from explorer.ops.nn.conv import *
from explorer.ops.nn.conv_transpose import *
from explorer.ops.nn.deform_conv import *
from explorer.ops.nn.fold_unfold import *
from explorer.ops.nn.nll_loss import *
from explorer.ops.nn.normalization import *
from explorer.ops.nn.pooling import *
from explorer.ops.nn.resize import *
from explorer.ops.nn.sampling import *
from explorer.ops.nn.shrinkage import *
from explorer.ops.nn.softmax import *
from explorer.ops.random import *
from explorer.ops.reduction.reduce import *
from explorer.ops.reduction.sorting import *
from explorer.ops.reduction.statistics import *
