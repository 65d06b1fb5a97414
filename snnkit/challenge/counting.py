"""Every spike of every neuron, counted by hooks."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn


class RuleError(ValueError):
    """A network that can't take part: what it did, and what the rules ask for."""


class SpikeCounter:
    """While it is open, counts what neurons fire, sample by sample; refuses what is not 0 or 1.

    Args:
        neurons: name -> module that returns (spikes [T, B, ...], state), or is called with parts of a sequence.
        keep: whether the spikes themselves are kept, too.
    """

    def __init__(self, neurons: Mapping[str, nn.Module], *, keep: bool = False) -> None:
        self.neurons = neurons
        self.counts: dict[str, Tensor] = {}
        self.trains: dict[str, list[Tensor]] = {name: [] for name in neurons}
        self._keep = keep
        self._handles: list[Any] = []

    def __enter__(self) -> SpikeCounter:
        for name, neuron in self.neurons.items():
            self._handles.append(neuron.register_forward_hook(self._hook(name)))
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for handle in self._handles:
            handle.remove()

    def per_sample(self, batch: int, device: torch.device) -> Tensor:
        """Spikes of all neurons for each sample [B]."""
        return sum(self.counts.values(), torch.zeros(batch, device=device))

    def fired(self, steps: int) -> list[Tensor]:
        """What was fired, [T, B, N] for each use of a layer; it may see a sequence in parts, or serve in two places."""
        found = []
        for parts in self.trains.values():
            flat = [part.flatten(2) if part.dim() > 2 else part[..., None] for part in parts]
            whole = sum(len(part) for part in flat) == steps
            found += [torch.cat(flat)] if whole else [part for part in flat if len(part) == steps]
        return found

    def _hook(self, name: str) -> Any:
        def hook(neuron: nn.Module, args: tuple, result: Any) -> None:
            spikes = (result[0] if isinstance(result, tuple) else result).detach()
            _check_spikes(f"{name} ({type(neuron).__name__})", spikes)
            each = spikes.float().sum(0).flatten(1).sum(1) if spikes.dim() > 2 else spikes.float().sum(0)
            before = self.counts.get(name)
            if before is not None and before.shape != each.shape:
                raise RuleError(
                    f"{name} must keep the samples in dimension 1, but it saw batches of {len(before)} and {len(each)}"
                )
            self.counts[name] = each if before is None else before + each
            if self._keep:
                self.trains[name].append(spikes)

        return hook


def _check_spikes(who: str, spikes: Tensor) -> None:
    if spikes.dim() < 2:
        raise RuleError(f"{who} must fire spikes [T, B, ...], but what it gave has the shape {list(spikes.shape)}")
    wrong = (spikes != 0) & (spikes != 1)
    if wrong.any():
        value = float(spikes[wrong][0])
        kind = "NaN: weights or state are broken" if value != value else f"{value:.4g}: a spike is 0 or 1, not graded"
        raise RuleError(f"{who} must fire spikes, but it fired {kind}")
