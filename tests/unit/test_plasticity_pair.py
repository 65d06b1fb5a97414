"""Pair STDP: equal to the sum over all pairs, to its published window and to Norse's step; no graph, no surprises."""

import math
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from snnkit.plasticity import PairSTDP, STDPState, Trace, pairwise

F64 = torch.float64


def random_spikes(seed, steps, batch, pre, post, rate=0.3):
    draw = torch.Generator().manual_seed(seed)
    spikes = [(torch.rand(steps, batch, n, generator=draw) < rate).to(F64) for n in (pre, post)]
    return *spikes, torch.rand(post, pre, generator=draw, dtype=F64)


def stepwise(rule, pre, post, weight, state=None):
    for pre_t, post_t in zip(pre, post, strict=True):
        weight, state = rule.step(pre_t, post_t, weight, state)
    return weight, state


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    shape=st.tuples(*(st.integers(1, most) for most in (12, 3, 4, 3))),
    a_plus=st.floats(0, 0.5),
    a_minus=st.floats(0, 0.5),
    taus=st.tuples(st.floats(1e-3, 0.1), st.floats(1e-3, 0.1)),
    bound=st.sampled_from(["hard", "soft", None]),
    batch=st.sampled_from(["sum", "mean"]),
    engine=st.sampled_from(["eager", "cpp"]),
)
def test_it_is_the_sum_over_all_pairs(seed, shape, a_plus, a_minus, taus, bound, batch, engine):
    rule = PairSTDP(a_plus, a_minus, *taus, bound=bound, w_min=0.1, w_max=0.8, batch=batch, engine=engine)
    pre, post, weight = random_spikes(seed, *shape)
    expected = pairwise(rule, pre, post, weight)
    for got, _ in (rule.run(pre, post, weight), stepwise(rule, pre, post, weight)):
        torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("bound", ["hard", "soft", None])
def test_a_sequence_may_be_cut_anywhere(bound):
    rule = PairSTDP(0.05, 0.06, bound=bound)
    pre, post, weight = random_spikes(1, 20, 2, 5, 4)
    whole, last = rule.run(pre, post, weight)
    part, state = rule.run(pre[:7], post[:7], weight)
    part, state = stepwise(rule, pre[7:9], post[7:9], part, state)
    part, state = rule.run(pre[9:], post[9:], part, state)
    torch.testing.assert_close(part, whole, rtol=1e-12, atol=1e-12)
    for one, other in zip(state, last, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def pair_at(lag, rule):
    """What one pair with the post spike ``lag`` steps after the pre spike does."""
    pre, post = torch.zeros(41, 1, 1, dtype=F64), torch.zeros(41, 1, 1, dtype=F64)
    pre[20], post[20 + lag] = 1, 1
    weight = torch.full((1, 1), 0.5, dtype=F64)
    return (rule.run(pre, post, weight)[0] - weight).item()


@pytest.mark.parametrize("lag", [-20, -3, -1, 0, 1, 5, 20])
def test_one_pair_follows_the_window(lag):
    rule = PairSTDP(0.02, 0.03, 10e-3, 30e-3, bound=None)
    expected = 0.02 * math.exp(-lag / 10) if lag > 0 else -0.03 * math.exp(lag / 30) if lag < 0 else 0.02 - 0.03
    assert pair_at(lag, rule) == pytest.approx(expected, rel=1e-12)
    assert rule.window(lag * 1e-3) == pytest.approx(expected, rel=1e-12)


def test_spikes_of_one_step_count_on_both_sides():
    # The trace includes the present spike, so neither side can be forgotten.
    one = torch.ones(1, 1, dtype=F64)
    for a_plus, a_minus, change in ((0.1, 0.0, 0.1), (0.0, 0.2, -0.2), (0.1, 0.2, -0.1)):
        weight, _ = PairSTDP(a_plus, a_minus, bound=None).step(one, one, 0.5 * one)
        assert weight.item() == pytest.approx(0.5 + change)


def test_hard_bounds_hold_at_every_step_and_not_only_at_the_end():
    # Up beyond the bound, then down: cut off only at the end, it would still stand at the bound.
    pre, post = torch.tensor([[[1.0]], [[1.0]]]), torch.tensor([[[1.0]], [[0.0]]])
    rule = PairSTDP(0.9, 0.1, 1e-6, 1e6, w_max=1.0)
    weight, _ = rule.run(pre, post, torch.tensor([[0.9]]))
    assert weight.item() == pytest.approx(0.9)


def test_soft_bounds_are_approached_and_never_passed():
    ones = torch.ones(50, 4, 1)
    up, _ = PairSTDP(0.9, 0.0, bound="soft", w_max=0.7).run(ones, ones, torch.tensor([[0.1]]))
    down, _ = PairSTDP(0.0, 0.9, bound="soft", w_min=-0.2).run(ones, ones, torch.tensor([[0.1]]))
    assert up.item() == pytest.approx(0.7) and down.item() == pytest.approx(-0.2)
    assert up.item() <= 0.7 + 1e-7 and down.item() >= -0.2 - 1e-7


def test_the_mean_over_a_batch_of_copies_is_what_one_sample_does():
    pre, post, weight = random_spikes(2, 10, 1, 3, 2)
    alone, _ = PairSTDP().run(pre, post, weight)
    copies = [x.expand(-1, 5, -1) for x in (pre, post)]
    torch.testing.assert_close(PairSTDP(batch="mean").run(*copies, weight)[0], alone)
    summed = PairSTDP(bound=None).run(*copies, weight)[0]
    torch.testing.assert_close(summed - weight, 5 * (PairSTDP(bound=None).run(pre, post, weight)[0] - weight))


def test_traces_run_through_an_engine_that_compiles():
    pre, post, weight = random_spikes(3, 16, 2, 5, 4)
    compiled, eager = (PairSTDP(engine=e).run(pre, post, weight)[0] for e in ("cpp", "eager"))
    torch.testing.assert_close(compiled, eager, rtol=1e-12, atol=1e-12)


def test_a_trace_remembers_each_spike_by_its_age():
    out, state = Trace(20e-3)(torch.tensor([1.0, 0.0, 1.0]).double().reshape(3, 1, 1))
    decay = math.exp(-1 / 20)
    assert out.flatten().tolist() == pytest.approx([1.0, decay, decay**2 + 1])
    assert state.trace.item() == out[-1].item()


@pytest.mark.parametrize("bound", ["hard", "soft", None])
def test_autograd_sees_nothing_and_weights_are_not_written(bound):
    pre, post, weight = random_spikes(4, 6, 2, 3, 2)
    parameter = torch.nn.Parameter(weight.clone())
    spikes = post.clone().requires_grad_()
    for new, state in (
        PairSTDP(bound=bound).step(pre[0], spikes[0], parameter),
        PairSTDP(bound=bound).run(pre, spikes, parameter),
    ):
        assert not new.requires_grad and not any(trace.requires_grad for trace in state)
        assert torch.equal(parameter.detach(), weight)
        assert new.data_ptr() != parameter.data_ptr()
    with torch.inference_mode():
        same, _ = PairSTDP(bound=bound).run(pre, post, parameter)
    assert torch.equal(same, PairSTDP(bound=bound).run(pre, post, weight)[0])


@pytest.mark.parametrize("bound", ["hard", "soft", None])
def test_weights_can_be_changed_in_place(bound):
    rule = PairSTDP(0.2, 0.1, bound=bound)
    pre, post, weight = random_spikes(6, 6, 2, 3, 2)
    parameter, other, state = torch.nn.Parameter(weight.clone()), torch.empty_like(weight), None
    for pre_t, post_t in zip(pre, post, strict=True):
        into, _ = rule.step(pre_t, post_t, parameter, state, out=other)
        got, state = rule.step(pre_t, post_t, parameter, state, out=parameter)
        assert got is parameter and into is other and torch.equal(got, into)
    assert parameter.requires_grad and parameter.grad_fn is None
    torch.testing.assert_close(parameter.data, pairwise(rule, pre, post, weight), rtol=1e-12, atol=1e-12)
    for out, error, match in (
        (weight.float(), ValueError, r"out must be torch.float64 \[2, 3\] on cpu, as weight is, not torch.float32"),
        (weight.T, ValueError, r"not torch.float64 \[3, 2\]"),
        ([0.0], TypeError, "out must be a torch.Tensor, not a list"),
    ):
        with pytest.raises(error, match=match):
            rule.step(pre[0], post[0], weight, out=out)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.bfloat16, torch.float32, torch.float64])
def test_spikes_may_be_of_any_dtype(dtype):
    pre, post, weight = random_spikes(5, 8, 2, 3, 2)
    expected, _ = PairSTDP().run(pre, post, weight)
    got, state = PairSTDP().run(pre.to(dtype), post.to(dtype), weight)
    assert torch.equal(got, expected) and state.pre.dtype == F64
    assert PairSTDP().step(pre[0].to(dtype), post[0].to(dtype), weight.float())[0].dtype == torch.float32


def test_a_rule_is_a_value():
    rule = PairSTDP(0.02, bound="soft")
    assert pickle.loads(pickle.dumps(rule)) == rule != PairSTDP()


@pytest.mark.parametrize(
    ("numbers", "error", "match"),
    [
        ({"a_plus": -0.1}, ValueError, "a_plus must be at least 0, not -0.1"),
        ({"a_minus": "1"}, TypeError, "a_minus must be a number, not '1'"),
        ({"tau_plus": 0}, ValueError, "tau_plus must be above 0, not 0"),
        ({"tau_minus": math.nan}, ValueError, "tau_minus must be finite, not nan"),
        ({"dt": math.inf}, ValueError, "dt must be finite, not inf"),
        ({"w_min": 1.0}, ValueError, "w_min must be below w_max, but they are 1.0 and 1.0"),
        ({"bound": "clamp"}, ValueError, "bound must be one of 'hard', 'soft', None, not 'clamp'"),
        ({"batch": None}, ValueError, "batch must be one of 'sum', 'mean', not None"),
        ({"engine": "gpu"}, ValueError, "engine"),
    ],
)
def test_numbers_that_make_no_rule(numbers, error, match):
    with pytest.raises(error, match=match):
        PairSTDP(**numbers)


PRE, POST, WEIGHT = torch.zeros(2, 3), torch.zeros(2, 4), torch.zeros(4, 3)


@pytest.mark.parametrize(
    ("handed", "error", "match"),
    [
        ((PRE, POST, WEIGHT.half()), TypeError, "weight must be float32 or float64, not torch.float16"),
        ((PRE, POST, [[0.0]]), TypeError, r"weight must be a torch.Tensor \[n_post, n_pre\], not a list"),
        ((PRE, POST, WEIGHT[0]), ValueError, r"weight must be \[n_post, n_pre\], but its shape is \[3\]"),
        ((POST, PRE, WEIGHT), ValueError, r"pre must have the 3 neurons that weight \[4, 3\] has"),
        ((PRE, PRE, WEIGHT), ValueError, "post must have the 4 neurons"),
        ((PRE[0], POST, WEIGHT), ValueError, r"pre must be \[B, n_pre\], but its shape is \[3\]"),
        ((PRE[:1], POST, WEIGHT), ValueError, "pre and post must have the same steps and samples"),
        ((PRE[:0], POST[:0], WEIGHT), ValueError, "at least one step and one sample"),
        ((PRE, POST.to(torch.complex64), WEIGHT), TypeError, "post must hold real numbers"),
        ((PRE.to("meta"), POST, WEIGHT), ValueError, "pre is on meta and weight on cpu"),
        ((PRE, POST, WEIGHT, PRE), TypeError, "state must be an STDPState or None, not a Tensor"),
        ((PRE, POST, WEIGHT, STDPState(POST, PRE)), ValueError, r"state.pre must have the shape \[2, 3\]"),
        ((PRE, POST, WEIGHT, STDPState(PRE, POST.double())), ValueError, "state.post must be torch.float32 on cpu"),
        ((PRE, POST, WEIGHT, (PRE, 0.0)), TypeError, "its post is a float"),
    ],
)
def test_what_no_step_can_be_made_of(handed, error, match):
    with pytest.raises(error, match=match):
        PairSTDP().step(*handed)


def test_a_run_wants_time_first_and_finite_spikes():
    with pytest.raises(ValueError, match=r"pre must be \[T, B, n_pre\], but its shape is \[2, 3\]"):
        PairSTDP().run(PRE, POST, WEIGHT)
    broken = torch.full((5, 2, 3), math.nan)
    with pytest.raises(ValueError, match=r"pre must be finite, but pre\[0, 0, 0\] is nan"):
        PairSTDP().run(broken, torch.zeros(5, 2, 4), WEIGHT)
