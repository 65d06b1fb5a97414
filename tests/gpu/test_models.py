"""On a GPU: the networks compute what they do on a CPU, recipes learn, and augmentation can be part of a CUDA graph."""

import pytest
import torch

from snnkit import data, encode, loss
from snnkit.data.augment import Shift
from snnkit.models import FashionConvNet, StatisticalSNN
from snnkit.neuron import IF
from snnkit.surrogate import FastSigmoid
from snnkit.train import recipes

ALL = Shift(2)


def images(batch=8, size=12):
    return 4 * torch.rand(batch, 1, size, size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("engine", ["auto", "block", "triton"])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_the_conv_net_is_that_of_the_cpu(engine, memory_format, device):
    torch.manual_seed(0)
    net = FashionConvNet(8, 32, size=12, engine="eager").double()
    for module in net:
        if isinstance(module, IF):
            module.surrogate = FastSigmoid(2.0)
    x, y = images(), torch.arange(8)
    out, _ = net(encode.repeat(x, 5))
    loss.rate_mse(out, y).backward()
    expected = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    for module in net:
        if hasattr(module, "engine"):
            module.engine = engine
    net = net.to(device).to(memory_format=memory_format)
    there = x.to(device).contiguous(memory_format=memory_format)
    out_there, _ = net(encode.repeat(there, 5))
    loss.rate_mse(out_there, y.to(device)).backward()
    assert out_there.device.type == device.type
    # Another order of additions may move a membrane across its threshold.
    assert float((out_there.cpu() != out).double().mean()) < 0.01
    if torch.equal(out_there.cpu(), out):
        for found, wanted in zip(net.parameters(), expected, strict=True):
            torch.testing.assert_close(
                found.grad.cpu(), wanted, rtol=1e-4, atol=1e-4 * float(wanted.abs().max() + 1e-6)
            )


def test_the_statistical_net_moves_and_answers(device):
    torch.manual_seed(0)
    net = StatisticalSNN(64, 48, populations=12).to(device)
    answer = net.process_input(data.load("digits", "test")[0][:5])
    assert answer.output.device.type == answer.statistics.rate.device.type == device.type
    x = net.encode(torch.rand(3, 64, device=device))
    whole, _ = net(x)
    _, state = net(x[:10])
    torch.testing.assert_close(net(x[10:], state)[0], whole, rtol=1e-3, atol=1e-3)
    expected = net.cpu()(x.cpu())[0]
    torch.testing.assert_close(whole.cpu(), expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("graphed", [False, True])
@pytest.mark.parametrize("network", [{}, {"network": "conv", "channels": 8, "lr": 0.01}])
def test_recipes_learn(network, graphed, device, tmp_path):
    settings = {"epochs": 6, "hidden": 64, "steps": 6, "amp": True, "graphed": graphed and device.type == "cuda"}
    settings |= {"shift": 1, "channels_last": True} | network
    file = tmp_path / "run.pt"
    begun = recipes.run("digits", device=device, progress=False, checkpoint=file, **settings)
    assert begun.history.test_accuracy[-1] > 0.6 and next(begun.model.parameters()).device.type == device.type
    longer = recipes.run("digits", device=device, progress=False, checkpoint=file, resume=True, epochs=7)
    assert longer.history.epochs == 7 and longer.history.train_loss[:6] == begun.history.train_loss


def test_augmentation_never_waits_for_the_device(cuda):
    x = torch.rand(64, 1, 12, 12, device=cuda)
    ALL(x)
    mode = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        ALL(x)
    finally:
        torch.cuda.set_sync_debug_mode(mode)
