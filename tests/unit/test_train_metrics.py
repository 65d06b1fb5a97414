"""NaN and infinity: the last good checkpoint stays, and the error says where."""

import pytest
import torch
from torch import nn

from snnkit import train
from snnkit.train.metrics import check_weights

SAMPLES = torch.randn(48, 5, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(48) % 3


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm, self.last = nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)

    def forward(self, x, state=None):
        return self.last(self.norm(self.first(x.flatten(0, 1)))).unflatten(0, x.shape[:2]), state


def entropy(out, y):
    return nn.functional.cross_entropy(out.mean(0), y)


def fit(model, samples=SAMPLES, **kwargs):
    return train.fit(
        model, (samples, LABELS), **{"encode": lambda x: x.expand(2, *x.shape), "loss": entropy} | kwargs,
        batch_size=16, device="cpu", progress=False,
    )  # fmt: skip


class Poison:
    """A loss that is finite throughout; the gradients of its `at`-th call are NaN."""

    def __init__(self, at):
        self.at, self.calls = at, 0

    def __call__(self, out, y):
        self.calls += 1
        root = (out[..., 0] * 0).sum().abs().sqrt()  # of 0: its derivative is infinite, times 0
        return entropy(out, y) + (root if self.calls == self.at else 0)


def test_weights_spoilt_in_the_last_update_do_not_reach_the_checkpoint(tmp_path):
    path = tmp_path / "run.pt"
    seen = []
    with pytest.raises(FloatingPointError, match=r"every loss of epoch 2 was finite.*first\.weight.*the gradient of "):
        fit(Net(), loss=Poison(6), epochs=3, checkpoint=path, on_epoch=lambda history, _: seen.append(history.epochs))
    content = train.load_checkpoint(path, Net())
    assert content["epoch"] == 1 and seen == [1]
    assert all(value.isfinite().all() for value in content["model"].values())


def test_neurons_that_are_silenced_by_nan_are_noticed():
    """The loss stays finite for the updates after it, and so do their gradients."""
    model = nn.Linear(2, 1)
    with torch.no_grad():
        model.weight[0, 1] = torch.nan
    with pytest.raises(FloatingPointError, match=r"weight\. What was not finite is a gradient in an earlier update"):
        check_weights(model, 0)
    model.weight.requires_grad_(False)  # a mask, say
    check_weights(model, 0)


@pytest.mark.parametrize("accumulate", [1, 3])
def test_bad_samples_leave_the_weights_and_the_error_names_spoilt_statistics(accumulate):
    samples = SAMPLES.clone()
    samples[20] = torch.nan
    model, before = Net(), {}

    def note(_):
        before.update({name: value.clone() for name, value in model.named_parameters()})

    note(None)
    with pytest.raises(FloatingPointError, match=r"the loss is nan .*infinity now, .* model: norm\.running_mean, norm"):
        fit(model, samples, accumulate=accumulate, on_batch=note, epochs=2, seed=1)
    assert all(torch.equal(value, before[name]) for name, value in model.named_parameters())
