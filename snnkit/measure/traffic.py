"""Count what operations move: bytes between memory and processor, and copies from one device to another."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# Operations that read only shapes, and those that write nothing.
_READ_NOTHING = ("zeros", "ones", "full", "empty", "new_zeros", "new_ones", "new_full", "new_empty", "zero_", "fill_")
_WRITE_NOTHING = ("empty", "new_empty")


class Kernel(NamedTuple):
    """One operation."""

    name: str  #: that of PyTorch's library, such as "add"
    reads: tuple[int, ...]  #: bytes of each tensor that it reads
    writes: tuple[int, ...]  #: and of each that it writes

    @property
    def bytes(self) -> int:
        """Read and written."""
        return sum(self.reads) + sum(self.writes)


class Traffic(TorchDispatchMode):
    """Note every operation that moves numbers while it is entered::

        with Traffic() as seen:
            y = 2 * x + 1
        print(len(seen.kernels), seen.bytes)

    Views move nothing and are left out. Each argument counts once, at the size of its elements or of the memory behind
    it, whichever is smaller (an expanded tensor reads few bytes often). What a cache holds is not known here: these are
    the bytes that programs ask for. Inside a compiled kernel PyTorch runs no operations, so none are seen.

    Attributes:
        kernels: in order.
    """

    observes = True  # compiled kernels run in it as they would without it

    def __init__(self) -> None:
        super().__init__()
        self.kernels: list[Kernel] = []

    @property
    def bytes(self) -> int:
        """Bytes of all kernels."""
        return sum(kernel.bytes for kernel in self.kernels)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not func.is_view:
            name = func.overloadpacket.__name__
            plain = name.removesuffix("_like")
            read = [] if plain in _READ_NOTHING else _tensors((args, kwargs))
            written = [] if plain in _WRITE_NOTHING else _tensors(result)
            self.kernels.append(Kernel(name, tuple(map(_bytes, read)), tuple(map(_bytes, written))))
        return result


def _tensors(values: Any) -> list[Tensor]:
    """Those in a nested structure, each once."""
    unique = {id(leaf): leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)}
    return list(unique.values())


def _bytes(tensor: Tensor) -> int:
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())


class Transfers(TorchDispatchMode):
    """Note every copy from one device to another while it is entered::

        with Transfers() as seen:
            y = x.to("cuda")
        print(seen.count, seen.bytes)

    The target may be "meta": then nothing is moved, but all is counted. Where a copy changes the dtype, too, PyTorch
    converts on the CPU (unless ``non_blocking``), so what crosses has the dtype that it has on the other device; and an
    expanded view is written out before it crosses (``copy_kernel_cuda`` in ATen's ``native/cuda/Copy.cu``).

    Attributes:
        sizes: bytes of each copy that cross, in order.
    """

    observes = True

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    @property
    def count(self) -> int:
        """How many copies there were."""
        return len(self.sizes)

    @property
    def bytes(self) -> int:
        """Bytes of all copies."""
        return sum(self.sizes)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default):
            source, target = (args[0], result) if func is torch.ops.aten._to_copy.default else (args[1], args[0])
            if source.device != target.device:
                crosses = source if target.device.type == "cpu" else target
                self.sizes.append(target.numel() * crosses.element_size())
        return result
