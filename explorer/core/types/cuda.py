"""CUDA devices, by CuPy, which is imported when one is asked for: ``ex.device("cuda")``, or ``ex.device("cuda:1")``.

A device like a user's own (device.py): the core has no other code for GPUs but kernels of fused chains
(run/kernels/compiled_chain.py). CuPy's arrays take NumPy's functions, so that operations need no second kernel.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.core.argument_checks import check_type
from explorer.core.errors import StateError
from explorer.core.types.device import Device

_logger = logging.getLogger("explorer.device")
INSTALL = "pip install 'explorer-graphs[cuda]' ([cuda13] for CUDA 13), on a machine with an NVIDIA GPU and its driver"


class Cuda(Device):
    """NVIDIA GPU. Arrays are CuPy's, on which NumPy's functions compute; memory is of CuPy's pool."""

    __slots__ = ("_cupy", "number")
    addressable = False
    runs_numpy = True
    number: int
    """the GPU's, as the driver counts them"""

    def __init__(self, name: str, number: int, cupy: Any) -> None:
        super().__init__(name)
        self.number, self._cupy = number, cupy

    def new(self, nbytes: int) -> Any:
        """Return ``nbytes`` bytes of uninitialised memory, a CuPy array; CuPy's pool keeps it for others afterwards."""
        return self.empty((nbytes,), np.dtype(np.uint8))

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return an uninitialised CuPy array."""
        with self.switch_to_device():
            return self._cupy.empty(shape, dtype)

    def write(self, array: Any, values: NDArray[Any]) -> None:
        """Copy NumPy's values to the GPU."""
        with self.switch_to_device():
            array.set(np.asarray(values, order="C"))

    def read(self, array: Any) -> NDArray[Any]:
        """Copy an array to NumPy's memory, after all that was started before."""
        with self.switch_to_device():
            values: NDArray[Any] = self._cupy.asnumpy(array)
        return values

    def copy(self, source: Any, target: Any, to: Device | None = None) -> None:
        """Copy an array to this or another device; between GPUs the values do not pass through NumPy's memory."""
        if (to is None or isinstance(to, Cuda)) and (source.shape, source.dtype) == (target.shape, target.dtype):
            with (to or self).switch_to_device():
                target[...] = source
        else:
            super().copy(source, target, to)

    def switch_to_device(self) -> Any:
        """Return a context in which CuPy works on this GPU."""
        return self._cupy.cuda.Device(self.number)

    def elementwise_kernel(
        self, operands: Sequence[np.dtype[Any]], result: np.dtype[Any], source: str
    ) -> Callable[..., Any]:
        """Return a kernel that computes each element by C statements: a0, a1, … are the operands', ``out`` is its own.

        It is called with the arrays of the operands, which broadcast, and that of the result. Products are rounded
        before they are added, as separate operations are.
        """
        parameters = ", ".join([f"{dtype.name} a{number}" for number, dtype in enumerate(operands)])
        compiled: Callable[..., Any] = self._cupy.ElementwiseKernel(
            parameters, f"{result.name} out", source, "explorer_chain", options=("--fmad=false",)
        )
        return compiled

    def finish(self) -> bool:
        """Wait for the GPU; where a kernel failed, log the reason to "explorer.device" and return False."""
        try:
            self._cupy.cuda.Device(self.number).synchronize()
        except self._cupy.cuda.runtime.CUDARuntimeError as error:
            _logger.error("%s: %s", self.name, error)
            return False
        return True

    def rng(self, seed: int) -> Any:
        """Return CuPy's generator, which draws on the GPU."""
        check_type(seed, "seed", int, "a whole number", "seed=0")
        with self.switch_to_device():
            return self._cupy.random.Generator(self._cupy.random.Philox4x3210(seed))


def cuda_device(name: str) -> Device:
    """Declare the GPU that ``cuda`` or ``cuda:1`` names; raises StateError where CuPy or the GPU is not there."""
    number = int(name.partition(":")[2] or 0)
    try:
        cupy = import_module("cupy")
    except ImportError as error:
        raise StateError(f"the device {name!r}: {error}", rule="CuPy must be installed", fix=INSTALL) from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise StateError(f"the device {name!r}: {error}", rule="CUDA must find a GPU", fix=INSTALL) from error
    if number >= count:
        raise StateError(
            f"the device {name!r}",
            rule=f"the number must be that of a GPU of this machine, which has {count}",
            fix='ex.device("cuda")',
        )
    return Cuda(name, number, cupy)
