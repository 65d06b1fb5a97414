"""A model over more inputs than fit at once."""

from __future__ import annotations

import gc
import os
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .. import checks
from ..measure import peak_of
from ..neuron import Neuron
from ..tables import size_of
from .move import move
from .placement import check_module, device_of
from .usage import available, release_caches

# With "auto": samples to try first, and the most at once; larger batches gain nothing.
_PROBE, _MOST = 8, 1024


def batch_process(
    model: nn.Module,
    inputs: Tensor | Sequence[Any],
    fn: Callable[[nn.Module, Any], Any] | None = None,
    batch_size: int | str = "auto",
    *,
    dim: int = 0,
    out_dim: int = 0,
    progress: bool = True,
) -> Any:
    """``fn(model, batch)`` for all of ``inputs``, batch by batch, in order, without gradients and in eval mode.

    When memory runs out, the batch is halved (with a warning), caches are freed, and it goes on from where it was. The
    model is put back into the mode in which it was::

        rates = batch_process(net, images, lambda net, batch: net(encode.repeat(batch, 25))[0].mean(0))  # [N, 10]

    Args:
        model: the model; batches are moved to its device.
        inputs: a tensor with samples along ``dim``, or any sequence, of which ``fn`` gets slices.
        fn: from a batch to a tensor with its samples along ``out_dim``, to a tuple, list or dict of such tensors, or,
            for inputs that are not a tensor, also to a list with one entry per sample (which a list of that length is
            taken for). None: ``model(batch)``, and of an (out, state) the out.
        batch_size: samples at a time, or "auto": what fits into half of the free memory, estimated by a few samples.
        dim, out_dim: where samples lie in the inputs and results; 1 for sequences [T, B, ...].
        progress: show a bar.

    Returns:
        What ``fn`` returns, for all samples.

    Raises:
        MemoryError: a single sample is too much; says how much was needed, if PyTorch reports it. Or the results of all
            samples are.
        TypeError, ValueError: no samples, a spiking network that would take them for time, another kind of argument, a
            model on mixed devices; results that don't have a batch's samples along ``out_dim``.
    """
    check_module(model)
    if isinstance(inputs, (str, bytes)) or not isinstance(inputs, (Tensor, Sequence)):
        raise TypeError(f"inputs must be a tensor or a sequence of samples, but it is a {type(inputs).__name__}")
    if isinstance(inputs, Tensor) and not -inputs.dim() <= dim < inputs.dim():
        raise ValueError(f"dim must be a dimension of inputs {list(inputs.shape)}, but it is {dim}")
    checks.function("fn", fn, optional=True)
    if fn is None and dim == 0 and any(isinstance(module, Neuron) for module in model.modules()):
        raise ValueError(
            "fn must be given for a spiking network: it takes sequences [T, B, ...], whose dimension 0 is time. For "
            "images: lambda net, x: net(encode.repeat(x, 25))[0].sum(0); for sequences: dim=1, out_dim=1"
        )
    count = inputs.shape[dim] if isinstance(inputs, Tensor) else len(inputs)
    if not count:
        raise ValueError("inputs must have samples, but they have none")
    check_batch_size(batch_size)
    where = device_of(model) or (inputs.device if isinstance(inputs, Tensor) else torch.device("cpu"))
    run = _Run(model, inputs, fn or _output, where, dim, out_dim, count)
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            return run.all(batch_size, progress)
    finally:
        for module, training in modes.items():
            module.training = training


def check_batch_size(batch_size: Any) -> int | str:
    """An int of at least 1, or "auto"."""
    if isinstance(batch_size, str) and batch_size != "auto":
        raise TypeError(f"batch_size must be 'auto' or an integer, but it is {batch_size!r}")
    return batch_size if batch_size == "auto" else checks.integer("batch_size", batch_size, at_least=1)


class _Run:
    def __init__(self, model, inputs, fn, device: torch.device, dim: int, out_dim: int, count: int) -> None:
        self.model, self.inputs, self.fn, self.device = model, inputs, fn, device
        self.dim, self.out_dim, self.count = dim, out_dim, count

    def all(self, batch_size: int | str, progress: bool) -> Any:
        from tqdm.auto import tqdm

        results: list[tuple[Any, int]] = []
        hidden = not progress or os.environ.get("SNNKIT_HEADLESS") == "1"
        with tqdm(total=self.count, disable=hidden, unit="sample") as bar:
            size = min(self.affordable() if isinstance(batch_size, str) else batch_size, self.count)
            start = 0
            while start < self.count:
                stop = min(start + size, self.count)
                bar.set_postfix(batch=size, refresh=False)
                result, problem = self.attempt(start, stop)
                if problem is None:
                    self.check(result, stop - start)
                    results.append((result, stop - start))
                    bar.update(stop - start)
                    start = stop
                    continue
                release_caches(self.device)
                if stop - start == 1:
                    raise MemoryError(_too_large(self.device, problem))
                size = max(1, (stop - start) // 2)
                message = f"out of memory with {stop - start} samples at once; going on with {size}"
                warnings.warn(message, UserWarning, stacklevel=3)
        return self.together(results)

    def together(self, results: list[tuple[Any, int]]) -> Any:
        """Of (result, samples) of all batches."""
        if all(self.is_entries(result, size) for result, size in results):
            return [entry for result, _ in results for entry in result]
        for result, size in results:
            self.check(result, size, whole=False)
        try:
            return _together([result for result, _ in results], self.out_dim)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            reason = str(error).splitlines()[:1]
        raise MemoryError(
            f"all {self.count} samples are done, but their results do not fit twice, in batches and as a whole: let fn "
            f"return less, or on another device, or give fewer inputs. The device said: {' '.join(reason)}"
        )

    def is_entries(self, result: Any, size: int) -> bool:
        """Whether it is a list with one entry per sample."""
        return isinstance(result, list) and not isinstance(self.inputs, Tensor) and len(result) == size

    def attempt(self, start: int, stop: int) -> tuple[Any, str | None]:
        """(result, None), or (None, the error of the device)."""
        try:
            return self.fn(self.model, self.batch(start, stop)), None
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            # Only its text: with the error, everything on the stack of the failed call would stay alive.
            return None, str(error)

    def batch(self, start: int, stop: int) -> Any:
        if isinstance(self.inputs, Tensor):
            return move(self.inputs.narrow(self.dim, start, stop - start), self.device)
        # Samples may be views of all inputs, which must not be moved.
        return move(self.inputs[start:stop], self.device, share=False)

    def affordable(self) -> int:
        """Samples for which half of the free memory suffices."""
        free, samples = available(self.device), min(_PROBE, self.count)
        while free is not None:
            problem = None

            def probe(samples: int = samples) -> None:
                nonlocal problem
                _, problem = self.attempt(0, samples)

            peak = peak_of(probe, self.device)
            gc.collect()
            if problem is None:
                return max(1, min(free // 2 * samples // max(peak, 1), _MOST))
            if samples == 1:
                return 1  # which will fail again, with a message
            samples //= 2
        return min(64, self.count)

    def check(self, result: Any, size: int, whole: bool = True) -> None:
        """``whole``: it may be a list with one entry per sample."""
        if whole and self.is_entries(result, size):
            return
        if isinstance(result, Tensor):
            if not -result.dim() <= self.out_dim < result.dim() or result.shape[self.out_dim] != size:
                raise ValueError(
                    f"fn must return the {size} samples of its batch along dimension {self.out_dim} (out_dim), "
                    f"but it returned a tensor {list(result.shape)}"
                )
        elif isinstance(result, dict):
            for part in result.values():
                self.check(part, size, whole=False)
        elif isinstance(result, (tuple, list)) and all(isinstance(part, (Tensor, dict, tuple)) for part in result):
            for part in result:
                self.check(part, size, whole=False)
        elif not isinstance(result, list) or len(result) != size:
            kind = f"a list of {len(result)}" if isinstance(result, list) else f"a {type(result).__name__}"
            raise TypeError(
                f"fn must return tensors, tuples or dicts of them, or a list of {size} (one entry per sample), "
                f"but it returned {kind}"
            )


def _output(model: nn.Module, batch: Any) -> Any:
    result = model(batch)
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], Tensor):
        return result if isinstance(result[1], Tensor) else result[0]
    return result


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: PyTorch's own error, Python's, or the CPU allocator's."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    words = str(error)
    return "can't allocate memory" in words or "out of memory" in words


def _together(results: list[Any], dim: int) -> Any:
    first = results[0]
    if isinstance(first, Tensor):
        return torch.cat(results, dim)
    if isinstance(first, dict):
        return {key: _together([result[key] for result in results], dim) for key in first}
    if isinstance(first, (tuple, list)) and first and all(isinstance(part, (Tensor, dict, tuple)) for part in first):
        parts = [_together(list(part), dim) for part in zip(*results, strict=True)]
        return getattr(type(first), "_make", type(first))(parts)
    return [entry for result in results for entry in result]


def _too_large(device: torch.device, problem: str) -> str:
    """Of a single sample; with the bytes that the error reports."""
    needed = re.search(r"needed (\d+) bytes", problem)
    tried = re.search(r"[Tt]ried to allocate (?:about )?([\d.]+ ?[KMGT]?i?B|\d+ bytes)", problem)
    amount = ""
    if needed:
        amount = f": it needs more than {size_of(int(needed[1]))} ({needed[1]} bytes)"
    elif tried:
        amount = f": its last request was for {tried[1]}"
    return (
        f"a single sample does not fit on {device}{amount}, and a batch of one can't be halved. Use fewer time steps, "
        f"a smaller model or another device. The device said: {problem.splitlines()[0]}"
    )
