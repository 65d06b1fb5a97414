"""Spikes of one byte, and what happens where memory runs out."""

import gc

import pytest
import torch

from snnkit import engine
from snnkit.device import memory_limit
from snnkit.engine import cpp
from snnkit.neuron import LI, LIF, CubaLIF


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, dtype) for name in ("eager", "cpp") for dtype in (torch.float32, torch.bfloat16)),
        pytest.param("block", torch.float32, marks=pytest.mark.slow),
        ("block", torch.bfloat16),
    ],
)
def test_bytes_hold_the_same_spikes(name, dtype):
    x = (torch.rand(8, 3, 70) * 1.5).to(dtype)
    expected, _ = CubaLIF(engine="eager")(x)
    out, state = CubaLIF(engine=name)(x, out_dtype=torch.uint8)
    assert out.dtype == torch.uint8 and 0 < expected.mean() < 1
    assert torch.equal(out.to(dtype), expected)
    assert state.v.dtype == torch.float32


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda x: LI()(x, out_dtype=torch.uint8), TypeError, "output is a potential"),
        (lambda x: LIF()(x.requires_grad_(), out_dtype=torch.uint8), ValueError, "bytes carry none"),
    ],
)
def test_where_bytes_make_no_sense(call, error, message):
    with pytest.raises(error, match=message):
        call(torch.rand(4, 2, 3))


def test_a_backward_pass_without_room_says_how_much_was_needed(monkeypatch):
    out, _ = LIF(engine="cpp")(torch.rand(4, 2, 3, requires_grad=True))
    monkeypatch.setattr(cpp.Launch, "__call__", lambda *arguments: 1)
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
