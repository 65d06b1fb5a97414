"""The band in which the model of ``hardware.roofline`` expects an IPU to train the tutorial's network."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from ..hardware import roofline
from .training_nets import Workload

# Mixed precision in PyTorch is closest to an IPU that computes in half precision.
PRECISIONS = {"float32": "float32", "bfloat16": "float16", "float16": "float16"}


def predictions(workload: Workload, dtype: str, chips: Iterable[str]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """For each chip its band in samples per second, and name to reason of those for which there is none.

    The band reaches from the slowest case, with a first layer that is computed in every step as the tutorial is
    written, to the fastest, with one that is computed once: whether Poplar's compiler finds the equal products is not
    known. Its middle is the likely value of the former.

    Raises:
        ValueError: an unknown chip, or one that is no IPU.
    """
    found, missing = [], {}
    both = _works(workload.batch, workload.width, workload.steps)
    for chip in chips:
        try:
            ends = [roofline.ipu(work, chip, precision=PRECISIONS[dtype]) for work in both]
        except roofline.DoesNotFit as error:
            missing[chip] = str(error)
            continue
        written, once = (end.samples_per_s for end in ends)
        found.append(
            {
                "chip": chip, "precision": PRECISIONS[dtype], "mark": ends[0].mark, "source": ends[0].source,
                "low": min(written.low, once.low), "likely": written.value, "high": max(written.high, once.high),
            }
        )  # fmt: skip
    return found, missing


@lru_cache(maxsize=1)  # the next dtype has the same
def _works(batch: int, hidden: int, steps: int) -> tuple[roofline.Work, roofline.Work]:
    """A training step with the first layer in every step, and with it once."""
    written, once = (roofline.tutorial(batch, hidden, steps, hoisted=hoisted) for hoisted in (False, True))
    return written, once
