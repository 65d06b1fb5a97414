"""Second calls of a form, which only call the kernel: equal to first ones, however autograd and users treat them."""

import gc
import weakref
from contextlib import nullcontext

import pytest
import torch
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

from snnkit.engine import autograd, cpp, memory_gate, plan, warm
from snnkit.engine.observe import observed
from snnkit.neuron import LIF, Leaky, LeakyState, Recurrent


@pytest.fixture
def runs(monkeypatch):
    """How many passes went without ``autograd.run``."""
    count = []
    run = warm.Warm.run
    monkeypatch.setattr(warm.Warm, "run", lambda self, given: count.append(1) or run(self, given))
    return count


def sequence(*shape, seed=0, **options):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)).to(**options).mul_(2)


def call(layer, x, state=None, weigh=lambda out, last: (out * out.detach().cumsum(0)).sum() + last[0].square().sum()):
    """Results and gradients."""
    x = x.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    if state is not None:
        state = type(state)(*(part.detach().clone().requires_grad_() for part in state))
    out, last = layer(x, state)
    return [out, *last, *torch.autograd.grad(weigh(out, last), [x, *(state or ())], materialize_grads=True)]


def equal(first, second):
    assert len(first) == len(second) and all(map(torch.equal, first, second))


@pytest.mark.parametrize("with_state", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_second_calls_equal_first_ones(dtype, with_state, runs):
    layer, state = LIF(5.0, engine="cpp"), None
    if with_state:
        state = LIF.State(sequence(3, 7, seed=1, dtype=torch.float64 if dtype == torch.float64 else torch.float32))
    x = sequence(6, 3, 7, dtype=dtype)
    first = call(layer, x, state)
    assert not runs
    equal(first, call(layer, x, state))
    assert len(runs) == 1
    with torch.no_grad():
        out, last = layer(x, state)
        equal([out, *last], [part.detach() for part in first[: 1 + len(last)]])
        again, end = layer(x, state)
        equal([again, *end], [out, *last])
    assert len(runs) == 2
    other = sequence(6, 3, 7, seed=5, dtype=dtype)
    eager = LIF(5.0, engine="eager")
    for a, b in zip(call(layer, other, state), call(eager, other, state), strict=True):
        torch.testing.assert_close(a, b)
    assert len(runs) == 3


def test_gradients_of_every_kind_of_loss(runs):
    layer, eager, x = Leaky(0.9, engine="cpp"), Leaky(0.9, engine="eager"), sequence(6, 3, 7)
    weight = sequence(6, 7, 3, seed=3)
    losses = (
        lambda out, last: out.sum(),
        lambda out, last: (out.transpose(1, 2) * weight).sum(),
        lambda out, last: out[::2].square().sum() + last[0].t().cumsum(0).square().sum(),
        lambda out, last: last[0].sum(),
        lambda out, last: (last[0][:, ::2] * 3).sum(),
        lambda out, last: torch.view_as_complex(torch.stack((last[0], out[0]), -1)).conj().imag.sum(),
    )
    state = LeakyState(sequence(3, 7, seed=2))
    for loss in losses:
        for given in (None, state):
            expected = call(eager, x, given, loss)
            for _ in range(3):
                for a, b in zip(call(layer, x, given, loss), expected, strict=True):
                    torch.testing.assert_close(a, b)
    assert len(runs) >= 4 * len(losses)


def test_second_derivatives_hooks_and_batches_of_gradients(runs):
    layer, eager = Leaky(0.9, engine="cpp"), Leaky(0.9, engine="eager")
    x = sequence(6, 3, 7).requires_grad_()
    weights = sequence(4, 6, 3, 7, seed=3)

    def twice(layer):
        (d,) = torch.autograd.grad((layer(x)[0] * weights[0]).sum(), x, create_graph=True)
        return torch.autograd.grad(d.square().sum(), x)[0]

    def saved(layer, pack, unpack):
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            out, _ = layer(x)
        return torch.autograd.grad(out, x, weights[0])[0]

    def batch(layer):
        return torch.autograd.grad(layer(x)[0], x, weights, is_grads_batched=True)[0]

    def subclass(t):
        return t.as_subclass(type("Mine", (torch.Tensor,), {}))

    ways = (
        twice,
        lambda layer: saved(layer, lambda t: t.double(), lambda t: t),
        lambda layer: saved(layer, lambda t: t.mT.contiguous().mT, lambda t: t),
        lambda layer: saved(layer, subclass, lambda t: t),
        batch,
        lambda layer: torch.func.grad(lambda x: (layer(x)[0] * weights[0]).sum())(x.detach()),
    )
    for way in ways:
        expected = way(eager)
        for _ in range(3):
            torch.testing.assert_close(way(layer), expected)
    assert len(runs) >= 2 * 5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_one_step_that_is_repeated(dtype, runs):
    layer, eager, x = LIF(5.0, engine="cpp"), LIF(5.0, engine="eager"), sequence(3, 7, dtype=dtype).requires_grad_()
    weight, state = sequence(6, 3, 7, seed=3), LIF.State(sequence(3, 7, seed=2).requires_grad_())

    def results(layer, state, **options):
        out, last = layer(x, state, repeat=6, **options)
        return [out, *last, *torch.autograd.grad((out * weight).sum(), [x, *(state or ())])]

    for given in (None, state):
        expected = results(eager, given)
        for _ in range(3):
            for a, b in zip(results(layer, given), expected, strict=True):
                torch.testing.assert_close(a, b)
        with torch.no_grad():
            assert torch.equal(layer(x, given, repeat=6)[0], expected[0])
    assert len(runs) == 4
    same = layer(x.expand(6, 3, 7), None)[0]  # whose gradient is not summed by the kernel
    assert torch.equal(
        torch.autograd.grad(same, x, weight.to(dtype))[0],
        torch.autograd.grad(layer(x.expand(6, 3, 7), None)[0], x, weight.to(dtype))[0],
    )


def test_numbers_that_change_and_values_that_are_wrong_are_seen_at_every_call(runs):
    layer, x = Leaky(0.9, engine="cpp"), sequence(6, 3, 7)
    before = [layer(x)[0] for _ in range(3)][-1]
    assert len(runs) == 2
    layer.beta = 0.1
    assert not torch.equal(layer(x)[0], before)
    layer.beta = 0.9
    assert torch.equal(layer(x)[0], before)
    bad = x.clone()
    bad[2, 1, 3] = float("nan")
    for _ in range(3):
        with pytest.raises(ValueError, match=r"x of Leaky must be finite, but x\[2, 1, 3\] is nan"):
            layer(bad)
    freed = sequence(6, 3, 7)
    freed.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="must have memory"):
        layer(freed)
    with torch.inference_mode():
        assert torch.equal(layer(x)[0], before)
    assert torch.equal(layer(x.requires_grad_())[0], before)
    assert layer(x)[0].requires_grad and not layer(x.detach())[0].requires_grad


def test_what_was_saved_may_not_change_or_go(runs):
    layer, x = Leaky(0.9, engine="cpp"), sequence(6, 3, 7).requires_grad_()
    for way in (lambda t: t.mul_(2), lambda t: t.set_(torch.empty(0))):
        for _ in range(2):
            inner = x * 1.0
            out, _ = layer(inner)
            with torch.no_grad():
                way(inner)
            with pytest.raises(RuntimeError):
                out.sum().backward()
    assert len(runs) == 3


def test_nothing_of_a_layer_or_of_its_input_is_held():
    layer, x = Leaky(0.9, engine="cpp"), sequence(6, 3, 7).requires_grad_()
    for _ in range(3):
        layer(x)[0].sum().backward()
    held = [weakref.ref(layer), weakref.ref(x)]
    del layer, x
    gc.collect()
    assert [ref() for ref in held] == [None, None]


def test_forms_are_limited(monkeypatch, runs):
    monkeypatch.setattr(warm, "_MOST_FORMS", 1)
    layer, x = Leaky(0.9, engine="cpp"), sequence(6, 3, 7)
    for _ in range(2):
        layer(x)
        layer(x.requires_grad_())
        x.requires_grad_(False)
    assert len(runs) == 1
    assert all(len(one.warm or ()) <= 1 for one in plan._known[layer].calls.values())


def test_a_tensor_of_another_kind_is_another_call(runs):
    """An imaginary part of a conjugate has its sign elsewhere than in its memory."""
    layer, x = Leaky(0.9, engine="cpp"), sequence(6, 3, 7)
    imaginary = torch.view_as_complex(torch.stack((x, -x), -1)).conj().imag
    x = imaginary.resolve_neg().as_strided(x.shape, x.stride()).contiguous()
    same = torch.empty_strided(imaginary.shape, imaginary.stride()).copy_(x)
    expected = [layer(same)[0] for _ in range(3)][-1]
    assert torch.equal(layer(imaginary)[0], expected) and memory_gate.keys_of(imaginary) != memory_gate.keys_of(same)


@pytest.mark.parametrize("before", [0, 2])
def test_activation_checkpointing_may_compare_a_first_call_with_a_second_one(before):
    """It counts what is saved, in the forward pass and when backward runs it again."""
    layer, x = Leaky(0.9, engine="cpp"), sequence(6, 3, 7).requires_grad_()
    for _ in range(before):
        layer(x)
    for context in (nullcontext(), observed(lambda seen: None)):
        with context:  # one that has ended when backward runs
            out = checkpoint(lambda x: layer(x)[0], x, use_reentrant=False)
        (d,) = torch.autograd.grad(out.sum(), x)
        assert torch.equal(d, torch.autograd.grad(layer(x)[0].sum(), x)[0])


def test_saved_tensors_that_have_become_smaller_are_not_read():
    layer, x = Leaky(0.9, engine="cpp"), sequence(6, 3, 7).requires_grad_()
    for _ in range(3):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t[:1]):
            out, _ = layer(x, LeakyState(sequence(3, 7, seed=2)))
        with pytest.raises(RuntimeError, match=r"must have shape \[6, 3, 7\], but it is \[1, 3, 7\]"):
            out.sum().backward()
        state = sequence(3, 7, seed=2).requires_grad_()
        out, _ = layer(x, LeakyState(state))
        state.data = sequence(1, 7)
        with pytest.raises(RuntimeError, match=r"must have shape \[3, 7\], but it is \[1, 7\]"):
            out.sum().backward()
        state = sequence(3, 7, seed=2)
        out, _ = layer(x, LeakyState(state))
        state.untyped_storage().resize_(0)
        with pytest.raises(RuntimeError, match="the memory of one was freed"):
            out.sum().backward()


def test_backward_has_the_threads_of_now(monkeypatch):
    """A forked child has one, and would wait for others forever."""
    layer, x, used, run = Leaky(0.9, engine="cpp"), sequence(8, 2, 4096).requires_grad_(), [], cpp.Launch.__call__
    before = torch.get_num_threads()
    monkeypatch.setattr(cpp.Launch, "__call__", lambda self, *t: used.append(self.threads) or run(self, *t))
    try:
        for _ in range(3):
            for threads in (2, 1):
                torch.set_num_threads(2)
                out = layer(x)[0].sum()
                torch.set_num_threads(threads)
                out.backward()
                assert used == [2, threads]
                used.clear()
    finally:
        torch.set_num_threads(before)


def test_no_step_of_zeros_is_held_for_each_form():
    autograd._zero_step.cache_clear()
    layer = Leaky(0.9, engine="cpp")
    for steps in range(2, 6):
        for _ in range(2):
            with torch.no_grad():
                layer(sequence(steps, 3, 7))
            layer(sequence(steps, 3, 7).requires_grad_())[0].sum().backward()
    assert autograd._zero_step.cache_info().currsize == 0
    for steps in range(2, 6):
        for _ in range(2):
            layer(sequence(steps, 3, 7).requires_grad_())[1].mem.sum().backward()
    assert autograd._zero_step.cache_info().currsize == 1


@pytest.mark.refused
def test_a_backward_pass_that_cannot_be_compiled_says_so_at_every_call(monkeypatch):
    def fail(*_):
        raise autograd.CompilationFailed("full disk")

    layer, x = Leaky(0.9, engine="cpp"), sequence(6, 3, 7).requires_grad_()
    outs = [layer(x)[0].sum() for _ in range(3)]
    monkeypatch.setattr(cpp, "backward_launch", fail)
    for out in outs:
        with pytest.raises(RuntimeError, match=r"can't be compiled \(full disk\); use engine='eager'"):
            out.backward()


def test_gradients_have_forward_derivatives():
    x, g, tangent = sequence(6, 3, 7).requires_grad_(), sequence(6, 3, 7, seed=1), sequence(6, 3, 7, seed=2)

    def both(layer):
        out, _ = layer(x)
        with forward_ad.dual_level():
            (d,) = torch.autograd.grad(out, x, forward_ad.make_dual(g, tangent))
            return forward_ad.unpack_dual(d)

    for make in (lambda engine: Leaky(0.9, engine=engine), lambda engine: Recurrent(Leaky(0.9, engine=engine), 7)):
        torch.manual_seed(0)
        expected = both(make("eager"))
        torch.manual_seed(0)
        layer = make("cpp")
        for _ in range(3):
            for a, b in zip(both(layer), expected, strict=True):
                torch.testing.assert_close(a, b)


def test_a_step_that_a_transform_has_wrapped_may_be_repeated():
    """Its repeated view is plain, so it looks like one of the calls before."""
    layer, x, wrapped = Leaky(0.9, engine="cpp"), sequence(3, 7).requires_grad_(), []
    torch.func.grad(lambda v: (wrapped.append(v), v.sum())[1])(x)
    expected = layer(x, repeat=6)[0]
    for one in (x, *wrapped):
        out, _ = layer(one, repeat=6)
        assert torch.equal(out, expected)
        assert torch.equal(torch.autograd.grad(out.sum(), x)[0], torch.autograd.grad(layer(x, repeat=6)[0].sum(), x)[0])
