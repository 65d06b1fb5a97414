"""The acceleration toolkit on a GPU: what is counted there by PyTorch itself."""

import copy
import gc
import warnings

import pytest
import torch
from torch import nn

from snnkit import device as toolkit, encode
from snnkit.device import memory_saving
from snnkit.device.memory_saving import MemorySaving
from snnkit.models import FashionConvNet, mlp
from snnkit.neuron import IF
from snnkit.nn import Sequential


def gradients(net, x, dtype=None):
    with torch.autocast(x.device.type, dtype, enabled=dtype is not None):
        out, _ = net(x)
    weight = torch.linspace(-1, 1, out.numel(), device=x.device).view_as(out)
    return out.detach(), torch.autograd.grad((out.float() * weight).sum(), [*net.parameters()])


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("dtype", [None, torch.bfloat16, torch.float16])
def test_an_economical_network_is_the_same_network(device, dtype, channels_last, monkeypatch):
    monkeypatch.setitem(memory_saving.PIECE, device.type, 2**20)  # several pieces
    plain = FashionConvNet(16, 64).to(device)
    if channels_last:
        plain = plain.to(memory_format=torch.channels_last)
    economical = copy.deepcopy(plain)
    economical.runner = MemorySaving()
    images = torch.rand(32, 1, 28, 28, device=device) * 3
    with torch.backends.cudnn.flags(enabled=True, deterministic=True, benchmark=False):
        for x in (encode.repeat(images, 8), images.expand(8, *images.shape).clone()):
            out, expected = gradients(plain, x, dtype)
            found, results = gradients(economical, x, dtype)
            assert expected and out.any()
            assert (found != out).float().mean() < 1e-3
            for a, b in zip(results, expected, strict=True):
                # In lower precision, sums in another order differ where they nearly cancel out.
                alike = torch.nn.functional.cosine_similarity(a.flatten(), b.flatten(), 0)
                assert alike > (0.999 if dtype is None else 0.98)


@pytest.mark.parametrize("ties", [False, True])
def test_pooling_takes_the_same_maximum(device, ties):
    # Among equal values of a window, the first gets the gradient: the place that PyTorch's own kernel found is kept.
    plain = Sequential(IF(engine="eager"), nn.MaxPool2d(3, stride=2, padding=1)).to(device)
    economical = copy.deepcopy(plain)
    economical.runner = MemorySaving()
    x = torch.rand(6, 8, 4, 15, 15, device=device) * (1 if ties else 0.3)
    found = []
    for net in (plain, economical):
        leaf = x.clone().requires_grad_()
        out = net(leaf)[0]
        found.append(torch.autograd.grad((out * torch.arange(out.numel(), device=device).view_as(out)).sum(), leaf)[0])
    torch.testing.assert_close(found[1], found[0], rtol=1e-5, atol=1e-3)


def test_the_peak_is_lower(cuda):
    net = FashionConvNet(128, 2048).to(cuda)
    x = encode.repeat(torch.rand(64, 1, 28, 28, device=cuda), 16)
    report = toolkit.optimize_memory_usage(net, x)
    print(report)
    # Halved but for what convolutions take to work in, which only this counter sees.
    assert report.before.peak > 1.5 * report.after.peak
    table = toolkit.explain_memory(net, x, optimizer="momentum")
    print(table)
    assert table.measured > table.step.held / 2


def test_a_tracker_counts_what_the_allocator_counts(cuda):
    x = torch.rand(2**20, device=cuda)
    gc.collect()  # or what earlier tests left behind may go just now
    with toolkit.MemoryTracker() as tracker:
        before = torch.cuda.memory_allocated()
        y = x.exp().sin() + x[: 2**10].repeat(2**10)
        assert tracker.live == torch.cuda.memory_allocated() - before == y.nbytes


@pytest.fixture
def small(cuda):
    """This process may take two GiB more than it has: other workers are on this device, too."""
    gc.collect()
    torch.cuda.empty_cache()
    _, total = torch.cuda.mem_get_info()
    room = 2**31
    torch.cuda.set_per_process_memory_fraction(min(1.0, (torch.cuda.memory_reserved() + room) / total))
    yield room
    torch.cuda.set_per_process_memory_fraction(1.0)
    torch.cuda.empty_cache()


def test_out_of_memory_is_survived(small, cuda):
    net = mlp((64, 10)).to(cuda)

    def greedy(net, batch):
        torch.empty(small // 40 * len(batch), dtype=torch.uint8, device=cuda)  # 64 samples: more than there is
        return net(batch[None])[0][0]

    samples = torch.rand(64, 64)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = toolkit.batch_process(net, samples, greedy, 64, progress=False)
    assert any("going on with 32" in str(w.message) for w in warned)
    # A matrix product of 32 rows may be another kernel than one of 64, and round a membrane to the other side.
    assert (found != net.eval()(samples.to(cuda)[None])[0][0]).float().mean() < 0.01
    _, total = torch.cuda.mem_get_info()
    with pytest.raises(MemoryError, match="single sample does not fit on cuda"):
        toolkit.batch_process(
            net, samples[:1], lambda net, b: torch.empty(2 * total, dtype=torch.uint8, device=cuda), progress=False
        )
    assert toolkit.batch_process(net, samples, lambda net, b: net(b[None])[0][0], progress=False).shape == (64, 10)


def test_moving_there_and_back(device):
    net = nn.Linear(3, 3)
    base = torch.rand(4, 6)
    pinned = torch.rand(5).pin_memory() if device.type == "cuda" else torch.rand(5)
    nest = {"net": net, "views": (base, base.t()), "weight": [net.weight], "pinned": pinned}
    there = toolkit.move_tensors_to_device(nest, device, non_blocking=True)
    assert there["weight"][0] is net.weight and net.weight.device.type == device.type
    assert torch.equal(there["views"][1], base.t().to(device))
    again = toolkit.move_tensors_to_device(there, device)
    assert again is there
    back = toolkit.move_tensors_to_device(there, "cpu")
    assert torch.equal(back["views"][0], base) and torch.equal(back["pinned"], pinned)


def test_accelerate(cuda):
    net = FashionConvNet(8, 32)
    fast = toolkit.accelerate(net, optimize_memory=True)
    assert fast.device.type == "cuda" and fast.precision in ("bf16", "fp16") and fast.channels_last
    assert net[4].weight.is_contiguous(memory_format=torch.channels_last)
    out, _ = fast(torch.rand(4, 2, 1, 28, 28))
    out.float().sum().backward()
    assert out.is_cuda and net[0].weight.grad is not None
    assert fast.process(torch.rand(9, 1, 28, 28), lambda net, b: net(encode.repeat(b, 4))[0].mean(0)).shape == (9, 10)
    usage = toolkit.get_gpu_memory_usage()
    assert usage.device.startswith("cuda:") and 0 < usage.allocated <= usage.reserved <= usage.total
