"""On a GPU the compiled engines equal the eager one: every neuron, every dtype, large and small, any layout."""

import pytest
import torch
from torch import nn

from snnkit import engine
from snnkit.event_lists import EventList
from snnkit.neuron import LIF, PLIF, CubaLIF, Recurrent
from snnkit.nn import Sequential
from tests.engine.test_recurrent import assert_equal, layer as recurrent_layer, passed, with_engine
from tests.engine.zoo import FEATURES, ZOO, drive, results

ENGINES = ["block", "triton"]


def assert_same(neuron, x, name, spikes=0.0, rtol=1e-9):
    """``spikes``: share that may differ, where another rounding moves a membrane across its threshold."""
    out_e, last_e, gradients_e = results(neuron, x, "eager")
    out, last, gradients = results(neuron, x, name)
    assert out.dtype == x.dtype
    different = (out != out_e).double().mean().item()
    assert different <= spikes, f"{different:.2%} of the outputs differ"
    if different:
        return
    for found, expected in zip((*last, *gradients), (*last_e, *gradients_e), strict=True):
        scale = expected.abs().max().clamp_min(1e-6).item()
        torch.testing.assert_close(found, expected, rtol=rtol, atol=rtol * scale)


@pytest.mark.parametrize("engine_name", ENGINES)
@pytest.mark.parametrize("name", ZOO)
def test_every_neuron_in_float64(name, engine_name, device):
    neuron = ZOO[name]().double()
    x = drive(neuron, 19, 3, FEATURES).to(device)
    neuron = neuron.to(device)
    if not neuron.spiking:  # its output is a membrane: equal but for rounding
        out_e, last_e, gradients_e = results(neuron, x, "eager")
        out, last, gradients = results(neuron, x, engine_name)
        torch.testing.assert_close([out, *last, *gradients], [out_e, *last_e, *gradients_e], rtol=1e-9, atol=1e-12)
    else:
        assert_same(neuron, x, engine_name)


@pytest.mark.parametrize("engine_name", ENGINES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["LIF", "LIF-learnable-tau", "Leaky", "CubaLIF", "PLIF", "Izhikevich"])
def test_lower_precision_in_and_out(name, dtype, engine_name, device):
    # Arithmetic is float32 in all engines. PyTorch's eager kernels on CUDA multiply by the inverse of a constant where
    # the engines divide, so a membrane may round to the other side of its threshold.
    neuron = ZOO[name]()
    x = drive(neuron, 19, 64, FEATURES, dtype=dtype).to(device)
    assert_same(neuron.to(device), x, engine_name, spikes=2e-3, rtol=1e-3 if dtype == torch.float32 else 2e-2)


@pytest.mark.parametrize("engine_name", ENGINES)
@pytest.mark.parametrize("steps, neurons", [(1, 1), (7, 63), (8, 4096), (9, 2**16 + 5), (33, 2**17), (128, 1000)])
def test_every_size(steps, neurons, engine_name, device):
    if device.type == "cpu":
        neurons = min(neurons, 1000)
    neuron = LIF().double().to(device)
    assert_same(neuron, (torch.rand(steps, 1, neurons, dtype=torch.float64) * 1.4).to(device), engine_name)


@pytest.mark.parametrize("engine_name", ENGINES)
def test_layouts_in_place(engine_name, device):
    base = torch.rand(9, 4, 6, 5, 5, dtype=torch.float64, device=device) * 1.4
    channels_last = base.flatten(0, 1).contiguous(memory_format=torch.channels_last).unflatten(0, (9, 4))
    neuron = LIF(nn.Parameter(torch.linspace(1.5, 3.0, 6, dtype=torch.float64).reshape(6, 1, 1))).to(device)
    for x in (base, channels_last, base[:1].expand(9, 4, 6, 5, 5), base[..., ::2], base.transpose(0, 1)[:, :4]):
        assert_same(neuron, x, engine_name)
    out, state = LIF(engine=engine_name)(channels_last)
    assert out.stride() == channels_last.stride() and state.v.stride() == channels_last[0].stride()


@pytest.mark.parametrize("engine_name", ENGINES)
def test_bytes_and_no_gradients(engine_name, device):
    x = torch.rand(19, 3, 700, device=device) * 1.5
    expected = CubaLIF(engine="eager")(x)[0]
    with torch.no_grad():
        out = CubaLIF(engine=engine_name)(x)[0]
    with torch.inference_mode():
        spikes, _ = CubaLIF(engine=engine_name)(x, out_dtype=torch.uint8)
    assert spikes.dtype == torch.uint8 and torch.equal(spikes.float(), out)
    assert (out != expected).float().mean() < 2e-3 and 0 < out.mean() < 1


@pytest.mark.parametrize("engine_name", ENGINES)
def test_autocast_keeps_the_fast_path_and_a_float32_state(engine_name, device):
    net = Sequential(nn.Linear(20, 30), PLIF(shape=(30,), engine=engine_name)).to(device)
    x = torch.rand(12, 8, 20, device=device) * 4
    with torch.autocast(device.type, torch.bfloat16):
        out, state = net(x)
        assert engine.explain(net, x)[0].engine == engine_name
    out.float().mean().backward()
    assert out.dtype == torch.bfloat16 and state[1].v.dtype == torch.float32
    assert all(p.grad.isfinite().all() for p in net.parameters()) and net[0].weight.grad.abs().sum() > 0


@pytest.mark.parametrize("engine_name", ENGINES)
def test_transforms(engine_name, device):
    x = (torch.rand(9, 4, 3, dtype=torch.float64) * 1.5).to(device)

    def gradients(name):
        neuron = PLIF(shape=(3,), engine=name).double().to(device)

        def loss(w, one):
            return torch.func.functional_call(neuron, {"w": w}, (one[:, None],))[0].sum()

        return torch.vmap(torch.func.grad(loss, argnums=(0, 1)), in_dims=(None, 1))(neuron.w.detach(), x)

    torch.testing.assert_close(gradients(engine_name), gradients("eager"), rtol=1e-9, atol=1e-12)


def test_auto_compiles_here(cuda):
    assert engine.explain(LIF(), torch.rand(32, 4, 2**12, device=cuda))[0].engine != "eager"


def test_too_large_a_layer_says_what_to_lower(cuda):
    _, total = torch.cuda.mem_get_info()  # what is free changes under us: other workers are on this device, too
    x = torch.empty(1, device=cuda).expand(64, 2, total // (64 * 4))  # the output would take twice what there is
    with pytest.raises(MemoryError, match=r"LIF ran out of memory on cuda.*fewer steps"):
        LIF(engine="triton")(x)
    assert LIF(engine="triton")(torch.rand(4, 2, 3, device=cuda))[0].shape == (4, 2, 3)


@pytest.mark.parametrize("name", ["LIF", "CubaLIF-learnable", "AdEx-learnable", "LI"])
def test_recurrent_layers_in_one_launch(name, device):
    # On a GPU float64 tells a wrong kernel from sums in another order.
    made = recurrent_layer(ZOO[name](), bias=True).to(device)
    x = torch.randn(19, 37, FEATURES, dtype=torch.float64, device=device) * 2
    assert with_engine(made, "triton").whole_plan(x, made.neuron.initial_state(x[0])).engine == "triton"
    found, wanted = (passed(with_engine(made, name), x) for name in ("triton", "eager"))
    assert_equal(found, wanted, 1e-9)
    steps, batch, features = (50, 64, 300) if device.type == "cuda" else (5, 6, 30)  # the interpreter is slow
    wide, x = recurrent_layer(LIF(), features).float().to(device), torch.randn(steps, batch, features, device=device)
    outs = [with_engine(wide, name)(x)[0] for name in ("triton", "eager")]
    # A membrane that rounding moves across its threshold may change all spikes of its sample after it.
    assert (outs[0] != outs[1]).any(2).any(0).float().mean() < 0.2


def test_lists_of_events_in_a_first_layer(device):
    x = (torch.rand(9, 5, 300, device=device) < 0.1).float()
    listed, layer = EventList.of(x), nn.Linear(300, 70).to(device)
    found, wanted = (Sequential(layer)(inputs)[0] for inputs in (listed, x))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    gradients = [torch.autograd.grad(out.square().sum(), list(layer.parameters())) for out in (found, wanted)]
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-3)


WITHOUT_WAITING = {
    "a recurrent layer": lambda x: (Sequential(Recurrent(LIF(), 300)), x),
    "a recurrent layer, a loop": lambda x: (Sequential(Recurrent(LIF(engine="eager"), 300)), x),
    "a list of events": lambda x: (Sequential(nn.Flatten(), nn.Linear(300, 70), LIF()), EventList.of(x)),
    "a learned neuron": lambda x: (Sequential(PLIF(shape=(300,)), nn.Linear(300, 10), PLIF()), x),
}


@pytest.mark.parametrize("name", WITHOUT_WAITING)
def test_a_pass_and_its_gradients_do_not_wait_for_the_device(name, cuda):
    net, x = WITHOUT_WAITING[name]((torch.rand(20, 5, 300, device=cuda) < 0.1).float())
    net = net.to(cuda)
    net(x)[0].sum().backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        net(x)[0].sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
