"""Answers and speed of a model against those of its quantized copy."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .. import checks
from ..data._batches import batches, check_data, resolve_device, to_unit
from ..measure import first_call

# Passes for the ratio of times: as many as fit into the seconds, within these bounds.
_LEAST, _MOST, _SECONDS = 3, 51, 2.0


class Comparison(NamedTuple):
    """A model before and after.

    Attributes:
        accuracy_before, accuracy_after: fractions.
        same_answer: the fraction of samples to which both give one answer.
        time_ratio: time after / time before for a batch, the median over passes in turns.
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
    """Run both on the same encoded samples and compare answers (the largest output, summed over time) and time.

    Both are put into evaluation mode and onto ``device`` (they stay there). Arguments otherwise as for
    ``train.evaluate``.
    """
    for name, net in (("model", model), ("quantized", quantized)):
        checks.instance(name, net, nn.Module, "a torch.nn.Module")
    checks.function("encode", encode)
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
    """In turns, so that other load on the machine affects both alike; both have run before."""
    ratios, begun = [], time.perf_counter()
    while len(ratios) < _LEAST or (len(ratios) < _MOST and time.perf_counter() - begun < _SECONDS):
        before, after = (first_call(lambda net=net: net(sequence), device)[0] for net in nets)
        ratios.append(after / before)
    return statistics.median(ratios)
