"""Products of spikes from their places: values and gradients of dense ones, and dense ones wherever those are meant."""

import copy
import os
import random
import subprocess
import sys
import weakref

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from snnkit import engine, event_products, linear
from snnkit.device import explain_memory
from snnkit.event_lists import EventList
from snnkit.loss import rate_cross_entropy
from snnkit.neuron import LI, LIF
from snnkit.nn import Sequential, TimeBatched, dense_products
from snnkit.pooling import observer

# Sums in another order: multiples of the largest of the terms' sums.
TOLERANCE = {torch.float32: 2e-6, torch.float64: 1e-14, torch.bfloat16: 4e-3}


@pytest.fixture
def events(monkeypatch):
    """Event-driven products of any size and density, and those that ran."""
    if event_products.kernels() is None:
        pytest.skip("no C++ compiler")
    ran, run = [], event_products._run
    monkeypatch.setattr(linear, "_PAYING", 0)
    monkeypatch.setattr(linear, "COUNTED", 0)
    monkeypatch.setattr(event_products, "break_even", lambda rows, inputs, outputs, dtype: float(rows * inputs > 0))
    monkeypatch.setattr(event_products, "_run", lambda name, *rest: ran.append(name) or run(name, *rest))
    return ran


def spikes(*shape, density=0.1, dtype=torch.float32):
    return (torch.rand(shape) < density).to(dtype)


def close(ours, exact, scale, dtype):
    assert ours.dtype == dtype and ours.is_contiguous()
    assert ((ours.double() - exact).abs() <= TOLERANCE[dtype] * scale.clamp_min(1)).all()


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("rows, inputs, outputs", [(1, 1, 1), (70, 65, 63), (1500, 130, 200), (2049, 700, 33)])
@pytest.mark.parametrize("density", [0.0, 0.03, 0.4, 1.0])
def test_products_and_gradients_are_those_of_float64(
    events, monkeypatch, rows, inputs, outputs, density, dtype, threads
):
    monkeypatch.setattr(event_products, "threads_for", lambda x: threads)
    x, bias = spikes(rows, inputs, density=density, dtype=dtype), torch.randn(outputs, dtype=dtype)
    weight, g = torch.randn(outputs, inputs, dtype=dtype), torch.randn(rows, outputs, dtype=dtype)
    places = event_products.spikes_of(x, 1.0)
    assert torch.equal(places.dense(dtype), x) and places.density == x.double().mean()
    out = event_products.product(places, weight, bias)
    exact, scale = (
        nn.functional.linear(x.double(), w.double(), b.double())
        for w, b in ((weight, bias), (weight.abs(), bias.abs()))
    )
    close(out, exact, scale, dtype)
    assert torch.equal(event_products.product(places, weight, None), event_products.product(places, weight, 0 * bias))
    d_weight, d_bias = event_products.gradients(places, g)
    close(d_weight, g.double().T @ x.double(), g.double().abs().T @ x.double(), dtype)
    close(d_bias, g.double().sum(0), g.double().abs().sum(0), dtype)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 30))])
def test_random_products_of_tensors_and_lists(events, monkeypatch, seed):
    chance = random.Random(seed)
    for _ in range(20):
        steps, batch, inputs, outputs = (chance.choice((1, 2, 7, 33, 64, chance.randint(1, 300))) for _ in range(4))
        dtype, threads = chance.choice([*TOLERANCE]), chance.choice((1, 2, 3))
        monkeypatch.setattr(event_products, "threads_for", lambda x, n=threads: n)
        layer = nn.Linear(inputs, outputs, bias=chance.random() < 0.5).to(dtype)
        x = spikes(steps, batch, inputs, density=chance.choice((0.0, 0.01, 0.1, 0.5, 1.0)), dtype=dtype)
        leaf = x.clone().requires_grad_(chance.random() < 0.5)
        g, exact = torch.randn(steps, batch, outputs, dtype=dtype), copy.deepcopy(layer).double()
        wide = x.double().requires_grad_()
        out, before = exact(wide), len(events)
        wanted = [out, *torch.autograd.grad(out, [*exact.parameters(), wide], g.double())]
        for given in (leaf, EventList.of(x)):
            out = Sequential(layer)(given)[0]
            leaves = [*layer.parameters(), *[leaf] * (given is leaf and leaf.requires_grad)]
            found = [out, *torch.autograd.grad(out, leaves, g)]
            for ours, right in zip(found, wanted, strict=False):
                most = 10 * TOLERANCE[dtype] * right.abs().max().clamp_min(1)
                assert ours.dtype == dtype and (ours - right).abs().max() <= most, (seed, x.shape, outputs, dtype)
        assert events[before:] == ["product", "gradients"] * 2


@pytest.mark.parametrize("value", [2.0, -1.0, 0.5, 1e-40, 1 + 1e-7, torch.nan, torch.inf])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_other_values_than_0_and_1_are_dense(events, value, dtype):
    x = -spikes(100, 200, dtype=dtype)
    assert x.min() == -1 and isinstance(event_products.spikes_of(x.abs(), 1.0), tuple)
    assert isinstance(event_products.spikes_of(0 * x, 1.0), tuple)  # -0 is 0
    x = x.abs()
    x[99, 199] = value
    if x[99, 199] in (0, 1):
        pytest.skip("the dtype has no such number")
    assert event_products.spikes_of(x, 1.0) == "the input has values other than 0 and 1"
    layer = nn.Linear(200, 50).to(dtype)
    assert torch.equal(linear.linear(layer, x).isnan(), layer(x).isnan()) and not events


LITTLE = """
import resource, torch
from snnkit import event_products

def limited(extra, run):
    pages = int(open("/proc/self/statm").read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + extra * 2**20, resource.RLIM_INFINITY))
    try:
        return run()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)

x, small = torch.ones(4000, 4000), event_products.spikes_of(torch.ones(40, 40), 1.0)  # lists of 64 MB
event_products.product(small, torch.ones(64, 40), None), event_products.gradients(small, torch.ones(40, 64))
print(limited(30, lambda: event_products.spikes_of(x, 1.0)))
print(limited(115, lambda: event_products.spikes_of(x, 1.0)))  # those of the kernel fit, but not their copy
limited(100, lambda: torch.empty(90 * 2**20, dtype=torch.uint8))  # nothing is held of those that failed
few = event_products.Spikes(torch.zeros(2, dtype=torch.int64), torch.empty(0, dtype=torch.int32), 2**20)
weight, gradient = torch.zeros(8, 2**20), torch.zeros(1, 8)  # a tile of 256 MB
print(limited(100, lambda: event_products.product(few, weight, None)))
print(limited(100, lambda: event_products.gradients(few, gradient)))
print(event_products.spikes_of(x, 1.0).density, event_products.product(few, weight, None).sum().item())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_where_memory_is_too_little_for_lists_a_dense_product_may_still_have_enough(events):
    freed_at_once = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    done = subprocess.run([sys.executable, "-c", LITTLE], capture_output=True, text=True, env=freed_at_once)
    assert not done.stderr
    assert done.stdout.splitlines() == ["too little memory for lists"] * 2 + ["None"] * 2 + ["1.0 0.0"]


@pytest.mark.parametrize("failing", ["spikes", "product", "gradients"])
def test_too_little_memory_is_said_and_the_product_is_dense(events, failing, monkeypatch):
    layer, x, kernel = nn.Linear(40, 30), spikes(2, 8, 40), event_products._kernel
    net = Sequential(layer)
    monkeypatch.setattr(
        event_products, "_kernel", lambda name, dtype: (lambda *a: -3) if name == failing else kernel(name, dtype)
    )
    out, (row,) = net(x)[0], engine.explain(net, x).products
    assert (row.way == "events") == (failing == "gradients") and ("too little memory" in row.reason) == (
        failing != "gradients"
    )
    g = torch.randn_like(out)
    found, wanted = (torch.autograd.grad(o, list(layer.parameters()), g) for o in (out, layer(x)))
    torch.testing.assert_close([out, *found], [layer(x), *wanted])


def test_lists_pay_up_to_a_density_that_depends_on_the_shape_alone():
    rule = event_products.break_even
    assert 0.15 < rule(3200, 1000, 1000, torch.float32) == rule(3200, 1000, 1000, torch.float64) < 0.2
    assert rule(3200, 1000, 1000, torch.float32) > rule(3200, 1000, 200, torch.float32) > 0
    assert rule(3200, 1000, 1000, torch.float32) > rule(200, 1000, 1000, torch.float32) > 0
    assert rule(3200, 1000, 1000, torch.float32) > rule(3200, 1000, 1000, torch.bfloat16) > 0
    assert rule(3200, 1000, 10, torch.float32) < 0 and rule(64, 1000, 1000, torch.float32) < 0
    assert rule(0, 1000, 1000, torch.float32) == rule(3200, 1000, 1000, torch.float16) == 0
    if event_products.kernels() is None:
        pytest.skip("no C++ compiler")
    assert event_products.spikes_of(spikes(500, 500, density=0.5), 0.1).startswith("about 5")
    early = spikes(500, 500, density=0.01)  # few where the sample is, many in between
    early[1::2] = 1
    assert early[:: 500 // event_products._SAMPLED].mean() > 0.1
    early[:: 500 // event_products._SAMPLED] = 0
    assert event_products.spikes_of(early, 0.1).startswith("more of the inputs are spikes than pay")
    assert event_products.spikes_of(spikes(500, 500, density=0.05), 0.1).density < 0.06
    assert event_products.spikes_of(spikes(500, 500), -0.1).startswith("lists of spikes do not pay for so few rows")


@pytest.mark.parametrize(
    "frozen", [(), ("x",), ("weight",), ("x", "bias"), ("weight", "bias"), ("x", "weight", "bias")]
)
def test_gradients_of_first_and_second_order(events, frozen):
    layer, x = nn.Linear(7, 5).double(), spikes(4, 3, 7, density=0.4, dtype=torch.float64)
    tensors = {"x": x, **dict(layer.named_parameters())}
    for name, tensor in tensors.items():
        tensor.requires_grad_(name not in frozen)
    out = TimeBatched(layer)(x)
    assert out.requires_grad == (len(frozen) < 3) and events == ["product"]
    torch.testing.assert_close(out, layer(x), rtol=0, atol=1e-14)
    if out.requires_grad:
        inputs = tuple(tensors.values())
        assert torch.autograd.gradcheck(lambda *_: TimeBatched(layer)(x), inputs)  # where x moves, it is dense
        assert ("gradients" in events) == ("weight" not in frozen)
        assert torch.autograd.gradgradcheck(lambda *_: TimeBatched(layer)(x), inputs)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_several_gradients_at_once_and_second_derivatives_are_those_of_pytorch(events, bias, dtype):
    layer, x = nn.Linear(40, 30, bias=bias).to(dtype), spikes(16, 40, dtype=dtype).requires_grad_()
    leaves = [x, *layer.parameters()]

    def results(run):
        out = run(layer, x)
        first = torch.autograd.grad(out.square().sum(), leaves, create_graph=True)
        second = torch.autograd.grad(sum(d.square().sum() for d in first), leaves, retain_graph=True)
        rows = torch.eye(3, dtype=dtype)
        batched = torch.autograd.grad(out[0, :3], leaves, rows, is_grads_batched=True, retain_graph=True)
        mapped = torch.func.vmap(lambda v: torch.autograd.grad(out[0, :3], leaves, v, retain_graph=True))(rows)
        return [out, *first, *second, *batched, *mapped, *torch.autograd.grad(out.sum(), leaves)]

    wide = {torch.float32: 1e-5, torch.float64: 1e-13, torch.bfloat16: 0.05}[dtype]
    for a, b in zip(results(linear.linear), results(lambda layer, x: layer(x)), strict=True):
        assert a.dtype == b.dtype and (a - b).abs().max() <= wide * b.abs().max().clamp_min(1)
    assert events == ["product", "gradients", "gradients"]  # the latter where no further derivative is requested


def test_numbers_that_are_not_finite_are_multiplied_by_0_as_pytorch_does(events):
    layer, x = nn.Linear(70, 80), spikes(100, 70).requires_grad_()
    for place, value in (((0, 0), torch.inf), ((79, 69), torch.nan)):
        with torch.no_grad():
            before = layer.weight[place].item()
            layer.weight[place] = value
            assert torch.equal(linear.linear(layer, x).isnan(), layer(x).isnan()) and layer(x).isnan().any()
            layer.weight[place] = before
    g = torch.ones(100, 80)
    g[3, 4] = torch.inf
    ours, theirs = (
        torch.autograd.grad(out, (x, *layer.parameters()), g) for out in (linear.linear(layer, x), layer(x))
    )
    assert all(torch.equal(a.isnan(), b.isnan()) for a, b in zip(ours, theirs, strict=True)) and ours[1].isnan().any()
    with torch.no_grad():
        layer.bias[3] = torch.inf
        assert torch.equal(linear.linear(layer, x).isinf(), layer(x).isinf())
    assert events == ["product"] * 2 + ["product", "gradients"] + ["product"]


def test_where_a_plain_call_is_expected_products_are_dense(events, monkeypatch):
    layer, x = nn.Linear(40, 30), spikes(2, 8, 40)
    net = TimeBatched(layer)

    def plain(run):
        run()
        return not events

    assert plain(lambda: linear.linear(layer, spikes(40, 16).T))
    assert plain(lambda: linear.linear(layer, x[0, :1].expand(8, 40))) and plain(lambda: linear.linear(layer, x))
    assert plain(lambda: net(x[:, :0])) and net(x[:, :0]).shape == (2, 0, 30)
    assert plain(lambda: torch.func.vmap(net)(x[None]))
    assert plain(lambda: torch.func.jvp(net, (x,), (x,)))
    assert plain(lambda: torch.func.grad(lambda x: net(x).sum())(x))
    assert plain(lambda: torch.compile(net, backend="eager", fullgraph=True)(x))
    traced = torch.jit.trace(net, x, check_trace=False)
    graph = torch.fx.experimental.proxy_tensor.make_fx(net)(x)
    dense = torch.rand(2, 8, 40)
    torch.testing.assert_close(traced(dense), layer(dense))
    torch.testing.assert_close(graph(dense), layer(dense))
    with torch.autocast("cpu", torch.bfloat16):
        assert plain(lambda: net(x)) and net(x).dtype == torch.bfloat16
    with FlopCounterMode(display=False) as flops:
        assert plain(lambda: net(x))
    assert flops.get_total_flops() == 2 * x.numel() * 30
    seen = []
    for register in (layer.register_forward_hook, layer.register_full_backward_hook):
        handle = register(lambda *_: seen.append(1))
        assert plain(lambda: net(x.clone().requires_grad_()).sum().backward())
        handle.remove()
    assert seen == [1, 1]
    with dense_products():
        assert plain(lambda: net(x))
    with monkeypatch.context() as patch:
        patch.setattr(event_products, "kernels", lambda: None)
        assert plain(lambda: net(x))
        assert "can't be compiled" in engine.explain(Sequential(layer), x).products[0].reason
    rows = parametrizations.weight_norm(nn.Linear(40, 30))
    torch.testing.assert_close(TimeBatched(rows)(x), rows(x))
    assert plain(lambda: None)
    with torch.inference_mode():
        net(x.clone())
    Sequential(layer, LIF())(x)
    assert events == ["product"] * 2


def test_the_way_back_is_plain_where_operations_are_watched(events):
    layer, x = nn.Linear(40, 30), spikes(2, 8, 40).requires_grad_()
    out = TimeBatched(layer)(x)
    with FlopCounterMode(display=False) as flops:
        torch.autograd.grad(out.sum(), (x, layer.weight))
    assert flops.get_total_flops() == 2 * 2 * x.numel() * 30 and events == ["product"]


@pytest.mark.parametrize("learns", [False, True])
def test_backward_keeps_the_places_of_spikes_and_not_the_input(events, learns):
    layer, source = nn.Linear(400, 300), spikes(64, 400, density=0.05).requires_grad_(learns)
    x = source * 1
    alive = weakref.ref(x)
    out = linear.linear(layer, x)
    del x
    assert alive() is None
    kept = [t for t in out.grad_fn.saved_tensors if t is not None and t is not layer.weight]
    assert sum(t.untyped_storage().nbytes() for t in kept) < source.nbytes / 4
    g = torch.randn(64, 300)
    ours = torch.autograd.grad(out, [layer.weight, *[source] * learns], g)
    theirs = torch.autograd.grad(layer(source), [layer.weight, *[source] * learns], g)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("store, load", [(torch.Tensor.bfloat16, lambda t: t), (lambda t: t.mul(2), lambda t: t / 2)])
def test_hooks_on_saved_tensors_see_the_input(events, store, load):
    layer, x = nn.Linear(40, 30), spikes(2, 8, 40)
    with torch.autograd.graph.saved_tensors_hooks(store, load):
        out = TimeBatched(layer)(x)
    g = torch.randn_like(out)
    torch.testing.assert_close(torch.autograd.grad(out, layer.weight, g)[0], g.flatten(0, 1).T @ x.flatten(0, 1))
    assert events == ["product", "gradients"]


@pytest.mark.parametrize("reentrant", [False, True])
def test_layers_may_be_checkpointed(events, reentrant):
    net, x = Sequential(nn.Linear(40, 30), LIF(), nn.Linear(30, 20)), spikes(4, 8, 40).requires_grad_()
    with torch.no_grad():
        net[0].weight.mul_(10)
    out = checkpoint(lambda x: net(x)[0], x, use_reentrant=reentrant)
    ours = torch.autograd.grad(out.square().sum(), x) if not reentrant else (out.square().sum().backward(), x.grad)[1:]
    with dense_products():
        theirs = torch.autograd.grad(net(x)[0].square().sum(), x)
    torch.testing.assert_close(ours, theirs)
    assert "gradients" in events


def test_the_memory_that_is_explained_is_that_of_spikes(events):
    net = Sequential(nn.Linear(40, 300), LIF(), nn.Linear(300, 20))
    x, seen = spikes(5, 80, 40), []
    net[2].register_forward_pre_hook(observer(lambda layer, args: seen.append(args[0].shape)))
    net[2].register_forward_hook(observer(lambda layer, args, out: seen.append(out.shape)))
    _, neuron, last = explain_memory(net, x).rows
    assert neuron.measured >= 4 * 5 * 80 * 300 > 4 * last.measured > 0
    assert "gradients" in events and seen[:2] == [(400, 300), (400, 20)]


def test_networks_learn_as_with_dense_products():
    if event_products.kernels() is None:
        pytest.skip("no C++ compiler")
    torch.manual_seed(0)
    x, labels = spikes(20, 64, 300, density=0.05), torch.randint(10, (64,))
    x[:, torch.arange(64), 30 * labels] = 1
    start = Sequential(nn.Linear(300, 256), LIF(), nn.Linear(256, 256), LIF(), nn.Linear(256, 10), LI()).state_dict()

    def curve():
        net = Sequential(nn.Linear(300, 256), LIF(), nn.Linear(256, 256), LIF(), nn.Linear(256, 10), LI())
        net.load_state_dict(start)
        with torch.no_grad():
            net[0].weight.mul_(4)
            net[2].weight.mul_(4)
        optimizer, losses, explained = torch.optim.Adam(net.parameters(), 1e-2), [], engine.explain(net, x)
        for _ in range(20):
            optimizer.zero_grad()
            loss = rate_cross_entropy(net(x)[0], labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return torch.tensor(losses), [product.way for product in explained.products[:2]]

    ours, ways = curve()
    with dense_products():
        theirs, other_ways = curve()
    assert ways == ["events", "events"] and "events" not in other_ways
    assert ours[-1] < 0.8 * ours[0]
    torch.testing.assert_close(ours, theirs, rtol=0.02, atol=0.01)  # a spike may come a step later


def test_explain_shows_density_choice_and_reason(events):
    net = Sequential({"first": nn.Linear(40, 30), "lif": LIF(), "last": nn.Linear(30, 20)})
    x = spikes(4, 8, 40)
    explained = engine.explain(net, x)
    first, last = explained.products
    assert (first.layer, first.shape, first.weight, first.way) == ("first", (32, 40), (30, 40), "events")
    assert first.reason.startswith(f"{x.mean():.1%} of the inputs are spikes") and last.layer == "last"
    assert len(explained) == 1 and first.reason in str(explained) and "32x40" in str(explained)
    dense = engine.explain(net, torch.rand(4, 8, 40)).products[0]
    assert dense.way in ("PyTorch", "oneDNN") and dense.reason == "the input has values other than 0 and 1"
    with dense_products():
        assert engine.explain(net, x).products[0].reason == "dense_products asks so"
