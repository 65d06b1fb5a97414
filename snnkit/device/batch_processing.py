"""A model over more inputs than fit at once."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from snnkit import checks
from snnkit.device.placement import device_of, move_tensors_to_device
from snnkit.device.usage import available, empty_cache, evaluating
from snnkit.measure import peak_of
from snnkit.neuron import Neuron

# With "auto": samples to try first, and the most at once; larger batches gain nothing.
_PROBE, _MOST = 8, 1024


@checks.arguments
def batch_process(
    model: nn.Module,
    inputs: Tensor,
    fn: Callable[[nn.Module, Tensor], Any] | None = None,
    batch_size: int | str = "auto",
    *,
    dim: int = 0,
    out_dim: int = 0,
    progress: bool = True,
) -> Any:
    """``fn(model, batch)`` for all of ``inputs``, batch by batch, in order, without gradients and in eval mode.

    When memory runs out, it warns, halves the batch, frees caches, and goes on. At the end the model is in its former
    mode again::

        rates = batch_process(net, images, lambda net, batch: net(encode.repeat(batch, 25))[0].mean(0))  # [N, 10]

    Args:
        model: the model; batches are moved to its device.
        inputs: a tensor with samples along ``dim``.
        fn: from a batch to a tensor with its samples along ``out_dim``, or to a nest of tuples, lists and dicts of such
            tensors. None: ``model(batch)``; of a pair (out, state), only out.
        batch_size: samples at a time, or "auto": as many as fit into half of the free memory, estimated from a few
            samples.
        dim, out_dim: axis of the samples in the inputs and in the results; 1 for sequences [T, B, ...].
        progress: show a bar.

    Returns:
        The results of ``fn``, for all samples.

    Raises:
        MemoryError: a single sample is too large; the message is that of the device.
    """
    if not -inputs.dim() <= dim < inputs.dim():
        raise ValueError(f"dim must be a dimension of inputs {list(inputs.shape)}, but it is {dim}")
    if fn is None and dim == 0 and any(isinstance(module, Neuron) for module in model.modules()):
        raise ValueError(
            "fn must be given for a spiking network: it takes sequences [T, B, ...], whose dimension 0 is time. For "
            "images: lambda net, x: net(encode.repeat(x, 25))[0].sum(0); for sequences: dim=1, out_dim=1"
        )
    if not inputs.shape[dim]:
        raise ValueError("inputs must have samples, but they have none")
    check_batch_size(batch_size)
    run = _Run(model, inputs, fn or _output, device_of(model) or inputs.device, dim, out_dim)
    with evaluating(model):
        return run.all(batch_size, progress)


def check_batch_size(batch_size: Any) -> int | str:
    """An int of at least 1, or "auto"."""
    return batch_size if batch_size == "auto" else checks.integer("batch_size", batch_size, at_least=1)


class _Run:
    def __init__(self, model, inputs: Tensor, fn, device: torch.device, dim: int, out_dim: int) -> None:
        self.model, self.inputs, self.fn, self.device = model, inputs, fn, device
        self.dim, self.out_dim, self.count = dim, out_dim, inputs.shape[dim]

    def all(self, batch_size: int | str, progress: bool) -> Any:
        from tqdm.auto import tqdm

        results: list[Any] = []
        hidden = not progress or os.environ.get("SNNKIT_HEADLESS") == "1"
        with tqdm(total=self.count, disable=hidden, unit="sample") as bar:
            size = min(self.affordable() if isinstance(batch_size, str) else batch_size, self.count)
            start = 0
            while start < self.count:
                many = min(size, self.count - start)
                result, problem = self.attempt(start, many)
                if problem is None:
                    self.check(result, many)
                    results.append(result)
                    bar.update(many)
                    start += many
                    continue
                empty_cache(self.device)
                if many == 1:
                    raise MemoryError(
                        f"a single sample does not fit on {self.device}, and a batch of one can't be halved. Use fewer "
                        f"time steps, a smaller model or another device. The device said: {problem.splitlines()[0]}"
                    )
                size = many // 2
                warnings.warn(f"out of memory with {many} samples at once; going on with {size}", stacklevel=3)
        return tree_map(lambda *parts: torch.cat(parts, self.out_dim), *results)

    def attempt(self, start: int, many: int) -> tuple[Any, str | None]:
        """(result, None), or (None, the error of the device)."""
        try:
            batch = move_tensors_to_device(self.inputs.narrow(self.dim, start, many), self.device)
            return self.fn(self.model, batch), None
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            # Only its text: with the error, everything on the stack of the failed call would stay alive.
            return None, str(error)

    def affordable(self) -> int:
        """Number of samples that fit into half of the free memory."""
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

    def check(self, result: Any, size: int) -> None:
        for part in tree_leaves(result):
            checks.instance("a result of fn", part, Tensor, "a tensor, or a nest of them")
            if not -part.dim() <= self.out_dim < part.dim() or part.shape[self.out_dim] != size:
                raise ValueError(
                    f"fn must return the {size} samples of its batch along dimension {self.out_dim} (out_dim), "
                    f"but it returned a tensor {list(part.shape)}"
                )


def _output(model: nn.Module, batch: Any) -> Any:
    result = model(batch)
    is_out_and_state = isinstance(result, tuple) and len(result) == 2 and not isinstance(result[1], Tensor)
    return result[0] if is_out_and_state else result


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: PyTorch's own error, Python's, or the CPU allocator's."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    words = str(error)
    # The last is that of CUDA's libraries, such as CUBLAS_STATUS_ALLOC_FAILED.
    return any(known in words for known in ("can't allocate memory", "out of memory", "_STATUS_ALLOC_FAILED"))
