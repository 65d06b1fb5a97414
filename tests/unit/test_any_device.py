"""What runs on each step waits for no device, and makes all of its tensors there: on one whose numbers nobody can read.

Tensors of PyTorch's fake mode have no values: to read one is an error, as are operations on two devices. The device is
"meta", which has all operations, and which the library takes for an accelerator that it has no kernels for.
"""

import functools
import inspect

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from snnkit import encode, loss, models, plasticity, train
from snnkit.data.augment import Shift
from snnkit.device import Precision
from snnkit.engine import plan
from snnkit.engine.triton.sum_rows import by_place
from snnkit.event_lists import EventList
from snnkit.neuron import LIF, Recurrent
from snnkit.nn import Residual, Sequential, Voting, detach, recording
from snnkit.train import recipe
from snnkit.train.batches import HeldData
from snnkit.train.metrics import Metric, RunningMetrics, batch_metrics
from snnkit.train.step import PlainStep, UpdateConfig, step_unless
from tests.engine.zoo import FEATURES, ZOO

DEVICE = torch.device("meta")
empty = functools.partial(torch.empty, device=DEVICE)
zeros = functools.partial(torch.zeros, device=DEVICE, dtype=torch.int64)


class Alone(TorchDispatchMode):
    """No operation has to do with a tensor of the CPU: a copy of one would wait for the device."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        assert all(t.device == DEVICE for t in tree_leaves((args, kwargs, result)) if isinstance(t, torch.Tensor)), func
        return result


@pytest.fixture
def there():
    """``there(module)``: a module on the device; all else in the test happens there, too."""
    with FakeTensorMode(allow_non_fake_inputs=False), Alone():

        def moved(module):
            for part in module.modules():
                for own in (part._parameters, part._buffers):
                    for name, t in own.items():
                        if t is not None:
                            same = empty(t.shape, dtype=t.dtype)
                            own[name] = nn.Parameter(same) if isinstance(t, nn.Parameter) else same
            return module

        yield moved


def test_a_step_that_looks_at_a_value_is_noticed(there):
    with pytest.raises(RuntimeError, match=r"_local_scalar_dense|[Dd]ata-dependent"):
        empty(3).sum().item()
    with pytest.raises((AssertionError, RuntimeError)):
        empty(3) + torch.ones(3)
    with pytest.raises(AssertionError):
        torch.tensor(1.0).to(DEVICE)


@pytest.mark.parametrize("name", ZOO)
def test_neurons(name, there):
    neuron = there(made[name])
    x = empty(5, 3, FEATURES, requires_grad=True)
    out, last = neuron(x)
    (out.sum() + sum(part.sum() for part in last)).backward()
    neuron(empty(3, FEATURES), repeat=4)


# Made before the fake mode begins, in which their checks could read no number.
made = {name: make() for name, make in ZOO.items()}
NETWORKS = {
    "mlp": models.mlp((64, 32, 10)),
    "conv": models.ConvNet(1, 8, 10, widths=(4, 6, 8)),
    "fashion": models.FashionConvNet(8, 16, 10, size=8),
    "event": models.EventConvNet(1, 8),
    "recurrent": models.EventRecurrentNet(64, 16),
    "statistical": models.StatisticalSNN(64, 32, 10, populations=4),
}
OPTIONS = {
    "clip": {"clip": 1.0},
    "shift": {"augment": Shift(2)},
    "channels last": {"channels_last": True},
    "accumulate": {"accumulate": 2},
}
UPDATES = [
    *((name, "count_cross_entropy", "repeat", "") for name in NETWORKS),
    *(("mlp", name, "repeat", "") for name in recipe.LOSSES),
    *(("mlp", "rate_mse", name, "") for name in recipe.ENCODERS[:-1]),
    *(("fashion", "rate_mse", "repeat", name) for name in OPTIONS),
]


@pytest.mark.parametrize(("name", "of_loss", "encoder", "option"), UPDATES)
def test_a_whole_update(name, of_loss, encoder, option, there):
    options = dict(OPTIONS.get(option, {}))
    batches = options.pop("accumulate", 1)
    model = there(NETWORKS[name])
    coder = model.encode if name == "statistical" else recipe.make_encoder(encoder, 4)
    criterion = getattr(loss, of_loss)
    config = UpdateConfig(
        model, HeldData(empty(40, 1, 8, 8, dtype=torch.uint8), zeros(40), 16, batches), coder, criterion,
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), Precision(DEVICE, None),
        Metric(None, DEVICE, criterion), **options,
    )  # fmt: skip
    step = PlainStep(config, RunningMetrics(DEVICE), config.precision.scaler())
    step(torch.arange(16 * batches, device=DEVICE))


KEYWORDS = {"weight": (4,), "ignore_index": -1, "reduction": "none", "population_size": 2}


MEASURES = [*recipe.LOSSES, "accuracy", "first_spike_accuracy", "accuracy_over_time"]


@pytest.mark.parametrize(
    ("name", "keyword"),
    [(n, k) for n in MEASURES for k in ("", *KEYWORDS) if not k or k in inspect.signature(getattr(loss, n)).parameters],
)
def test_losses(name, keyword, there):
    value = KEYWORDS.get(keyword)
    given = {keyword: empty(value) if isinstance(value, tuple) else value} if keyword else {}
    result = getattr(loss, name)(
        empty(5, 3, 8 if keyword == "population_size" else 4, requires_grad=True), zeros(3), **given
    )
    if result.requires_grad:
        result.sum().backward()


def test_a_metric_that_is_a_number_of_python_is_made_there(there):
    metrics = batch_metrics(empty(()), empty(5, 3, 4), zeros(3), Metric(lambda out, y: 0.5, DEVICE))
    running = RunningMetrics(DEVICE)
    running.watch(empty(()))
    running.add(metrics, 3)


ENCODERS = {
    "population": lambda: encode.population(empty(3, 6), 8),
    "phase": lambda: encode.phase(empty(3, 6), 5),
    "latency": lambda: encode.latency(empty(3, 6), 5, linear=True, normalize=False, clip=False),
    "delta": lambda: encode.delta(empty(4, 3, 6), off_spikes=True, padding=True),
    "first spike": lambda: encode.first_spike(empty(4, 3, 6)),
    "times": lambda: encode.spike_times(empty(4, 3, 6), 9),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_encoders(name, there):
    assert ENCODERS[name]().device == DEVICE


RULES = {
    "pairs": lambda: plasticity.PairSTDP().run(empty(5, 3, 6), empty(5, 3, 4), empty(4, 6)),
    "triplets": lambda: plasticity.TripletSTDP().step(empty(3, 6), empty(3, 4), empty(4, 6)),
    "convolution": lambda: plasticity.PairSTDP(connection=plasticity.Convolution()).run(
        empty(2, 3, 1, 6, 6), empty(2, 3, 2, 4, 4), empty(2, 1, 3, 3)
    ),
    "competition": lambda: plasticity.CompetitiveLayer().learn(
        empty(3, 2, 7), plasticity.LayerState(empty(5, 7), empty(5))
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_local_learning(name, there):
    RULES[name]()


NO_EVENTS = EventList.of(torch.zeros(4, 3, 2, 8, 8))


def listed():
    return NO_EVENTS._of_checked(zeros(4 * 3 + 1), empty(40, dtype=torch.int32), NO_EVENTS.shape)


LINEAR = Sequential(nn.Flatten(), nn.Linear(128, 5))


def test_lists_of_events(there):
    net, events = there(LINEAR), listed()
    net(events.to(DEVICE))[0].sum().backward()
    events.dense()
    by_place(events.starts, events.places, 128)


class Waits(TorchDispatchMode):
    """Counts operations after which PyTorch knows values of the device, or a size that depends on them."""

    observes = True

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        unknown = func is torch.ops.aten.repeat_interleave.Tensor and not (kwargs or {}).get("output_size")
        if unknown or "local_scalar" in str(func) or "nonzero" in str(func) or "bincount" in str(func):
            self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def test_a_convolution_of_a_list_of_events_does_not_wait_for_each_part():
    x = torch.randint(3, (6, 64, 2, 32, 32)).float()
    net, events = Sequential(nn.Conv2d(2, 3, 3)), EventList.of(x)
    with Waits() as waits:
        out = net(events)[0]
        assert torch.equal(out, net(x)[0])
        out.sum().backward()
    assert waits.seen == []  # but for one ``tolist`` of all bounds, which is no operation


MIXED = Sequential(nn.Linear(8, 8), Recurrent(LIF(), 8), Residual(LIF()), nn.Linear(8, 20), Voting(2))


def test_layers_and_recordings(there):
    net = there(MIXED)
    out, state = net(empty(4, 3, 8))
    out.sum().backward()
    with recording(net, states=True) as seen:
        net(empty(4, 3, 8), detach(state))
    regulariser = loss.spike_rate_regulariser(seen.spikes.values()) + loss.spike_count_regulariser(seen.spikes.values())
    regulariser.backward()


ONE = nn.Linear(3, 3)


def test_an_update_that_is_held_back(there):
    layer = there(ONE)
    optimizer = train.recipe.make_optimizer("sgd", layer, 0.1, fused=False)
    layer(empty(2, 3)).sum().backward()
    step_unless(empty(()), optimizer)


def test_a_state_at_rest_is_made_there(monkeypatch):
    monkeypatch.setattr(torch, "tensor", None)  # it would copy the number from the CPU
    rest = plan._shared_rest(LIF(), empty(2, 3, 4))
    assert rest.v.device == DEVICE and rest.v.stride() == (0, 0)
