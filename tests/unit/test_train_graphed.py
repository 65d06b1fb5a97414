"""Recording an update: what refuses it, what is looked for before it, and the states and generators it depends on."""

import functools
import random
import re
import types
import typing
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from snnkit import encode, train
from snnkit.device import Precision
from snnkit.train import graphed
from snnkit.train.batches import HeldData
from snnkit.train.graphed import GraphedStep, observed, why_not
from snnkit.train.metrics import Metric, RunningMetrics
from snnkit.train.seeding import generators_of
from snnkit.train.step import PlainStep, UpdateConfig

from .test_train_step import loss, twice

SAMPLES = torch.rand(40, 6, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(40) % 3


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(6, 3)

    def forward(self, x, state=None):
        return self.linear(x), state


def plain_step(optimizer=None, dtype=None, device="cpu", net=None):
    net = net or Net()
    optimizer = optimizer or torch.optim.SGD(net.parameters(), lr=0.1)
    precision = Precision(torch.device(device), dtype)
    held = HeldData(SAMPLES.to(device), LABELS.to(device), 8)
    config = UpdateConfig(net, held, twice, loss, optimizer, precision, Metric(None, precision.device))
    return PlainStep(config, RunningMetrics(torch.device("cpu")), precision.scaler())


# -- what refuses it -------------------------------------------------------------------------------------------------


def test_without_cuda_it_says_so_once_and_trains_all_the_same():
    results = []
    for option in (False, True):
        net = Net()
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            train.fit(
                net, (SAMPLES, LABELS), encode=twice, loss=loss, device="cpu", epochs=2, seed=0, progress=False,
                graphed=option,
            )  # fmt: skip
        said = [str(w.message) for w in heard if "graphed" in str(w.message)]
        assert len(said) == option
        results.append(net.linear.weight.detach().clone())
    assert "the device is 'cpu', and only CUDA has graphs" in said[0]
    assert torch.equal(*results)


def as_if_on_cuda(step):
    """The same step with a configuration that says it is for a CUDA device."""
    precision = Precision(torch.device("cuda"), None)
    step.config = types.SimpleNamespace(**(vars(step.config) | {"precision": precision}))
    return step


@pytest.mark.parametrize(
    "make, enabled, words",
    [
        (lambda p: torch.optim.Adam(p), False, "Adam counts its steps on the CPU; make it with capturable=True"),
        (lambda p: torch.optim.SGD(p, lr=0.1), True, "SGD waits for the scaled loss of float16.*fused=True"),
        (lambda p: torch.optim.SGD(p, lr=0.1), False, "^$"),
        (lambda p: torch.optim.SGD(p, lr=0.1, fused=True), True, "^$"),
        (lambda p: torch.optim.Adam(p, fused=True, capturable=True), False, "^$"),
    ],
)
def test_optimizers_that_wait_for_the_device_are_refused(make, enabled, words):
    net = Net()
    step = as_if_on_cuda(plain_step(make(net.parameters()), net=net))
    step.scaler = types.SimpleNamespace(is_enabled=lambda: enabled)
    assert re.search(words, why_not(step)), why_not(step)


# -- what is looked for before it ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "draw", [lambda: torch.rand(3), random.random, lambda: np.random.rand(), lambda: np.random.rand(700)]
)
def test_random_numbers_from_the_cpu_are_noticed(draw):
    result, reason = observed(draw)
    assert result is not None and "draws random numbers on the CPU" in reason


def test_waiting_is_noticed_and_other_warnings_go_through():
    def update():
        warnings.warn("called a synchronizing CUDA operation (as torch says it)", stacklevel=1)
        warnings.warn("something else", UserWarning, stacklevel=1)
        return 7

    with pytest.warns(UserWarning, match="something else") as heard:
        result, reason = observed(update)
    assert result == 7 and "waits for the device" in reason and "test_train_graphed.py" in reason
    assert len(heard) == 1


# -- the order of warm-up, recording and replay, with a graph made of Python ------------------------------------------


class FakeGraph:
    """Runs what it recorded again, as a graph does with the addresses that it knows."""

    made: typing.ClassVar = []

    def __init__(self):
        self.generators, self.replays = [], 0
        FakeGraph.made.append(self)

    def register_generator_state(self, generator):
        self.generators.append(generator)

    def pool(self):
        return (0, FakeGraph.made.index(self))

    def replay(self):
        self.replays += 1
        self.run()


class FakeStream:
    def __init__(self, device=None):
        pass

    def wait_stream(self, other):
        pass


@pytest.fixture
def fake_cuda(monkeypatch):
    """Enough of torch.cuda for ``GraphedStep`` to run on a CPU. Recording, unlike running, must change nothing."""
    import contextlib

    FakeGraph.made = []

    @contextlib.contextmanager
    def record(graph, pool=None, stream=None, capture_error_mode="global"):
        graph.given_pool = pool
        step = current[-1]
        kept = {name: value.clone() for name, value in step.plain.config.model.state_dict().items()}
        ledger = {name: value.clone() for name, value in vars(step.plain.metrics).items()}
        yield
        step.plain.config.model.load_state_dict(kept)
        for name, value in ledger.items():
            getattr(step.plain.metrics, name).copy_(value)
        graph.run = lambda: step.plain(step._indices)

    current = []
    monkeypatch.setattr(graphed, "why_not", lambda step: "")
    for name, value in {
        "Stream": FakeStream,
        "current_stream": FakeStream,
        "stream": lambda stream: contextlib.nullcontext(),
        "CUDAGraph": FakeGraph,
        "graph": record,
        "current_device": lambda: 0,
        "default_generators": (torch.default_generator,),
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    return current


def test_every_update_counts_once(fake_cuda):
    def run(wrap):
        step = plain_step()
        whole = wrap(step)
        fake_cuda.append(whole)
        for epoch in range(2):
            for rows in torch.arange(36).roll(epoch).split(8):  # 4 full ones, and one of 4
                whole(rows)
            step.config.optimizer.param_groups[0]["lr"] /= 2
        return step, whole

    expected, _ = run(lambda step: step)
    found, whole = run(lambda step: GraphedStep(step))
    assert torch.equal(found.config.model.linear.weight, expected.config.model.linear.weight)
    seen, right = found.metrics.read(), expected.metrics.read()
    assert seen == right and seen.updates == 10
    # 3 of 8 to warm up; recorded once, and again when lr changed, into the memory of the first.
    assert whole.captures == 2 and [g.replays for g in FakeGraph.made] == [1, 4]
    assert [g.given_pool for g in FakeGraph.made] == [None, (0, 0)]


def test_a_recording_that_fails_is_told_and_the_update_is_made(fake_cuda, monkeypatch):
    class Broken(FakeGraph):
        def __init__(self):
            raise RuntimeError("operation not permitted when stream is capturing\nmore")

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Broken)
    expected, step = plain_step(), plain_step()
    whole = GraphedStep(step)
    with pytest.warns(UserWarning, match=r"recording failed \(operation not permitted.*g\)") as w:
        for rows in torch.arange(40).split(8):
            whole(rows)
    assert len(w) == 1
    for rows in torch.arange(40).split(8):
        expected(rows)
    assert torch.equal(step.config.model.linear.weight, expected.config.model.linear.weight)


# -- generators ------------------------------------------------------------------------------------------------------

at_home = torch.Generator()


class Augment:
    def __init__(self, generator):
        self.generator = generator

    def __call__(self, x):
        return x

    def method(self, x):
        return x


def test_generators_are_found_wherever_functions_hold_them():
    g = [torch.Generator() for _ in range(7)]

    def closure(x):
        return g0, x

    g0 = g[0]

    def default(x, generator=g[1]):
        return x

    def of_the_module(x):
        return torch.rand(x.shape, generator=at_home)

    net = Net()
    net.noise = g[2]
    chained = nn.Sequential(net)
    partial = functools.partial(encode.poisson, steps=3, generator=g[3])
    more = Augment(g[4]), Augment(g[5]).method, [Augment(g[6])], None
    found = generators_of(closure, default, chained, partial, *more)
    assert [id(x) for x in found] == [id(g[i]) for i in (0, 1, 2, 3, 4, 5, 6)]
    assert generators_of(of_the_module) == [at_home]
    assert generators_of(lambda x: partial(x)) == [g[3]]
    assert generators_of(partial, partial) == [g[3]]
    assert generators_of(twice, loss, Net(), None) == []
