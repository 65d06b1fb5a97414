"""A recurrent layer in one call of a kernel, beside the loop that calls its neurons step by step."""

import copy
from collections import namedtuple

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

from snnkit import engine, linear
from snnkit.engine import recurrent
from snnkit.neuron import LI, LIF, Leaky, Neuron, Recurrent, RecurrentState
from snnkit.nn import Sequential, ablate, recording
from snnkit.surrogate import Triangle

from .zoo import FEATURES, ZOO


@pytest.fixture
def calls(monkeypatch):
    """The calls of the kernel's node."""
    seen, run = [], recurrent.run
    monkeypatch.setattr(recurrent, "run", lambda *arguments: seen.append(arguments) or run(*arguments))
    return seen


def layer(neuron, features=FEATURES, scale=3.0, **options):
    made = Recurrent(neuron, features, **options).double()
    with torch.no_grad():
        made.weight.weight *= scale
    return made


def with_engine(made, name):
    other = copy.deepcopy(made)
    other.neuron.engine = name
    return other


def passed(made, x, state=None):
    """out, last state, and the gradients of everything of a loss that looks at all results."""
    x = x.detach().requires_grad_()  # a copy would have another layout
    parts = []
    if state is not None:
        parts = [s.detach().clone().requires_grad_() for s in (*state.neuron, state.out)]
        state = RecurrentState(type(state.neuron)(*parts[:-1]), parts[-1])
    out, last = made(x, state)
    results = (out, *last.neuron, last.out)
    generator = torch.Generator().manual_seed(5)
    loss = sum((r * torch.randn(r.shape, generator=generator, dtype=r.dtype).to(r.device)).sum() for r in results)
    wanted = (x, *parts, *(p for p in made.parameters() if p.requires_grad))
    return [*results, *torch.autograd.grad(loss, wanted, materialize_grads=True)]


def assert_equal(found, wanted, tolerance=1e-12):
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


# One for each kind of kernels: how many states and flags, what is saved of a step (one value, nothing, the input),
# parameters that are shared, of each neuron, or none; and one whose output is no spike.
KINDS = (
    "IF-reset-negative",
    "LIF-learnable-tau",
    "LIF-buffers",
    "Leaky-zero-now",
    "Leaky-learnable",
    "PLIF",
    "Readout",
)
KINDS += ("CubaLIF", "CubaLIF-learnable", "Izhikevich-learnable", "LI-learnable", "Refractory", "AdEx", "Alpha")
KINDS += ("Alpha-subtract-learnable", "OneToOne-learnable", "Refractory-adapts")


@pytest.mark.parametrize("name", [pytest.param(key, marks=[] if key in KINDS else pytest.mark.slow) for key in ZOO])
def test_every_neuron_beside_the_loop(name, calls):
    made = layer(ZOO[name](), bias=len(name) % 2 == 0)
    x = torch.randn(11, 3, FEATURES, dtype=torch.float64) * 2
    state = made(torch.randn(2, 3, FEATURES, dtype=torch.float64))[1]
    for start in (None, state):
        calls.clear()
        found = passed(with_engine(made, "cpp"), x, start)
        assert_equal(found, passed(with_engine(made, "eager"), x, start))
        assert len(calls) == 1


@pytest.mark.parametrize("features, batch, steps", [(1, 1, 1), (33, 17, 4), (64, 8, 3), (130, 9, 5), (200, 2, 2)])
@pytest.mark.parametrize("offset", [-9.0, 0.0, 9.0])
def test_any_size_and_any_number_of_spikes(features, batch, steps, offset, calls):
    made = layer(LIF(surrogate=Triangle()), features, bias=True)
    x = torch.randn(steps, batch, features, dtype=torch.float64) + offset
    threads = torch.get_num_threads()
    wanted = passed(with_engine(made, "eager"), x)
    assert abs(wanted[0].mean().item() - float(offset > 0)) < 0.01 or offset == 0
    try:
        for torch_threads in (1, 2):
            torch.set_num_threads(torch_threads)
            assert_equal(passed(with_engine(made, "cpp"), x), wanted)
    finally:
        torch.set_num_threads(threads)
    assert len(calls) == 2


@pytest.mark.parametrize("offset, kept", [(-3.0, 2), (0.0, 2), (9.0, 1)])
def test_a_large_layer_keeps_its_spikes_as_lists_or_as_bytes(offset, kept, calls, monkeypatch):
    made = layer(LIF(surrogate=Triangle(), detach_reset=True), 512, scale=0.2)
    x = torch.randn(17, 65, 512, dtype=torch.float64) + offset  # more bytes than are written past the cache
    seen, compressed = [], linear.compressed
    monkeypatch.setattr(linear, "compressed", lambda *some: seen.append(compressed(*some)) or seen[-1])
    found = passed(with_engine(made, "cpp"), x)
    assert_equal(found, passed(with_engine(made, "eager"), x), 1e-10)
    assert [len(tensors) for tensors in seen] == [kept]
    assert calls


@pytest.mark.parametrize("name", ["Leaky-learnable", "CubaLIF", "Refractory", "LI"])
def test_each_gradient_may_be_asked_for_alone(name, calls):
    made = layer(ZOO[name](), bias=True)
    x = torch.randn(6, 3, FEATURES, dtype=torch.float64, requires_grad=True)
    results = []
    for engine_name in ("cpp", "eager"):
        other = with_engine(made, engine_name)
        inputs = [x, *other.parameters()]
        loss = other(x)[0].square().sum()
        results.append([torch.autograd.grad(loss, one, retain_graph=True)[0] for one in inputs])
    assert_equal(*results)
    assert calls


class Root(Neuron):
    """Its output has an infinite slope at 0."""

    State = namedtuple("State", ["v"])

    def initial_state(self, x):
        return self.State(torch.zeros_like(x))

    def step(self, x, state):
        v = 0.5 * state.v + x
        return torch.sqrt(torch.abs(v)), self.State(v)


def gradient_where_the_last_output_is_not_looked_at(name):
    """No gradient is no gradient of 0, of which an infinite slope would make NaN."""
    torch.manual_seed(0)
    made = with_engine(layer(Root(), 3), name)
    with torch.no_grad():
        made.weight.weight[0] = 0.0  # neuron 0 hears nobody
    x = torch.rand(4, 2, 3, dtype=torch.float64) + 1.0
    x[-1, :, 0] = -0.5 * made(x[:-1])[1].neuron.v[:, 0].detach()
    x.requires_grad_()
    _, last = made(x)
    assert not last.neuron.v[:, 0].any() and last.neuron.v[:, 1:].all()
    return torch.autograd.grad(last.neuron.v.sum(), [x, *made.parameters()])


def test_the_last_output_may_be_without_a_gradient(calls):
    wanted = gradient_where_the_last_output_is_not_looked_at("eager")
    assert not any(d.isnan().any() for d in wanted)
    assert_equal(gradient_where_the_last_output_is_not_looked_at("cpp"), wanted)
    assert len(calls) == 2


def test_a_sample_does_not_depend_on_the_others(calls):
    made = Recurrent(LIF(engine="cpp"), 70)
    x = torch.randn(30, 20, 70) * 2
    every = made(x)[0]
    for i in (0, 7, 19):
        assert torch.equal(made(x[:, i : i + 1])[0], every[:, i : i + 1])
    assert len(calls) == 4


def test_parts_of_a_sequence_give_what_the_whole_does(calls):
    made = layer(Leaky(0.9, engine="cpp"), 40)
    x = torch.randn(12, 4, 40, dtype=torch.float64)
    out, last = made(x)
    first, state = made(x[:5])
    second, state = made(x[5:], state)
    assert_equal([torch.cat([first, second]), *state.neuron, state.out], [out, *last.neuron, last.out])
    assert state.out.untyped_storage().nbytes() == state.out.numel() * 8  # it does not keep the whole sequence
    assert len(calls) == 3


def test_inputs_of_any_layout(calls):
    made = layer(LIF(), 6)
    dense = torch.randn(4, 5, 6, dtype=torch.float64) * 2
    inputs = [
        dense[:1].expand(4, 5, 6),
        dense.transpose(0, 1).contiguous().transpose(0, 1),
        dense.repeat(1, 1, 2)[..., ::2],
    ]
    for x in inputs:
        assert_equal(passed(with_engine(made, "cpp"), x), passed(with_engine(made, "eager"), x))
    made.weight.weight = nn.Parameter(made.weight.weight.detach().t().contiguous().t())
    assert_equal(passed(with_engine(made, "cpp"), dense), passed(with_engine(made, "eager"), dense))
    assert len(calls) == 4


def test_gradients_are_those_of_differences(calls):
    made = layer(LI(engine="cpp"), 3, scale=0.5, bias=True)  # a readout has no surrogate
    x = torch.randn(4, 2, 3, dtype=torch.float64, requires_grad=True)
    weight = made.weight.weight.detach().requires_grad_()

    def out(x, weight):
        return torch.func.functional_call(made, {"weight.weight": weight}, (x,))[0]

    assert torch.autograd.gradcheck(out, (x, weight))
    assert torch.autograd.gradgradcheck(out, (x, weight))
    assert calls


def test_second_derivatives_are_those_of_the_loop(calls):
    made = layer(ZOO["Leaky-learnable"](), bias=True)
    x = torch.randn(6, 3, FEATURES, dtype=torch.float64)
    results = []
    for name in ("eager", "cpp"):
        net, inputs = with_engine(made, name), x.clone().requires_grad_()
        (d_x,) = torch.autograd.grad(net(inputs)[0].square().sum(), inputs, create_graph=True)
        results.append([d_x, *torch.autograd.grad(d_x.square().sum(), (inputs, *net.parameters()))])
    assert_equal(*results)
    assert len(calls) == 1


def test_a_step_that_changed_before_a_second_derivative_is_refused():
    made = Recurrent(LIF(engine="cpp"), 4)
    x = torch.randn(6, 3, 4, requires_grad=True)
    out = made(x)[0].sum()
    made.neuron.tau = 3.0
    with pytest.raises(RuntimeError, match="LIF must stay as it was"):
        torch.autograd.grad(out, x, create_graph=True)


def test_the_output_may_be_changed_in_place_and_what_is_saved_may_come_back_from_elsewhere(calls):
    made = layer(LIF(engine="cpp"), 20)
    x = torch.randn(5, 4, 20, dtype=torch.float64)
    wanted = passed(with_engine(made, "eager"), x)
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: t.t() if t.dim() == 2 else t,
        lambda t: t.t() if t.dim() == 2 else t.transpose(0, 1).contiguous().transpose(0, 1) if t.dim() == 3 else t,
    ):
        assert_equal(passed(made, x), wanted)
    out, _ = made(x.requires_grad_())
    out.mul_(2.0)
    out.sum().backward()
    assert len(calls) == 2


def test_several_gradients_at_once(calls):
    made, x = layer(LIF(engine="cpp"), 20), torch.randn(5, 4, 20, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(3, 5, 4, 20, dtype=torch.float64)
    results = []
    for one in (made, with_engine(made, "eager")):
        out, _ = one(x)
        results.append(torch.autograd.grad(out, x, weights, is_grads_batched=True, retain_graph=True)[0])
        results.append(torch.func.vmap(lambda g, o=out: torch.autograd.grad(o, x, g, retain_graph=True)[0])(weights))
    for ours, expected in zip(results[:2], results[2:], strict=True):
        torch.testing.assert_close(ours, expected)
    assert len(calls) == 1


def test_a_single_step_in_single_precision(calls, monkeypatch):
    """The output of no step comes back: oneDNN refuses to multiply it."""
    has_onednn = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    monkeypatch.setattr(linear, "_onednn_is_faster", lambda: has_onednn)
    made, x = layer(LIF(), 20).float(), torch.randn(1, 4, 20)
    assert_equal(passed(with_engine(made, "cpp"), x), passed(with_engine(made, "eager"), x), 1e-5)
    assert len(calls) == 1


def test_weights_that_have_become_smaller_are_not_read():
    made, x = layer(LIF(engine="cpp"), 20), torch.randn(5, 4, 20, dtype=torch.float64, requires_grad=True)
    out, _ = made(x)
    made.weight.weight.data = torch.zeros(2, 20, dtype=torch.float64)
    with pytest.raises(RuntimeError, match=r"must have shape \[20, 20\], but it is \[2, 20\]"):
        out.sum().backward()


@pytest.mark.parametrize(
    "make", [lambda: Leaky(0.8125, engine="cpp"), lambda: Recurrent(Leaky(0.8125, engine="cpp"), 4)]
)
def test_a_default_device_is_not_where_kernels_write(make):
    """Tensors without values: a kernel that took one would end the process."""
    made, x, g = make(), torch.randn(5, 3, 4, requires_grad=True), torch.randn(5, 3, 4)
    for _ in range(2):
        with torch.device("meta"):
            out, _ = made(x)
            (d,) = torch.autograd.grad(out, x, g)
        expected, _ = made(x)
        assert torch.equal(out, expected)
        assert torch.equal(d, torch.autograd.grad(expected, x, g)[0])


LOOPS = {
    "a hook of the neuron": lambda made, x: (made.neuron.register_forward_hook(lambda *a: None), made(x))[1],
    "a hook of the weights": lambda made, x: (made.weight.register_forward_hook(lambda *a: a[2] * 2), made(x))[1],
    "pruned weights": lambda made, x: (prune.l1_unstructured(made.weight, "weight", 0.5), made(x))[1],
    "parametrized weights": lambda made, x: (parametrizations.weight_norm(made.weight), made(x))[1],
    "vmap": lambda made, x: torch.func.vmap(lambda x: made(x)[0], in_dims=1, out_dims=1)(x[:, :, None]),
    "jit.trace": lambda made, x: (
        made.requires_grad_(False),
        torch.jit.trace(lambda x: made(x)[0], x, check_trace=False)(x),
    )[1],
    "autocast": lambda made, x: torch.autocast("cpu", torch.bfloat16)(made)(x),
    "the states in between": lambda made, x: recorded(made, x),
    "an ablation": lambda made, x: ablated(made, x),
    "bfloat16": lambda made, x: made.bfloat16()(x.bfloat16()),
    "another forward": lambda made, x: (
        setattr(made.neuron, "forward", type(made.neuron).forward.__get__(made.neuron)),
        made(x),
    )[1],
}


def recorded(made, x):
    with recording(made, states=True) as record:
        made(x)
    (states,) = record.states.values()
    return states.v


def ablated(made, x):
    with ablate(made.neuron, torch.arange(6) < 2):
        return made(x)


@pytest.mark.parametrize("case", LOOPS)
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_what_needs_the_loop_gets_it(case, calls):
    made, x = Recurrent(LIF(), 6), torch.randn(8, 3, 6) * 2
    results = []
    for name in ("eager", "cpp"):
        found = LOOPS[case](with_engine(made, name), x)
        results.append(found if isinstance(found, torch.Tensor) else found[0])
    torch.testing.assert_close(*results)
    assert not calls


def test_other_connections_take_the_loop(calls):
    conv = Recurrent(LIF(engine="cpp"), connection=nn.Conv2d(2, 2, 3, padding=1))
    conv(torch.randn(5, 2, 2, 4, 4))
    assert not calls
    assert "torch.nn.Linear" in conv.whole_plan(torch.randn(5, 2, 2, 4, 4), None).reason


def test_numbers_that_are_not_finite_are_named(calls):
    x = torch.randn(5, 2, 4)
    made = Recurrent(LIF(engine="cpp"), 4)
    with pytest.raises(ValueError, match="x of LIF must be finite"):
        made(x.masked_fill(torch.arange(4) == 2, float("nan")))
    with torch.no_grad():
        made.weight.weight[1, 2] = float("inf")
    with pytest.raises(ValueError, match="finite"):
        made(x)
    assert len(calls) == 2


def test_a_state_that_does_not_fit_is_refused():
    made = Recurrent(LIF(engine="cpp"), 4)
    _, state = made(torch.zeros(3, 2, 4))
    with pytest.raises(ValueError, match=r"state.out of Recurrent has shape \[2, 3\]"):
        made(torch.zeros(3, 2, 4), state._replace(out=torch.zeros(2, 3)))
    with pytest.raises(ValueError, match=r"state.v of LIF has shape \[3, 4\]"):
        made(torch.zeros(3, 2, 4), state._replace(neuron=type(state.neuron)(torch.zeros(3, 4))))


def test_auto_takes_the_kernel_from_a_few_steps_on(calls):
    made = Recurrent(ZOO["CubaLIF-learnable"](), FEATURES)
    made(torch.randn(3, 2, FEATURES))
    assert not calls
    made(torch.randn(4, 2, FEATURES))
    assert len(calls) == 1


def test_explain_shows_the_layer_as_one():
    net = nn.Sequential(Recurrent(LIF(), 4))
    (row,) = engine.explain(net, torch.rand(5, 2, 4))
    assert (row.layer, row.neuron, row.shape, row.engine) == ("0", "Recurrent", (5, 2, 4), "cpp")
    assert "one call" in row.reason
    (row,) = engine.explain(Recurrent(LIF(engine="eager"), 4), torch.rand(5, 2, 4))
    assert (row.layer, row.neuron, row.shape, row.engine) == ("neuron", "LIF", (1, 2, 4), "eager")


def test_explain_shows_how_much_comes_back(calls):
    made, x = layer(LIF(), 20), torch.randn(30, 4, 20, dtype=torch.float64) * 2
    explained, out = engine.explain(nn.Sequential(made), x), made(x)[0]
    (product,) = explained.products
    assert (product.layer, product.shape, product.weight, product.way) == ("0.weight", (4, 20), (20, 20), "cpp")
    assert product.reason.startswith(f"{out[:-1].sum() / out.numel():.1%} of the outputs that come back are not 0")
    assert len(calls) == 2 and 0.05 < out.mean() < 0.95  # explain runs what a call runs


def test_explain_says_why_a_loop_runs():
    x, shared = torch.rand(5, 2, 4), LIF()
    (row,) = engine.explain(Recurrent(LIF(), connection=nn.Sequential(nn.Linear(4, 4))), x)
    assert row.layer == "neuron" and row.reason.startswith("its connection is no torch.nn.Linear, so the loop runs it")
    made = Recurrent(LIF(), 4)
    made.neuron.register_forward_hook(lambda *call: None)
    (row,) = engine.explain(made, x)
    assert (row.layer, row.engine) == ("neuron", "eager") and "has hooks, or is watched, so the loop" in row.reason
    rows = engine.explain(Sequential(Recurrent(shared, 4), shared), x)  # one neuron in two layers
    assert [(row.neuron, row.shape) for row in rows] == [("Recurrent", (5, 2, 4)), ("LIF", (5, 2, 4))]
    assert not shared._forward_pre_hooks
