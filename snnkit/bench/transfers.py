"""Count what crosses from one device to another: how many copies, and how many bytes each."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class Copy(NamedTuple):
    """One copy between devices.

    Attributes:
        source, target: the devices.
        bytes: that cross.
    """

    source: torch.device
    target: torch.device
    bytes: int


class Transfers(TorchDispatchMode):
    """Note every copy from one device to another while it is entered::

        with Transfers() as seen:
            y = x.to("cuda")
        print(seen.count, seen.bytes)

    The target may be "meta": then nothing is moved, but all is counted. Where a copy changes the dtype, too, PyTorch
    converts on the CPU (unless ``non_blocking``), so what crosses has the dtype that it has on the other device; and an
    expanded view is written out before it crosses (``copy_kernel_cuda`` in ATen's ``native/cuda/Copy.cu``).

    Attributes:
        copies: in order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.copies: list[Copy] = []

    @property
    def count(self) -> int:
        """How many copies there were."""
        return len(self.copies)

    @property
    def bytes(self) -> int:
        """Bytes of all copies."""
        return sum(copy.bytes for copy in self.copies)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._to_copy.default:
            self._note(args[0], result)
        elif func is torch.ops.aten.copy_.default:
            self._note(args[1], args[0])
        return result

    def _note(self, source: Tensor, target: Tensor) -> None:
        if source.device != target.device:
            crosses = source if target.device.type == "cpu" else target
            size = target.numel() * crosses.element_size()
            self.copies.append(Copy(source.device, target.device, size))
