"""Training on several workers: shards of a batch, summed gradients, one update (Caffe2: Parallelize).

A step has the phases of Caffe2, each a box of the recording. First, a batch is split into shards. The forward and
backward pass of each shard is a single call, which one worker runs. In the all-reduce phase, workers add gradients
pairwise. The update runs in this process, which has the only copy of the parameters and the optimizer's state. So if a
worker or the scheduler is lost, the weights of the last complete step remain, and can be saved or trained further.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from types import TracebackType
from typing import Any, Self

import numpy as np

from explorer.core.argument_checks import check_integer, check_type
from explorer.core.errors import OperandError, StateError
from explorer.core.ir.expr import Expr
from explorer.core.ir.recording_context import scope
from explorer.core.tracing.decorator import Function
from explorer.core.types.device import cpu
from explorer.core.types.tensor_type import Array
from explorer.gradients import grad
from explorer.ops.elementwise.unary import absolute
from explorer.ops.manipulation.concat import concatenate
from explorer.plan.options import Options
from explorer.plan.passes import Inline
from explorer.record.reasons import counted_text
from explorer.run.execution.executors import RegisteredExecutor, run_spread
from explorer.run.execution.observer import Observer
from explorer.run.execution.program import Program
from explorer.run.runtime.timing import Timing
from explorer.run.workers.workers import Workers
from explorer.train.compiled import Compiled, parameter
from explorer.train.layers.training_layers import Part, Training, step_operand
from explorer.train.module import Module, StepGradients, TrainingStep

_SHARD, _SUM = "gradients_of_shard", "sum_of_gradients"
"""names of two functions, each call of which one worker runs as a whole"""
OPTIONS: dict[str, Any] = {"without": ("batch",), "inline": Inline(whole=(_SHARD, _SUM))}
"""plan options of a step: shards are not batched together again"""
_TOLERANCE = 200
"""difference between the two losses, in units of rounding of their dtype, above which a loss is not the mean of its
samples
"""
_NOISE = 64
"""difference between losses of one batch that rounding may cause, in units of rounding of the largest output"""


class Parallel:
    """Training of a module on workers: ``with ex.parallelize(module, workers=2): module.fit(…)``."""

    def __init__(self, module: Module, workers: Workers, shards: int, owned: bool) -> None:
        self.module, self.workers, self.shards = module, workers, shards
        self._owned = owned
        self._previous_always, self._lost_before = workers.always, len(workers.lost)
        workers.always = True
        module.set_step(partial(ParallelStep, self))

    @property
    def lost(self) -> list[str]:
        """Addresses of workers that were lost during training."""
        return self.workers.lost[self._lost_before :]

    def close(self) -> None:
        """Train the module locally again, and end workers that were started for this training."""
        self.module.set_step(TrainingStep)
        self.workers.always = self._previous_always
        if self._owned:
            self.workers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<training of {self.module.name!r} in {counted_text(self.shards, 'shard')} on {self.workers!r}>"


def parallelize(
    module: Module, workers: Workers | int | str | None = None, *, shards: int | None = None, **settings: Any
) -> Parallel:
    """Train a module on several workers.

    ``train_on`` and ``fit`` distribute each batch until the returned object is closed. ``workers`` is a number of
    processes on this machine, the address of a Dask scheduler, or open ``ex.Workers``; ``settings`` are options of
    ``ex.Workers``. Each batch is split into ``shards`` parts, by default one per worker. The weights depend bitwise on
    ``shards``, but not on the number of workers. If workers are lost, the others take over.

    The batch loss must be the (weighted) mean or sum of its samples' losses, as in ``ex.train``; the first step for
    each batch type checks this. Raises StateError for a module that is not attached or has another kind of loss,
    OperandError if there are fewer samples than shards, and RunError if the scheduler stops or has no workers; the
    module then has the weights of the last complete step.
    """
    check_type(module, "module", Module, "a module", 'ex.train.Module("digits", …)')
    if not module.is_attached:
        raise StateError(
            f"parallelize of the module {module.name!r}, which is not attached",
            rule="loss, optimizer, nodes and attach() must come first",
            fix="module.attach()",
        )
    if not module.require_loss().averages_samples:
        raise StateError(
            f"parallelize of the module {module.name!r}, whose loss is {module.require_loss()!r}",
            rule="the loss of a batch must be the mean or the sum of its samples' losses (averages_samples)",
            fix="train this module here, or use a loss of ex.train",
        )
    for layer in module.training_layers:
        if layer.mixes_samples:
            raise StateError(
                f"parallelize of the module {module.name!r}, which has the layer {layer!r}",
                rule=f"no layer may mix samples, but {type(layer).__name__} normalizes over the whole batch",
                fix="train this module here, or normalize each sample: module.add_node(ex.layer_norm)",
            )
    if shards is not None:
        shards = check_integer(shards, "shards", "shards=4", 1)
    owned = not isinstance(workers, Workers)
    opened = workers if isinstance(workers, Workers) else Workers(workers, **settings)
    # Dask replaces workers that died, so there may be none for a moment.
    return Parallel(module, opened, shards or len(opened) or len(opened.ready()), owned)


class ParallelStep(TrainingStep):
    """Training step whose shards run on workers."""

    options = OPTIONS

    def __init__(self, parallel: Parallel, module: Module, *types: Any) -> None:
        if module.device is not cpu:
            raise StateError(
                f"training of the module {module.name!r}, which is on {module.device.name}, on several workers",
                rule="workers compute on cpu, so the module must be there",
                fix="module.to_device(ex.cpu)",
            )
        self._parallel = parallel
        self._is_checked = False
        super().__init__(module, *types)

    def parameter_operands(self, module: Module) -> dict[str, Expr]:
        """Record an operand for each parameter, by name, outside all boxes, because each shard records the layers
        again."""
        return {name: parameter(parameter_.type, name) for name, parameter_ in module.parameters.items()}

    def gradients(
        self,
        value: Expr,
        label: Expr,
        operands: Mapping[str, Expr],
        trained: Mapping[str, Expr],
        training: Training | None,
    ) -> StepGradients:
        """Record the output, the loss and the gradients of each shard, and their sum."""
        module, count = self._module, self._parallel.shards
        axis = 0 if module.samples == "first" else -1
        samples = value.shape[axis]
        if samples < count:
            raise OperandError(
                f"a batch of {counted_text(samples, 'sample')} in {counted_text(count, 'shard')}",
                rule="each shard must have at least one sample",
                fix=f"larger batches, or ex.parallelize(…, shards={samples})",
            )
        self.check_trained()
        names = [*operands]
        functions: dict[Part, Function[..., Any]] = {}
        """samples of a shard → its function; if positions in the batch do not matter, shards of equal size share one
        function
        """
        step = [] if training is None else [training.step]
        add_shards = Function(_sum, _SUM)
        # Shard sizes differ by at most one. They, and therefore the weights' bits, do not depend on the workers.
        bounds = [samples * index // count for index in range(count + 1)]
        sums: list[tuple[Expr, ...]] = []
        outputs: list[Expr] = []
        for index, (first, last) in enumerate(pairwise(bounds)):
            with scope("input"):
                cut = [_samples(part, first, last, axis) for part in (value, label)]
            with scope(f"shard {index + 1}"):
                part = Part(first, last, samples) if step else Part(0, last - first, samples)
                if part not in functions:
                    functions[part] = _gradients(module, names, [*trained], part)
                output, *shard_results = functions[part](*cut, *operands.values(), *step)
            outputs.append(output)
            sums.append(tuple(shard_results))
        with scope("all-reduce"):
            # Neighbours are added in order, so the rounding is the same for any number of workers.
            while len(sums) > 2:
                pairs = zip(sums[::2], sums[1::2], strict=False)
                odd = [sums[-1]] if len(sums) % 2 else []
                sums = [*[tuple(add_shards(*left, *right)) for left, right in pairs], *odd]
            # The last addition runs in this process, because its result is needed here.
            loss, *gradients = sums[0] if len(sums) == 1 else [x + y for x, y in zip(*sums, strict=True)]
            if len(gradients) > len(trained):
                # A mean is divided by the weight of the whole batch, which is known only here.
                *gradients, weight = gradients
                loss, *gradients = [total / weight for total in (loss, *gradients)]
        with scope("output"):
            output = outputs[0] if count == 1 else concatenate(outputs, axis)
        return StepGradients(output, loss, gradients)

    def execution(self) -> tuple[RegisteredExecutor, Options]:
        """Return an executor that uses the workers, and the plan's options."""
        executor = RegisteredExecutor(partial(_run_on_workers, self._parallel.workers), 1)
        return executor, Options(**{"kernels": self._module.kernels, **self.options})

    def check(self, value: Any, label: Any, output: Any, loss: Array) -> None:
        """Raise OperandError, before anything is updated, unless the first loss equals the loss of the whole batch."""
        super().check(value, label, output, loss)
        if self._is_checked:
            return
        module = self._module
        operands = {name: parameter(parameter_.type, name) for name, parameter_ in module.parameters.items()}
        step = step_operand(cpu)
        recorded = module.record(self._value, operands, Training(step, module.samples))
        program = Compiled(
            [module.record_loss(recorded, self._label), absolute(recorded).max()],
            [self._value, self._label, *operands.values(), step],
        )
        iteration = module.require_optimizer().iteration
        expected, largest = program(
            value, label, *[parameter_.array for parameter_ in module.parameters.values()], iteration
        )
        # The tolerance is in units of rounding, because a weighted mean may differ from the mean of its shards by only
        # one part in a thousand.
        rounding = np.finfo(module.dtype).eps
        samples = len(label) if module.samples == "first" else label.shape[-1]
        terms = samples if module.require_loss().reduction == "sum" else 1
        noise = _NOISE * rounding * max(1.0, float(largest)) * terms
        if not np.isclose(loss, expected, rtol=_TOLERANCE * rounding, atol=noise, equal_nan=True):
            raise OperandError(
                f"the loss {float(loss):g} of {counted_text(self._parallel.shards, 'shard')} of a batch "
                f"whose loss is {float(expected):g}",
                rule="the loss of a batch must be the mean of its samples' losses, or their sum with "
                "reduction='sum'; no layer may mix samples",
                fix="train this module here, or use a loss of ex.train",
            )
        self._is_checked = True


def _run_on_workers(workers: Workers, program: Program, watch: Observer | None) -> Timing:
    return run_spread(program, watch, workers)


def _samples(value: Expr, first: int, last: int, axis: int) -> Expr:
    return value[first:last] if axis == 0 else value[..., first:last]


def _gradients(module: Module, names: list[str], trained: list[str], shard: Part) -> Any:
    """Return the function of a shard, which computes its output, loss, gradients and weight."""

    fraction = (shard.last - shard.first) / shard.whole

    def gradients_of_shard(value: Expr, label: Expr, *operands: Expr) -> tuple[Expr, ...]:
        operands_by_name, step = dict(zip(names, operands, strict=False)), operands[len(names) :]
        training = Training(step[0], module.samples, shard) if step else None
        output = module.record(value, operands_by_name, training)
        with scope("loss"):
            loss, weight = module.record_shard(output, label, fraction)
        return (
            output,
            loss,
            *grad(loss, [operands_by_name[name] for name in trained]),
            *([] if weight is None else [weight]),
        )

    return Function(gradients_of_shard)


def _sum(*parts: Expr) -> tuple[Expr, ...]:
    half = len(parts) // 2
    return tuple([x + y for x, y in zip(parts[:half], parts[half:], strict=True)])
