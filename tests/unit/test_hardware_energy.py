"""Counts of synaptic operations, sparsity and membrane updates against counts by hand; energy."""

import pytest
import torch
from torch import nn

from snnkit import encode, models
from snnkit.device import optimize_memory_usage
from snnkit.lab.hardware import energy
from snnkit.neuron import IF, LI, LIF, Recurrent
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


def operations(counts):
    return counts.effective_macs, counts.effective_acs, counts.dense


def test_a_linear_map_of_spikes_by_hand_and_of_one_other_number():
    # Sample 0: (1, 0), (1, 1); sample 1: (0, 0), (0, -1). Spikes 1 + 2 + 0 + 1, each meeting two weights.
    x = torch.tensor([[[1.0, 0.0], [0.0, 0.0]], [[1.0, 1.0], [0.0, -1.0]]])
    counts = energy.count(Sequential(linear(WEIGHTS)), x)
    assert (counts.samples, counts.steps) == (2, 2)
    assert operations(counts) == (0, 8 / 2, 2 * 6)
    assert counts.connection_sparsity == 2 / 6 and counts.activation_sparsity is None
    assert counts.footprint == 4 * 9  # with the biases, which are no synaptic operations
    assert counts.layers[0].active / counts.layers[0].values == 4 / 8 and counts.membrane_updates == 0
    x = torch.tensor([[[1.0, 0.0]], [[0.5, 1.0]]])
    assert operations(energy.count(Sequential(linear(WEIGHTS)), x)) == (6, 0, 12)


def test_a_convolution_by_hand():
    # 3 × 3 kernel, padding 1, on 3 × 3 pixels. A spike in the corner meets 4 places, in the middle 9, on an edge 6.
    conv = nn.Conv2d(1, 2, 3, padding=1)
    nn.init.ones_(conv.weight)
    conv.weight.data[1] = 0  # the second channel has no connections
    x = torch.zeros(1, 1, 1, 3, 3)
    for (i, j), pairs in {(0, 0): 4, (1, 1): 9, (0, 1): 6}.items():
        one = x.clone()
        one[0, 0, 0, i, j] = 1
        counts = energy.count(Sequential(conv), one)
        # Of all pixels: 4 corners, 4 edges, the middle; twice, for two channels.
        assert operations(counts) == (0, pairs, 2 * (4 * 4 + 4 * 6 + 9))
    assert counts.connection_sparsity == 0.5


@pytest.mark.parametrize(
    "layer, shape, dense",
    [
        (nn.Conv2d(4, 4, 1, groups=4), (4, 2, 2), 16),  # a channel meets its own weight only
        (nn.Conv1d(2, 3, 2, stride=2, bias=False), (2, 4), 2 * 2 * 3 * 2),
        (nn.Conv3d(1, 1, 2), (1, 2, 2, 2), 8),
        (nn.Conv2d(1, 1, 3, padding=1, padding_mode="circular"), (1, 3, 3), 81),  # what is around is not zero
        (nn.Linear(3, 5), (7, 3), 7 * 15),
    ],
)
def test_other_layers_by_hand(layer, shape, dense):
    assert operations(energy.count(Sequential(layer), torch.ones(2, 3, *shape))) == (0, 2 * dense, 2 * dense)


@pytest.fixture
def counted():
    # Spikes (1, 1) in both steps: each step 4 ACs in, currents (0.5, 4, 0.25); only the middle neuron reaches 2.
    net = Sequential(linear(WEIGHTS, bias=False), IF(2.0, v_reset=0.0), linear([[1.0, 1.0, 0.0]], bias=False), LI())
    return energy.count(net, torch.ones(2, 1, 2))


def test_a_whole_network_by_hand(counted):
    assert [(layer.effective, layer.dense) for layer in counted.layers if layer.weighted] == [(8, 12), (2, 6)]
    assert operations(counted) == (0, 10, 18)
    assert counted.activation_sparsity == pytest.approx(4 / 6)  # the readout's potential is no activation
    assert counted.membrane_updates == 2 * (3 + 1)
    assert "10 effective ACs" in str(counted) and "pJ" not in str(counted)


def test_recurrent_weights_are_counted_in_every_step():
    neuron = Recurrent(IF(1.0, v_reset=0.0), 2)
    neuron.weight.weight.data = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    # Neuron 0 fires in step 0 and is heard by neuron 1 in step 1 and so on.
    x = torch.tensor([[[1.0, 0.0]], [[0.0, 0.0]], [[0.0, 0.0]]])
    counts = energy.count(Sequential(neuron), x)
    # Spikes: neuron 0 in step 0 (1 weight that is not zero), neuron 1 in step 1 (none). Dense: 4 in 3 steps.
    assert operations(counts) == (0, 1, 12)
    assert counts.activation_sparsity == pytest.approx(4 / 6)


def test_a_static_input_is_counted_in_every_step_and_as_the_kit_runs_it():
    net = Sequential(nn.Linear(3, 4), LIF(), nn.Linear(4, 2), LIF())
    x = torch.rand(5, 3) + 0.1
    counts = energy.count(net, encode.repeat(x, 10))
    copied = energy.count(net, encode.repeat(x, 10).contiguous())
    assert counts.layers == copied.layers == copied.once
    assert counts.effective_macs == 10 * 12 and counts.once[0].effective == 5 * 12
    assert counts.once[2] == counts.layers[2]


def test_it_is_counted_as_it_runs_after_training():
    net = Sequential(nn.Dropout(0.9), nn.Linear(50, 2), nn.BatchNorm1d(2))
    counts = energy.count(net, torch.ones(2, 3, 50))
    assert counts.layers[0].active == counts.layers[0].values  # in training most inputs would be dropped
    # 102 weights of the map, of the norm 4, and in buffers 4 statistics and how many batches it has seen (int64).
    assert counts.footprint == 4 * (102 + 4 + 4) + 8


def test_what_is_not_counted_is_named():
    net = Sequential(linear(WEIGHTS), TimeBatched(nn.BatchNorm1d(3)), LIF())
    net[2].forgotten = nn.Linear(1, 1)
    counts = energy.count(net, torch.ones(2, 2, 2))
    assert counts.uncounted == ("1.module (BatchNorm1d)", "2.forgotten (Linear)")
    assert "not counted: 1.module (BatchNorm1d)" in str(counts)


def test_half_precision_does_not_count_worse():
    half = Sequential(nn.Linear(300, 300)).bfloat16()
    assert energy.count(half, torch.ones(1, 3, 300, dtype=torch.bfloat16)).effective_acs == 90000
    net, x = Sequential(nn.Conv2d(1, 8, 3, bias=False)), (torch.rand(3, 40, 1, 8, 8) > 0.5).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = energy.count(net, x)
    assert inside == energy.count(net, x)


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
    with pytest.raises(ValueError, match="x of Linear '0' must be"):
        energy.count(net, torch.ones(2, 2, 5))  # of another width: the hooks are gone after a failure, too
    energy.count(net, x)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert [m.training for m in net] == [True, True, True, False, True] and net.training
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in net.modules())
    assert torch.equal(torch.get_rng_state(), state)


def test_what_can_not_be_counted():
    one = torch.ones(1, 1, 1)
    for net, x, says in (
        (nn.Linear(1, 1), torch.ones(3), r"x must be floating-point values \[T, B, ...\]"),
        (nn.Linear(1, 1), one * torch.nan, "x must hold finite values"),
        (nn.Linear(1, 1, device="meta"), one, "weight has none yet"),
        (nn.Flatten(), one, "but Flatten has none"),
    ):
        with pytest.raises(ValueError, match=says):
            energy.count(net, x)


def test_energy_by_hand(counted):
    synapses, once, neurons, all_once, memory, dense_pass, skipping, dense_memory = counted.energy().rows.values()
    assert synapses == once == pytest.approx(10 * 0.9)
    assert all_once == pytest.approx(10 * 0.9 + 8 * 4.6)
    assert skipping == pytest.approx((4 + 2) * 4.6)  # the weights that are not zero, of either layer, once
    assert neurons == pytest.approx(8 * 4.6)
    assert memory == pytest.approx(10 * 0.9 + 8 * 4.6 + (10 + 16) * 5)
    assert dense_pass == pytest.approx(9 * 4.6) and dense_memory == pytest.approx(9 * 9.6)
    macs = energy.count(Sequential(linear(WEIGHTS)), encode.repeat(torch.full((1, 2), 0.5), 4))
    synapses, once, *_ = macs.energy().rows.values()
    assert synapses == pytest.approx(4 * once) == pytest.approx(16 * 4.6)
    # Like for like: of x (0.5, 0), and of (1, 0), the zero is skipped with spikes and without them.
    for x in (0.5, 1.0):
        zeros = energy.count(Sequential(linear(WEIGHTS), LIF()), encode.repeat(torch.tensor([[x, 0.0]]), 4))
        rows = zeros.energy().rows
        assert rows["without spikes, one pass: zeros skipped, too"] == pytest.approx(2 * 4.6)
    # Never without its assumptions and what speaks against it.
    assert all(words in str(counted.energy()) for words in ("Predicted, not measured", "PMC8934428", "2409.08290"))
