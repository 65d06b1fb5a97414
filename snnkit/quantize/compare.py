"""The same answers? And how fast? A model against its quantized copy."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from snnkit.data._batches import batches, check_data, resolve_device, to_unit

__all__ = ["Comparison", "compare"]

# Passes for the ratio of times: as many as fit into the seconds, within these bounds.
_LEAST, _MOST, _SECONDS = 3, 51, 2.0


class Comparison(NamedTuple):
    """A model before and after.

    Attributes:
        accuracy_before, accuracy_after: fractions.
        same_answer: the fraction of samples to which both give one answer.
        time_ratio: time after / time before for a batch, the median over passes of the two in turns.
    """

    accuracy_before: float
    accuracy_after: float
    same_answer: float
    time_ratio: float

    def __str__(self) -> str:
        return (
            f"accuracy {self.accuracy_before:.2%} before, {self.accuracy_after:.2%} after; the same answer to "
            f"{self.same_answer:.2%}; {self.time_ratio:.2f} times as long"
        )


@torch.no_grad()
def compare(
    model: nn.Module,
    quantized: nn.Module,
    data: tuple[Tensor, Tensor],
    *,
    encode: Callable[[Tensor], Tensor],
    batch_size: int = 256,
    device: str | torch.device = "auto",
) -> Comparison:
    """Show both the same encoded samples and compare answers (the largest output, summed over time) and time.

    Both are put into evaluation mode and onto ``device`` (they stay there). Arguments otherwise as for
    ``train.evaluate``.
    """
    for name, net in (("model", model), ("quantized", quantized)):
        if not isinstance(net, nn.Module):
            raise TypeError(f"{name} must be a torch.nn.Module, but it is a {type(net).__name__}")
    if not callable(encode):
        raise TypeError(f"encode must be a function, but it is a {type(encode).__name__}")
    samples, labels = data
    check_data(samples, labels, "data")
    target = resolve_device(device)
    nets = (model.eval().to(target), quantized.eval().to(target))
    right, same, sequences = [0, 0], 0, []
    for x, y in batches(samples.to(target), labels.to(target), batch_size, shuffle=False):
        sequence = encode(to_unit(x) if x.dtype == torch.uint8 else x)
        sequences = sequences or [sequence]  # the first, to measure time with
        answers = [net(sequence)[0].sum(0).argmax(1) for net in nets]
        right = [count + int((answer == y).sum()) for count, answer in zip(right, answers, strict=True)]
        same += int((answers[0] == answers[1]).sum())
    share = 1 / len(labels)
    return Comparison(right[0] * share, right[1] * share, same * share, _time_ratio(nets, sequences[0], target))


def _time_ratio(nets: tuple[nn.Module, nn.Module], sequence: Tensor, device: torch.device) -> float:
    """In turns, so that whatever else the machine does falls on both alike; both have run before."""
    ratios, begun = [], time.perf_counter()
    while len(ratios) < _LEAST or (len(ratios) < _MOST and time.perf_counter() - begun < _SECONDS):
        before, after = (_seconds(net, sequence, device) for net in nets)
        ratios.append(after / before)
    return statistics.median(ratios)


def _seconds(net: nn.Module, sequence: Tensor, device: torch.device) -> float:
    _wait(device)
    started = time.perf_counter()
    net(sequence)
    _wait(device)
    return time.perf_counter() - started


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
