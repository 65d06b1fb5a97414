"""A call that ran out of memory leaves nothing behind."""

import gc

import pytest
import torch

from snnkit.device import memory_limit
from snnkit.neuron import LIF


@pytest.mark.parametrize("engine", ["eager", "block", "cpp"])
def test_what_a_failed_call_held_is_free_at_once(engine):
    """Without the garbage collector: on a full device, that memory is what the next try needs."""
    neuron = LIF(engine=engine)
    neuron(torch.rand(8, 4, 1000))
    gc.collect()
    gc.disable()
    try:
        with memory_limit(200_000) as ledger:
            for _ in range(2):
                x = torch.rand(8, 4, 1000)  # 128 kB; the spikes take as much again
                with pytest.raises((MemoryError, torch.OutOfMemoryError)):
                    neuron(x)
                del x
                assert ledger.live == 0
    finally:
        gc.enable()
