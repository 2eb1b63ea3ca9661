"""Explorer's own operator types, named as Caffe2 names them; importing this package fills their table."""

from explorer.net.dialect import arithmetic, arrangement, fills, losses, neural
from explorer.net.dialect.table import TABLE, net_operator

__all__ = ["TABLE", "arithmetic", "arrangement", "fills", "losses", "net_operator", "neural"]
