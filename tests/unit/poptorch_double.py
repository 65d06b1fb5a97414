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
import sys
import types
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


class Error(Exception):
    """PopTorch's own error."""


class _Training:
    gradient_accumulation = 1

    def gradientAccumulation(self, count: int) -> _Training:
        self.gradient_accumulation = count
        return self


class Options:
    """Can't be changed any more once a model has them."""

    device_iterations = 1
    replication_factor = 1
    _frozen = False

    def __init__(self) -> None:
        self.Training = _Training()

    def __setattr__(self, name: str, value: Any) -> None:
        if self._frozen:
            raise AttributeError("Can't modify frozen Options")
        object.__setattr__(self, name, value)

    def deviceIterations(self, count: int) -> Options:
        self.device_iterations = count
        return self

    def replicationFactor(self, count: int) -> Options:
        self.replication_factor = count
        return self

    def _micro_batches(self) -> int:
        return self.device_iterations * self.replication_factor * self.Training.gradient_accumulation


_on_ipu = False
_marked: list[tuple[Tensor, Tensor]] = []


def identity_loss(x: Tensor, reduction: str) -> Tensor:
    assert reduction in ("sum", "mean", "none"), "Unsupported reduction type!"
    out = {"sum": x.sum, "mean": x.mean, "none": lambda: x * 1}[reduction]()
    if _on_ipu:
        _marked.append((x, out))
    return out


def trainingModel(model: nn.Module, options: Options | None = None, optimizer: Any = None) -> PoplarExecutor:
    return PoplarExecutor(model, Options() if options is None else options, optimizer)


class PoplarExecutor:
    """What trainingModel returns: call it with a batch."""

    def __init__(self, model: nn.Module, options: Options, optimizer: Any) -> None:
        if getattr(model, "_wrapped_by_double", False):
            raise RuntimeError(
                "Model has already been wrapped in 'poptorch.trainingModel'. Call model.destroy() on the model to "
                "unwrap it before wrapping it again."
            )
        model._wrapped_by_double = True  # type: ignore[assignment]
        options._frozen = True
        self.model, self.options = model, options
        self._optimizer = torch.optim.SGD(model.parameters(), lr=0.01) if optimizer is None else optimizer
        self._device: nn.Module | None = None
        self._signature: list | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["model"], name)

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
            _record(copy.deepcopy(self._device), micro)
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
        outs = []
        self._steps.zero_grad()
        for batch in batches:
            out, loss = _forward(self._device, batch)
            if loss.requires_grad:
                (loss / len(batches)).backward()
            outs.append(out)
        self._steps.step()
        return outs

    def _anchored(self, results: list[list]) -> Any:
        """The outputs of the last micro-batch, without their history."""

        def detached(out: Any) -> Any:
            if isinstance(out, (tuple, list)):
                return type(out)(map(detached, out))
            out = out.detach()
            out.backward = _refuse_backward
            return out

        return detached(results[-1][-1])

    def copyWeightsToHost(self) -> None:
        assert self._device is not None, "the model was not compiled"
        with torch.no_grad():
            for host, device in zip(_state(self.model), _state(self._device)):  # noqa: B905
                host.copy_(device)

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


def _record(model: nn.Module, micro: list) -> None:
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
