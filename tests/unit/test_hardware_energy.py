"""Counts of synaptic operations, sparsity and membrane updates against counts by hand, and what is said with energy."""

import pytest
import torch
from torch import nn

from snnkit import encode, models
from snnkit.device import optimize_memory_usage
from snnkit.hardware import energy
from snnkit.hardware.energy import PRICES, Operations, Prices
from snnkit.neuron import IF, LI, LIF, CubaLIF, Leaky, Recurrent
from snnkit.nn import Sequential, TimeBatched


def linear(rows, bias=True):
    """A Linear with these weights."""
    weight = torch.tensor(rows, dtype=torch.float32)
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias)
    layer.weight.data = weight
    if bias:
        layer.bias.data.zero_()
    return layer


# Two inputs, three outputs, two of six weights zero: input 0 meets two weights, input 1 meets two.
WEIGHTS = [[0.5, 0.0], [2.0, 2.0], [0.0, 0.25]]


def test_a_linear_map_of_spikes_by_hand():
    # Sample 0: (1, 0), (1, 1); sample 1: (0, 0), (0, -1). Spikes 1 + 2 + 0 + 1, each meeting two weights.
    x = torch.tensor([[[1.0, 0.0], [0.0, 0.0]], [[1.0, 1.0], [0.0, -1.0]]])
    found = energy.count(Sequential(linear(WEIGHTS)), x)
    assert (found.samples, found.steps) == (2, 2)
    assert found.operations == Operations(macs=0, acs=8 / 2, dense=2 * 6)
    assert found.connection_sparsity == 2 / 6 and found.activation_sparsity is None
    assert found.footprint == 4 * 9 and found.parameters == 9  # with the biases, which are no synaptic operations
    assert found.layers[0].input_rate == 4 / 8
    assert found.membrane_updates == 0 and not found.static


def test_one_other_number_makes_multiplications_of_all():
    x = torch.tensor([[[1.0, 0.0]], [[0.5, 1.0]]])
    found = energy.count(Sequential(linear(WEIGHTS)), x)
    assert found.operations == Operations(macs=6, acs=0, dense=12)
    assert (found.effective_macs, found.effective_acs) == (6, 0)


def test_a_convolution_by_hand():
    # 3 × 3 kernel, padding 1, on 3 × 3 pixels. A spike in the corner meets 4 places, in the middle 9, on an edge 6.
    conv = nn.Conv2d(1, 2, 3, padding=1)
    nn.init.ones_(conv.weight)
    conv.weight.data[1] = 0  # the second channel has no connections
    x = torch.zeros(1, 1, 1, 3, 3)
    for (i, j), pairs in {(0, 0): 4, (1, 1): 9, (0, 1): 6}.items():
        one = x.clone()
        one[0, 0, 0, i, j] = 1
        found = energy.count(Sequential(conv), one)
        # Of all pixels: 4 corners, 4 edges, the middle; twice, for two channels.
        assert found.operations == Operations(0, pairs, dense=2 * (4 * 4 + 4 * 6 + 9))
    assert found.connection_sparsity == 0.5


@pytest.mark.parametrize(
    "layer, shape, dense",
    [
        (nn.Conv2d(4, 4, 1, groups=4), (4, 2, 2), 16),  # a channel meets its own weight only
        (nn.Conv1d(2, 3, 2, stride=2, bias=False), (2, 4), 2 * 2 * 3 * 2),
        (nn.Conv3d(1, 1, 2), (1, 2, 2, 2), 8),
        (nn.ConvTranspose2d(1, 2, 2, stride=2), (1, 3, 3), 9 * 8),
        (nn.Conv2d(1, 1, 3, padding=1, padding_mode="circular"), (1, 3, 3), 81),  # what is around is not zero
        (nn.Linear(3, 5), (7, 3), 7 * 15),
    ],
)
def test_other_layers_by_hand(layer, shape, dense):
    found = energy.count(Sequential(layer), torch.ones(2, 3, *shape))
    assert found.operations == Operations(0, 2 * dense, 2 * dense)


def test_membrane_updates_and_spikes_by_hand():
    # IF counts its input: 0 → 1 → 1 → 2, threshold 2 with a hard reset to 0. Two neurons; the second gets nothing.
    x = torch.tensor([[[1.0, 0.0]], [[0.0, 0.0]], [[1.0, 0.0]], [[0.0, 0.0]]])
    found = energy.count(Sequential(IF(2.0, v_reset=0.0)), x)
    # First step: both, as they begin. Then 1 → 1 (no), 1 → 0 by the reset (yes), 0 → 0 (no).
    assert found.membrane_updates == 2 + 1
    assert found.activation_sparsity == 7 / 8 and found.neurons[0].rate == 1 / 8
    assert found.neurons[0].neuron_steps == 8
    assert found.connection_sparsity is None and found.operations == Operations()


def test_a_membrane_that_leaks_changes_in_every_step():
    x = torch.zeros(5, 1, 3)
    x[0] = 0.5
    assert energy.count(Sequential(Leaky(0.9)), x).membrane_updates == 15
    assert energy.count(Sequential(Leaky(0.9)), torch.zeros(5, 1, 3)).membrane_updates == 3


def test_a_whole_network_by_hand():
    # Spikes (1, 1) in both steps: each step 4 ACs in, currents (0.5, 4, 0.25); only the middle neuron reaches 2.
    net = Sequential(linear(WEIGHTS, bias=False), IF(2.0, v_reset=0.0), linear([[1.0, 1.0, 0.0]], bias=False), LI())
    found = energy.count(net, torch.ones(2, 1, 2))
    assert found.layers[0].operations == Operations(0, 8, 12)
    assert found.layers[1].operations == Operations(0, 2, 6)
    assert found.operations == Operations(0, 10, 18)
    assert found.activation_sparsity == pytest.approx(4 / 6)  # the readout's potential is no activation
    # First step 3 + 1; second: .5 → 1, .25 → .5 change, the middle one is 0 again; the readout changes.
    assert found.membrane_updates == 4 + 3
    assert found.neurons[1].rate is None


def test_recurrent_weights_are_counted_in_every_step():
    neuron = Recurrent(IF(1.0, v_reset=0.0), 2)
    neuron.weight.weight.data = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    # Neuron 0 fires in step 0 and is heard by neuron 1 in step 1 and so on.
    x = torch.tensor([[[1.0, 0.0]], [[0.0, 0.0]], [[0.0, 0.0]]])
    found = energy.count(Sequential(neuron), x)
    assert found.layers[0].name == "0.weight"
    # Spikes: neuron 0 in step 0 (1 weight that is not zero), neuron 1 in step 1 (none). Dense: 4 in 3 steps.
    assert found.operations == Operations(0, 1, 12)
    assert found.activation_sparsity == 4 / 6
    assert found.membrane_updates == 2  # only the first step: everybody is reset at once


def test_a_static_input_is_counted_in_every_step_and_as_the_kit_runs_it():
    net = Sequential(nn.Linear(3, 4), LIF(), nn.Linear(4, 2), LIF())
    x = torch.rand(5, 3) + 0.1
    found = energy.count(net, encode.repeat(x, 10))
    copied = energy.count(net, encode.repeat(x, 10).contiguous())
    assert found.operations == copied.operations and copied.executed == copied.operations
    assert found.effective_macs == 10 * 12 and found.executed.macs == 12
    assert found.executed.acs == found.effective_acs
    assert found.static and not copied.static
    assert "12 effective MACs" in str(found) and "the same in every step" in str(found)
    assert "the same in every step" not in str(copied)


def test_several_batches_are_one_count():
    net = Sequential(nn.Linear(3, 4), Leaky(0.9), nn.Linear(4, 2), CubaLIF())
    x = (torch.rand(6, 8, 3) > 0.5).float()
    whole, parts = energy.count(net, x), energy.count(net, x.split([3, 5], 1))
    assert whole == parts
    for order in ([x, x * 0.5], [x * 0.5, x]):
        mixed = energy.count(net, iter(order))
        assert mixed.layers[0].operations.acs == 0  # one number among them makes it a layer of MACs
        assert mixed.samples == 16


class _Loop(nn.Module):
    """A network of one's own that goes through time by itself."""

    def __init__(self):
        super().__init__()
        self.layer = linear(WEIGHTS)

    def forward(self, x):
        return torch.stack([self.layer(step) for step in x])


def test_a_loop_of_ones_own_is_counted_call_by_call():
    x = torch.tensor([[[0.5, 0.0]], [[1.0, 1.0]]])
    assert energy.count(_Loop(), x).operations == Operations(macs=2 + 4, acs=0, dense=12)
    assert energy.count(_Loop(), x.ceil()).operations == Operations(macs=0, acs=2 + 4, dense=12)


def test_it_is_counted_as_it_runs_after_training():
    net = Sequential(nn.Dropout(0.9), nn.Linear(50, 2), nn.BatchNorm1d(2))
    found = energy.count(net, torch.ones(2, 3, 50))
    assert found.layers[0].input_rate == 1  # in training most inputs would be dropped
    # 102 weights of the map, of the norm 4, and in buffers 4 statistics and how many batches it has seen (int64).
    assert found.footprint == 4 * (102 + 4 + 4) + 8 and found.parameters == 106


def test_activations_are_those_of_neurobench():
    net = Sequential(linear([[1.0], [-1.0]]), nn.ReLU())
    found = energy.count(net, torch.ones(1, 1, 1))
    assert found.activation_sparsity == 0.5 and found.neurons[0].kind == "ReLU"


def test_what_is_not_counted_is_named():
    norm = nn.BatchNorm1d(3)
    net = Sequential(linear(WEIGHTS), TimeBatched(norm), LIF())
    net[2].forgotten = nn.Linear(1, 1)
    found = energy.count(net, torch.ones(2, 2, 2))
    assert found.uncounted == ("1.module (BatchNorm1d)", "2.forgotten (Linear, never called)")
    assert "not counted: 1.module (BatchNorm1d)" in str(found)


def test_half_precision_does_not_count_worse():
    net = Sequential(nn.Conv2d(1, 8, 3, bias=False), nn.Flatten(), nn.Linear(8 * 36, 300))
    x = (torch.rand(3, 40, 1, 8, 8) > 0.5).float()
    plain = energy.count(net, x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert energy.count(net, x).layers[0].operations == plain.layers[0].operations
    half = Sequential(nn.Linear(300, 300)).bfloat16()
    assert energy.count(half, torch.ones(1, 3, 300, dtype=torch.bfloat16)).effective_acs == 90000


def test_an_economical_network_is_counted_as_the_plain_one():
    x = torch.rand(3, 2, 1, 8, 8)
    net = models.FashionConvNet(4, 16, size=8, engine="eager")
    plain = energy.count(net, x)
    optimize_memory_usage(net)
    assert energy.count(net, x) == plain


class _Noise(nn.Module):
    def forward(self, x):
        return x + torch.rand_like(x)


def test_the_network_is_as_it_was():
    net = Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), LIF(), nn.Dropout(0.5), _Noise())
    net[3].eval()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    x, state = torch.rand(2, 4, 2), torch.get_rng_state()
    with pytest.raises(RuntimeError):
        energy.count(net, torch.ones(2, 2, 5))  # of another width: the hooks are gone after a failure, too
    energy.count(net, x)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert [m.training for m in net] == [True, True, True, False, True] and net.training
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in net.modules())
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    "net, x, error, says",
    [
        (len, torch.ones(1, 1, 1), TypeError, "net must be a torch.nn.Module"),
        (nn.Linear(1, 1), [[1.0]], TypeError, "x must be a floating-point tensor .* a list"),
        (nn.Linear(1, 1), 3, TypeError, "x must be a floating-point tensor .* a int"),
        (nn.Linear(1, 1), torch.ones(1, 1, 1).long(), TypeError, "of dtype torch.int64"),
        (nn.Linear(1, 1), torch.ones(3), ValueError, r"x must be \[T, B, ...\] .* \[3\]"),
        (nn.Linear(1, 1), torch.ones(0, 2, 1), ValueError, r"at least one step and sample.* \[0, 2, 1\]"),
        (nn.Linear(1, 1), [], ValueError, "at least one sequence"),
        (nn.Linear(1, 1), [torch.ones(2, 1, 1), torch.ones(3, 1, 1)], ValueError, "one number of steps T, .* 2 and 3"),
        (nn.Linear(1, 1), torch.tensor([[[float("nan")]]]), ValueError, "x must be finite"),
        (nn.Linear(1, 1), torch.tensor([[[float("inf")]]]), ValueError, "x must be finite"),
        (nn.Linear(1, 1), torch.ones(1, 1, 1, device="meta"), ValueError, "x must hold values"),
        (nn.Linear(1, 1, device="meta"), torch.ones(1, 1, 1), ValueError, "net must have values, but weight has none"),
        (nn.LazyLinear(1), torch.ones(1, 1, 1), ValueError, "net must have values, but weight has none"),
        (nn.Flatten(), torch.ones(2, 1, 1), ValueError, r"net \(Flatten\) has no layer that can be counted"),
    ],
)
def test_bad_input_is_told(net, x, error, says):
    with pytest.raises(error, match=says):
        energy.count(net, x)


# -- energy ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def counted():
    net = Sequential(linear(WEIGHTS, bias=False), IF(2.0, v_reset=0.0), linear([[1.0, 1.0, 0.0]], bias=False), LI())
    return energy.count(net, torch.ones(2, 1, 2))


def test_energy_by_hand(counted):
    found = counted.energy()
    assert found.synapses == pytest.approx(10 * 0.9)
    assert found.neurons == pytest.approx(7 * 4.6)
    assert found.with_memory == pytest.approx(10 * 0.9 + 7 * 4.6 + (10 + 14) * 5)
    assert found.dense_pass == pytest.approx(9 * 4.6) and found.dense_pass_with_memory == pytest.approx(9 * 9.6)
    assert found.once == found.synapses and found.rate == pytest.approx(2 / 6)
    macs = energy.count(Sequential(linear(WEIGHTS)), encode.repeat(torch.full((1, 2), 0.5), 4))
    assert macs.energy().synapses == pytest.approx(4 * macs.energy().once) == pytest.approx(16 * 4.6)
    assert macs.energy("int32, 45 nm").synapses == pytest.approx(16 * 3.2)


def test_no_energy_is_shown_without_its_assumptions_and_what_speaks_against_it(counted):
    for text in (str(counted.energy()), counted.energy()._repr_html_()):
        for words in ("Predicted, not measured", "PMC8934428", "5.7 %", "2409.08290", "1.61", "2511.21549", "33.33%"):
            assert words in text
    assert "9 pJ" in str(counted.energy())
    assert "energy" not in str(counted) and "pJ" not in str(counted)
    assert all(price.source and price.mark for price in PRICES.values())
    assert all(evidence.url.startswith("https://") for evidence in energy.AGAINST)


def test_prices_of_ones_own_need_a_source(counted):
    mine = Prices("mine", add=1.0, multiply=1.0, access=0.0, source="a data sheet", mark="vendor")
    assert counted.energy(mine).synapses == 10 and "a data sheet" in str(counted.energy(mine))
    with pytest.raises(ValueError, match="source of prices 'mine' must say"):
        Prices("mine", 1.0, 1.0, 0.0, source="")
    with pytest.raises(ValueError, match="multiply must be at least 0"):
        Prices("mine", 1.0, -1.0, 0.0, source="a")
    with pytest.raises(ValueError, match=r"prices must be one of 'float32, 45 nm', .*, but it is 'free'"):
        counted.energy("free")
    with pytest.raises(TypeError, match="prices must be a name in PRICES or Prices"):
        counted.energy(4.6)


def test_the_report_shows_every_layer(counted):
    for text in (str(counted), counted._repr_html_()):
        for words in ("NeuroBench", "IF", "LI", "Linear", "33.33%", "10 effective ACs", "7 membrane updates"):
            assert words in text
