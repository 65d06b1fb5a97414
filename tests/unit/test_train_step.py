"""What one update is made of: accumulation, clipping, augmentation, memory format, compilation, and the brake."""

import math

import pytest
import torch
from torch import nn
from torch._dynamo.backends.common import aot_autograd

from snnkit import encode, models, train
from snnkit.device import Precision
from snnkit.loss import rate_mse
from snnkit.train import step as steps
from snnkit.train.batches import HeldData
from snnkit.train.metrics import Metric, RunningMetrics, check_weights
from snnkit.train.step import PlainStep, UpdateConfig, step_unless

SAMPLES = torch.rand(96, 12, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(96) % 3
IMAGES = (SAMPLES.repeat(1, 12).reshape(96, 1, 12, 12) * 255).to(torch.uint8)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two = nn.Linear(12, 8), nn.Linear(8, 3)

    def forward(self, x, state=None):
        return self.two(self.one(x).tanh()), state


def twice(x):
    return x.expand(2, *x.shape)


def loss(out, y):
    return nn.functional.cross_entropy(out.mean(0), y)


def fit(model, data=(SAMPLES, LABELS), **kwargs):
    kwargs = {"encode": twice, "loss": loss, "device": "cpu", "progress": False, "seed": 3, "epochs": 2} | kwargs
    optimizer = kwargs.pop("optimizer", None) or torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    return train.fit(model, data, optimizer=optimizer, **kwargs)


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.state_dict().values()]).clone()


def test_accumulated_batches_are_one_large_batch():
    # 96 samples in batches of 20 in updates of 40: the last update has 16.
    large, small = Net(), Net()
    seen = []
    one = fit(large, batch_size=40)
    two = fit(small, batch_size=20, accumulate=2, on_batch=seen.append)
    torch.testing.assert_close(weights(small), weights(large), rtol=1e-4, atol=1e-6)
    assert two.train_loss == pytest.approx(one.train_loss, rel=1e-4)
    assert two.train_accuracy == pytest.approx(one.train_accuracy)
    batches = [(info.batch, info.batches, info.output.shape[1]) for info in seen[:3]]
    assert batches == [(0, 3, 20), (1, 3, 20), (2, 3, 16)]


def test_clip_bounds_the_norm_of_all_gradients():
    norms = []

    class Watching(torch.optim.SGD):
        def step(self, closure=None):
            norms.append(torch.cat([p.grad.flatten() for group in self.param_groups for p in group["params"]]).norm())
            return super().step(closure)

    net = Net()
    fit(net, optimizer=Watching(net.parameters(), lr=0.1), clip=1e-3, epochs=1)
    assert all(norm == pytest.approx(1e-3, rel=1e-3) for norm in norms)
    norms.clear()
    fit(net, optimizer=Watching(net.parameters(), lr=0.1), clip=1e6, epochs=1)
    assert all(1e-3 < norm < 1e3 for norm in norms)


def test_augmentation_sees_unit_images_in_training_only():
    seen = []

    def brighter(x):
        seen.append((x.dtype, float(x.max()), x.shape[0]))
        return 2 * x

    shown = []
    fit(
        Net(), (IMAGES[:, :, 0], LABELS), test_data=(IMAGES[:, :, 0], LABELS), augment=brighter, epochs=1,
        encode=lambda x: shown.append(float(x.max())) or twice(x.flatten(1)), batch_size=32,
    )  # fmt: skip
    assert [(dtype, size) for dtype, _, size in seen] == [(torch.float32, 32)] * 3
    assert max(top for _, top, _ in seen) <= 1
    assert max(shown[:3]) > 1.5 and max(shown[3:]) <= 1


class Noise:
    def __init__(self):
        self.generator = torch.Generator().manual_seed(5)

    def __call__(self, x):
        return x + 0.1 * torch.randn(x.shape, generator=self.generator)


OPTIONS = {"augment": {"augment": Noise}, "accumulate and clip": {"accumulate": 2, "clip": 0.5}}
OPTIONS |= {"amp": {"amp": True}, "graphed": {"graphed": True}}


@pytest.mark.filterwarnings("ignore:graphed=True")
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_resuming_is_exact_with_every_option(options, tmp_path):
    def run(epochs, **kwargs):
        made = {name: value() if isinstance(value, type) else value for name, value in options.items()}
        net = Net()
        history = fit(net, epochs=epochs, batch_size=20, **made, **kwargs)
        return weights(net), history

    straight, history = run(4)
    run(2, checkpoint=tmp_path / "run.pt")
    resumed, its_history = run(4, checkpoint=tmp_path / "run.pt", resume=True)
    assert torch.equal(straight, resumed)
    assert its_history.train_loss == history.train_loss


# -- memory format and compilation -----------------------------------------------------------------------------------


def conv_net():
    torch.manual_seed(0)
    return models.FashionConvNet(4, 8, 3, size=12)


def test_channels_last_computes_the_same_and_stays():
    results = []
    for option in (False, True, None):
        net = conv_net()
        shapes = []
        net[0].register_forward_hook(lambda m, inputs, out, shapes=shapes: shapes.append(out))
        history = fit(
            net, (IMAGES, LABELS), encode=lambda x: encode.repeat(x, 3), loss=rate_mse, channels_last=option, epochs=1,
            batch_size=32,
        )  # fmt: skip
        formats = (net[4].weight.is_contiguous(memory_format=torch.channels_last), shapes[0].stride(1) == 1)
        assert formats == (option is not False,) * 2
        results.append(history.train_loss[0])
    assert results[0] == pytest.approx(results[1], rel=1e-3) and results[1] == results[2]


def test_averages_follow_the_memory_format_of_their_weights(tmp_path):
    """Fused optimizers go through both in the order of memory."""
    ends = []
    for formats in ((False, False), (False, True), (True, False)):
        net, where = conv_net(), tmp_path / f"{formats}.pt"
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, fused=True)
        for epochs, option in enumerate(formats, start=1):
            fit(
                net, (IMAGES, LABELS), encode=lambda x: encode.repeat(x, 3), loss=rate_mse, optimizer=optimizer, seed=1,
                channels_last=option, epochs=epochs, checkpoint=where, resume=True,
            )  # fmt: skip
        ends.append(net[4].weight.detach())
    for end in ends[1:]:
        torch.testing.assert_close(end, ends[0], rtol=1e-4, atol=1e-6)


def test_compiled_training_compiles_one_size_and_learns_the_same():
    calls = []

    class Counting(Net):
        def forward(self, x, state=None):
            if torch.compiler.is_compiling():
                calls.append(tuple(x.shape))
            return super().forward(x, state)

    torch.compiler.reset()
    plain, compiled = Counting(), Counting()
    fit(plain, batch_size=20)
    assert calls == []
    fit(compiled, batch_size=20, compile=True)
    assert set(calls) == {(2, 20, 12)}  # not the last batch of 16
    torch.testing.assert_close(weights(compiled), weights(plain), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("part", ["forward", "backward"])
def test_where_compiling_fails_the_model_runs_as_it_is(monkeypatch, part):
    def broken(graph, inputs):
        raise OSError("no compiler on this machine")

    backend = broken if part == "forward" else aot_autograd(fw_compiler=lambda graph, inputs: graph, bw_compiler=broken)
    real = torch.compile
    monkeypatch.setattr(steps.torch, "compile", lambda model, **kwargs: real(model, backend=backend))
    torch.compiler.reset()
    plain, compiled = Net(), Net()
    fit(plain)
    with pytest.warns(UserWarning, match="torch.compile failed.*no compiler.*runs uncompiled") as caught:
        fit(compiled, compile=True)
    assert len([w for w in caught if "compile=True" in str(w.message)]) == 1
    assert torch.equal(weights(plain), weights(compiled))


# -- a loss that is no number ----------------------------------------------------------------------------------------

KINDS = {
    "fused adam": lambda p: torch.optim.Adam(p, lr=0.1, fused=True),
    "fused sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.1),
}


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_step_unless_keeps_the_weights_to_the_bit(make):
    net = Net()
    optimizer = make(net.parameters())
    for stop, bad in ((0.0, 1.0), (1.0, math.nan)):
        loss(net(twice(SAMPLES))[0], LABELS).backward()
        for p in net.parameters():
            p.grad *= bad
        before = weights(net)
        step_unless(torch.tensor(stop), optimizer)
        assert torch.equal(weights(net), before) == bool(stop)
        assert not hasattr(optimizer, "found_inf")


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_without_looking_nothing_is_learned_from_the_first_bad_loss_on(bad, accumulate):
    net, calls = Net(), []

    def poisoned(out, y):
        calls.append(weights(net))
        return loss(out, y) + (bad if len(calls) == 5 else 0.0)

    optimizer = torch.optim.Adam(net.parameters(), lr=0.1, fused=True)
    cpu = torch.device("cpu")
    held = HeldData(SAMPLES, LABELS, 8, accumulate)
    config = UpdateConfig(net, held, twice, poisoned, optimizer, Precision(cpu, None), Metric(None, cpu))
    metrics = RunningMetrics(cpu)
    step = PlainStep(config, metrics, config.precision.scaler())
    step.on_cpu = False  # as on an accelerator
    for rows in torch.arange(96).split(8 * accumulate):
        step(rows)
    seen = metrics.read()
    assert seen.stopped and seen.updates == 4 // accumulate
    assert math.isnan(seen.last_loss) if math.isnan(bad) else seen.last_loss == bad
    assert not torch.equal(calls[3], calls[0])
    assert torch.equal(weights(net), calls[4 // accumulate * accumulate])


def test_the_flag_is_read_in_time_and_told(monkeypatch):
    """`fit` as it runs on an accelerator: it looks at the end of the epoch."""
    monkeypatch.setattr(PlainStep, "__call__", unseen(PlainStep.__call__))
    net, calls = Net(), []

    def poisoned(out, y):
        calls.append(weights(net))
        return loss(out, y) * (math.nan if len(calls) == 3 else 1.0)

    with pytest.raises(FloatingPointError, match="the loss is nan in epoch 1, batch 3 of 6"):
        fit(net, loss=poisoned, batch_size=16)
    assert torch.equal(weights(net), calls[2])


def unseen(call):
    def step(self, rows):
        self.on_cpu = False
        return call(self, rows)

    return step


# -- weights that are no numbers: the last good checkpoint stays, and the error says where ----------------------------


class Normed(Net):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x, state=None):
        hidden = self.norm(self.one(x.flatten(0, 1)))
        return self.two(hidden).unflatten(0, x.shape[:2]), state


class Poison:
    """A loss that is finite throughout; the gradients of its `at`-th call are NaN."""

    def __init__(self, at):
        self.at, self.calls = at, 0

    def __call__(self, out, y):
        self.calls += 1
        root = (out[..., 0] * 0).sum().abs().sqrt()  # of 0: its derivative is infinite, times 0
        return loss(out, y) + (root if self.calls == self.at else 0)


def test_weights_spoilt_in_the_last_update_do_not_reach_the_checkpoint(tmp_path):
    path = tmp_path / "run.pt"
    seen = []
    with pytest.raises(FloatingPointError, match=r"every loss of epoch 2 was finite.*one\.weight.*the gradient of "):
        fit(Normed(), batch_size=16, loss=Poison(12), epochs=3, checkpoint=path, on_epoch=lambda *_: seen.append(1))
    content = train.load_checkpoint(path, Normed())
    assert content["epoch"] == 1 and len(seen) == 1
    assert all(value.isfinite().all() for value in content["model"].values())


def test_neurons_that_are_silenced_by_nan_are_noticed():
    """The loss stays finite for the updates after it, and so do their gradients."""
    model = nn.Linear(2, 1)
    nn.init.constant_(model.weight, torch.nan)
    with pytest.raises(FloatingPointError, match=r"weight\. What was not finite is a gradient in an earlier update"):
        check_weights(model, 0)
    check_weights(model.requires_grad_(False), 0)  # a mask, say


@pytest.mark.parametrize("accumulate", [1, 3])
def test_bad_samples_leave_the_weights_and_the_error_names_spoilt_statistics(accumulate):
    samples = SAMPLES.clone()
    samples[20] = torch.nan
    model, before = Normed(), {}

    def note(_):
        before.update({name: value.clone() for name, value in model.named_parameters()})

    note(None)
    with pytest.raises(FloatingPointError, match=r"the loss is nan .*infinity now, .* model: norm\.running_mean, norm"):
        fit(model, (samples, LABELS), batch_size=16, accumulate=accumulate, on_batch=note)
    assert all(torch.equal(value, before[name]) for name, value in model.named_parameters())
