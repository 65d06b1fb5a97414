"""Spikes as bits: what a convolution keeps of its spiking input for backward, at an eighth of a byte per spike.

Eight bytes of 0 and 1 are one 64-bit number, and one multiplication moves its eight bits into one byte; another
multiplication spreads them again. So packing is a handful of elementwise operations that any device can do.
"""

from __future__ import annotations

import contextlib
import threading
from typing import NamedTuple

import torch
from torch import Tensor

# b_0 + 2^8 b_1 + … + 2^56 b_7 times this has b_i at bit 56 + i; no other product of two bits reaches bit 56, none
# meets another.
_GATHER = 0x0102040810204080
# A byte times this stands in all eight bytes; the mask leaves bit i in byte i.
_SPREAD = 0x0101010101010101
_ONE_EACH = 0x8040201008040201 - 2**64  # as a signed number

# Values at a time, so that the bytes on the way to bits never take much room.
_PIECE = 2**24

# Tensors smaller than this are not worth it.
_SMALLEST = 1024


class Bits(NamedTuple):
    """A tensor of zeros and ones, eight to a byte.

    Attributes:
        data: uint8 [⌈n / 8⌉] in the order of memory.
        shape, stride, dtype: of the tensor.
    """

    data: Tensor
    shape: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype


def pack(x: Tensor, *, verify: bool = True) -> Bits | None:
    """``x`` as bits, or None if that can't be done without loss.

    Args:
        x: of a floating dtype and any shape and layout that fills its memory without gaps or overlap.
        verify: look whether every value is 0 or 1 (on CUDA that waits for the device). False: it is known to be so.
    """
    x = x.detach()
    if not x.is_floating_point() or not _is_dense(x):
        return None
    flat = x.as_strided((x.numel(),), (1,))
    if verify and not bool(((flat == 0) | (flat == 1)).all()):
        return None
    pieces = [_pack(piece) for piece in flat.split(_PIECE)]
    data = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
    return Bits(data, x.shape, x.stride(), x.dtype)


def unpack(bits: Bits) -> Tensor:
    """The tensor that was packed, in the same layout."""
    count = bits.shape.numel()
    flat = torch.empty(count, dtype=bits.dtype, device=bits.data.device)
    for data, piece in zip(bits.data.split(_PIECE // 8), flat.split(_PIECE), strict=True):
        spread = (data.to(torch.int64) * _SPREAD).bitwise_and_(_ONE_EACH).view(torch.uint8)
        piece.copy_(spread[: len(piece)] != 0)
    return flat.as_strided(bits.shape, bits.stride)


def _pack(flat: Tensor) -> Tensor:
    spikes = flat != 0
    missing = -len(spikes) % 8
    if missing:
        spikes = torch.cat([spikes, spikes.new_zeros(missing)])
    gathered = (spikes.view(torch.int64) * _GATHER).bitwise_right_shift_(56)
    return gathered.to(torch.uint8)  # the low byte; what the shift made of the sign goes


def _is_dense(x: Tensor) -> bool:
    """Whether its values fill a stretch of memory, each place once."""
    expected = 1
    for stride, size in sorted((s, n) for s, n in zip(x.stride(), x.shape, strict=True) if n != 1):
        if stride != expected:
            return False
        expected *= size
    return x.numel() > 0


class packed_spikes(contextlib.AbstractContextManager):
    """Within ``with packed_spikes():``, whatever autograd keeps for backward and consists of zeros and ones is kept as
    bits. For any PyTorch model; each tensor is looked at, so nothing else is ever packed.

    Tensors under 1024 values, parameters, integers and what overlaps in memory stay as they are. On CUDA each look
    waits for the device; ``optimize_memory_usage`` knows where the spikes are and does not look.

    Attributes:
        saved: bytes that packing has spared so far.
    """

    def __init__(self) -> None:
        self.saved = 0
        self._active = threading.local()

    def __enter__(self) -> packed_spikes:
        hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, _unpack)
        hooks.__enter__()
        self._stack.append(hooks)
        return self

    def __exit__(self, *details) -> None:
        self._stack.pop().__exit__(*details)

    @property
    def _stack(self) -> list:
        if not hasattr(self._active, "stack"):
            self._active.stack = []
        return self._active.stack

    def _pack(self, tensor: Tensor) -> Tensor | Bits:
        if tensor.numel() < _SMALLEST or isinstance(tensor, torch.nn.Parameter) or tensor.layout != torch.strided:
            return tensor
        bits = pack(tensor)
        if bits is None:
            return tensor
        self.saved += tensor.nbytes - bits.data.nbytes
        return bits


class keeps_as_bits(contextlib.AbstractContextManager):
    """Within ``with keeps_as_bits(x, verify=…):``, ``x`` is kept as bits where autograd keeps it, or a view of it; all
    else as it is.

    Args:
        x: spikes.
        verify: as for ``pack``.
    """

    def __init__(self, x: Tensor, *, verify: bool) -> None:
        self._x: Tensor | None = x
        self._verify = verify
        self._bits: Bits | None = None
        self._looked = False

    def __enter__(self) -> keeps_as_bits:
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, _unpack)
        self._hooks.__enter__()
        return self

    def __exit__(self, *details) -> None:
        self._hooks.__exit__(*details)
        # What autograd keeps holds this object, as its hook; the spikes must not stay with it.
        self._x = self._bits = None

    def _pack(self, tensor: Tensor) -> Tensor | Bits:
        x = self._x
        if x is None or tensor.data_ptr() != x.data_ptr() or tensor.numel() != x.numel() or tensor.dtype != x.dtype:
            return tensor
        if not (_is_dense(tensor) and _is_dense(x)):
            return tensor
        if not self._looked:
            self._bits, self._looked = pack(x, verify=self._verify), True
        return tensor if self._bits is None else self._bits._replace(shape=tensor.shape, stride=tensor.stride())


def _unpack(kept: Tensor | Bits) -> Tensor:
    return unpack(kept) if isinstance(kept, Bits) else kept
