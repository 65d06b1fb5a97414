"""Whole models under torch.compile on a GPU, and CUDA graphs."""

import pytest
import torch
from torch import nn

from snnkit.engine import ops
from snnkit.neuron import LIF, PLIF, Leaky, Recurrent
from snnkit.nn import Sequential

SHORT, LONG = ops.INLINED - 8, ops.INLINED + 8


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def network(name, device):
    torch.manual_seed(0)
    net = Sequential(
        nn.Linear(5, 64), LIF(3.0, engine=name), nn.Linear(64, 32), PLIF(shape=(32,), v_threshold=0.1, engine=name)
    )
    return net.double().to(device)


def gradients(model, net, x):
    out, state = model(x)
    loss = out.mean() + state[1].v.pow(2).mean()
    return [out.detach(), *torch.autograd.grad(loss, [x, *net.parameters()])]


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("steps, name", [(SHORT, "auto"), (LONG, "auto"), (LONG, "triton"), (LONG, "block")])
def test_whole_models_compile(steps, name, mode, device):
    net = network(name, device)
    x = (torch.rand(steps, 16, 5, dtype=torch.float64) * 20).to(device).requires_grad_()
    expected = gradients(net, net, x)
    assert 0 < expected[0].mean() < 1
    model = torch.compile(net, fullgraph=True, mode=mode)
    for _ in range(3):  # with CUDA graphs: warm-up, capture, replay
        torch.compiler.cudagraph_mark_step_begin()
        found = [t.clone() for t in gradients(model, net, x)]
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", ["triton", "block"])
def test_capture_in_a_cuda_graph(name, cuda):
    neuron = Leaky(0.9, engine=name)
    x = torch.rand(32, 4, 1000, device=cuda) * 1.5
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        neuron(x)  # compiled before the capture
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), torch.no_grad():
        out, _ = neuron(x)
    for seed in range(3):
        torch.manual_seed(seed)
        x.copy_(torch.rand_like(x) * 1.5)
        graph.replay()
        with torch.no_grad():
            assert torch.equal(out, neuron(x)[0])


def test_what_a_capture_computes_is_not_shared_with_calls_before_its_replay(cuda):
    # A state at rest, or a gradient of zeros, that a capture has made has no value yet.
    neuron, x = LIF(3.0, v_reset=-1.0, engine="triton"), torch.rand(32, 4, 1000, device=cuda) * 2
    neuron(x[:, :2].contiguous())  # its kernel is compiled, but no call had the sizes of the capture
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), torch.no_grad():
        out, _ = neuron(x)
    with torch.no_grad():
        found, expected = neuron(x)[0], LIF(3.0, v_reset=-1.0, engine="triton")(x)[0]
    assert torch.equal(found, expected) and 0 < found.mean() < 1
    graph.replay()
    assert torch.equal(out, expected)


def test_a_recurrent_layer_and_its_gradients_in_a_cuda_graph(cuda):
    layer = Recurrent(LIF(engine="triton"), 100).to(cuda)
    x = torch.randn(20, 8, 100, device=cuda) * 2

    def update():
        out, state = layer(x)
        return out, *torch.autograd.grad(out.mean() + state.neuron.v.square().mean(), list(layer.parameters()))

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        update()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = update()
    x.copy_(torch.randn_like(x) * 2)
    graph.replay()
    torch.testing.assert_close(found, update(), rtol=1e-5, atol=1e-5)
