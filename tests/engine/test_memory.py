"""What happens where memory runs out."""

import gc

import pytest
import torch

from snnkit import engine
from snnkit.device import memory_limit
from snnkit.engine import cpp
from snnkit.neuron import LIF


def test_a_backward_pass_without_room_says_how_much_was_needed(monkeypatch):
    out, _ = LIF(engine="cpp")(torch.rand(4, 2, 3, requires_grad=True))
    monkeypatch.setattr(cpp, "_call", lambda *arguments: 1)
    with pytest.raises(MemoryError, match=r"backward over 4 steps needs \d+ B of scratch memory.*fewer steps"):
        out.sum().backward()


@pytest.mark.parametrize("name", ["eager", "cpp"])
def test_too_little_memory_says_how_much_was_needed(name, monkeypatch):
    def no_memory(*arguments, **keywords):
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.")

    monkeypatch.setattr(engine.eager if name == "eager" else engine.autograd, "run", no_memory)
    with pytest.raises(MemoryError, match=r"LIF ran out of memory on cpu over x of shape \[4, 2, 3\].* fewer steps"):
        LIF(engine=name)(torch.rand(4, 2, 3))


@pytest.mark.parametrize("name", ["eager", "cpp"])
def test_what_a_failed_call_held_is_free_at_once(name):
    """Without the garbage collector: on a full device, that memory is what the next try needs."""
    neuron = LIF(engine=name)
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
