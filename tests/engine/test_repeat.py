"""One step that comes in again and again: as its expanded view, but its gradient is summed where it is made."""

import pytest
import torch
from torch import nn

from snnkit.engine import cpp, warm
from snnkit.neuron import IF, LI, PLIF, CubaLIF, Leaky
from snnkit.nn import Sequential


def neurons(engine):
    threshold = nn.Parameter(torch.linspace(0.6, 1.4, 6, dtype=torch.float64).reshape(6, 1))
    plain = IF(engine=engine), CubaLIF(engine=engine), LI(engine=engine), PLIF(engine=engine).double()
    return [*plain, Leaky(0.8, threshold, engine=engine)]


def gradients(neuron, step, out, last, weight):
    loss = (out * weight).sum() + sum((part * weight[0]).sum() for part in last)
    return torch.autograd.grad(loss, [step, *neuron.parameters()])


@pytest.mark.parametrize(("engine", "steps"), [("eager", 5), *((e, n) for e in ("cpp", "block") for n in (1, 5, 9))])
def test_it_is_the_expanded_sequence(engine, steps, plain_blocks):
    step = (torch.rand(2, 6, 40, dtype=torch.float64) * 1.5).requires_grad_()
    weight = torch.rand(steps, 2, 6, 40, dtype=torch.float64)
    for neuron, reference in zip(neurons(engine), neurons("eager"), strict=True):
        out, last = neuron(step, repeat=steps)
        expected, rest = reference(step.expand(steps, *step.shape))
        torch.testing.assert_close(out, expected)
        found = gradients(neuron, step, out, last, weight)
        for one, other in zip(found, gradients(reference, step, expected, rest, weight), strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_in_16_bits_the_gradient_is_summed_in_float32(dtype):
    step = torch.rand(3, 50).to(dtype).requires_grad_()
    out, _ = Leaky(0.9, engine="cpp")(step, repeat=64)
    (short,) = torch.autograd.grad(out.sum(), step)
    exact = step.detach().float().requires_grad_()
    (wide,) = torch.autograd.grad(Leaky(0.9, engine="cpp")(exact, repeat=64)[0].sum(), exact)
    assert short.dtype == dtype
    torch.testing.assert_close(short, wide.to(dtype))


def test_channels_last_stays_so():
    step = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last).requires_grad_()
    out, _ = IF(engine="cpp")(step, repeat=3)
    assert out[0].is_contiguous(memory_format=torch.channels_last)
    (d,) = torch.autograd.grad(out.sum(), step)
    assert d.is_contiguous(memory_format=torch.channels_last)


def test_no_sequence_of_gradients_is_made(monkeypatch):
    """Behind a plain layer with a static input, a neuron's gradient is one step from the start."""
    made = []

    def watched(backward):
        def call(*arguments):
            result = backward(*arguments)
            made.append(result[0].shape)
            return result

        return call

    monkeypatch.setattr(cpp, "backward", watched(cpp.backward))
    monkeypatch.setattr(warm.Warm, "gradients", watched(warm.Warm.gradients))
    first, last = Leaky(0.9, engine="cpp"), Leaky(0.9, engine="cpp")
    net = Sequential(nn.Linear(8, 64), first, nn.Linear(64, 4), last)
    net(torch.rand(2, 8).expand(16, 2, 8))[0].sum().backward()
    assert made == [(16, 2, 4), (2, 64)]
    made.clear()
    # Who hooks a neuron expects the sequence.
    first.register_forward_pre_hook(lambda module, inputs: made.append(inputs[0].shape))
    net(torch.rand(2, 8).expand(16, 2, 8))[0].sum().backward()
    assert made == [(16, 2, 64), (16, 2, 4), (16, 2, 64)]


def test_under_transforms_and_without_gradients_it_is_the_same():
    step = torch.rand(3, 10)
    neuron = Leaky(0.9, engine="cpp")
    expected = neuron(step.expand(6, 3, 10))[0]
    with torch.no_grad():
        assert torch.equal(neuron(step, repeat=6)[0], expected)
    each = torch.func.vmap(lambda s: neuron(s[None], repeat=6)[0][:, 0], out_dims=1)(step)
    assert torch.equal(each, expected)
    (one,) = torch.func.jacrev(lambda s: neuron(s, repeat=6)[0].sum())(step).unbind(0)[:1]
    leaf = step.clone().requires_grad_()
    torch.testing.assert_close(one, torch.autograd.grad(neuron(leaf, repeat=6)[0].sum(), leaf)[0][0])
