"""Explorer's own operator types, with the names of Caffe2; importing this package registers them."""

from explorer.net.operators.caffe2 import arithmetic, collectives, fills, losses, nn, reshape, training, updates
from explorer.net.operators.caffe2.table import TABLE, net_operator

__all__ = [
    "TABLE",
    "arithmetic",
    "collectives",
    "fills",
    "losses",
    "net_operator",
    "nn",
    "reshape",
    "training",
    "updates",
]
