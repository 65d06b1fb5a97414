"""Maximum pooling: the values and gradients of PyTorch, and plain calls wherever those are expected."""

import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook
from torch.utils.flop_counter import FlopCounterMode

from snnkit import device, pooling
from snnkit.device import MemoryTracker
from snnkit.neuron import LIF
from snnkit.nn import Sequential, TimeBatched


@pytest.fixture
def pooled(monkeypatch):
    """The kernels that ran."""
    if pooling.kernels() is None:
        pytest.skip("no C++ compiler")
    ran, pool = [], pooling._pool
    monkeypatch.setattr(pooling, "_pool", lambda way, *rest: ran.append(way) or pool(way, *rest))
    return ran


def images(channels=48, height=16, width=19, dtype=torch.float32, last=True):
    """[T, B, C, H, W], channels-last or contiguous, with equal values, infinite ones and NaN."""
    torch.manual_seed(0)
    x = torch.randint(0, 4, (4, 8, height, width, channels)).to(dtype)
    x[0, 0, :4, :4] = -torch.inf
    x[0, 1, 1:5, 1:3], x[0, 2, 2, 2] = torch.nan, torch.inf
    x = x.permute(0, 1, 4, 2, 3)
    return (x if last else x.contiguous()).requires_grad_()


def plain(x, pool):
    return pool(x.flatten(0, 1)).unflatten(0, x.shape[:2])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("window", [2, 3, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("last", "sizes"), [(True, (48, 16, 19)), (False, (48, 16, 19)), (False, (3, 12, 612))])
def test_pooling_has_the_values_and_gradients_of_pytorch(pooled, window, dtype, threads, last, sizes):
    x, pool, before = images(*sizes, dtype=dtype, last=last), nn.MaxPool2d(window), torch.get_num_threads()
    channels, height, width = sizes
    g = torch.randn(4, 8, channels, height // window, width // window, dtype=dtype)  # of a layer that flattens it
    kept = []
    torch.set_num_threads(threads)
    try:
        hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t)
        with hooks, torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            ours = TimeBatched(pool)(x)
        (d_ours,) = torch.autograd.grad(ours, x, g)
    finally:
        torch.set_num_threads(before)
    expected = plain(x, pool)
    (d_expected,) = torch.autograd.grad(expected, x, g)
    assert pooled == ["forward", "backward"] and ours.dtype == d_ours.dtype == dtype
    assert torch.equal(ours.nan_to_num(-1), expected.nan_to_num(-1)) and torch.equal(ours.isnan(), expected.isnan())
    assert torch.equal(d_ours, d_expected)
    assert ours.stride() == expected.stride() and d_ours.stride() == x.stride()
    assert [(t.dtype, t.numel()) for t in kept] == [(torch.uint8, ours.numel())]


def test_a_memory_tracker_counts_what_our_pooling_saves(pooled):
    x, pool, peaks = images(), TimeBatched(nn.MaxPool2d(2)), []
    for _ in range(2):
        with MemoryTracker() as tracker:
            out = pool(x)
            torch.autograd.grad(out.sum(), x)
        peaks.append(tracker.peak)
    assert pooled == ["forward", "backward"] * 2 and peaks[0] == peaks[1]
    # Each output: 4 bytes, 1 of its place, 4 of its gradient; and the gradient of x.
    assert out.numel() * 5 + x.nbytes <= peaks[0] <= out.numel() * 9 + x.nbytes + 64


@pytest.mark.parametrize("last", [True, False])
def test_second_derivatives_and_several_gradients_at_once_through_pooling(pooled, last):
    x, pool = images(last=last).detach().nan_to_num().clamp(0, 4).requires_grad_(), nn.MaxPool2d(3)

    def results(run):
        out = run(x)
        (d_x,) = torch.autograd.grad((out * out).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad((d_x * x.detach()).sum(), x, retain_graph=True)
        rows = torch.eye(3)
        batched = torch.autograd.grad(out[0, 0, 1, 1, :3], x, rows, is_grads_batched=True, retain_graph=True)[0]
        mapped = torch.func.vmap(lambda v: torch.autograd.grad(out[0, 0, 1, 1, :3], x, v, retain_graph=True)[0])(rows)
        return d_x, second, batched, mapped

    ours = results(TimeBatched(pool))
    assert pooled == ["forward", "backward"]  # the latter where no further derivative is requested
    for a, b in zip(ours, results(lambda x: plain(x, pool)), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_where_a_plain_call_is_expected_pooling_is_pytorchs(pooled, monkeypatch):
    x, seen = images().detach(), []

    class Own(nn.MaxPool2d):
        def __init__(self):
            nn.Module.__init__(self)

        def forward(self, x):
            return nn.functional.max_pool2d(x, 2)

    def is_plain(pool, x=x):
        out, expected = TimeBatched(pool)(x), plain(x, pool)
        return not pooled and torch.equal(out.nan_to_num(-1), expected.nan_to_num(-1))

    assert is_plain(nn.MaxPool2d(5)) and is_plain(nn.MaxPool2d((2, 3))) and is_plain(nn.MaxPool2d(3, 2))
    assert is_plain(nn.MaxPool2d(2, padding=1)) and is_plain(nn.MaxPool2d(2, dilation=2)) and is_plain(Own())
    assert is_plain(nn.MaxPool2d(2, ceil_mode=True))
    assert is_plain(nn.MaxPool2d(2), x.mT) and is_plain(nn.MaxPool2d(2), x[:1, :1])
    assert is_plain(nn.MaxPool2d(2), images(16, 40).detach()) and is_plain(nn.MaxPool2d(2), x.double())
    assert is_plain(nn.MaxPool2d(2), torch._neg_view(x))
    pool = nn.MaxPool2d(2)
    with pytest.raises(TypeError, match="MaxPool2d must return a tensor"):
        TimeBatched(nn.MaxPool2d(2, return_indices=True))(x)
    for other in ((2, 2.0), (2, 2, False), (2, 2, 0, True), (2.0,)):
        with pytest.raises(TypeError, match="must be"):
            TimeBatched(nn.MaxPool2d(*other))(x)
    with pytest.raises(RuntimeError, match="too small"):
        TimeBatched(nn.MaxPool2d(4))(images(4096, 3, 3).detach())
    with FlopCounterMode(display=False):
        assert is_plain(pool)
    torch.func.vmap(TimeBatched(pool))(x[None])
    torch.func.jvp(TimeBatched(pool), (x,), (x,))
    torch.compile(TimeBatched(pool), backend="eager", fullgraph=True)(x)
    with register_module_forward_hook(lambda *_: seen.append(0)):
        assert is_plain(pool) and 0 in seen
    handle = pool.register_forward_hook(lambda *_: seen.append(1))
    assert is_plain(pool) and 1 in seen
    handle.remove()
    with monkeypatch.context() as patch:
        patch.setattr(pooling, "kernels", lambda: None)
        assert is_plain(pool)
    TimeBatched(nn.MaxPool2d((2, 2), [2, 2]))(x)
    assert pooled == ["forward"]


def test_hooks_that_only_observe_see_our_pooling(pooled):
    x, pool, seen = images(), nn.MaxPool2d(2), []
    pool.register_forward_pre_hook(pooling.observer(lambda module, args: seen.append((module, args))))
    pool.register_forward_hook(pooling.observer(lambda module, args, out: seen.append((module, args, out))))
    out = TimeBatched(pool)(x)
    (first, (flat,)), (second, _, result) = seen
    assert pooled == ["forward"] and first is second is pool
    assert torch.equal(flat.nan_to_num(), x.flatten(0, 1).nan_to_num()) and result.shape == out.flatten(0, 1).shape


def test_the_memory_that_is_explained_is_that_of_our_pooling(pooled):
    net = Sequential(
        nn.Conv2d(1, 32, 3, padding=1), LIF(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 64, 10), LIF()
    )
    net.to(memory_format=torch.channels_last)
    table = device.explain_memory(net, torch.rand(4, 8, 1, 16, 16))
    assert {row.layer: row.measured for row in table.rows}["2"] == 4 * 8 * 32 * 64  # a byte of each output
    assert len(pooled) >= 2


@pytest.mark.parametrize("last", [True, False])
def test_what_a_hook_has_kept_in_another_form_is_read_right(pooled, last):
    x, pool = images(last=last), nn.MaxPool2d(2)
    g = torch.zeros(4, 8, 48, 8, 9)  # -0 once it is negated
    g[:2] = torch.randn(2, 8, 48, 8, 9)

    def gradient(run, pack):
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            out = run(x)
        return torch.autograd.grad(out, x, torch._neg_view(g))[0]

    expected = gradient(lambda x: plain(x, pool), lambda t: t)
    for pack in (lambda t: t.contiguous(memory_format=torch.channels_last), lambda t: t.to(torch.int32)):
        ours = gradient(TimeBatched(pool), pack)
        assert torch.equal(ours, expected) and torch.equal(ours.signbit(), expected.signbit())
    assert pooled == ["forward", "backward"] * 2


@pytest.mark.parametrize("last", [True, False])
def test_saved_places_of_fewer_windows_are_not_read(pooled, last):
    x = images(last=last)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t[:1]):
        out = TimeBatched(nn.MaxPool2d(2))(x)
    with pytest.raises(RuntimeError, match="a tensor saved for backward must have shape"):
        out.sum().backward()
    assert pooled == ["forward"]


@pytest.mark.refused
def test_pooling_is_plain_where_nothing_can_be_compiled(monkeypatch):
    pooling.kernels.cache_clear()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(pooling, "missing_compiler", lambda _: "there is none")
            assert pooling.kernels() is None
        pooling.kernels.cache_clear()
        with monkeypatch.context() as patch:
            patch.setattr(pooling, "load", lambda _: (_ for _ in ()).throw(pooling.CompilationFailed("full disk")))
            assert pooling.kernels() is None
    finally:
        pooling.kernels.cache_clear()
