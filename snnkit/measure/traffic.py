"""Count what operations move: each one that PyTorch runs reads tensors from memory and writes its result there."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# They look at shapes only, and leave what they made as it was found.
_READ_NOTHING = ("zeros", "ones", "full", "empty", "new_zeros", "new_ones", "new_full", "new_empty", "zero_", "fill_")
_WRITE_NOTHING = ("empty", "new_empty")


class Kernel(NamedTuple):
    """One operation.

    Attributes:
        name: that of PyTorch's library, such as "add".
        reads, writes: bytes of each tensor that it reads, and of each that it writes.
    """

    name: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]

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
    found = {id(leaf): leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)}
    return list(found.values())


def _bytes(tensor: Tensor) -> int:
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())
