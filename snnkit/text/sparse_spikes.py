"""Spikes as a list of events: which neuron fired, step by step, and nothing about those that did not."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from snnkit import checks


@dataclass(frozen=True)
class SparseSpikes:
    """Spikes [T, ..., N] by the numbers of the neurons that fired, in compressed rows.

    A row is one step of one sample. Spikes carry no value, so an event costs the number of its neuron alone: two bytes
    for up to 32 768 neurons, else four; and a row costs four bytes, to say where it starts.

    Attributes:
        neuron: of each event [events], int16 or int32, rows one after the other.
        start: first event of each row, and the end of the last [T * ... + 1], int32 (int64 from 2³¹ events).
        shape: (T, ..., N), as of the dense spikes.
        dense_bytes: size of the tensor that the spikes came from.
    """

    neuron: Tensor
    start: Tensor
    shape: tuple[int, ...]
    dense_bytes: int

    @classmethod
    def of(cls, spikes: Tensor) -> SparseSpikes:
        """From dense spikes [T, ..., N] of 0 and 1, in any dtype.

        Raises:
            TypeError, ValueError: no tensor; fewer than two dimensions; a value that is neither 0 nor 1.
        """
        checks.instance("spikes", spikes, Tensor, "a tensor [T, ..., N]")
        if spikes.dim() < 2:
            raise ValueError(f"spikes must be [T, ..., N], but its shape is {list(spikes.shape)}")
        rows = spikes.detach().reshape(math.prod(spikes.shape[:-1]), spikes.shape[-1])
        fired = rows != 0
        if not torch.equal(fired.to(rows.dtype), rows):
            raise ValueError("spikes must hold only 0 and 1, but there are other values in it")
        neuron = fired.nonzero()[:, 1]
        small = rows.shape[1] <= 2**15
        ends = fired.sum(1).cumsum(0)
        start = torch.cat([ends.new_zeros(1), ends])
        return cls(
            neuron.to(torch.int16 if small else torch.int32),
            start.to(torch.int32 if len(neuron) < 2**31 else torch.int64),
            tuple(spikes.shape),
            spikes.numel() * spikes.element_size(),
        )

    def __len__(self) -> int:
        """The number of spikes."""
        return len(self.neuron)

    @property
    def density(self) -> float:
        """The share of neurons and steps with a spike, 0 to 1."""
        return len(self) / max(math.prod(self.shape), 1)

    @property
    def bytes(self) -> int:
        """Size of the events."""
        return sum(part.numel() * part.element_size() for part in (self.neuron, self.start))

    def __repr__(self) -> str:
        return (
            f"SparseSpikes({list(self.shape)}: {len(self)} spikes, density {self.density:.1%}, {self.bytes} bytes "
            f"instead of {self.dense_bytes}, on {self.neuron.device})"
        )

    def to(self, device: str | torch.device) -> SparseSpikes:
        return SparseSpikes(self.neuron.to(device), self.start.to(device), self.shape, self.dense_bytes)

    def dense(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """Spikes [T, ..., N] of 0 and 1 again."""
        each = self.start.diff().long()
        rows = torch.repeat_interleave(torch.arange(len(each), device=each.device), each)
        spikes = torch.zeros(len(each), self.shape[-1], dtype=dtype, device=each.device)
        spikes[rows, self.neuron.long()] = 1
        return spikes.reshape(self.shape)

    def linear(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """``torch.nn.functional.linear`` of the spikes [T, ..., M], event by event.

        A spike adds a column of ``weight`` [M, N] to its row, so the work is ``spikes * M`` additions, without a
        multiplication. Gradients reach ``weight`` and ``bias``.
        """
        if weight.dim() != 2 or weight.shape[1] != self.shape[-1]:
            raise ValueError(f"weight must be [M, {self.shape[-1]}], but its shape is {list(weight.shape)}")
        index = torch.int64 if self.start.dtype == torch.int64 else torch.int32
        out = functional.embedding_bag(
            self.neuron.to(index), weight.t().contiguous(), self.start, mode="sum", include_last_offset=True
        )
        if bias is not None:
            out = out + bias
        return out.reshape(*self.shape[:-1], weight.shape[0])
