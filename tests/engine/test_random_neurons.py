"""Neurons that no one would write: random equations, forward, backward and twice, in every engine beside eager.

A neuron is a few lines of Python text, made from a seed; a failure shows the text, and the seed makes it again.
RANDOM_NEURONS=10 in the environment runs ten times as many.
"""

import os
import random
import warnings
from collections import namedtuple

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from snnkit.engine import unroll
from snnkit.engine.program import is_exact
from snnkit.engine.trace import trace
from snnkit.neuron import Neuron, Recurrent, RecurrentState
from snnkit.surrogate import ATan, FastSigmoid, Sigmoid, Triangle

TIMES = int(os.environ.get("RANDOM_NEURONS", "1"))
SEED = 20_261

# IEEE 754 decides the result: every engine computes these equally to the bit.
EXACT = """{a} + {b} | {a} - {b} | {a} * {b} | {k} * {a} | {k} - {a} | -{a} | {a} / {k} | {a} * {a} | torch.abs({a})
{a} / {b} | 1 / {a} | torch.where({a} > {b}, {c}, {a}) | torch.where({a} >= 0, {b}, {k})
torch.clamp({a}, -2, 3) | torch.maximum({a}, {b}) + 1 | torch.minimum({a}, {b}) - 1 | torch.relu({a}) | {a}.detach()
({a} > {k}).to({a}.dtype) | spike({a} - {k}) | spike({a}) | {a}.masked_fill({b} > 1, 0.25) | torch.zeros(x.shape).to(x)
torch.sgn({a}) * {b} | (({a} > 0) > {k}).to({a}.dtype) | {a} / (1 + torch.abs({b}))"""
OTHER = """torch.sqrt(torch.abs({a})) | torch.sqrt({a} * {a} + 0.1)
torch.exp({a}) | torch.exp(-torch.abs({a})) | torch.log(torch.abs({a})) | torch.log1p(torch.abs({a}))
torch.tanh({a}) | torch.sigmoid({a}) | torch.sin(torch.clamp({a}, -99, 99))
torch.abs({a}) ** 0.5 | torch.rsqrt(1 + {a} * {a}) | {a} ** 3
torch.lerp({a}, {b}, 0.25) | torch.addcmul({a}, {b}, {c}) | torch.round({a}, decimals=1) + {a} | torch.erf({a})"""
STATES = """0.9 * {s} + 0.1 * torch.clamp({a}, -5, 5) | torch.clamp({a}, -10, 10) | {a} / (1 + torch.abs({a})) | {s}
{s} + 0.5 * (torch.clamp({a}, -3, 3) - {s}) | torch.where({a} > 1, 0.0, {s})
torch.clamp({s} + {a}, -4, 4) * (1 - spike({s} - 1))"""
SURROGATES = (ATan(), FastSigmoid(10.0), Sigmoid(), Triangle())


def templates(text):
    return [t.strip() for line in text.splitlines() for t in line.split(" | ")]


class Random:
    """One neuron, its input and its loss."""

    def __init__(self, seed):
        self.rng = rng = random.Random(seed)
        self.exact = rng.random() < 0.25
        self.states, self.parameters = rng.randint(1, 3), rng.randint(0, 2)
        self.text = self._text()
        self.dtype = torch.float32 if self.exact else torch.float64
        self.surrogate = rng.choice(SURROGATES)
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape):
            return torch.randn(shape, generator=generator, dtype=torch.float64)

        steps, batch, neurons = rng.choice((1, 2, 3, 5, 7, 9, 11)), rng.choice((1, 3)), rng.choice((1, 5, 7))
        x = normal(steps, batch, neurons) * 1.5
        x[torch.rand(x.shape, generator=generator) < 0.15] = 0.0
        extreme = rng.choice((None, None, None, "huge", "tiny"))
        if extreme:
            large, small = (1e12, 1e-40) if self.exact else (1e100, 1e-310)
            x[torch.rand(x.shape, generator=generator) < 0.2] *= large if extreme == "huge" else small
        self.x = self._laid_out(x.to(self.dtype))
        carried = rng.random() < 0.6
        self.state = [normal(batch, neurons).to(self.dtype) * carried for _ in range(self.states)]
        self.carried = carried
        shapes = ((neurons,), ()) if rng.random() < 0.5 else ((), (neurons,))
        self.tensors = [normal(*shape).to(self.dtype) for shape in shapes[: self.parameters]]
        # The first weight is of the output. None: the loss does not look at it.
        self.weights = [normal(steps, batch, neurons) if rng.random() < 0.8 else None]
        self.weights += [normal(batch, neurons) if rng.random() < 0.4 else None for _ in range(self.states)]
        if all(w is None for w in self.weights):
            self.weights[0] = normal(steps, batch, neurons)

    def _text(self):
        rng = self.rng
        names = ["x", *(f"s{i}" for i in range(self.states)), *(f"self.p{i}" for i in range(self.parameters))]
        values = names[:]
        lines = [f"def step(self, x, state):\n    {''.join(f's{i}, ' for i in range(self.states))}= state"]
        choices = templates(EXACT) + ([] if self.exact else templates(OTHER))

        def filled(template, **more):
            # Late values more often, so that equations become deep; a bare parameter has no shape.
            a = rng.choice([v for v in values[-4:] if "." not in v] or ["x"])
            return template.format(
                a=a, b=rng.choice(values), c=rng.choice(values), k=rng.choice((-1, 0.5, 1, 2, 3)), **more
            )

        for i in range(rng.randint(2, 9)):
            lines.append(f"    v{i} = {filled(rng.choice(choices))}")
            values.append(f"v{i}")
        kinds = templates(STATES) + ([] if self.exact else ["torch.sqrt(torch.abs({a}))"] * 2)
        results = [filled(rng.choice(kinds), s=rng.choice(names[1 : 1 + self.states])) for _ in range(self.states)]
        full = [v for v in values if "." not in v]
        out = f"{rng.choice(full[-3:])} * 1.0"
        if rng.random() < 0.25:  # as a readout
            lines.append(f"    v = {results[0]} + 0.5 * {rng.choice(full)}")
            out, results[0] = "v", "v"
        lines.append(f"    return {out}, ({', '.join(results)},)")
        return "\n".join(lines)

    def _laid_out(self, x):
        kind = self.rng.choice(("plain", "plain", "every-second", "batch-first", "static"))
        if kind == "every-second":
            return torch.stack([x, x + 1], -1).flatten(-2)[..., ::2]
        if kind == "batch-first":
            return x.transpose(0, 1).contiguous().transpose(0, 1)
        return x[:1].expand(x.shape) if kind == "static" else x

    def module(self):
        namespace = {"torch": torch, "spike": self.surrogate}
        exec(self.text, namespace)
        module = type("Invented", (nn.Module,), {"step": namespace["step"]})()
        for i, tensor in enumerate(self.tensors):
            module.register_parameter(f"p{i}", nn.Parameter(tensor.clone()))
        return module

    def run(self, engine, twice=False):
        """Output, last state, and gradients, or the error, of a second call, which is equal to the first."""
        module = self.module()
        first, second = self.call(module, engine, twice), self.call(module, engine, twice)
        for a, b in zip((*first[0], *first[1]), (*second[0], *second[1]), strict=True):
            assert a == b if isinstance(a, str) else torch.equal(a.nan_to_num(7.0), b.nan_to_num(7.0))
        return second

    def call(self, module, engine, twice):
        x = self.x.detach().requires_grad_()
        state = [s.clone().requires_grad_(self.carried) for s in self.state]
        try:
            out, last = unroll(module, x, tuple(state), engine=engine)
        except ValueError as error:
            return [str(error).partition(" is not finite")[0].partition(" must be finite")[0]], []
        inputs = [x, *(state if self.carried else ()), *module.parameters()]
        loss = sum((r * w.to(r)).sum() for r, w in zip((out, *last), self.weights, strict=True) if w is not None)
        if not loss.requires_grad:
            return [out.detach(), *last], []
        gradients = torch.autograd.grad(loss, inputs, allow_unused=True, create_graph=twice)
        if twice:
            again = sum(g.square().sum() for g in gradients if g is not None and g.requires_grad)
            if isinstance(again, torch.Tensor):
                gradients = torch.autograd.grad(again, inputs, allow_unused=True)
        zeros = [torch.zeros_like(i) if g is None else g for i, g in zip(inputs, gradients, strict=True)]
        return [out.detach(), *(part.detach() for part in last)], zeros

    def compare(self, engine, twice=False):
        """Whether there was anything to compare; raises where the engine is not equal to eager."""
        (expected, d_expected), (found, d_found) = self.run("eager", twice), self.run(engine, twice)
        if isinstance(expected[0], str):
            assert found == expected
            return False
        for a, b in zip(found, expected, strict=True):
            self.same(a, b, 0 if self.exact else 1e-9)
        assert len(d_found) in (0, len(d_expected)) or not d_expected
        for a, b in zip(d_found, d_expected, strict=len(d_expected) > 0):
            self.same(a, b, 1e-3 if self.exact else 1e-6)
            if engine == "cpp" and not twice and self.is_exact():
                assert torch.equal(a.nan_to_num(7.0), b.nan_to_num(7.0))
        return bool(d_expected)

    def is_exact(self):
        """Whether the engine promises the gradients of eager to the bit: of x, its sum over time has another order."""
        if self.x.stride(0) == 0 and len(self.x) > 1:
            return False
        like = tuple(torch.zeros_like(s[0]) for s in self.state)
        equation = trace(self.module(), like, [f"p{i}" for i in range(self.parameters)], self.dtype, self.x.device)
        return is_exact(equation)

    def compare_captured(self):
        """As ``compare``, for what ``make_fx`` and ``torch.jit.trace`` record of the C++ engine's forward pass."""
        module, x, rubbish = self.module().requires_grad_(False), self.x.detach(), []

        def run(x, *state):
            out, last = unroll(module, x, state, engine="cpp")
            return (out, *last)

        try:
            others = [(x / 2, *self.state), (x, *self.state)]
            with torch.no_grad():
                expected = [run(*other) for other in others]
        except ValueError:
            return False
        with torch.no_grad():
            for captured in (make_fx(run)(x, *self.state), torch.jit.trace(run, (x, *self.state), check_trace=False)):
                for other, wanted in zip(others, expected, strict=True):
                    rubbish = [torch.full_like(part, 7.0) for part in wanted]
                    rubbish.clear()
                    for a, b in zip(captured(*other), wanted, strict=True):
                        self.same(a, b, 0 if self.exact else 1e-9)
        return True

    def compare_recurrent(self, compiled):
        """As ``compare`` in float64, for a layer whose neurons hear each other: its kernel beside its loop."""
        x, results = self.x.detach().double().clamp(-1e3, 1e3), []
        weight = torch.randn(x.shape[2], x.shape[2], dtype=x.dtype, generator=torch.Generator().manual_seed(1))
        for engine in ("eager", compiled):
            made = Recurrent(Layered(self.module().double(), self.states, engine), x.shape[2], bias=True).double()
            made.weight.weight.data, made.weight.bias.data = 0.3 * weight, weight[0]
            inputs = x.clone().requires_grad_()
            state = made.neuron.State(*(s.double() for s in self.state))
            try:
                out, last = made(inputs, RecurrentState(state, weight[:1].expand(x.shape[1:])))
            except ValueError:
                return False
            loss = sum(w.mul(r).sum() for r, w in zip((out, *last.neuron), self.weights, strict=True) if w is not None)
            if not loss.requires_grad and engine == "eager":
                return False
            gradients = torch.autograd.grad(loss, (inputs, *made.parameters()), materialize_grads=True)
            results.append([out.detach(), *last.neuron, *gradients])
            assert engine == "eager" or made.whole_plan(x, state).engine == compiled
        for wanted, found in zip(*results, strict=True):
            self.same(found, wanted, 1e-6, 1e-6)  # sums in another order, of which all may cancel
        return True

    @staticmethod
    def same(a, b, tolerance, least=1e-30):
        # Each neuron in its own proportion: one that explodes must not excuse the others.
        finite = torch.where(b.isfinite(), b, 0).abs()
        size = finite.amax(0, keepdim=True) if b.dim() > 1 else finite
        close = (a == b) | ((a - b).abs() <= tolerance * torch.maximum(size, torch.full_like(size, least)))
        wrong = ~(close | (a.isnan() & b.isnan()))
        assert not wrong.any(), f"{a[wrong][:5].tolist()} where eager has {b[wrong][:5].tolist()}"


class Layered(Neuron):
    """A module with a step as a neuron of the catalogue."""

    def __init__(self, module, states, engine):
        super().__init__(engine=engine)
        self.module = module
        self.State = namedtuple("State", [f"s{i}" for i in range(states)])

    def initial_state(self, x):
        return self.State(*(torch.zeros_like(x) for _ in self.State._fields))

    def step(self, x, state):
        out, state = self.module.step(x, tuple(state))
        return out, self.State(*state)


def check(engine, count, first=SEED, every_twice=7):
    compared = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # a fallback would compare eager with itself
        warnings.filterwarnings("ignore", message=".*(encountered|script_method).*")
        for seed in range(first, first + count):
            one = Random(seed)
            try:
                compared += one.compare(engine, twice=seed % every_twice == 0)
            except Exception as error:
                raise AssertionError(f"seed {seed}, {one.dtype}, engine {engine!r}:\n{one.text}\n{error}") from error
    print(f"{compared} of {count} random neurons had gradients to compare, from seed {first} on")
    assert compared > count / 3


@pytest.mark.parametrize(("engine", "count"), [("cpp", 4), ("triton", 8)])
def test_random_neurons(engine, count, monkeypatch, first=SEED, times=1):
    if engine == "triton":
        pytest.importorskip("triton", reason="Triton is not installed: it is made for Linux")
        monkeypatch.setenv("TRITON_INTERPRET", "1")
    check(engine, count * times, first)


@pytest.mark.parametrize("count", [4, pytest.param(10, marks=pytest.mark.slow)])
@pytest.mark.filterwarnings(
    "ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning", "ignore:.*runs in the eager"
)
def test_random_neurons_in_captures(count):
    compared = 0
    for seed in range(SEED + 2000, SEED + 2000 + count * (TIMES if count > 4 else 1)):
        one = Random(seed)
        try:
            compared += one.compare_captured()
        except Exception as error:
            raise AssertionError(f"seed {seed}, {one.dtype}:\n{one.text}\n{error}") from error
    assert compared > count / 3


@pytest.mark.parametrize("count", [4, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("engine", ["cpp", "triton"])
@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
def test_random_neurons_in_recurrent_layers(engine, count, monkeypatch):
    if engine == "triton":
        pytest.importorskip("triton", reason="Triton is not installed: it is made for Linux")
        monkeypatch.setenv("TRITON_INTERPRET", "1")
    compared = 0
    for seed in range(SEED + 3000, SEED + 3000 + count * (TIMES if count > 4 else 1)):
        one = Random(seed)
        try:
            compared += one.compare_recurrent(engine)
        except Exception as error:
            raise AssertionError(f"seed {seed}:\n{one.text}\n{error}") from error
    assert compared >= count / 4


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "count"), [("cpp", 15), ("block", 4), ("triton", 20)])
def test_many_random_neurons(engine, count, monkeypatch):
    test_random_neurons(engine, count, monkeypatch, SEED + 1000, TIMES)
