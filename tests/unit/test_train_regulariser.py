"""``regulariser=`` of ``fit`` and ``SpikingModule``: minimised with the loss, reported apart from it."""

import functools

import pytest
import torch
from torch import nn as torch_nn

from snnkit import encode, loss, neuron, nn, train

REPEAT = functools.partial(encode.repeat, steps=6)
X = torch.rand(40, 6, generator=torch.Generator().manual_seed(0))
Y = (X[:, :3].sum(1) > X[:, 3:].sum(1)).long()


def network():
    torch.manual_seed(0)
    return nn.Sequential(torch_nn.Linear(6, 16), neuron.LIF(), torch_nn.Linear(16, 2), neuron.LIF())


def rates(rec):
    return loss.spike_rate_regulariser([rec.spikes["1"]], target=0.05, weight=2.0)


def membranes(rec):
    return 0.1 * rec.states["1"].v.square().mean()


def fit(regulariser, net=None, **options):
    net = net or network()
    settings = {"encode": REPEAT, "loss": loss.rate_mse, "lr": 0.01, "epochs": 2, "batch_size": 16, "seed": 1}
    return net, train.fit(net, (X, Y), regulariser=regulariser, device="cpu", progress=False, **settings | options)


def weights(net):
    return torch.cat([p.detach().flatten() for p in net.parameters()])


@pytest.mark.parametrize(("regulariser", "states"), [(rates, False), (membranes, True)])
def test_it_is_added_to_the_loss_and_reported_apart(regulariser, states):
    batches = [(X[:16], Y[:16]), (X[16:], Y[16:])]
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), 0.5)
    history = train.fit(
        net, batches, encode=REPEAT, loss=loss.rate_mse, optimizer=optimizer, device="cpu", progress=False,
        regulariser=regulariser, record_states=states,
    )  # fmt: skip
    expected, losses, penalties = network(), 0.0, 0.0
    optimizer = torch.optim.SGD(expected.parameters(), 0.5)
    for x, y in batches:
        with nn.recording(expected, states=True) as rec:
            out, _ = expected(REPEAT(x))
        value, penalty = loss.rate_mse(out, y), regulariser(rec)
        optimizer.zero_grad()
        (value + penalty).backward()
        optimizer.step()
        losses, penalties = losses + value.item() * len(y) / 40, penalties + penalty.item() * len(y) / 40
    assert torch.equal(weights(net), weights(expected))
    assert penalties > 0.001 and history.regulariser == pytest.approx([penalties])
    assert history.train_loss == pytest.approx([losses])


def test_a_network_learns_to_spike_at_the_rate_that_is_asked_for():
    def rate(net):
        with torch.no_grad(), nn.recording(net) as rec:
            net(REPEAT(X))
        return float(rec.spikes["1"].mean())

    wanted = functools.partial(loss.spike_rate_regulariser, target=0.6, weight=20.0)
    plain, regularised = (fit(f, epochs=20)[0] for f in (None, lambda rec: wanted([rec.spikes["1"]])))
    assert abs(rate(regularised) - 0.6) < 0.1 < abs(rate(plain) - 0.6)


def test_batches_that_are_accumulated_and_runs_that_are_resumed(tmp_path):
    whole, history = fit(rates, epochs=3, accumulate=2, batch_size=10)
    fit(rates, epochs=1, accumulate=2, batch_size=10, checkpoint=tmp_path / "run.pt")
    torch.manual_seed(5)
    again, resumed = fit(rates, epochs=3, accumulate=2, batch_size=10, checkpoint=tmp_path / "run.pt", resume=True)
    assert torch.equal(weights(again), weights(whole)) and len(history.regulariser) == 3
    assert resumed.regulariser == history.regulariser and not fit(None)[1].regulariser
    with pytest.raises(ValueError, match="regulariser must be given, as in the run that wrote it, but it is None"):
        fit(None, checkpoint=tmp_path / "run.pt", resume=True)


def test_bad_input():
    for options, error, words in (
        ({"compile": True}, ValueError, "compile must be False with a regulariser"),
        ({"net": without_neurons()}, ValueError, "model, which has a regulariser, must have a neuron in it"),
        ({"regulariser": None, "record_states": True}, ValueError, "record_states must be False without a regulariser"),
        ({"regulariser": lambda rec: 0.1}, TypeError, "the result of regulariser must be a scalar tensor, but it is"),
        ({"regulariser": lambda rec: rec.spikes["1"]}, TypeError, r"but it is of shape \[6, 16, 16\]"),
        ({"regulariser": membranes}, KeyError, "in training by record_states=True"),
        ({"regulariser": lambda rec: rec.spikes["hidden"].mean()}, KeyError, "layer must be one of those recorded"),
        ({"regulariser": lambda rec: rates(rec) * torch.nan}, FloatingPointError, "loss"),
    ):
        before = weights(net := options.pop("net", network()))
        with pytest.raises(error, match=words):
            fit(**{"regulariser": rates, "net": net} | options)
        assert torch.equal(weights(net), before)


def without_neurons():
    return nn.Sequential(torch_nn.Linear(6, 2))
