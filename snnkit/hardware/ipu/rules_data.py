"""Rules of what goes in and out: the batch, the dtypes, the memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .report import Finding, MemoryEstimate, at
from .runs import Runs

# Above this share of the memory a warning: code, exchange buffers and temporaries are not in the estimate. Assumed.
CROWDED = 0.6
_INT32 = 2**31


def batch(inputs: list[Tensor], micro_batches: int, loader: Any) -> list[Finding]:
    """The batch must be the first dimension of every input, and divide into the micro-batches of a call."""
    found = []
    sizes = [x.shape[0] if x.dim() else 0 for x in inputs]
    shown = ", ".join(map(str, sizes))
    if 0 in sizes:
        which = sizes.index(0)
        shape = list(inputs[which].shape)
        what = f"input {which} has no batch to split: its shape is {shape}"
        return [Finding("batch", "error", what, "make the batch its first dimension")]
    if len(set(sizes)) > 1:
        severity = "error" if micro_batches > 1 else "warning"
        what = f"the inputs' first dimensions differ: {shown}; PopTorch splits every input along its first dimension"
        mend = "put the batch first: x.transpose(0, 1) of what has time first, or ipu.convert(net)"
        found.append(Finding("batch", severity, what, mend))
    elif sizes and sizes[0] % micro_batches:
        what = (
            f"a batch of {sizes[0]} can't be divided into {micro_batches} micro-batches (device iterations × gradient "
            'accumulation × replicas; "Invalid batch dimension")'
        )
        below = sizes[0] // micro_batches * micro_batches
        mend = f"use a multiple of {micro_batches}, such as {below or micro_batches} or {below + micro_batches}"
        found.append(Finding("batch", "error", what, mend))
    return found + _loader(loader, sizes[0] if sizes else 0)


def _loader(loader: Any, size: int) -> list[Finding]:
    if loader is None:
        return []
    batch_size = loader.batch_size
    if batch_size is None:
        what = "the loader makes batches of its own sizes, but an IPU's graph is made for one size"
        return [Finding("batch", "error", what, "give it batch_size and drop_last=True")]
    found = []
    try:
        count = len(loader.dataset)
    except TypeError:
        count = None
    if not loader.drop_last and (count is None or count % batch_size):
        last = "may be" if count is None else f"has {count % batch_size} of {batch_size} samples and is"
        what = f"the loader's last batch {last} smaller than the others, but an IPU's graph is made for one size"
        found.append(Finding("batch", "error", what, "use drop_last=True"))
    if batch_size != size:
        what = f"the loader's batches hold {batch_size} samples, the example {size}: the graph would be made for {size}"
        found.append(Finding("batch", "error", what, "check with a batch of the loader"))
    return found


def hard_coded_batch(runs: Runs, whole: int, micro: int) -> Finding:
    """For a model that runs on the whole batch and not on a micro-batch of it."""
    error = runs.real.error
    text = (str(error).splitlines() or [""])[0][:160]
    return at(
        runs.real.error_place,
        "batch",
        f"the model runs on the whole batch of {whole}, but not on a micro-batch of {micro}, which is what an IPU "
        f"gives it ({type(error).__name__}: {text})",
        "take the size from the input: x.flatten(1), x.view(x.shape[0], -1)",
    )


def dtypes(runs: Runs) -> list[Finding]:
    """float64 and what else an IPU has not; integers that need more than 32 bits."""
    found = []
    named = (*runs.model.named_parameters(), *runs.model.named_buffers())
    wide = [(path, t.dtype) for path, t in named] + [(f"input {i}", x.dtype) for i, x in enumerate(runs.inputs)]
    for path, dtype in wide:
        if _absent(dtype):
            found.append(Finding("dtypes", "error", f"{path} is {dtype}{_absent(dtype)}", _MEND))
    if not found:
        for op in runs.graph.operations:
            new = [t.dtype for t in op.outputs if _absent(t.dtype)]
            if new and not any(_absent(t.dtype) for t in op.inputs):
                text = f"{op.name} gives {new[0]}{_absent(new[0])}"
                found.append(at(op.place, "dtypes", text, _MEND))
    found += _large_integers(runs)
    for out in runs.graph.outputs:
        if out.dtype == torch.int64:
            what = "an output is int64; PopTorch hands it back as int32"
            found.append(Finding("dtypes", "warning", what, "nothing, if the values fit; else return it as a float"))
    return list({(f.what, f.where): f for f in found}.values())


_MEND = "use float32 (.float()), or float16 (.half()) throughout"


def _absent(dtype: torch.dtype) -> str:
    """Why an IPU does not compute in a dtype; empty if it does."""
    if dtype == torch.float64:
        return ", which an IPU computes in float32"
    if dtype == torch.bfloat16:
        return ": PopTorch documents float16 as its only 16-bit float"
    return ", which PopTorch does not know" if dtype.is_complex else ""


def _large_integers(runs: Runs) -> list[Finding]:
    for i, x in enumerate(runs.inputs):
        if _is_large(x):
            what = f"input {i} holds integers beyond 32 bits, but PopTorch makes int32 of int64"
            return [Finding("dtypes", "error", what, "split them, or number their values anew from 0")]
    for op in runs.real.operations:
        if any(_is_large(t) for t in op.outputs):
            what = f"{op.name} gives integers beyond 32 bits, but PopTorch makes int32 of int64"
            return [at(op.place, "dtypes", what, "stay below 2**31, or compute in float32")]
    return []


def _is_large(x: Tensor) -> bool:
    return x.dtype == torch.int64 and x.numel() > 0 and int(x.abs().max()) >= _INT32


def memory(
    runs: Runs, *, optimizer_states: int, gradient_accumulation: int, tiles: int, tile_memory: int
) -> tuple[MemoryEstimate, list[Finding]]:
    """Weights, gradients, optimiser and what autograd keeps, against the memory of the tiles."""
    parameters = list(runs.model.parameters())
    weights = sum(_bytes(t) for t in (*parameters, *runs.model.buffers()))
    trained = sum(_bytes(p) for p in parameters if p.requires_grad)
    estimate = MemoryEstimate(
        weights=weights,
        gradients=trained,
        optimizer=optimizer_states * trained,
        accumulation=trained if gradient_accumulation > 1 else 0,
        activations=runs.saved,
        transfer=sum(_bytes(t) for t in (*runs.inputs, *runs.graph.outputs)),
        tiles=tiles,
        tile_memory=tile_memory,
    )
    if estimate.share <= CROWDED:
        return estimate, []
    fits = estimate.share <= 1
    what = ("memory is short: " if fits else "it does not fit: ") + str(estimate)
    mend = "use smaller micro-batches (gradient accumulation), fewer steps, half precision, or several IPUs"
    return estimate, [Finding("memory", "warning" if fits else "error", what, mend)]


def _bytes(t: Tensor) -> int:
    return t.numel() * t.element_size()
