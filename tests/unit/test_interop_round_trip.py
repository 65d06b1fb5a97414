"""To NIR and back: the same spikes, whatever the network."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

nir = pytest.importorskip("nir")

from snnkit.interop import Scale, SumPool2d  # noqa: E402
from snnkit.neuron import IF, LI, LIF, PLIF, CubaLIF, Leaky, Recurrent  # noqa: E402
from snnkit.nn import Once, Sequential, TimeBatched  # noqa: E402
from tests.unit.nir_cases import DT, networks, quick, read, run, sequence, written  # noqa: E402

# Deadlines would measure the machine.
MANY = settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@MANY
@given(case=networks(), seed=st.integers(0, 9))
def test_random_networks(case, seed):
    net, shape = case
    x = sequence(shape, seed)
    back = read(written(net, x))
    assert type(back) is Sequential
    assert torch.equal(run(back, x), run(net, x))


@pytest.mark.parametrize(
    "neuron",
    [
        IF(0.7, -0.3),
        LIF(3.3, 0.9, -0.1),
        LIF(3.3, decay_input=False),
        PLIF(3.3),
        Leaky(0.85, 0.9, reset_mechanism="zero"),
        Leaky(1.0, reset_mechanism="zero", reset_delay=False),
        CubaLIF(90.0, 130.0, v_leak=0.05, v_th=0.6, v_reset=-0.1),
        LI(90.0, 130.0, v_leak=0.05),
    ],
    ids=lambda neuron: repr(neuron)[:24],
)
def test_through_a_file_each_neuron_comes_back_the_same(tmp_path, neuron):
    net = quick(Sequential(nn.Linear(5, 4), neuron))
    x = sequence((5,)) * 2
    nir.write(tmp_path / "net.nir", written(net, x))
    back = read(tmp_path / "net.nir")
    assert type(back[1]) is type(neuron)
    out = run(net, x)
    assert out.abs().sum() > 0, "a silent network would prove nothing"
    assert torch.equal(run(back, x), out)
    assert [name for name, _ in back.named_parameters()] == [name for name, _ in net.named_parameters()]


def test_every_kind_of_layer_through_a_file(tmp_path):
    net = quick(
        Sequential(
            TimeBatched(nn.Conv2d(2, 4, (3, 5), stride=(1, 2), padding=(1, 2), dilation=1, groups=2, bias=False)),
            IF(0.5),
            nn.AvgPool2d((2, 1), padding=(1, 0)),
            Once(nn.Conv2d(4, 3, 3, padding="same")),
            LIF(1.5, 0.1),
            SumPool2d(2),
            nn.Dropout(0.5),
            Sequential(nn.Flatten(), nn.Identity(), nn.Linear(12, 6)),
            Scale(torch.tensor([1.5, -1.5, 2, 0, 3, 0.1])),
            Recurrent(CubaLIF(300.0, v_th=0.1), 6, bias=True),
        )
    )
    x = sequence((2, 6, 8)) * 3
    nir.write(tmp_path / "net.nir", written(net, x))
    back = read(tmp_path / "net.nir")
    net.eval()
    out = run(net, x)
    assert 0 < out.sum() < out.numel()
    assert torch.equal(run(back, x), out)
    kinds = " ".join(type(m).__name__ for m in back)
    assert kinds == "Conv2d IF AvgPool2d Conv2d LIF SumPool2d Flatten Linear Scale Recurrent"


def test_float64():
    net = quick(Sequential(nn.Linear(5, 4), LIF(torch.rand(4) * 4 + 1.1, 0.3)).double())
    x = sequence((5,), dtype=torch.float64)
    back = read(written(net, x), dtype=torch.float64)
    assert back[0].weight.dtype == torch.float64
    assert torch.equal(run(back, x), run(net, x))
    scale = torch.rand(5, dtype=torch.float64)
    graph = written(read(nir.NIRGraph.from_list(nir.Scale(scale.numpy())), dtype=torch.float64), x)
    (again,) = (node.scale for node in graph.nodes.values() if isinstance(node, nir.Scale))
    assert np.array_equal(again, scale.numpy()) and again.dtype == np.float64
    halved = read(written(net, x))
    assert halved[1].tau.dtype == torch.float32 and run(halved, x.float()).dtype == torch.float32


def test_a_note_is_not_believed_where_the_numbers_have_changed():
    net = Sequential(LIF(4.0))
    x = sequence((3,))
    graph = written(net, x)
    graph.nodes["0"].tau[:] *= 2
    assert type(read(graph)[0]) is not LIF
    assert read(graph)[0].tau == pytest.approx(8 * DT)
    other_dt = read(written(net, x), dt=DT / 4)  # four times the steps: half the note would be wrong
    assert other_dt[0].tau == pytest.approx(4 * DT) and other_dt[0].dt == DT / 4
    for spoilt in ({"snnkit": "LIF"}, {"snnkit": "Nothing"}, {"snnkit": "LIF", "tau": "x"}):
        graph = written(net, x)
        graph.nodes["0"].metadata = spoilt
        assert type(read(graph)[0]) is not LIF
