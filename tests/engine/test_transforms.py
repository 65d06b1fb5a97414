"""Compiled engines under what else PyTorch does to functions: torch.func, checkpointing, data parallelism."""

import warnings

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from snnkit.neuron import LIF, PLIF, CubaLIF, MembraneState

from .test_compiled import Smooth
from .zoo import drive

pytestmark = pytest.mark.usefixtures("plain_blocks")


@pytest.fixture(params=["block", "cpp"])
def compiled(request):
    return request.param


@pytest.fixture(autouse=True)
def no_fallback():
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*runs in the .* engine", category=UserWarning)
        yield


def both(compiled, make, function):
    """What ``function`` gives for the neuron in the eager and in a compiled engine; equal on return."""
    reference = make(engine="eager").double()
    neuron = make(engine=compiled).double()
    expected, found = function(reference), function(neuron)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
    return found


def test_vmap_over_samples(compiled):
    x = drive(LIF(), 9, 4, 3)
    for dim in (1, 2):
        spikes = both(compiled, LIF, lambda n, dim=dim: torch.vmap(lambda one: n(one)[0], dim, dim)(x))
        assert 0 < spikes.mean() < 1
    batch_first = drive(LIF(), 5, 9, 4, 3)
    both(compiled, LIF, lambda n: torch.vmap(lambda one: n(one)[0])(batch_first))


def test_vmap_over_states_and_nested(compiled):
    x = drive(LIF(), 9, 4, 3)
    v = torch.rand(6, 4, 3, dtype=torch.float64)
    both(compiled, LIF, lambda n: torch.vmap(lambda v: n(x, MembraneState(v)))(v))
    many = drive(LIF(), 2, 5, 9, 4, 3)
    both(compiled, LIF, lambda n: torch.vmap(torch.vmap(lambda one: n(one)[0]))(many))


def parameters_of(neuron):
    return {name: p.detach() for name, p in neuron.named_parameters()}


@pytest.mark.parametrize("shape", [(), (3,)])
def test_vmap_over_an_ensemble_of_parameters(compiled, shape):
    x = drive(LIF(), 9, 4, 3)
    w = torch.linspace(-1, 1, 5, dtype=torch.float64).reshape(5, *(1 for _ in shape)).expand(5, *shape)

    def run(neuron):
        return torch.vmap(lambda w: torch.func.functional_call(neuron, {"w": w}, (x,))[0])(w)

    spikes = both(compiled, lambda **k: PLIF(shape=shape, **k), run)
    assert len({row.sum().item() for row in spikes}) > 1


@pytest.mark.parametrize("shape", [(), (3,)])
def test_gradients_of_each_sample(compiled, shape):
    x = drive(LIF(), 9, 4, 3)
    weight = torch.rand(9, 3, dtype=torch.float64)

    def run(neuron):
        def loss(parameters, one):
            out, state = torch.func.functional_call(neuron, parameters, (one[:, None],))
            return (out[:, 0] * weight).sum() + state.v.sum()

        of_each = torch.vmap(torch.func.grad(loss, argnums=(0, 1)), in_dims=(None, 1))
        return of_each(parameters_of(neuron), x)

    gradients, _ = both(compiled, lambda **k: PLIF(shape=shape, **k), run)
    assert gradients["w"].shape == (4, *shape)


def test_jacobians(compiled):
    x = drive(CubaLIF(), 5, 1, 2)

    def run(neuron):
        return torch.func.jacrev(lambda x: neuron(x)[1].v)(x)

    assert both(compiled, CubaLIF, run).abs().sum() > 0


def test_grad_alone_and_static_input(compiled):
    x = drive(LIF(), 4, 3)
    both(compiled, LIF, lambda n: torch.func.grad(lambda x: n(x.expand(7, 4, 3))[0].sum())(x))


@pytest.mark.filterwarnings("ignore:.*runs in the eager engine")
def test_what_compiled_engines_do_not_have_runs_in_eager(compiled):
    x = drive(LIF(), 5, 1, 2)
    warnings.filterwarnings("ignore", message=".*derivatives run step by step", category=UserWarning)

    def make(**keywords):
        return LIF(surrogate=Smooth(), **keywords)

    def loss(neuron):
        return lambda x: (neuron(x)[0] ** 2).sum()

    both(compiled, make, lambda n: torch.func.jvp(loss(n), (x,), (torch.ones_like(x),)))
    both(compiled, make, lambda n: torch.func.hessian(loss(n))(x))
    both(compiled, make, lambda n: torch.func.jacrev(torch.func.grad(loss(n)))(x))


@pytest.mark.parametrize("reentrant", [False, True])
def test_activation_checkpointing(compiled, reentrant):
    x = drive(PLIF(), 9, 4, 3).requires_grad_()

    def run(neuron):
        out, state = checkpoint(neuron, x, use_reentrant=reentrant)
        return torch.autograd.grad((out * 0.7).sum() + state.v.sum(), [x, neuron.w]) if not reentrant else _leaf(out)

    def _leaf(out):
        x.grad = None
        out.sum().backward()
        return x.grad.clone()

    both(compiled, PLIF, run)


def test_only_wanted_gradients_are_made(compiled):
    x = drive(PLIF(), 9, 4, 3)
    both(compiled, PLIF, lambda n: torch.autograd.grad(n(x)[0].sum(), n.w))
    moving = x.clone().requires_grad_()
    both(compiled, PLIF, lambda n: torch.autograd.grad(n.requires_grad_(False)(moving)[0].sum(), moving))


@pytest.mark.parametrize("grad", [True, False])
def test_what_vjp_returns_is_called_when_its_transform_has_ended(grad):
    x, results = torch.rand(4, 2, 5, dtype=torch.float64) * 3, []
    for engine in ("eager", "cpp"):
        neuron = LIF(engine=engine)
        with torch.set_grad_enabled(grad):
            out, back = torch.func.vjp(lambda x, neuron=neuron: neuron(x)[0], x)
            results.append((out, *back(torch.ones_like(out))))
    for ours, wanted in zip(*reversed(results), strict=True):
        torch.testing.assert_close(ours, wanted)


def test_a_state_of_inference_mode_is_continued_in_training():
    x, gradients = torch.rand(4, 2, 5), []
    for engine in ("eager", "cpp"):
        with torch.inference_mode():
            _, state = LIF(engine=engine)(x)
        leaf = x.clone().requires_grad_()
        LIF(engine=engine)(leaf, state)[0].sum().backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(*gradients)
