"""Spikes as bits: backward needs only an eighth of a byte of each spike.

Eight bytes of 0 and 1 are one 64-bit number, and one multiplication moves its eight bits into one byte; another
multiplication spreads them again. So packing is a few elementwise operations that any device can do.
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import torch
from torch import Tensor

from snnkit.engine.memory_gate import is_plain, is_watched

# b_0 + 2^8 b_1 + … + 2^56 b_7 times this has b_i at bit 56 + i; no other product of two bits reaches bit 56, and no two
# products meet.
_GATHER = 0x0102040810204080
# A byte times this is in all eight bytes; the mask leaves bit i in byte i.
_SPREAD = 0x0101010101010101
_ONE_EACH = 0x8040201008040201 - 2**64  # as a signed number

# Values at a time, so that the bytes on the way to bits never take much room.
_PIECE = 2**24

# Tensors smaller than this are not worth it.
_SMALLEST = 1024


class Bits(NamedTuple):
    """A tensor of zeros and ones, eight to a byte."""

    data: Tensor  # uint8 [⌈n / 8⌉] in the order of memory
    shape: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype


def pack(x: Tensor, *, verify: bool = True) -> Bits | None:
    """``x`` as bits; None unless it is of a floating dtype, without gaps or overlap in memory, and all 0 or 1.

    ``verify``: check whether its values are 0 and 1 (on CUDA this waits for the device). False: the caller knows that
    they are.
    """
    x = x.detach()
    if is_watched() or not is_plain(x) or not x.is_floating_point() or not _is_dense(x):
        return None
    flat = x.as_strided((x.numel(),), (1,))
    if verify and not bool(((flat == 0) | (flat == 1)).all()):
        return None
    return Bits(torch.cat([_pack(piece) for piece in flat.split(_PIECE)]), x.shape, x.stride(), x.dtype)


def unpack(bits: Bits) -> Tensor:
    """The tensor that was packed, in the same layout."""
    flat = torch.empty(bits.shape.numel(), dtype=bits.dtype, device=bits.data.device)
    for data, piece in zip(bits.data.split(_PIECE // 8), flat.split(_PIECE), strict=True):
        spread = (data.to(torch.int64) * _SPREAD).bitwise_and_(_ONE_EACH).view(torch.uint8)
        piece.copy_(spread[: len(piece)] != 0)
    return flat.as_strided(bits.shape, bits.stride)


def _pack(flat: Tensor) -> Tensor:
    spikes = flat != 0
    if missing := -len(spikes) % 8:
        spikes = torch.cat([spikes, spikes.new_zeros(missing)])
    gathered = (spikes.view(torch.int64) * _GATHER).bitwise_right_shift_(56)
    return gathered.to(torch.uint8)  # the low byte; what the shift made of the sign is dropped


def _is_dense(x: Tensor) -> bool:
    """Whether its values fill a stretch of memory, each place once."""
    expected = 1
    for stride, size in sorted((s, n) for s, n in zip(x.stride(), x.shape, strict=True) if n != 1):
        if stride != expected:
            return False
        expected *= size
    return x.numel() > 0


class packed_spikes(torch.autograd.graph.saved_tensors_hooks):
    """Within ``with packed_spikes():``, autograd saves tensors of zeros and ones as bits. It works for any PyTorch
    model. Each tensor is checked, so no other tensor is packed.

    Tensors under 1024 values, parameters, integers and tensors that overlap in memory are not packed. On CUDA each
    check waits for the device; ``optimize_memory_usage`` knows where the spikes are and does not check.

    Attributes:
        saved: bytes that packing has saved so far.
    """

    def __init__(self) -> None:
        super().__init__(self._pack, _unpacked)
        self.saved = 0

    def __enter__(self) -> packed_spikes:
        super().__enter__()
        return self

    def _pack(self, tensor: Tensor) -> Tensor | Bits:
        if tensor.numel() < _SMALLEST or isinstance(tensor, torch.nn.Parameter):
            return tensor
        bits = pack(tensor)
        if bits is None:
            return tensor
        self.saved += tensor.nbytes - bits.data.nbytes
        return bits


@contextlib.contextmanager
def packed_input(x: Tensor):
    """Within it, autograd saves the spikes ``x``, or a view of them, as bits. Other tensors are not packed."""
    if not is_plain(x):  # it may have no address
        yield
        return
    place, spikes, bits = x.data_ptr(), [x], []

    def hook(tensor: Tensor) -> Tensor | Bits:
        x = spikes[0]
        if not is_plain(tensor) or tensor.data_ptr() != place or tensor.numel() != x.numel() or tensor.dtype != x.dtype:
            return tensor
        if not (_is_dense(tensor) and _is_dense(x)):
            return tensor
        if not bits:
            bits.append(pack(x, verify=False))
        return tensor if bits[0] is None else bits[0]._replace(shape=tensor.shape, stride=tensor.stride())

    try:
        with torch.autograd.graph.saved_tensors_hooks(hook, _unpacked):
            yield
    finally:
        # Autograd holds the hook, and the spikes must not stay with it.
        spikes.clear()
        bits.clear()


def _unpacked(saved: Tensor | Bits) -> Tensor:
    return unpack(saved) if isinstance(saved, Bits) else saved
