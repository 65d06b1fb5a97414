"""Which tensors overlap in memory, and moving what they have in common once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor

# A stretch begins at a multiple of this many bytes, so that values of any dtype lie as they should.
_ALIGNED = 16


class Overlaps:
    """Stretches of memory that several of ``tensors`` lie in, from the first byte of one to the last of another.

    Only what hangs together counts: two slices of a data set that do not touch are two tensors.
    """

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self._stretches: dict[int, tuple[int, int]] = {}  # of the tensor with this id, which its owner keeps alive
        self._moved: dict[tuple[int, int], Tensor] = {}
        by_storage: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for x in tensors:
            if _is_shareable(x):
                by_storage[x.untyped_storage()._cdata].append((*_bytes_of(x), id(x)))
        for users in by_storage.values():
            together: list[int] = []
            start = stop = 0
            for first, last, user in [*sorted(users), (2**63, 2**63, 0)]:
                if first >= stop:
                    if len(together) > 1:
                        self._stretches.update(dict.fromkeys(together, (start, stop)))
                    together, start, stop = [], first, last
                together.append(user)
                stop = max(stop, last)

    def moved(self, x: Tensor, device: torch.device, non_blocking: bool) -> Tensor | None:
        """``x`` as a view of its stretch on ``device``; None if it overlaps with no other."""
        if id(x) not in self._stretches:
            return None
        start, stop = self._stretches[id(x)]
        key = (x.untyped_storage()._cdata, start)
        start -= start % _ALIGNED
        if key not in self._moved:
            here = torch.empty(0, dtype=torch.uint8, device=x.device)
            here.set_(x.untyped_storage(), start, (stop - start,), (1,))
            self._moved[key] = here.to(device, non_blocking=non_blocking, copy=True)
        memory = self._moved[key].untyped_storage()
        offset = x.storage_offset() - start // x.element_size()
        return torch.empty(0, dtype=x.dtype, device=device).set_(memory, offset, x.shape, x.stride())


def _is_shareable(x: Tensor) -> bool:
    """Whether its memory may be moved instead of it: not where a gradient would have to find its way back, or where the
    memory holds other numbers than the tensor (a conjugate)."""
    plain = type(x) is Tensor and x.layout == torch.strided and not x.requires_grad
    return plain and x.numel() > 0 and not x.is_conj() and not x.is_neg()


def _bytes_of(x: Tensor) -> tuple[int, int]:
    """(first, behind the last) in its storage."""
    first = int(x.storage_offset())
    last = first + sum((n - 1) * stride for n, stride in zip(x.shape, x.stride(), strict=True))
    return first * x.element_size(), (last + 1) * x.element_size()
