"""A double of PopTorch 3.4's interface, for tests on machines without it.

Written from its documentation and from the behaviour that its sources show (github.com/graphcore/poptorch, release 3.4,
MIT), not from its code. It computes on the CPU what an IPU would train, and refuses what PopTorch refuses:

- the forward pass is recorded once on tensors without values; reading one is an error;
- only what the forward pass's own operations differentiate to is a gradient: ``autograd.Function`` has no backward
  here and hooks don't run. (What PopART makes of such a function was never observed; that its backward is not used is
  all that the double claims.)
- exactly one final loss; parameters and buffers keep their address; shapes, dtypes and constants stay those of the
  first call; a batch is split into device iterations × gradient accumulation × replicas.

``install(monkeypatch)`` puts it in the place of ``poptorch``.
"""

from __future__ import annotations

import contextlib
import copy
import enum
import sys
import types
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import data

__version__ = "3.4.0+double"


class Error(Exception):
    """PopTorch's own error."""


class ReductionType(enum.Enum):
    Sum = 0
    Mean = 1
    NoReduction = 2


class OutputMode(enum.Enum):
    Final = 0
    EveryN = 1
    All = 2
    Sum = 3
    Default = 4


class HalfFloatCastingBehavior(enum.Enum):
    FloatDowncastToHalf = 0
    HalfUpcastToFloat = 1
    Default = 2


class DataLoaderMode(enum.Enum):
    Sync = 0
    Async = 1
    AsyncRebatched = 2


class _Frozen:
    """Options that can't be changed any more once a model or a loader has them."""

    _frozen = False

    def __setattr__(self, name: str, value: Any) -> None:
        if self._frozen and name != "_frozen":
            raise AttributeError("Can't modify frozen Options")
        object.__setattr__(self, name, value)

    def _set(self, name: str, value: Any) -> Any:
        setattr(self, name, value)
        return self


class _Training(_Frozen):
    gradient_accumulation = 1
    reduction = ReductionType.Mean

    def gradientAccumulation(self, count: int) -> _Training:
        return self._set("gradient_accumulation", count)

    def accumulationAndReplicationReductionType(self, reduction: ReductionType) -> _Training:
        return self._set("reduction", reduction)


class _Precision(_Frozen):
    partials = torch.float
    stochastic_rounding = False

    def setPartialsType(self, dtype: torch.dtype) -> _Precision:
        return self._set("partials", dtype)

    def enableStochasticRounding(self, enabled: bool) -> _Precision:
        return self._set("stochastic_rounding", enabled)

    def halfFloatCasting(self, behavior: HalfFloatCastingBehavior) -> _Precision:
        return self  # without effect since release 3.0


class Options(_Frozen):
    device_iterations = 1
    replication_factor = 1
    output_mode = OutputMode.Default
    ipu_model = False
    seed: int | None = None

    def __init__(self) -> None:
        self.Training = _Training()
        self.Precision = _Precision()

    def deviceIterations(self, count: int) -> Options:
        return self._set("device_iterations", count)

    def replicationFactor(self, count: int) -> Options:
        return self._set("replication_factor", count)

    def outputMode(self, mode: OutputMode) -> Options:
        return self._set("output_mode", mode)

    def useIpuModel(self, use: bool) -> Options:
        return self._set("ipu_model", use)

    def randomSeed(self, seed: int) -> Options:
        return self._set("seed", seed)

    def _freeze(self) -> None:
        for part in (self.Training, self.Precision, self):
            part._frozen = True

    def _micro_batches(self) -> int:
        return self.device_iterations * self.replication_factor * self.Training.gradient_accumulation


class DataLoader(data.DataLoader):
    """Batches as large as one call takes; the last one is dropped."""

    def __init__(self, options: Options, dataset: Any, batch_size: int = 1, shuffle: bool | None = None, **how: Any):
        how.setdefault("drop_last", True)
        how.pop("mode", None)
        options._freeze()
        super().__init__(dataset, batch_size * options._micro_batches(), shuffle, **how)


_on_ipu = False
_marked: list[tuple[Tensor, Tensor]] = []


def isRunningOnIpu() -> bool:
    return _on_ipu


def ipuHardwareIsAvailable(num_ipus: int = 1) -> bool:
    return False


def identity_loss(x: Tensor, reduction: str) -> Tensor:
    assert reduction in ("sum", "mean", "none"), "Unsupported reduction type!"
    out = {"sum": x.sum, "mean": x.mean, "none": lambda: x * 1}[reduction]()
    if _on_ipu:
        _marked.append((x, out))
    return out


def trainingModel(model: nn.Module, options: Options | None = None, optimizer: Any = None) -> PoplarExecutor:
    return PoplarExecutor(model, Options() if options is None else options, optimizer, training=True)


def inferenceModel(model: nn.Module, options: Options | None = None) -> PoplarExecutor:
    options = Options() if options is None else options
    assert options.Training.gradient_accumulation == 1, "gradient accumulation must be 1 in inference"
    return PoplarExecutor(model, options, None, training=False)


class PoplarExecutor:
    """What both of them return: call it with a batch."""

    def __init__(self, model: nn.Module, options: Options, optimizer: Any, training: bool) -> None:
        if getattr(model, "_wrapped_by_double", False):
            raise RuntimeError(
                "Model has already been wrapped in 'poptorch.trainingModel'. Call model.destroy() on the model to "
                "unwrap it before wrapping it again."
            )
        model._wrapped_by_double = True  # type: ignore[assignment]
        options._freeze()
        self.model, self.options, self.training = model, options, training
        self._optimizer = torch.optim.SGD(model.parameters(), lr=0.01) if optimizer is None else optimizer
        self._device: nn.Module | None = None
        self._signature: list | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["model"], name)

    def isCompiled(self) -> bool:
        return self._device is not None

    def __call__(self, *inputs: Any) -> Any:
        batches = self._split([x.detach() if isinstance(x, Tensor) else x for x in inputs])
        self._compile(inputs, batches[0])
        results = []
        for step in range(self.options.device_iterations):
            per_step = len(batches) // self.options.device_iterations
            results.append(self._iterate(batches[step * per_step : (step + 1) * per_step]))
        return self._anchored(results)

    def _compile(self, inputs: tuple, micro: list) -> None:
        signature = [(x.shape, x.dtype) if isinstance(x, Tensor) else x for x in inputs]
        if self._device is None:
            self._upload()
            _record(copy.deepcopy(self._device), micro, self.training)
            self._signature = signature
        assert self._signature is not None
        for i, (was, now) in enumerate(zip(self._signature, signature)):  # noqa: B905, as many as in the first call
            if was != now:
                kind = "Value" if not isinstance(was, tuple) else "Shape" if was[0] != now[0] else "Type"
                raise Error(f"{kind} mismatch for input {i}: expected {was}, got {now}")

    def _upload(self) -> None:
        self._device = copy.deepcopy(self.model)
        twins = dict(zip(self.model.parameters(), self._device.parameters()))  # noqa: B905
        groups = [{**group, "params": [twins[p] for p in group["params"]]} for group in self._optimizer.param_groups]
        self._steps = type(self._optimizer)(groups, **_settings(self._optimizer))

    def _split(self, inputs: list) -> list[list]:
        count = self.options._micro_batches()
        for i, x in enumerate(inputs):
            if isinstance(x, Tensor) and x.dim() and x.shape[0] % count:
                raise AssertionError(
                    f"Invalid batch dimension: In the input {i}, the batch dimension ({x.shape[0]}) must be a multiple "
                    f"of {count}"
                )
        parts = [x.chunk(count) if isinstance(x, Tensor) else [x] * count for x in inputs]
        return [list(batch) for batch in zip(*parts)]  # noqa: B905

    def _iterate(self, batches: list[list]) -> list:
        """One step of the optimiser on some micro-batches; their outputs."""
        if not self.training:
            with torch.no_grad():
                return [self._device(*batch) for batch in batches]
        outs = []
        self._steps.zero_grad()
        mean = self.options.Training.reduction is ReductionType.Mean
        for batch in batches:
            out, loss = _forward(self._device, batch)
            if loss.requires_grad:
                (loss / len(batches) if mean else loss).backward()
            outs.append(out)
        self._steps.step()
        return outs

    def _anchored(self, results: list[list]) -> Any:
        mode = self.options.output_mode
        if mode is OutputMode.Default:
            mode = OutputMode.Final if self.training else OutputMode.All
        kept = [results[-1][-1]] if mode is OutputMode.Final else [out for outs in results for out in outs]

        def joined(parts: list) -> Any:
            if isinstance(parts[0], (tuple, list)):
                return type(parts[0])(joined(list(same)) for same in zip(*parts))  # noqa: B905
            whole = torch.cat([p.reshape(1) if p.dim() == 0 else p for p in parts]) if len(parts) > 1 else parts[0]
            whole = whole.detach()
            whole.backward = _refuse_backward
            return whole

        return joined(kept)

    def copyWeightsToHost(self) -> None:
        assert self._device is not None, "the model was not compiled"
        with torch.no_grad():
            for host, device in zip(_state(self.model), _state(self._device)):  # noqa: B905
                host.copy_(device)

    def copyWeightsToDevice(self) -> None:
        self._upload()

    def setOptimizer(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        if self._device is not None:
            self._upload()

    def destroy(self) -> None:
        del self.model._wrapped_by_double
        self._device = None


def _refuse_backward(*args: Any, **kwargs: Any) -> None:
    raise RuntimeError("backward() cannot be called explicitly on outputs of a PopTorch model")


def _state(model: nn.Module) -> list[Tensor]:
    return [*model.parameters(), *model.buffers()]


def _settings(optimizer: Any) -> dict:
    """What a new optimiser of the class is made with, besides groups."""
    return {name: optimizer.defaults[name] for name in ("lr",) if name in optimizer.defaults}


def _record(model: nn.Module, micro: list, training: bool) -> None:
    """The forward pass without values, where PopTorch asks PyTorch's meta implementations for types and shapes."""
    before = {name: id(t) for name, t in (*model.named_parameters(), *model.named_buffers())}
    model(*micro)  # that addresses stay can be seen with values only
    for name, t in (*model.named_parameters(), *model.named_buffers()):
        if before.get(name) != id(t):
            raise Error(
                f"Buffer {name} is reassigned within the model when calling the forward method. This is not supported. "
                f"Consider using self.{name}.copy_(src) to copy data from a source tensor."
            )
    meta = model.to("meta")
    values = [x.to("meta") if isinstance(x, Tensor) else x for x in micro]
    try:
        with torch.device("meta"), _without_backward_of_functions():
            meta(*values)
    except RuntimeError as error:
        if "item()" in str(error):
            raise Error(
                "aten::_local_scalar_dense is only supported in eager mode, but was intercepted in a static graph"
            ) from error
        raise Error(str(error)) from error


# Losses that are known without a mark; each becomes one as if it had been marked.
_KNOWN = ("l1_loss", "mse_loss", "cross_entropy", "nll_loss", "binary_cross_entropy", "smooth_l1_loss")


class _KnownLosses(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") in _KNOWN:
            _marked.append((args[0], out))
        return out


def _forward(model: nn.Module, batch: list) -> tuple[Any, Tensor]:
    """What came out, and the one loss of the graph."""
    global _on_ipu
    _marked.clear()
    _on_ipu = True
    try:
        with _KnownLosses(), _without_backward_of_functions():
            out = model(*batch)
    finally:
        _on_ipu = False
    if not _marked:
        raise Error("Couldn't find a loss in graph!")
    outputs = [loss for _, loss in _marked]
    within = [_nodes(x) for x, _ in _marked]  # empty without a gradient
    final = []
    for i, loss in enumerate(outputs):
        later = zip(_marked[i + 1 :], within[i + 1 :])  # noqa: B905, equally long
        if not any(x is loss or loss.grad_fn in seen for (x, _), seen in later):
            final.append(loss)
    if len(final) != 1:
        raise Error(
            "Multiple independent losses found in graph. Graph must have one final loss. "
            "Wrap final graph loss in poptorch.identity_loss."
        )
    return out, final[0]


def _nodes(x: Tensor) -> list:
    nodes, waiting = [], [x.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in nodes:
            nodes.append(node)
            waiting.extend(following for following, _ in node.next_functions)
    return nodes


@contextlib.contextmanager
def _without_backward_of_functions():
    """``autograd.Function``s give values and no gradient meanwhile."""
    kept = torch.autograd.Function.__dict__["apply"]

    def apply(cls, *args):
        return kept.__get__(None, cls)(*(a.detach() if isinstance(a, Tensor) else a for a in args))

    torch.autograd.Function.apply = classmethod(apply)
    try:
        yield
    finally:
        torch.autograd.Function.apply = kept


def _optimizer(base: type) -> type:
    """One of PyTorch's that swallows what only an IPU has."""

    def __init__(self, params, *args, loss_scaling=1.0, accum_type=None, **kwargs):
        kwargs.pop("first_order_momentum_accum_type", None)
        base.__init__(self, params, *args, **kwargs)
        self.loss_scaling, self.accum_type = loss_scaling, accum_type

    return type(base.__name__, (base,), {"__init__": __init__})


optim = types.SimpleNamespace(
    **{name: _optimizer(getattr(torch.optim, name)) for name in ("SGD", "Adam", "AdamW", "RMSprop")}
)


def install(monkeypatch: Any) -> Any:
    """Put this module in the place of ``poptorch`` for one test."""
    module = sys.modules[__name__]
    monkeypatch.setitem(sys.modules, "poptorch", module)
    return module
