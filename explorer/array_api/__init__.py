"""Namespace of the Python array API standard, whose functions record expressions.

``x.__array_namespace__()`` returns this module, so libraries that support the standard can compute with expressions:

>>> x = ex.tensor([3.0, 4.0])
>>> xp = x.__array_namespace__()
>>> ex.evaluate(xp.sqrt(xp.sum(xp.pow(x, 2))))
array(5.)

`explorer.array_api.inspection.ABSENT` lists the functions of the standard that expressions cannot have, with
reasons. The extensions ``linalg`` and ``fft`` are absent.
"""

# The namespace is all functions of these modules.
# ruff: noqa: F403

from explorer.array_api.creation import *
from explorer.array_api.data_types import *
from explorer.array_api.elementwise import *
from explorer.array_api.inspection import __array_namespace_info__ as __array_namespace_info__
from explorer.array_api.limits import *
from explorer.array_api.manipulation import *
from explorer.array_api.products import *
from explorer.array_api.reductions import *

__array_api_version__ = "2024.12"
"""version of the standard"""

e = 2.718281828459045
inf = float("inf")
nan = float("nan")
newaxis = None
pi = 3.141592653589793
