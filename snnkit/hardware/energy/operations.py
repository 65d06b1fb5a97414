"""How many additions and multiply-adds a layer with weights takes, when work with a zero in it is left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# The layers whose operations are counted: NeuroBench's without its recurrent cells, and transposed convolutions.
WEIGHTED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)

_TRANSPOSED = {
    nn.ConvTranspose1d: F.conv_transpose1d,
    nn.ConvTranspose2d: F.conv_transpose2d,
    nn.ConvTranspose3d: F.conv_transpose3d,
}


@dataclass(frozen=True)
class Operations:
    """Synaptic operations: pairs of an input and a weight that meet. Biases are none.

    Attributes:
        macs: multiply-adds, where neither input nor weight is zero.
        acs: additions alone, where the input is 1 or -1 and the weight not zero.
        dense: all pairs, with their zeros.
    """

    macs: float = 0
    acs: float = 0
    dense: float = 0

    def __add__(self, other: Operations) -> Operations:
        return Operations(self.macs + other.macs, self.acs + other.acs, self.dense + other.dense)

    def __truediv__(self, number: float) -> Operations:
        return Operations(self.macs / number, self.acs / number, self.dense / number)


@dataclass
class Tally:
    """What calls of one layer add up to.

    Attributes:
        effective: pairs of an input and a weight that are both not zero.
        dense: all pairs.
        spiking: whether every input so far was 0, 1 or -1.
        inputs: values that came in.
        active: those that were not zero.
    """

    effective: int = 0
    dense: int = 0
    spiking: bool = True
    inputs: int = 0
    active: int = 0

    @property
    def operations(self) -> Operations:
        macs, acs = (0, self.effective) if self.spiking else (self.effective, 0)
        return Operations(macs, acs, self.dense)

    def add(self, layer: nn.Module, x: Tensor) -> None:
        """Count a call of ``layer`` (one of ``WEIGHTED``) on x [n, ...]."""
        x = x.detach()
        fires, connected = (x != 0).float(), (layer.weight.detach() != 0).float()  # type: ignore[operator]
        if x.dim() == (1 if isinstance(layer, nn.Linear) else connected.dim() - 1):
            fires = fires.unsqueeze(0)  # a sample without a batch around it
        with torch.autocast(x.device.type, enabled=False):  # half precision can't count
            self.effective += _pairs(layer, fires, connected)
            self.dense += _pairs(layer, torch.ones_like(fires[:1]), torch.ones_like(connected)) * len(fires)
        self.spiking = self.spiking and bool(((x == 0) | (x.abs() == 1)).all())
        self.inputs += x.numel()
        self.active += int(torch.count_nonzero(x))

    def merge(self, other: Tally) -> None:
        """Count what another one saw of the same layer."""
        self.effective += other.effective
        self.dense += other.dense
        self.spiking = self.spiking and other.spiking
        self.inputs += other.inputs
        self.active += other.active


def _pairs(layer: Any, x: Tensor, weight: Tensor) -> int:
    """The layer's map of two tensors of zeros and ones, without its bias, summed up: exact while below 2^53."""
    if isinstance(layer, nn.Linear):
        each = x.reshape(-1, x.shape[-1]).sum(0, dtype=torch.float64)
        return int(each @ weight.sum(0, dtype=torch.float64))
    if isinstance(layer, tuple(_TRANSPOSED)):
        convolve = next(function for kind, function in _TRANSPOSED.items() if isinstance(layer, kind))
        out = convolve(x, weight, None, layer.stride, layer.padding, layer.output_padding, layer.groups, layer.dilation)
    else:
        out = layer._conv_forward(x, weight, None)
    return int(out.sum(dtype=torch.float64))
