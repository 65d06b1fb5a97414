"""Graphs that other frameworks write, read here: the spikes of their networks; and ours, read there."""

import numpy as np
import pytest
import torch
from torch import nn

nir = pytest.importorskip("nir")

from snnkit.neuron import LIF  # noqa: E402
from snnkit.nn import Sequential  # noqa: E402
from tests.unit.nir_cases import DT, read, run, written  # noqa: E402

STEPS = 40


def drive(*shape):
    return torch.rand(STEPS, 2, *shape, generator=torch.Generator().manual_seed(1)) * 2


def same_spikes(net, x, wanted):
    out = run(net, x)
    assert 0 < wanted.sum() < wanted.numel()
    assert torch.equal(out, wanted.reshape(out.shape).to(out.dtype))


@pytest.mark.parametrize("synaptic", [False, True])
def test_snntorch(synaptic):
    """Its exporter assumes dt = 1e-4, so that is the dt to read with."""
    snn = pytest.importorskip("snntorch")
    pytest.importorskip("nirtorch")
    from snntorch.export_nir import export_to_nir

    options = {"init_hidden": True, "output": True, "reset_mechanism": "zero", "reset_delay": False}
    beta, threshold = torch.tensor([0.8, 0.9, 0.7, 0.85]), torch.ones(4)
    if synaptic:
        lif = snn.Synaptic(alpha=torch.full((4,), 0.6), beta=beta, threshold=threshold, **options)
    else:
        lif = snn.Leaky(beta=beta, threshold=threshold, **options)
    theirs = nn.Sequential(nn.Linear(3, 4), lif)
    x = drive(3)
    graph = export_to_nir(theirs, x[0], ignore_dims=[0])
    lif.reset_mem()
    with torch.no_grad():
        wanted = torch.stack([theirs(x_t)[0] for x_t in x])
    same_spikes(read(graph, dt=1e-4), x, wanted)


def test_spikingjelly_reads_what_is_written_here():
    pytest.importorskip("spikingjelly")
    from spikingjelly.activation_based import functional
    from spikingjelly.activation_based.nir_exchange import import_from_nir

    net = Sequential(nn.Linear(3, 4), LIF(3.0, 0.1, engine="eager"), nn.Linear(4, 5), LIF(2.0, 0.1, engine="eager"))
    x = drive(3)
    theirs = import_from_nir(written(net, x), dt=DT)
    functional.reset_net(theirs)
    state, outs = None, []
    with torch.no_grad():
        for x_t in x:
            out = theirs(x_t) if state is None else theirs(x_t, state)
            out, state = out if isinstance(out, tuple) else (out, None)
            outs.append(out)
    same_spikes(net, x, torch.stack(outs))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_file_with_numbers_as_snntorch_writes_them(tmp_path, kind):
    """tau = dt/(1-β), r = tau/dt at dt = 1e-4, no bias in the last layer; integers and tensors where arrays belong."""
    beta = np.array([0.8, 0.9, 0.7], kind)
    tau = (1e-4 / (1 - beta)).astype(kind)
    ones = np.ones(3, kind)
    lif = nir.LIF(tau=tau, r=(tau / 1e-4).astype(kind), v_leak=0 * ones, v_threshold=ones, v_reset=0 * ones)
    weight = torch.eye(3).numpy().astype(kind)
    nir.write(tmp_path / "net.nir", nir.NIRGraph.from_list(nir.Affine(weight, 0 * ones), lif, nir.Linear(weight[:2])))
    x = drive(3) / 4
    mem, wanted = torch.zeros(2, 3), []
    for x_t in x:
        mem = torch.from_numpy(beta).float() * mem + x_t
        spikes = (mem > 1).float()
        mem = mem * (1 - spikes)
        wanted.append(spikes[:, :2])
    same_spikes(read(tmp_path / "net.nir", dt=1e-4), x, torch.stack(wanted))


def test_a_file_with_a_convolution_as_sinabs_and_spikingjelly_write_it(tmp_path):
    conv = nn.Conv2d(1, 2, 3, padding=1)
    weight, bias = conv.weight.detach().numpy(), conv.bias.detach().numpy()  # type: ignore[union-attr]
    full = np.ones((2, 6, 6))
    graph = nir.NIRGraph.from_list(
        nir.Conv2d(input_shape=(6, 6), weight=weight, stride=1, padding=1, dilation=1, groups=1, bias=bias),
        nir.IF(r=full / DT, v_threshold=full / 2, v_reset=0 * full),
        nir.AvgPool2d(kernel_size=np.array([2, 2]), stride=np.array([2, 2]), padding=np.array([0, 0])),
        nir.Flatten(input_type={"input": np.array([2, 3, 3])}, start_dim=0, end_dim=-1),
    )
    nir.write(tmp_path / "net.nir", graph)
    net, x = read(tmp_path / "net.nir"), drive(1, 6, 6)
    v, wanted = torch.zeros(2, 2, 6, 6), []
    with torch.no_grad():
        for x_t in x:
            v = v + conv(x_t)
            spikes = (v > 0.5).float()
            v = v * (1 - spikes)
            wanted.append(nn.functional.avg_pool2d(spikes, 2).flatten(1))
    same_spikes(net, x, torch.stack(wanted))
