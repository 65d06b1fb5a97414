"""Training on a GPU: no waiting in a step, whole updates as CUDA graphs, losses that are not finite, the benchmarks."""

import functools
import math
import warnings

import pytest
import torch
from torch import nn

from snnkit import encode, models, train
from snnkit.device import Precision
from snnkit.loss import rate_mse
from snnkit.train.batches import HeldData
from snnkit.train.graphed import GraphedStep
from snnkit.train.metrics import Metric, RunningMetrics
from snnkit.train.step import PlainStep, UpdateConfig

IMAGES = torch.randint(256, (200, 1, 12, 12), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
LABELS = (IMAGES.flatten(1).float().mean(1) > 127).long()
STEPS, BATCH = 4, 32  # 200 samples: six batches, and one of 8


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def net(engine="auto"):
    torch.manual_seed(0)
    made = models.FashionConvNet(8, 32, 2, size=12, engine=engine)
    for module in made:
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=4 / module.in_features**0.5)
    return made


def sgd(model, **kwargs):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, **kwargs)


def fit(model, device, optimizer=None, **kwargs):
    kwargs = {"encode": functools.partial(encode.repeat, steps=STEPS), "loss": rate_mse} | kwargs
    kwargs = {"epochs": 3, "batch_size": BATCH, "seed": 1, "progress": False} | kwargs
    with warnings.catch_warnings():
        if device.type == "cuda":  # no fallback is silent, so none may be heard
            warnings.filterwarnings("error", message="graphed=True|compile=True")
        else:
            warnings.filterwarnings("ignore", message="graphed=True")
        return train.fit(model, (IMAGES, LABELS), optimizer=optimizer or sgd(model), device=device, **kwargs)


def weights(model):
    return torch.cat([p.detach().flatten().double() for p in model.state_dict().values()]).cpu()


def make_step(device, optimizer, model, amp=False, **more):
    precision = Precision.choose(device, amp)
    model.to(device)
    config = UpdateConfig(
        model, HeldData(IMAGES.to(device), LABELS.to(device), BATCH), functools.partial(encode.repeat, steps=STEPS),
        rate_mse, optimizer, precision, Metric(None, device), **more,
    )  # fmt: skip
    return PlainStep(config, RunningMetrics(device), precision.scaler())


# -- a step waits for nobody -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("amp", [False, True])
def test_a_step_does_not_wait_for_the_device(amp, fused, clip, cuda):
    model = net()
    step = make_step(cuda, sgd(model, fused=fused), model, amp, clip=clip)
    rows = torch.arange(BATCH, device=cuda)
    step(rows)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(3):
            step(rows)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert step.metrics.read().updates == 4


# -- graphs ----------------------------------------------------------------------------------------------------------

OPTIMIZERS = {
    "sgd": sgd,
    "fused sgd": functools.partial(sgd, fused=True),
    "fused adam": lambda model: torch.optim.Adam(model.parameters(), lr=1e-3, fused=True, capturable=True),
    "adam": lambda model: torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_graph_trains_as_single_operations_do(name, device):
    if device.type == "cpu" and "adam" in name:
        pytest.skip("capturable optimizers need a CUDA device")
    results = []
    for graphed in (False, True):
        model = net().double()
        optimizer = OPTIMIZERS[name](model)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3)
        history = fit(
            model, device, optimizer, scheduler=schedule, graphed=graphed,
            encode=lambda x: encode.repeat(x.double(), STEPS),
        )  # fmt: skip
        results.append((weights(model), history.train_loss))
    torch.testing.assert_close(results[1][0], results[0][0], rtol=1e-6, atol=1e-9)
    assert results[1][1] == pytest.approx(results[0][1], rel=1e-6)


@pytest.mark.parametrize("more", [{"channels_last": True}, {"compile": True}, {"accumulate": 2, "clip": 1.0}])
@pytest.mark.parametrize("amp", [False, True])
def test_options_together(amp, more, device):
    if device.type == "cpu" and "compile" in more:
        pytest.skip("takes a minute; tests/unit/test_train_step.py compiles on a CPU")
    model = net()
    history = fit(model, device, sgd(model, fused=True), amp=amp, graphed=True, epochs=6, **more)
    assert history.train_loss[-1] < history.train_loss[0] and all(map(math.isfinite, history.train_loss))
    assert weights(model).isfinite().all()


def test_graphs_of_random_steps_can_be_resumed(cuda, tmp_path):
    def run(epochs, **kwargs):
        model = net().double()  # in float32 another order of additions would move a spike, and with it the weights
        generator = torch.Generator(cuda).manual_seed(3)
        augment = functools.partial(_noisy, generator=generator)
        history = fit(
            model, cuda, augment=augment, graphed=True, epochs=epochs,
            encode=lambda x: encode.repeat(x.double(), STEPS), **kwargs,
        )  # fmt: skip
        return weights(model), history

    straight, history = run(4)
    run(2, checkpoint=tmp_path / "run.pt")
    resumed, its_history = run(4, checkpoint=tmp_path / "run.pt", resume=True)
    torch.testing.assert_close(resumed, straight, rtol=1e-6, atol=1e-8)  # kernels add in an order of their own
    assert its_history.train_loss[:2] == history.train_loss[:2]


def _noisy(x, generator):
    return x + 0.1 * torch.rand(x.shape, generator=generator, device=x.device)


def test_an_update_recorded_once_is_replayed(cuda):
    model = net()
    step = make_step(cuda, sgd(model, fused=True), model)
    whole = GraphedStep(step)
    for rows in torch.randperm(200, device=cuda).split(BATCH) * 3:
        whole(rows)
    assert whole.captures == 1 and whole.refusal == ""
    seen = step.metrics.read()
    assert seen.updates == 21 and not seen.stopped
    step.config.optimizer.param_groups[0]["lr"] *= 0.5
    before = weights(model)
    whole(torch.arange(BATCH, device=cuda))
    assert whole.captures == 2 and not torch.equal(weights(model), before)


def test_a_step_that_waits_is_not_recorded(cuda):
    def waits(x):
        return x if x.sum().item() > 0 else 2 * x

    model = net()
    with pytest.warns(UserWarning, match="the step waits for the device"):
        train.fit(
            model, (IMAGES, LABELS), encode=lambda x: encode.repeat(x, STEPS), loss=rate_mse, optimizer=sgd(model),
            device=cuda, batch_size=BATCH, progress=False, augment=waits, graphed=True,
        )  # fmt: skip


# -- a loss that is not finite ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("graphed", [False, True])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("amp", [False, True])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_nothing_is_learned_from_the_first_bad_loss_on(bad, amp, fused, graphed, device):
    model = net().to(device)
    calls = torch.zeros((), device=device)

    def poisoned(out, y):
        calls.add_(1)
        return rate_mse(out, y) + torch.where(calls == 10, bad, 0.0)

    kept = {}

    def keep(info):
        if (info.epoch, info.batch) == (1, 1):  # after the ninth update; the tenth is bad
            kept["weights"] = torch.cat([p.detach().flatten().clone() for p in model.parameters()])

    with pytest.raises(FloatingPointError, match="in epoch 2, batch 3 of 7"):
        fit(model, device, sgd(model, fused=fused or None), loss=poisoned, amp=amp, graphed=graphed, on_batch=keep)
    assert torch.equal(torch.cat([p.detach().flatten() for p in model.parameters()]), kept["weights"])
