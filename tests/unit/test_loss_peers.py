"""Losses and accuracies beside those of snnTorch and SpikingJelly, on random input."""

from functools import partial

import pytest
import torch

from snnkit import loss

STEPS, BATCH, CLASSES = 9, 6, 4
WEIGHT = torch.tensor([0.5, 1.0, 2.0, 0.25])


@pytest.fixture
def theirs():
    return pytest.importorskip("snntorch.functional")


def spikes(classes=CLASSES, *, silent=True):
    out = (torch.rand(STEPS, BATCH, classes, generator=torch.Generator().manual_seed(1)) > 0.7).float()
    out[:, 0, 0] = 0.0 if silent else out[:, 0, 0]
    return out


def membranes(classes=CLASSES):
    return torch.randn(STEPS, BATCH, classes, generator=torch.Generator().manual_seed(2))


def targets():
    return torch.tensor([3, 1, 0, 2, 2, 3])


def same(ours, theirs, out):
    """Whether both give one value and one gradient."""
    results = []
    for function in (ours, theirs):
        leaf = out.clone().requires_grad_()
        value = function(leaf)
        value.sum().backward()
        results.append((value.detach().squeeze(), leaf.grad))
    (value, gradient), (their_value, their_gradient) = results
    return torch.allclose(value, their_value, atol=1e-6) and torch.allclose(gradient, their_gradient, atol=1e-6)


PAIRS = {
    "ce_rate_loss": (loss.rate_cross_entropy, {}, spikes),
    "ce_count_loss": (loss.count_cross_entropy, {}, spikes),
    "ce_max_membrane_loss": (loss.membrane_max_cross_entropy, {}, membranes),
    "ce_temporal_loss": (loss.first_spike_cross_entropy, {"inverse": "negate"}, spikes),
    "ce_temporal_loss by reciprocals": (loss.first_spike_cross_entropy, {"inverse": "reciprocal"}, spikes),
}


@pytest.mark.parametrize("name", PAIRS)
def test_cross_entropies(theirs, name):
    ours, options, output = PAIRS[name]
    made = partial(getattr(theirs, name.split()[0]), **options)
    ours = partial(ours, targets=targets(), **options)
    for reduction in ("mean", "sum", "none"):
        assert same(
            partial(ours, reduction=reduction), lambda o, r=reduction: made(reduction=r)(o, targets()), output()
        )
    assert same(
        partial(ours, weight=WEIGHT, reduction="none"),
        lambda o: made(weight=WEIGHT, reduction="none")(o, targets()),
        output(),
    )
    # Their weighted mean is Σ w l / B, except for ce_temporal_loss, which is PyTorch's Σ w l / Σ w, as ours is.
    divided = 1.0 if "temporal" in name else WEIGHT[targets()].mean()
    assert same(lambda o: ours(o, weight=WEIGHT) * divided, lambda o: made(weight=WEIGHT)(o, targets()), output())


def test_populations(theirs):
    out, three = spikes(12), {"population_code": True, "num_classes": CLASSES}
    ours = partial(loss.count_cross_entropy, targets=targets(), population_size=3)
    assert same(ours, lambda o: theirs.ce_count_loss(**three)(o, targets()), out)
    rates = {"correct_rate": 2 / 3, "incorrect_rate": 1 / 3}  # of which 9 steps and 3 neurons have whole counts
    ours = partial(loss.count_mse, targets=targets(), population_size=3, **rates)
    assert same(ours, lambda o: theirs.mse_count_loss(**rates, **three)(o, targets()), out)
    expected = theirs.acc.accuracy_rate(out, targets(), **three)
    assert loss.accuracy(out, targets(), population_size=3) == pytest.approx(float(expected))


@pytest.mark.parametrize(
    ("name", "ours", "options", "output"),
    [
        ("mse_count_loss", loss.count_mse, {"correct_rate": 2 / 3, "incorrect_rate": 1 / 3}, spikes),
        ("mse_membrane_loss", loss.membrane_mse, {"on_target": 1.5, "off_target": 0.5}, membranes),
        ("mse_temporal_loss", loss.first_spike_mse, {"on_target": 2, "off_target": 7}, spikes),
        ("mse_temporal_loss", loss.first_spike_mse, {"on_target": 0, "off_target": 8, "tolerance": 3}, spikes),
    ],
)
def test_mean_squared_errors(theirs, name, ours, options, output):
    made, out = partial(getattr(theirs, name), **options), output()
    ours = partial(ours, **options)
    assert same(partial(ours, targets=targets()), lambda o: made()(o, targets()), out)
    # Reduced: their losses are of each neuron, ours of each sample.
    each, total = made(reduction="none")(out, targets()), made(reduction="sum")(out, targets())
    assert torch.allclose(ours(out, targets(), reduction="none"), each.mean(1))
    assert torch.allclose(ours(out, targets(), reduction="sum"), total / CLASSES)
    # Weighted: theirs pair weights of samples with neurons, so they are right in batches of one.
    alone = [made(weight=WEIGHT)(out[:, [b]], targets()[[b]]) for b in range(BATCH)]
    assert torch.allclose(ours(out, targets(), weight=WEIGHT, reduction="none"), torch.stack(alone))


def test_values_to_reach(theirs):
    wanted = torch.randn(STEPS, BATCH, CLASSES)
    by_step = theirs.mse_membrane_loss(time_var_targets=True)
    with pytest.MonkeyPatch.context() as patch:  # their targets are classes, which they convert at each step
        patch.setattr("snntorch.spikegen.targets_convert", lambda targets, **_: targets)
        assert same(partial(loss.membrane_mse, targets=wanted), lambda o: by_step(o, wanted), membranes())
    times = torch.randint(-STEPS, STEPS, (BATCH, CLASSES)).float()
    by_time = theirs.mse_temporal_loss(target_is_time=True)
    assert same(partial(loss.first_spike_mse, targets=times), lambda o: by_time(o, times.clone()), spikes())


def test_accuracies_and_the_price_of_spikes(theirs):
    for out in (spikes(), spikes(silent=False), torch.zeros(STEPS, BATCH, CLASSES)):
        assert loss.accuracy(out, targets()) == pytest.approx(float(theirs.acc.accuracy_rate(out, targets())))
        temporal = theirs.acc.accuracy_temporal(out, targets())
        assert loss.first_spike_accuracy(out, targets()) == pytest.approx(float(temporal))
    assert same(
        partial(loss.spike_count_regulariser, weight=1e-3), lambda o: theirs.reg.l1_rate_sparsity(1e-3)(o), spikes()
    )


def test_temporal_efficient_training_of_spikingjelly():
    functional = pytest.importorskip("spikingjelly.activation_based.functional")
    theirs = functional.temporal_efficient_training_cross_entropy
    out = membranes()
    assert same(partial(loss.tet_cross_entropy, targets=targets(), lam=0), lambda o: theirs(o, targets()), out)
    assert same(partial(loss.rate_cross_entropy, targets=targets()), lambda o: theirs(o, targets()), out)
