"""Sum pooling, which NIR has and PyTorch has not."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F


class SumPool2d(nn.Module):
    """Sum over windows: [B, C, H, W] -> [B, C, H', W']. On spikes it counts them, where an average would weaken them.

    Args:
        kernel_size: height and width of the window; one int for both.
        stride: from window to window; None: ``kernel_size``.
        padding: zeros on each side, at most half the window.
    """

    def __init__(
        self,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] | None = None,
        padding: int | tuple[int, int] = 0,
    ) -> None:
        super().__init__()
        self.kernel_size = _pair("kernel_size", kernel_size, 1)
        self.stride = self.kernel_size if stride is None else _pair("stride", stride, 1)
        self.padding = _pair("padding", padding, 0)

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(x, self.kernel_size, self.stride, self.padding, divisor_override=1)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


def _pair(name: str, value: int | tuple[int, int], least: int) -> tuple[int, int]:
    pair = (value, value) if isinstance(value, int) else value
    whole = isinstance(pair, tuple) and all(isinstance(n, int) and not isinstance(n, bool) for n in pair)
    if not whole or len(pair) != 2:
        raise TypeError(f"{name} of SumPool2d must be an int or a tuple of two, but it is {value!r}")
    if min(pair) < least:
        raise ValueError(f"{name} of SumPool2d must be at least {least}, but it is {value}")
    return pair
