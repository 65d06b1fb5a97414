"""Neurons as JavaScript beside the eager engine: equal to the bit where IEEE 754 decides."""

import pytest
import torch

from snnkit.engine import NotElementwise, Untranslatable, equation_of, js
from snnkit.engine.memory_gate import tensors_of
from snnkit.engine.program import is_exact, late_term
from snnkit.neuron import LIF, MembraneState, Neuron
from snnkit.surrogate import ATan

from . import javascript
from .test_random_neurons import Random
from .zoo import FEATURES, ZOO, drive, results

STEPS, BATCH = 40, 3
N = BATCH * FEATURES


def case(neuron, seed, adjustable=False):
    torch.manual_seed(seed)
    x = drive(neuron, STEPS, BATCH, FEATURES, dtype=torch.float32)
    rest = neuron.initial_state(torch.zeros(N))
    weight = torch.randn(x.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    tensors = tensors_of(js._Adjustable(neuron) if adjustable else neuron).values()
    state = [part + 0.1 for part in rest]
    return x, [STEPS, N, x, state, [p.flatten() for p in tensors], weight, [torch.full((N,), 0.3)] * len(rest)]


def compare(neuron, x, yours, exact):
    """``yours``: what JavaScript made of the case of ``neuron`` and ``x``."""
    out, last, gradients = results(neuron, x, "eager")
    count = len(last)
    pairs = [*zip([out, *last], [*yours[0], *yours[1]], strict=True)]
    pairs += [*zip(gradients[: 1 + count], [*yours[2], *yours[3]], strict=True)]
    for right, mine in pairs:
        if exact:
            assert torch.equal(right.flatten(), mine)
        else:
            torch.testing.assert_close(mine, right.flatten(), rtol=2e-5, atol=2e-5 * float(right.abs().max()))
    learnable = [mine for p, mine in zip(tensors_of(neuron).values(), yours[4], strict=False) if p.requires_grad]
    for right, mine in zip(gradients[1 + count :], learnable, strict=True):
        torch.testing.assert_close(mine, right.flatten(), rtol=1e-4, atol=1e-5 * float(right.abs().max()))


def check_zoo(run):
    """Every neuron in ``run``, which takes the texts of neurons and their cases."""
    neurons = {name: make() for name, make in ZOO.items()}
    cases = [case(neuron, seed) for seed, neuron in enumerate(neurons.values())]
    found = run([js.source(neuron) for neuron in neurons.values()], [c for _, c in cases])
    for (name, neuron), (x, _), yours in zip(neurons.items(), cases, found, strict=True):
        equation = equation_of(neuron, neuron.initial_state(torch.zeros(3)), torch.float32, torch.device("cpu"))
        try:
            late = late_term(equation)  # of which JavaScript's steps know nothing
            compare(neuron, x, yours, exact=is_exact(equation) and not (late and late.terms))
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None


def test_every_neuron_as_eager():
    check_zoo(javascript.node)


def test_an_adjustable_neuron_is_the_same_and_names_its_numbers():
    neurons = [ZOO[name]() for name in ("IF-soft", "LIF-rest", "Leaky-zero-now", "CubaLIF", "ALIF", "Izhikevich")]
    cases = [case(neuron, seed, adjustable=True) for seed, neuron in enumerate(neurons)]
    found = javascript.node([js.source(n, adjustable=True) for n in neurons], [c for _, c in cases])
    for neuron, (x, _), yours in zip(neurons, cases, found, strict=True):
        compare(neuron, x, yours, exact=False)
    text = js.source(LIF(3.0), adjustable=True)
    assert 'parameters: ["v_threshold", "v_reset", "tau", "surrogate.alpha"]' in text
    assert "values: [[1.0], [0.0], [3.0], [2.0]]" in text


class Drawn(Neuron):
    """A neuron of the random grammar."""

    def __init__(self, drawn):
        super().__init__(engine="eager")
        module = drawn.module()
        self.drawn, self.states = type(module).step, drawn.states
        for name, parameter in module.named_parameters():
            self.register_parameter(name, parameter)

    def initial_state(self, x):
        return (torch.zeros_like(x),) * self.states

    def step(self, x, state):
        return self.drawn(self, x, state)


def test_random_neurons_as_eager():
    """Neurons of the random grammar whose results IEEE 754 decides; a gradient that is absent is no zero."""
    drawn = [one for seed in range(4000, 4400) if (one := Random(seed)).exact][:60]
    sources, cases, right, texts = [], [], [], []
    for one in drawn:
        neuron, x = Drawn(one), one.x.detach().contiguous().requires_grad_()
        state = [part.clone().requires_grad_() for part in one.state]
        try:
            out, last = neuron(x, tuple(state))
        except ValueError:  # it diverges
            continue
        given = [torch.zeros_like(a) if w is None else w for w, a in zip(one.weights, (out, *last), strict=True)]
        # The output always has a gradient there.
        wanted = [True, *(w is not None for w in one.weights[1:])]
        every = zip((out, *last), given, wanted, strict=True)
        pairs = [(result, weight) for result, weight, wants in every if result.requires_grad and wants]
        if pairs:
            loss = torch.stack([(a * b).sum() for a, b in pairs]).sum()
            gradients = torch.autograd.grad(loss, [x, *state], allow_unused=True, materialize_grads=True)
        else:
            gradients = [torch.zeros_like(part) for part in (x, *state)]
        right.append([part.detach().flatten() for part in (out, *last, *gradients)])
        tensors = [p.expand(x.shape[1:]) if p.numel() > 1 else p for p in tensors_of(neuron).values()]
        cases.append([len(x), x[0].numel(), x, one.state, tensors, given[0], given[1:]])
        sources.append(js.source(neuron))
        texts.append(one.text)
    for text, mine, eager in zip(texts, javascript.node(sources, cases), right, strict=True):
        for a, b in zip([*mine[0], *mine[1], *mine[2], *mine[3]], eager, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-30, equal_nan=True, msg=text)


class Rounds(Neuron):
    """Operations of which JavaScript has none, or another."""

    def __init__(self):
        super().__init__(surrogate=ATan())

    def step(self, x, state):
        a, b = x, state.v
        out = torch.round(4 * a) + torch.remainder(a, -0.75) + torch.fmod(a, 0.75) + torch.floor(a)
        out = out + torch.div(a, 0.1, rounding_mode="floor") + torch.div(a, 0.3, rounding_mode="trunc") + torch.frac(a)
        out = out + torch.copysign(b, a) + torch.sign(a) + torch.where(torch.isnan(a / a), 1.0, 2.0)
        return out, MembraneState(
            torch.erf(a) + torch.erfc(2 * a) + torch.tanh(b) + torch.sigmoid(a) + torch.atan2(a, b)
        )


def test_operations_that_javascript_does_not_have():
    neuron, x = Rounds(), torch.linspace(-4.0625, 4.0625, 131).view(131, 1, 1)
    x = torch.cat([x, torch.tensor([0.0, -0.0, 0.125, -0.375, 7.5, -12.0]).view(-1, 1, 1)])
    (mine,) = javascript.node([js.source(neuron, backward=False)], [[len(x), 1, x, [torch.zeros(1)], [], x, []]])
    out, last = neuron(x, neuron.initial_state(x[0]))
    torch.testing.assert_close(mine[0][0], out.flatten(), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(mine[1][0], last.v.flatten(), rtol=1e-6, atol=1e-6)


class Mixed(Neuron):
    def step(self, x, state):
        return x.flip(-1), state


class Gamma(Neuron):
    def step(self, x, state):
        return torch.lgamma(x), state


def test_what_can_not_be_written_is_refused():
    with pytest.raises(NotElementwise, match="may mix neurons"):
        js.source(Mixed())
    with pytest.raises(Untranslatable, match="there is no expression for lgamma"):
        js.source(Gamma())
    with pytest.raises(Untranslatable, match="its neurons rest at different v, and JavaScript has one value for all"):
        js.source(LIF(v_reset=torch.tensor([-0.5, 0.0, 0.25, 0.5])))
