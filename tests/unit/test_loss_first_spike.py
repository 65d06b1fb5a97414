"""Losses on the time of the first spike, in numbers that can be counted by hand: times, gradients, bad input."""

import math

import pytest
import torch
from hypothesis import given, settings, strategies as st

from snnkit import loss, neuron, nn

from .test_loss import cross_entropy, mean, sample

# Three neurons in one sample: the first spike of each is at step 2, never, and at step 0. [T, B, C]
SPIKES = torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 1.0], [1.0, 0.0, 0.0]]).unsqueeze(1)
TIMES = [2, 3, 0]


def test_times_are_steps_and_who_never_fires_counts_as_the_last():
    times = loss.first_spike_times(SPIKES)
    assert times.tolist() == [TIMES] and times.dtype == torch.float32
    assert loss.first_spike_times(SPIKES.double()).dtype == torch.float64
    assert loss.first_spike_times(SPIKES.bfloat16()).dtype == torch.float32
    assert loss.first_spike_times(SPIKES.reshape(4, 1, 3, 1)).shape == (1, 3, 1)
    assert loss.first_spike_times(SPIKES[:1]).tolist() == [[0, 0, 0]]


@given(st.integers(1, 7), st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_times_are_the_plain_loop(steps, seed):
    spikes, _ = sample(steps, 3, 4, seed, spikes=True)
    times = loss.first_spike_times(spikes)
    for b in range(3):
        for c in range(4):
            fired = [t for t in range(steps) if spikes[t, b, c]]
            assert times[b, c] == (fired[0] if fired else steps - 1)


def test_the_gradient_of_a_time_is_minus_one_at_the_first_spike():
    spikes = SPIKES.clone().requires_grad_()
    upstream = torch.tensor([[1.0, 10.0, 100.0]])
    loss.first_spike_times(spikes).backward(upstream)
    expected = torch.zeros(4, 1, 3)
    for c, t in enumerate(TIMES):
        expected[t, 0, c] = -upstream[0, c]
    assert torch.equal(spikes.grad, expected)
    # It is constant: there is no second derivative, and forward mode says the same.
    _, slope = torch.func.jvp(loss.first_spike_times, (SPIKES,), (torch.ones_like(SPIKES),))
    assert slope.tolist() == [[-1, -1, -1]]
    each = torch.func.vmap(torch.func.grad(lambda s: (loss.first_spike_times(s) * upstream).sum()))(SPIKES[None])
    assert torch.equal(each[0], expected)
    compiled = torch.compile(loss.first_spike_times, backend="eager", fullgraph=True)
    assert torch.equal(compiled(SPIKES), loss.first_spike_times(SPIKES))


@pytest.mark.parametrize("inverse", ["negate", "reciprocal"])
def test_cross_entropy_of_inverted_times(inverse):
    spikes = SPIKES.clone().requires_grad_()
    logits = [-t if inverse == "negate" else 1 / (t + 1) for t in TIMES]
    value = loss.first_spike_cross_entropy(spikes, torch.tensor([0]), inverse=inverse)
    assert float(value.detach()) == pytest.approx(cross_entropy(logits, 0), abs=1e-6)
    value.backward()
    weights = [math.exp(v) for v in logits]
    expected = torch.zeros(4, 1, 3)
    for c, t in enumerate(TIMES):
        by_logit = weights[c] / sum(weights) - (c == 0)
        expected[t, 0, c] = by_logit * (1 if inverse == "negate" else 1 / (t + 1) ** 2)  # dl/dt = -dl/ds
    assert torch.allclose(spikes.grad, expected, atol=1e-6)
    assert spikes.grad[2, 0, 0] < 0  # more drive of the right neuron is better


def test_mean_squared_error_of_times():
    spikes, target = SPIKES.clone().requires_grad_(), torch.tensor([0])
    assert loss.first_spike_mse(SPIKES, target) == pytest.approx(mean([2**2, 0, 3**2]) / 16)
    assert loss.first_spike_mse(SPIKES, target, on_target=1, off_target=2) == pytest.approx(mean([1, 1, 4]) / 16)
    assert loss.first_spike_mse(SPIKES, target, on_target=-4, off_target=-3) == pytest.approx(mean([4, 4, 1]) / 16)
    value = loss.first_spike_mse(spikes, torch.tensor([[0.5, -1.0, 3.0]]))
    assert value.item() == pytest.approx(mean([1.5**2, 0, 3**2]) / 16)
    value.backward()
    expected = torch.zeros(4, 1, 3)
    expected[2, 0, 0], expected[0, 0, 2] = -2 * 1.5 / 16 / 3, -2 * -3 / 16 / 3
    assert torch.allclose(spikes.grad, expected)


def test_errors_below_the_tolerance_count_as_none():
    spikes = SPIKES.clone().requires_grad_()
    value = loss.first_spike_mse(spikes, torch.tensor([0]), tolerance=3)
    assert value.item() == pytest.approx(3 / 16)  # 2 is below 3, and 3 is not
    value.backward()
    assert spikes.grad.nonzero().tolist() == [[0, 0, 2]]
    assert loss.first_spike_mse(SPIKES, torch.tensor([0]), tolerance=3.5) == 0


def test_times_of_any_shape_and_reductions():
    spikes, _ = sample(5, 4, 6, spikes=True)
    spikes, wanted = spikes.reshape(5, 4, 2, 3), torch.randint(-5, 5, (4, 2, 3)).double()
    errors = (loss.first_spike_times(spikes) - wanted.where(wanted >= 0, wanted + 5)) / 5
    each = errors.square().flatten(1).mean(1)
    assert torch.allclose(loss.first_spike_mse(spikes, wanted), each.mean())
    assert torch.allclose(loss.first_spike_mse(spikes, wanted, reduction="none"), each)
    assert torch.allclose(loss.first_spike_mse(spikes, wanted, reduction="sum"), each.sum())


def test_accuracy_by_the_first_spike():
    assert [loss.first_spike_accuracy(SPIKES, torch.tensor([c])).item() for c in range(3)] == [0, 0, 1]
    silent = torch.zeros(4, 3, 2).requires_grad_()
    result = loss.first_spike_accuracy(silent, torch.tensor([0, 1, 0]))
    assert result == pytest.approx(2 / 3) and not result.requires_grad and result.shape == ()


@pytest.mark.parametrize("criterion", [loss.first_spike_cross_entropy, loss.first_spike_mse])
def test_training_makes_the_right_neuron_first(criterion):
    torch.manual_seed(0)
    net = nn.Sequential(torch.nn.Linear(3, 3), neuron.Leaky(0.9))
    x, targets = torch.eye(3).expand(12, 3, 3), torch.arange(3)
    assert loss.first_spike_accuracy(net(x)[0], targets) < 1
    optimizer = torch.optim.Adam(net.parameters(), 0.05)
    for _ in range(40):
        optimizer.zero_grad()
        criterion(net(x)[0], targets).backward()
        optimizer.step()
    assert loss.first_spike_accuracy(net(x)[0], targets) == 1


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: loss.first_spike_times(SPIKES - 0.5), ValueError, r"spikes must hold spikes, in .* -0\.5 to 0\.5"),
        (lambda: loss.first_spike_times(SPIKES * math.nan), ValueError, "outputs of spiking layers only"),
        (lambda: loss.first_spike_times(SPIKES[0, 0]), ValueError, r"spikes must be \[T, B, \.\.\.\] and not empty"),
        (lambda: loss.first_spike_times(SPIKES.bool()), TypeError, r"torch\.bool: use spikes\.float\(\)$"),
        (lambda: loss.first_spike_cross_entropy(2 * SPIKES, torch.tensor([0])), ValueError, "spiking layers only"),
        (
            lambda: loss.first_spike_cross_entropy(SPIKES, torch.tensor([0]), inverse="minus"), ValueError,
            "inverse must be one of 'negate', 'reciprocal', but it is 'minus'",
        ),
        (lambda: loss.first_spike_accuracy(-SPIKES, torch.tensor([0])), ValueError, "outputs of spiking layers only"),
        (lambda: loss.first_spike_accuracy(SPIKES, torch.tensor([3])), ValueError, "targets must be in 0 … 2"),
        (
            lambda: loss.first_spike_mse(SPIKES, torch.tensor([0]), off_target=4), ValueError,
            "off_target must be at most 3, but it is 4",
        ),
        (
            lambda: loss.first_spike_mse(SPIKES, torch.tensor([0]), on_target=-5), ValueError,
            "on_target must be at least -4, but it is -5",
        ),
        (
            lambda: loss.first_spike_mse(SPIKES, torch.tensor([0]), tolerance=-1), ValueError,
            "tolerance must be at least 0",
        ),
        (
            lambda: loss.first_spike_mse(SPIKES, torch.full((1, 3), 4.0)), ValueError,
            "targets must hold times, from -T to T - 1, but its values go from 4 to 4",
        ),
        (lambda: loss.first_spike_mse(SPIKES, SPIKES), ValueError, r"or values of shape \[1, 3\], as spikes is"),
        (lambda: loss.first_spike_mse(2 * SPIKES, torch.ones(1, 3)), ValueError, "outputs of spiking layers only"),
    ],
)  # fmt: skip
def test_bad_arguments(call, error, words):
    with pytest.raises(error, match=words):
        call()
