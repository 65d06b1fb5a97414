"""To NIR and back: the same spikes, whatever the network."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies as st
from torch import nn

nir = pytest.importorskip("nir")

from snnkit.interop import (  # noqa: E402
    EulerCubaLI,
    EulerCubaLIF,
    EulerI,
    EulerIF,
    EulerLI,
    EulerLIF,
    Scale,
    SumPool2d,
)
from snnkit.neuron import IF, LI, LIF, PLIF, CubaLIF, Leaky, OneToOne, Readout, Recurrent, Synaptic  # noqa: E402
from snnkit.nn import Once, Residual, Sequential, TimeBatched  # noqa: E402
from snnkit.surrogate import ATan, Surrogate, Triangle  # noqa: E402
from tests.unit.nir_cases import (  # noqa: E402
    DT,
    assert_same,
    graphs,
    networks,
    quick,
    read,
    run,
    sequence,
    written,
)

# Deadlines would measure the machine.
MANY = settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@MANY
@given(case=networks(), seed=st.integers(0, 9))
def test_random_networks(case, seed):
    net, shape = case
    x = sequence(shape, seed)
    back = read(written(net, x))
    assert torch.equal(run(back, x), run(net, x))
    assert_same(back, net)


@MANY
@given(net=graphs(), seed=st.integers(0, 9))
def test_random_graphs(net, seed):
    net, x = quick(net).eval(), sequence((3,), seed)
    try:
        graph = written(net, x)
    except ValueError as error:
        assert "gets one signal twice, which NIR can't express" in str(error)
        return
    back = read(graph)
    out = run(net, x)
    assert torch.equal(run(back, x), out)
    assert_same(back, net)
    graph.metadata = {}  # as another program writes it: other modules, the same sums in another order
    anonymous = read(graph)
    torch.testing.assert_close(run(anonymous, x), out, rtol=1e-3, atol=1e-3)
    again = read(written(anonymous, x))
    assert_same(again, anonymous)


def test_residual_blocks_of_convolutions():
    torch.manual_seed(0)
    first = Residual(Sequential(nn.Conv2d(2, 4, 3, padding=1), CubaLIF()), nn.Conv2d(2, 4, 1))
    net = Sequential({"first": first, "second": Residual(Sequential({"lif": CubaLIF(), "conv": nn.Conv2d(4, 4, 1)}))})
    net, x = quick(net).eval(), 20 * torch.rand(5, 2, 2, 4, 4)
    graph = written(net, x)
    assert {"first_main_0", "first_skip", "second_main_lif", "second_main_conv"} <= {*graph.nodes}
    assert ("first_skip", "second_main_lif") in graph.edges and ("first_skip", "output") in graph.edges
    back = read(graph)
    assert_same(back, net)
    assert torch.equal(run(back, x), run(net, x))


def learned(number, *shape):
    return nn.Parameter(torch.full(shape, number))


NEURONS = [
    IF(0.7, -0.3),
    IF(learned(0.7), torch.tensor(-0.3), detach_reset=True, surrogate=Triangle(0.5)),
    LIF(3.3, 0.9, -0.1),
    LIF(learned(3.3), torch.rand(4) + 0.5, decay_input=False, detach_reset=True),
    PLIF(3.3),
    PLIF(3.3, shape=(1,), v_reset=learned(-0.1)),
    PLIF(3.3, shape=(4,), detach_reset=True),
    Leaky(0.85, 0.9, reset_mechanism="zero"),
    Leaky(learned(0.85, 4), learned(0.9), reset_mechanism="zero"),
    Leaky(1.0, reset_mechanism="zero", reset_delay=False),
    CubaLIF(90.0, 130.0, v_leak=0.05, v_th=0.6, v_reset=-0.1, detach_reset=True),
    CubaLIF(learned(90.0), 130.0, v_leak=learned(0.05, 4), v_th=0.6, dt=torch.tensor(DT), surrogate=ATan(3.0)),
    LI(90.0, 130.0, v_leak=0.05),
    LI(learned(90.0), learned(130.0, 1), v_leak=torch.rand(4)),
    Synaptic(0.6, 0.8, 0.7, reset_mechanism="zero", reset_delay=False),
    Synaptic(learned(0.6, 4), learned(0.8), learned(0.7), reset_mechanism="zero", reset_delay=False),
    Readout(0.9),
    Readout(learned(0.9, 4), decay_input=True),
    Readout(torch.tensor(1.0)),
    OneToOne(LIF(3.3), -0.4),
    OneToOne(Leaky(learned(0.85), reset_mechanism="zero"), learned(0.3)),
    OneToOne(IF(), torch.rand(4)),
    EulerI(r=learned(800.0), dt=DT),
    EulerIF(r=learned(800.0), v_threshold=0.7, v_reset=-0.1, dt=DT),
    EulerLIF(tau=learned(4e-3), r=2.0, v_threshold=torch.tensor(0.4), dt=DT),
    EulerLI(tau=torch.rand(4) + 1, r=learned(2.0, 4), dt=DT),
    EulerCubaLI(tau_syn=4e-3, tau_mem=learned(6e-3), r=2.0, dt=DT),
    EulerCubaLIF(tau_syn=4e-3, tau_mem=6e-3, r=4.0, v_threshold=learned(0.3), dt=DT, surrogate=Triangle()),
]


@pytest.mark.parametrize("neuron", NEURONS, ids=lambda neuron: repr(neuron)[:24])
def test_through_a_file_each_neuron_comes_back_the_same(tmp_path, neuron):
    net = quick(Sequential(nn.Linear(5, 4), neuron))
    net[0].bias.requires_grad_(False)
    x = sequence((5,)) * 2
    nir.write(tmp_path / "net.nir", written(net, x))
    back = read(tmp_path / "net.nir")
    out = run(net, x)
    assert out.abs().sum() > 0, "a silent network would prove nothing"
    assert torch.equal(run(back, x), out)
    assert_same(back, net)


@pytest.mark.parametrize("neuron", [one for one in NEURONS if "Euler" in repr(one)], ids=lambda one: type(one).__name__)
def test_threshold_and_decay_of_eulers_neurons(neuron):
    rest, silence = neuron.initial_state(torch.zeros(1, 4)), torch.zeros(1, 4)
    moved = rest._replace(v=rest.v + 0.01)
    ends = [neuron.membrane(neuron.step(silence, state)[1]) for state in (rest, moved)]
    torch.testing.assert_close(ends[1] - ends[0], 0.01 * neuron.decay + silence, rtol=1e-4, atol=1e-6)
    assert (neuron.threshold is None) is not neuron.spiking
    if neuron.spiking:
        assert torch.as_tensor(neuron.threshold).allclose(torch.as_tensor(neuron.v_threshold))


@pytest.mark.parametrize("bias", [False, True])
def test_recurrent_convolutions(tmp_path, bias):
    net = quick(Sequential(Recurrent(LIF(), connection=nn.Conv2d(2, 2, 3, padding=1, bias=bias)), OneToOne(IF(), 0.2)))
    x = sequence((2, 5, 5)) * 2
    nir.write(tmp_path / "net.nir", written(net, x))
    back = read(tmp_path / "net.nir")
    out = run(net, x)
    assert 0 < out.sum() < out.numel() and torch.equal(run(back, x), out)
    assert_same(back, net)


def test_weights_to_itself_that_another_program_changed_are_learned():
    graph = written(quick(OneToOne(IF(), 0.5)), sequence((3,)))
    graph.nodes["onetoone_rec"].scale = np.array([0.5, 0.25, 0.5])
    back = read(graph)
    (layer,) = back if isinstance(back, Sequential) else [back]
    assert isinstance(layer.weight, nn.Parameter) and layer.weight.tolist() == [0.5, 0.25, 0.5]


def test_a_module_without_others_and_one_in_two_places():
    x = sequence((3,))
    alone = quick(LIF(learned(3.0)))
    assert_same(read(written(alone, x)), alone)
    back = read(written(nn.Linear(3, 2), x))
    assert type(back) is Sequential and list(back._modules) == ["linear"] and len(back(x)) == 2
    plain = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 2)))
    assert list(read(written(plain, x)).state_dict()) == list(plain.state_dict())
    lif, linear = LIF(learned(3.0)), nn.Linear(3, 3)
    net = quick(Sequential(linear, lif, Sequential(linear, lif)))
    graph = written(net, x)
    back = read(graph)
    assert_same(back, net)
    assert back[1] is back[2][1] and back[0] is back[2][0]
    graph.nodes["2_0"].weight = graph.nodes["2_0"].weight + 1
    changed = read(graph)
    assert changed[0] is not changed[2][0] and torch.equal(changed[2][0].weight, linear.weight + 1)


def test_a_value_that_an_optimizer_moved_out_of_bounds_comes_back():
    net = quick(Sequential(Leaky(learned(0.9), reset_mechanism="zero"), CubaLIF(tau_mem_inv=learned(90.0))))
    with torch.no_grad():
        net[0].beta.fill_(1.2)
        net[1].tau_mem_inv.fill_(2500.0)
    assert_same(read(written(net, sequence((3,)))), net)


class Own(Surrogate):
    def derivative(self, u):
        return torch.ones_like(u)


@pytest.mark.parametrize(
    ("kind", "name", "start", "moved"),
    [
        (LIF, "tau", 2.0, -3.0),
        (LIF, "v_threshold", 1.0, -0.5),
        (IF, "v_reset", 0.0, 2.0),
        (PLIF, "v_threshold", 1.0, -0.5),
        (partial(Leaky, 0.9, reset_mechanism="zero", reset_delay=False), "threshold", 1.0, -0.5),
        (partial(Leaky, reset_mechanism="zero", reset_delay=False), "beta", 0.5, 1.5),
        (CubaLIF, "v_th", 1.0, -0.5),
    ],
)
def test_another_program_gets_the_numbers_that_the_neuron_computes_with(kind, name, start, moved):
    neuron = kind(**{name: nn.Parameter(torch.tensor(start).double())}).double()
    with torch.no_grad():
        getattr(neuron, name).fill_(moved)
        x = torch.rand(30, 2, 4, dtype=torch.float64)
        graph = written(neuron, x)
        for node in (graph, *graph.nodes.values()):
            node.metadata = {}
        found = read(graph, reset="zero").double()(x)[0]
        torch.testing.assert_close(found, neuron(x)[0])


def test_a_rate_that_an_optimizer_took_to_nothing_has_no_time_constant():
    neuron = CubaLIF(nn.Parameter(torch.tensor(100.0)))
    neuron.tau_mem_inv.data.fill_(-50)
    with pytest.raises(ValueError, match="tau_mem_inv of CubaLIF must be greater than 0 for NIR, but it is 0"):
        written(neuron, torch.rand(5, 2, 4))


def test_a_surrogate_of_ones_own_has_to_be_given_again():
    net, x = quick(Sequential(IF(surrogate=Own()), LIF(surrogate=lambda u: (u >= 0).to(u.dtype)))), sequence((3,))
    graph = written(net, x)
    with pytest.warns(UserWarning, match=r"neurons \(0, 1\) had surrogates of classes that a graph can't hold"):
        back = read(graph)
    assert back[0].surrogate == ATan()
    assert read(graph, surrogate=Triangle())[1].surrogate == Triangle()


SPOILT = {
    "no JSON": "[",
    "deep": "[" * 5000,
    "number": "[1, []]",
    "other layers": '[["Sequential", {"0": "0"}], []]',
    "other order": '[["Sequential", {"1": "1", "0": "0"}], []]',
    "unknown kind": '[["Sequential", {"0": "0", "a": ["Lambda", {}], "1": "1"}], []]',
    "bad setting": '[["Sequential", {"0": "0", "a": ["Dropout", {"p": 7}], "1": "1"}], []]',
    "bad name": '[["Sequential", {"forward": "0", "1": "1"}], []]',
    "unknown parameter": '[["Sequential", {"0": "0", "1": "1"}], ["0.nothing"]]',
    "no state": '[["torch.Sequential", {"0": "0", "1": "1"}], []]',
    "loop": '[["Graph", {"a": "0", "b": "1"}, [["input", "a"], ["a", "b"], ["b", "a"], ["b", "output"]]], []]',
    "twice": '[["Sequential", {"0": "0", "1": "1", "2": "1"}], []]',
}


@pytest.mark.parametrize("note", SPOILT.values(), ids=SPOILT)
def test_a_note_about_modules_is_not_believed_where_it_does_not_fit(note):
    net, x = quick(Sequential(nn.Linear(3, 3), LIF(2.0, 0.1))), sequence((3,))
    graph = written(net, x)
    graph.metadata["modules"] = note
    back = read(graph)
    assert type(back) is Sequential and list(back._modules) == ["0", "1"]
    assert torch.equal(run(back, x), run(net, x))


class Named(Sequential):
    """As ``models.ConvNet``: it is a Sequential that makes its own layers."""

    def __init__(self):
        super().__init__(nn.Linear(3, 4), LIF(), nn.Linear(4, 2), IF())


def test_a_subclass_of_sequential_is_written_as_what_it_is():
    net, x = quick(Named()).eval(), sequence((3,), 0)
    back = read(written(net, x))
    assert torch.equal(run(back, x), run(net, x)) and back.state_dict().keys() == net.state_dict().keys()


def test_every_kind_of_layer_through_a_file(tmp_path):
    net = quick(
        Sequential(
            TimeBatched(nn.Conv2d(2, 4, (3, 5), stride=(1, 2), padding=(1, 2), dilation=1, groups=2, bias=False)),
            IF(0.5),
            nn.AvgPool2d((2, 1), (2, 1), (1, 0)),
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
    out = run(net.eval(), x)
    assert 0 < out.sum() < out.numel()
    assert torch.equal(run(back, x), out)
    assert_same(back, net)


@pytest.mark.parametrize("bias", ["zeros", "none"])
def test_a_bias_of_zeros_stays_and_none_stays_none(bias):
    net = Sequential(nn.Conv2d(1, 2, 3, bias=bias == "zeros"), nn.Flatten(), nn.Linear(8, 2, bias=bias == "zeros"))
    for name, parameter in net.named_parameters():
        if "bias" in name:
            nn.init.zeros_(parameter)
    graph = written(net, torch.zeros(1, 1, 1, 4, 4))
    assert_same(read(graph), net)
    graph.nodes["0"].metadata = {}  # as other programs write it
    assert read(graph)[0].bias is not None
    graph.nodes["0"].bias = None
    assert read(graph)[0].bias is None


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
