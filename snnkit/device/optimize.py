"""Train in less memory: the parts of ``optimize_memory_usage``, and what each saves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from snnkit import checks
from snnkit.device.memory_saving import MemorySaving, check_goes_on, check_over_time, left_alone
from snnkit.device.placement import check_together, device_of
from snnkit.device.usage import StepMemory, training_step
from snnkit.nn import Sequential, detach
from snnkit.tables import html_table, size_of, text_table

_HEAD = ("saves bytes", "held", "at the peak", "")


@dataclass(frozen=True)
class Item:
    """One way to save memory, and by how many bytes; None: not known without a sample."""

    name: str
    saved: int | None  # of those held between forward and backward
    peak: int | None  # at the peak of a training step
    note: str = ""  # what it costs, or why it does nothing here

    def cells(self) -> tuple[str, ...]:
        sizes = ["?" if size is None else size_of(size) for size in (self.saved, self.peak)]
        return (self.name, *sizes, self.note)


@dataclass(frozen=True)
class MemoryReport:
    """The result of ``optimize_memory_usage``; it prints as a table."""

    items: tuple[Item, ...]  #: as they were switched on; each counts what it saves beyond those before it
    before: StepMemory | None = None  #: of a training step, as measured; None without a sample
    after: StepMemory | None = None

    def __repr__(self) -> str:
        return "\n".join([*text_table(_HEAD, [item.cells() for item in self.items], always=3), self._total()])

    def _total(self) -> str:
        if self.before is None or self.after is None:
            return "give it an input, optimize_memory_usage(model, x), and each line is measured"
        factor = self.before.peak / max(self.after.peak, 1)
        return (
            f"peak of a training step: {size_of(self.before.peak)} → {size_of(self.after.peak)} "
            f"({factor:.2f} times less); held for backward: {size_of(self.before.held)} → {size_of(self.after.held)}"
        )

    def _repr_html_(self) -> str:
        return html_table(_HEAD, [item.cells() for item in self.items], [self._total()])


@checks.arguments
def optimize_memory_usage(
    model: nn.Module,
    sample: Tensor | None = None,
    *,
    recompute: bool = True,
    pack: bool = True,
    steps: int | None = None,
) -> MemoryReport:
    """Make ``model`` train in less memory, in place, with the same outputs and gradients.

    Parameters, names, ``state_dict`` and the way to call the model do not change. You may call it again with other
    choices, and ``restore_memory_usage`` undoes it. In each ``snnkit.nn.Sequential`` (the model itself or inside it):

    - ``pack``: a convolution or linear layer saves its input for backward. If that input is spikes of a neuron of this
        package, it is saved as bits: 1/32 of float32.
    - ``recompute``: neurons and the pooling after them run on some samples at a time, and neurons are computed again in
        backward (checkpointing over layers). So spikes at full resolution are not saved, and never alive all at once.
        Pooling in two dimensions saves at most a byte for each place.
    - ``steps``: run so many time steps at once, and compute each chunk of time again in backward (checkpointing over
        time). This costs a second forward pass of all layers. While gradients are computed, it replaces the two above.

    A model without such a ``Sequential`` does not change; ``packed_spikes`` works for any model. Under
    ``torch.compile`` and ``torch.func`` the model runs as before, because they save memory in ways of their own.
    Modules with hooks do not change, nor do neurons of your own whose step draws random numbers or mixes samples. The
    report names these.

    Args:
        model: to be changed.
        sample: an input [T, B, ...]: each part is measured on it, by a training step with and without the part. None:
            the savings are not known.
        recompute, pack, steps: as above.

    Raises:
        ValueError: ``steps`` with a batch norm that learns or has no running statistics (its mean is taken over all
            steps), or without a ``Sequential``; parts on several devices.
    """
    if steps is not None:
        checks.integer("steps", steps, at_least=1)
        check_over_time(model)
        if not _nets(model):
            what = "only that can be run some steps at a time"
            raise ValueError(f"steps needs a snnkit.nn.Sequential in the model: {what}")
    device_of(model)
    if sample is not None:
        check_together(model, sample, "sample")
    earlier = saving_parts(model)
    try:
        _apply(model, now := MemorySaving(recompute=False, pack=False))
        history = [None if sample is None else training_step(model, sample)]
        items = []
        for name, wanted, change in (
            ("spikes as bits", pack, {"pack": True}),
            ("neurons computed again, pooling by pieces", recompute, {"recompute": True}),
            (f"checkpointing every {steps} steps", steps is not None, {"steps": steps}),
        ):
            if wanted:
                _apply(model, now := replace(now, **change))
                history.append(None if sample is None else training_step(model, sample))
                before, after = history[-2:]
                held, peak = None, None
                if before is not None and after is not None:
                    held, peak = before.held - after.held, before.peak - after.peak
                items.append(Item(name, held, peak, _note(model, next(iter(change)))))
    except BaseException:
        # A sample that does not fit the model is no reason to undo what was enabled before.
        restore_memory_usage(model)
        for net in earlier:
            net.runner = earlier[net]
        raise
    return MemoryReport(tuple(items), history[0], history[-1])


@checks.arguments
def restore_memory_usage(model: nn.Module) -> nn.Module:
    """Undo ``optimize_memory_usage``; returns the model."""
    for net in saving_parts(model):
        net.runner = None
    return model


def saving_parts(model: nn.Module) -> dict[Sequential, MemorySaving]:
    """The parts of ``model`` that run in less memory, with their settings."""
    return {net: net.runner for net in _nets(model) if isinstance(net.runner, MemorySaving)}


def _nets(model: nn.Module) -> list[Sequential]:
    return [module for module in model.modules() if isinstance(module, Sequential)]


def _apply(model: nn.Module, settings: MemorySaving) -> None:
    restore_memory_usage(model)
    if settings == MemorySaving(recompute=False, pack=False):
        return
    parts = _nets(model)
    if settings.steps is not None:
        # The outermost only: checkpoints within checkpoints would compute the same again and again.
        inner = {id(m) for part in parts for m in part.modules() if m is not part}
        parts = [part for part in parts if id(part) not in inner]
    for part in parts:
        part.runner = settings


def _note(model: nn.Module, field: str) -> str:
    if field == "steps":
        return "costs a second forward pass"
    if not (nets := _nets(model)):
        return "needs a snnkit.nn.Sequential; not used here"
    return "; ".join(why for net in nets for why in left_alone(net)) if field == "recompute" else ""


@checks.arguments
def truncated(model: nn.Module, x: Tensor, steps: int, state: Any = None) -> Iterator[tuple[Tensor, Any]]:
    """Truncated backpropagation through time: run ``model`` on chunks of a few steps. Each chunk is cut from the graph
    of those before it, so memory holds one chunk of a sequence of any length::

        for out, state in device.truncated(net, x, steps=10):
            loss(out, y).backward()
        optimizer.step()

    The state passes from chunk to chunk, but gradients do not: they reach back at most ``steps`` steps. A batch norm
    that learns sees each chunk by itself.

    Args:
        model: called ``out, state = model(x, state)``.
        x: [T, B, ...]; T need not be a multiple of ``steps``.
        steps: of a chunk, at least 1.
        state: to start from; None: at rest.

    Yields:
        out [steps, B, ...] of a chunk, and the state after it, detached.
    """
    checks.integer("steps", steps, at_least=1)
    if x.dim() < 2 or not len(x):
        raise ValueError(f"x must be a sequence [T, B, ...], but its shape is {list(x.shape)}")

    def walk(state: Any) -> Iterator[tuple[Tensor, Any]]:
        for chunk in x.split(steps):
            out, state = model(chunk, state)
            check_goes_on(model, state)
            state = detach(state)
            yield out, state

    return walk(state)
